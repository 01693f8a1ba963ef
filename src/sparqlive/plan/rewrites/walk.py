"""Walks through a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparqlive.plan import operators as op


def bottom_up(rule: Callable[[op.Operator], op.Operator], plan: op.Operator) -> op.Operator:
    """Applies a rule to each operator, children first; to shared operators, once."""
    done: dict[op.Shared, op.Operator] = {}

    def walk(plan: op.Operator) -> op.Operator:
        if isinstance(plan, op.Shared) and plan in done:
            return done[plan]
        children = plan.children
        new = rule(plan.with_children([walk(child) for child in children]) if children else plan)
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
