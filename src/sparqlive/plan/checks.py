"""What a query may be: unknown and volatile functions are refused, and what is too large to be planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from sparqlive.errors import Unsupported
from sparqlive.sparql import algebra as al
from sparqlive.sparql.expressions import check_expression, volatile_function


@contextmanager
def within_reach() -> Iterator[None]:
    """Refuses a query whose parts are nested deeper than Python's calls: each part of a join is, too."""
    try:
        yield
    except RecursionError:
        raise Unsupported(
            "The query is nested too deeply, or joins more than about a hundred patterns: split it, for "
            "example into views of CONSTRUCT queries that are read as graphs (GRAPH <view:name>)."
        ) from None


def check_functions(query: al.Query, volatile: bool) -> None:
    """Refuses unknown functions; and volatile ones unless they are allowed."""
    for call in calls_in(query.pattern):
        check_expression(call)
        name = volatile_function(call)
        if name is not None and not volatile:
            raise Unsupported(
                f"{name}() gives another value each time, so a view of it cannot be kept fresh: "
                f"use it in a one-off query, or put its value into the data."
            )


def calls_in(item: Any) -> Iterator[al.Call]:
    """The outermost calls of all expressions, those inside EXISTS included."""
    if isinstance(item, al.Call):
        yield item
    if isinstance(item, tuple):
        for part in item:
            yield from calls_in(part)
    elif is_dataclass(item):
        for field in fields(item):
            yield from calls_in(getattr(item, field.name))
