"""Relations that are read piece by piece: files of a base and of later deltas, merged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import runs
from sparqlive.store.compaction import Target, Writer
from sparqlive.store.place import LocalPlace
from sparqlive.store.runs import RunFile
from sparqlive.store.seeking import Readers
from sparqlive.store.streaming import Piece, StoredParts, difference
from tests.conftest import examples

_ROWS = st.dictionaries(
    st.tuples(st.integers(0, 6), st.integers(0, 4)), st.sampled_from([-2, -1, 1, 3]), max_size=25
)
_RELATION = "view/rows"


def written(place: LocalPlace, rows: dict[tuple[int, int], int], epoch: int | None) -> list[RunFile]:
    """Files of at most four rows."""
    found: list[RunFile] = []
    ordered = sorted(rows)
    for start in range(0, len(ordered), 4):
        part = ordered[start : start + 4]
        writer = Writer(Target(place, ".", epoch), _RELATION, 2, f"-{epoch}-{start}")
        columns = [np.array([row[n] for row in part], dtype=np.int64) for n in range(2)]
        writer.add([*columns, np.array([rows[row] for row in part], dtype=np.int64)])
        writer.flush()
        found += writer.runs
    return found


@given(base=_ROWS, deltas=st.lists(_ROWS, max_size=3), few=_ROWS)
@examples(40)
def test_pieces_are_the_sum_in_order(
    base: dict[tuple[int, int], int],
    deltas: list[dict[tuple[int, int], int]],
    few: dict[tuple[int, int], int],
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "ROWS_PER_GROUP", 3)
        place = LocalPlace(Path(folder), ".")
        files = [run for epoch, rows in enumerate(deltas, 1) for run in written(place, rows, epoch)]
        rows = np.array([[*row, weight] for row, weight in few.items()], dtype=np.int64).reshape(-1, 3)
        parts = StoredParts(place, _RELATION, 2, written(place, base, None), files, rows)
        found = list(parts.items())
        total: dict[tuple[int, ...], int] = {}
        for part in (base, *deltas, few):
            for row, weight in part.items():
                total[row] = total.get(row, 0) + weight
        assert found == sorted((row, weight) for row, weight in total.items() if weight)
        assert all(len(weights) <= 3 * (2 + len(deltas)) + len(few) for _, weights in parts.pieces())


def test_rows_of_keys_are_found_unless_they_are_too_many(tmp_path: Path) -> None:
    place, base = LocalPlace(tmp_path, "."), {(n % 7, n): 1 for n in range(40)}
    later, few = {(3, 3): -1, (3, 100): 1}, np.array([[3, 101, 2], [4, 4, -1]], dtype=np.int64)
    parts = StoredParts(place, _RELATION, 2, written(place, base, None), written(place, later, 1), few)
    readers = Readers(place, replace(DEFAULT, rows_per_search=1, scanned_rows=9))
    found = parts.having(readers, np.array([3]))
    assert found is not None
    wanted = [(*row, 1) for row in base if row[0] == 3] + [(3, 3, -1), (3, 100, 1), (3, 101, 2)]
    assert sorted(map(tuple, found.tolist())) == sorted(wanted)
    assert parts.having(readers, np.array([3, 4])) is None, "they have more than nine rows in files"


def test_rows_without_columns_are_counted() -> None:
    with TemporaryDirectory() as folder:
        place = LocalPlace(Path(folder), ".")
        parts = StoredParts(place, _RELATION, 0, (), (), np.array([[2], [3]], dtype=np.int64))
        assert list(parts.items()) == [((), 5)]


@given(wanted=_ROWS, stored=_ROWS, sizes=st.lists(st.integers(1, 5), min_size=1))
@examples(40)
def test_the_difference_is_what_is_to_be_added(
    wanted: dict[tuple[int, int], int], stored: dict[tuple[int, int], int], sizes: list[int]
) -> None:
    added = {row: wanted.get(row, 0) - stored.get(row, 0) for row in {*wanted, *stored}}
    pieces = list(difference(in_pieces(wanted, sizes), in_pieces(stored, sizes[::-1]), 2))
    found = [
        (row, int(weight))
        for columns, weights in pieces
        for *row, weight in zip(*columns, weights, strict=True)
    ]
    assert [(tuple(row), weight) for row, weight in found] == sorted(
        (row, weight) for row, weight in added.items() if weight
    )


def in_pieces(rows: dict[tuple[int, int], int], sizes: list[int]) -> list[Piece]:
    """Sorted rows, cut after some of them again and again."""
    ordered, found, start = sorted(rows), [], 0
    while start < len(ordered):
        part = ordered[start : start + sizes[len(found) % len(sizes)]]
        start += len(part)
        columns = [np.array([row[n] for row in part], dtype=np.int64) for n in range(2)]
        found.append((columns, np.array([rows[row] for row in part], dtype=np.int64)))
    return found


@pytest.mark.parametrize(("wanted", "stored", "added"), [(3, 3, []), (3, 1, [2]), (0, 2, [-2])])
def test_the_difference_of_rows_without_columns(wanted: int, stored: int, added: list[int]) -> None:
    def piece(weight: int) -> list[Piece]:
        return [([], np.array([weight] if weight else [], dtype=np.int64))]

    ((columns, weights),) = difference(piece(wanted), piece(stored), 0)
    assert (list(columns), weights.tolist()) == ([], added)
