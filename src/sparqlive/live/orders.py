"""Secondary indexes: the quads of a scope in other orders than pairs, and its distinct nodes and graph names.

An order is created from the pairs and the staged changes when a plan first needs it, and then changes with
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from operator import methodcaller
from typing import Literal, TypeAlias

from sparqlive.live.quad_pairs import QuadPairs, copy_of, relation_of, stage_rows
from sparqlive.live.scope import GRAPH, OBJECT, PREDICATE, SUBJECT, Change, Quad, Scope
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.relation import KeyedRelation, Row

IndexKey: TypeAlias = tuple[int | None, tuple[int, ...], int]
"""One predicate or all; the positions of a quad in the order of a row; the number of key positions."""

Kind: TypeAlias = Literal["nodes", "names"]


class Orders:
    def __init__(self, pairs: QuadPairs) -> None:
        self._pairs = pairs
        self._indexes: dict[Scope, dict[IndexKey, KeyedRelation]] = {}
        self._counted: dict[Scope, dict[Kind, _Counted]] = {}
        self._touched: set[KeyedRelation] = set()

    def __bool__(self) -> bool:
        return bool(self._indexes or self._counted)

    def index(self, scope: Scope, key: IndexKey, staged: Sequence[Change]) -> KeyedRelation:
        """The scope's quads as rows in an order."""
        indexes = self._indexes.setdefault(scope, {})
        found = indexes.get(key)
        if found is None:
            predicate, positions, key_length = key
            rows = [tuple(quad[i] for i in positions) for quad in self._pairs.of_scope(scope, predicate)]
            found = indexes[key] = relation_of(rows, len(positions), key_length)
            self._stage_in(found, key, staged)
        return found

    def counted(self, kind: Kind, scope: Scope, staged: Sequence[Change]) -> KeyedRelation:
        """The distinct nodes, or names of graphs, of a scope."""
        counted = self._counted.setdefault(scope, {})
        found = counted.get(kind)
        if found is None:
            found = _Counted(kind, scope)
            found.load(self._pairs.of_scope(scope, None))
            counted[kind] = found
            found.stage(staged)
            self._touched.add(found.relation)
        return found.relation

    def counted_delta(self, kind: Kind, scope: Scope) -> list[tuple[Row, int]]:
        return self._counted[scope][kind].delta

    def stage(self, staged: Mapping[Scope, Sequence[Change]]) -> None:
        if not self._indexes and not self._counted:
            return
        for scope, changes in staged.items():
            for key, relation in self._indexes.get(scope, {}).items():
                self._stage_in(relation, key, changes)
            for counted in self._counted.get(scope, {}).values():
                counted.stage(changes)
                if counted.delta:
                    self._touched.add(counted.relation)

    def _stage_in(self, relation: KeyedRelation, key: IndexKey, changes: Sequence[Change]) -> None:
        predicate, positions, _ = key
        if type(changes) is ColumnRows:
            if predicate is not None:
                changes = changes.take(changes.columns[PREDICATE] == predicate)
            if len(changes):
                stage_rows(relation, [changes.columns[i] for i in positions], changes.columns[4])
                self._touched.add(relation)
            return
        for change in changes:
            if predicate is None or change[PREDICATE] == predicate:
                relation.stage([change[i] for i in positions], change[4])
                self._touched.add(relation)

    def commit(self, staged: Iterable[Scope]) -> None:
        if not self._indexes and not self._counted:
            return
        for scope in staged:
            for counted in self._counted.get(scope, {}).values():
                counted.commit()
        for relation in self._touched:
            relation.commit()
        self._touched.clear()

    def rollback(self, staged: Iterable[Scope]) -> None:
        for scope in staged:
            for counted in self._counted.get(scope, {}).values():
                counted.rollback()
        for relation in self._touched:
            relation.rollback()
        self._touched.clear()

    def snapshot(self, original: Orders, scopes: frozenset[Scope], predicates: frozenset[int] | None) -> None:
        """Copies the orders that the original has of some scopes and predicates."""
        for scope in scopes & original._indexes.keys():
            self._indexes[scope] = {
                key: copy_of(index)
                for key, index in original._indexes[scope].items()
                if predicates is None or key[0] in predicates
            }
        for scope in scopes & original._counted.keys():
            self._counted[scope] = {
                kind: counted.copy() for kind, counted in original._counted[scope].items()
            }

    def adopt(self, snapshot: Orders) -> None:
        """Takes over the orders that a snapshot's reader created and that are missing here."""
        for scope, indexes in snapshot._indexes.items():
            self._indexes[scope] = {**indexes, **self._indexes.get(scope, {})}
        for scope, counted in snapshot._counted.items():
            self._counted[scope] = {**counted, **self._counted.get(scope, {})}

    def places(self) -> dict[int, methodcaller]:
        """For each order, by its relation's identity, how to get the same order of other quads."""
        found: dict[int, methodcaller] = {}
        for scope, indexes in self._indexes.items():
            for key, relation in indexes.items():
                found[id(relation)] = methodcaller("index", scope, *key)
        for scope, counted in self._counted.items():
            for kind, counts in counted.items():
                found[id(counts.relation)] = methodcaller(kind, scope)
        return found

    def check(self) -> None:
        for scope, indexes in self._indexes.items():
            for (predicate, positions, _), relation in indexes.items():
                quads = self._pairs.of_scope(scope, predicate)
                rows = {tuple(quad[i] for i in positions) for quad in quads}
                assert set(relation.rows_before()) == rows, "an index differs from its quads"
        for scope, counted in self._counted.items():
            for count in counted.values():
                count.check(self._pairs.of_scope(scope, None))

    @property
    def nbytes(self) -> int:
        relations = [relation for indexes in self._indexes.values() for relation in indexes.values()]
        relations += [c.relation for counted in self._counted.values() for c in counted.values()]
        return sum(relation.nbytes for relation in relations)


class _Counted:
    """The distinct nodes, or graph names, of a scope, with the number of quads that mention each."""

    def __init__(self, kind: Kind, scope: Scope) -> None:
        self._nodes = kind == "nodes"
        self._with_graph = scope.kind == "named"
        arity = 1 + (self._nodes and self._with_graph)
        self.relation = KeyedRelation(arity, 1)
        self._counts: dict[Row, int] = {}
        self._changes: dict[Row, int] = {}
        self.delta: list[tuple[Row, int]] = []

    def copy(self) -> _Counted:
        """A copy for reading; the counts are not copied."""
        other = copy(self)
        other.relation = self.relation.copy()
        return other

    def _rows(self, quad: Sequence[int]) -> Iterable[Row]:
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
        self.relation = relation_of(list(counts), self.relation.arity, 1)

    def check(self, quads: Iterable[Quad]) -> None:
        rows = {row for quad in quads for row in self._rows(quad)}
        assert set(self.relation.rows_before()) == rows == set(self._counts), "wrong counts of nodes or names"

    def stage(self, changes: Sequence[Change]) -> None:
        """Counts the changes; the sign changes of the counts are the delta."""
        for change in changes:
            for row in self._rows(change):
                self._changes[row] = self._changes.get(row, 0) + change[4]
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
