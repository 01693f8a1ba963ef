"""The quads in memory, in the orders that lookups need.

Owns the graph. Pairs of subject and object are kept for each graph and predicate; every other order is a
secondary index, made when a plan first asks for it. Pairs of a store that no view reads stay on disk. Merged
graphs (a union, several FROM) are sets of their own, whose change is the sign change of a count. Invariants:
a quad is there once; `stage` is given changes that change something; what is staged is seen by `after` and
forgotten by `rollback`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.zset.relation import KeyedRelation
from sparqlive.zset.run import Column, Run

if TYPE_CHECKING:
    from sparqlive.store.quad_runs import QuadRuns

Quad: TypeAlias = tuple[int, int, int, int]
Change: TypeAlias = tuple[int, int, int, int, int]

SUBJECT, PREDICATE, OBJECT, GRAPH = range(4)
_BULK = 10_000
_MOST_COPIED = 250


@dataclass(frozen=True)
class Scope:
    """Which quads: of one graph, of several merged into a set, or of each named graph.

    `graphs` None means all: for "merged" the unnamed one too, for "named" without it.
    """

    kind: Literal["one", "merged", "named"]
    graphs: frozenset[int] | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind, self.graphs)))

    def __hash__(self) -> int:  # a key of several dicts at every change
        return self._hash  # type: ignore[attr-defined, no-any-return]

    def covers(self, graph: int) -> bool:
        if self.graphs is not None:
            return graph in self.graphs
        return self.kind == "merged" or graph != DEFAULT_GRAPH


class _Merged:
    """The union of graphs as a set: how often a triple is there beyond once."""

    __slots__ = ("again", "changes")

    def __init__(self) -> None:
        self.again: dict[tuple[int, int, int], int] = {}
        self.changes: dict[tuple[int, int, int], int] = {}


class _Cold:
    """Pairs of a graph and predicate that no view reads: on disk, but for what has changed since."""

    __slots__ = ("_disk", "_key", "changes")

    def __init__(self, disk: QuadRuns, key: tuple[int, int]) -> None:
        self._disk = disk
        self._key = key
        self.changes: dict[int, dict[int, int]] = {}

    def has(self, subject: int, object_: int) -> bool:
        weight = self.changes.get(subject, _NO_CHANGES).get(object_, 0)
        return weight > 0 if weight else self._disk.has_pair(self._key, subject, object_)

    def apply(self, subject: int, object_: int, weight: int) -> None:
        values = self.changes.setdefault(subject, {})
        if values.pop(object_, 0) == 0:
            values[object_] = weight
        elif not values:  # back to what is on disk
            del self.changes[subject]

    def size_before(self) -> int:
        changed = sum(sum(values.values()) for values in self.changes.values())
        return changed + self._disk.size(self._key)

    def copy(self) -> _Cold:
        made = _Cold(self._disk, self._key)
        made.changes = {subject: dict(values) for subject, values in self.changes.items()}
        return made

    def relation(self) -> KeyedRelation:
        """A copy in memory."""
        found = KeyedRelation(2, 1, self._disk.read(self._key))
        for subject, values in self.changes.items():
            for object_, weight in values.items():
                found.apply(subject, object_, weight)
        return found


_NO_CHANGES: dict[int, int] = {}


class Quads:
    def __init__(self) -> None:
        # (graph id or merged scope, predicate) → subject → objects
        self._pairs: dict[tuple[int | Scope, int], KeyedRelation] = {}
        self._cold: dict[tuple[int | Scope, int], _Cold] = {}
        self._inverse: dict[tuple[int | Scope, int], KeyedRelation] = {}
        self._indexes: dict[Scope, dict[tuple[int | None, tuple[int, ...], int], KeyedRelation]] = {}
        self._counted: dict[Scope, dict[str, _Counted]] = {}
        self._merged: dict[Scope, _Merged] = {}
        self._touched: set[KeyedRelation] = set()
        # Pairs that no plan reads need no pending layer: their changes wait for the commit.
        self._read: set[tuple[int | Scope, int]] = set()
        self._read_all = False
        self._unread: list[tuple[KeyedRelation | _Cold, int, int, int]] = []
        self._empty = KeyedRelation(2, 1)
        self._single: dict[int, Scope] = {}
        self._plural: set[Scope] = set()
        self.staged: dict[Scope, list[Change]] = {}
        self.size = 0
        self._staged_size = 0

    # Looking up

    def __contains__(self, quad: Quad) -> bool:
        """Whether a quad was there before the epoch under way, in memory or on disk."""
        subject, predicate, object_, graph = quad
        pairs = self._pairs.get((graph, predicate))
        if pairs is not None:
            return pairs.has_before(subject, object_)
        cold = self._cold.get((graph, predicate))
        return cold is not None and cold.has(subject, object_)

    def __iter__(self) -> Iterator[Quad]:
        for (graph, predicate), pairs in self._all_pairs(lambda graph, _: isinstance(graph, int)):
            for subject, object_ in pairs.rows_before():
                yield subject, predicate, object_, graph  # type: ignore[misc]

    def _all_pairs(
        self, wanted: Callable[[int | Scope, int], bool]
    ) -> Iterator[tuple[tuple[int | Scope, int], KeyedRelation]]:
        """Of graphs and predicates that are wanted: what is in memory, and a copy of what is on disk."""
        for key, pairs in list(self._pairs.items()):
            if wanted(*key):
                yield key, pairs
        for key, cold in list(self._cold.items()):
            if wanted(*key):
                yield key, cold.relation()

    def of_graph(self, graph: int) -> Iterator[Quad]:
        """The quads of one graph."""
        for (_, predicate), pairs in self._all_pairs(lambda name, _: name == graph):
            for subject, object_ in pairs.rows_before():
                yield subject, predicate, object_, graph

    def of_predicates(self, predicates: Container[int]) -> Iterator[Quad]:
        """The quads of some predicates, in whatever graph."""
        for (graph, predicate), pairs in self._all_pairs(
            lambda graph, predicate: isinstance(graph, int) and predicate in predicates
        ):
            for subject, object_ in pairs.rows_before():
                yield subject, predicate, object_, graph  # type: ignore[misc]

    def graph_sizes(self) -> dict[int, int]:
        """The number of quads of each graph that has any."""
        sizes: dict[int, int] = {}
        every: tuple[Mapping[tuple[int | Scope, int], KeyedRelation | _Cold], ...] = (self._pairs, self._cold)
        for found in every:
            for (graph, _), pairs in found.items():
                if isinstance(graph, int):
                    sizes[graph] = sizes.get(graph, 0) + pairs.size_before()
        return {graph: size for graph, size in sizes.items() if size}

    def read_any_predicate(self) -> None:
        """From now on lookups may ask for any graph and predicate while changes are staged."""
        self._read_all = True
        self._stage_unread({entry[0] for entry in self._unread if isinstance(entry[0], KeyedRelation)})

    def _stage_unread(self, wanted: set[KeyedRelation]) -> None:
        """What was left for the commit becomes pending, for relations that are read after all."""
        waiting, self._unread = self._unread, []
        for entry in waiting:
            pairs, subject, object_, weight = entry
            if isinstance(pairs, KeyedRelation) and pairs in wanted:
                pairs.stage_value(subject, object_, weight)
                self._touched.add(pairs)
            else:
                self._unread.append(entry)

    def pairs(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Subject → objects of one graph and predicate, to be read also while changes are staged."""
        is_read = (graph, predicate) in self._read  # then nothing of it was left for the commit
        self._read.add((graph, predicate))
        found = self._pairs.get((graph, predicate))
        if found is None and (graph, predicate) in self._cold:
            found = self._warm((graph, predicate))
        if found is None:
            found = self._pairs[(graph, predicate)] = KeyedRelation(2, 1)
        elif self._unread and not is_read:
            self._stage_unread({found})
        return found

    def _warm(self, key: tuple[int | Scope, int]) -> KeyedRelation:
        """Pairs that somebody reads are taken into memory."""
        cold = self._cold.pop(key)
        found = self._pairs[key] = cold.relation()
        self._read.add(key)
        self._unread = [(found if entry[0] is cold else entry[0], *entry[1:]) for entry in self._unread]
        self._stage_unread({found})
        return found

    def warm_all(self) -> None:
        for key in list(self._cold):
            self._warm(key)

    def inverse(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Object → subjects, made when first asked for."""
        found = self._inverse.get((graph, predicate))
        if found is None:
            pairs = self.pairs(graph, predicate)
            found = self._inverse[(graph, predicate)] = _inverted(pairs)
            if found.pending:
                self._touched.add(found)
        return found

    def pairs_if_any(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Like `pairs`, for a graph or predicate known only at run time: nothing is made."""
        found = self._pairs.get((graph, predicate), self._empty)
        return self._warm((graph, predicate)) if (graph, predicate) in self._cold else found

    def inverse_if_any(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        if (graph, predicate) not in self._pairs and (graph, predicate) not in self._cold:
            return self._empty
        return self.inverse(graph, predicate)

    def index(
        self, scope: Scope, predicate: int | None, order: tuple[int, ...], key_length: int
    ) -> KeyedRelation:
        """The scope's quads (of one predicate if given) as rows in the order of positions given."""
        indexes = self._indexes.setdefault(scope, {})
        key = (predicate, order, key_length)
        found = indexes.get(key)
        if found is None:
            rows = [tuple(quad[i] for i in order) for quad in self._scope_rows(scope, predicate)]
            found = indexes[key] = _relation(rows, len(order), key_length)
            for change in self.staged.get(scope, ()):
                if predicate is None or change[PREDICATE] == predicate:
                    self._stage_in(found, [change[i] for i in order], change[4])
        return found

    def nodes(self, scope: Scope) -> KeyedRelation:
        """Subjects and objects: node (→ graph, for named graphs)."""
        return self._count("nodes", scope).relation

    def names(self, scope: Scope) -> KeyedRelation:
        """The names of graphs that have a quad, as keys without values."""
        return self._count("names", scope).relation

    def _count(self, kind: str, scope: Scope) -> _Counted:
        counted = self._counted.setdefault(scope, {})
        found = counted.get(kind)
        if found is None:
            found = _Counted(kind, scope)
            found.load(self._scope_rows(scope, None))
            counted[kind] = found
            for change in self.staged.get(scope, ()):
                found.stage(change)
            found.settle()
            self._touched.add(found.relation)
        return found

    def _scope_rows(self, scope: Scope, predicate: int | None) -> Iterator[Quad]:
        def covered(graph: int | Scope, of: int) -> bool:
            if predicate is not None and of != predicate:
                return False
            if scope.kind == "merged":
                return graph == scope
            return isinstance(graph, int) and scope.covers(graph)

        for (graph, of), pairs in self._all_pairs(covered):
            name = graph if isinstance(graph, int) else 0
            for subject, object_ in pairs.rows_before():
                yield subject, of, object_, name

    def counted_delta(self, kind: str, scope: Scope) -> list[tuple[tuple[int, ...], int]]:
        """The sign changes of the nodes or names of a scope in the staged batch."""
        return self._counted[scope][kind].delta

    def watch(self, scope: Scope) -> None:
        """From now on, staged changes are listed for this scope too."""
        if scope.kind == "merged" and scope not in self._merged:
            self._merge(scope)
        if scope.kind == "one":
            assert scope.graphs is not None
            self._single[next(iter(scope.graphs))] = scope
        else:
            self._plural.add(scope)

    def snapshot(self, scopes: Iterable[Scope], predicates: frozenset[int] | None) -> Quads:
        """A copy of these scopes' quads (of some predicates; None: of all), to be read and thrown away.

        Runs are shared and nobody changes them: it costs what has changed since they were made.
        """
        made, wanted = Quads(), frozenset(scopes)
        made.size = self.size
        apart = [scope for scope in wanted if scope not in self._merged]

        def is_read(graph: int | Scope, predicate: int) -> bool:
            if predicates is not None and predicate not in predicates:
                return False
            return graph in wanted if isinstance(graph, Scope) else any(s.covers(graph) for s in apart)

        made._cold = {key: cold.copy() for key, cold in self._cold.items() if is_read(*key)}
        made._pairs = {key: _copied(pairs) for key, pairs in self._pairs.items() if is_read(*key)}
        made._inverse = {key: _copied(pairs) for key, pairs in self._inverse.items() if is_read(*key)}
        made._merged = {scope: _Merged() for scope in self._merged if scope in wanted}
        for scope in wanted & self._indexes.keys():
            made._indexes[scope] = {
                key: _copied(index)
                for key, index in self._indexes[scope].items()
                if predicates is None or key[0] in predicates
            }
        for scope in wanted & self._counted.keys():
            made._counted[scope] = {kind: counted.copy() for kind, counted in self._counted[scope].items()}
        return made

    def keep_inverses(self, snapshot: Quads) -> None:
        """Takes over the inverses that a snapshot's reader made, of runs that are still there."""
        for key, inverse in snapshot._inverse.items():
            pairs, copied = self._pairs.get(key), snapshot._pairs.get(key)
            if pairs is None or copied is None or key in self._inverse:
                continue
            if pairs.run is copied.run:
                self._inverse[key] = _inverted(pairs, inverse.run)
                self._read.add(key)  # from now on both are changed together

    def adopt(self, snapshot: Quads) -> None:
        """Takes over the orders that a snapshot's reader made and that are missing here.

        The quads are those of the snapshot, which is not read any more.
        """
        new = {scope for scope in snapshot._merged if scope not in self._merged}
        for key, pairs in snapshot._pairs.items():
            if key in self._cold or key[0] in new:
                self._cold.pop(key, None)
                self._pairs[key] = pairs
                self._read.add(key)
        self._merged.update({scope: snapshot._merged[scope] for scope in new})
        for key, inverse in snapshot._inverse.items():
            if key in self._pairs and key not in self._inverse:
                self._inverse[key] = inverse
                self._read.add(key)
        for scope, indexes in snapshot._indexes.items():
            self._indexes[scope] = {**indexes, **self._indexes.get(scope, {})}
        for scope, counted in snapshot._counted.items():
            self._counted[scope] = {**counted, **self._counted.get(scope, {})}

    def places(self) -> dict[int, Callable[[Quads], KeyedRelation]]:
        """For each order that is here, by its relation's identity: how to get the same of other quads."""
        found: dict[int, Callable[[Quads], KeyedRelation]] = {}
        for key, relation in self._pairs.items():
            found[id(relation)] = methodcaller("pairs", *key)
        for key, relation in self._inverse.items():
            found[id(relation)] = methodcaller("inverse", *key)
        for scope, indexes in self._indexes.items():
            for (predicate, order, length), relation in indexes.items():
                found[id(relation)] = methodcaller("index", scope, predicate, order, length)
        for scope, counted in self._counted.items():
            for kind, counts in counted.items():
                found[id(counts.relation)] = methodcaller(kind, scope)
        return found

    @property
    def reads_any_predicate(self) -> bool:
        return self._read_all

    def is_merged(self, scope: Scope) -> bool:
        """Whether a scope needs no set of its own, or has one."""
        return scope.kind != "merged" or scope in self._merged

    def _merge(self, scope: Scope) -> None:
        merged = _Merged()
        found: dict[int, list[KeyedRelation]] = {}
        for (_, predicate), pairs in self._all_pairs(
            lambda graph, _: isinstance(graph, int) and scope.covers(graph)
        ):
            found.setdefault(predicate, []).append(pairs)
        for predicate, parts in found.items():
            if len(parts) == 1:  # a set already
                self._pairs[(scope, predicate)] = parts[0].copy()
                continue
            counts: dict[tuple[int, ...], int] = {}
            for pair in chain.from_iterable(part.rows_before() for part in parts):
                counts[pair] = counts.get(pair, 0) + 1
            self._pairs[(scope, predicate)] = _relation(list(counts), 2, 1)
            for pair, count in counts.items():
                if count > 1:
                    merged.again[(pair[0], predicate, pair[1])] = count - 1
        self._merged[scope] = merged

    # Changing

    def present(self, quads: Iterable[Quad]) -> set[Quad]:
        """Of some quads, those that were there before the epoch under way, in memory or on disk."""
        known, found, unread = self._pairs, set(), []
        for quad in quads:
            subject, predicate, object_, graph = quad
            pairs = known.get((graph, predicate))
            if pairs is None:
                unread.append(quad)
            elif pairs.has_before(subject, object_):
                found.add(quad)
        if self._cold:
            found.update(quad for quad in sorted(unread, key=_disk_order) if quad in self)
        return found

    def effective(self, wanted: Mapping[Quad, int]) -> list[Change]:
        """Of the quads wanted in (+1) or out (-1), those that are not so already."""
        known = self._pairs.get
        cold = self._cold
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
            else:  # KeyedRelation.has_before, written out: this is most of what a batch costs
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

    def stage(self, changes: Sequence[Change]) -> None:
        """Puts a batch of effective changes into the pending layers; they are listed by scope."""
        touched, known, inverses = self._touched, self._pairs, self._inverse
        read, read_all = self._read, self._read_all
        for subject, predicate, object_, graph, weight in changes:
            key = (graph, predicate)
            pairs = known.get(key)
            if pairs is None:
                if key in self._cold:
                    self._unread.append((self._cold[key], subject, object_, weight))
                    continue
                pairs = known[key] = KeyedRelation(2, 1)
            if not read_all and key not in read:
                self._unread.append((pairs, subject, object_, weight))
                continue
            pairs.stage_value(subject, object_, weight)
            touched.add(pairs)
            inverse = inverses.get(key)
            if inverse is not None:
                inverse.stage_value(object_, subject, weight)
                touched.add(inverse)
        self.staged = self._by_scope(changes)
        for scope, listed in self.staged.items():
            for (only, order, _), relation in self._indexes.get(scope, {}).items():
                for change in listed:
                    if only is None or change[PREDICATE] == only:
                        self._stage_in(relation, [change[i] for i in order], change[4])
            for counted in self._counted.get(scope, {}).values():
                for change in listed:
                    counted.stage(change)
                counted.settle()
                if counted.delta:
                    self._touched.add(counted.relation)
        self._staged_size = sum(change[4] for change in changes)
        self.size += self._staged_size

    def _by_scope(self, changes: Sequence[Change]) -> dict[Scope, list[Change]]:
        """The changes that each watched scope sees; scopes that see none are left out."""
        staged: dict[Scope, list[Change]] = {}
        by_graph: dict[int, list[Change]] = {}
        for change in changes:
            by_graph.setdefault(change[GRAPH], []).append(change)
        for graph, listed in by_graph.items():
            if graph in self._single:
                staged[self._single[graph]] = listed
        for scope in self._plural:
            if scope.kind == "merged":
                listed = self._stage_merged(scope, changes)
            else:
                listed = [change for change in changes if scope.covers(change[GRAPH])]
            if listed:
                staged[scope] = listed
        return staged

    def _stage_pair(
        self, graph: int | Scope, predicate: int, subject: int, object_: int, weight: int
    ) -> None:
        pairs = self.pairs(graph, predicate)
        pairs.stage_value(subject, object_, weight)
        self._touched.add(pairs)
        inverse = self._inverse.get((graph, predicate))
        if inverse is not None:
            inverse.stage_value(object_, subject, weight)
            self._touched.add(inverse)

    def _stage_in(self, relation: KeyedRelation, row: Sequence[int], weight: int) -> None:
        relation.stage(row, weight)
        self._touched.add(relation)

    def _stage_merged(self, scope: Scope, changes: Sequence[Change]) -> list[Change]:
        merged = self._merged[scope]
        for subject, predicate, object_, graph, weight in changes:
            if scope.covers(graph):
                triple = (subject, predicate, object_)
                merged.changes[triple] = merged.changes.get(triple, 0) + weight
        result: list[Change] = []
        for (subject, predicate, object_), weight in merged.changes.items():
            there = self.pairs_if_any(scope, predicate).has_before(subject, object_)
            old = merged.again.get((subject, predicate, object_), 0) + 1 if there else 0
            sign = (old + weight > 0) - (old > 0)
            if sign:
                self._stage_pair(scope, predicate, subject, object_, sign)
                result.append((subject, predicate, object_, 0, sign))
        return result

    def commit(self) -> None:
        for scope, merged in self._merged.items():
            for triple, weight in merged.changes.items():
                there = self.pairs_if_any(scope, triple[1]).has_before(triple[0], triple[2])
                count = (merged.again.pop(triple, 0) + 1 if there else 0) + weight
                if count > 1:
                    merged.again[triple] = count - 1
            merged.changes = {}
        for scope in self.staged:
            for counted in self._counted.get(scope, {}).values():
                counted.commit()
        for relation in self._touched:
            relation.commit()
        for pairs, subject, object_, weight in self._unread:
            pairs.apply(subject, object_, weight)
        self._end()

    def rollback(self) -> None:
        self.size -= self._staged_size
        for merged in self._merged.values():
            merged.changes = {}
        for scope in self.staged:
            for counted in self._counted.get(scope, {}).values():
                counted.rollback()
        for relation in self._touched:
            relation.rollback()
        self._end()

    def _end(self) -> None:
        self._touched.clear()
        self._unread.clear()
        self._staged_size = 0
        self.staged = {}

    @property
    def is_on_disk(self) -> bool:
        """Whether some of the quads are not in memory."""
        return bool(self._cold)

    def is_blank(self) -> bool:
        """Whether there are no quads, and no deleted ones are left in a run either."""
        return not self._cold and all(
            pairs.run is None and not pairs.overlay for pairs in self._pairs.values()
        )

    def add(self, changes: Sequence[Change]) -> None:
        """Changes that no view looks at: the same as stage and commit; large ones are sorted at once."""
        bulk = len(changes) > _BULK and not (self._inverse or self._indexes or self._counted or self._plural)
        if not bulk or any(change[4] < 0 for change in changes):
            self.stage(changes)
            self.commit()
            return
        groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for subject, predicate, object_, graph, _ in changes:
            groups.setdefault((graph, predicate), []).append((subject, object_))
        for key, rows in groups.items():
            pairs = self._cold.get(key) or self._pairs.setdefault(key, KeyedRelation(2, 1))
            if isinstance(pairs, KeyedRelation) and pairs.run is None and not pairs.overlay:
                pairs.fill(_run(rows, 2))
            else:
                for subject, object_ in rows:
                    pairs.apply(subject, object_, 1)
        self.size += len(changes)

    def check(self) -> None:
        """Raises AssertionError if two orders of the same quads differ, or the size is wrong."""
        assert self.size == sum(1 for _ in self), "the number of quads is off"
        for key, inverse in self._inverse.items():
            forward = {(o, s) for s, o in self._pairs[key].rows_before()}
            assert set(inverse.rows_before()) == forward, "an inverse index differs from its pairs"
        for scope, indexes in self._indexes.items():
            for (predicate, order, _), relation in indexes.items():
                rows = {tuple(quad[i] for i in order) for quad in self._scope_rows(scope, predicate)}
                assert set(relation.rows_before()) == rows, "an index differs from its quads"
        for scope in self._merged:
            triples = {quad[:3] for quad in self if scope.covers(quad[GRAPH])}
            merged = {quad[:3] for quad in self._scope_rows(scope, None)}
            assert merged == triples, "a merged graph differs from its graphs"
        for scope, counted in self._counted.items():
            for count in counted.values():
                count.check(self._scope_rows(scope, None))

    def load_columns(self, subjects: Column, predicates: Column, objects: Column, graph: int) -> None:
        """Bulk load of one graph that has no quads yet: sorted once, no overlay."""
        order = np.argsort(predicates, kind="stable")
        sorted_predicates = predicates[order]
        for start, stop in _groups_of(sorted_predicates):
            part = order[start:stop]
            run = Run.sort([subjects[part], objects[part]])
            self.pairs(graph, int(sorted_predicates[start])).fill(run)
            self.size += run.length

    # On disk

    def attach(self, disk: QuadRuns) -> None:
        """The quads of a store's runs, where there were none; they stay on disk until a plan reads them."""
        for key, rows in disk.sizes():
            self._cold[key] = _Cold(disk, key)
            self.size += rows

    def clear(self) -> None:
        """Forgets everything; only where no plan reads."""
        self.__init__()  # type: ignore[misc]

    def move(self, disk: QuadRuns, since: Sequence[Change]) -> None:
        """The quads are on disk anew, but for the changes since: what no plan reads is left there."""
        unread = {key for key in self._pairs if isinstance(key[0], int) and key not in self._read}
        left = set(self._cold) if self._read_all else set(self._cold) | unread
        self._cold = {}
        for key in left:
            self._pairs.pop(key, None)
        for key, _ in disk.sizes():
            if key in left:
                self._cold[key] = _Cold(disk, key)
        for subject, predicate, object_, graph, weight in since:
            if (graph, predicate) in left:
                target = self._cold.get((graph, predicate))
                if target is None:
                    target = self._pairs.setdefault((graph, predicate), KeyedRelation(2, 1))  # type: ignore[assignment]
                target.apply(subject, object_, weight)  # type: ignore[union-attr]

    def columns(self) -> Iterator[tuple[Column, Column, Column, Column]]:
        """All quads as columns s, p, o, g, sorted by p, g, s, o, in pieces."""
        graphs = sorted((key[1], key[0]) for key in self._pairs if isinstance(key[0], int))
        for predicate, graph in graphs:
            pairs = self._pairs[(graph, predicate)]
            pairs.merge()
            if pairs.run is not None:
                subjects, objects = pairs.run.columns
                size = pairs.run.length
                yield subjects, np.full(size, predicate), objects, np.full(size, graph)

    @property
    def nbytes(self) -> int:
        """Memory of all orders in bytes."""
        relations: list[KeyedRelation] = [*self._pairs.values(), *self._inverse.values()]
        relations += [relation for indexes in self._indexes.values() for relation in indexes.values()]
        relations += [c.relation for counted in self._counted.values() for c in counted.values()]
        return sum(relation.nbytes for relation in relations)


class _Counted:
    """The distinct nodes, or graph names, of a scope, with the number of quads that mention each."""

    def __init__(self, kind: str, scope: Scope) -> None:
        self._nodes = kind == "nodes"
        self._with_graph = scope.kind == "named"
        arity = 1 + (self._nodes and self._with_graph)
        self.relation = KeyedRelation(arity, 1)
        self._counts: dict[tuple[int, ...], int] = {}
        self._changes: dict[tuple[int, ...], int] = {}
        self.delta: list[tuple[tuple[int, ...], int]] = []

    def copy(self) -> _Counted:
        """To be read: without the counts."""
        made = copy(self)
        made.relation = self.relation.copy()
        return made

    def _rows(self, quad: Sequence[int]) -> Iterable[tuple[int, ...]]:
        if not self._nodes:
            return ((quad[GRAPH],),)
        if self._with_graph:
            return ((quad[SUBJECT], quad[GRAPH]), (quad[OBJECT], quad[GRAPH]))
        return ((quad[SUBJECT],), (quad[OBJECT],))

    def load(self, quads: Iterable[Quad]) -> None:
        counts = self._counts
        for quad in quads:
            for row in self._rows(quad):
                counts[row] = counts.get(row, 0) + 1
        self.relation = _relation(list(counts), self.relation.arity, 1)

    def check(self, quads: Iterable[Quad]) -> None:
        rows = {row for quad in quads for row in self._rows(quad)}
        assert set(self.relation.rows_before()) == rows == set(self._counts), "counted nodes or names are off"

    def stage(self, change: Change) -> None:
        for row in self._rows(change):
            self._changes[row] = self._changes.get(row, 0) + change[4]

    def settle(self) -> None:
        self.delta = []
        for row, weight in self._changes.items():
            old = self._counts.get(row, 0)
            sign = (old + weight > 0) - (old > 0)
            if sign:
                self.delta.append((row, sign))
                self.relation.stage(row, sign)

    def commit(self) -> None:
        for row, weight in self._changes.items():
            count = self._counts.get(row, 0) + weight
            if count:
                self._counts[row] = count
            else:
                self._counts.pop(row, None)
        self.rollback()

    def rollback(self) -> None:
        self._changes = {}
        self.delta = []


def _disk_order(quad: Quad) -> Quad:
    """The order of quads on disk: in it, many are looked up without reading a file twice."""
    subject, predicate, object_, graph = quad
    return predicate, graph, subject, object_


def _groups_of(values: Column) -> list[tuple[int, int]]:
    """Where each group of equal values begins and ends in a sorted column."""
    if not len(values):
        return []
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1]))).tolist()
    return list(zip(starts, [*starts[1:], len(values)], strict=True))


def _relation(rows: Sequence[tuple[int, ...]], arity: int, key_length: int) -> KeyedRelation:
    if not rows:
        return KeyedRelation(arity, key_length)
    return KeyedRelation(arity, key_length, _run(rows, arity))


def _run(rows: Sequence[tuple[int, ...]], arity: int) -> Run:
    return Run.sort([np.fromiter((row[i] for row in rows), np.int64, len(rows)) for i in range(arity)])


def _copied(relation: KeyedRelation) -> KeyedRelation:
    """A copy; what has changed becomes part of the run before, where that costs no more than copies do."""
    if relation.overlay_rows > max(_MOST_COPIED, (relation.run.length if relation.run else 0) // 64):
        relation.merge()
    return relation.copy()


def _inverted(pairs: KeyedRelation, run: Run | None = None) -> KeyedRelation:
    """Pairs the other way round, the pending ones too; `run` is that of the inverse, if it is known."""
    if run is None and pairs.run is not None:
        run = Run.sort([pairs.run.columns[1], pairs.run.columns[0]])
    made = KeyedRelation(2, 1, run)
    made.overlay_rows = pairs.overlay_rows
    for subject, objects in pairs.overlay.items():
        for object_, weight in objects.items():
            made.overlay.setdefault(object_, {})[subject] = weight
    for subject, objects in pairs.pending.items():
        for object_, weight in objects.items():
            made.stage_value(object_, subject, weight)
    return made
