"""The quads of one epoch, lent to a query that reads them once.

A query looks up what it needs in the runs that exist: by subject in the run of each predicate, by object in a
turned run (`live/turned.py`) once there were enough lookups to pay for it. Nothing is merged, indexed or read
from disk ahead. Invariant: lent quads never change, and reading them changes nothing of the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sparqlive.live.cold import Cold
from sparqlive.live.lent_pairs import ColdPairs, MergedPairs, TurnedPairs, pieces_of
from sparqlive.live.quad_pairs import Key, LentPairs, PairTable
from sparqlive.live.scope import GRAPH, OBJECT, PREDICATE, SUBJECT, Change, Scope
from sparqlive.zset.relation import KeyedRelation, LentRelation, Row
from sparqlive.zset.run import Column, Run

Pairs: TypeAlias = LentRelation | ColdPairs | MergedPairs
"""Subject → objects."""


class Part(NamedTuple):
    """The pairs of one predicate and graph (0 for merged graphs)."""

    predicate: int
    graph: int
    pairs: Pairs


ListedParts: TypeAlias = tuple[list[Part], list[tuple[tuple[int, int], Cold]]]
"""The parts of a scope in memory, and those on disk by graph and predicate."""

_EMPTY = KeyedRelation(2, 1).lend()


class LentQuads:
    """Reads like `Quads` before an epoch. For one query: what it loads and merges goes with it."""

    reads_any_predicate = False

    def __init__(self, lent: LentPairs, size: int) -> None:
        self._lent = lent
        self.loan = lent.loan
        self.turned = lent.turned
        self.is_on_disk = lent.is_on_disk
        self._merged = lent.merged
        self.size = size
        self.staged: Mapping[Scope, Sequence[Change]] = {}
        self._pairs: dict[Key, Pairs] = {}
        self._inverses: dict[Key, LentRelation | TurnedPairs] = {}
        self._parts: dict[Scope, list[Part]] = {}
        self._names: dict[Scope, GraphNames] = {}

    # What plans read

    def watch(self, scope: Scope) -> None:
        """Does nothing: lent quads do not change."""

    def read_any_predicate(self) -> None:
        """Does nothing, likewise."""

    def is_merged(self, scope: Scope) -> bool:
        """Whether a scope has its own set of triples, or needs none."""
        return scope.kind != "merged" or scope in self._merged

    def pairs(self, graph: int | Scope, predicate: int) -> Pairs:
        """Subject → objects of one graph and predicate."""
        found = self._pairs.get((graph, predicate))
        if found is None:
            found = self._pairs[(graph, predicate)] = self._find(graph, predicate)
        return found

    pairs_if_any = pairs

    def _find(self, graph: int | Scope, predicate: int) -> Pairs:
        if not isinstance(graph, Scope) or graph in self._merged:
            return self._of_one(graph, predicate)
        graphs = self._graphs_of.get(predicate, ())
        parts = [self._of_one(name, predicate) for name in graphs if graph.covers(name)]
        return _EMPTY if not parts else parts[0] if len(parts) == 1 else MergedPairs(parts)

    def _of_one(self, graph: int | Scope, predicate: int) -> LentRelation | ColdPairs:
        found = self._lent.pairs.get((graph, predicate))
        if found is None:
            return _EMPTY
        return ColdPairs(found) if isinstance(found, Cold) else found

    def inverse(self, graph: int | Scope, predicate: int) -> LentRelation | TurnedPairs:
        """Object → subjects."""
        key = (graph, predicate)
        found = self._inverses.get(key)
        if found is None:
            kept = self._lent.inverses.get(key)
            found = TurnedPairs(self.pairs(graph, predicate), self._lent.turned) if kept is None else kept
            self._inverses[key] = found
        return found

    inverse_if_any = inverse

    @cached_property
    def _graphs_of(self) -> dict[int, list[int]]:
        """The graphs of each predicate."""
        found: dict[int, list[int]] = {}
        for graph, predicate in self._lent.pairs:
            if isinstance(graph, int):
                found.setdefault(predicate, []).append(graph)
        return found

    def parts(self, scope: Scope) -> list[Part]:
        """The pairs of a scope by predicate and, unless merged, by graph. Those on disk come last."""
        found = self._parts.get(scope)
        if found is None:
            parts = self._merged_parts(scope) if scope.kind == "merged" else self._own_parts(scope)
            found = self._parts[scope] = parts
        return found

    def _merged_parts(self, scope: Scope) -> list[Part]:
        if scope in self._merged:
            predicates: Iterable[int] = [of for graph, of in self._lent.pairs if graph == scope]
        else:
            predicates = self._graphs_of
        found = ((predicate, self.pairs(scope, predicate)) for predicate in predicates)
        return [Part(predicate, 0, pairs) for predicate, pairs in found if pairs is not _EMPTY]

    def _own_parts(self, scope: Scope) -> list[Part]:
        """All queries of a loan share the list of what is in memory; what is on disk, each reads itself."""
        known = self._pairs
        in_memory, on_disk = self._lent.parts.get(scope) or self._listed(scope)
        if not on_disk:
            return in_memory
        parts = in_memory.copy()
        for key, cold in on_disk:
            pairs = known.get(key)
            if pairs is None:
                pairs = known[key] = ColdPairs(cold)
            parts.append(Part(key[1], key[0], pairs))
        return parts

    def _listed(self, scope: Scope) -> ListedParts:
        in_memory: list[Part] = []
        on_disk: list[tuple[tuple[int, int], Cold]] = []
        for (graph, predicate), found in self._lent.pairs.items():
            if isinstance(graph, int) and scope.covers(graph):
                if isinstance(found, Cold):
                    on_disk.append(((graph, predicate), found))
                else:
                    in_memory.append(Part(predicate, graph, found))
        listed = self._lent.parts[scope] = (in_memory, on_disk)
        return listed

    def index(
        self, scope: Scope, predicate: int | None, order: tuple[int, ...], key_length: int
    ) -> ManyParts:
        """The scope's quads (of one predicate if given) as rows in the given order of positions."""
        parts = self.parts(scope)
        if predicate is not None:
            parts = [part for part in parts if part.predicate == predicate]
        return ManyParts(self, scope, parts, order, key_length)

    def matching(self, scope: Scope, known: Mapping[int, int]) -> Iterator[tuple[int, int, int, int]]:
        """The quads of a scope with known ids at some of the positions SUBJECT, PREDICATE and OBJECT."""
        return self.index(scope, known.get(PREDICATE), (), 0).quads_with(known)

    def inverse_of(self, scope: Scope, part: Part) -> LentRelation | TurnedPairs:
        return self.inverse(scope if scope.kind == "merged" else part.graph, part.predicate)

    def nodes(self, scope: Scope) -> Nodes:
        """Subjects and objects: node (→ graph, for named graphs)."""
        return Nodes(self, scope)

    def names(self, scope: Scope) -> GraphNames:
        """The names of graphs that have a quad, as keys without values."""
        if scope not in self._names:
            self._names[scope] = GraphNames(self.parts(scope))
        return self._names[scope]

    def tables(self, scope: Scope, predicate: int | None, after: bool) -> Iterator[PairTable]:
        """The pairs of a scope as columns; see `Quads.tables`."""
        keyed = scope.kind == "merged" and self.is_merged(scope)
        for graph, of in list(self._lent.pairs):
            if predicate is not None and of != predicate:
                continue
            if graph == scope if keyed else isinstance(graph, int) and scope.covers(graph):
                run = self.pairs(graph, of).run_before()
                if run is not None:
                    yield PairTable(of, graph if isinstance(graph, int) else 0, *run.columns)


def _run_of(pairs: Pairs) -> Run | None:
    """The run that has all of the pairs, if there is one."""
    if isinstance(pairs, ColdPairs):
        return pairs.whole_run()
    return pairs.run if isinstance(pairs, LentRelation) and not pairs.overlay else None


class ManyParts:
    """The quads of several predicates or graphs, as rows in an order of positions."""

    def __init__(
        self, quads: LentQuads, scope: Scope, parts: list[Part], order: tuple[int, ...], key_length: int
    ) -> None:
        self._quads = quads
        self._scope = scope
        self._parts = parts
        self._order = order
        self._keys = order[:key_length]
        self._free = order[key_length:]
        self._by_value: dict[tuple[int, ...], list[Part]] = {}
        self._turned: dict[int, Callable[[int], Iterable[int] | None]] = {}
        """Lookups in turned runs, by the place of the part."""
        self._chosen = [position for position in (PREDICATE, GRAPH) if position in self._keys]
        self._arrange = _arranged(self._free)
        self._plain = self._keys == (SUBJECT,) and self._free == (PREDICATE, OBJECT)
        self._inverse = self._keys == (OBJECT,) and self._free == (SUBJECT, PREDICATE)

    def _with(self, known: Mapping[int, int]) -> list[Part]:
        """The parts with the known predicate and graph."""
        if not self._chosen:
            return self._parts
        if not self._by_value:
            for part in self._parts:
                value = {PREDICATE: part.predicate, GRAPH: part.graph}
                self._by_value.setdefault(tuple([value[p] for p in self._chosen]), []).append(part)
        return self._by_value.get(tuple([known[position] for position in self._chosen]), [])

    def before(self, key: Any) -> Iterator[Any]:
        """The values of the free positions; a single one is not in a tuple."""
        if self._plain:
            return self._of_subject(key)
        if self._inverse:
            return self._of_object(key)
        known = {self._keys[0]: key} if len(self._keys) == 1 else dict(zip(self._keys, key, strict=True))
        return map(self._arrange, self.quads_with(known))

    def _of_subject(self, subject: int) -> Iterator[tuple[int, int]]:
        """Like `before`, for by far the most common lookup."""
        for predicate, _, pairs in self._parts:
            found = pairs.before(subject)
            if found is not None:
                for object_ in found:
                    yield predicate, object_

    def _of_object(self, object_: int) -> Iterator[tuple[int, int]]:
        """Likewise, for the second most common one."""
        turned = self._quads.turned
        for place, part in enumerate(self._parts):
            predicate, _, pairs = part
            subjects_of = self._turned.get(place)
            if subjects_of is None:
                run = _run_of(pairs)
                if run is not None and turned.lacks(run, object_):
                    continue
                if (other := turned.find(run)) is not None:
                    subjects_of = self._turned[place] = other.seconds
                else:
                    subjects_of = self._quads.inverse_of(self._scope, part).before
            found = subjects_of(object_)
            if found is not None:
                for subject in found:
                    yield subject, predicate

    def quads_with(self, known: Mapping[int, int]) -> Iterator[tuple[int, int, int, int]]:
        """The quads with known ids at some positions."""
        subject, object_ = known.get(SUBJECT), known.get(OBJECT)
        for part in self._with(known):
            predicate, graph, pairs = part
            if subject is not None and object_ is not None:
                if pairs.has_before(subject, object_):
                    yield subject, predicate, object_, graph
            elif subject is not None:
                for found in pairs.before(subject) or ():
                    yield subject, predicate, found, graph
            elif object_ is not None:
                for found in self._quads.inverse_of(self._scope, part).before(object_) or ():
                    yield found, predicate, object_, graph
            else:
                for start, end in pairs.rows_before():
                    yield start, predicate, end, graph

    def rows_before(self) -> Iterator[Row]:
        if self._order == (SUBJECT, PREDICATE, OBJECT):
            for predicate, _, pairs in self._parts:
                for subject, object_ in pairs.rows_before():
                    yield subject, predicate, object_
            return
        arrange = itemgetter(*self._order)
        for predicate, graph, pairs in self._parts:
            for subject, object_ in pairs.rows_before():
                yield arrange((subject, predicate, object_, graph))

    def pieces_before(self) -> Iterator[Sequence[Column]]:
        """All rows as columns, in growing pieces from each part in turn: any part may have what is sought."""
        waiting = deque((part, pieces_of(part.pairs)) for part in self._parts)
        while waiting:
            part, pieces = waiting.popleft()
            piece = next(pieces, None)
            if piece is not None:
                waiting.append((part, pieces))
                subjects, objects = piece
                predicates, graphs = (np.full(len(subjects), value) for value in part[:2])
                quad = (subjects, predicates, objects, graphs)
                yield [quad[position] for position in self._order]

    def counts(self, positions: Sequence[int]) -> Iterator[tuple[Any, int]]:
        """The values of some of PREDICATE and GRAPH, each with a number of quads; without listing them."""
        arrange = _arranged(positions)
        for predicate, graph, pairs in self._parts:
            size = pairs.size_before()
            if size:
                yield arrange((0, predicate, 0, graph)), size

    def counts_of(self, subject: int) -> Iterator[tuple[int, int]]:
        """The predicates of a subject, each with its number of objects."""
        for predicate, count_of in self._counters:
            count = count_of(subject)
            if count:
                yield predicate, count

    @cached_property
    def _counters(self) -> list[tuple[int, Callable[[int], int]]]:
        """How the objects of a subject are counted, for each predicate."""
        return [
            (predicate, run.count_one if (run := _run_of(pairs)) is not None else pairs.count_before)
            for predicate, _, pairs in self._parts
        ]

    def has_before(self, key: Any, value: Any) -> bool:
        return any(True for _ in self.before(key))

    def count_before(self, key: Any) -> int:
        return sum(1 for _ in self.before(key))

    def size_before(self) -> int:
        return sum(part.pairs.size_before() for part in self._parts)


def _arranged(positions: Sequence[int]) -> Callable[[Sequence[int]], Any]:
    return itemgetter(*positions) if positions else lambda quad: ()


class Nodes:
    """The subjects and objects of a scope, found when they are read."""

    def __init__(self, quads: LentQuads, scope: Scope) -> None:
        self._quads = quads
        self._scope = scope
        self._parts = quads.parts(scope)
        self._with_graph = scope.kind == "named"

    def rows_before(self) -> Iterator[Row]:
        seen: set[Row] = set()
        for _, graph, pairs in self._parts:
            for pair in pairs.rows_before():
                for node in pair:
                    row = (node, graph) if self._with_graph else (node,)
                    if row not in seen:
                        seen.add(row)
                        yield row

    def before(self, node: int) -> Iterator[int]:
        """The graphs in which a node occurs."""
        found: set[int] = set()
        for part in self._parts:
            if part.graph not in found and self._occurs(part, node):
                found.add(part.graph)
                yield part.graph

    def has_before(self, node: int, value: Any) -> bool:
        wanted = (part for part in self._parts if not self._with_graph or part.graph == value)
        return any(self._occurs(part, node) for part in wanted)

    def _occurs(self, part: Part, node: int) -> bool:
        if part.pairs.before(node):
            return True
        return bool(self._quads.inverse_of(self._scope, part).before(node))


class GraphNames:
    """The names of graphs that have a quad."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts

    @cached_property
    def _found(self) -> dict[int, None]:
        return {graph: None for _, graph, pairs in self._parts if pairs.size_before()}

    def rows_before(self) -> Iterator[Row]:
        return ((name,) for name in self._found)

    def has_before(self, name: int, value: Any) -> bool:
        return name in self._found
