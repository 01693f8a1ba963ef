"""Spelling: what two queries may differ in and still be one, such as the names of variables nobody sees.

Invariant: where the spelt plans of two queries of one form are equal, so are their results, column by column.
"""

from __future__ import annotations

from typing import TypeAlias

from sparqlive.plan.expressions import all_variables, rename
from sparqlive.plan.operators import Listing, Operator, Order, kept_of
from sparqlive.plan.rewrites import rewrite
from sparqlive.sparql.algebra import Var

Spelt: TypeAlias = tuple[int, Operator, tuple[Var, ...], Order]
"""A hash of the rest, so that most are told apart at once; what is kept, its hidden variables numbered; the
columns shown; the order of listing."""


def spelt(plan: Operator) -> Spelt:
    hidden = [variable for variable in all_variables(plan) if variable not in plan.variables]
    plan = rename(plan, {variable: Var(f".{number}") for number, variable in enumerate(hidden)})
    order = plan.order if isinstance(plan, Listing) else ()
    kept = rewrite(kept_of(plan))
    return hash((kept, plan.variables, order)), kept, plan.variables, order
