"""Projects unused variables away and sums their solutions, where deltas are collected.

π_X(A ⟕ B) = π_X(A ⟕ π(B)) and so on, where π keeps the variables that are read above and those that are
shared. Inside a join, executors sum variables away themselves, in join order. This rule covers the other
places where a delta is collected: the right sides of OPTIONAL, and the input of DISTINCT.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Var


def sum_early(plan: op.Operator) -> op.Operator:
    return _narrow(plan, frozenset(plan.variables))


def _narrow(plan: op.Operator, read: frozenset[Var]) -> op.Operator:
    """Reduces the right sides in a plan to `read`. Its own columns stay the same."""
    match plan:
        case op.LeftJoin(left, right, condition):
            needed = read | (mentioned(condition) if condition is not None else frozenset())
            kept = tuple(v for v in right.variables if v in needed or v in left.variables)
            of_left, _ = plan.needed_below(read)
            right = _narrow(right, frozenset(kept))
            if kept != right.variables:
                right = op.Project(right, kept)
            narrowed = op.LeftJoin(_narrow(left, of_left), right, condition)
            return narrowed if narrowed.variables == plan.variables else _restored(narrowed, plan)
        case op.Shared():
            return _narrow_shared(plan)
    return plan.with_children(list(map(_narrow, plan.children, plan.needed_below(read))))


@lru_cache(maxsize=256)
def _narrow_shared(plan: op.Shared) -> op.Operator:
    return replace(plan, source=_narrow(plan.source, frozenset(plan.variables)))


def _restored(narrowed: op.Operator, original: op.Operator) -> op.Operator:
    """Adds the dropped columns back, unbound. No operator reads them, but the columns must stay in order."""
    return op.Project(narrowed, original.variables)
