"""Evaluates GROUP BY in SQL: the aggregates of all groups at once, where SQL gives the same result as Python.

COUNT is a sum of weights. SUM and AVG add exact numbers in SQL. Numbers that SQL cannot add exactly (floating
point, or too wide) are collected in a list, and Python finishes each group with its own definition. MIN, MAX
and SAMPLE compare typed columns, which order almost all terms; only groups where several terms share the
first position go to Python. A backend that does not share common subqueries instead collects the terms with
the first position of each group, and Python chooses among them. GROUP_CONCAT always runs in Python.

Sums and counts are linear, so the rows of a group need not be brought together first. Aggregates that look at
each value once need that. For a change, every group is computed over the rows before and after it,
distinguished by `side`; the difference is the change (the rule `Redone`). If the totals of the groups before
the change are known, only the rows of the change are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparqlive.bulk.dialect import ONE, ZERO, number, total
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.order import READ
from sparqlive.bulk.order import place as place_of
from sparqlive.bulk.solutions import WEIGHT, Solutions, anti, before_and_after, column, semi, text, united
from sparqlive.bulk.terms import value_of_text
from sparqlive.bulk.typed import TEXT, typed_column, with_types
from sparqlive.plan import operators as op
from sparqlive.plan.totals import WEIGHTS, is_wide, total_names
from sparqlive.sparql.aggregates import SUMS
from sparqlive.sparql.aggregates import total as total_of
from sparqlive.sparql.algebra import Aggregate, Var
from sparqlive.sparql.ordering import order_key
from sparqlive.sparql.values import DECIMAL, DOUBLE, FLOAT, INTEGER, Kind, Value

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

SIDE = "side"
"""-1 for the rows before a change, 1 for those after it."""
_FIRSTS = ("MIN", "MAX", "SAMPLE")
_SUMMED = ("kind", "whole", "fraction", "nearest", "content")
_INTEGER_LITERAL = "http://www.w3.org/2001/XMLSchema#integer"

Fallback = Callable[[Solutions | None, Solutions], Solutions]
"""Computes the operator's change in Python, from the source's rows before the change and the added rows."""


def redone(
    evaluation: Evaluation, operator: op.Group, old: Solutions | None, added: Solutions, fallback: Fallback
) -> Solutions:
    """Returns the groups over old + added, minus those over old; by Python where SQL cannot."""
    source = before_and_after(operator.source.variables, old, added, summing=False)
    # A backend without sharing would compute the groups three times to find the doubtful ones.
    doubtful = _doubts(operator) if evaluation.backend.shares else ""
    if not _is_native(operator, source):
        return fallback(old, added)
    groups = _Groups(evaluation, operator, source).of(_sides(evaluation, operator, source, old is not None))
    result = _solutions(evaluation, operator, source, groups)
    if not doubtful:
        return result
    keys = [column(v) for v in operator.keys]
    doubted = groups.where(f"{WEIGHTS} > 0 AND ({doubtful})").select(*keys)
    result = result.of(anti(result.frame, doubted, keys))
    left = [None if part is None else part.of(semi(part.frame, doubted, keys)) for part in (old, added)]
    assert left[1] is not None
    return united([result, fallback(left[0], left[1])], operator.variables)


def _is_native(operator: op.Group, source: Solutions) -> bool:
    """Excludes GROUP_CONCAT, and MIN, MAX or SAMPLE of computed terms, which would need their texts."""
    return all(
        aggregate.name in ("COUNT", *SUMS)
        or (aggregate.name in _FIRSTS and aggregate.argument not in source.texts)
        for _, aggregate in operator.aggregates
    )


# Running totals


@dataclass(frozen=True)
class Totals:
    """The totals of all groups before a change, and of the change. `complete`: they cover all numbers."""

    old: Frame
    change: Frame
    complete: bool


def totals(evaluation: Evaluation, operator: op.Group, source: Solutions) -> Frame:
    """Computes the totals of a content or a change, by group."""
    rows = before_and_after(operator.source.variables, None, source, summing=False)
    sides = _sides(evaluation, operator, rows, has_old=False)
    groups = _Groups(evaluation, operator, rows, with_lists=False).of(sides)
    return groups.select(*(column(v) for v in operator.keys), *total_names(operator))


def added(names: Iterable[str]) -> list[str]:
    """Writes the sums of totals."""
    return [f"sum({name}) AS {name}" if is_wide(name) else total(name) for name in names]


def redone_from_totals(
    evaluation: Evaluation,
    operator: op.Group,
    known: Totals,
    by_rows: Callable[[Frame | None], Solutions],
) -> Solutions:
    """Computes the change of groups from their totals; `by_rows` does the same from rows."""
    keys, names = [column(v) for v in operator.keys], total_names(operator)
    old = semi(known.old, known.change.select(*keys), keys) if keys else known.old
    old = old.exploded(SIDE, number(-1), ONE).select(*keys, *names, SIDE)
    both = old.union(known.change.select(*keys, *names, f"{ONE} AS {SIDE}"))
    groups = both.grouped([*keys, SIDE], *added(names))
    source = Solutions(groups, operator.source.variables, operator.source.always, operator.source.always)
    result = _solutions(evaluation, operator, source, groups, with_lists=False)
    if known.complete:
        return result
    others = " OR ".join(f"{name} <> 0" for name in names if name.startswith("others_"))
    incomplete = groups.where(others).select(*keys)
    result = result.of(anti(result.frame, incomplete, keys))
    return united([result, by_rows(incomplete)], operator.variables)


# The rows of the groups


def _is_linear(operator: op.Group) -> bool:
    return all(
        aggregate.name not in _FIRSTS and not aggregate.distinct for _, aggregate in operator.aggregates
    )


def _sides(evaluation: Evaluation, operator: op.Group, source: Solutions, has_old: bool) -> Frame:
    """Returns the rows of the groups with their typed columns, separate for before and after the change."""
    wanted = _columns_read(operator)
    ids = [column(v) for v in source.variables if v in wanted]
    texts = [text(v) for v in source.variables if v in wanted and v in source.texts]
    frame = source.frame.select(*ids, *texts, "before", "after")
    if not _is_linear(operator):
        known = [f"max({name}) AS {name}" for name in texts]
        frame = frame.grouped(ids, *known, total("before"), total("after"))
    read = _types(operator)
    summed = [variable for variable, names in read.items() if names == set(_SUMMED)]
    frame = with_types(evaluation, source.of(frame), read, summed)
    others = [name for name in frame.columns if name not in ("before", "after")]
    if has_old:
        frame = frame.exploded(SIDE, number(-1), ONE)
        frame = frame.select(*others, SIDE, f"CASE WHEN {SIDE} > 0 THEN after ELSE before END AS {WEIGHT}")
    else:
        frame = frame.select(*others, f"{ONE} AS {SIDE}", f"after AS {WEIGHT}")
    return frame.where(f"{WEIGHT} <> 0")


def _columns_read(operator: op.Group) -> frozenset[Var]:
    """Returns the columns of the source that keys and aggregates read."""
    aggregates = [aggregate for _, aggregate in operator.aggregates]
    if any(aggregate.argument is None and aggregate.distinct for aggregate in aggregates):
        return frozenset(operator.source.variables)
    read = {aggregate.argument for aggregate in aggregates if isinstance(aggregate.argument, Var)}
    return frozenset({*operator.keys, *read, *(() if operator.member is None else (operator.member,))})


def _types(operator: op.Group) -> dict[Var, set[str]]:
    """Returns the typed columns that the aggregates read."""
    read: dict[Var, set[str]] = {}
    for _, aggregate in operator.aggregates:
        if isinstance(aggregate.argument, Var) and aggregate.name != "COUNT":
            names = READ if aggregate.name in _FIRSTS else _SUMMED
            read.setdefault(aggregate.argument, set()).update(names)
    return read


# The groups


class _Groups:
    """Writes the GROUP BY. The columns of the n-th aggregate end in its number."""

    def __init__(
        self, evaluation: Evaluation, operator: op.Group, source: Solutions, *, with_lists: bool = True
    ) -> None:
        """`with_lists`: numbers that SQL cannot add are listed; otherwise they are only counted."""
        self._with_lists = with_lists
        self._dialect = evaluation.backend.dialect
        self._shares = evaluation.backend.shares
        self._operator = operator
        self._member = "true" if operator.member is None else f"{column(operator.member)} <> 0"
        self._keys = [column(v) for v in operator.keys]
        self._texts = [text(v) for v in operator.keys if v in source.texts]

    def of(self, rows: Frame) -> Frame:
        columns: list[str] = [f"CAST(sum({WEIGHT}) AS BIGINT) AS {WEIGHTS}"]
        columns += [f"max({name}) AS {name}" for name in self._texts]
        for place, (_, aggregate) in enumerate(self._operator.aggregates):
            if aggregate.name in SUMS and aggregate.distinct:
                rows = self._with_first(rows, place, aggregate)
            if aggregate.name in _FIRSTS and not self._shares:
                rows = self._with_best(rows, place, aggregate)
            columns += self._columns(place, aggregate)
        return rows.grouped([*self._keys, SIDE], *columns)

    def _with_first(self, rows: Frame, place: int, aggregate: Aggregate) -> Frame:
        """Adds a weight of one for one row of each term, zero for the others."""
        argument = _column_of(aggregate)
        by = ", ".join([*self._keys, SIDE, argument, f"({self._member})"])
        first = f"row_number() OVER (PARTITION BY {by} ORDER BY {argument}) = 1"
        return rows.select("*", f"CASE WHEN {first} THEN {ONE} ELSE {ZERO} END AS first_{place}")

    def _columns(self, place: int, aggregate: Aggregate) -> list[str]:
        if aggregate.name == "COUNT":
            return [f"{self._count(aggregate)} AS count_{place}"]
        if aggregate.name in _FIRSTS:
            return (self._first if self._shares else self._best)(place, aggregate)
        return self._sum(place, aggregate)

    def _counted(self, condition: str, weight: str = WEIGHT) -> str:
        return f"CAST(sum(CASE WHEN {self._member} AND {condition} THEN {weight} ELSE {ZERO} END) AS BIGINT)"

    def _count(self, aggregate: Aggregate) -> str:
        if aggregate.argument is None:  # distinct rows: each has one row
            return self._counted("true", ONE if aggregate.distinct else WEIGHT)
        argument = _column_of(aggregate)
        if aggregate.distinct:
            return f"count(DISTINCT CASE WHEN {self._member} AND {argument} <> 0 THEN {argument} END)"
        return self._counted(f"{argument} <> 0")

    def _sum(self, place: int, aggregate: Aggregate) -> list[str]:
        assert isinstance(aggregate.argument, Var)
        weight = f"first_{place}" if aggregate.distinct else WEIGHT
        kind, whole, fraction, nearest, content = (typed_column(aggregate.argument, n) for n in _SUMMED)
        product = self._dialect.product
        is_other = f"{kind} <= {DOUBLE:d} AND {whole} IS NULL"
        fields = (f"{kind} AS kind", f"{nearest} AS nearest", f"{content} AS content", f"{weight} AS weight")
        others = self._counted(is_other, weight)
        if self._with_lists:
            others = self._dialect.collect(fields, f"{self._member} AND {is_other}")
        return [
            f"{self._counted(f'({kind} IS NULL OR {kind} > {DOUBLE:d})', weight)} AS errors_{place}",
            f"{self._counted(f'{whole} IS NOT NULL', weight)} AS count_{place}",
            f"{self._counted(f'{whole} IS NOT NULL AND {kind} = {DECIMAL:d}', weight)} AS decimals_{place}",
            f"coalesce(sum(CASE WHEN {self._member} THEN {product(whole, weight)} END), 0) AS whole_{place}",
            f"coalesce(sum(CASE WHEN {self._member} THEN {product(fraction, weight)} END), 0) "
            f"AS fraction_{place}",
            f"{others} AS others_{place}",
        ]

    def _first(self, place: int, aggregate: Aggregate) -> list[str]:
        """Writes the first position, with the least id and with the greatest id that has it."""
        assert isinstance(aggregate.argument, Var)
        argument = _column_of(aggregate)
        fields, function = _place_fields(aggregate.argument), _extreme(aggregate)
        where = f"FILTER (WHERE {self._member} AND {argument} <> 0)"
        least = self._dialect.struct([*fields, f"{argument} AS id"])
        greatest = self._dialect.struct([*fields, f"~{argument} AS id"])
        return [
            f"{self._counted(f'{argument} = 0')} AS errors_{place}",
            f"{function}({least}) {where} AS least_{place}",
            f"{function}({greatest}) {where} AS greatest_{place}",
        ]

    def _with_best(self, rows: Frame, place: int, aggregate: Aggregate) -> Frame:
        """Adds the position of each row, and the first position of its group."""
        assert isinstance(aggregate.argument, Var)
        rows = self._with_first(rows, place, aggregate)
        counts = f"{self._member} AND {_column_of(aggregate)} <> 0"
        own = self._dialect.struct(_place_fields(aggregate.argument))
        rows = rows.select("*", f"CASE WHEN {counts} THEN {own} END AS place_{place}")
        by = ", ".join([*self._keys, SIDE])
        best = f"{_extreme(aggregate)}(place_{place}) OVER (PARTITION BY {by})"
        return rows.select("*", f"{best} AS best_{place}")

    def _best(self, place: int, aggregate: Aggregate) -> list[str]:
        """Writes the distinct terms in the first position: one of them, their number, and their list."""
        assert isinstance(aggregate.argument, Var)
        argument = _column_of(aggregate)
        is_best = f"first_{place} = 1 AND place_{place} = best_{place}"
        fields = (f"{argument} AS id", f"{typed_column(aggregate.argument, TEXT)} AS term")
        return [
            f"{self._counted(f'{argument} = 0')} AS errors_{place}",
            f"max(CASE WHEN {is_best} THEN {argument} END) AS id_{place}",
            f"count(CASE WHEN {is_best} THEN {argument} END) AS ties_{place}",
            f"{self._dialect.collect(fields, is_best)} AS candidates_{place}",
        ]


def _place_fields(argument: Var) -> list[str]:
    names = ("family", "number", "content")
    return [f"{part} AS {name}" for part, name in zip(place_of(argument), names, strict=True)]


def _extreme(aggregate: Aggregate) -> str:
    return "max" if aggregate.name == "MAX" else "min"


def _column_of(aggregate: Aggregate) -> str:
    assert isinstance(aggregate.argument, Var)
    return column(aggregate.argument)


def _doubts(operator: op.Group) -> str:
    """Writes a condition for groups where several terms share the first position; empty if none can."""
    return " OR ".join(
        f"least_{place}.id <> ~greatest_{place}.id"
        for place, (_, aggregate) in enumerate(operator.aggregates)
        if aggregate.name in _FIRSTS
    )


# Results


def _results(evaluation: Evaluation, operator: op.Group, source: Solutions, with_lists: bool) -> list[str]:
    """Writes the keys, and the text or id of each aggregate's result."""
    results = [*(column(v) for v in operator.keys), *(text(v) for v in operator.keys if v in source.texts)]
    for place, (variable, aggregate) in enumerate(operator.aggregates):
        if aggregate.name in _FIRSTS:
            first = f"coalesce({_first_id(evaluation, place, aggregate)}, {ZERO})"
            if aggregate.name != "SAMPLE":
                first = f"CASE WHEN errors_{place} <> 0 THEN {ZERO} ELSE {first} END"
            results += [f"{first} AS {column(variable)}", f"CAST(NULL AS STRING) AS {text(variable)}"]
        else:
            result = _text_of(evaluation, place, aggregate, with_lists)
            results.append(f"{result} AS {text(variable)}")
    return [*results, f"{SIDE} AS {WEIGHT}"]


def _first_id(evaluation: Evaluation, place: int, aggregate: Aggregate) -> str:
    if evaluation.backend.shares:
        return f"least_{place}.id"
    function = evaluation.terms.function(_chooser(aggregate.name), pa.int64())
    is_tied = f"ties_{place} > 1"
    return f"CASE WHEN {is_tied} THEN {function}(if({is_tied}, candidates_{place}, NULL)) ELSE id_{place} END"


def _text_of(evaluation: Evaluation, place: int, aggregate: Aggregate, with_lists: bool) -> str:
    if aggregate.name == "COUNT":
        return _integer_text(f"count_{place}")
    function = evaluation.terms.function(_finisher(aggregate.name), pa.string())
    sums = [f"CAST({name}_{place} AS STRING)" for name in ("whole", "fraction")]
    others = [f"others_{place}"] if with_lists else []
    by_python = f"{function}({', '.join([f'count_{place}', f'decimals_{place}', *sums, *others])})"
    cases = [f"WHEN errors_{place} <> 0 THEN CAST(NULL AS STRING)"]
    if aggregate.name == "SUM":
        are_empty = [evaluation.backend.dialect.is_empty(name) for name in others]
        is_integer = " AND ".join([f"decimals_{place} = 0", *are_empty])
        cases.append(f"WHEN {is_integer} THEN {_integer_text(f'whole_{place}')}")
    return f"CASE {' '.join(cases)} ELSE {by_python} END"


def _integer_text(value: str) -> str:
    return f"""concat('"', CAST({value} AS STRING), '"^^<{_INTEGER_LITERAL}>')"""


def _solutions(
    evaluation: Evaluation, operator: op.Group, source: Solutions, groups: Frame, *, with_lists: bool = True
) -> Solutions:
    """Returns the results, with ids for those that only have a text; drops groups without rows."""
    keys, firsts = frozenset(operator.keys), frozenset(_firsts(operator))
    computed = frozenset(operator.variables) - keys
    frame = groups.where(f"{WEIGHTS} > 0").select(*_results(evaluation, operator, source, with_lists))
    numbers = [
        f"{evaluation.terms.id_of_text(text(v))} AS {column(v)}"
        for v in operator.variables
        if v in computed and v not in firsts
    ]
    own_text = computed - {v for v, argument in _firsts(operator).items() if argument not in source.own_text}
    result = Solutions(
        frame.select("*", *numbers),
        operator.variables,
        always=operator.always,
        plain=source.plain & keys & operator.always,
        own_text=(source.own_text & keys) | own_text,
        texts=(source.texts & keys) | computed,
        small=source.small,
    )
    return result.of(result.frame.select(*result.columns))


def _firsts(operator: op.Group) -> dict[Var, Var]:
    """Returns the variables of MIN, MAX and SAMPLE, each with its argument."""
    return {
        variable: aggregate.argument
        for variable, aggregate in operator.aggregates
        if aggregate.name in _FIRSTS and isinstance(aggregate.argument, Var)
    }


# In the workers


def _chooser(name: str) -> Callable[[pa.Array], pa.Array]:
    """Returns a function that chooses the id of the first or the last of several terms."""
    choose = max if name == "MAX" else min

    def chosen(lists: pa.Array) -> pa.Array:
        ids = (
            None
            if terms is None
            else choose(terms, key=lambda term: order_key(value_of_text(term["term"])))["id"]
            for terms in lists.to_pylist()
        )
        return pa.array(ids, pa.int64())

    return chosen


def _finisher(name: str) -> Callable[..., pa.Array]:
    """Returns a function that writes SUM or AVG from the sum of exact numbers and the list of the others."""

    def finish(*columns: pa.Array) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([_finished(name, *row) for row in rows], pa.string())

    return finish


def _finished(
    name: str, count: int, decimals: int, whole: str, fraction: str, others: Sequence[dict[str, Any]] = ()
) -> str | None:
    totals = (0, count, decimals, 0, int(whole), 0, int(fraction), 0)  # wide sums as the low halves
    value = total_of(name, totals, [(_number(other), other["weight"]) for other in others])
    return None if value is None else str(value.term)


def _number(other: dict[str, Any]) -> Value:
    kind = Kind(other["kind"])
    if kind in (FLOAT, DOUBLE):
        return Value(kind, other["nearest"])
    return Value(kind, (int if kind == INTEGER else Decimal)(other["content"]))
