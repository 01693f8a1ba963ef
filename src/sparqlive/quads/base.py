"""The base: quads in whole sorted orders that never change, under the changes that came later.

Owns the protocol that a store's mapped orders also have (`store/quad_maps.py`), and a base in memory. Nothing
in a base exists per graph, and per predicate only an entry in a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np

from sparqlive.quads.scope import GRAPH, OBJECT, PREDICATE, SUBJECT
from sparqlive.zset.columns import group_starts
from sparqlive.zset.order import lexicographic
from sparqlive.zset.run import Column, Run

Direction: TypeAlias = Literal["pso", "pos"]
WholeOrder: TypeAlias = Literal["spo", "osp", "gpso", "gpos"]

POSITIONS: dict[WholeOrder, tuple[int, int, int, int]] = {
    "spo": (SUBJECT, PREDICATE, OBJECT, GRAPH),
    "osp": (OBJECT, SUBJECT, PREDICATE, GRAPH),
    "gpso": (GRAPH, PREDICATE, SUBJECT, OBJECT),
    "gpos": (GRAPH, PREDICATE, OBJECT, SUBJECT),
}
"""The positions of a quad in the order of a row."""

# A predicate with so many quads has arrays of its own, which are given up when it gets a part.
_LARGE = 4_096


class Base(Protocol):
    """Quads in whole sorted orders. The rows of a predicate are a slice of the predicate-first orders."""

    size: int
    is_mapped: bool
    """Whether all orders can be read without sorting, and take no memory."""
    is_mixed: bool
    """Whether some predicate has quads in several graphs."""

    def predicates(self) -> Column:
        """All predicates, sorted."""

    def sizes(self) -> Column:
        """The number of quads of each predicate."""

    def graph_of(self, predicate: int) -> int | None:
        """The graph of all quads of a predicate; None if there are several, or none."""

    def part(self, order: Direction, predicate: int) -> Run | None:
        """The rows of a predicate: (s, o) or (o, s) if they are in one graph, else with the graph last."""

    def whole(self, order: WholeOrder) -> Run:
        """All quads, in the order of `POSITIONS`."""


class MemoryBase:
    """Quads that were loaded at once, in arrays. Only the order p s o exists."""

    is_mapped = False

    def __init__(self, columns: Sequence[Column] | None = None) -> None:
        """`columns`: s, p, o, g, in any order; rows may be repeated."""
        nothing = np.empty(0, np.int64)
        subjects, predicates, objects, graphs = columns if columns is not None else [nothing] * 4
        order, fresh = lexicographic([predicates, subjects, objects, graphs])
        order = order[fresh]
        self.size = len(order)
        in_order = predicates[order]
        starts = group_starts(in_order)
        self._predicates = in_order[starts[:-1]]
        self._starts = starts
        graphs = graphs[order]
        firsts, lasts = starts[:-1], starts[1:] - 1
        changes = np.concatenate([[0], np.cumsum(graphs[1:] != graphs[:-1])]) if self.size else nothing
        self._has_several = changes[firsts] != changes[lasts]
        self._graphs = graphs[firsts]
        self.is_mixed = bool(self._has_several.any())
        found = [subjects[order], objects[order], *([graphs] if self.is_mixed else [])]
        self._columns: tuple[Column, ...] = tuple(found)
        self._large: dict[int, Run] = {}
        if self.size and len(self._predicates) < self.size // _LARGE:
            self._separate()

    def _separate(self) -> None:
        """Gives each predicate arrays of its own: those of one can then be given up."""
        for place, predicate in enumerate(self._predicates.tolist()):
            run = self._sliced(place)
            self._large[predicate] = Run([np.array(column) for column in run.columns])
        self._columns = tuple([column[:0] for column in self._columns])

    def _sliced(self, place: int) -> Run:
        part = slice(int(self._starts[place]), int(self._starts[place + 1]))
        columns = self._columns if self._has_several[place] else self._columns[:2]
        return Run.over([column.data[part] for column in columns])

    def _place(self, predicate: int) -> int | None:
        place = int(np.searchsorted(self._predicates, predicate))
        is_there = place < len(self._predicates) and self._predicates[place] == predicate
        return place if is_there else None

    def predicates(self) -> Column:
        return self._predicates

    def sizes(self) -> Column:
        return np.diff(self._starts)

    def graph_of(self, predicate: int) -> int | None:
        place = self._place(predicate)
        return None if place is None or self._has_several[place] else int(self._graphs[place])

    def part(self, order: Direction, predicate: int) -> Run | None:
        place = self._place(predicate)
        if place is None:
            return None
        run = self._large[predicate] if self._large else self._sliced(place)
        return run if order == "pso" else turned(run)

    def take(self, predicate: int) -> None:
        """Gives up the rows of a predicate, which has got a part."""
        if self._large:
            self._large[predicate] = _NO_ROWS

    def ids(self, but: Collection[int]) -> Iterator[Column]:
        """The ids in all quads except those of some predicates."""
        is_left = ~np.isin(self._predicates, list(but))
        yield self._predicates[is_left]
        yield self._graphs[is_left]
        for predicate in self._predicates[is_left].tolist() if self._large else ():
            yield from self._large[predicate].columns
        if not self._large:
            rows = np.repeat(is_left, self.sizes())
            yield from (column[rows] for column in self._columns)

    def whole(self, order: WholeOrder) -> Run:
        raise AssertionError("orders in memory are made of all parts")

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns) + sum(
            run.nbytes for run in self._large.values()
        )


_NO_ROWS = Run([np.empty(0, np.int64), np.empty(0, np.int64)])
# Equal top bits of more values than this are put in order by a stable sort of all.
_MOST_REPAIRED = 1_000


def turned(run: Run) -> Run:
    """The run with its first two columns exchanged. It is sorted by the second of them already."""
    firsts, seconds, *others = run.columns
    order = _order_of(seconds)
    return Run([seconds[order], firsts[order], *(column[order] for column in others)])


def _order_of(values: Column) -> Column:
    """The places of the values in their order, equal ones as they come.

    Plain numbers are sorted several times faster than places. So the top bits of each value are sorted
    together with its place. Ids are hashes: hardly ever do two of them differ only in their other bits, and
    these are put in order afterwards.
    """
    place_bits = max(1, (len(values) - 1).bit_length())
    below = np.uint64((1 << place_bits) - 1)
    tops = (np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(1 << 63)) & ~below
    tops |= np.arange(len(values), dtype=np.uint64)
    tops.sort()
    order = (tops & below).view(np.int64)
    ordered = values[order]
    wrong = np.flatnonzero(ordered[1:] < ordered[:-1])
    if len(wrong) > _MOST_REPAIRED:
        return np.argsort(values, kind="stable")
    for top in np.unique(tops[wrong] & ~below):
        part = slice(np.searchsorted(tops, top), np.searchsorted(tops, top | below, "right"))
        order[part] = order[part][np.argsort(values[order[part]], kind="stable")]
    return order
