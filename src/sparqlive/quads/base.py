"""The base: quads in whole sorted orders that never change; later changes are stored above it.

Owns the protocol that a store's mapped orders implement (`store/quad_maps.py`), and the base without quads.
A base holds one table entry per predicate, and nothing per graph.
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
"""The positions of a quad's terms in each order."""


class Base(Protocol):
    """Quads in whole sorted orders. The rows of a predicate are a slice of the predicate-first orders."""

    size: int
    is_mapped: bool
    """Whether all orders are mapped: they need no sorting and no memory."""
    is_mixed: bool
    """Whether some predicate has quads in several graphs."""

    def predicates(self) -> Column:
        """All predicates, sorted."""

    def has(self, predicate: int) -> bool:
        """Whether a predicate has quads."""

    def graph_of(self, predicate: int) -> int | None:
        """The graph of all quads of a predicate; None if there are several, or none."""

    def part(self, order: Direction, predicate: int) -> Run | None:
        """The rows of a predicate: (s, o) or (o, s) if they are in one graph, else with the graph last."""

    def whole(self, order: WholeOrder) -> Run:
        """All quads, in the order of `POSITIONS`."""


class NoBase:
    """The base of a session in memory, and of an empty store: all quads are later changes."""

    size = 0
    is_mapped = False
    is_mixed = False

    def predicates(self) -> Column:
        return np.empty(0, np.int64)

    def has(self, predicate: int) -> bool:
        return False

    def graph_of(self, predicate: int) -> int | None:
        return None

    def part(self, order: Direction, predicate: int) -> Run | None:
        return None

    def whole(self, order: WholeOrder) -> Run:
        raise AssertionError("orders in memory are built from the parts")


# If more values than this have equal top bits, all values are sorted by a stable sort.
_MOST_REPAIRED = 1_000


def turned(run: Run) -> Run:
    """Swaps the first two columns of a run. It is already sorted by the column that becomes the second."""
    firsts, seconds, *others = run.columns
    order = _order_of(seconds)
    return Run([seconds[order], firsts[order], *(column[order] for column in others)])


def _order_of(values: Column) -> Column:
    """The positions of the values in sorted order; equal values keep their order.

    NumPy sorts plain numbers several times faster than positions. So each value's top bits are sorted
    together with its position. Ids are hashes, so values that differ only in the other bits are rare; they
    are sorted afterwards.
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
