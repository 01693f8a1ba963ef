"""The quads of a session, for plans to read and epochs to change.

Owns a base that never changes, a part for each predicate that changed or that plans read, the whole orders
for lookups without a predicate, the staged changes by scope, and the snapshots. Nothing exists per graph.
Invariants: each quad occurs once; `stage` receives only effective changes; staged changes are visible to
`after`, and discarded by `rollback`; before an epoch commits, snapshots keep the parts that it changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any
from weakref import WeakSet

import numpy as np

from sparqlive.quads.base import POSITIONS, Base, NoBase, WholeOrder
from sparqlive.quads.columns import PairTable, sorted_run, tables_of, whole_order
from sparqlive.quads.leaves import Delta, GraphNames, Kind, Nodes
from sparqlive.quads.lookup import Lookup, OneGraphPairs, quads_with
from sparqlive.quads.merged import MergedPairs
from sparqlive.quads.parts import Part
from sparqlive.quads.reader import own_graph, readers_by_identity
from sparqlive.quads.scope import GRAPH, OBJECT, PREDICATE, SUBJECT, Change, Quad, Scope
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.zset.columns import ColumnRows, Mask, group_starts, last_rows
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.run import Column

__all__ = ["GRAPH", "OBJECT", "PREDICATE", "SUBJECT", "Change", "PairTable", "Quad", "Quads", "Scope"]

_WEIGHT: Callable[[Change], int] = itemgetter(4)


class Quads:
    has_orders = True

    def __init__(self, tuning: Tuning = DEFAULT) -> None:
        self.tuning = tuning
        self.base: Base = NoBase()
        self._load: Callable[[], tuple[Base, ColumnRows]] | None = None
        """Returns the base and the changes after it; called at the first read or change."""
        self._is_loading = False
        self._is_blank = True
        """Whether there are no quads to load, not even deleted ones."""
        self._parts: dict[int, Part] = {}
        self._touched: list[Part] = []
        self._many_graphs = False, 0
        """Whether there are many graphs, and the number of quads when this was last checked."""
        self._is_split = False
        """Whether some part has, or had, quads in several graphs."""
        self._orders: dict[tuple[WholeOrder, int], KeyedRelation] = {}
        self._single: dict[int, Scope] = {}
        self._plural: set[Scope] = set()
        self._readers: dict[tuple[Any, ...], Any] = {}
        """The readers of plans, by their parameters."""
        self._passing: dict[tuple[Any, ...], MergedPairs] = {}
        """The readers that generated code needed while it ran."""
        self._snapshots: WeakSet[Snapshot] = WeakSet()
        self._last: Snapshot | None = None
        """The snapshot of the current epoch, which all queries share until the next one."""
        self.staged: Mapping[Scope, Sequence[Change]] = {}
        self._changes: Sequence[Change] = ()
        self.size = 0
        self._staged_size = 0
        self.snapshot_lock = threading.RLock()
        """Held while a snapshot reads mutable state, and while that state changes."""

    # Parts and orders

    def _read(self) -> None:
        """Loads the attached base."""
        with self.snapshot_lock:
            if self._load is None or self._is_loading:
                return
            self._is_loading = True  # other threads wait for the lock until everything is loaded
            try:
                self.base, changes = self._load()
                self._apply_unseen(changes)
                self._load = None
            finally:
                self._is_loading = False

    def _apply_unseen(self, changes: ColumnRows) -> None:
        """Applies the changes after a new base; plans have processed them already."""
        self._stage_parts(changes)
        for (order, _), relation in self._orders.items():
            self._stage_order(relation, POSITIONS[order], changes)
        for part in self._touched:
            part.commit()
        for relation in self._orders.values():
            relation.commit()
        self._end_epoch()

    def part(self, predicate: int) -> Part | None:
        """The quads of a predicate, which may be empty; None if it certainly has none."""
        if self._load is not None:
            self._read()
        part = self._parts.get(predicate)
        if part is None and self.base.has(predicate):
            part = self.made_part(predicate)
        return part

    def made_part(self, predicate: int) -> Part:
        """The quads of a predicate, which may have none."""
        if self._load is not None:
            self._read()
        part = self._parts.get(predicate)
        if part is None:
            with self.snapshot_lock:
                part = self._parts.get(predicate)
                if part is None:
                    part = self._parts[predicate] = Part(predicate, self.base, self.tuning)
        return part

    def predicates(self) -> list[int]:
        """The predicates that have, or had, quads."""
        if self._load is not None:
            self._read()
        with self.snapshot_lock:
            others = [name for name in self.base.predicates().tolist() if name not in self._parts]
            return [*self._parts, *others]

    def parts(self) -> Iterator[Part]:
        """The quads of each predicate."""
        for name in self.predicates():
            part = self._parts.get(name)
            yield Part(name, self.base, self.tuning) if part is None else part

    def live_part(self, predicate: int) -> Part | None:
        """The quads of a predicate, if they changed or plans read them."""
        return self._parts.get(predicate)

    def live_predicates(self) -> list[int]:
        """The predicates that changed, or that plans read."""
        return list(self._parts)

    @property
    def is_wide(self) -> bool:
        """Whether there are too many predicates for a lookup to visit each."""
        if self._load is not None:
            self._read()
        predicates = len(self._parts) + len(self.base.predicates())
        return self.base.is_mapped or predicates > self.tuning.few_predicates

    @property
    def is_mixed(self) -> bool:
        """Whether some predicate has quads in several graphs, or had some."""
        if self._load is not None:
            self._read()
        return self.base.is_mixed or self._is_split

    @property
    def has_many_graphs(self) -> bool:
        """Whether looking up the quads of one graph is worth an order; checked again as quads double."""
        is_so, size = self._many_graphs
        if not is_so and self.size > 2 * size:
            with self.snapshot_lock:
                is_so = any(part.has_many_graphs() for part in self._parts.values())
                self._many_graphs = is_so, self.size
        return is_so

    def ordered(self, order: WholeOrder, key_length: int) -> KeyedRelation:
        """All quads in an order, with the first positions as the key; created at the first call."""
        relation = self._orders.get((order, key_length))
        if relation is None:
            with self.snapshot_lock:
                relation = self._orders.get((order, key_length)) or self._ordered(order, key_length)
                self._orders[order, key_length] = relation
        return relation

    def _ordered(self, order: WholeOrder, key_length: int) -> KeyedRelation:
        if self._load is not None:
            self._read()
        same = next((found for (name, _), found in self._orders.items() if name == order), None)
        if same is not None:
            relation = same.with_key(key_length)
        elif self.base.is_mapped:
            relation = whole_order(self.base, self._parts.values(), order, key_length)
        else:
            relation = KeyedRelation(4, key_length, sorted_run(self.parts(), order), tuning=self.tuning)
        self._stage_order(relation, POSITIONS[order], self._changes)
        return relation

    def _stage_order(
        self, relation: KeyedRelation, positions: Sequence[int], changes: Sequence[Change]
    ) -> None:
        if type(changes) is ColumnRows and len(changes) * 16 > relation.size_about():
            relation.stage_columns([changes.columns[i] for i in positions], changes.columns[4])
            return
        for change in changes:
            relation.stage([change[i] for i in positions], change[4])

    # Looking up

    def __contains__(self, quad: Quad) -> bool:
        """Whether a quad existed before the current epoch."""
        subject, predicate, object_, graph = quad
        part = self.part(predicate)
        return part is not None and part.has(subject, object_, graph)

    def __iter__(self) -> Iterator[Quad]:
        return chain.from_iterable(map(_quads_of, self.parts()))

    def of_graph(self, graph: int) -> Iterator[Quad]:
        """The quads of one graph."""
        return quads_with(self, Scope("one", frozenset({graph})), {})

    def of_predicates(self, predicates: Container[int]) -> Iterator[Quad]:
        """The quads of some predicates in any graph."""
        return chain.from_iterable(_quads_of(part) for part in self.parts() if part.predicate in predicates)

    def graph_sizes(self) -> dict[int, int]:
        """The number of quads of each graph that is not empty."""
        return self.snapshot().graph_sizes()

    def present(self, quads: Iterable[Quad]) -> set[Quad]:
        """Those of the given quads that existed before the current epoch."""
        return {quad for quad in quads if quad in self}

    def size_about(self, predicate: int | None) -> int:
        """The approximate number of quads of a predicate, or of all."""
        if predicate is None:
            return self.size
        part = self.part(predicate)
        return 0 if part is None else part.forward.size_about()

    def is_blank(self) -> bool:
        """Whether there are no quads, not even deleted ones in a run."""
        if self._load is not None:
            return self._is_blank
        return not self.base.size and not any(part.forward.size_about() for part in self._parts.values())

    # What plans read

    @property
    def is_read(self) -> bool:
        """Whether plans read quads."""
        return bool(self._single or self._plural or self._readers)

    def watch(self, scope: Scope) -> None:
        """From now on, also lists staged changes for this scope."""
        if scope.kind == "one":
            graph = own_graph(scope)
            assert graph is not None
            self._single[graph] = scope
        else:
            self._plural.add(scope)

    def is_merged(self, scope: Scope) -> bool:
        """Whether `tables` lists each triple of a scope once."""
        return scope.kind != "merged" or not self.is_mixed

    def pairs(self, graph: int | Scope, predicate: int) -> KeyedRelation | MergedPairs:
        """Subject → objects of one graph and predicate, readable also while changes are staged."""
        return self._given(False, graph, predicate)

    def inverse(self, graph: int | Scope, predicate: int) -> KeyedRelation | MergedPairs:
        """Object → subjects."""
        return self._given(True, graph, predicate)

    def _given(self, is_inverse: bool, graph: int | Scope, predicate: int) -> KeyedRelation | MergedPairs:
        key = "inverse" if is_inverse else "pairs", graph, predicate
        reader: KeyedRelation | MergedPairs | None = self._readers.get(key)
        if reader is None:
            with self.snapshot_lock:
                reader = self._readers[key] = self._pairs(is_inverse, graph, predicate)
        return reader

    def _pairs(self, is_inverse: bool, graph: int | Scope, predicate: int) -> KeyedRelation | MergedPairs:
        part = self.made_part(predicate)
        part.is_read = True
        if isinstance(graph, Scope):
            return MergedPairs(self, part, graph, is_inverse)
        pairs = part.in_graph(graph)
        if self._changes:  # a new relation then has pending rows
            self._touched.append(part)
        return pairs.backward() if is_inverse else pairs.forward

    def pairs_if_any(self, graph: int | Scope, predicate: int) -> MergedPairs:
        """Like `pairs`, for a predicate known only at run time; kept until the next epoch."""
        return self._passed(graph, predicate, is_inverse=False)

    def inverse_if_any(self, graph: int | Scope, predicate: int) -> MergedPairs:
        return self._passed(graph, predicate, is_inverse=True)

    def _passed(self, graph: int | Scope, predicate: int, *, is_inverse: bool) -> MergedPairs:
        key = graph, predicate, is_inverse
        reader = self._passing.get(key)
        if reader is None or self._parts.get(predicate) is not reader.part:
            if len(self._passing) >= 1024:
                self._passing = {}
            part = self._parts.get(predicate)
            if part is None:
                self.part(predicate)
                part = self._parts.get(predicate) or Part(predicate, self.base, self.tuning)
            if isinstance(graph, Scope):
                reader = MergedPairs(self, part, graph, is_inverse)
            else:
                reader = OneGraphPairs(self, part, Scope("one", frozenset({graph})), is_inverse)
            self._passing[key] = reader
        return reader

    def index(self, scope: Scope, predicate: int | None, order: tuple[int, ...], key_length: int) -> Lookup:
        """The scope's quads (of one predicate if given) as rows in the given order of positions."""
        key = "index", scope, predicate, order, key_length
        lookup: Lookup | None = self._readers.get(key)
        if lookup is None:
            if predicate is not None:
                self.made_part(predicate).is_read = True
            lookup = self._readers[key] = Lookup(self, scope, predicate, order, key_length)
        return lookup

    def nodes(self, scope: Scope) -> Nodes:
        """Subjects and objects: node (→ graph, for named graphs)."""
        nodes: Nodes | None = self._readers.get(("nodes", scope))
        if nodes is None:
            nodes = self._readers["nodes", scope] = Nodes(self, scope)
        return nodes

    def names(self, scope: Scope) -> GraphNames:
        """The names of graphs that have a quad, as keys without values."""
        names: GraphNames | None = self._readers.get(("names", scope))
        if names is None:
            names = self._readers["names", scope] = GraphNames(self, scope)
        return names

    def delta(self, kind: Kind, scope: Scope) -> Delta:
        """The nodes or names that the staged batch adds to a scope or removes from it."""
        leaf = self.nodes(scope) if kind == "nodes" else self.names(scope)
        return leaf.delta(self.staged.get(scope, ()))

    def tables(self, scope: Scope, predicate: int | None, after: bool) -> Iterator[PairTable]:
        """The quads of a scope as columns, before or after the current epoch.

        If several graphs are merged and `is_merged` is false, a triple comes once for each graph it is in.
        """
        with self.snapshot_lock:
            return iter([*tables_of(self, scope, predicate, after)])

    def raw_changes(self, scope: Scope) -> Sequence[Change]:
        """The staged changes in the graphs of a scope, without merging them."""
        if type(self._changes) is ColumnRows:
            return self._changes.take(scope.covered(self._changes.columns[GRAPH]))
        return [change for change in self._changes if scope.covers(change[GRAPH])]

    # Changing

    def effective(self, requested: Mapping[Quad, int]) -> list[Change]:
        """The effective changes among quads to insert (+1) or delete (-1)."""
        if self._load is not None:
            self._read()
        part_of = self._parts.get
        changes: list[Change] = []
        for quad, weight in requested.items():
            subject, predicate, object_, graph = quad
            part = part_of(predicate) or self.part(predicate)
            if part is None:
                exists = False
            else:
                forward = part.pairs.forward
                if forward.arity == 3:
                    exists = forward.has_before(subject, (object_, graph))
                elif graph != part.graph:
                    exists = False
                else:  # inlines KeyedRelation.has_before: most of the cost of a batch
                    changed = forward.overlay.get(subject)
                    if changed is not None and object_ in changed:
                        exists = changed[object_] > 0
                    elif forward.late is None:
                        exists = forward.run is not None and forward.run.has_pair(subject, object_)
                    else:
                        exists = forward.has_before(subject, object_)
            if exists == (weight < 0):
                changes.append((subject, predicate, object_, graph, weight))
        return changes

    def effective_columns(self, requested: ColumnRows) -> ColumnRows:
        """Like `effective`, for a large batch of rows s, p, o, g, weight: the last change of a quad counts.

        The changes are sorted by p, g, s, o.
        """
        last = last_rows(requested, by=(PREDICATE, GRAPH, SUBJECT, OBJECT))
        exists: Mask = np.zeros(len(last), dtype=bool)
        for predicate, rows in _by_predicate(last):
            part = self.part(predicate)
            if part is not None:
                subjects, _, objects, graphs, _ = last[rows].columns
                exists[rows] = part.has_many(subjects, objects, graphs)
        return last.take(exists == (last.columns[4] < 0))

    def stage(self, changes: Sequence[Change]) -> None:
        """Adds a batch of effective changes to the pending layers, and lists them by scope.

        A large batch comes as columns, in the order of `effective_columns`.
        """
        if self._load is not None:
            self._read()
        self._passing = {}
        with self.snapshot_lock:  # a query may create an order meanwhile
            self._stage_parts(changes)
            self._changes = changes
            for (order, _), relation in self._orders.items():
                self._stage_order(relation, POSITIONS[order], changes)
        self.staged = self._by_scope(changes)
        self.size += self._staged_size

    def _stage_parts(self, changes: Sequence[Change]) -> None:
        if type(changes) is ColumnRows:
            for predicate, rows in _by_predicate(changes):
                subjects, _, objects, graphs, weights = changes[rows].columns
                part = self.made_part(predicate)
                part.stage_columns(subjects, objects, graphs, weights)
                self._touched.append(part)
                self._is_split = self._is_split or not part.is_single
            self._staged_size = int(changes.columns[4].sum())
        else:
            groups: dict[int, list[Change]] = {}
            for change in changes:
                group = groups.get(change[1])
                if group is None:
                    group = groups[change[1]] = []
                group.append(change)
            for predicate, group in groups.items():
                part = self._parts.get(predicate) or self.made_part(predicate)
                part.stage(group)
                self._touched.append(part)
                self._is_split = self._is_split or not part.is_single
            self._staged_size = 2 * inserts_of(changes) - len(changes)

    def _by_scope(self, changes: Sequence[Change]) -> dict[Scope, Sequence[Change]]:
        """The changes of each watched scope that has any."""
        if type(changes) is ColumnRows:
            return self._columns_by_scope(changes)
        staged: dict[Scope, Sequence[Change]] = {}
        graphs = {change[GRAPH] for change in changes}
        for graph in graphs:
            scope = self._single.get(graph)
            if scope is not None:
                is_all = len(graphs) == 1
                staged[scope] = changes if is_all else [c for c in changes if c[GRAPH] == graph]
        for scope in self._plural:
            listed: Sequence[Change] = [change for change in changes if scope.covers(change[GRAPH])]
            if scope.kind == "merged":
                listed = self._merged(scope, listed)
            if listed:
                staged[scope] = listed
        return staged

    def _columns_by_scope(self, changes: ColumnRows) -> dict[Scope, Sequence[Change]]:
        staged: dict[Scope, Sequence[Change]] = {}
        graphs = changes.columns[GRAPH]
        for graph, scope in self._single.items():
            staged[scope] = changes.take(graphs == graph)
        for scope in self._plural:
            covered = changes.take(scope.covered(graphs))
            staged[scope] = self._merged_columns(scope, covered) if scope.kind == "merged" else covered
        return {scope: found for scope, found in staged.items() if len(found)}

    def _merged_columns(self, scope: Scope, changes: ColumnRows) -> ColumnRows:
        """The sign changes of a merged graph, for a large batch."""
        found = []
        for predicate, rows in _by_predicate(changes):
            listed = changes[rows]
            if not self._parts[predicate].is_single:
                signs = self._merged(scope, list(listed))
                table = np.array(signs, np.int64).reshape(-1, 5)
                listed = ColumnRows([np.ascontiguousarray(column) for column in table.T])
            found.append(listed)
        columns = [np.concatenate(parts) for parts in zip(*(one.columns for one in found), strict=True)]
        if not columns:
            return changes
        columns[GRAPH] = np.zeros(len(columns[0]), np.int64)
        return ColumnRows(columns)

    def _merged(self, scope: Scope, changes: Sequence[Change]) -> list[Change]:
        """The sign changes of a merged graph that follow from changes of its graphs."""
        merged: list[Change] = []
        several: dict[tuple[int, int, int], None] = {}
        for subject, predicate, object_, _, weight in changes:
            if self._parts[predicate].is_single:
                merged.append((subject, predicate, object_, 0, weight))
            else:
                several[subject, predicate, object_] = None
        for subject, predicate, object_ in several:
            pairs = MergedPairs(self, self._parts[predicate], scope)
            sign = pairs.has_after(subject, object_) - pairs.has_before(subject, object_)
            if sign:
                merged.append((subject, predicate, object_, 0, sign))
        return merged

    def commit(self) -> None:
        with self.snapshot_lock:
            self._keep_for_snapshots(self._touched)
            for part in self._touched:
                part.commit()
            if self._changes:
                for relation in self._orders.values():
                    relation.commit()
            self._end_epoch()

    def _end_epoch(self) -> None:
        self._touched.clear()
        self._staged_size = 0
        self._changes = ()
        self.staged = {}
        self._passing = {}

    def _keep_for_snapshots(self, parts: Iterable[Part]) -> None:
        """Hands snapshots the parts that are about to change.

        Only the last snapshot gets the orders too: for older ones, they may already contain later changes.
        """
        last, self._last = self._last, None
        for snapshot in list(self._snapshots):
            snapshot.keep(parts, self._orders if snapshot is last else {})

    def rollback(self) -> None:
        with self.snapshot_lock:
            self.size -= self._staged_size
            for part in self._touched:
                part.rollback()
            for relation in self._orders.values():
                relation.rollback()
            self._end_epoch()

    def add(self, changes: Sequence[Change]) -> None:
        """Stages and commits changes that no view reads; a large batch is sorted as a whole."""
        if len(changes) >= self.tuning.column_rows and type(changes) is not ColumnRows:
            changes = ColumnRows(list(np.array(changes, np.int64).T))
            changes = last_rows(changes, by=(PREDICATE, GRAPH, SUBJECT, OBJECT))
        self.stage(changes)
        self.commit()

    def clear(self) -> None:
        """Removes everything; only allowed if no plan reads the quads."""
        with self.snapshot_lock:
            self._detach_snapshots()
        snapshots = self._snapshots
        self.__init__()  # type: ignore[misc]
        self._snapshots = snapshots

    # Bases of a store

    def attach(self, load: Callable[[], tuple[Base, ColumnRows]], size: int, *, is_blank: bool) -> None:
        """Attaches `size` quads, to be loaded later; there must be none yet.

        `load` is called at the first read. It returns the base and the net changes after it, sorted by p.
        `is_blank`: there are no quads, not even deleted ones.
        """
        self._load, self._is_blank = load, is_blank
        self.size += size

    @property
    def is_unread(self) -> bool:
        """Whether nothing has read the attached quads yet."""
        return self._load is not None

    def count(self, inserted: int, deleted: int) -> None:
        """Counts changes that the next base contains; `move` follows."""
        self.size += inserted - deleted

    def move(self, load: Callable[[], tuple[Base, ColumnRows]]) -> None:
        """Switches to a new base and the changes after it."""
        with self.snapshot_lock:
            if self._load is not None or not (self._parts or self._orders or self._snapshots):
                self._detach_snapshots()
                self._load, self._is_blank = load, False
                return
            base, changes = load()
            self._detach_snapshots()
            self.base, self._is_split = base, False
            self._parts = {name: part for name, part in self._parts.items() if part.is_read}
            for part in self._parts.values():
                part.rebase(base)
                self._is_split = self._is_split or not part.is_single
            for (order, _), relation in self._orders.items():
                relation.rebase(base.whole(order))
            self._apply_unseen(changes)

    def forget_empty(self) -> None:
        """Drops predicates without quads, and deleted quads, between epochs."""
        with self.snapshot_lock:
            self._detach_snapshots()
            for name, part in list(self._parts.items()):
                part.merge_deleted()
                is_empty = part.forward.run is None and not part.forward.overlay
                if is_empty and not part.is_read and not self.base.has(name):
                    del self._parts[name]

    def ids(self) -> Iterator[Column]:
        """All ids in the quads in memory, between epochs; may include ids of deleted quads."""
        yield np.fromiter(self._parts, np.int64, len(self._parts))
        for part in self._parts.values():
            if part.graph is not None:
                yield np.array([part.graph])
            yield from part.forward.ids()
            for value in part.forward.overlay.values() if not part.is_single else ():
                yield np.array(list(value), np.int64).ravel()

    def columns(self) -> Iterator[tuple[Column, Column, Column, Column]]:
        """Yields all quads as columns s, p, o, g, sorted by p, g, s, o, in pieces."""
        for name in sorted(self.predicates()):
            part = self.part(name)
            run = None if part is None else part.forward.run_before()
            if part is None or run is None:
                continue
            subjects, objects, *others = run.columns
            graphs = others[0] if others else np.full(len(subjects), part.graph)
            if others:
                order = np.lexsort((objects, subjects, graphs))
                subjects, objects, graphs = subjects[order], objects[order], graphs[order]
            yield subjects, np.full(len(subjects), name), objects, graphs

    # Snapshots

    def snapshot(self) -> Snapshot:
        """The quads before the current epoch; copies nothing.

        Another thread may process the staged changes meanwhile, and commit them.
        """
        with self.snapshot_lock:
            if self._load is not None:
                self._read()
            if self._last is None:
                self._last = Snapshot(self, self.base, self.size - self._staged_size)
                self._snapshots.add(self._last)
            return self._last

    def _detach_snapshots(self) -> None:
        """Hands the snapshots everything that they may read, before the base is replaced."""
        self._keep_for_snapshots(self._parts.values())
        for snapshot in list(self._snapshots):
            snapshot.detach()
        self._snapshots = WeakSet()

    def is_last(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot holds the quads as of before the current epoch."""
        return snapshot is self._last

    def given(self) -> Mapping[int, Callable[[Quads], Any]]:
        """For the identity of each reader in use, a function that gets the same reader of other quads."""
        return readers_by_identity(self._readers)

    # Checking

    def check_size(self) -> None:
        """Raises AssertionError if the size is wrong."""
        assert self.size == sum(self.graph_sizes().values()), "the number of quads is wrong"

    def check(self) -> None:
        """Raises AssertionError if two orders of the same quads differ, or the size is wrong."""
        quads = list(self)
        assert self.size == len(quads), "the number of quads is wrong"
        for part in list(self._parts.values()):
            part.check()
        for (order, _), relation in self._orders.items():
            rows = {tuple(quad[i] for i in POSITIONS[order]) for quad in quads}
            assert set(relation.rows_before()) == rows, "an order differs from the quads"

    @property
    def nbytes(self) -> int:
        """Memory of all orders in bytes."""
        orders, counted = 0, set[int]()
        for relation in self._orders.values():
            orders += relation.nbytes
            if relation.run is not None and not relation.run.is_mapped:  # two may share a run
                orders -= relation.run.nbytes if id(relation.run) in counted else 0
                counted.add(id(relation.run))
        return orders + sum(part.nbytes for part in list(self._parts.values()))


def _quads_of(part: Part) -> Iterator[Quad]:
    if part.is_single:
        graph = part.graph
        for subject, object_ in part.forward.rows_before():
            yield subject, part.predicate, object_, graph  # type: ignore[misc]
    else:
        for subject, object_, graph in part.forward.rows_before():
            yield subject, part.predicate, object_, graph


def _by_predicate(rows: ColumnRows) -> Iterator[tuple[int, slice]]:
    """The range of each predicate in rows that are sorted by predicate."""
    predicates = rows.columns[PREDICATE]
    for start, stop in pairwise(group_starts(predicates).tolist()):
        yield int(predicates[start]), slice(start, stop)


def inserts_of(changes: Sequence[Change]) -> int:
    """The number of insertions among the changes."""
    if type(changes) is ColumnRows:
        return int((changes.columns[4] > 0).sum())
    return (len(changes) + sum(map(_WEIGHT, changes))) // 2
