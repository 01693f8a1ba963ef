"""Rebuilding a plan with other children."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sparqlive.plan import operators as op


def with_children(plan: op.Operator, children: Sequence[op.Operator]) -> op.Operator:
    """The same operator over other children; itself if they are the same."""
    if all(new is old for new, old in zip(children, plan.children, strict=True)):
        return plan
    match plan:
        case op.Join() | op.Union():
            return replace(plan, parts=tuple(children))
        case op.LeftJoin() | op.Semi() | op.Mark():
            return replace(plan, left=children[0], right=children[1])
        case op.Filter() | op.Extend() | op.Project() | op.Template() | op.Keeping():
            return replace(plan, source=children[0])
    raise AssertionError(f"{type(plan).__name__} has no children")


def bottom_up(rule: Callable[[op.Operator], op.Operator], plan: op.Operator) -> op.Operator:
    """Applies a rule to each operator, children first."""
    return rule(with_children(plan, [bottom_up(rule, child) for child in plan.children]))
