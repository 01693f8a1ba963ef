"""Moves filters towards the data: below OPTIONAL, MINUS, UNION, bindings and projections.

σ(A ⟕ B) = σ(A) ⟕ B and σ(A ⊖ B) = σ(A) ⊖ B, if σ reads only variables that A decides; σ(A + B) = σ(A) + σ(B)
(Theorem 3.1). Each operator says which of its inputs a filter may move to.
"""

from __future__ import annotations

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.sparql.algebra import Expression


def push_filters(plan: op.Operator) -> op.Operator:
    def rule(operator: op.Operator) -> op.Operator:
        return _push(operator.condition, operator.source) if isinstance(operator, op.Filter) else operator

    return bottom_up(rule, plan)


def _push(condition: Expression, source: op.Operator) -> op.Operator:
    inputs = source.inputs_to_filter(mentioned(condition))
    if not inputs:
        return op.Filter(condition, source)
    children = enumerate(source.children)
    return source.with_children(
        [_push(condition, child) if number in inputs else child for number, child in children]
    )
