"""The rewrites of a plan, in the order in which they are applied: pure functions, plan in, plan out.

What must be stored is decided last, by `store_unreachable`, on each part of a plan that is kept apart.
"""

from __future__ import annotations

from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites.flatten_joins import flatten_joins
from sparqlive.plan.rewrites.push_conditions import push_conditions
from sparqlive.plan.rewrites.push_filters import push_filters
from sparqlive.plan.rewrites.sum_early import sum_early

REWRITES = (flatten_joins, push_conditions, push_filters, flatten_joins, sum_early)


def rewrite(plan: Operator) -> Operator:
    for rule in REWRITES:
        variables = plan.variables
        plan = rule(plan)
        assert plan.variables == variables, f"{rule.__name__} changed the columns"
    return plan
