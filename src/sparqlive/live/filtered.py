"""Tests rows of quad patterns by columns, in growing batches, where each test reads a single variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from sparqlive.live.terms import Keep
from sparqlive.quads.columns import as_columns
from sparqlive.zset.run import Column

Tests: TypeAlias = Sequence[tuple[int, Keep]]
"""Tests, each with the position in a row that it reads."""


def kept_rows(pieces: Iterable[Sequence[Column]], tests: Tests) -> Iterator[tuple[int, ...]]:
    """Yields the rows that pass, from rows given as columns."""
    return chain.from_iterable(_passing(columns, tests) for columns in pieces)


def kept_values(values: Iterable[int], tests: Tests) -> Iterator[int]:
    """Yields the values that pass."""
    for (part,) in as_columns((value,) for value in values):
        for (value,) in _passing([part], tests):
            yield value


def _each_passing(
    rows: Iterable[tuple[int, ...]], place: int, test: Callable[[int], bool]
) -> Iterator[tuple[int, ...]]:
    return (row for row in rows if test(row[place]))


def _passing(columns: Sequence[Column], tests: Tests) -> Iterator[tuple[int, ...]]:
    if not tests or len(columns[0]) < tests[0][1].column_rows:
        rows: Iterable[tuple[int, ...]] = zip(*(column.tolist() for column in columns), strict=True)
        for place, test in tests:
            rows = _each_passing(rows, place, test.one)
        return iter(rows)
    for place, test in tests:
        if len(columns[place]):
            is_kept = test.many(columns[place])
            columns = [column[is_kept] for column in columns]
    return zip(*(column.tolist() for column in columns), strict=True)
