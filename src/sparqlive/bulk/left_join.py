"""Evaluates OPTIONAL: ΔA ⟕ B from the left, A' ⋈ (ΔB + flips) from the right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.bulk import two_sided
from sparqlive.bulk.dialect import ONE, ZERO
from sparqlive.bulk.solutions import WEIGHT, Solutions, anti, column, text, united
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def tested(
    evaluation: Evaluation, operator: op.LeftJoin, left: Solutions, state: State, needed: frozenset[Var]
) -> Solutions:
    """Returns each left solution with its right matches, or alone."""
    wanted = (needed | two_sided.read_by(operator)) & frozenset(operator.right.variables)
    right = two_sided.right_of(evaluation, operator, left, state, wanted)
    if operator.flip_keys is not None:
        return _by_outer_join(left, right)
    pairs = two_sided.pairs_of(evaluation, operator, left, right)
    matches = pairs.frame.select(*(f"{two_sided.own(name)} AS {name}" for name in left.ids))
    alone = left.of(anti(left.frame, matches.broadcast(left.small), left.ids))
    result = united(
        [pairs.of(pairs.frame.select(*pairs.columns)), alone],
        op.ordered_union(left.variables, right.variables),
    )
    return replace(result, small=left.small)


def _by_outer_join(left: Solutions, right: Solutions) -> Solutions:
    """Uses an outer join, if the shared variables are always bound; NULLs become unbound."""
    shared = [column(v) for v in left.variables if v in right.variables]
    new = [v for v in right.variables if v not in left.variables]
    # The text of a shared variable is the left side's or missing: the id is the same.
    texts = [text(v) for v in new if v in right.texts]
    other = right.frame.select(*shared, *map(column, new), *texts, f"{WEIGHT} AS r_{WEIGHT}")
    joined = left.frame.join(other.broadcast(right.small), shared, "LEFT")
    frame = joined.select(
        *left.ids,
        *(f"coalesce({column(v)}, {ZERO}) AS {column(v)}" for v in new),
        *left.text_columns,
        *texts,
        f"{WEIGHT} * coalesce(r_{WEIGHT}, {ONE}) AS {WEIGHT}",
    )
    return replace(
        left,
        frame=frame,
        variables=(*left.variables, *new),
        own_text=left.own_text | (right.own_text & frozenset(new)),
        texts=left.texts | (right.texts & frozenset(new)),
    )


def from_right(evaluation: Evaluation, operator: op.LeftJoin, changed: Solutions) -> Solutions:
    """Computes A' ⋈ (ΔB + flips): reads the left side once, for matches that change and keys that flip."""
    keys = operator.flip_keys
    if keys is None:
        sign = f"{WEIGHT} * (o - n) AS {WEIGHT}"
        pairs, flipped = two_sided.whole_row_flips(evaluation, operator, changed, (sign,))
        return united([pairs, flipped], operator.variables)
    flips = two_sided.key_flips(evaluation, operator, changed, keys)
    bare = flips.of(flips.frame.select(*flips.ids, f"o - n AS {WEIGHT}"))
    both = united([changed, bare], operator.right.variables)
    return two_sided.joined_with_left(evaluation, operator, replace(both, small=changed.small))
