"""Builds the maps of a base of quads: one file per order, from the base's runs or from another map.

The first order, `pso`, is close to that of the runs, and is built from them, some predicates at a time. Every
other order is built by sorting an existing one by one column. The sort is stable, so rows that are equal in
this column keep their previous order. Invariant: the rows in memory at a time are bounded, whatever the
number of rows of a predicate, a graph or an object.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from sparqlive.errors import StoreFailed
from sparqlive.store.map_directory import DirectoryEntries, directory_length, number_type
from sparqlive.store.map_folder import MapFolder
from sparqlive.store.maps import Array, Map, MapWriter
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, read_columns, read_groups
from sparqlive.store.sorting import Columns, Sorter, gathered, reordered
from sparqlive.zset.order import is_sorted, lexicographic
from sparqlive.zset.run import Column

Order = Literal["pso", "pos", "spo", "osp", "gpso", "gpos"]
"""The columns that quads are sorted by; the graph comes last if not listed."""
COLUMNS: dict[Order, tuple[str, ...]] = {
    "pso": ("s", "o", "g"),
    "pos": ("o", "s", "g"),
    "spo": ("s", "p", "o", "g"),
    "osp": ("o", "s", "p", "g"),
    "gpso": ("g", "p", "s", "o"),
    "gpos": ("g", "p", "o", "s"),
}
"""The columns of an order in a map. Orders by predicate have a table of predicates instead of a column."""
MADE_OF: dict[Order, Order] = {"pos": "pso", "spo": "pso", "osp": "spo", "gpso": "pso", "gpos": "pos"}
"""The order from which each order is built, by sorting by the new first column."""
Progress = Callable[[Order, int, int], None]
"""Called with an order, the number of rows written so far, and the number of all rows."""
_PIECE_ROWS = 1 << 17
_BEFORE_ALL = -(2**63)


@dataclass(frozen=True)
class Parts:
    """The predicates of an order by predicate, and where the rows of each are."""

    predicates: Column
    starts: Column
    """The first row of each predicate, and the end of the last."""
    graphs: Column
    """The graph of each predicate, if all its rows are in one."""
    several: npt.NDArray[np.uint32]
    """1 for each predicate with rows in several graphs."""
    directory_starts: Column
    """The start of each predicate's directory in their common section. Small parts have none."""

    @classmethod
    def of(
        cls,
        predicates: Column,
        sizes: Column,
        graphs: Column,
        several: npt.NDArray[np.uint32],
        directory_rows: int,
    ) -> Parts:
        large, lengths = sizes >= directory_rows, np.zeros(len(sizes), dtype=np.int64)
        lengths[large] = [directory_length(size) for size in sizes[large].tolist()]
        return cls(predicates, _starts(sizes), graphs, several, _starts(lengths))

    @classmethod
    def in_map(cls, found: Map) -> Parts:
        return cls(*(found.array(name) for name in _TABLE))

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    @property
    def has_graphs(self) -> bool:
        """Whether rows have a column for their graph."""
        return bool(self.several.any())

    def arrays(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in _TABLE}

    def expanded(self, values: Column, start: int, stop: int) -> Column:
        """Repeats the value of each predicate for its rows in a range."""
        first, last = self.between(start, stop)
        edges = np.clip(self.starts[first : last + 1], start, stop)
        return np.repeat(values[first:last], np.diff(edges))

    def between(self, start: int, stop: int) -> tuple[int, int]:
        """The first predicate with rows in a range, and the one after the last."""
        first = int(np.searchsorted(self.starts, start, "right")) - 1
        return first, int(np.searchsorted(self.starts, stop, "left"))

    @cached_property
    def with_directory(self) -> Column:
        return np.flatnonzero(np.diff(self.directory_starts))

    def batches(self, most: int) -> Iterator[tuple[int, int]]:
        """Ranges of predicates with at most `most` rows, unless one predicate has more."""
        first, count = 0, len(self.predicates)
        while first < count:
            last = int(np.searchsorted(self.starts, self.starts[first] + most, "right")) - 1
            last = max(last, first + 1)
            yield first, last
            first = last


_TABLE = ("predicates", "starts", "graphs", "several", "directory_starts")


def _starts(sizes: Column) -> Column:
    return np.append(0, np.cumsum(sizes, dtype=np.int64))


@dataclass(frozen=True)
class Target:
    """A map to be built."""

    order: Order
    folder: MapFolder
    name: str
    sources: Sequence[str]
    memory: int
    """Approximate bytes for the rows in memory."""
    directory_rows: int
    """Minimum rows of a part with a directory."""
    progress: Progress | None = None

    @property
    def sorter(self) -> Sorter:
        return Sorter(self.folder, self.memory)

    def report(self, done: int, rows: int) -> None:
        if self.progress is not None:
            self.progress(self.order, done, rows)


# Orders by predicate


class _PartsWriter:
    """Writes the rows of an order by predicate, and the directories of its parts."""

    def __init__(self, target: Target, parts: Parts, writer: MapWriter) -> None:
        self._target, self._parts, self._writer = target, parts, writer
        self._done = 0
        self._directory: DirectoryEntries | None = None

    def add(self, columns: Columns) -> None:
        """Adds rows; the column of graphs may be missing if each predicate has one graph."""
        start, stop = self._done, self._done + len(columns[0])
        names = COLUMNS[self._target.order]
        for name, column in zip(names, columns, strict=False):
            self._writer.append(name, column)
        if self._parts.has_graphs and len(columns) < len(names):
            self._writer.append("g", self._parts.expanded(self._parts.graphs, start, stop))
        first, last = self._parts.between(start, stop)
        large = self._parts.with_directory
        low, high = np.searchsorted(large, (first, last))
        for part in large[low:high].tolist():
            self._add_to_directory(part, columns[0], start, stop)
        self._done = stop
        self._target.report(stop, self._parts.rows)

    def _add_to_directory(self, part: int, column: Column, start: int, stop: int) -> None:
        begin, end = self._parts.starts[part : part + 2].tolist()
        if begin >= start:
            self._directory = DirectoryEntries(end - begin)
        assert self._directory is not None
        for entries in self._directory.add(column[max(begin - start, 0) : end - start]):
            self._write_entries(entries)
        if end <= stop:
            for entries in self._directory.rest():
                self._write_entries(entries)

    def _write_entries(self, entries: Column) -> None:
        self._writer.append("directories", entries.astype(number_type(self._parts.rows)))


def _write_parts(target: Target, parts: Parts, pieces: Generator[Columns]) -> None:
    rows = ("<i8", parts.rows)
    names = COLUMNS[target.order] if parts.has_graphs else COLUMNS[target.order][:2]
    directories = np.dtype(number_type(parts.rows)).str, int(parts.directory_starts[-1])
    sections = {name: (array.dtype.str, len(array)) for name, array in parts.arrays().items()}
    sections |= {"directories": directories, **dict.fromkeys(names, rows)}
    with target.folder.writing(target.name, target.sources, sections) as writer:
        for name, array in parts.arrays().items():
            writer.append(name, array)
        output = _PartsWriter(target, parts, writer)
        with closing(pieces):
            for columns in pieces:
                output.add(columns)


def build_from_runs(target: Target, place: Place, runs: Sequence[RunFile]) -> None:
    """Builds the order by predicate and subject from the runs of a base."""
    assert target.order == "pso"
    base = _Base(place, runs, target)
    _write_parts(target, base.parts, base.pieces())


def build_by_object(target: Target, source: Map) -> None:
    """Builds the order by predicate and object from the one by predicate and subject."""
    old = Parts.in_map(source)
    parts = Parts.of(old.predicates, np.diff(old.starts), old.graphs, old.several, target.directory_rows)
    _write_parts(target, parts, _by_object(target, source, parts))


def _by_object(target: Target, source: Map, parts: Parts) -> Generator[Columns]:
    names = COLUMNS["pos"] if parts.has_graphs else COLUMNS["pos"][:2]
    most = target.sorter.most_rows(len(names) + 1)
    for first, last in parts.batches(most):
        start, stop = parts.starts[[first, last]].tolist()
        rows = _MapRows(source, names, start, stop, parts)
        if last - first == 1:
            yield from target.sorter.in_order(rows, len(names), (0,))
            continue
        columns = gathered(rows.pieces(range(len(names)), stop - start))
        number_of = np.repeat(np.arange(last - first), np.diff(parts.starts[first : last + 1]))
        yield reordered(columns, (number_of, columns[0]))


@dataclass(frozen=True)
class _MapRows:
    """A range of rows of a map; missing columns p and g come from its table of predicates."""

    map: Map
    names: Sequence[str]
    start: int
    stop: int
    parts: Parts | None = None

    @property
    def length(self) -> int:
        return self.stop - self.start

    def pieces(self, numbers: Sequence[int], most: int) -> Iterator[Columns]:
        for start in range(self.start, self.stop, most):
            stop = min(start + most, self.stop)
            yield [self._column(self.names[number], start, stop) for number in numbers]

    def _column(self, name: str, start: int, stop: int) -> Column:
        if name in self.map:
            return self.map.array(name, start, stop)
        assert self.parts is not None
        return self.parts.expanded(self.parts.predicates if name == "p" else self.parts.graphs, start, stop)


# Whole orders


def build_whole(target: Target, source: Map) -> None:
    """Builds an order of all quads from the one that `MADE_OF` names."""
    names = COLUMNS[target.order]
    parts = Parts.in_map(source) if "predicates" in source else None
    count = source.length("s")
    rows = _MapRows(source, names, 0, count, parts)
    directory = np.dtype(number_type(count)).str, directory_length(count)
    sections = {"directory": directory, **dict.fromkeys(names, ("<i8", count))}
    with target.folder.writing(target.name, target.sources, sections) as writer:
        entries, done = DirectoryEntries(count), 0
        with closing(target.sorter.in_order(rows, len(names), (0,))) as pieces:
            for columns in pieces:
                for name, column in zip(names, columns, strict=True):
                    writer.append(name, column)
                for found in entries.add(columns[0]):
                    writer.append("directory", found.astype(directory[0]))
                done += len(columns[0])
                target.report(done, count)
        for found in entries.rest():
            writer.append("directory", found.astype(directory[0]))


# The base


@dataclass(frozen=True)
class _Segments:
    """Ranges of rows in files with one predicate each, ordered by predicate, then by row."""

    files: Column
    starts: Column
    stops: Column
    predicates: Column
    least_graphs: Column
    greatest_graphs: Column

    @classmethod
    def of(cls, place: Place, runs: Sequence[RunFile]) -> _Segments:
        columns_by_run = [_segments_of(place, number, run) for number, run in enumerate(runs)]
        columns = gathered(iter(columns_by_run))
        order, _ = lexicographic([columns[number] for number in (3, 6, 7)])
        return cls(*(column[order] for column in columns[:6]))


def _segments_of(place: Place, number: int, run: RunFile) -> Columns:
    predicates, graphs = read_columns(place, run, ("p", "g"))
    starts = np.append(0, np.flatnonzero(predicates[1:] != predicates[:-1]) + 1)
    # Only the first predicate and graph of a file can continue from another file.
    subjects, objects = np.full((2, len(starts)), _BEFORE_ALL)
    subjects[0], objects[0] = run.first[2], run.first[3]
    return [
        np.full(len(starts), number),
        starts,
        np.append(starts[1:], len(predicates)),
        predicates[starts],
        np.minimum.reduceat(graphs, starts),
        np.maximum.reduceat(graphs, starts),
        subjects,
        objects,
    ]


class _Base:
    """The runs of a base, read in the order by predicate and subject."""

    def __init__(self, place: Place, runs: Sequence[RunFile], target: Target) -> None:
        self._place, self._runs, self._target = place, runs, target
        self._segments = found = _Segments.of(place, runs)
        self._edges = np.append(0, np.flatnonzero(np.diff(found.predicates)) + 1)
        """The first segment of each predicate."""
        sizes = np.add.reduceat(found.stops - found.starts, self._edges)
        least = np.minimum.reduceat(found.least_graphs, self._edges)
        greatest = np.maximum.reduceat(found.greatest_graphs, self._edges)
        self.parts = Parts.of(
            found.predicates[self._edges],
            sizes,
            least,
            (least != greatest).astype(np.uint32),
            target.directory_rows,
        )
        self._edges = np.append(self._edges, len(found.predicates))

    def pieces(self) -> Generator[Columns]:
        """The rows, as columns s, o and g, or s and o if each predicate has one graph."""
        sorter, parts = self._target.sorter, self.parts
        for first, last in parts.batches(sorter.most_rows(4)):
            low, high = self._edges[[first, last]].tolist()
            names = ("s", "o", "g") if parts.several[first:last].any() else ("s", "o")
            if last - first > 1:
                yield self._batch(low, high, names)
                continue
            rows = _FileRows(self._place, self._runs, names, self._ranges(low, high))
            if len(names) == 2:
                yield from self._in_files(rows)
            else:
                yield from sorter.in_order(rows, 3, (0, 1, 2))

    def _in_files(self, rows: _FileRows) -> Iterator[Columns]:
        """The rows of a large predicate, whose order in the files is checked."""
        last = (_BEFORE_ALL, _BEFORE_ALL)
        for columns in rows.pieces((0, 1), min(_PIECE_ROWS, self._target.sorter.most_rows(4))):
            first = int(columns[0][0]), int(columns[1][0])
            if first < last or not is_sorted(columns):
                raise StoreFailed(
                    f"The quads of the store are not in order in {', '.join(rows.paths)}. Restore the store "
                    f"from a backup."
                )
            last = int(columns[0][-1]), int(columns[1][-1])
            yield columns

    def _ranges(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """The rows of some segments: file number, first row, and end."""
        segments = self._segments
        ranges: dict[int, tuple[int, int]] = {}
        columns = (segments.files, segments.starts, segments.stops)
        for file, start, stop in zip(*(column[low:high].tolist() for column in columns), strict=True):
            before = ranges.get(file, (start, stop))
            ranges[file] = min(before[0], start), max(before[1], stop)
        return [(file, *bounds) for file, bounds in ranges.items()]

    def _batch(self, low: int, high: int, names: tuple[str, ...]) -> Columns:
        """The rows of some predicates, from all segments."""
        rows = _FileRows(self._place, self._runs, ("p", *names), self._ranges(low, high))
        columns = gathered(rows.pieces(range(len(names) + 1), _PIECE_ROWS))
        return columns[1:] if is_sorted(columns) else reordered(columns, [*columns])[1:]


@dataclass(frozen=True)
class _FileRows:
    """Ranges of rows of files, read in sequence."""

    place: Place
    runs: Sequence[RunFile]
    names: Sequence[str]
    ranges: Sequence[tuple[int, int, int]]

    @property
    def length(self) -> int:
        return sum(stop - start for _, start, stop in self.ranges)

    @property
    def paths(self) -> list[str]:
        return [self.place.text(self.runs[file].path) for file, _, _ in self.ranges]

    def pieces(self, numbers: Sequence[int], most: int) -> Iterator[Columns]:
        names = [self.names[number] for number in numbers]
        for file, start, stop in self.ranges:
            for columns in read_groups(self.place, self.runs[file], names, start, stop):
                edges = [*range(0, len(columns[0]), most), len(columns[0])]
                for low, high in pairwise(edges):
                    yield [np.ascontiguousarray(column[low:high]) for column in columns]
