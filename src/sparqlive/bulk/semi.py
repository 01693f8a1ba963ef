"""Evaluates EXISTS, NOT EXISTS and MINUS: left solutions that pass a test, and those whose test changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.bulk import two_sided
from sparqlive.bulk.solutions import WEIGHT, Solutions, anti, semi
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def tested(
    evaluation: Evaluation, operator: op.Semi, left: Solutions, state: State, needed: frozenset[Var]
) -> Solutions:
    """Returns the left solutions that have a match, or that have none."""
    matches, columns = two_sided.matched(
        evaluation, operator, left, two_sided.right_of(evaluation, operator, left, state)
    )
    return left.of((semi if operator.keep else anti)(left.frame, matches, columns))


def from_right(evaluation: Evaluation, operator: op.Semi, changed: Solutions) -> Solutions:
    """Computes A' ⋈ flips(B, ΔB): a left solution enters or leaves."""
    sign = "n - o" if operator.keep else "o - n"
    keys = operator.flip_keys
    if keys is None:
        return two_sided.whole_row_flips(
            evaluation, operator, changed, (f"{WEIGHT} * ({sign}) AS {WEIGHT}",)
        )[1]
    flips = two_sided.key_flips(evaluation, operator, changed, keys)
    signed = flips.of(flips.frame.select(*flips.ids, f"{sign} AS {WEIGHT}"))
    return two_sided.joined_with_left(evaluation, operator, signed)
