"""Evaluates OPTIONAL, EXISTS and MINUS: ΔA tested against B, and A' ⋈ flips (Theorem 4.6).

If the shared variables are always bound on both sides, they are the keys of the test. Otherwise whole left
solutions are the keys: those compatible with a changed right one are tested before and after the change. This
covers all schemas at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from sparqlive.bulk import extend, join
from sparqlive.bulk.dialect import ONE, ZERO
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, keys_of, restricted, summed
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

Tested: TypeAlias = "Callable[[Evaluation, Any, Solutions, State, frozenset[Var]], Solutions]"
"""Computes an operator's results for left solutions, given the state of the right side."""


def content(
    tested: Tested,
    evaluation: Evaluation,
    operator: op.TwoSided,
    state: State,
    needed: frozenset[Var],
    keys: Keys | None,
) -> Solutions:
    left = evaluation.content(operator.left, state, needed | read_by(operator), keys)
    return tested(evaluation, operator, evaluation.share(left), state, needed)


def read_by(operator: op.TwoSided) -> frozenset[Var]:
    """Returns the variables of both sides that decide about matches."""
    condition = operator.condition if isinstance(operator, op.LeftJoin) else None
    return frozenset(operator.shared) | (mentioned(condition) if condition is not None else frozenset())


def right_of(
    evaluation: Evaluation,
    operator: op.TwoSided,
    left: Solutions,
    state: State,
    needed: frozenset[Var] | None = None,
) -> Solutions:
    """Returns the right side, as far as the left solutions can reach it."""
    keys = keys_of(left).only(operator.right.pushable) if left.small else None
    wanted = frozenset(operator.right.variables) if needed is None else needed
    return evaluation.content(operator.right, state, wanted, keys)


def matched(
    evaluation: Evaluation, operator: op.TwoSided, left: Solutions, right: Solutions
) -> tuple[Frame, list[str]]:
    """Returns what left solutions with a match have, and the columns by which to compare."""
    keys = operator.flip_keys
    if keys is not None:
        columns = [column(v) for v in keys]
        frame = right.frame.select(*columns) if columns else right.frame.first_row().select()
        return frame.broadcast(right.small or not columns), columns
    pairs = pairs_of(evaluation, operator, left, right)
    frame = pairs.frame.select(*(f"{own(name)} AS {name}" for name in left.ids))
    return frame.broadcast(left.small), left.ids


def own(name: str) -> str:
    """Names a column of the left solution as it was before the join."""
    return f"own_{name}"


def own_columns(left: Solutions) -> list[str]:
    return [own(name) for name in left.columns]


def pairs_of(evaluation: Evaluation, operator: op.TwoSided, left: Solutions, right: Solutions) -> Solutions:
    """Returns the left and right solutions that match, with the columns that the left one had."""
    kept = left.of(left.frame.select("*", *(f"{name} AS {own(name)}" for name in left.columns)))
    domain = operator.domain if isinstance(operator, op.Semi) and operator.tests_domain else None
    if domain is None:
        pairs = join.join(kept, right, own_columns(left))
        condition = operator.condition if isinstance(operator, op.LeftJoin) else None
        return pairs if condition is None else extend.filtered(evaluation, pairs, condition)
    copies = [f"d_{column(v)}" for v in domain]
    other = right.of(right.frame.select("*", *(f"{column(v)} AS d_{column(v)}" for v in domain)))
    pairs = join.join(kept, other, [*own_columns(left), *copies])
    common = " OR ".join(f"({own(column(v))} <> {ZERO} AND d_{column(v)} <> {ZERO})" for v in domain)
    return pairs.of(pairs.frame.where(common or "false"))


# From the right side


def joined_with_left(evaluation: Evaluation, operator: op.TwoSided, right: Solutions) -> Solutions:
    wanted = frozenset((*operator.left.variables, *right.variables))
    return join.outward(evaluation, right, [(operator.left, State.NEW)], wanted)


def key_flips(
    evaluation: Evaluation, operator: op.TwoSided, changed: Solutions, keys: tuple[Var, ...]
) -> Solutions:
    """Returns the changed keys whose having a match changes: old `o` and new `n`, each 0 or 1."""
    touched = Keys(changed.frame, keys, changed.small)
    columns = [column(v) for v in keys]
    frames = []
    for state, flags in (
        (State.OLD, (f"{ONE} AS o", f"{ZERO} AS n")),
        (State.NEW, (f"{ZERO} AS o", f"{ONE} AS n")),
    ):
        reached = touched.only(operator.right.pushable)
        right = evaluation.content(operator.right, state, frozenset(keys), reached)
        frame = restricted(right.frame, touched, keys) if columns else right.frame.first_row()
        frames.append(frame.select(*columns, *flags))
    both = frames[0].union(frames[1]).grouped(columns, "max(o) AS o", "max(n) AS n").where("o <> n")
    plain = changed.plain & frozenset(keys)
    return evaluation.share(Solutions(both, keys, always=frozenset(keys), plain=plain, small=changed.small))


def whole_row_flips(
    evaluation: Evaluation, operator: op.TwoSided, changed: Solutions, outputs: Sequence[str]
) -> tuple[Solutions, Solutions]:
    """Returns pairs of new left and changed right solutions, and left solutions whose having a match changes.

    `outputs`: expressions over the weight and over `o` and `n`, which say whether there was and is a match.
    """
    reached = keys_of(changed).only(operator.left.pushable)
    left = summed(evaluation.content(operator.left, State.NEW, frozenset(operator.left.variables), reached))
    pairs = pairs_of(evaluation, operator, left, changed)
    pairs = replace(pairs, small=changed.small)
    touched = _left_of(left, pairs, ())
    touched = evaluation.share(replace(touched, frame=touched.frame.distinct(), small=changed.small))
    frames = []
    for state, flags in (
        (State.OLD, (f"{ONE} AS o", f"{ZERO} AS n")),
        (State.NEW, (f"{ZERO} AS o", f"{ONE} AS n")),
    ):
        right = right_of(evaluation, operator, touched, state)
        frames.append(_left_of(left, pairs_of(evaluation, operator, touched, right), flags).frame)
    texts = [f"max({name}) AS {name}" for name in left.text_columns]
    both = (
        frames[0]
        .union(frames[1])
        .grouped([*left.ids, WEIGHT], *texts, "max(o) AS o", "max(n) AS n")
        .where("o <> n")
    )
    flipped = replace(left, frame=both.select(*left.ids, *left.text_columns, *outputs), small=changed.small)
    bare = pairs.of(pairs.frame.select(*pairs.columns))
    return bare, flipped


def _left_of(left: Solutions, pairs: Solutions, flags: Sequence[str]) -> Solutions:
    return left.of(pairs.frame.select(*(f"{own(name)} AS {name}" for name in left.columns), *flags))
