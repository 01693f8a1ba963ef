"""Inspects and rewrites expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var


def conjuncts(expression: al.Expression) -> Iterator[al.Expression]:
    """Yields the parts of a conjunction: a filter holds if all of them hold."""
    match expression:
        case al.Call("&&", (left, right)):
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield expression


def mentioned(expression: al.Expression) -> frozenset[Var]:
    """Returns all variables of an expression, including those in the patterns of EXISTS."""
    return variables_in(expression)


def variables_in(item: al.Expression | al.Pattern) -> frozenset[Var]:
    """Returns all variables of an expression or pattern that an outer solution could bind."""
    return frozenset(_variables_in(item))


def _variables_in(item: Any) -> Iterator[Var]:
    if isinstance(item, Var):
        yield item
    elif isinstance(item, al.Project):  # only the projected variables of a sub-SELECT are visible
        yield from item.variables
    else:
        for part in al.parts_of(item):
            yield from _variables_in(part)


def contains_exists(expression: al.Expression) -> bool:
    if isinstance(expression, al.Call):
        return any(contains_exists(argument) for argument in expression.arguments)
    return isinstance(expression, al.Exists)


def replace_exists(expression: al.Expression, mark: Callable[[al.Pattern], Var]) -> al.Expression:
    match expression:
        case al.Exists(body):
            return mark(body)
        case al.Call(name, arguments):
            return al.Call(name, tuple(replace_exists(argument, mark) for argument in arguments))
        case _:
            return expression
