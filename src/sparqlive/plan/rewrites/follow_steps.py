"""Makes the steps of paths reachable from an end, for a plan that is evaluated once.

The steps of a path may be a union of parts into which the ends cannot be pushed, such as the resources of a
DESCRIBE. Storing those parts alone lets the other parts be looked up step by step.
"""

from __future__ import annotations

from functools import lru_cache

from sparqlive.plan import operators as op


def follow_steps(plan: op.Operator) -> op.Operator:
    return _once(plan) if isinstance(plan, op.Shared) else _followed(plan)


@lru_cache(maxsize=256)
def _once(plan: op.Shared) -> op.Operator:
    return _followed(plan)


def _followed(plan: op.Operator) -> op.Operator:
    plan = plan.with_children([follow_steps(child) for child in plan.children])
    if not isinstance(plan, op.Closure) or not isinstance(plan.source, op.Union):
        return plan
    ends = plan.source.variables[:2]
    parts = tuple(
        part if part.pushable.issuperset(ends) else op.Stored(part, tuple((end,) for end in ends))
        for part in plan.source.parts
    )
    return plan.with_children([op.Union(parts)])
