"""Moves filters towards the data: below OPTIONAL, MINUS, UNION, bindings and projections.

σ(A ⟕ B) = σ(A) ⟕ B and σ(A ⊖ B) = σ(A) ⊖ B, if σ reads only variables that A decides; σ(A + B) = σ(A) + σ(B)
(Theorem 3.1).
"""

from __future__ import annotations

from dataclasses import replace

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.sparql.algebra import Expression, Var


def push_filters(plan: op.Operator) -> op.Operator:
    def rule(operator: op.Operator) -> op.Operator:
        return _push(operator.condition, operator.source) if isinstance(operator, op.Filter) else operator

    return bottom_up(rule, plan)


def _push(condition: Expression, source: op.Operator) -> op.Operator:
    read = mentioned(condition)
    match source:
        case op.LeftJoin(left, right, _) if _decides(left, right, read):
            return replace(source, left=_push(condition, left))
        case op.Semi(left, _, _, _):
            return replace(source, left=_push(condition, left))
        case op.Mark(left, _, variable) if variable not in read:
            return replace(source, left=_push(condition, left))
        case op.Extend(inner, variable, _) if variable not in read:
            return replace(source, source=_push(condition, inner))
        case op.Project(inner, columns) if read <= set(columns):
            return replace(source, source=_push(condition, inner))
        case op.Distinct(inner):
            return replace(source, source=_push(condition, inner))
        case op.Group(inner, keys) if read <= set(keys):
            return replace(source, source=_push(condition, inner))
        case op.Union(parts):
            return replace(source, parts=tuple(_push(condition, part) for part in parts))
    return op.Filter(condition, source)


def _decides(left: op.Operator, right: op.Operator, read: frozenset[Var]) -> bool:
    return all(v in left.always or v not in right.variables for v in read)
