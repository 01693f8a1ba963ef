"""The one protocol for reading quads, implemented by the current state and by snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import methodcaller
from typing import Any, Protocol

from sparqlive.quads.base import WholeOrder
from sparqlive.quads.scope import Scope
from sparqlive.runtime.tuning import Tuning
from sparqlive.zset.keyed_relation import KeyedRelation


class PartReader(Protocol):
    """The quads of one predicate; see `quads/parts.py`."""

    predicate: int
    graph: int | None

    @property
    def is_single(self) -> bool: ...
    @property
    def forward(self) -> KeyedRelation: ...
    def backward(self) -> KeyedRelation: ...


class Reader(Protocol):
    """Quads to look up: the current state, or a snapshot."""

    tuning: Tuning
    has_orders: bool
    """Whether lookups without a predicate read whole orders. Otherwise there are only a few predicates."""

    @property
    def is_mixed(self) -> bool:
        """Whether some predicate has quads in several graphs."""

    @property
    def has_many_graphs(self) -> bool:
        """Whether looking up the quads of one graph is worth an order; estimated."""

    def part(self, predicate: int) -> PartReader | None:
        """The quads of a predicate, if there are any."""

    def parts(self) -> Iterator[PartReader]:
        """The quads of each predicate."""

    def ordered(self, order: WholeOrder, key_length: int) -> KeyedRelation:
        """All quads in an order, with the first positions as the key."""


def own_graph(scope: Scope) -> int | None:
    """The graph of a scope that has only one; otherwise None."""
    return next(iter(scope.graphs)) if scope.kind == "one" and scope.graphs is not None else None


def readers_by_identity(readers: Mapping[tuple[Any, ...], Any]) -> dict[int, Callable[[Any], Any]]:
    return {id(reader): methodcaller(*key) for key, reader in readers.items()}
