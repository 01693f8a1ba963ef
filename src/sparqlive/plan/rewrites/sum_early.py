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
from sparqlive.plan.rewrites.walk import with_children
from sparqlive.sparql.algebra import Var


def sum_early(plan: op.Operator) -> op.Operator:
    return _narrow(plan, frozenset(plan.variables))


def _narrow(plan: op.Operator, read: frozenset[Var]) -> op.Operator:
    """Reduces the right sides in a plan to `read`. Its own columns stay the same."""
    match plan:
        case op.Project(source, columns):
            return replace(plan, source=_narrow(source, read & frozenset(columns)))
        case op.Filter(condition, source):
            return replace(plan, source=_narrow(source, read | mentioned(condition)))
        case op.Extend(source, _, expression):
            return replace(plan, source=_narrow(source, read | mentioned(expression)))
        case op.LeftJoin(left, right, condition):
            needed = read | (mentioned(condition) if condition is not None else frozenset())
            of_left = needed | frozenset(right.variables)
            kept = tuple(v for v in right.variables if v in needed or v in left.variables)
            right = _narrow(right, frozenset(kept))
            if kept != right.variables:
                right = op.Project(right, kept)
            narrowed = op.LeftJoin(_narrow(left, of_left), right, condition)
            return narrowed if narrowed.variables == plan.variables else _restored(narrowed, plan)
        case op.Semi(left, right, _, _) | op.Mark(left, right, _):
            of_left = read | frozenset(right.variables)
            return with_children(plan, (_narrow(left, of_left), _narrow(right, frozenset(right.variables))))
        case op.Join(parts):
            of_parts = [read | _others(parts, number) for number in range(len(parts))]
            return replace(plan, parts=tuple(map(_narrow, parts, of_parts)))
        case op.Union(parts):
            return replace(plan, parts=tuple(_narrow(part, read) for part in parts))
        case op.Template(source, _, _):
            return replace(plan, source=_narrow(source, plan.read))
        case op.Shared():
            return _narrow_shared(plan)
        case op.Keeping(source):
            return replace(plan, source=_narrow(source, frozenset(source.variables)))
    return plan


@lru_cache(maxsize=256)
def _narrow_shared(plan: op.Shared) -> op.Operator:
    return replace(plan, source=_narrow(plan.source, frozenset(plan.variables)))


def _others(parts: tuple[op.Operator, ...], number: int) -> frozenset[Var]:
    return frozenset(v for other, part in enumerate(parts) if other != number for v in part.variables)


def _restored(narrowed: op.Operator, original: op.Operator) -> op.Operator:
    """Adds the dropped columns back, unbound. No operator reads them, but the columns must stay in order."""
    return op.Project(narrowed, original.variables)
