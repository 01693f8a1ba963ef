"""Parts of a plan that share no variable, kept apart: a plan is then the product of smaller plans.

(A ⋈ B) with no variable in common has |A|·|B| rows; kept apart it costs |A| + |B|. Ground patterns are such
a part of their own, a switch (the connected-variable decomposition of the continuous-patterns paper, for a
whole plan). OPTIONAL, MINUS and EXISTS go with the parts that they share a variable with.
"""

from __future__ import annotations

from collections.abc import Callable

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.rewrites.flatten_joins import flatten_joins
from sparqlive.sparql.algebra import Var


def independent_parts(plan: op.Operator) -> tuple[op.Operator, ...]:
    """Plans whose product is the plan, up to the order of columns; the plan alone if it is of one piece."""
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
        case op.Filter(condition, source):
            return _together(_split(source), mentioned(condition), lambda part: op.Filter(condition, part))
        case op.Extend(source, variable, expression):
            pieces = _split(source)
            return _together(
                pieces, mentioned(expression), lambda part: op.Extend(part, variable, expression)
            )
        case op.Project(source, columns):
            return [_projected(piece, columns) for piece in _split(source)]
        case op.LeftJoin(left, right, on):
            keys = frozenset(right.variables) | (mentioned(on) if on is not None else frozenset())
            return _together(_split(left), keys, lambda part: op.LeftJoin(part, right, on))
        case op.Semi(left, right, keep, domain):
            keys = frozenset(right.variables)
            return _together(_split(left), keys, lambda part: op.Semi(part, right, keep, domain))
        case op.Mark(left, right, variable):
            keys = frozenset(right.variables)
            return _together(_split(left), keys, lambda part: op.Mark(part, right, variable))
        case op.Distinct(source):
            return [op.Distinct(piece) for piece in _split(source)]
    return [plan]


def _together(
    pieces: list[op.Operator], keys: frozenset[Var], build: Callable[[op.Operator], op.Operator]
) -> list[op.Operator]:
    """The pieces, with those that have one of the keys joined into one and built upon."""
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
    """Patterns without variables are one switch."""
    ground = [piece for piece in pieces if not piece.variables]
    rest = [piece for piece in pieces if piece.variables]
    return [*rest, _joined(ground)] if ground else rest


def _projected(piece: op.Operator, columns: tuple[Var, ...]) -> op.Operator:
    return op.Project(piece, tuple(v for v in columns if v in piece.variables))
