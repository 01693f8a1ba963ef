"""Reads single rows of runs, found by binary search in a sorted column of the file.

The cost of a search depends on its matches and the logarithm of the file's rows. On local disks, columns are
mapped into memory. Elsewhere, and in files of older layouts, a search reads the row groups that it touches;
they stay in memory up to a bound. Invariant: a column of a row group is compared with its
digest before its first value is read.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence, Set
from threading import Lock
from typing import TypeAlias

import numpy as np

from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.store import bounds
from sparqlive.store.layout import ID_BYTES, end_of_values, has_layout, only_value
from sparqlive.store.place import LocalPlace, Place
from sparqlive.store.runs import Chunk, RunFile, compare_chunk, verified
from sparqlive.zset.run import Column

Values: TypeAlias = "memoryview[int]"
"""Numbers. Indexing a memoryview is several times faster than indexing an array, and needs no alignment."""


class Readers:
    """Readers of the files of one place that were read recently."""

    def __init__(self, place: Place, tuning: Tuning = DEFAULT) -> None:
        self.place = place
        self.tuning = tuning
        self._files: OrderedDict[str, RunReader] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int, str], Column] = OrderedDict()
        self._rows = 0
        self._guard = Lock()

    def of(self, run: RunFile) -> RunReader:
        with self._guard:
            reader = self._files.get(run.path)
            if reader is None:
                reader = self._files[run.path] = RunReader(self, run)
            self._files.move_to_end(run.path)
            if len(self._files) > bounds.MAPPED_FILES:
                self._files.popitem(last=False)[1].close()
            return reader

    def keep(self, paths: Set[str]) -> None:
        """Closes all files except `paths`: a mapped file keeps its disk space even when deleted."""
        with self._guard:
            for path in self._files.keys() - paths:
                self._files.pop(path).close()
            for key in [key for key in self._groups if key[0] not in paths]:
                self._rows -= len(self._groups.pop(key))

    def group(self, run: RunFile, group: int, name: str) -> Column:
        """A column of a row group, read in full; it stays in memory for a while."""
        key = run.path, group, name
        with self._guard:
            cached = self._groups.get(key)
            if cached is not None:
                self._groups.move_to_end(key)
                return cached
        with verified(self.place, run) as file:
            column: Column = file.read_groups([group], [name]).column(name).to_numpy()
        with self._guard:
            if key not in self._groups:
                self._groups[key] = column
                self._rows += len(column)
            while len(self._groups) > 1 and self._rows > bounds.GROUP_ROWS:
                self._rows -= len(self._groups.popitem(last=False)[1])
        return column


class RunReader:
    """Finds rows of a file by their values."""

    def __init__(self, readers: Readers, run: RunFile) -> None:
        self._readers = readers
        self.run = run
        self._columns: dict[str, _Column] = {}
        self._mapped: mmap.mmap | None = None

    def column(self, name: str) -> _Column:
        """A column; `column[rows]` reads its values at some rows."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._described(name)
        return column

    def _described(self, name: str) -> _Column:
        with verified(self._readers.place, self.run) as file:
            metadata = file.metadata
            starts = np.array([0, *(stop for _, stop in file.groups())], dtype=np.int64)
            place = file.names.index(name)
            parts = [metadata.row_group(group).column(place) for group in range(metadata.num_row_groups)]
            is_mapped = has_layout(metadata) and isinstance(self._readers.place, LocalPlace)
            ends = [end_of_values(part) if is_mapped else None for part in parts]
            only = [only_value(part) for part in parts]
            return _Column(self, name, starts, ends, only, file.chunks(name))

    def mapped(self, chunk: Chunk, start: int, end: int) -> Values:
        """Maps numbers in a chunk of the file; the operating system reads the pages that are touched."""
        with open(self._readers.place.path(self.run.path), "rb") as stream:
            if self._mapped is None:
                self._mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
                self._mapped.madvise(mmap.MADV_RANDOM)
            mapped = memoryview(self._mapped)
            stream.seek(chunk.start)  # compared without the map, whose pages would count as process memory
            compare_chunk(self._readers.place, self.run, chunk, memoryview(stream.read(chunk.size)))
        return mapped[start:end].cast("q")

    def close(self) -> None:
        """Unmaps the file as soon as no search uses it; a later search maps it again."""
        self._columns = {}
        self._mapped = None

    def group(self, group: int, name: str) -> Column:
        return self._readers.group(self.run, group, name)

    def find(self, name: str, keys: Column, start: int = 0, stop: int | None = None) -> tuple[Column, Column]:
        """The range of rows of each key, in a column that is sorted from `start` to `stop`."""
        parts = self.column(name).parts(start, self.run.rows if stop is None else stop)
        firsts = [values[low] for values, low, _, _ in parts]
        ranges = np.empty((2, len(keys)), dtype=np.int64)
        for place, key in enumerate(keys.tolist()):
            values, low, high, before = parts[max(0, bisect_left(firsts, key) - 1)]
            ranges[0, place] = before + bisect_left(values, key, low, high)
            values, low, high, before = parts[max(0, bisect_right(firsts, key) - 1)]
            ranges[1, place] = before + bisect_right(values, key, low, high)
        return ranges[0], ranges[1]

    def between(self, names: Sequence[str], start: int, stop: int) -> list[Column]:
        """Copies columns from one row to another, so that nothing else of the file stays in memory."""
        return [self.column(name).between(start, stop) for name in names]

    def rows(self, names: Sequence[str], low: Column, high: Column) -> list[Column]:
        """Columns of the rows in some ranges."""
        places = expanded(low, high)
        return [self.column(name)[places] for name in names]


class _Column:
    """A column of a file; indexing it reads only the rows asked for."""

    def __init__(
        self,
        reader: RunReader,
        name: str,
        starts: Column,
        ends: Sequence[int | None],
        only: Sequence[int | None],
        chunks: Sequence[Chunk],
    ) -> None:
        """Per row group: `starts`: first row, `ends`: end of its plain values, `only`: its only value."""
        self._reader = reader
        self._name = name
        self._starts = starts
        self._ends = ends
        self._only = only
        self._chunks = chunks
        self._mapped: dict[int, Values] = {}

    def parts(self, start: int, stop: int) -> list[tuple[Values, int, int, int]]:
        """The row groups between two rows: values, the range in them, and the number of rows before them."""
        first, last = np.searchsorted(self._starts, [start, stop - 1], side="right").tolist()
        parts = []
        for group in range(first - 1, last):
            before, end = self._starts[group : group + 2].tolist()
            parts.append((self._values(group), max(start, before) - before, min(stop, end) - before, before))
        return parts

    def between(self, start: int, stop: int) -> Column:
        """Copies the values from one row to another."""
        first, last = np.searchsorted(self._starts, [start, stop - 1], side="right").tolist()
        found, place = np.empty(stop - start, dtype=np.int64), 0
        for group in range(first - 1, last):
            before, end = self._starts[group : group + 2].tolist()
            low, high = max(start, before) - before, min(stop, end) - before
            only = self._only[group]
            part = found[place : place + high - low]
            part[:] = np.frombuffer(self._values(group), np.int64)[low:high] if only is None else only
            place += high - low
        return found

    def _values(self, group: int) -> Values:
        """The values of a row group: mapped into memory, or read in full."""
        values = self._mapped.get(group)
        if values is None:
            end = self._ends[group]
            if end is None:
                return np.ascontiguousarray(self._reader.group(group, self._name)).data
            size = int(self._starts[group + 1] - self._starts[group])
            start = end - ID_BYTES * size
            values = self._mapped[group] = self._reader.mapped(self._chunks[group], start, end)
        return values

    def __getitem__(self, rows: Column) -> Column:
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        found = np.empty(len(rows), dtype=np.int64)
        for group in np.unique(groups).tolist():
            chosen = np.flatnonzero(groups == group)
            only = self._only[group]
            if only is not None:
                found[chosen] = only
                continue
            values, before = self._values(group), int(self._starts[group])
            found[chosen] = [values[row - before] for row in rows[chosen].tolist()]
        return found


def expanded(low: Column, high: Column) -> Column:
    """Concatenates the numbers of some ranges."""
    sizes = high - low
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(high - ends, sizes)
