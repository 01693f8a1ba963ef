"""GROUP BY over many rows of a query that is asked once: rows and values as columns.

Sums of exact numbers, counts, and the choice of candidates for the least and the greatest value are array
operations. What they leave, such as floating point numbers, the accumulators of `sparql/aggregates.py` add.
Invariant: the groups are those that `Groups.evaluate` computes from the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.runtime.deadline import paced
from sparqlive.sparql.aggregates import Exact, Grouping, total
from sparqlive.sparql.algebra import Aggregate, Expression
from sparqlive.sparql.column_tests import TermTexts
from sparqlive.sparql.values import (
    DATE,
    DATETIME,
    DECIMAL,
    DOUBLE,
    EXACT,
    INTEGER,
    IRI,
    LANGSTRING,
    STRING,
    Value,
    integer,
)
from sparqlive.zset.blocks import Block, joined
from sparqlive.zset.order import lexicographic
from sparqlive.zset.relation import Row
from sparqlive.zset.run import Column

_HALF = 10**9
_LARGEST_SUM = 1 << 62


def suits(operator: op.Group) -> bool:
    """Whether rows and values can be columns."""
    aggregates = [aggregate for _, aggregate in operator.aggregates]
    return bool(operator.source.variables) and not any(
        aggregate.argument is None and aggregate.distinct for aggregate in aggregates
    )


def evaluate(operator: op.Group, terms: Terms, blocks: Iterable[Block]) -> Iterator[tuple[Row, int]]:
    """The rows of a grouping, from the rows of its source."""
    rows = _Rows(operator, blocks)
    results = [_results(rows, terms, aggregate) for _, aggregate in operator.aggregates]
    for key, *values in zip(rows.keys(), *results, strict=True):
        yield (*key, *[UNDEF if value is None else terms.id_of(value) for value in values]), 1


class _Values(NamedTuple):
    """The values of an aggregate's argument: their ids, groups and weights."""

    ids: Column
    groups: Column
    weights: Column

    def take(self, places: Any) -> _Values:
        return _Values(self.ids[places], self.groups[places], self.weights[places])

    def distinct(self) -> _Values:
        """Each value of a group once, with weight one."""
        if not len(self.ids):
            return self
        order, is_first = lexicographic((self.groups, self.ids))
        places = order[is_first]
        return _Values(self.ids[places], self.groups[places], np.ones(len(places), np.int64))

    def sums(self, numbers: Any, count: int) -> list[int]:
        """The sum of numbers, times weights, for each group."""
        found = np.zeros(count, np.int64)
        np.add.at(found, self.groups, numbers * self.weights)
        return found.tolist()


class _Rows:
    """The rows of the source in the order of their groups."""

    def __init__(self, operator: op.Group, blocks: Iterable[Block]) -> None:
        self.operator = operator
        self._columns, self._weights = joined(blocks, len(operator.source.variables))
        length, keys = len(self._weights), len(operator.keys)
        self._starts = np.zeros(min(1, length), np.int64)
        if keys and length:
            order, is_first = lexicographic(self._columns[:keys])
            self._columns, self._weights = Block(self._columns, self._weights).take(order)
            self._starts = np.flatnonzero(is_first)
        self.count = len(self._starts)
        self._typed: dict[Expression | None, _Typed] = {}

    def keys(self) -> Iterator[Row]:
        """The key of each group."""
        columns = self._columns[: len(self.operator.keys)]
        if not columns:
            return iter([()] * self.count)
        return zip(*(column[self._starts].tolist() for column in columns), strict=True)

    def typed(self, aggregate: Aggregate, values: _Values, terms: Terms) -> _Typed:
        """The typed columns of an aggregate's values; those of one argument are read once."""
        if aggregate.distinct:
            return _Typed(terms, values.ids)
        argument = aggregate.argument
        if argument not in self._typed:
            self._typed[argument] = _Typed(terms, values.ids)
        return self._typed[argument]

    def values(self, aggregate: Aggregate) -> _Values:
        """The values of an aggregate's argument; any value except UNDEF for `*`."""
        columns, names = self._columns, self.operator.source.variables
        sizes = np.diff(np.append(self._starts, len(self._weights)))
        ids = np.ones(len(self._weights), np.int64)
        if aggregate.argument is not None:
            ids = columns[names.index(aggregate.argument)]
        found = _Values(ids, np.repeat(np.arange(self.count), sizes), self._weights)
        if self.operator.member is not None:
            found = found.take(columns[names.index(self.operator.member)] != UNDEF)
        return found


class _Typed:
    """Ids with the typed columns of their terms (`sparql/columns.py`)."""

    def __init__(self, terms: Terms, ids: Column) -> None:
        distinct, self._places = np.unique(ids, return_inverse=True)
        self._is_bound = distinct != UNDEF
        self._texts = TermTexts(terms.dictionary.column(distinct[self._is_bound]))

    def column(self, name: str) -> tuple[Any, Any]:
        """A typed column, and where it has a value."""
        numbers, is_known = self._texts.typed(name)
        return self._spread(numbers), self._spread(is_known)

    def characters(self, chosen: Column) -> Any:
        """The characters of some of these ids; null where a term is no IRI or literal without escapes."""
        places = np.cumsum(self._is_bound)[self._places[chosen]] - 1
        return self._texts.contents[0].take(pa.array(places))

    def _spread(self, found: Any) -> Any:
        whole = np.zeros(len(self._is_bound), found.dtype)
        whole[self._is_bound] = found
        return whole[self._places]


def _results(rows: _Rows, terms: Terms, aggregate: Aggregate) -> Sequence[Value | None]:
    values = rows.values(aggregate)
    if aggregate.distinct:
        values = values.distinct()
    name = aggregate.name
    match name:
        case "COUNT":
            bound = values.take(values.ids != UNDEF)
            return [integer(count) for count in bound.sums(1, rows.count)]
        case "SUM" | "AVG":
            return _totals(name, values, rows.typed(aggregate, values, terms), terms, rows.count)
        case "MIN" | "MAX" | "SAMPLE":  # SAMPLE is the least value, whatever errors there are
            values = _candidates(name, values, rows.typed(aggregate, values, terms), rows.count).distinct()
    grouping = Grouping([(aggregate, 0)], None, terms.value)
    groups = [grouping.group() for _ in range(rows.count)]
    for number, group, weight in paced(zip(*(column.tolist() for column in values), strict=True)):
        grouping.add(groups[group], (number,), weight)
    return [group.results()[0] for group in groups]


def _totals(name: str, values: _Values, typed: _Typed, terms: Terms, count: int) -> Sequence[Value | None]:
    """SUM or AVG: the exact sum of exact numbers, and all others one by one."""
    wholes, is_exact = typed.column("whole")
    fractions, _ = typed.column("fraction")
    is_decimal = typed.column("kind")[0] == DECIMAL
    largest = max(abs(int(wholes.max(initial=0))), abs(int(wholes.min(initial=0))), _HALF)
    if largest * int(values.weights.sum()) >= _LARGEST_SUM:
        is_exact = np.zeros(len(is_exact), bool)
    exact = values.take(is_exact)
    sums = [
        exact.sums(column[is_exact], count)
        for column in (is_exact, is_exact & is_decimal, wholes, fractions // _HALF, fractions % _HALF)
    ]
    others: list[list[tuple[Value, int]]] = [[] for _ in range(count)]
    failed: set[int] = set()
    for number, group, weight in paced(zip(*(c.tolist() for c in values.take(~is_exact)), strict=True)):
        value = terms.value(number)
        if value is None or value.kind > DOUBLE:
            failed.add(group)
        else:
            others[group].append((value, weight))
    results: list[Value | None] = []
    for group, (size, decimals, whole, high, low) in enumerate(zip(*sums, strict=True)):
        number = EXACT.add(Decimal(whole), EXACT.scaleb(Decimal(high * _HALF + low), -18))
        results.append(None if group in failed else total(name, Exact(size, decimals, number), others[group]))
    return results


def _candidates(name: str, values: _Values, typed: _Typed, count: int) -> _Values:
    """Drops values that another one of their kind excludes.

    Kinds are integers, dates and times without a timezone, IRIs and strings.
    """
    kinds, _ = typed.column("kind")
    wholes, has_whole = typed.column("whole")
    instants, has_instant = typed.column("instant")
    _, has_zone = typed.column("zone")
    is_kept = np.ones(len(kinds), bool)
    moments = has_instant & ~has_zone
    for kind, numbers, is_known in (
        (INTEGER, wholes, has_whole),
        *((kind, instants, moments) for kind in (DATETIME, DATE)),
        *((kind, None, np.ones(len(kinds), bool)) for kind in (IRI, STRING, LANGSTRING)),
    ):
        chosen = np.flatnonzero(is_known & (kinds == kind))
        own = typed.characters(chosen) if numbers is None else numbers[chosen]
        is_kept[chosen] = _are_first(name, values.groups[chosen], own, count)
    return values.take(is_kept)


def _are_first(name: str, groups: Column, values: Any, count: int) -> Any:
    """Which values come first in their group, or may do so: null may. UTF-8 has the order of code points."""
    table = pa.table({"group": groups, "value": values}).group_by("group")
    firsts = table.aggregate([("value", "max" if name == "MAX" else "min")])
    place = np.zeros(count, np.int64)
    place[firsts.column("group").to_numpy()] = np.arange(len(firsts))
    of_group = firsts.column(1).take(pa.array(place[groups]))
    return np.asarray(pc.fill_null(pc.equal(of_group, pa.array(values)), True))
