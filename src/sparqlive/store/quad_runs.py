"""The quads in files by graph and predicate, for workers that find what a load changes.

Owns the positions of pairs in the files, by graph and predicate: a segment is a range of rows of one file
with one predicate and one graph. Segments of one graph and predicate in the base are sorted and do not
overlap. Files may be interleaved: a large predicate has its own files, small predicates share files. The
change log after the base is one layer per epoch, in files or as rows. Invariant: the weights of a pair in all
layers, with 1 in the base, add up to 1 if it exists, and to 0 otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sparqlive.store.layout import ROWS_PER_GROUP
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, read_columns
from sparqlive.store.seeking import Readers
from sparqlive.zset.columns import Mask, group_starts
from sparqlive.zset.run import Column, Run, search

Stored = Column | Sequence[RunFile]
"""The changes of an epoch: their rows, or the files that hold them."""
_BEFORE_ALL = -(2**63)


@dataclass(frozen=True)
class Segment:
    """Rows of a file with one predicate and one graph. `first` orders the segments of all files."""

    run: RunFile
    start: int
    stop: int
    first: tuple[int, int, int, int]

    @property
    def path(self) -> str:
        return self.run.path

    @property
    def key(self) -> tuple[int, int]:
        """Graph and predicate."""
        return self.first[1], self.first[0]


def segments_of(place: Place, runs: Iterable[RunFile]) -> list[Segment]:
    """The segments of all files, in order of predicate, graph, subject and object."""
    segments = [segment for run in runs for segment in _segments_of(place, run)]
    return sorted(segments, key=lambda segment: segment.first)


def _segments_of(place: Place, run: RunFile) -> Iterator[Segment]:
    predicates, graphs = read_columns(place, run, ("p", "g"))
    edges = (np.flatnonzero((predicates[1:] != predicates[:-1]) | (graphs[1:] != graphs[:-1])) + 1).tolist()
    for start, stop in zip([0, *edges], [*edges, len(predicates)], strict=True):
        # Only the first predicate and graph of a file can continue from another file.
        rest = (_BEFORE_ALL, _BEFORE_ALL) if start else (run.first[2], run.first[3])
        yield Segment(run, start, stop, (int(predicates[start]), int(graphs[start]), *rest))


def read_pairs(readers: Readers, segment: Segment) -> Run:
    """The pairs of a segment, with weights if it belongs to the change log.

    Small segments share a row group, which is mapped, or read once for all of them.
    """
    rows = segment.start, segment.stop
    if segment.stop - segment.start < ROWS_PER_GROUP:
        columns = readers.of(segment.run).between(_columns(segment), *rows)
    else:
        columns = read_columns(readers.place, segment.run, _columns(segment), *rows)
    subjects, objects, *weights = map(np.ascontiguousarray, columns)
    return Run((subjects, objects), *weights)


def _columns(segment: Segment) -> tuple[str, ...]:
    return ("s", "o") if segment.run.epoch is None else ("s", "o", "w")


def weights_of(readers: Readers, segments: Sequence[Segment], subjects: Column, objects: Column) -> Column:
    """The weights that sorted pairs have in the segments of a layer; reads those that can contain them."""
    weights = np.zeros(len(subjects), dtype=np.int64)
    starts = [_pairs_before(subjects, objects, segment.first[2:]) for segment in segments[1:]]
    for segment, (start, stop) in zip(segments, pairwise([0, *starts, len(subjects)]), strict=True):
        if start != stop:
            weights[start:stop] = _weights_of(readers, segment, subjects[start:stop], objects[start:stop])
    return weights


def _weights_of(readers: Readers, segment: Segment, subjects: Column, objects: Column) -> Column:
    """Reads a segment, or searches it if the pairs are few."""
    if len(subjects) * readers.tuning.rows_per_search > segment.stop - segment.start:
        return _weights_in(read_pairs(readers, segment), subjects, objects)
    reader = readers.of(segment.run)
    low, high = reader.find("s", subjects, segment.start, segment.stop)
    exists, column = low < high, reader.column("o")
    low[exists] = search(column, objects[exists], low[exists], high[exists], before=True)
    exists &= low < high
    exists[exists] = column[low[exists]] == objects[exists]
    weights = exists.astype(np.int64)
    if segment.run.epoch is not None:
        weights[exists] = reader.column("w")[low[exists]]
    return weights


def _weights_in(run: Run, subjects: Column, objects: Column) -> Column:
    places, exists = run.places((subjects, objects))
    if run.weights is None:
        return exists.astype(np.int64)
    weights = np.zeros(len(subjects), dtype=np.int64)
    weights[exists] = run.weights[places[exists]]
    return weights


@dataclass
class Layers:
    """The pairs of a graph and predicate: the segments of the base, and the changes after it by epoch."""

    base: list[Segment] = field(default_factory=list)
    late: list[list[Segment]] = field(default_factory=list)
    rows: list[Run] = field(default_factory=list)

    def within(self, low: int, high: int) -> Layers:
        """The segments that can contain subjects from `low` to `high`."""
        late = [found for segments in self.late if (found := _within(segments, low, high))]
        return Layers(_within(self.base, low, high), late, self.rows)

    def has(self, readers: Readers, subjects: Column, objects: Column) -> Mask:
        """Which of many sorted pairs exist; reads the segments that can contain them."""
        weights = np.zeros(len(subjects), dtype=np.int64)
        for segments in (self.base, *self.late) if self.base else self.late:
            weights += weights_of(readers, segments, subjects, objects)
        for run in self.rows:
            weights += _weights_in(run, subjects, objects)
        is_there: Mask = weights > 0
        return is_there


def _within(segments: list[Segment], low: int, high: int) -> list[Segment]:
    def subject(segment: Segment) -> int:
        return segment.first[2]

    first = max(0, bisect_left(segments, low, key=subject) - 1)
    return segments[first : bisect_right(segments, high, key=subject)]


class QuadRuns:
    """The quads in files as of one epoch."""

    def __init__(
        self,
        readers: Readers,
        runs: Sequence[RunFile],
        log: Iterable[Stored] = (),
        known: QuadRuns | None = None,
    ) -> None:
        """`log`: the changes of each epoch after the base. `known` already knows segments of some files."""
        self._place = readers.place
        self._files: dict[str, list[Segment]] = {}
        self._layers: dict[tuple[int, int], Layers] = {}
        for key, segments in self._by_key(runs, known).items():
            self._layers.setdefault(key, Layers()).base = segments
        for stored in log:
            if isinstance(stored, np.ndarray):
                for key, run in _runs_of(stored):
                    self._layers.setdefault(key, Layers()).rows.append(run)
            else:
                for key, segments in self._by_key(stored, known).items():
                    self._layers.setdefault(key, Layers()).late.append(segments)

    def _by_key(
        self, runs: Iterable[RunFile], known: QuadRuns | None
    ) -> dict[tuple[int, int], list[Segment]]:
        """The segments of some files, in order."""
        everything: list[Segment] = []
        for run in runs:
            own = None if known is None else known._files.get(run.path)
            own = [*_segments_of(self._place, run)] if own is None else own
            self._files[run.path] = own
            everything += own
        by_key: dict[tuple[int, int], list[Segment]] = {}
        for segment in sorted(everything, key=lambda segment: segment.first):
            by_key.setdefault(segment.key, []).append(segment)
        return by_key

    def layers(self, key: tuple[int, int], low: int, high: int) -> Layers | None:
        """The layers of pairs with subjects from `low` to `high`; None if there are none."""
        layers = self._layers.get(key)
        return None if layers is None else layers.within(low, high)


def _runs_of(changes: Column) -> Iterator[tuple[tuple[int, int], Run]]:
    """The changes of an epoch, rows of s, p, o, g, w, by graph and predicate."""
    order = np.lexsort((changes[:, 2], changes[:, 0], changes[:, 3], changes[:, 1]))
    subjects, predicates, objects, graphs, weights = (np.ascontiguousarray(c) for c in changes[order].T)
    for start, stop in pairwise(group_starts(predicates, graphs).tolist()):
        pairs = (subjects[start:stop], objects[start:stop])
        yield (int(graphs[start]), int(predicates[start])), Run(pairs, weights[start:stop])


def _pairs_before(subjects: Column, objects: Column, first: tuple[int, ...]) -> int:
    """How many of the sorted pairs come before a pair."""
    low = int(np.searchsorted(subjects, first[0], "left"))
    high = int(np.searchsorted(subjects, first[0], "right"))
    return low + int(np.searchsorted(objects[low:high], first[1], "left"))
