"""Sorting within a bound on memory: the same order as sorting everything at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.store import sorting
from sparqlive.store.map_folder import MapFolder
from sparqlive.store.sorting import Columns, Sorter
from sparqlive.zset.run import Column
from tests.conftest import examples

LEAST, GREATEST = -(2**63), 2**63 - 1
values = st.one_of(
    st.integers(LEAST, GREATEST),
    st.just(77),
    st.integers(0, 3),
    st.sampled_from((LEAST, LEAST + 1, GREATEST - 1, GREATEST, 2**40, 2**40 + 1)),
)


@dataclass
class InMemory:
    """Rows that note how many of them are read at a time."""

    columns: Columns
    read: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.columns[0])

    def pieces(self, numbers: Sequence[int], most: int) -> Iterator[Columns]:
        for start in range(0, self.length, most):
            found = [self.columns[number][start : start + most] for number in numbers]
            self.read.append(len(found[0]))
            yield found


def memory_for(rows: int) -> int:
    """A bound that lets so many rows of three columns be sorted at once."""
    return next(
        size for size in range(0, 1 << 20, 16) if Sorter(MapFolder(Path()), size).most_rows(3) == rows
    )


def in_order(sorter: Sorter, rows: InMemory, keys: Sequence[int]) -> tuple[list[Column], list[int]]:
    pieces = [[*columns] for columns in sorter.in_order(rows, 3, keys)]
    return [np.concatenate(parts) for parts in zip(*pieces, strict=True)], [len(piece[0]) for piece in pieces]


@examples(60)
@given(
    rows=st.lists(st.tuples(values, values), min_size=1, max_size=60),
    keys=st.sampled_from(((0,), (1,), (1, 0))),
    most=st.sampled_from((1, 2, 7, 30)),
)
def test_any_rows(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int]],
    keys: tuple[int, ...],
    most: int,
) -> None:
    first, second = np.array(rows, dtype=np.int64).T
    columns = [np.ascontiguousarray(first), np.ascontiguousarray(second), np.arange(len(rows))]
    folder = tmp_path_factory.mktemp("sort")
    given = InMemory(columns)
    found, lengths = in_order(Sorter(MapFolder(folder), memory_for(most)), given, keys)
    expected = np.lexsort([columns[number] for number in reversed(keys)])  # stable
    assert [column.tolist() for column in found] == [column[expected].tolist() for column in columns]
    assert max(lengths) <= most >= max(given.read)
    assert [*folder.iterdir()] == []


def test_many_rows_of_few_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with the same value are moved once or twice, and never sorted."""
    chance, written, write = np.random.default_rng(1), list[int](), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *given: written.append(write(*given)) or written[-1])
    first = chance.integers(LEAST, GREATEST, 30_000)
    first[chance.random(30_000) < 0.9] = first[0]
    columns = [first, chance.integers(LEAST, GREATEST, 30_000), np.arange(30_000)]
    sorted_sizes, reorder = list[int](), sorting.reordered
    monkeypatch.setattr(
        sorting, "reordered", lambda rows, keys: sorted_sizes.append(len(keys[0])) or reorder(rows, keys)
    )
    found, _ = in_order(Sorter(MapFolder(tmp_path), memory_for(1000)), InMemory(columns), (0,))
    expected = np.argsort(first, kind="stable")
    assert [column.tolist() for column in found] == [column[expected].tolist() for column in columns]
    assert sum(written) <= 2 * 30_000 * 24
    assert sum(sorted_sizes) < 4_000


def test_a_sort_that_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    rows = InMemory([np.arange(1000)[::-1].copy()] * 3)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    pieces = Sorter(MapFolder(tmp_path), memory_for(10)).in_order(rows, 3, (0,))
    assert next(pieces)[0].tolist() == [*range(10)]
    pieces.close()
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before
    assert [*tmp_path.iterdir()] == []
