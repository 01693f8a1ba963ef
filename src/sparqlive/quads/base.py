"""The base: quads in whole sorted orders that never change, under the changes that came later.

Owns the protocol that a store's mapped orders have (`store/quad_maps.py`), and the base without quads.
Nothing in a base exists per graph, and per predicate only an entry in a table.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import numpy as np

from sparqlive.quads.scope import GRAPH, OBJECT, PREDICATE, SUBJECT
from sparqlive.zset.order import distinct
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

    def has(self, predicate: int) -> bool:
        """Whether a predicate has quads."""

    def graph_of(self, predicate: int) -> int | None:
        """The graph of all quads of a predicate; None if there are several, or none."""

    def part(self, order: Direction, predicate: int) -> Run | None:
        """The rows of a predicate: (s, o) or (o, s) if they are in one graph, else with the graph last."""

    def whole(self, order: WholeOrder) -> Run:
        """All quads, in the order of `POSITIONS`."""


class NoBase:
    """The base of a session in memory, and of an empty store: all quads came later."""

    size = 0
    is_mapped = False
    is_mixed = False

    def predicates(self) -> Column:
        return np.empty(0, np.int64)

    def sizes(self) -> Column:
        return np.empty(0, np.int64)

    def has(self, predicate: int) -> bool:
        return False

    def graph_of(self, predicate: int) -> int | None:
        return None

    def part(self, order: Direction, predicate: int) -> Run | None:
        return None

    def whole(self, order: WholeOrder) -> Run:
        raise AssertionError("orders in memory are made of all parts")


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
    for top in distinct(tops[wrong] & ~below):
        part = slice(np.searchsorted(tops, top), np.searchsorted(tops, top | below, "right"))
        order[part] = order[part][np.argsort(values[order[part]], kind="stable")]
    return order
