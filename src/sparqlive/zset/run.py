"""A run: an immutable sorted array of rows of 64-bit integers, with weights unless all are one.

Owns sorting and binary search. Invariant: rows are strictly increasing in lexicographic order. Ids are
hashes, spread evenly over 64 bits: the top bits of a row's first column index a small directory, so that a
search starts with a window of a few rows, independent of the size of the run. A small run has no
directory: its only window is the whole run. Columns are arrays, or lie in a file that is checked as it is
read; lookups are the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, final
from weakref import ref

import numpy as np
import numpy.typing as npt

from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.order import lexicographic

Column = npt.NDArray[np.int64]
Directory = npt.NDArray[np.unsignedinteger[Any]]

_ROWS_PER_BUCKET = 4
# At this size, a lookup takes 0.3 µs longer without a directory, and building one takes 20 µs.
FEWEST_FOR_DIRECTORY = 256
_KEPT_ROWS = 4
"""The number of first rows that are kept as Python integers."""
_HALF = 1 << 63


def growing(start: int, stop: int) -> Iterator[slice]:
    """Splits a range into consecutive parts. The first is small, because it may be enough."""
    size = DEFAULT.first_piece_rows
    while start < stop:
        yield slice(start, min(start + size, stop))
        start, size = start + size, min(4 * size, DEFAULT.largest_piece_rows)


class Run:
    """A sorted run. `columns` are sorted lexicographically; `weights` is None if each row has weight one.

    Lookups read `views`, because indexing a memoryview returns Python integers several times faster than
    indexing a NumPy array. A run is created from either, without copying: both may be slices of larger
    arrays. If a run has a `source`, only rows that a lookup found may be read from `views` and `weights`;
    `columns` are checked.
    """

    __slots__ = (
        "__weakref__",
        "_columns",
        "_directory",
        "_first",
        "_shift",
        "_source",
        "_total",
        "is_mapped",
        "length",
        "views",
        "weights",
    )

    def __init__(
        self, columns: Sequence[Column], weights: Column | None = None, *, directory: Starts | None = None
    ) -> None:
        self._columns: tuple[Column, ...] | None = tuple(columns)
        self._set([column.data for column in columns], weights, directory, None)

    @classmethod
    def over(
        cls,
        views: Sequence[memoryview],
        weights: Column | None = None,
        *,
        directory: Starts | None = None,
        source: Source | None = None,
        is_mapped: bool = False,
    ) -> Run:
        """A run over memoryviews of 64-bit integers.

        Slicing a memoryview is much cheaper than slicing an array, so this suits many small runs, and columns
        that are not read as arrays. With a `source`, the directory checks the rows that it leads to. Without
        one, `is_mapped` means that the columns lie in a file and have been checked.
        """
        run = cls.__new__(cls)
        run._columns = None
        run._set(views, weights, directory, source)
        run.is_mapped = is_mapped or source is not None
        return run

    def _set(
        self,
        views: Sequence[memoryview],
        weights: Column | None,
        directory: Starts | None,
        source: Source | None,
    ) -> None:
        self.views = tuple(views)
        self.weights = weights
        self.length = length = len(views[0])
        self._source = source
        self.is_mapped = False
        """Whether the columns lie in a mapped file. They take no memory of the process; a copy would."""
        self._total: int | None = None
        self._first: list[tuple[int, ...]] | None = None
        # A shift leaves the top bits of a key, which number its bucket. A shift by 64 leaves one bucket.
        self._shift = 64
        self._directory: Starts = (0, length)
        if directory is not None:
            self._shift = 65 - len(directory).bit_length()
            self._directory = directory
        elif length >= FEWEST_FOR_DIRECTORY:
            self._shift = 64 - bucket_bits(length)
            self._directory = _LazyDirectory(self)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns as arrays."""
        if self._columns is None:
            source = self._source
            self._columns = tuple(
                [np.asarray(view) for view in self.views] if source is None else source.columns()
            )
        return self._columns

    def with_constant(self, value: int) -> Run:
        """Adds a column that has the same value in all rows; copies nothing."""
        column = np.broadcast_to(np.int64(value), self.length)
        source = None if self._source is None else _WithConstant(self._source, column)
        views = (*self.views, column.data)
        if isinstance(self._directory, _LazyDirectory):
            return Run.over(views, self.weights, source=source, is_mapped=self.is_mapped)
        run = Run.over(
            views, self.weights, directory=self._directory, source=source, is_mapped=self.is_mapped
        )
        run._shift = self._shift
        return run

    def cut(self, start: int, stop: int, first: int) -> Run:
        """A range of rows without their first columns, in which they agree; copies nothing."""
        views = [view[start:stop] for view in self.views[first:]]
        if self._source is None:
            return Run.over(views, is_mapped=self.is_mapped)
        source = _Cut(self._source, start, views)
        if stop - start < FEWEST_FOR_DIRECTORY:
            source.check(0, stop - start)
            return Run.over(views, is_mapped=True)
        return Run.over(views, source=source)

    def use_directory(self, directory: memoryview) -> None:
        """Replaces the directory by one with the same buckets that is faster to read."""
        self._directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles only arrays: other processes create the views and the directory themselves."""
        return Run, (self.columns, self.weights)

    @classmethod
    def sort(cls, columns: Sequence[Column], weights: Column | None = None) -> Run:
        """Sorts rows and adds up the weights of equal rows; drops rows of weight zero.

        Without weights, equal rows become one row (a set).
        """
        if len(columns[0]) == 0:
            return cls(columns, weights)
        order, fresh = lexicographic(columns)
        if weights is None:
            return cls([column[order if fresh.all() else order[fresh]] for column in columns])
        if not fresh.all():
            starts = np.flatnonzero(fresh)
            order, weights = order[starts], np.add.reduceat(weights[order], starts)
        else:
            weights = weights[order]
        if not weights.all():
            order, weights = order[weights != 0], weights[weights != 0]
        return cls([column[order] for column in columns], weights)

    def total(self) -> int:
        """The sum of all weights."""
        if self._total is None:
            if self.weights is not None:
                self._check(0, self.length)
            self._total = self.length if self.weights is None else int(self.weights.sum())
        return self._total

    def range_one(self, key: int) -> tuple[int, int]:
        """The range of the rows whose first column is `key`."""
        bucket = (key + _HALF) >> self._shift
        directory = self._directory
        low: int = directory[bucket]
        high: int = directory[bucket + 1]
        if low == high:
            return 0, 0
        first = self.views[0]
        low = bisect_left(first, key, low, high)
        return low, bisect_right(first, key, low, high)

    def seconds(self, key: int) -> list[int] | None:
        """The second columns of the rows whose first column is `key`; None if there are none.

        Inlines `range_one`, because this is by far the most common lookup.
        """
        bucket = (key + _HALF) >> self._shift
        directory = self._directory
        low: int = directory[bucket]
        high: int = directory[bucket + 1]
        first = self.views[0]
        low = bisect_left(first, key, low, high)
        if low == high or first[low] != key:
            return None
        following = low + 1
        if following == high or first[following] != key:
            return [self.views[1][low]]
        return self.views[1][low : bisect_right(first, key, following, high)].tolist()

    def range(self, prefix: Sequence[int]) -> tuple[int, int]:
        """The range of the rows that start with `prefix`; an empty range has start == end."""
        if not prefix:
            return 0, self.length
        low, high = self.range_one(prefix[0])
        for value, view in zip(prefix[1:], self.views[1:], strict=False):
            if low == high:
                break
            low = bisect_left(view, value, low, high)
            high = bisect_right(view, value, low, high)
        return low, high

    def rows(self) -> Iterator[tuple[int, ...]]:
        """All rows in order. Keeps the first ones, because the search for a match often ends with them."""
        if self._first is None:
            self._check(0, _KEPT_ROWS)
            self._first = list(zip(*[view[:_KEPT_ROWS].tolist() for view in self.views], strict=True))
        if self.length <= _KEPT_ROWS:
            return iter(self._first)
        return chain(self._first, chain.from_iterable(self._pieces()))

    def _pieces(self) -> Iterator[Iterator[tuple[int, ...]]]:
        """The rows after the first ones."""
        for piece in growing(_KEPT_ROWS, self.length):
            self._check(piece.start, piece.stop)
            yield zip(*[view[piece].tolist() for view in self.views], strict=True)

    def first_rows(self, count: int) -> list[Column]:
        """The columns of the first rows; reads no others."""
        self._check(0, count)
        return [np.asarray(view[:count]) for view in self.views]

    def _check(self, start: int, stop: int) -> None:
        if self._source is not None:
            self._source.check(start, min(stop, self.length))

    def has_pair(self, first: int, second: int) -> bool:
        """Whether the run contains a row of two columns."""
        bucket = (first + _HALF) >> self._shift
        low: int = self._directory[bucket]
        high: int = self._directory[bucket + 1]
        if low == high:
            return False
        firsts, seconds = self.views
        low = bisect_left(firsts, first, low, high)
        if low == high or firsts[low] != first:
            return False
        if seconds[low] == second:
            return True
        high = bisect_right(firsts, first, low, high)
        low = bisect_left(seconds, second, low, high)
        return low < high and seconds[low] == second

    def position(self, row: Sequence[int]) -> tuple[int, bool]:
        """The position where `row` is or would be inserted, and whether the run contains it."""
        bucket = (row[0] + _HALF) >> self._shift
        return self._within(row, self._directory[bucket], self._directory[bucket + 1])

    def _within(self, row: Sequence[int], low: int, high: int) -> tuple[int, bool]:
        """The position of a row within a window."""
        for value, view in zip(row, self.views, strict=True):
            low, high = bisect_left(view, value, low, high), bisect_right(view, value, low, high)
            if low == high:
                return low, False
        return low, True

    def with_changes(self, rows: Sequence[Sequence[int]], changes: Sequence[int]) -> Run:
        """The run after adding `changes[i]` to the weight of `rows[i]`; rows are distinct.

        Copies the run, and takes a binary search per changed row, all in array operations.
        """
        table = np.array(rows, dtype=np.int64).reshape(-1, len(self.columns))
        return self.with_columns(list(table.T), np.array(changes, dtype=np.int64))

    def with_columns(self, rows: Sequence[Column], changes: Column) -> Run:
        """Like `with_changes`, for rows as columns."""
        order, _ = lexicographic(rows)
        return self._with_sorted([column[order] for column in rows], changes[order])

    def with_run(self, delta: Run) -> Run:
        """The sum of two runs with weights."""
        assert delta.weights is not None
        return self._with_sorted(delta.columns, delta.weights)

    def _with_sorted(self, rows: Sequence[Column], weights: Column) -> Run:
        places, found = self.places(rows)
        if self.weights is None:
            assert (weights == np.where(found, -1, 1)).all(), "a set holds each row once"
            kept_weights, removed = None, places[found]
        else:
            kept_weights = self.weights.copy()
            kept_weights[places[found]] += weights[found]
            removed = places[found][kept_weights[places[found]] == 0]
        if not self.length:
            return Run(rows, None if self.weights is None else weights)
        inserted = ~found
        source, new = _spliced(self.length, removed, places[inserted])

        def after(column: Column, values: Column) -> Column:
            result = column.take(source)
            result[new] = values[inserted]
            return result

        columns = [after(column, values) for column, values in zip(self.columns, rows, strict=True)]
        return Run(columns, None if kept_weights is None else after(kept_weights, weights))

    def places(self, rows: Sequence[Column]) -> tuple[Column, npt.NDArray[np.bool_]]:
        """The positions where rows, given as columns, are or would be inserted, and which of them exist.

        Sorted rows are found several times faster.
        """
        if self._source is not None:
            return self._places_in_windows(rows)
        first, keys = self.columns[0], rows[0]
        low = np.searchsorted(first, keys)
        high = low.copy()
        if self.length:
            last = self.length - 1
            high += first[np.minimum(low, last)] == keys
            several = np.flatnonzero(first[np.minimum(high, last)] == keys)  # mostly few
            high[several] = np.searchsorted(first, keys[several], side="right")
        for column, values in zip(self.columns[1:], rows[1:], strict=True):
            low, high = (
                search(column, values, low, high, before=True),
                search(column, values, low, high, before=False),
            )
        return low, low < high

    def _places_in_windows(self, rows: Sequence[Column]) -> tuple[Column, npt.NDArray[np.bool_]]:
        """Like `places`, reading nothing outside the windows of the directory."""
        buckets = ((rows[0].view(np.uint64) ^ np.uint64(_HALF)) >> np.uint64(self._shift)).tolist()
        directory = self._directory
        low = np.array([directory[bucket] for bucket in buckets], dtype=np.int64)
        high = np.array([directory[bucket + 1] for bucket in buckets], dtype=np.int64)
        for view, values in zip(self.views, rows, strict=True):
            column = np.asarray(view)
            low, high = (
                search(column, values, low, high, before=True),
                search(column, values, low, high, before=False),
            )
        return low, low < high

    @property
    def nbytes(self) -> int:
        size = sum(view.nbytes for view in self.views)
        if self._shift < 64:
            size += 4 << (64 - self._shift)  # the directory, even if no lookup has needed it yet
        return size + (self.weights.nbytes if self.weights is not None else 0)


class Starts(Protocol):
    """A directory of 2ⁿ buckets: the first row of each, and the end of the last one."""

    def __len__(self) -> int: ...
    def __getitem__(self, bucket: int, /) -> int: ...


class Source(Protocol):
    """The file behind the views of a run, which must be checked before it is read."""

    def check(self, start: int, stop: int) -> None:
        """Raises if some of the rows, or their weights, are damaged."""

    def columns(self) -> Sequence[Column]:
        """The columns as arrays, after checking all rows."""


class _Cut:
    """The source of a range of rows."""

    __slots__ = ("_source", "_start", "_views")

    def __init__(self, source: Source, start: int, views: Sequence[memoryview]) -> None:
        self._source = source
        self._start = start
        self._views = views

    def check(self, start: int, stop: int) -> None:
        self._source.check(self._start + start, self._start + stop)

    def columns(self) -> Sequence[Column]:
        self.check(0, len(self._views[0]))
        return [np.asarray(view) for view in self._views]


class _WithConstant:
    """The source of a run with one more column, which is not in the file."""

    __slots__ = ("_column", "_source")

    def __init__(self, source: Source, column: Column) -> None:
        self._source = source
        self._column = column

    def check(self, start: int, stop: int) -> None:
        self._source.check(start, stop)

    def columns(self) -> Sequence[Column]:
        return [*self._source.columns(), self._column]


class _LazyDirectory:
    """Builds the directory of a run at the first lookup, and is then replaced by it."""

    __slots__ = ("_run", "_starts")

    def __init__(self, run: Run) -> None:
        self._run = ref(run)  # not a cycle, so that large runs are freed at once
        self._starts: memoryview | None = None

    def __len__(self) -> int:
        return len(self._directory())

    def __getitem__(self, bucket: int) -> int:
        start: int = self._directory()[bucket]
        return start

    def _directory(self) -> memoryview:
        if self._starts is None:
            run = self._run()
            assert run is not None
            self._starts = directory_of(run.columns[0]).data
            run.use_directory(self._starts)
        return self._starts


def bucket_bits(rows: int) -> int:
    """The number of top bits of the first column that number a bucket, in a directory of `rows` rows."""
    return max(1, (rows // _ROWS_PER_BUCKET).bit_length())


def directory_of(first: Column) -> Directory:
    """Builds the directory of a run from its first column."""
    bits = bucket_bits(len(first))
    buckets = (first.view(np.uint64) ^ np.uint64(_HALF)) >> np.uint64(64 - bits)
    counts = np.bincount(buckets.view(np.int64), minlength=1 << bits)
    number: type[np.unsignedinteger[Any]] = np.uint32 if len(first) < 1 << 32 else np.uint64
    starts: Directory = np.zeros(len(counts) + 1, dtype=number)
    np.cumsum(counts, out=starts[1:])
    return starts


class Places(Protocol):
    """A column that can be read at given positions."""

    def __getitem__(self, places: Column, /) -> Column: ...


def search(column: Places, values: Column, low: Column, high: Column, *, before: bool) -> Column:
    """For each value, the first position in its window where the column is not below it (or is above it)."""
    low, high = low.copy(), high.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        found, targets = column[middle], values[open_]
        right = found < targets if before else found <= targets
        low[open_[right]] = middle[right] + 1
        high[open_[~right]] = middle[~right]
        open_ = open_[low[open_] < high[open_]]
    return low


def _spliced(length: int, removed: Column, places: Column) -> tuple[Column, Column]:
    """The old position of each row after a change, and the positions of new rows, which have no old one.

    Rows are inserted before `places`. `removed` and `places` are sorted. The result serves all columns.
    """
    is_kept = np.ones(length, dtype=bool)
    is_kept[removed] = False
    new = places - np.searchsorted(removed, places) + np.arange(len(places))
    is_old = np.ones(length - len(removed) + len(places), dtype=bool)
    is_old[new] = False
    source = np.zeros(len(is_old), dtype=np.int64)
    source[is_old] = np.flatnonzero(is_kept)
    return source, new


@final
class RunRows(Mapping[tuple[int, ...], int]):
    """The rows of a run with weights as a mapping, which stays in columns until rows are read."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        assert run.weights is not None
        self.run = run

    def __len__(self) -> int:
        return self.run.length

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self.run.rows()

    def __getitem__(self, row: tuple[int, ...]) -> int:
        position, found = self.run.position(row)
        if not found:
            raise KeyError(row)
        assert self.run.weights is not None
        return int(self.run.weights[position])

    def items(self) -> ItemsView[tuple[int, ...], int]:
        return _Items(self)


class _Items(ItemsView[tuple[int, ...], int]):
    """Iterates over the columns, without a lookup per row."""

    _mapping: RunRows

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], int]]:
        assert self._mapping.run.weights is not None
        return zip(self._mapping, self._mapping.run.weights.tolist(), strict=True)
