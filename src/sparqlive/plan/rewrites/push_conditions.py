"""Turns a condition of OPTIONAL that reads only the right side into a filter of the right side.

L ⟕_F R = L ⟕ σ_F(R) if F sees the same values in R as in the joined solution. Then the keys of the left join
are the shared variables instead of whole left solutions.
"""

from __future__ import annotations

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import conjuncts, mentioned
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.sparql.algebra import Call, Expression, combined


def push_conditions(plan: op.Operator) -> op.Operator:
    return bottom_up(_push, plan)


def _push(plan: op.Operator) -> op.Operator:
    if not isinstance(plan, op.LeftJoin) or plan.condition is None:
        return plan
    left, right = plan.left, plan.right
    kept: list[Expression] = []
    for part in conjuncts(plan.condition):
        if all(v in right.always or v not in left.variables for v in mentioned(part)):
            right = op.Filter(part, right)
        else:
            kept.append(part)
    condition = combined(lambda a, b: Call("&&", (a, b)), kept) if kept else None
    return op.LeftJoin(left, right, condition)
