"""Looks up the quads of a scope by any known positions, before an epoch or after it.

Each lookup reads the order that starts with the known positions, and skips quads outside the scope. The union
of several graphs is a set: equal triples count once. Nothing is stored here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from sparqlive.quads.columns import columns_of, size_of
from sparqlive.quads.merged import MergedPairs, pieces_of
from sparqlive.quads.reader import PartReader, Reader, own_graph
from sparqlive.quads.scope import GRAPH, OBJECT, PREDICATE, SUBJECT, Quad, Scope
from sparqlive.zset.relation import Row
from sparqlive.zset.run import Column, Run, growing


class Lookup:
    """The quads of a scope (of one predicate if given) as rows in an order of positions.

    The first positions are the key, the others the value: an integer, or a tuple of several.
    """

    def __init__(
        self, reader: Reader, scope: Scope, predicate: int | None, order: tuple[int, ...], key_length: int
    ) -> None:
        self._reader = reader
        self._scope = scope
        self._predicate = predicate
        self._order = order
        self._keys = order[:key_length]
        self._arrange = _arranged(order[key_length:])
        self._fixed = {} if predicate is None else {PREDICATE: predicate}

    def _quads(self, key: Any, after: bool) -> Iterator[Quad]:
        keys = self._keys
        known = {keys[0]: key} if len(keys) == 1 else dict(zip(keys, key, strict=True))
        return quads_with(self._reader, self._scope, known | self._fixed, after)

    def before(self, key: Any) -> Iterator[Any]:
        return map(self._arrange, self._quads(key, False))

    def after(self, key: Any) -> Iterator[Any]:
        return map(self._arrange, self._quads(key, True))

    def has_before(self, key: Any, value: Any) -> bool:
        return any(found == value for found in self.before(key))

    def has_after(self, key: Any, value: Any) -> bool:
        return any(found == value for found in self.after(key))

    def count_before(self, key: Any) -> int:
        return sum(1 for _ in self._quads(key, False))

    def count_after(self, key: Any) -> int:
        return sum(1 for _ in self._quads(key, True))

    def rows_before(self) -> Iterator[Row]:
        return map(_row_of(self._order), quads_with(self._reader, self._scope, self._fixed))

    def rows_after(self) -> Iterator[Row]:
        return map(_row_of(self._order), quads_with(self._reader, self._scope, self._fixed, after=True))

    def _parts(self) -> Iterable[PartReader]:
        if self._predicate is None:
            return self._reader.parts()
        part = self._reader.part(self._predicate)
        return () if part is None else (part,)

    def size_before(self) -> int:
        run = self._of_small_graph()
        if run is not None:
            return run.length
        return sum(size_of(part, self._scope) for part in self._parts())

    def size_after(self) -> int:
        return sum(size_of(part, self._scope, after=True) for part in self._parts())

    def _of_small_graph(self) -> Run | None:
        graph = own_graph(self._scope)
        return None if graph is None else _of_small_graph(self._reader, graph, self._predicate)

    def pieces_before(self) -> Iterator[Sequence[Column]]:
        """All rows as columns, in growing pieces from each predicate in turn: any may have a match."""
        run = self._of_small_graph()
        if run is not None:
            *others, subjects, objects = run.columns
            predicates = others[0] if others else np.full(run.length, self._predicate)
            quad = (subjects, predicates, objects, np.full(run.length, own_graph(self._scope)))
            parts = growing(0, run.length)
            yield from ([quad[position][part] for position in self._order] for part in parts)
            return
        waiting = [(part, self._pieces(part)) for part in self._parts()]
        while waiting:
            left = []
            for part, pieces in waiting:
                piece = next(pieces, None)
                if piece is not None:
                    left.append((part, pieces))
                    yield piece
            waiting = left

    def _pieces(self, part: PartReader) -> Iterator[Sequence[Column]]:
        graph = part.graph if part.is_single and self._scope.kind != "merged" else own_graph(self._scope)
        if not part.is_single:
            columns = columns_of(part, self._scope)
            pieces: Iterator[Sequence[Column]] = (
                [column[piece] for column in columns] for piece in growing(0, len(columns[0]))
            )
        elif part.graph is not None and self._scope.covers(part.graph):
            pieces = pieces_of(part.forward)
        else:
            return
        for subjects, objects, *others in pieces:
            length = len(subjects)
            graphs = others[0] if others else np.full(length, 0 if graph is None else graph)
            quad = (subjects, np.full(length, part.predicate), objects, graphs)
            yield [quad[position] for position in self._order]

    def counts(self, positions: Sequence[int]) -> Iterator[tuple[Any, int]]:
        """Counts quads by PREDICATE, GRAPH or both, without listing them; a value may come several times."""
        arrange = _arranged(positions)
        for part in self._parts():
            for graph, size in self._sizes(part, GRAPH in positions):
                yield arrange((0, part.predicate, 0, graph)), size

    def _sizes(self, part: PartReader, by_graph: bool) -> Iterator[tuple[int, int]]:
        """The numbers of quads of a part, by graph if `by_graph` is set."""
        if part.is_single or not by_graph:
            size = size_of(part, self._scope)
            if size:
                yield part.graph or 0, size
            return
        graphs, sizes = np.unique(columns_of(part, self._scope)[-1], return_counts=True)
        yield from zip(graphs.tolist(), sizes.tolist(), strict=True)

    def counts_of(self, subject: int) -> Iterator[tuple[int, int]]:
        """The predicates of a subject, each with its number of objects."""
        scope = self._scope
        if not self._reader.has_orders:
            for part in self._parts():
                if part.is_single:
                    is_covered = part.graph is not None and scope.covers(part.graph)
                    if is_covered and (count := part.forward.count_before(subject)):
                        yield part.predicate, count
                else:
                    known = {SUBJECT: subject, PREDICATE: part.predicate}
                    if count := sum(1 for _ in quads_with(self._reader, scope, known)):
                        yield part.predicate, count
            return
        counts: dict[int, int] = {}
        for _, predicate, _, _ in self._quads(subject, False):
            counts[predicate] = counts.get(predicate, 0) + 1
        yield from counts.items()


class OneGraphPairs(MergedPairs):
    """Subject → objects of one predicate in one of several graphs; or object → subjects."""

    __slots__ = ()

    def before(self, key: int) -> Iterable[int] | None:
        return self._values(key, after=False)

    def after(self, key: int) -> Iterable[int] | None:
        return self._values(key, after=True)

    def _values(self, key: int, *, after: bool) -> list[int] | None:
        position, other = (OBJECT, SUBJECT) if self._is_inverse else (SUBJECT, OBJECT)
        known = {position: key, PREDICATE: self.part.predicate}
        return [quad[other] for quad in quads_with(self._reader, self._scope, known, after)] or None

    def _columns(self, after: bool) -> Sequence[Column]:
        graph = own_graph(self._scope)
        assert graph is not None
        run = _of_small_graph(self._reader, graph, self.part.predicate, after)
        return super()._columns(after) if run is None else run.columns


def quads_with(reader: Reader, scope: Scope, known: Mapping[int, int], after: bool = False) -> Iterator[Quad]:
    """The quads of a scope that have known ids at some positions; in a merged graph, their graph is 0."""
    graph = known.get(GRAPH, own_graph(scope))
    if scope.graphs is not None and graph is not None and graph not in scope.graphs:
        return
    if SUBJECT not in known and OBJECT not in known:
        if graph is None:
            yield from _scanned(reader, scope, known.get(PREDICATE), after)
        elif scope.covers(graph):
            yield from _of_graph(reader, graph, known.get(PREDICATE), after)
        return
    quads = unmerged(reader, known, graph, after)
    if scope.kind != "merged":
        yield from (
            quads if graph is not None and scope.kind == "one" else (q for q in quads if scope.covers(q[3]))
        )
        return
    graphs, seen = scope.graphs, set[tuple[int, int, int]]()
    for subject, predicate, object_, name in quads:
        if (graphs is None or name in graphs) and (subject, predicate, object_) not in seen:
            seen.add((subject, predicate, object_))
            yield subject, predicate, object_, 0


def _of_graph(reader: Reader, graph: int, predicate: int | None, after: bool) -> Iterator[Quad]:
    """All quads of one graph, or those of one predicate."""
    if not _has_order_of_graphs(reader):
        yield from _scanned(reader, Scope("one", frozenset({graph})), predicate, after)
    elif predicate is None:
        for predicate, subject, object_ in reader.ordered("gpso", 1).prefixed((graph,), after):
            yield subject, predicate, object_, graph
    else:
        for subject, object_ in reader.ordered("gpso", 1).prefixed((graph, predicate), after):
            yield subject, predicate, object_, graph


def _of_small_graph(
    reader: Reader, graph: int, predicate: int | None = None, after: bool = False
) -> Run | None:
    """The rest of the rows of a graph, or of its rows with a predicate, from an order by graph.

    None unless they are a small part of the quads that would otherwise be searched for them.
    """
    if not _has_order_of_graphs(reader):
        return None
    relation, part = reader.ordered("gpso", 1), None if predicate is None else reader.part(predicate)
    prefix = (graph,) if predicate is None else (graph, predicate)
    low, high = (0, 0) if relation.run is None else relation.run.range(prefix)
    searched = relation if part is None else part.forward
    is_small = (high - low) * reader.tuning.graph_part <= searched.size_about()
    return relation.run_of(prefix, after) if is_small else None


def _has_order_of_graphs(reader: Reader) -> bool:
    """Whether the quads of one graph can be looked up, instead of scanning all quads."""
    return reader.is_mixed and (reader.has_orders or reader.has_many_graphs)


def _scanned(reader: Reader, scope: Scope, predicate: int | None, after: bool) -> Iterator[Quad]:
    """All quads of a scope, or those of one predicate."""
    if predicate is None:
        parts: Iterable[PartReader] = reader.parts()
    else:
        part = reader.part(predicate)
        parts = () if part is None else (part,)
    for part in parts:
        name = part.predicate
        if part.is_single:
            if part.graph is not None and scope.covers(part.graph):
                graph = 0 if scope.kind == "merged" else part.graph
                rows = part.forward.rows_after() if after else part.forward.rows_before()
                for subject, object_ in rows:
                    yield subject, name, object_, graph
            continue
        columns, graph = columns_of(part, scope, after), own_graph(scope) or 0
        for piece in growing(0, len(columns[0])):
            for subject, object_, *others in zip(
                *(column[piece].tolist() for column in columns), strict=True
            ):
                yield subject, name, object_, others[0] if others else graph


def unmerged(reader: Reader, known: Mapping[int, int], graph: int | None, after: bool) -> Iterator[Quad]:
    """The quads of all graphs, or of one, that have known ids at some positions."""
    predicate = known.get(PREDICATE)
    subject, object_ = known.get(SUBJECT), known.get(OBJECT)
    if predicate is not None:
        part = reader.part(predicate)
        if part is not None:
            yield from _in_part(reader, part, subject, object_, graph, after)
    elif not reader.has_orders:
        for part in reader.parts():
            yield from _in_part(reader, part, subject, object_, graph, after)
    else:
        quads = _in_orders(reader, subject, object_, after)
        yield from quads if graph is None else (quad for quad in quads if quad[3] == graph)


def _in_orders(reader: Reader, subject: int | None, object_: int | None, after: bool) -> Iterator[Quad]:
    """The quads with a subject, an object or both, of any predicate."""
    if subject is None:
        by_object = reader.ordered("osp", 1)
        for subject, predicate, graph in (by_object.after if after else by_object.before)(object_) or ():
            yield subject, predicate, object_, graph  # type: ignore[misc]
    elif object_ is None:
        by_subject = reader.ordered("spo", 1)
        for predicate, object_, graph in (by_subject.after if after else by_subject.before)(subject) or ():
            yield subject, predicate, object_, graph
    else:
        for predicate, graph in reader.ordered("osp", 1).prefixed((object_, subject), after):
            yield subject, predicate, object_, graph


def _in_part(
    reader: Reader, part: PartReader, subject: int | None, object_: int | None, graph: int | None, after: bool
) -> Iterator[Quad]:
    """The quads of one predicate, of all graphs or of one."""
    predicate = part.predicate
    if part.is_single:
        own = part.graph
        if own is not None and graph in (None, own):
            for start, end in _pairs(part, subject, object_, after):
                yield start, predicate, end, own
        return
    if graph is not None and _has_many(part, subject, object_, reader.tuning.filtered_rows):
        yield from _in_graph(reader, predicate, graph, subject, object_, after)
        return
    if subject is not None and object_ is not None:
        rows: Iterable[Row] = (
            (subject, object_, *row) for row in part.forward.prefixed((subject, object_), after)
        )
    elif subject is not None:
        values = part.forward.after(subject) if after else part.forward.before(subject)
        rows = ((subject, *value) for value in values or ())
    elif object_ is not None:
        backward = part.backward()
        values = backward.after(object_) if after else backward.before(object_)
        rows = ((start, object_, name) for start, name in values or ())
    else:
        rows = part.forward.rows_after() if after else part.forward.rows_before()
    for start, end, name in rows:
        if graph is None or name == graph:
            yield start, predicate, end, name


def _pairs(
    part: PartReader, subject: int | None, object_: int | None, after: bool
) -> Iterator[tuple[int, int]]:
    """The pairs of a predicate whose quads are all in one graph."""
    forward = part.forward
    if subject is not None and object_ is not None:
        if forward.has_after(subject, object_) if after else forward.has_before(subject, object_):
            yield subject, object_
    elif subject is not None:
        for value in (forward.after if after else forward.before)(subject) or ():
            yield subject, value
    elif object_ is not None:
        backward = part.backward()
        for value in (backward.after if after else backward.before)(object_) or ():
            yield value, object_
    else:
        yield from forward.rows_after() if after else forward.rows_before()  # type: ignore[misc]


def _has_many(part: PartReader, subject: int | None, object_: int | None, most: int) -> bool:
    """Whether searching the rows of a subject or object for one graph would be slow."""
    if subject is not None and object_ is not None:
        return False
    if subject is not None:
        return part.forward.count_before(subject) > most
    return object_ is None or part.backward().count_before(object_) > most


def _in_graph(
    reader: Reader, predicate: int, graph: int, subject: int | None, object_: int | None, after: bool
) -> Iterator[Quad]:
    """The quads of one predicate in one graph, in the orders that have the graph first."""
    if subject is None and object_ is not None:
        by_object = reader.ordered("gpos", 3)
        for found in (by_object.after if after else by_object.before)((graph, predicate, object_)) or ():
            yield found, predicate, object_, graph
    elif subject is not None:
        by_subject = reader.ordered("gpso", 3)
        for found in (by_subject.after if after else by_subject.before)((graph, predicate, subject)) or ():
            yield subject, predicate, found, graph
    else:
        for start, end in reader.ordered("gpso", 1).prefixed((graph, predicate), after):
            yield start, predicate, end, graph


def _arranged(positions: Sequence[int]) -> Callable[[Sequence[int]], Any]:
    return itemgetter(*positions) if positions else lambda quad: ()


def _row_of(positions: Sequence[int]) -> Callable[[Sequence[int]], Row]:
    if len(positions) == 1:
        return lambda quad: (quad[positions[0]],)
    return _arranged(positions)
