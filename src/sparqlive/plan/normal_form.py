"""Normalises plans, so that queries that differ only in details such as hidden variable names are equal.

Invariant: if the normalised plans of two queries of one form are equal, so are their results, column by
column.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from sparqlive.plan.operators import Listing, Operator, Order, kept_of
from sparqlive.plan.renaming import rename
from sparqlive.plan.rewrites import rewrite
from sparqlive.sparql.algebra import Var

Spelling: TypeAlias = tuple[int, Operator, tuple[Var, ...], Order]
"""Four parts: a hash of the others, for quick comparison; the stored plan, its hidden variables numbered; the
visible columns; the order of listing.
"""


def spelling_of(plan: Operator) -> Spelling:
    mentioned: dict[Var, None] = {}
    _gather(plan, mentioned, set())
    visible = set(plan.variables)
    hidden = [variable for variable in mentioned if variable not in visible]
    plan = rename(plan, {variable: Var(f".{number}") for number, variable in enumerate(hidden)})
    order = plan.order if isinstance(plan, Listing) else ()
    kept = rewrite(kept_of(plan))
    return hash((kept, plan.variables, order)), kept, plan.variables, order


def _gather(item: Any, found: dict[Var, None], seen: set[int]) -> None:
    """Collects all variables in plan order, including those that only an expression mentions."""
    if isinstance(item, Var):
        found[item] = None
    elif isinstance(item, tuple):
        for part in item:
            _gather(part, found, seen)
    elif is_dataclass(item) and id(item) not in seen:
        seen.add(id(item))  # an operator may occur in two places
        for field in fields(item):
            _gather(getattr(item, field.name), found, seen)
