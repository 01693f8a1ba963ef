"""The quads of one epoch, readable while later epochs change them.

A snapshot copies nothing. It reads the base, and those parts of the current state that have not changed
since. Before an epoch changes a part, the snapshot gets the old one. Invariant: its quads never change, and
reading them changes nothing that plans see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from sparqlive.quads.base import Base, WholeOrder
from sparqlive.quads.columns import PairTable, sorted_run, tables_of, whole_order
from sparqlive.quads.leaves import GraphNames, Nodes
from sparqlive.quads.lookup import Lookup, OneGraphPairs, quads_with
from sparqlive.quads.merged import MergedPairs
from sparqlive.quads.parts import Part, inverted
from sparqlive.quads.reader import readers_by_identity
from sparqlive.quads.scope import Change, Quad, Scope
from sparqlive.zset.keyed_relation import KeyedRelation, RelationSnapshot

if TYPE_CHECKING:
    from threading import RLock

    from sparqlive.quads.current import Quads


class PartSnapshot:
    """The quads of one predicate before an epoch."""

    __slots__ = ("_backward", "_owner", "_snapshot_lock", "forward", "graph", "predicate")

    def __init__(self, part: Part, snapshot_lock: RLock) -> None:
        self.predicate = part.predicate
        self.graph = part.graph
        self.forward = part.forward.snapshot()
        self._owner = part
        self._snapshot_lock = snapshot_lock
        self._backward: RelationSnapshot | None = None
        if part.pairs.has_backward:
            self._backward = part.backward().snapshot()

    @property
    def is_single(self) -> bool:
        return self.forward.arity == 2

    def backward(self) -> RelationSnapshot:
        """Object → subjects, or pairs of subject and graph; shared with other snapshots until a change."""
        if self._backward is None:
            with self._snapshot_lock:
                is_same = self._owner.forward.snapshot() is self.forward
                relation = self._owner.backward() if is_same else inverted(self.forward)
                self._backward = relation.snapshot()
        return self._backward


class Snapshot:
    """Reads like `Quads` before an epoch."""

    def __init__(self, quads: Quads, base: Base, size: int) -> None:
        self.size = size
        self.tuning = quads.tuning
        self.staged: Mapping[Scope, Sequence[Change]] = {}
        self.identity = object()
        """Identical for two queries that read the same quads."""
        self._quads: Quads | None = quads
        self._snapshot_lock = quads.snapshot_lock
        self._base = base
        self._parts: dict[int, PartSnapshot] = {}
        self._orders: dict[tuple[WholeOrder, int], RelationSnapshot] = {}
        self._given: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
        self.has_orders = quads.is_wide

    # What changes

    def keep(self, parts: Iterable[Part], orders: Mapping[tuple[WholeOrder, int], KeyedRelation]) -> None:
        """Keeps the current state of parts and orders that are about to change."""
        for part in parts:
            if part.predicate not in self._parts:
                self._parts[part.predicate] = PartSnapshot(part, self._snapshot_lock)
        for key, relation in orders.items():
            if key not in self._orders:
                self._orders[key] = relation.snapshot()

    def detach(self) -> None:
        """From now on, reads only its base and the parts that it kept."""
        self._quads = None

    # Parts and orders

    def part(self, predicate: int) -> PartSnapshot | None:
        """The quads of a predicate, which may be empty; None if it certainly has none."""
        part = self._parts.get(predicate)
        if part is None:
            with self._snapshot_lock:
                part = self._parts.get(predicate) or self._found(predicate)
                if part is not None:
                    self._parts[predicate] = part
        return part

    def _found(self, predicate: int) -> PartSnapshot | None:
        quads = self._quads
        part = None if quads is None else quads.live_part(predicate)
        if part is None:
            if not self._base.has(predicate):
                return None
            part = Part(predicate, self._base, self.tuning)
        return PartSnapshot(part, self._snapshot_lock)

    def parts(self) -> Iterator[PartSnapshot]:
        """The quads of each predicate."""
        for predicate in self._predicates():
            part = self.part(predicate)
            if part is not None:
                yield part

    def _predicates(self) -> list[int]:
        with self._snapshot_lock:
            if self._quads is not None:
                return self._quads.predicates()
            others = [name for name in self._base.predicates().tolist() if name not in self._parts]
            return [*self._parts, *others]

    def ordered(self, order: WholeOrder, key_length: int) -> KeyedRelation:
        """All quads in an order, with the first positions as the key."""
        snapshot = self._orders.get((order, key_length))
        if snapshot is None:
            with self._snapshot_lock:
                quads = self._quads
                if quads is not None and quads.is_last(self):
                    snapshot = quads.ordered(order, key_length).snapshot()
                elif self._base.is_mapped:
                    changed = {*self._parts, *(() if quads is None else quads.live_predicates())}
                    parts = filter(None, map(self.part, changed))
                    snapshot = whole_order(self._base, parts, order, key_length).snapshot()
                else:
                    snapshot = KeyedRelation(4, key_length, sorted_run(self.parts(), order)).snapshot()
                self._orders[order, key_length] = snapshot
        return snapshot

    @property
    def is_mixed(self) -> bool:
        """Whether some predicate has quads in several graphs."""
        if self._quads is not None:
            return self._quads.is_mixed
        return self._base.is_mixed or not all(part.is_single for part in self._parts.values())

    @property
    def has_many_graphs(self) -> bool:
        """Asks the current state, which is close to this one."""
        return self._quads is not None and self._quads.has_many_graphs

    # What plans read

    def watch(self, scope: Scope) -> None:
        """Does nothing: a snapshot does not change."""

    def is_merged(self, scope: Scope) -> bool:
        """Whether `tables` lists each triple of a scope once."""
        return scope.kind != "merged" or not self.is_mixed

    def pairs(self, graph: int | Scope, predicate: int) -> KeyedRelation | MergedPairs:
        """Subject → objects of one graph and predicate."""
        return self._pairs("pairs", graph, predicate)

    def inverse(self, graph: int | Scope, predicate: int) -> KeyedRelation | MergedPairs:
        """Object → subjects."""
        return self._pairs("inverse", graph, predicate)

    pairs_if_any, inverse_if_any = pairs, inverse

    def _pairs(self, method: str, graph: int | Scope, predicate: int) -> KeyedRelation | MergedPairs:
        key = method, graph, predicate
        reader: KeyedRelation | MergedPairs | None = self._given.get(key)
        if reader is not None:
            return reader
        part = self.part(predicate)
        if part is None:
            reader = KeyedRelation(2, 1).snapshot()
        elif part.is_single and part.graph is not None and _covers(graph, part.graph):
            reader = part.forward if method == "pairs" else part.backward()
        elif isinstance(graph, Scope):
            reader = MergedPairs(self, part, graph, method == "inverse")
        elif part.is_single:
            reader = KeyedRelation(2, 1).snapshot()
        else:
            reader = OneGraphPairs(self, part, Scope("one", frozenset({graph})), method == "inverse")
        self._given[key] = reader
        return reader

    def index(self, scope: Scope, predicate: int | None, order: tuple[int, ...], key_length: int) -> Lookup:
        """The scope's quads (of one predicate if given) as rows in the given order of positions."""
        lookup = Lookup(self, scope, predicate, order, key_length)
        self._given["index", scope, predicate, order, key_length] = lookup
        return lookup

    def nodes(self, scope: Scope) -> Nodes:
        """Subjects and objects: node (→ graph, for named graphs)."""
        nodes = self._given["nodes", scope] = Nodes(self, scope)
        return nodes

    def names(self, scope: Scope) -> GraphNames:
        """The names of graphs that have a quad, as keys without values."""
        names = self._given.get(("names", scope))
        if names is None:
            names = self._given["names", scope] = GraphNames(self, scope)
        return names

    def matching(self, scope: Scope, known: Mapping[int, int]) -> Iterator[Quad]:
        """The quads of a scope with known ids at some positions."""
        return quads_with(self, scope, known)

    def tables(self, scope: Scope, predicate: int | None, after: bool) -> Iterator[PairTable]:
        """The quads of a scope as columns; see `Quads.tables`."""
        return tables_of(self, scope, predicate, after=False)

    def raw_changes(self, scope: Scope) -> Sequence[Change]:
        """None: a snapshot has no staged changes."""
        return ()

    # Sizes

    def size_of(self, scope: Scope) -> int:
        """The number of quads of a scope; of a merged graph, of its triples."""
        return Lookup(self, scope, None, (), 0).size_before()

    def graph_sizes(self) -> dict[int, int]:
        """The number of quads of each graph that is not empty."""
        sizes: dict[int, int] = {}
        for part in self.parts():
            if part.is_single:
                sizes_of_part = {part.graph: part.forward.size_before()} if part.graph is not None else {}
            else:
                run = part.forward.run_before()
                counted = ((), ()) if run is None else np.unique(run.columns[2], return_counts=True)
                sizes_of_part = {int(graph): int(size) for graph, size in zip(*counted, strict=True)}
            for graph, size in sizes_of_part.items():
                sizes[graph] = sizes.get(graph, 0) + size
        return {graph: size for graph, size in sizes.items() if size}

    def given(self) -> dict[int, Callable[[Quads], Any]]:
        """For the identity of each reader in use, a function that gets the same reader of other quads."""
        return readers_by_identity(self._given)


def _covers(graph: int | Scope, name: int) -> bool:
    return graph.covers(name) if isinstance(graph, Scope) else graph == name
