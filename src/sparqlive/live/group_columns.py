"""Evaluates GROUP BY for a one-off query over many rows, as array operations on columns.

Covers sums of exact numbers, counts, and the choice of candidates for MIN and MAX. The accumulators of
`sparql/aggregates.py` add the rest, such as floating-point numbers. Invariant: the groups equal those that
`Groups.evaluate` computes from the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparqlive.live.terms import Terms
from sparqlive.live.total_columns import TypedIds, added, sums_of
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.runtime.deadline import paced
from sparqlive.sparql.aggregates import Grouping, total
from sparqlive.sparql.algebra import Aggregate, Expression
from sparqlive.sparql.values import (
    DATE,
    DATETIME,
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


def suits(operator: op.Group) -> bool:
    """Returns whether rows and values can be read as columns."""
    aggregates = [aggregate for _, aggregate in operator.aggregates]
    return bool(operator.source.variables) and not any(
        aggregate.argument is None and aggregate.distinct for aggregate in aggregates
    )


def evaluate(operator: op.Group, terms: Terms, blocks: Iterable[Block]) -> Iterator[tuple[Row, int]]:
    """Yields the rows of a grouping from the rows of its source."""
    rows = _Rows(operator, terms, blocks)
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

    def listed(self) -> Iterable[tuple[int, int, int]]:
        return paced(zip(*(column.tolist() for column in self), strict=True))

    def distinct(self) -> _Values:
        """Returns each value of a group once with weight one; its repetitions have weight zero."""
        weights = np.zeros(len(self.ids), np.int64)
        counted = np.flatnonzero(self.weights)
        if len(counted):
            order, is_first = lexicographic((self.groups[counted], self.ids[counted]))
            weights[counted[order[is_first]]] = 1
        return self._replace(weights=weights)


class _Rows:
    """The rows of the source, sorted by group."""

    def __init__(self, operator: op.Group, terms: Terms, blocks: Iterable[Block]) -> None:
        self._operator, self._terms = operator, terms
        self._columns, self._weights = joined(blocks, len(operator.source.variables))
        length, keys = len(self._weights), len(operator.keys)
        self.starts = np.zeros(min(1, length), np.int64)
        if keys and length:
            order, is_first = lexicographic(self._columns[:keys])
            self._columns, self._weights = Block(self._columns, self._weights).take(order)
            self.starts = np.flatnonzero(is_first)
        self._typed: dict[Expression | None, TypedIds] = {}

    def keys(self) -> Iterator[Row]:
        """Yields the key of each group."""
        columns = self._columns[: len(self._operator.keys)]
        if not columns:
            return iter([()] * len(self.starts))
        return zip(*(column[self.starts].tolist() for column in columns), strict=True)

    def values(self, aggregate: Aggregate) -> _Values:
        """Returns the values of an aggregate's argument; for `*`, any value except UNDEF."""
        columns, names, member = self._columns, self._operator.source.variables, self._operator.member
        sizes = np.diff(np.append(self.starts, len(self._weights)))
        ids = np.ones(len(self._weights), np.int64)
        if aggregate.argument is not None:
            ids = columns[names.index(aggregate.argument)]
        weights = self._weights
        if member is not None:
            weights = weights * (columns[names.index(member)] != UNDEF)
        found = _Values(ids, np.repeat(np.arange(len(self.starts)), sizes), weights)
        return found.distinct() if aggregate.distinct else found

    def typed(self, aggregate: Aggregate, values: _Values) -> TypedIds:
        """Returns the typed columns of an aggregate's values; those of one argument are read once."""
        argument = aggregate.argument
        if argument not in self._typed:
            self._typed[argument] = TypedIds(self._terms, values.ids)
        return self._typed[argument]


def _results(rows: _Rows, terms: Terms, aggregate: Aggregate) -> Sequence[Value | None]:
    values, name, count = rows.values(aggregate), aggregate.name, len(rows.starts)
    match name:
        case "COUNT":
            return [integer(n) for n in added(values.weights * (values.ids != UNDEF), rows.starts).tolist()]
        case "SUM" | "AVG":
            sums, is_other = sums_of(rows.typed(aggregate, values), values.weights, rows.starts)
            others: list[list[tuple[Value, int]]] = [[] for _ in range(count)]
            for number, group, weight in values.take(is_other).listed():
                value = terms.value(number)
                assert value is not None
                others[group].append((value, weight))
            totals = zip(*(column.tolist() for column in sums), strict=True)
            return [total(name, *own) for own in paced(zip(totals, others, strict=True))]
        case "MIN" | "MAX" | "SAMPLE":  # SAMPLE is the least value, even if there are errors
            values = values.take(_are_candidates(name, values, rows.typed(aggregate, values), count))
            values = values.distinct()
    grouping = Grouping([(aggregate, 0)], None, terms.value)
    groups = [grouping.group() for _ in range(count)]
    for number, group, weight in values.take(values.weights != 0).listed():
        grouping.add(groups[group], (number,), weight)
    return [group.results()[0] for group in groups]


def _are_candidates(name: str, values: _Values, typed: TypedIds, count: int) -> Any:
    """Returns which values are candidates, because no other value of their kind excludes them.

    Kinds are integers, dates and times without a timezone, IRIs and strings.
    """
    kinds, _ = typed.column("kind")
    wholes, has_whole = typed.column("whole")
    instants, has_instant = typed.column("instant")
    _, has_zone = typed.column("zone")
    is_kept, counted = np.ones(len(kinds), bool), values.weights != 0
    moments = has_instant & ~has_zone
    for kind, numbers, is_known in (
        (INTEGER, wholes, has_whole),
        *((kind, instants, moments) for kind in (DATETIME, DATE)),
        *((kind, None, np.ones(len(kinds), bool)) for kind in (IRI, STRING, LANGSTRING)),
    ):
        chosen = np.flatnonzero(counted & is_known & (kinds == kind))
        own = typed.characters(chosen) if numbers is None else numbers[chosen]
        is_kept[chosen] = _are_first(name, values.groups[chosen], own, count)
    return is_kept


def _are_first(name: str, groups: Column, values: Any, count: int) -> Any:
    """Marks the values that come first in their group; null means undecided. UTF-8 sorts like code points."""
    table = pa.table({"group": groups, "value": values}).group_by("group")
    firsts = table.aggregate([("value", "max" if name == "MAX" else "min")])
    place = np.zeros(count, np.int64)
    place[firsts.column("group").to_numpy()] = np.arange(len(firsts))
    of_group = firsts.column(1).take(pa.array(place[groups]))
    return np.asarray(pc.fill_null(pc.equal(of_group, pa.array(values)), True))
