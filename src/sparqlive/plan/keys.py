"""Decides which keys can be pushed into an operator, so that a probe costs only what it finds.

A key can be pushed if the variable's value may restrict the operator's inputs without changing its result on
the compatible solutions. This is not the case for a variable that the operator reads and may leave unbound.
"""

from __future__ import annotations

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Var


def pushable(plan: op.Operator) -> frozenset[Var]:
    """Returns the variables whose keys can be pushed into an operator.

    The result is cached on the operator itself: a lookup by its hash would cost as much as the whole plan
    below.
    """
    known: frozenset[Var] | None = plan.__dict__.get("_pushable")
    if known is None:
        known = plan.__dict__["_pushable"] = _pushable(plan)
    return known


def _pushable(plan: op.Operator) -> frozenset[Var]:
    everything = frozenset(plan.variables)
    match plan:
        case op.Scan() | op.Names() | op.Nodes() | op.Table() | op.Parameters() | op.Closure():
            return everything
        case op.Stored() | op.Shared():
            return everything
        case op.Join(parts) | op.Union(parts):
            return everything - frozenset(
                v for part in parts for v in part.variables if v not in pushable(part)
            )
        case op.Filter(condition, source):
            return pushable(source) - (source.maybe & mentioned(condition))
        case op.Extend(source, variable, expression):
            below = pushable(source) - (source.maybe & mentioned(expression))
            return below | {variable} if is_copy(plan) and expression in below else below
        case op.Project(source, columns):
            return pushable(source) & frozenset(columns)
        case op.LeftJoin(left, right, condition):
            read = frozenset(right.variables) | (
                mentioned(condition) if condition is not None else frozenset()
            )
            return pushable(left) - (left.maybe & read)
        case op.Semi(left, right, _, _) | op.Mark(left, right, _):
            return pushable(left) - (left.maybe & frozenset(right.variables))
        case op.Distinct(source):
            # A row with the variable and a row without it are different, and both may be compatible.
            return pushable(source) & source.always
        case op.Keyed() | op.Template():
            return frozenset()
    raise AssertionError(type(plan).__name__)


def is_copy(plan: op.Extend) -> bool:
    """Whether the binding copies a variable that is always bound: then both have the same key."""
    return isinstance(plan.expression, Var) and plan.expression in plan.source.always


def keys_of_flips(operator: op.LeftJoin | op.Semi | op.Mark) -> tuple[Var, ...] | None:
    """Returns the shared variables if they decide whether there is a match (Theorem 4.6), else None."""
    keys = op.shared(operator.left, operator.right)
    if not all(v in operator.left.always and v in operator.right.always for v in keys):
        return None
    if isinstance(operator, op.LeftJoin) and operator.condition is not None:
        return None
    return None if isinstance(operator, op.Semi) and operator.tests_domain else keys
