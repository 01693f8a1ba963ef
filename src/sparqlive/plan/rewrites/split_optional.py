"""Splits an OPTIONAL inside another group into a union, by whether it matches.

In A ⟕ (B ⟕_F C), C may have a variable of A that B does not have. The value in A cannot be pushed into
B ⟕_F C, because a solution of B stays alone only if it matches no C at all; so each lookup would read all of
C. It can be pushed into the parts of σ_F(B ⋈ C) + σ_¬F(B) + (σ_F(B) ▷ C), which is the same if F reads B
only. B also shares a variable with A, so a lookup finds the solutions that stay alone. B and C are patterns,
so that a plan stays about as large as its query.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Literal

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.rewrites.flatten_joins import ordered
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.sparql.algebra import Call, Constant, Var
from sparqlive.sparql.expressions import volatile_function


def split_optional(plan: op.Operator) -> op.Operator:
    return bottom_up(_split_parts, plan)


def _split_parts(plan: op.Operator) -> op.Operator:
    match plan:
        case op.Join(parts):
            split = [_split(part, _bound_beside(part, parts)) for part in parts]
            return _distributed(plan, split) if split != [*parts] else plan
        case op.TwoSided():
            left, right = plan.children
            return plan.with_children([left, _split(right, frozenset(left.variables))])
    return plan


def _distributed(plan: op.Join, parts: list[op.Operator]) -> op.Operator:
    """A ⋈ (B + C) = (A ⋈ B) + (A ⋈ C), so that a change of C leads to B through A, if one part was split."""
    changed = [number for number, part in enumerate(parts) if part is not plan.parts[number]]
    union = parts[changed[0]]
    others = [part for part in parts if part is not union]
    if len(changed) > 1 or not isinstance(union, op.Union) or not all(map(_is_pattern, others)):
        return plan.with_children(parts)
    joins = [op.Join((*others, branch)) for branch in union.parts]
    return ordered(op.Union(tuple(joins)), plan)


def _bound_beside(part: op.Operator, parts: Iterable[op.Operator]) -> frozenset[Var]:
    """The variables of the other parts of a join; none if the part is not one to split."""
    if not isinstance(part, op.LeftJoin | op.Project):
        return frozenset()
    return frozenset(v for other in parts if other is not part for v in other.variables)


def _split(plan: op.Operator, bound: frozenset[Var]) -> op.Operator:
    """Splits the operator if the plan around it binds a variable that only its right side has."""
    if isinstance(plan, op.Project):
        return plan.with_children([_split(plan.source, bound & frozenset(plan.columns))])
    if not isinstance(plan, op.LeftJoin) or not _is_pattern(plan.left) or not _is_pattern(plan.right):
        return plan
    left, right, condition = plan.left, plan.right, plan.condition
    if all(v in left.variables for v in right.variables if v in bound):
        return plan
    if bound.isdisjoint(left.variables):  # no key can look up solutions that stay alone
        return plan
    joined = op.Join((left, right))
    if condition is None:
        return op.Union((joined, op.Semi(left, right, keep=False)))
    if not mentioned(condition) <= left.always or volatile_function(condition) is not None:
        return plan
    # An error in the condition counts as false.
    fails = Call("COALESCE", (Call("!", (condition,)), Constant(Literal(True))))
    alone = op.Semi(op.Filter(condition, left), right, keep=False)
    return op.Union((op.Filter(condition, joined), op.Filter(fails, left), alone))


def _is_pattern(plan: op.Operator) -> bool:
    match plan:
        case op.Scan():
            return True
        case op.Join() | op.Filter():
            return all(_is_pattern(child) for child in plan.children)
    return False
