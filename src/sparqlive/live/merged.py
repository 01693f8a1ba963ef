"""Merged graphs: the union of several graphs as a set (a union default graph, several FROM).

Owns the number of occurrences of each triple in the graphs of a merged scope. The change of a merged graph is
the sign change of that number. The triples themselves are pairs under the scope (`live/quad_pairs.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np

from sparqlive.live.quad_pairs import QuadPairs, relation_of
from sparqlive.live.scope import Change, Quad, Scope
from sparqlive.zset.columns import ColumnRows, group_starts
from sparqlive.zset.relation import KeyedRelation
from sparqlive.zset.run import Column

Triple: TypeAlias = tuple[int, int, int]


class _Occurrences:
    """The surplus occurrences of each triple beyond the first, and their changes in the current epoch.

    For a large batch, it lists the triples that occur more than once before or after it, not the changes.
    """

    __slots__ = ("again", "changes", "recounted")

    def __init__(self) -> None:
        self.again: dict[Triple, int] = {}
        self.changes: dict[Triple, int] = {}
        self.recounted: dict[Triple, int] = {}


class MergedQuads:
    def __init__(self, pairs: QuadPairs) -> None:
        self._pairs = pairs
        self._scopes: dict[Scope, _Occurrences] = {}

    def __contains__(self, scope: Scope) -> bool:
        return scope in self._scopes

    def __iter__(self) -> Iterator[Scope]:
        return iter(self._scopes)

    def add(self, scope: Scope) -> None:
        """Computes the union of a scope's graphs."""
        occurrences = _Occurrences()
        found: dict[int, list[KeyedRelation]] = {}
        for (_, predicate), pairs in self._pairs.select(
            lambda graph, _: isinstance(graph, int) and scope.covers(graph)
        ):
            found.setdefault(predicate, []).append(pairs)
        for predicate, parts in found.items():
            if len(parts) == 1:  # a set already
                self._pairs.in_memory[(scope, predicate)] = parts[0].copy()
                continue
            counts: dict[tuple[int, ...], int] = {}
            for pair in chain.from_iterable(part.rows_before() for part in parts):
                counts[pair] = counts.get(pair, 0) + 1
            self._pairs.in_memory[(scope, predicate)] = relation_of(list(counts), 2, 1)
            for pair, count in counts.items():
                if count > 1:
                    occurrences.again[(pair[0], predicate, pair[1])] = count - 1
        self._scopes[scope] = occurrences

    def stage(self, scope: Scope, changes: Sequence[Change]) -> list[Change]:
        """Stages the changes of the unions that follow from changes of graphs, and lists them."""
        occurrences = self._scopes[scope]
        for subject, predicate, object_, graph, weight in changes:
            if scope.covers(graph):
                triple = (subject, predicate, object_)
                occurrences.changes[triple] = occurrences.changes.get(triple, 0) + weight
        result: list[Change] = []
        for (subject, predicate, object_), weight in occurrences.changes.items():
            there = self._pairs.of_if_any(scope, predicate).has_before(subject, object_)
            old = occurrences.again.get((subject, predicate, object_), 0) + 1 if there else 0
            sign = (old + weight > 0) - (old > 0)
            if sign:
                self._pairs.stage_merged(scope, predicate, subject, object_, sign)
                result.append((subject, predicate, object_, 0, sign))
        return result

    def stage_columns(self, scope: Scope, changes: ColumnRows) -> ColumnRows:
        """Like `stage`, for a large batch; the changes are sorted by p, s, o."""
        occurrences = self._scopes[scope]
        subjects, predicates, objects, _, weights = changes.take(scope.covered(changes.columns[3])).columns
        order = np.lexsort((objects, subjects, predicates))
        subjects, predicates, objects = subjects[order], predicates[order], objects[order]
        starts = group_starts(predicates, subjects, objects)[:-1]
        weights = np.add.reduceat(weights[order], starts) if len(starts) else weights
        subjects, predicates, objects = subjects[starts], predicates[starts], objects[starts]
        old = self._counts(scope, subjects, predicates, objects)
        new = old + weights
        for place in np.flatnonzero((old > 1) | (new > 1)).tolist():
            triple = int(subjects[place]), int(predicates[place]), int(objects[place])
            occurrences.recounted[triple] = int(new[place])
        sign = (new > 0).astype(np.int64) - (old > 0)
        changed = ColumnRows((subjects, predicates, objects, np.zeros(len(sign), dtype=np.int64), sign))
        changed = changed.take(sign != 0)
        self._pairs.stage_columns(changed, scope)
        return changed

    def _counts(self, scope: Scope, subjects: Column, predicates: Column, objects: Column) -> Column:
        """The number of occurrences of each of some triples, which are sorted by predicate."""
        again = self._scopes[scope].again
        counts = np.zeros(len(subjects), dtype=np.int64)
        for start, stop in pairwise(group_starts(predicates).tolist()):
            key, part = (scope, int(predicates[start])), slice(start, stop)
            counts[part] = self._pairs.has(key, subjects[part], objects[part])
        for place in np.flatnonzero(counts).tolist() if again else ():
            triple = int(subjects[place]), int(predicates[place]), int(objects[place])
            counts[place] += again.get(triple, 0)
        return counts

    def commit(self) -> None:
        """Commits before the pairs do, because it reads their old state."""
        for scope, occurrences in self._scopes.items():
            for triple, count in occurrences.recounted.items():
                if count > 1:
                    occurrences.again[triple] = count - 1
                else:
                    occurrences.again.pop(triple, None)
            occurrences.recounted = {}
            for triple, weight in occurrences.changes.items():
                there = self._pairs.of_if_any(scope, triple[1]).has_before(triple[0], triple[2])
                count = (occurrences.again.pop(triple, 0) + 1 if there else 0) + weight
                if count > 1:
                    occurrences.again[triple] = count - 1
            occurrences.changes = {}

    def rollback(self) -> None:
        for occurrences in self._scopes.values():
            occurrences.changes = {}
            occurrences.recounted = {}

    def snapshot(self, original: MergedQuads, scopes: frozenset[Scope]) -> None:
        """Copies the unions of the original, only for reading."""
        self._scopes = {scope: _Occurrences() for scope in original._scopes if scope in scopes}

    def adopt(self, snapshot: MergedQuads) -> set[Scope]:
        """Takes over the unions that a snapshot's reader created; returns the new ones."""
        new = {scope for scope in snapshot._scopes if scope not in self._scopes}
        self._scopes.update({scope: snapshot._scopes[scope] for scope in new})
        return new

    def check(self, quads: Sequence[Quad]) -> None:
        for scope in self._scopes:
            triples = {quad[:3] for quad in quads if scope.covers(quad[3])}
            merged = {quad[:3] for quad in self._pairs.of_scope(scope, None)}
            assert merged == triples, "a merged graph differs from its graphs"
