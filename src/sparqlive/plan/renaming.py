"""Renames variables of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparqlive.plan import operators as op
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var


def all_variables(plan: op.Operator) -> dict[Var, None]:
    """Returns the variables of a plan and of everything below it, in order."""
    found: dict[Var, None] = {}
    shared: set[op.Operator] = set()

    def walk(plan: op.Operator) -> None:
        if isinstance(plan, op.Shared):
            if plan in shared:
                return
            shared.add(plan)
        found.update(dict.fromkeys(plan.variables))
        for child in plan.children:
            walk(child)

    walk(plan)
    return found


def _rename_expression(expression: al.Expression, names: Mapping[Var, Var]) -> al.Expression:
    match expression:
        case Var():
            return names.get(expression, expression)
        case al.Call(name, arguments):
            return al.Call(name, tuple(_rename_expression(argument, names) for argument in arguments))
        case al.Aggregate(_, argument) if argument is not None:
            return replace(expression, argument=_rename_expression(argument, names))
        case _:
            return expression


def rename(plan: op.Operator, names: Mapping[Var, Var]) -> op.Operator:
    """Renames variables throughout a plan.

    An operator that occurs in two places stays one operator; an operator without these variables is returned
    unchanged.
    """
    if not names:
        return plan
    done: dict[int, op.Operator] = {}

    def renamed(operator: op.Operator) -> op.Operator:
        if id(operator) not in done:
            old = {name: getattr(operator, name) for name in al.field_names(operator)}
            changes = {name: new(item) for name, item in old.items()}
            same = all(changes[name] is item for name, item in old.items())
            done[id(operator)] = operator if same else type(operator)(**changes)
        return done[id(operator)]

    def new(item: Any) -> Any:
        if isinstance(item, Var):
            return names.get(item, item)
        if isinstance(item, al.Call | al.Aggregate):
            renamed_item = _rename_expression(item, names)
            return item if renamed_item == item else renamed_item
        if isinstance(item, op.Operator):
            return renamed(item)
        if isinstance(item, op.NamedGraphs) and item.variable in names:
            return replace(item, variable=names.get(item.variable, item.variable))
        if isinstance(item, tuple):
            parts = tuple(new(part) for part in item)
            return item if all(part is old for part, old in zip(parts, item, strict=True)) else parts
        return item

    return renamed(plan)
