"""The order of rows against `lexsort`, with values that differ in their last bits only."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.columns import ColumnRows, last_rows
from sparqlive.zset.order import lexicographic

LEAST, GREATEST = -(2**63), 2**63 - 1
values = st.one_of(
    st.integers(LEAST, GREATEST),
    st.integers(0, 3),
    st.sampled_from((LEAST, LEAST + 1, GREATEST - 1, GREATEST, 2**40, 2**40 + 1, 2**40 + 2)),
)
tables = st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*(values,) * n), min_size=1, max_size=60))


def check(rows: np.ndarray, fewest_rows: int = DEFAULT.column_rows) -> None:
    columns = list(rows.T)
    found, fresh = lexicographic(columns, fewest_rows)
    expected = np.lexsort(tuple(reversed(columns)))
    assert found.tolist() == expected.tolist(), "equal rows keep their order"
    differs = (rows[expected][1:] != rows[expected][:-1]).any(axis=1)
    assert fresh.tolist() == [True, *differs.tolist()]


@given(tables)
def test_few_rows_by_keys(rows: list[tuple[int, ...]]) -> None:
    check(np.array(rows, dtype=np.int64), 1)


@given(st.lists(st.integers(LEAST, GREATEST), unique=True, min_size=1), st.lists(st.integers(0, 99)))
def test_ascending_blocks(values: list[int], cuts: list[int]) -> None:
    """Blocks of a sorted column in another order, and with one value twice."""
    ordered = sorted(values)
    bounds = sorted({0, len(ordered), *(cut % len(ordered) for cut in cuts)})
    blocks = [ordered[start:end] for start, end in pairwise(bounds)]
    mixed = [value for block in blocks[1::2] + blocks[::2] for value in block]
    for rows in (mixed, [*mixed, mixed[0]]):
        check(np.array([(value, 7) for value in rows], dtype=np.int64), 1)


@pytest.mark.parametrize("spread", ["hashes", "few hashes", "neighbours"])
def test_many_rows(spread: str) -> None:
    chance = np.random.default_rng(3)
    ids = chance.integers(LEAST, GREATEST, 50)
    rows = {
        "hashes": chance.integers(LEAST, GREATEST, (5_000, 3)),
        "few hashes": chance.choice(ids, (5_000, 3)),
        "neighbours": chance.integers(0, 2_000, (5_000, 2)),
    }[spread]
    check(rows)


@given(tables, st.integers(1, 4))
def test_last_of_equal_rows(table: list[tuple[int, ...]], width: int) -> None:
    columns = [*np.array(table, dtype=np.int64).T, np.arange(len(table))]
    by = range(min(width, len(table[0])))
    expected = {tuple(row[: len(by)]): place for place, row in enumerate(table)}
    found = last_rows(ColumnRows(columns), by)
    assert [(row[: len(by)], row[-1]) for row in found] == sorted(expected.items())
