"""Walks through a plan, and rebuilds it with other children."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sparqlive.plan import operators as op


def with_children(plan: op.Operator, children: Sequence[op.Operator]) -> op.Operator:
    """Returns the operator with other children; itself if they are the same."""
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
    """Applies a rule to each operator, children first; to shared operators, once."""
    done: dict[op.Shared, op.Operator] = {}

    def walk(plan: op.Operator) -> op.Operator:
        if isinstance(plan, op.Shared) and plan in done:
            return done[plan]
        children = plan.children
        new = rule(with_children(plan, [walk(child) for child in children]) if children else plan)
        if isinstance(plan, op.Shared):
            done[plan] = new
        return new

    return walk(plan)


def operators_of(plan: op.Operator) -> Iterator[op.Operator]:
    """Yields all operators of a plan; those below a shared one, once."""
    shared: set[op.Operator] = set()
    to_visit = [plan]
    while to_visit:
        plan = to_visit.pop()
        yield plan
        if isinstance(plan, op.Shared):
            if plan in shared:
                continue
            shared.add(plan)
        to_visit += plan.children
