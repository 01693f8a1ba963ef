"""Prepares a query that is evaluated once instead of being kept fresh.

NOW() is the same moment for the whole query (§17.4.5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from sparqlive.errors import Unsupported
from sparqlive.plan.checks import calls_in
from sparqlive.sparql import algebra as al
from sparqlive.sparql.expressions import compile_expression


def fixed(query: al.Query) -> al.Query:
    @cache
    def moment() -> al.Constant:
        return al.Constant(compile_expression(al.Call("NOW", ()), ())(()).term)

    def fix(item: Any) -> Any:
        match item:
            case al.Call("NOW", ()):
                return moment()
            case al.Service():
                return item  # the endpoint has its own clock
        return with_parts(item, fix)

    if not any(call.name == "NOW" for call in calls_in(query.pattern)):
        return query
    return replace(query, pattern=fix(query.pattern))


def without_services(query: al.Query) -> al.Query:
    """Rejects SERVICE in an update, which holds the lock, so that no endpoint is asked.

    SERVICE SILENT has one solution without bindings, as if the endpoint could not be reached (Federated Query
    §2.2).
    """

    def leave_out(item: Any) -> Any:
        match item:
            case al.Service(_, _, True):
                return al.BasicPattern(())
            case al.Service(name):
                raise Unsupported(
                    f"SERVICE {name} is not supported in an update. Query the endpoint first and insert the "
                    f"result, or write SERVICE SILENT to continue without it."
                )
        return with_parts(item, leave_out)

    return replace(query, pattern=leave_out(query.pattern))


def with_parts(item: Any, new: Callable[[Any], Any]) -> Any:
    """Rebuilds a pattern or expression with new parts; returns it unchanged if all parts are the same."""
    if isinstance(item, tuple):
        parts = tuple(new(part) for part in item)
        return item if all(a is b for a, b in zip(parts, item, strict=True)) else parts
    if isinstance(item, al.Var):
        return item
    changes = {}
    for name in al.field_names(item):
        old = getattr(item, name)
        part = new(old)
        if part is not old:
            changes[name] = part
    return replace(item, **changes) if changes else item
