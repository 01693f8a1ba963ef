"""The runs of quads by graph and predicate, read on demand.

Owns the positions of each graph's and predicate's pairs in the files: a segment is a range of rows of one
file with one predicate and one graph. Segments of one graph and predicate are sorted and do not overlap.
Files may be interleaved: a large predicate has its own files, small predicates share files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

import numpy as np

from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, read_columns
from sparqlive.zset.columns import Mask
from sparqlive.zset.run import Column, Run

CACHED_ROWS = 2_000_000
"""The cache of segments holds at most this many rows, unless a session may use more memory."""
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
    found = [segment for run in runs for segment in _segments_of(place, run)]
    return sorted(found, key=lambda segment: segment.first)


def _segments_of(place: Place, run: RunFile) -> Iterator[Segment]:
    predicates, graphs = read_columns(place, run, ("p", "g"))
    edges = (np.flatnonzero((predicates[1:] != predicates[:-1]) | (graphs[1:] != graphs[:-1])) + 1).tolist()
    for start, stop in zip([0, *edges], [*edges, len(predicates)], strict=True):
        # Only the first predicate and graph of a file can continue from another file.
        rest = (_BEFORE_ALL, _BEFORE_ALL) if start else (run.first[2], run.first[3])
        yield Segment(run, start, stop, (int(predicates[start]), int(graphs[start]), *rest))


class QuadRuns:
    """The quads on disk as of one epoch."""

    def __init__(
        self,
        place: Place,
        runs: Sequence[RunFile],
        known: QuadRuns | None = None,
        cached_rows: int | None = None,
    ) -> None:
        """`known` has already read the segments of some files; `cached_rows`: how many rows may be kept."""
        self._place = place
        self._most_rows: int = cached_rows or (CACHED_ROWS if known is None else known._most_rows)
        self._files: dict[str, list[Segment]] = {}
        self._segments: dict[tuple[int, int], list[Segment]] = {}
        for run in runs:
            found = known._files.get(run.path) if known is not None else None
            self._files[run.path] = found if found is not None else list(_segments_of(place, run))
        everything = [segment for segments in self._files.values() for segment in segments]
        for segment in sorted(everything, key=lambda segment: segment.first):
            self._segments.setdefault(segment.key, []).append(segment)
        self._cached: OrderedDict[Segment | tuple[int, int], Run] = OrderedDict()
        """Runs of segments, and those of all segments of a graph and predicate."""
        self._cached_rows = 0
        self._guard = Lock()

    def paths(self) -> set[str]:
        """The paths of the files."""
        return set(self._files)

    def sizes(self) -> Iterator[tuple[tuple[int, int], int]]:
        """Each graph and predicate, with its number of quads."""
        for key in self._segments:
            yield key, self.size(key)

    def size(self, key: tuple[int, int]) -> int:
        return sum(segment.stop - segment.start for segment in self._segments[key])

    def read(self, key: tuple[int, int]) -> Run:
        """The pairs of subject and object of a graph and predicate; kept for a while, like segments."""
        segments = self._segments[key]
        return self._look(segments[0]) if len(segments) == 1 else self._kept(key, segments)

    def has_pair(self, key: tuple[int, int], subject: int, object_: int) -> bool:
        """Whether a graph and predicate has a pair; searches the only segment that can contain it.

        Recently used segments stay in memory, up to a bound. Lookups in the order of the files read each
        segment at most once.
        """
        segments = self._segments[key]
        after = bisect_right(segments, (subject, object_), key=lambda segment: segment.first[2:])
        return after > 0 and self._look(segments[after - 1]).has_pair(subject, object_)

    def values(self, key: tuple[int, int], subject: int) -> list[int]:
        """The objects of a subject; searches the segments that can contain it, like `has_pair`."""
        segments = self._segments[key]
        first = bisect_left(segments, subject, key=lambda segment: segment.first[2])
        found: list[int] = []
        for segment in segments[max(0, first - 1) :]:
            if segment.first[2] > subject:
                break
            run = self._look(segment)
            low, high = run.range_one(subject)
            found += run.views[1][low:high].tolist()
        return found

    def rows(self, key: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """The pairs of a graph and predicate, read segment by segment."""
        for segment in self._segments[key]:
            yield from self._look(segment).rows()  # type: ignore[misc]

    def has_pairs(self, key: tuple[int, int], subjects: Column, objects: Column) -> Mask:
        """Which of many sorted pairs a graph and predicate has; reads the segments that can contain them."""
        found = np.zeros(len(subjects), dtype=bool)
        segments = self._segments[key]
        starts = [_pairs_before(subjects, objects, segment.first[2:]) for segment in segments[1:]]
        for segment, (start, stop) in zip(segments, pairwise([0, *starts, len(subjects)]), strict=True):
            if start != stop:
                columns = read_columns(self._place, segment.run, ("s", "o"), segment.start, segment.stop)
                run = Run([np.ascontiguousarray(column) for column in columns])
                found[start:stop] = run.places((subjects[start:stop], objects[start:stop]))[1]
        return found

    def _look(self, segment: Segment) -> Run:
        """The rows of a segment, kept in memory for a while."""
        return self._kept(segment, (segment,))

    def _kept(self, name: Segment | tuple[int, int], segments: Sequence[Segment]) -> Run:
        """The rows of some segments under a name. Queries read in threads of their own."""
        with self._guard:
            run = self._cached.get(name)
            if run is not None:
                self._cached.move_to_end(name)
                return run
        parts = [
            read_columns(self._place, segment.run, ("s", "o"), segment.start, segment.stop)
            for segment in segments
        ]
        whole = (
            parts[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
        )
        run = Run([np.ascontiguousarray(column) for column in whole])
        with self._guard:
            if name not in self._cached:
                self._cached[name] = run
                self._cached_rows += run.length
            while len(self._cached) > 1 and self._cached_rows > self._most_rows:
                self._cached_rows -= self._cached.popitem(last=False)[1].length
        return run


def _pairs_before(subjects: Column, objects: Column, first: tuple[int, ...]) -> int:
    """How many of the sorted pairs come before a pair."""
    low = int(np.searchsorted(subjects, first[0], "left"))
    high = int(np.searchsorted(subjects, first[0], "right"))
    return low + int(np.searchsorted(objects[low:high], first[1], "left"))
