"""Reads relations for Spark and in remote stores: the files of the base, merged with those of later deltas.

Invariant: a reader holds one row group of the base, and one of each later delta, in memory, and yields
smaller pieces.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, pairwise, zip_longest

import numpy as np

from sparqlive.store.compaction import merged, summed
from sparqlive.store.deltas import read_deltas
from sparqlive.store.place import Place
from sparqlive.store.ranges import rows_before, rows_until
from sparqlive.store.runs import RunFile, names_of, read_columns, read_groups
from sparqlive.store.saving import Saved
from sparqlive.store.seeking import Readers
from sparqlive.store.tables import Tables
from sparqlive.zset.blocks import cut, rows_in
from sparqlive.zset.relation import Row
from sparqlive.zset.run import Column

Piece = tuple[Sequence[Column], Column]
"""Sorted rows as columns, and their weights."""
_PIECE_ROWS = 1 << 15
"""Maximum rows of each file that are added up at once."""


@dataclass(frozen=True)
class StoredParts:
    """The parts of a relation as of an epoch: the files of its base and of later deltas, and other rows."""

    place: Place
    name: str
    width: int
    runs: Sequence[RunFile]
    delta_runs: Sequence[RunFile]
    rows: Column
    """The rows of a small base and of small deltas, each with its weight last."""

    @property
    def addresses(self) -> list[str]:
        """The addresses of the files, for backends."""
        return [self.place.uri(run.path) for run in (*self.runs, *self.delta_runs)]

    @cached_property
    def _later(self) -> Column:
        """All rows that are not in the files of the base: sorted, distinct, each with its weight last."""
        names = names_of(self.name, self.width, is_delta=True)
        parts = [np.stack(read_columns(self.place, run, names)).T for run in self.delta_runs]
        return summed([self.rows, *parts], self.width)

    def having(self, readers: Readers, keys: Column) -> Column | None:
        """Rows whose first column has one of the sorted keys, each with its weight last.

        A row may occur several times; its weight is the sum. None if reading all rows is cheaper, or if
        there are too many for this process.
        """
        size = sum(run.rows for run in (*self.runs, *self.delta_runs))
        per_search, most = readers.tuning.rows_per_search, readers.tuning.scanned_rows
        if not self.width or len(keys) * per_search > size > most:
            return None
        parts = [self.rows[np.isin(self.rows[:, 0], keys)]]
        ends = [run.first[0] for run in self.runs[1:]]
        bounded = [*zip_longest(self.runs, ends), *((run, None) for run in self.delta_runs)]
        places, count = list[tuple[RunFile, Column, Column]](), 0
        for run, end in bounded:
            start = int(np.searchsorted(keys, run.first[0], "left"))
            stop = len(keys) if end is None else int(np.searchsorted(keys, end, "right"))
            if start < stop:
                low, high = readers.of(run).find(self._names(run)[0], keys[start:stop])
                places.append((run, low, high))
                count += int((high - low).sum())
                if count > most:
                    return None
        for run, low, high in places:
            parts.append(np.column_stack(readers.of(run).rows(self._names(run), low, high)))
        return np.concatenate(parts)

    def _names(self, run: RunFile) -> tuple[str, ...]:
        return names_of(self.name, self.width, is_delta=run.epoch is not None)

    def total_weight(self) -> int:
        """The number of rows, counted with their multiplicity."""
        runs = (*self.runs, *self.delta_runs)
        files = sum(int(read_columns(self.place, run, ("w",))[0].sum()) for run in runs)
        return files + int(self.rows[:, -1].sum())

    def row_count(self) -> int:
        return sum(len(weights) for _, weights in self.pieces())

    def items(self) -> Iterator[tuple[Row, int]]:
        """All rows with their weights, in order."""
        for columns, weights in self.pieces():
            yield from rows_in(cut(columns, weights))

    def pieces(self) -> Iterator[Piece]:
        """Columns and weights, in order, piece by piece."""
        few = summed([self.rows], self.width)
        if not self.width:
            yield _split(list(few.T))
            return
        by_epoch = groupby(self.delta_runs, lambda run: run.epoch)
        files = [self.runs, *(sorted(runs, key=lambda run: run.first) for _, runs in by_epoch)]
        yield from _added_up([_Cursor(iter([few])), *map(self._cursor, files)], self.width)

    def _cursor(self, runs: Sequence[RunFile]) -> _Cursor:
        """A cursor over files whose rows follow each other."""
        groups = chain.from_iterable(map(self._groups, runs))
        return _Cursor(map(self._stacked, groups))  # a loop would keep both columns and rows in memory

    def _groups(self, run: RunFile) -> Iterator[Sequence[Column]]:
        return read_groups(self.place, run, self._names(run))

    def _stacked(self, columns: Sequence[Column]) -> Column:
        return np.column_stack(_with_weights(columns, self.width))

    def tasks(self) -> Iterator[tuple[RunFile | None, Column]]:
        """The pieces as tasks for workers: a file of the base, if any, and the later changes to it."""
        later = self._later
        if not self.runs:
            yield None, later
            return
        bounds = [0, *(rows_before(later, run.first) for run in self.runs[1:]), len(later)]
        for run, (start, stop) in zip(self.runs, pairwise(bounds), strict=True):
            yield run, later[start:stop]

    def piece(self, run: RunFile | None, changes: Column) -> Piece:
        """The columns and weights of a piece."""
        if run is None:
            return _split(list(changes.T))
        columns = read_columns(self.place, run, names_of(self.name, self.width))
        return _split(_with_weights(merged(self.name, self.width, columns, changes), self.width))


class _Cursor:
    """Iterates over sorted rows, which come in groups."""

    def __init__(self, groups: Iterator[Column]) -> None:
        self._groups = (rows for rows in groups if len(rows))
        self._rows = next(self._groups, None)

    @property
    def has_rows(self) -> bool:
        return self._rows is not None

    @property
    def next_end(self) -> Row:
        """The last row of the next piece, which is the current group or its first `_PIECE_ROWS` rows."""
        assert self._rows is not None
        return tuple(self._rows[:_PIECE_ROWS][-1, :-1].tolist())

    def until(self, row: Row) -> Column:
        """Returns the rows up to `row`, which is not after `next_end`, and moves past them."""
        rows = self._rows
        assert rows is not None
        end = rows_until(rows, row)
        self._rows = rows[end:] if end < len(rows) else next(self._groups, None)
        return rows[:end]


def _added_up(cursors: Iterable[_Cursor], width: int) -> Iterator[Piece]:
    """The rows of all cursors, in order, piece by piece; the weights of equal rows add up."""
    waiting = [cursor for cursor in cursors if cursor.has_rows]
    while waiting:
        end = min(cursor.next_end for cursor in waiting)
        parts = [part for cursor in waiting if len(part := cursor.until(end))]
        rows = parts[0] if len(parts) == 1 else summed(parts, width)
        if len(rows):
            yield _split(list(rows.T))
        waiting = [cursor for cursor in waiting if cursor.has_rows]


def difference(wanted: Iterable[Piece], stored: Iterable[Piece], width: int) -> Iterator[Piece]:
    """The delta from stored rows to new ones; holds one piece of each in memory at a time."""

    def signed(pieces: Iterable[Piece], sign: int) -> Iterator[Column]:
        return (np.column_stack([*columns, sign * weights]) for columns, weights in pieces)

    parts = signed(wanted, 1), signed(stored, -1)
    if not width:
        return iter([_split(list(summed([*chain(*parts)], width).T))])
    return _added_up(map(_Cursor, parts), width)


def _with_weights(columns: Sequence[Column], width: int) -> Sequence[Column]:
    """Adds weights of 1 to the columns of quads of a base, whose files have no weights."""
    return columns if len(columns) > width else [*columns, np.ones(len(columns[0]), dtype=np.int64)]


def _split(columns: Sequence[Column]) -> Piece:
    *keys, weights = map(np.ascontiguousarray, columns)
    return keys, weights


def parts_of(place: Place, catalog: Tables, name: str, at: int | None = None) -> StoredParts | None:
    """The parts of a relation as of now, or at an epoch; None if the store does not have it."""
    base = catalog.base(name)
    if base is None:
        return None
    rows = [np.empty((0, base.width + 1), dtype=np.int64)] if base.rows is None else [base.rows]
    if at is not None and at < base.epoch:  # undo the changes between that epoch and the base
        for _, delta in read_deltas(place, catalog, name, at, base.epoch):
            rows.append(np.column_stack([delta[:, :-1], -delta[:, -1]]))
    files: list[RunFile] = []
    for _, stored in catalog.deltas(name, base.epoch, at):
        if isinstance(stored, np.ndarray):
            rows.append(stored)
        else:
            files += stored
    return StoredParts(place, name, base.width, catalog.runs(name), files, np.concatenate(rows))


class FileRows(Mapping[Row, int]):
    """Rows in files as a mapping to their weights; each iteration reads the files."""

    def __init__(self, place: Place, saved: Saved) -> None:
        self._place = place
        self._saved = saved

    def __len__(self) -> int:
        return self._saved.count

    def __iter__(self) -> Iterator[Row]:
        return (row for row, _ in self.pairs())

    def __getitem__(self, row: Row) -> int:
        for found, weight in self.pairs():
            if found == row:
                return weight
        raise KeyError(row)

    def items(self) -> ItemsView[Row, int]:
        return _Items(self)

    def pairs(self) -> Iterator[tuple[Row, int]]:
        """The rows with their weights, in order."""
        for columns, weights in pieces_of_saved(self._place, self._saved):
            yield from rows_in(cut(columns, weights))


class _Items(ItemsView[Row, int]):
    _mapping: FileRows

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        return self._mapping.pairs()


def rows_of_saved(place: Place, saved: Saved) -> Mapping[Row, int]:
    """Rows that a backend has computed: a few in memory, many read from their files."""
    return FileRows(place, saved) if saved.files else saved.few()


def pieces_of_saved(place: Place, saved: Saved) -> Iterator[Piece]:
    """Columns and weights of rows that a backend has computed, piece by piece."""
    if not saved.files:
        *columns, weights = saved.rows
        yield columns, weights
    for run in saved.files:
        names = names_of(run.relation, saved.width, is_delta=True)
        for *columns, weights in read_groups(place, run, names):
            yield columns, weights
