"""The modifiers of a SELECT: DISTINCT, ORDER BY, LIMIT and OFFSET.

Pure functions that define their order (SPARQL 1.1 §18.2.5) and when a window is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.expressions import volatile_function


@dataclass(frozen=True)
class Select:
    """The layers of a SELECT, from the outside in. Without `variables`, nothing is projected."""

    slice: al.Slice | None
    distinct: bool
    variables: tuple[Var, ...] | None
    keys: tuple[tuple[al.Expression, bool], ...]
    source: al.Pattern


def modifiers(pattern: al.Pattern) -> Select:
    select = Select(None, False, None, (), pattern)
    if isinstance(pattern, al.Slice):
        select = replace(select, slice=pattern)
        pattern = pattern.pattern
    if isinstance(pattern, al.Distinct | al.Reduced):
        # §18.5: REDUCED may keep all duplicates, and keeping the counts needs no state.
        select = replace(select, distinct=isinstance(pattern, al.Distinct))
        pattern = pattern.pattern
    if isinstance(pattern, al.Project):
        select = replace(select, variables=pattern.variables)
        pattern = pattern.pattern
    if isinstance(pattern, al.OrderBy):
        select = replace(select, keys=pattern.keys)
        pattern = pattern.pattern
    return replace(select, source=pattern)


def window(plan: op.Operator, keys: tuple[Var, ...], order: op.Order, cut: al.Slice) -> op.Operator:
    if cut.limit == 0:
        return op.Table(plan.variables, ())
    if cut.offset == 0 and cut.limit is None:
        return plan
    return op.Window(plan, keys, order, cut.offset, cut.limit)


def follows(variable: Var, plan: op.Operator, columns: frozenset[Var]) -> bool:
    """Whether solutions that agree on the columns also agree on a sort key."""
    while isinstance(plan, op.Extend | op.Mark) and plan.variable != variable:
        plan = plan.children[0]
    if not isinstance(plan, op.Extend):
        return False
    return mentioned(plan.expression) <= columns and volatile_function(plan.expression) is None
