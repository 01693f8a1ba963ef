"""The runs of quads: subject → objects of each graph and predicate, in memory or on disk.

Owns all pairs of subject and object, their inverses (object → subjects), and which of them plans read. The
pairs of a merged graph are here too, under its scope; `live/merged.py` determines them. Changes of pairs that
plans read are pending until `commit`; changes of all other pairs wait for it in a list. Pairs of a store that
no plan reads stay on disk (`live/cold.py`). Invariant: pairs and their inverse hold the same rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import methodcaller
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sparqlive.live.cold import Cold
from sparqlive.live.scope import GRAPH, OBJECT, PREDICATE, SUBJECT, Change, Quad, Scope
from sparqlive.live.turned import TurnedRuns, turned
from sparqlive.zset.columns import ColumnRows, Mask, group_starts, last_rows
from sparqlive.zset.relation import KeyedRelation, LentRelation
from sparqlive.zset.run import Column, Run

if TYPE_CHECKING:
    from sparqlive.live.lent import ListedParts
    from sparqlive.store.quad_runs import QuadRuns

Key: TypeAlias = tuple[int | Scope, int]
"""A graph or merged scope, and a predicate."""
Pair: TypeAlias = tuple[int, int, int]
"""A changed pair: subject, object and weight."""


class PairTable(NamedTuple):
    """The pairs of one predicate and graph (0 for a merged one)."""

    predicate: int
    graph: int
    subjects: Column
    objects: Column


_MOST_COPIED = 250
_ROWS_TO_COPY = 128
"""Copying this many rows of a run takes as long as looking up or staging a single row."""


class LentPairs(NamedTuple):
    """Pairs of some graphs and predicates as of one epoch, their inverses, and where to keep turned runs.

    The pairs on disk come last, the fewest first. `merged`: the scopes whose merged graph is kept. `parts`:
    the pairs of scopes, as readers have listed them. `loan`: tells that two queries read the same quads.
    """

    pairs: dict[Key, LentRelation | Cold]
    inverses: dict[Key, LentRelation]
    turned: TurnedRuns
    merged: frozenset[Scope]
    is_on_disk: bool
    parts: dict[Scope, ListedParts]
    loan: object


class QuadPairs:
    def __init__(self) -> None:
        self.turned = TurnedRuns()
        self.in_memory: dict[Key, KeyedRelation] = {}
        self.cold: dict[Key, Cold] = {}
        self.inverses: dict[Key, KeyedRelation] = {}
        self._touched: set[KeyedRelation] = set()
        # Pairs that no plan reads need no pending layer; their changes wait for the commit.
        self._read: set[Key] = set()
        self._unread: dict[KeyedRelation | Cold, list[Pair]] = {}
        self._unread_columns: list[tuple[Cold, Column, Column, Column]] = []
        self._empty = KeyedRelation(2, 1)
        self.reads_any_predicate = False
        self.lending = threading.Lock()
        """Held while pairs are lent, and while an epoch that is carried merges, loads or adds some: another
        thread may lend them then."""

    # Looking up

    def __contains__(self, quad: Quad) -> bool:
        subject, predicate, object_, graph = quad
        pairs = self.in_memory.get((graph, predicate))
        if pairs is not None:
            return pairs.has_before(subject, object_)
        cold = self.cold.get((graph, predicate))
        return cold is not None and cold.has_before(subject, object_)

    def select(self, wanted: Callable[[int | Scope, int], bool]) -> Iterator[tuple[Key, KeyedRelation]]:
        """The pairs of the selected graphs and predicates: those in memory, and copies of those on disk."""
        for key, pairs in list(self.in_memory.items()):
            if wanted(*key):
                yield key, pairs
        for key, cold in list(self.cold.items()):
            if wanted(*key):
                yield key, cold.relation()

    def quads(self, wanted: Callable[[int, int], bool]) -> Iterator[Quad]:
        """The quads of the selected graphs and predicates, without merged graphs."""
        chosen = self.select(lambda graph, predicate: isinstance(graph, int) and wanted(graph, predicate))
        for (graph, predicate), pairs in chosen:
            for subject, object_ in pairs.rows_before():
                yield subject, predicate, object_, graph  # type: ignore[misc]

    def of_scope(self, scope: Scope, predicate: int | None) -> Iterator[Quad]:
        """The quads of a scope, for one predicate if given; merged triples have 0 as their graph."""
        if scope.kind != "merged":
            yield from self.quads(
                lambda graph, of: (predicate is None or of == predicate) and scope.covers(graph)
            )
            return
        for (_, of), pairs in self.select(
            lambda graph, of: (predicate is None or of == predicate) and graph == scope
        ):
            for subject, object_ in pairs.rows_before():
                yield subject, of, object_, 0

    def graph_sizes(self) -> dict[int, int]:
        """The number of quads of each graph that is not empty."""
        sizes: dict[int, int] = {}
        every: tuple[Mapping[Key, KeyedRelation | Cold], ...] = (self.in_memory, self.cold)
        with self.lending:  # another thread may carry an epoch, and load pairs for it
            for (graph, _), pairs in chain.from_iterable(found.items() for found in every):
                if isinstance(graph, int):
                    sizes[graph] = sizes.get(graph, 0) + pairs.size_before()
        return {graph: size for graph, size in sizes.items() if size}

    def on_disk_size(self, predicate: int | None) -> tuple[int, int]:
        """The number of quads of a predicate (None: of all) that are on disk, and of all its quads."""
        on_disk = sum(
            cold.size_before() for key, cold in self.cold.items() if predicate is None or key[1] == predicate
        )
        held = sum(
            pairs.run.length if pairs.run is not None else pairs.overlay_rows
            for key, pairs in self.in_memory.items()
            if isinstance(key[0], int) and (predicate is None or key[1] == predicate)
        )
        return on_disk, on_disk + held

    def present(self, quads: Iterable[Quad]) -> set[Quad]:
        """Those of the given quads that existed before the current epoch, in memory or on disk."""
        known, found, unread = self.in_memory, set(), []
        for quad in quads:
            subject, predicate, object_, graph = quad
            pairs = known.get((graph, predicate))
            if pairs is None:
                unread.append(quad)
            elif pairs.has_before(subject, object_):
                found.add(quad)
        if self.cold and unread:
            for key, part in groupby(sorted(unread, key=_disk_order), lambda quad: (quad[3], quad[1])):
                listed = list(part)
                if key in self.cold:
                    columns = np.array(listed, dtype=np.int64).T
                    there = self.cold[key].has_many(columns[0], columns[2])
                    found.update(quad for quad, is_there in zip(listed, there, strict=True) if is_there)
        return found

    def effective(self, wanted: Mapping[Quad, int]) -> list[Change]:
        """The effective changes among quads to insert (+1) or delete (-1)."""
        known = self.in_memory.get
        cold = self.cold
        changes: list[Change] = []
        unread: list[Quad] = []
        for quad, weight in wanted.items():
            subject, predicate, object_, graph = quad
            pairs = known((graph, predicate))
            if pairs is None:
                if cold and (graph, predicate) in cold:
                    unread.append(quad)
                    continue
                there = False
            else:  # KeyedRelation.has_before, inlined: this is most of the cost of a batch
                changed = pairs.overlay.get(subject)
                if changed is not None and object_ in changed:
                    there = changed[object_] > 0
                else:
                    there = pairs.run is not None and pairs.run.has_pair(subject, object_)
            if there == (weight < 0):
                changes.append((subject, predicate, object_, graph, weight))
        if unread:
            found = self.present(unread)
            changes += [(*quad, wanted[quad]) for quad in unread if (quad in found) == (wanted[quad] < 0)]
        return changes

    def effective_columns(self, wanted: ColumnRows) -> ColumnRows:
        """Like `effective`, for a large batch of rows s, p, o, g, weight: the last change of a quad counts.

        The changes are sorted by p, g, s, o.
        """
        last = last_changes(wanted)
        there = np.zeros(len(last), dtype=bool)
        for key, part in _groups(last):
            subjects, _, objects, _, _ = last[part].columns
            there[part] = self.has(key, subjects, objects)
        return last.take(there == (last.columns[4] < 0))

    def has(self, key: Key, subjects: Column, objects: Column) -> Mask:
        """Which of many pairs, ideally sorted, existed before the current epoch, in memory or on disk."""
        pairs = self.in_memory.get(key) or self.cold.get(key)
        if pairs is None:
            return np.zeros(len(subjects), dtype=bool)
        if isinstance(pairs, Cold):
            return pairs.has_many(subjects, objects)
        if not _is_few(subjects, pairs):
            pairs.merge()
        return pairs.has_many_before(subjects, objects)

    # Reading by plans

    def of(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Subject → objects of one graph and predicate, readable also while changes are staged."""
        is_read = (graph, predicate) in self._read  # then none of its changes wait for the commit
        self._read.add((graph, predicate))
        found = self.in_memory.get((graph, predicate))
        if found is None and (graph, predicate) in self.cold:
            found = self._warm((graph, predicate))
        if found is None:
            with self.lending:
                found = self.in_memory[(graph, predicate)] = KeyedRelation(2, 1)
        elif not is_read:
            self._stage_unread(found)
        return found

    def inverse(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Object → subjects, created at the first call."""
        found = self.inverses.get((graph, predicate))
        if found is None:
            pairs = self.of(graph, predicate)
            known = None if pairs.run is None else self.turned.find(pairs.run)
            found = self.inverses[(graph, predicate)] = _inverted(pairs, known)
            if found.pending or found.next is not None:
                self._touched.add(found)
        return found

    def of_if_any(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Like `of`, for a graph or predicate known only at run time; creates nothing."""
        found = self.in_memory.get((graph, predicate), self._empty)
        return self._warm((graph, predicate)) if (graph, predicate) in self.cold else found

    def inverse_if_any(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        if (graph, predicate) not in self.in_memory and (graph, predicate) not in self.cold:
            return self._empty
        return self.inverse(graph, predicate)

    def read_any_predicate(self) -> None:
        """Allows lookups of any graph and predicate while changes are staged, from now on."""
        self.reads_any_predicate = True
        for pairs in list(self._unread):
            if isinstance(pairs, KeyedRelation):
                self._stage_unread(pairs)

    @property
    def is_read(self) -> bool:
        """Whether plans read some pairs."""
        return bool(self._read) or self.reads_any_predicate

    def warm_all(self) -> None:
        for key in list(self.cold):
            self._warm(key)

    def _warm(self, key: Key) -> KeyedRelation:
        """Loads pairs that a plan reads into memory."""
        cold = self.cold[key]
        found = cold.relation()
        with self.lending:
            del self.cold[key]
            self.in_memory[key] = found
        self._read.add(key)
        if cold in self._unread:
            self._unread[found] = self._unread.pop(cold)
            self._stage_unread(found)
        waiting, self._unread_columns = self._unread_columns, []
        for entry in waiting:
            if entry[0] is cold:
                self._stage_in(found, *entry[1:])
            else:
                self._unread_columns.append(entry)
        return found

    def _stage_unread(self, pairs: KeyedRelation) -> None:
        """Makes changes that wait for the commit pending, for a relation that is read after all."""
        if pairs in self._unread:
            pairs.stage_all(self._unread.pop(pairs))
            self._touched.add(pairs)

    # Changing

    def stage(self, changes: Sequence[Change]) -> None:
        """Puts effective changes into the pending layers, or into the list that waits for the commit."""
        groups: dict[Key, list[Pair]] = {}
        for subject, predicate, object_, graph, weight in changes:
            group = groups.get((graph, predicate))
            if group is None:
                group = groups[graph, predicate] = []
            group.append((subject, object_, weight))
        for key, group in groups.items():
            self._stage_group(key, group)

    def _stage_group(self, key: Key, group: list[Pair]) -> None:
        """Stages changes of one graph and predicate."""
        pairs = self.in_memory.get(key)
        if pairs is None:
            if key in self.cold:
                self._unread.setdefault(self.cold[key], []).extend(group)
                return
            pairs = self.in_memory[key] = KeyedRelation(2, 1)
        if not self.reads_any_predicate and key not in self._read:
            self._unread.setdefault(pairs, []).extend(group)
            return
        pairs.stage_all(group)
        self._touched.add(pairs)
        inverse = self.inverses.get(key)
        if inverse is not None:
            inverse.stage_all([(object_, subject, weight) for subject, object_, weight in group])
            self._touched.add(inverse)

    def stage_columns(self, changes: ColumnRows, scope: Scope | None = None) -> None:
        """Like `stage`, for a large batch sorted by p, g, s, o; with a scope, for that merged graph."""
        for key, part in _groups(changes, scope):
            subjects, _, objects, _, weights = changes[part].columns
            pairs = self.in_memory.get(key)
            if pairs is None and key in self.cold:
                self._unread_columns.append((self.cold[key], subjects, objects, weights))
                continue
            if pairs is None:
                pairs = self.of(*key) if scope is not None else KeyedRelation(2, 1)
                self.in_memory[key] = pairs
            self._stage_in(pairs, subjects, objects, weights)
            if key in self.inverses:
                self._stage_in(self.inverses[key], objects, subjects, weights)

    def _stage_in(self, relation: KeyedRelation, keys: Column, values: Column, weights: Column) -> None:
        stage_rows(relation, (keys, values), weights)
        self._touched.add(relation)

    def stage_merged(self, scope: Scope, predicate: int, subject: int, object_: int, weight: int) -> None:
        """Stages one change of a merged graph, which plans always read."""
        pairs = self.of(scope, predicate)
        pairs.stage_value(subject, object_, weight)
        self._touched.add(pairs)
        inverse = self.inverses.get((scope, predicate))
        if inverse is not None:
            inverse.stage_value(object_, subject, weight)
            self._touched.add(inverse)

    def commit(self) -> None:
        for relation in self._touched:
            relation.commit()
        for pairs, changed in self._unread.items():
            pairs.apply_all(changed)
        for cold, *columns in self._unread_columns:
            cold.apply_columns(*columns)
        self._touched.clear()
        self._unread.clear()
        self._unread_columns.clear()

    def rollback(self) -> None:
        for relation in self._touched:
            relation.rollback()
        self._touched.clear()
        self._unread.clear()
        self._unread_columns.clear()

    def insert(self, changes: Iterable[Change]) -> None:
        """Adds many new quads at once if there are no inverses; pairs without a run get one."""
        groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for subject, predicate, object_, graph, _ in changes:
            groups.setdefault((graph, predicate), []).append((subject, object_))
        for key, rows in groups.items():
            pairs = self.cold.get(key) or self.in_memory.setdefault(key, KeyedRelation(2, 1))
            if isinstance(pairs, KeyedRelation) and pairs.run is None and not pairs.overlay:
                pairs.fill(run_of(rows, 2))
            else:
                pairs.apply_all([(subject, object_, 1) for subject, object_ in rows])

    def load_columns(self, subjects: Column, predicates: Column, objects: Column, graph: int) -> int:
        """Loads one empty graph in bulk, sorted once; returns the number of rows."""
        order = np.argsort(predicates, kind="stable")
        sorted_predicates = predicates[order]
        rows = 0
        for start, stop in pairwise(group_starts(sorted_predicates).tolist()):
            part = order[start:stop]
            run = Run.sort([subjects[part], objects[part]])
            self.of(graph, int(sorted_predicates[start])).fill(run)
            rows += run.length
        return rows

    # On disk

    def attach(self, disk: QuadRuns) -> int:
        """Attaches the quads of a store's runs to empty pairs; returns their number."""
        size = 0
        for key, rows in disk.sizes():
            self.cold[key] = Cold(disk, key)
            size += rows
        return size

    def move(self, disk: QuadRuns, since: Sequence[Change]) -> None:
        """Switches to new runs on disk and the changes since; pairs that no plan reads stay there."""
        unread = {key for key in self.in_memory if isinstance(key[0], int) and key not in self._read}
        left = set(self.cold) if self.reads_any_predicate else set(self.cold) | unread
        self.cold = {}
        for key in left:
            self.in_memory.pop(key, None)
        for key, _ in disk.sizes():
            if key in left or key not in self.in_memory:
                self.cold[key] = Cold(disk, key)
                left.add(key)
        for subject, predicate, object_, graph, weight in since:
            if (graph, predicate) in left:
                target: Cold | KeyedRelation | None = self.cold.get((graph, predicate))
                if target is None:
                    target = self.in_memory.setdefault((graph, predicate), KeyedRelation(2, 1))
                target.apply_all([(subject, object_, weight)])

    def forget_empty(self) -> None:
        """Forgets graphs and predicates without quads that no plan reads; between epochs."""
        with self.lending:
            for key, pairs in list(self.in_memory.items()):
                is_kept = key in self._read or key in self.inverses
                if pairs.run is None and not pairs.overlay and not is_kept:
                    del self.in_memory[key]

    def ids(self) -> Iterator[Column]:
        """The ids in all quads in memory, and in some that are there no more."""
        keys = [key for key in self.in_memory if isinstance(key[0], int)]
        yield np.array(keys, np.int64).ravel()
        for key in keys:
            yield from self.in_memory[key].ids()

    def columns(self) -> Iterator[tuple[Column, Column, Column, Column]]:
        """Yields all quads in memory as columns s, p, o, g, sorted by p, g, s, o, in pieces."""
        graphs = sorted((key[1], key[0]) for key in self.in_memory if isinstance(key[0], int))
        for predicate, graph in graphs:
            pairs = self.in_memory[(graph, predicate)]
            with self.lending:
                pairs.merge()
            if pairs.run is not None:
                subjects, objects = pairs.run.columns
                size = pairs.run.length
                yield subjects, np.full(size, predicate), objects, np.full(size, graph)

    def tables(self, scope: Scope, predicate: int | None, after: bool, merged: bool) -> Iterator[PairTable]:
        """The pairs of a scope as columns, before or after the current epoch; runs are not copied.

        merged: the pairs of the merged graph, not of the graphs in it.
        """

        def is_wanted(graph: int | Scope, of: int) -> bool:
            if predicate is not None and of != predicate:
                return False
            if scope.kind == "merged" and merged:
                return graph == scope
            return isinstance(graph, int) and scope.covers(graph)

        for (graph, of), pairs in self.select(is_wanted):
            if after:
                self._stage_waiting((graph, of), pairs)
            with self.lending:
                run = pairs.run_after() if after else pairs.run_before()
            if run is not None:
                yield PairTable(of, graph if isinstance(graph, int) else 0, *run.columns)

    def _stage_waiting(self, key: Key, pairs: KeyedRelation) -> None:
        """Stages changes that wait for the commit if they are read after all; `pairs` may be a copy."""
        cold = self.cold.get(key)
        if cold is None:
            self._stage_unread(pairs)
            return
        pairs.stage_all(self._unread.get(cold, ()))
        for late, subjects, objects, weights in self._unread_columns:
            if late is cold:
                pairs.stage_columns((subjects, objects), weights)

    def is_blank(self) -> bool:
        """Whether there are no quads, not even deleted ones in a run."""
        return not self.cold and all(
            pairs.run is None and not pairs.overlay for pairs in self.in_memory.values()
        )

    # Snapshots

    def names(self) -> Iterator[Key]:
        """The graphs and predicates that have pairs."""
        return chain(self.in_memory, self.cold)

    def lend(self, keys: Collection[Key], merged: frozenset[Scope]) -> LentPairs:
        """Some pairs and their inverses before the current epoch, for a reader; nothing is copied."""
        pairs: dict[Key, LentRelation | Cold] = {
            key: found.lend() for key in keys if (found := self.in_memory.get(key)) is not None
        }
        cold = {key: self.cold[key].lend() for key in keys if key in self.cold}
        pairs.update(sorted(cold.items(), key=lambda item: item[1].size_before()))
        inverses = {key: self.inverses[key].lend() for key in keys if key in self.inverses}
        return LentPairs(pairs, inverses, self.turned, merged, bool(cold), {}, object())

    def snapshot(self, is_read: Callable[[int | Scope, int], bool]) -> QuadPairs:
        """A copy of some graphs and predicates; runs are shared."""
        made = QuadPairs()
        made.cold = {key: cold.copy() for key, cold in self.cold.items() if is_read(*key)}
        made.in_memory = {key: copy_of(pairs) for key, pairs in self.in_memory.items() if is_read(*key)}
        made.inverses = {key: copy_of(pairs) for key, pairs in self.inverses.items() if is_read(*key)}
        return made

    def adopt(self, snapshot: QuadPairs, new: set[Scope]) -> None:
        """Takes over relations that a snapshot's reader loaded or created; `new` are merged scopes."""
        for key, pairs in snapshot.in_memory.items():
            if key in self.cold or key[0] in new:
                self.cold.pop(key, None)
                self.in_memory[key] = pairs
                self._read.add(key)
        for key, inverse in snapshot.inverses.items():
            if key in self.in_memory and key not in self.inverses:
                self.inverses[key] = inverse
                self._read.add(key)

    def places(self) -> dict[int, methodcaller]:
        """For each relation in memory, by its identity, how to get the same relation of other quads."""
        found = {id(relation): methodcaller("pairs", *key) for key, relation in self.in_memory.items()}
        found.update((id(relation), methodcaller("inverse", *key)) for key, relation in self.inverses.items())
        return found

    def check_inverses(self) -> None:
        for key, inverse in self.inverses.items():
            forward = {(o, s) for s, o in self.in_memory[key].rows_before()}
            assert set(inverse.rows_before()) == forward, "an inverse index differs from its pairs"

    @property
    def nbytes(self) -> int:
        every = (self.in_memory, self.inverses)
        relations = sum(relation.nbytes for relations in every for relation in relations.values())
        return relations + self.turned.nbytes


def last_changes(wanted: ColumnRows) -> ColumnRows:
    """The last change of each quad among rows s, p, o, g, weight, sorted by p, g, s, o."""
    return last_rows(wanted, by=(PREDICATE, GRAPH, SUBJECT, OBJECT))


def stage_rows(relation: KeyedRelation, columns: Sequence[Column], weights: Column) -> None:
    """Stages changes as columns, or one by one if copying the run would cost more."""
    if not _is_few(weights, relation):
        relation.stage_columns(columns, weights)
        return
    rows = zip(*(column.tolist() for column in columns), weights.tolist(), strict=True)
    if relation.arity == 2 and relation.key_length == 1:
        relation.stage_all(rows)
        return
    for *row, weight in rows:
        relation.stage(row, weight)


def _is_few(changed: Column, pairs: KeyedRelation | Cold) -> bool:
    size = pairs.size_before() if isinstance(pairs, Cold) else pairs.run.length if pairs.run else 0
    return len(changed) * _ROWS_TO_COPY < size


def _groups(changes: ColumnRows, scope: Scope | None = None) -> Iterator[tuple[Key, slice]]:
    """The ranges of sorted changes with one predicate and graph, or with one predicate of a scope."""
    _, predicates, _, graphs, _ = changes.columns
    starts = group_starts(predicates, graphs).tolist()
    for start, stop in pairwise(starts):
        yield (int(graphs[start]) if scope is None else scope, int(predicates[start])), slice(start, stop)


def relation_of(rows: Sequence[tuple[int, ...]], arity: int, key_length: int) -> KeyedRelation:
    """A relation with these rows as its run."""
    if not rows:
        return KeyedRelation(arity, key_length)
    return KeyedRelation(arity, key_length, run_of(rows, arity))


def run_of(rows: Sequence[tuple[int, ...]], arity: int) -> Run:
    return Run.sort([np.fromiter((row[i] for row in rows), np.int64, len(rows)) for i in range(arity)])


def copy_of(relation: KeyedRelation) -> KeyedRelation:
    """A copy; merges the overlay into the run first if that is not more expensive than copying it."""
    if relation.overlay_rows > max(_MOST_COPIED, (relation.run.length if relation.run else 0) // 64):
        relation.merge()
    return relation.copy()


def _disk_order(quad: Quad) -> Quad:
    """The order of quads on disk, in which many lookups read each file only once."""
    subject, predicate, object_, graph = quad
    return predicate, graph, subject, object_


def _inverted(pairs: KeyedRelation, run: Run | None = None) -> KeyedRelation:
    """The inverse of pairs, including pending ones; `run` is the run of the inverse, if known."""
    if run is None and pairs.run is not None:
        run = turned(pairs.run)
    made = KeyedRelation(2, 1, run)
    made.overlay_rows = pairs.overlay_rows
    for subject, objects in pairs.overlay.items():
        for object_, weight in objects.items():
            made.overlay.setdefault(object_, {})[subject] = weight
    for subject, objects in pairs.pending.items():
        for object_, weight in objects.items():
            made.stage_value(object_, subject, weight)
    if pairs.next is not None:
        made.stage_next(_inverted(pairs.next))
    return made
