"""Evaluates joins: compatible solutions with multiplied weights, and the order in which parts are joined.

Variables that both sides always bind are plain keys. For a variable that may be unbound, each side offers the
keys that its schema can match: its value, "the other side has none" (0) and, if it has a value, "you have
none" (1, an id that no variable is ever bound to). Each compatible pair matches in exactly one of them. The
split by schema (§4.5.3 of the counting paper) thus becomes one equi-join, without a disjunction and without
evaluating a side once per schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparqlive.bulk.dialect import ONE, ZERO
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, keys_of, narrowed, summed, text
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

Factor = tuple[op.Operator, State]


def content(
    evaluation: Evaluation, operator: op.Join, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    return outward(evaluation, None, [(part, state) for part in operator.parts], needed, keys)


def outward(
    evaluation: Evaluation,
    start: Solutions | None,
    factors: Sequence[Factor],
    needed: frozenset[Var],
    keys: Keys | None = None,
) -> Solutions:
    """Joins `start` (or the keys) with the factors, outward.

    Variables that are not read later are summed away before the next join, unless few rows are expected.
    """
    remaining = list(factors)
    running, is_to_sum = start, False
    while remaining:
        bound = frozenset(running.variables if running is not None else keys.variables if keys else ())
        sizes = [plan.estimate(bound, lambda scan, bound: None) for plan, _ in remaining]
        position = sizes.index(min(sizes))
        plan, state = remaining.pop(position)
        others = frozenset(v for other, _ in remaining for v in other.variables)
        before = frozenset(running.variables) if running is not None else frozenset()
        if running is not None:
            if is_to_sum:
                running = summed(_where_joined(running, plan))
            running = evaluation.held(evaluation.share(running) if plan.children else running)
        part = _part(evaluation, running, plan, state, needed | others | before, keys)
        running = part if running is None else join(running, part)
        wanted = needed | others
        is_many = len(remaining) >= evaluation.backend.joins_after_sum and not running.small
        is_to_sum = is_many and not wanted.issuperset(running.variables)
        running = narrowed(running, wanted, sums=False)
    assert running is not None
    return running


def _where_joined(running: Solutions, plan: op.Operator) -> Solutions:
    """Distributes the rows as the next join needs them, so that their sum needs no second shuffle."""
    keys = [column(v) for v in running.variables if v in running.always and v in plan.always]
    return running.of(running.frame.distributed(*keys)) if keys else running


def _part(
    evaluation: Evaluation,
    running: Solutions | None,
    plan: op.Operator,
    state: State,
    wanted: frozenset[Var],
    keys: Keys | None,
) -> Solutions:
    """Evaluates a factor, restricted by the rows so far; a scanned leaf is restricted by the join itself."""
    reached = keys_of(running).only(plan.pushable) if running is not None and running.small else None
    if reached is not None and not plan.children and evaluation.quads.lookup is None:
        return evaluation.content(plan, state, wanted, None)
    part = evaluation.content(plan, state, wanted, reached or keys)
    return narrowed(part, wanted, sums=not part.small)


def join(left: Solutions, right: Solutions, extras: Sequence[str] = ()) -> Solutions:
    """Joins compatible left and right solutions. `extras`: further columns of either side to keep."""
    both = [v for v in left.variables if v in right.variables]
    hard = [column(v) for v in both if v in left.always and v in right.always]
    soft = [v for v in both if v not in left.always or v not in right.always]
    left_frame, right_frame = left.frame, _right_side(right, both, soft, extras)
    keys = list(hard)
    for number, variable in enumerate(soft):
        key = f"k_{number}"
        left_frame = _left_keys(left_frame, left, right, variable, key)
        right_frame = _right_keys(right_frame, left, right, variable, key)
        keys.append(key)
    left_frame = left_frame.broadcast(left.small and not right.small)
    joined = left_frame.join(right_frame.broadcast(right.small), keys)
    return _merged(left, right, soft, joined, bool(hard or soft), extras)


def _right_side(right: Solutions, both: list[Var], soft: list[Var], extras: Sequence[str]) -> Frame:
    """Renames the right columns so that they differ from the left ones, except for plain keys."""
    columns = [f"{column(v)} AS r_{column(v)}" if v in soft else column(v) for v in right.variables]
    columns += [f"{text(v)} AS r_{text(v)}" if v in both else text(v) for v in right.texts]
    own = [name for name in extras if name in right.frame.columns]
    return right.frame.select(*columns, *own, f"{WEIGHT} AS r_{WEIGHT}")


def _left_keys(frame: Frame, left: Solutions, right: Solutions, variable: Var, key: str) -> Frame:
    """Adds the keys that left rows offer for a variable that may be unbound."""
    name = column(variable)
    value = f"if({name} = {ZERO}, {ONE}, {name})"
    if variable in right.always:
        return frame.select("*", f"{value} AS {key}")
    return frame.exploded(key, name if variable in left.always else value, ZERO)


def _right_keys(frame: Frame, left: Solutions, right: Solutions, variable: Var, key: str) -> Frame:
    name = f"r_{column(variable)}"
    if variable in left.always:
        return frame.select("*", f"{name} AS {key}")
    if variable in right.always:
        return frame.exploded(key, name, ONE)
    return frame.exploded(key, name, f"if({name} = {ZERO}, NULL, {ONE})").where(f"{key} IS NOT NULL")


def _merged(
    left: Solutions,
    right: Solutions,
    soft: list[Var],
    joined: Frame,
    connected: bool,
    extras: Sequence[str],
) -> Solutions:
    variables = op.ordered_union(left.variables, right.variables)
    texts = left.texts | right.texts
    ids = [
        f"if({column(v)} = {ZERO}, r_{column(v)}, {column(v)}) AS {column(v)}" if v in soft else column(v)
        for v in variables
    ]
    own_texts = [_text(left, right, v) for v in variables if v in texts]
    weight = f"{WEIGHT} * r_{WEIGHT} AS {WEIGHT}"
    own_text = frozenset(v for v in variables if _has_own_text(left, right, v))
    small = (left.small and right.small) or (connected and (left.small or right.small))
    return Solutions(
        joined.select(*ids, *own_texts, *extras, weight),
        variables,
        always=left.always | right.always,
        plain=left.plain | right.plain,
        own_text=own_text,
        texts=texts,
        small=small,
    )


def _text(left: Solutions, right: Solutions, variable: Var) -> str:
    name = text(variable)
    if variable not in left.texts:
        return f"r_{name} AS {name}" if variable in left.variables else name
    if variable not in right.texts:
        return name
    return f"coalesce({name}, r_{name}) AS {name}"


def _has_own_text(left: Solutions, right: Solutions, variable: Var) -> bool:
    """Returns whether the side that gives the value has its term; if either side may, both must have it."""
    sides = [side for side in (left, right) if variable in side.variables]
    if any(variable in side.own_text and variable in side.always for side in sides):
        return True
    return all(variable in side.own_text for side in sides)
