"""Variables that nobody reads are projected away, and their solutions summed, where deltas are gathered.

π_X(A ⟕ B) = π_X(A ⟕ π(B)) and so on, with π keeping what is read above and what is shared. Inside a join the
executors sum variables away themselves, in the order in which they run it; this rule serves the places
where a delta is collected: the right sides of OPTIONAL, and what DISTINCT counts.
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
    """The plan with its right sides reduced to `read`; its own columns stay as they are."""
    match plan:
        case op.Project(source, columns):
            return replace(plan, source=_narrow(source, read & frozenset(columns)))
        case op.Filter(condition, source):
            return replace(plan, source=_narrow(source, read | mentioned(condition)))
        case op.Extend(source, _, expression):
            return replace(plan, source=_narrow(source, read | mentioned(expression)))
        case op.LeftJoin(left, right, condition):
            wanted = read | (mentioned(condition) if condition is not None else frozenset())
            of_left = wanted | frozenset(right.variables)
            kept = tuple(v for v in right.variables if v in wanted or v in left.variables)
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
    """Columns that were dropped come back, never bound: nobody reads them, but the order of columns stays."""
    return op.Project(narrowed, original.variables)
