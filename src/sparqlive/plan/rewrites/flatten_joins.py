"""Flattens joins of joins into one join, and lifts filters, bindings and projections above it.

A ⋈ (B ⋈ C) = A ⋈ B ⋈ C;  A ⋈ σ(B) = σ(A ⋈ B);  A ⋈ π(B) = π(A ⋈ B). A flat join can start from any of its
patterns. A filter or binding is lifted only if it sees the same values above the join.
"""

from __future__ import annotations

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.sparql.algebra import Expression, Var


def flatten_joins(plan: op.Operator) -> op.Operator:
    return bottom_up(_flatten, plan)


def _flatten(plan: op.Operator) -> op.Operator:
    if not isinstance(plan, op.Join):
        return plan
    parts = [part for part in plan.parts if part != op.UNIT]
    if not parts:
        return op.UNIT
    for number, part in enumerate(parts):
        others = [*parts[:number], *parts[number + 1 :]]
        match part:
            case op.Join(inner):
                return _flatten(op.Join((*parts[:number], *inner, *parts[number + 1 :])))
            case op.Filter(condition, source) if _sees_the_same(condition, source, others):
                inner = (*parts[:number], source, *parts[number + 1 :])
                return ordered(op.Filter(condition, _flatten(op.Join(inner))), plan)
            case op.Extend(source, variable, expression) if _sees_the_same(
                expression, source, others
            ) and not any(variable in other.variables for other in others):
                inner = (*parts[:number], source, *parts[number + 1 :])
                return ordered(op.Extend(_flatten(op.Join(inner)), variable, expression), plan)
            case op.Project(source, columns) if _only_drops(source, columns, others):
                inner = (*parts[:number], source, *parts[number + 1 :])
                return projected(_flatten(op.Join(inner)), plan.variables)
    if len(parts) == 1:
        return ordered(parts[0], plan)
    return ordered(op.Join(tuple(parts)), plan)


def _sees_the_same(expression: Expression, source: op.Operator, others: list[op.Operator]) -> bool:
    """Whether no other part binds a variable that the expression may find unbound in its source."""
    return not any(
        variable in other.variables
        for variable in mentioned(expression)
        if variable not in source.always
        for other in others
    )


def _only_drops(source: op.Operator, columns: tuple[Var, ...], others: list[op.Operator]) -> bool:
    dropped = set(source.variables) - set(columns)
    if any(variable in dropped for other in others for variable in other.variables):
        return False
    return set(columns) <= set(source.variables)


def ordered(plan: op.Operator, original: op.Operator) -> op.Operator:
    """Restores the order of columns, which other operators rely on."""
    return plan if plan.variables == original.variables else projected(plan, original.variables)


def projected(plan: op.Operator, columns: tuple[Var, ...]) -> op.Operator:
    """Merges two projections into one. Otherwise every outer join would lift the whole stack again."""
    if isinstance(plan, op.Project) and set(columns) <= set(plan.columns):
        plan = plan.source
    return op.Project(plan, columns)
