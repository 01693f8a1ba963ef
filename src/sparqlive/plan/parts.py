"""Splits a plan into parts that share no variable, so that the plan is the product of smaller plans.

(A ⋈ B) without shared variables has |A|·|B| rows; stored separately, it costs |A| + |B|. Ground patterns form
a part of their own, a switch. This is the connected-variable decomposition of the continuous-patterns paper,
applied to a whole plan. OPTIONAL, MINUS and EXISTS belong to the parts with which they share a variable.
"""

from __future__ import annotations

from collections.abc import Callable

from sparqlive.plan import operators as op
from sparqlive.plan.rewrites.flatten_joins import flatten_joins
from sparqlive.sparql.algebra import Var


def independent_parts(plan: op.Operator) -> tuple[op.Operator, ...]:
    """Returns plans whose product is the plan, up to the order of columns.

    A connected plan is its only part.
    """
    parts = _split(plan)
    if len(parts) == 1:
        return (plan,)
    return tuple(piece for part in parts for piece in independent_parts(flatten_joins(part)))


def _split(plan: op.Operator) -> list[op.Operator]:
    match plan:
        case op.Join(parts):
            pieces: list[op.Operator] = []
            for part in parts:
                for piece in _split(part):
                    pieces = _together(pieces, frozenset(piece.variables), _joined_with(piece))
            return _ground_together(pieces)
        case op.Filter() | op.Extend() | op.TwoSided():
            first, *others = plan.children
            return _together(_split(first), plan.reads, lambda part: plan.with_children([part, *others]))
        case op.Project(source, columns):
            return [_projected(piece, columns) for piece in _split(source)]
        case op.Distinct(source):
            return [op.Distinct(piece) for piece in _split(source)]
    return [plan]


def _together(
    pieces: list[op.Operator], keys: frozenset[Var], build: Callable[[op.Operator], op.Operator]
) -> list[op.Operator]:
    """Joins the pieces that have one of the keys, and builds the operator on the result."""
    touched = [piece for piece in pieces if keys.intersection(piece.variables)]
    rest = [piece for piece in pieces if piece not in touched and piece != op.UNIT]
    return [*rest, build(_joined(touched))]


def _joined_with(piece: op.Operator) -> Callable[[op.Operator], op.Operator]:
    return lambda part: piece if part == op.UNIT else _joined([part, piece])


def _joined(pieces: list[op.Operator]) -> op.Operator:
    if not pieces:
        return op.UNIT
    return pieces[0] if len(pieces) == 1 else op.Join(tuple(pieces))


def _ground_together(pieces: list[op.Operator]) -> list[op.Operator]:
    """Joins the patterns without variables into one switch."""
    ground = [piece for piece in pieces if not piece.variables]
    rest = [piece for piece in pieces if piece.variables]
    return [*rest, _joined(ground)] if ground else rest


def _projected(piece: op.Operator, columns: tuple[Var, ...]) -> op.Operator:
    return op.Project(piece, tuple(v for v in columns if v in piece.variables))
