"""Evaluates EXISTS inside an expression: a hidden boolean on each left solution."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyoxigraph import Literal

from sparqlive.bulk import two_sided
from sparqlive.bulk.dialect import ONE
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import WEIGHT, Solutions, column
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def tested(
    evaluation: Evaluation, operator: op.Mark, left: Solutions, state: State, needed: frozenset[Var]
) -> Solutions:
    """Marks each left solution with whether it has a match."""
    right = two_sided.right_of(evaluation, operator, left, state)
    matches, columns = two_sided.matched(evaluation, operator, left, right)
    flags = matches.distinct().select("*", "true AS found").broadcast(right.small or left.small)
    joined = left.frame.join(flags, columns, "LEFT")
    true, false = _booleans(evaluation)
    frame = joined.select(*left.columns, f"if(found, {true}, {false}) AS {column(operator.variable)}")
    return _marked(left, operator, frame)


def from_right(evaluation: Evaluation, operator: op.Mark, changed: Solutions) -> Solutions:
    """Computes A' ⋈ flips: a flipped left solution leaves with its old mark and enters with the new one."""
    keys = operator.flip_keys
    if keys is None:
        flipped = two_sided.whole_row_flips(evaluation, operator, changed, (WEIGHT, "o", "n"))[1]
        both = _both_marks(evaluation, operator, flipped, WEIGHT)
        return _marked(flipped, operator, both)
    flips = two_sided.key_flips(evaluation, operator, changed, keys)
    marked = _marked(flips, operator, _both_marks(evaluation, operator, flips, ONE))
    return two_sided.joined_with_left(evaluation, operator, marked)


def _both_marks(evaluation: Evaluation, operator: op.Mark, flips: Solutions, weight: str) -> Frame:
    true, false = _booleans(evaluation)
    name, others = column(operator.variable), [*flips.ids, *flips.text_columns]
    old = flips.frame.select(*others, f"if(o = {ONE}, {true}, {false}) AS {name}", f"-{weight} AS {WEIGHT}")
    new = flips.frame.select(*others, f"if(n = {ONE}, {true}, {false}) AS {name}", f"{weight} AS {WEIGHT}")
    return old.union(new)


def _marked(left: Solutions, operator: op.Mark, frame: Frame) -> Solutions:
    variable = operator.variable
    return replace(
        left,
        frame=frame,
        variables=(*left.variables, variable),
        always=left.always | {variable},
        own_text=left.own_text | {variable},
    )


def _booleans(evaluation: Evaluation) -> tuple[str, str]:
    id_of = evaluation.quads.id_of
    return literal(id_of(Literal(True))), literal(id_of(Literal(False)))
