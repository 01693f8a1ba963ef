"""Computes totals of groups by columns: sums of many values at once, equal to those of the accumulators.

Rows are sorted by group; `starts` holds the start of each group. Invariant: sums are exact, also beyond 64
bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.totals import places_of_wide
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.sparql.aggregates import HALF, SUMS
from sparqlive.sparql.column_tests import TermTexts
from sparqlive.sparql.values import DECIMAL, DOUBLE
from sparqlive.zset.order import lexicographic
from sparqlive.zset.relation import Relation
from sparqlive.zset.run import Column, Run, RunRows, search

_WORD = 32
_MASK = (1 << _WORD) - 1
_LARGEST_WEIGHTS = 1 << 31
"""Sums of words with weights below this bound fit in 64 bits."""


class TypedIds:
    """Ids with the typed columns of their terms (`sparql/columns.py`)."""

    def __init__(self, terms: Terms, ids: Column) -> None:
        distinct, self._places = np.unique(ids, return_inverse=True)
        self._is_bound = distinct != UNDEF
        self._texts = TermTexts(terms.dictionary.column(distinct[self._is_bound]))

    def column(self, name: str) -> tuple[Any, Any]:
        """Returns a typed column, and a mask of the ids that have a value in it."""
        numbers, is_known = self._texts.typed(name)
        return self._spread(numbers), self._spread(is_known)

    def characters(self, chosen: Column) -> Any:
        """Returns the characters of some ids; null except for IRIs and literals without escapes."""
        places = np.cumsum(self._is_bound)[self._places[chosen]] - 1
        return self._texts.contents[0].take(pa.array(places))

    def _spread(self, found: Any) -> Any:
        whole = np.zeros(len(self._is_bound), found.dtype)
        whole[self._is_bound] = found
        return whole[self._places]


def added(numbers: Column, starts: Column) -> Column:
    """Sums the numbers of each group."""
    return np.add.reduceat(numbers, starts) if len(starts) else np.empty(0, np.int64)


def sums_of(values: TypedIds, weights: Column, starts: Column) -> tuple[list[Column], Any]:
    """Computes the totals of SUM and AVG; marks the values that are numbers but do not fit totals."""
    kinds, is_bound = values.column("kind")
    wholes, is_exact = values.column("whole")
    fractions, _ = values.column("fraction")
    is_number = is_bound & (kinds <= DOUBLE)
    others = is_number & ~is_exact & (weights != 0)
    counted = (~is_number, is_exact, is_exact & (kinds == DECIMAL))
    sums = [added(weights * chosen, starts) for chosen in counted]
    for numbers in (wholes, fractions):
        sums += _wide_sums(numbers, weights * is_exact, starts)
    return [*sums, added(weights * others, starts)], others


class TotalColumns:
    """The totals of many rows of a grouping."""

    def __init__(self, operator: op.Group, terms: Terms) -> None:
        columns = operator.source.variables
        self._terms = terms
        self._width = len(operator.keys)
        self._aggregates = [
            (aggregate, None if aggregate.argument is None else columns.index(aggregate.argument))
            for _, aggregate in operator.aggregates
        ]
        self._member = None if operator.member is None else columns.index(operator.member)
        self._wide = places_of_wide(operator)

    def relations_of(self, rows: Run) -> tuple[Run, Run]:
        """Returns the totals of rows, and the rows that totals cannot represent."""
        assert rows.weights is not None
        totals, others, size = [], [], self._terms.tuning.sorting_rows
        for start in range(0, max(1, rows.length), size):
            part = slice(start, start + size)
            columns, weights = [column[part] for column in rows.columns], rows.weights[part]
            made, is_other = self._totals(columns, weights)
            totals.append(made)
            others.append([*(column[is_other] for column in columns), weights[is_other]])
        *columns, weights = (np.concatenate(parts) for parts in zip(*others, strict=True))
        return _as_run(self._summed(totals)), Run(columns, weights)  # a change may have groups of weight zero

    def change_of(self, totals: Relation, delta: Run) -> tuple[RunRows, RunRows]:
        """Returns how a change of the source changes the totals and the rows that they cannot represent."""
        change, others = self.relations_of(delta)
        old = self._found(totals, change.columns[: self._width])
        sums = self._summed([old, change.columns])
        new = _as_run([column[sums[self._width] != 0] for column in sums])
        both = [np.concatenate(pair) for pair in zip(old, new.columns, strict=True)]
        signs = np.repeat(np.array([-1, 1]), (len(old[0]), new.length))
        return RunRows(Run.sort(both, signs)), RunRows(others)

    def _found(self, totals: Relation, keys: Sequence[Column]) -> list[Column]:
        """Returns the totals of groups before a change; groups without rows have none."""
        parts, weights = [[np.empty(0, np.int64)] * totals.arity], [np.empty(0, np.int64)]
        for run in (totals.run, totals.late):
            if run is not None:
                assert run.weights is not None
                columns, places = run.columns, _places(run, keys)
                parts.append([column[places] for column in columns])
                weights.append(run.weights[places])
        rows = [np.concatenate(several) for several in zip(*parts, strict=True)]
        return list(Run.sort(rows, np.concatenate(weights)).columns)

    def _summed(self, parts: Sequence[Sequence[Column]]) -> list[Column]:
        """Sums totals by group; the parts hold sums of wide numbers in any form."""
        columns = [np.concatenate(several) for several in zip(*parts, strict=True)]
        keys, sums = columns[: self._width], columns[self._width :]
        starts = np.zeros(min(1, len(sums[0])), np.int64)
        if keys and len(sums[0]):
            order, fresh = lexicographic(keys)
            keys, sums = [key[order] for key in keys], [own[order] for own in sums]
            starts = np.flatnonzero(fresh)
        totals = [*(key[starts] for key in keys), *(added(own, starts) for own in sums)]
        for place in self._wide:
            totals[place], totals[place + 1] = _halves(totals[place], totals[place + 1])
        return totals

    def _totals(self, columns: Sequence[Column], weights: Column) -> tuple[list[Column], Any]:
        """Computes the totals of sorted rows, and marks the rows that totals cannot represent."""
        length = len(weights)
        starts, is_other = np.zeros(min(1, length), np.int64), np.zeros(length, bool)
        if self._width and length:
            starts = np.flatnonzero(_fresh(columns[: self._width]))
        totals = [*(column[starts] for column in columns[: self._width]), added(weights, starts)]
        if self._member is not None:
            weights = weights * (columns[self._member] != UNDEF)
        values: dict[int, TypedIds] = {}
        for aggregate, place in self._aggregates:
            if aggregate.name not in SUMS:
                totals.append(
                    added(weights if place is None else weights * (columns[place] != UNDEF), starts)
                )
                continue
            assert place is not None
            if place not in values:
                values[place] = TypedIds(self._terms, columns[place])
            sums, others = sums_of(values[place], weights, starts)
            totals += sums
            is_other |= others
        return totals, is_other


def _wide_sums(numbers: Column, weights: Column, starts: Column) -> tuple[Column, Column]:
    """Sums products of 64-bit numbers and weights."""
    if np.abs(weights).sum() >= _LARGEST_WEIGHTS:
        exact = np.add.reduceat(numbers.astype(object) * weights, starts)
        return np.array([n // HALF for n in exact], np.int64), np.array([n % HALF for n in exact], np.int64)
    high, low = added((numbers >> _WORD) * weights, starts), added((numbers & _MASK) * weights, starts)
    high += low >> _WORD
    return high >> 16, ((high & 0xFFFF) << _WORD) + (low & _MASK)


def _halves(high: Column, low: Column) -> tuple[Column, Column]:
    """Returns sums of halves in the form of `halves`: the remainder has the sign of the sum."""
    high, low = high + (low >> 48), low & (HALF - 1)
    is_rounded_down = (high < 0) & (low > 0)
    return high + is_rounded_down, low - HALF * is_rounded_down


def _fresh(keys: Sequence[Column]) -> Any:
    """Marks the sorted rows that differ from the row before."""
    fresh = np.zeros(len(keys[0]), bool)
    fresh[0] = True
    for key in keys:
        fresh[1:] |= key[1:] != key[:-1]
    return fresh


def _places(run: Run, keys: Sequence[Column]) -> Column:
    """Returns the indexes of the rows that begin with one of the keys."""
    if not keys:
        return np.arange(run.length)
    count = len(keys[0])
    low, high = np.zeros(count, np.int64), np.full(count, run.length)
    for column, values in zip(run.columns, keys, strict=False):
        low, high = (
            search(column, values, low, high, before=True),
            search(column, values, low, high, before=False),
        )
    sizes = high - low
    firsts = np.repeat(low - np.append(0, np.cumsum(sizes)[:-1]), sizes) if count else low
    return firsts + np.arange(len(firsts))


def _as_run(columns: Sequence[Column]) -> Run:
    return Run(columns, np.ones(len(columns[0]), np.int64))
