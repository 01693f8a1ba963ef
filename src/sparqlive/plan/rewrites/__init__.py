"""The rewrites of a plan, in order of application. Each is a pure function from plan to plan.

What to store is decided last, by `store_unreachable`, for each separately stored part of a plan.
"""

from __future__ import annotations

from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites.compare_by_join import compare_by_join
from sparqlive.plan.rewrites.flatten_joins import flatten_joins
from sparqlive.plan.rewrites.push_conditions import push_conditions
from sparqlive.plan.rewrites.push_filters import push_filters
from sparqlive.plan.rewrites.split_optional import split_optional
from sparqlive.plan.rewrites.sum_early import sum_early

REWRITES = (
    flatten_joins,
    push_conditions,
    push_filters,
    compare_by_join,
    split_optional,
    flatten_joins,
    sum_early,
)


def rewrite(plan: Operator) -> Operator:
    for rule in REWRITES:
        variables = plan.variables
        plan = rule(plan)
        assert plan.variables == variables, f"{rule.__name__} changed the columns"
    return plan
