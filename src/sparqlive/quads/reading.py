"""Lookups in the quads of a scope, by any known positions, before an epoch or after it.

Each reads the order that has the known positions first, and leaves out what the scope does not cover. The
union of several graphs is a set: equal triples count once. Nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter, methodcaller
from typing import Any, NamedTuple, Protocol

import numpy as np

from sparqlive.quads.base import POSITIONS, Base, WholeOrder
from sparqlive.quads.scope import GRAPH, OBJECT, PREDICATE, SUBJECT, Quad, Scope
from sparqlive.zset.relation import KeyedRelation, Row
from sparqlive.zset.run import Column, Run

_MOST_FILTERED = 64
"""More rows of a subject or object than this are not searched for those of one graph."""
_FIRST_ROWS = 16
_MOST_ROWS = 1 << 16
_FIRST_COUNTED = 64
_LARGEST_COUNTED = 1 << 18
_SAMPLE = 10_000
_SMALL_PART = 8


class PairTable(NamedTuple):
    """Quads of one predicate as columns. `graph` is the one that all are in, or a column.

    `deleted`: those that are no more, as columns of subjects, objects and, with several graphs, graphs.
    """

    predicate: int
    graph: int | Column
    subjects: Column
    objects: Column
    deleted: Sequence[Column] | None = None


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
    """What lookups read: the current state, or a snapshot."""

    has_orders: bool
    """Whether lookups without a predicate read whole orders. Otherwise there are only a few predicates."""

    @property
    def is_mixed(self) -> bool:
        """Whether some predicate has quads in several graphs."""

    def part(self, predicate: int) -> PartReader | None:
        """The quads of a predicate, if there are any."""

    def parts(self) -> Iterator[PartReader]:
        """The quads of each predicate."""

    def ordered(self, order: WholeOrder, key_length: int) -> KeyedRelation:
        """All quads in an order, with the first positions as the key."""


def own_graph(scope: Scope) -> int | None:
    """The graph of a scope of one."""
    return next(iter(scope.graphs)) if scope.kind == "one" and scope.graphs is not None else None


def columns_of(part: PartReader, scope: Scope, after: bool = False) -> Sequence[Column]:
    """The quads of a part that a scope covers: subjects, objects and, for named graphs, graphs."""
    with_graph = scope.kind == "named"
    run = part.forward.run_after() if after else part.forward.run_before()
    nothing = np.empty(0, np.int64)
    if run is None:
        return [nothing] * (2 + with_graph)
    if part.is_single:
        assert part.graph is not None
        if not scope.covers(part.graph):
            return [nothing] * (2 + with_graph)
        return (
            [*run.columns, np.broadcast_to(np.int64(part.graph), run.length)] if with_graph else run.columns
        )
    subjects, objects, graphs = run.columns
    chosen = scope.covered(graphs)
    if not chosen.all():
        subjects, objects, graphs = subjects[chosen], objects[chosen], graphs[chosen]
    if with_graph:
        return [subjects, objects, graphs]
    if scope.kind == "merged" and len(subjects):
        fresh = np.ones(len(subjects), dtype=bool)
        fresh[1:] = (subjects[1:] != subjects[:-1]) | (objects[1:] != objects[:-1])
        if not fresh.all():
            return [subjects[fresh], objects[fresh]]
    return [subjects, objects]


def size_of(part: PartReader, scope: Scope, after: bool = False) -> int:
    """The number of quads of a part that a scope covers; of a merged graph, of its triples."""
    if part.is_single:
        if part.graph is None or not scope.covers(part.graph):
            return 0
        return part.forward.size_after() if after else part.forward.size_before()
    return len(columns_of(part, scope, after)[0])


def growing(length: int) -> Iterator[slice]:
    """Consecutive parts of a number of rows: the first is small, because its rows may be enough."""
    start, size = 0, _FIRST_ROWS
    while start < length:
        yield slice(start, start + size)
        start, size = start + size, min(4 * size, _MOST_ROWS)


def as_columns(rows: Iterable[Sequence[int]]) -> Iterator[Sequence[Column]]:
    """Rows as columns, some at a time."""
    remaining, size = iter(rows), _FIRST_ROWS
    while part := list(islice(remaining, size)):
        yield list(np.array(part, dtype=np.int64).T)
        size = min(4 * size, _MOST_ROWS)


def pieces_of(relation: KeyedRelation | MergedPairs) -> Iterator[Sequence[Column]]:
    """All rows before an epoch as columns, in growing pieces; those of changed keys come last."""
    if isinstance(relation, MergedPairs):
        yield from relation.pieces_before()
        return
    changed = [np.fromiter(relation.overlay, np.int64, len(relation.overlay))]
    if relation.late is not None:
        changed.append(relation.late.columns[0])
    keys = np.unique(np.concatenate(changed))
    if relation.run is not None:
        columns = relation.run.columns
        for part in growing(relation.run.length):
            piece = [column[part] for column in columns]
            if len(keys):
                places = np.minimum(np.searchsorted(keys, piece[0]), len(keys) - 1)
                is_same = keys[places] != piece[0]
                piece = [column[is_same] for column in piece]
            yield piece
    rows = ((key, value) for key in keys.tolist() for value in relation.before(key) or ())
    yield from as_columns((key, *value) if type(value) is tuple else (key, value) for key, value in rows)


def readers_by_identity(readers: Mapping[tuple[Any, ...], Any]) -> dict[int, Callable[[Any], Any]]:
    return {id(reader): methodcaller(*key) for key, reader in readers.items()}


def tables_of(reader: Reader, scope: Scope, predicate: int | None, after: bool) -> Iterator[PairTable]:
    """The quads of a scope as columns; a triple of merged graphs comes once for each graph it is in."""
    parts = reader.parts() if predicate is None else filter(None, [reader.part(predicate)])
    for part in parts:
        if part.is_single and (part.graph is None or not scope.covers(part.graph)):
            continue
        relation, run = part.forward, part.forward.run
        if run is None or not run.is_mapped:
            run = relation.run_after() if after else relation.run_before()
            if run is not None:
                yield from _table(part, scope, run.columns)
            continue
        columns, weights = relation.changes_after_run(after)
        yield from _table(part, scope, run.columns, [column[weights < 0] for column in columns])
        yield from _table(part, scope, [column[weights > 0] for column in columns])


def _table(
    part: PartReader, scope: Scope, columns: Sequence[Column], deleted: Sequence[Column] = ()
) -> Iterator[PairTable]:
    """Quads of a part as a table, unless the scope covers none of them."""
    subjects, objects, *graphs = columns
    gone = deleted if deleted and len(deleted[0]) else None
    if part.graph is not None and part.is_single:
        if len(subjects):
            yield PairTable(part.predicate, part.graph, subjects, objects, gone)
        return
    chosen = scope.covered(graphs[0])
    if not chosen.all():
        subjects, objects, graphs = subjects[chosen], objects[chosen], [graphs[0][chosen]]
    if len(subjects):
        yield PairTable(part.predicate, graphs[0], subjects, objects, gone)


def whole_order(base: Base, parts: Iterable[PartReader], order: WholeOrder, key_length: int) -> KeyedRelation:
    """All quads of a mapped base in an order, with the changes that parts have after it."""
    relation, positions = KeyedRelation(4, key_length, base.whole(order)), POSITIONS[order]
    for part in parts:
        changes = []
        for *quad, weight in _changes_of(part, base):
            row = [quad[position] for position in positions]
            changes.append((relation.key_of(row), relation.value_of(row), weight))
        relation.apply_all(changes)
    return relation


def _changes_of(part: PartReader, base: Base) -> Iterator[tuple[int, int, int, int, int]]:
    """The changes of a part after the base, as quads with a weight."""
    forward = part.forward
    if base.part("pso", part.predicate) is None:
        rows: Iterable[tuple[Row, int]] = ((row, 1) for row in forward.rows_before())
    else:
        columns, weights = forward.changes_after_run()
        rows = zip(zip(*(column.tolist() for column in columns), strict=True), weights.tolist(), strict=True)
    for row, weight in rows:
        graph = row[2] if len(row) == 3 else part.graph
        assert graph is not None, "a part that has rows has a graph"
        yield row[0], part.predicate, row[1], graph, weight


def sorted_run(parts: Iterable[PartReader], order: WholeOrder) -> Run:
    """The quads of all parts in an order, as one run."""
    found: list[list[Column]] = [[], [], [], []]
    for part in parts:
        run = part.forward.run_before()
        if run is not None:
            subjects, objects, *others = run.columns
            graphs = others[0] if others else np.full(len(subjects), part.graph)
            quad = subjects, np.full(len(subjects), part.predicate), objects, graphs
            for place, column in enumerate(quad):
                found[place].append(column)
    columns = [np.concatenate(pieces) if pieces else np.empty(0, np.int64) for pieces in found]
    return Run.sort([columns[i] for i in POSITIONS[order]])


class MergedPairs:
    """Subject → objects of one predicate in several graphs, as a set; or object → subjects."""

    __slots__ = ("__weakref__", "_is_inverse", "_known", "_scope", "part")

    def __init__(self, part: PartReader, scope: Scope, is_inverse: bool = False) -> None:
        self.part = part
        self._scope = scope
        self._is_inverse = is_inverse
        self._known: tuple[Any, Sequence[Column]] | None = None
        """The columns of a part with several graphs, with the run that they were found in."""

    @property
    def relation(self) -> KeyedRelation:
        return self.part.backward() if self._is_inverse else self.part.forward

    def _covers_all(self) -> bool:
        """Whether the rows have no graph, and count."""
        return self._scope.graphs is None or self.part.graph in self._scope.graphs

    def before(self, key: int) -> Iterable[int] | None:
        found = self.relation.before(key)
        if self.part.is_single:
            return found if found is None or self._covers_all() else None
        return None if found is None else self._merged(found)

    def after(self, key: int) -> Iterable[int] | None:
        found = self.relation.after(key)
        if self.part.is_single:
            return found if found is None or self._covers_all() else None
        return None if found is None else self._merged(found)

    def _merged(self, values: Iterable[tuple[int, int]]) -> dict[int, None] | None:
        graphs = self._scope.graphs
        if graphs is None:
            return dict.fromkeys([value for value, _ in values]) or None
        return dict.fromkeys([value for value, graph in values if graph in graphs]) or None

    def has_before(self, key: int, value: int) -> bool:
        return self._has(key, value, after=False)

    def has_after(self, key: int, value: int) -> bool:
        return self._has(key, value, after=True)

    def _has(self, key: int, value: int, *, after: bool) -> bool:
        relation, graphs = self.part.forward, self._scope.graphs
        subject, object_ = (value, key) if self._is_inverse else (key, value)
        if self.part.is_single:
            found = relation.has_after(subject, object_) if after else relation.has_before(subject, object_)
            return found and self._covers_all()
        rows = relation.prefixed((subject, object_), after)
        return any(graphs is None or graph in graphs for (graph,) in rows)

    def count_before(self, key: int) -> int:
        if self.part.is_single:
            return self.relation.count_before(key) if self._covers_all() else 0
        found = self.before(key)
        return 0 if found is None else len(found)  # type: ignore[arg-type]

    def count_after(self, key: int) -> int:
        if self.part.is_single:
            return self.relation.count_after(key) if self._covers_all() else 0
        found = self.after(key)
        return 0 if found is None else len(found)  # type: ignore[arg-type]

    def rows_before(self) -> Iterator[Row]:
        return self._rows(after=False)

    def rows_after(self) -> Iterator[Row]:
        return self._rows(after=True)

    def _rows(self, *, after: bool) -> Iterator[Row]:
        relation = self.part.forward
        if self.part.is_single:
            if not self._covers_all():
                return
            rows = relation.rows_after() if after else relation.rows_before()
        else:
            columns = self._columns(after)
            rows = chain.from_iterable(
                zip(*(column[part].tolist() for column in columns), strict=True)
                for part in growing(len(columns[0]))
            )
        if self._is_inverse:
            for subject, object_ in rows:
                yield object_, subject
        else:
            yield from rows

    def _columns(self, after: bool) -> Sequence[Column]:
        if after:
            return columns_of(self.part, self._scope, after)
        run = self.part.forward.run_before()
        if self._known is None or self._known[0] is not run:
            self._known = run, columns_of(self.part, self._scope)
        return self._known[1]

    def size_before(self) -> int:
        if self.part.is_single:
            return self.part.forward.size_before() if self._covers_all() else 0
        return len(self._columns(after=False)[0])

    def size_after(self) -> int:
        return size_of(self.part, self._scope, after=True)

    def size_about(self) -> int:
        return self.part.forward.size_about() if not self.part.is_single or self._covers_all() else 0

    @property
    def fan_out(self) -> float:
        return self.relation.fan_out

    def pieces_before(self) -> Iterator[Sequence[Column]]:
        """All rows as columns, in growing pieces."""
        if not self.part.is_single:
            columns = self._columns(after=False)
            pieces = ([column[part] for column in columns] for part in growing(len(columns[0])))
        else:
            pieces = pieces_of(self.part.forward) if self._covers_all() else iter(())  # type: ignore[assignment]
        return (piece[::-1] for piece in pieces) if self._is_inverse else pieces


class OneGraphPairs(MergedPairs):
    """Subject → objects of one predicate in one of several graphs; or object → subjects."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader, scope: Scope, part: PartReader, is_inverse: bool = False) -> None:
        super().__init__(part, scope, is_inverse)
        self._reader = reader

    def before(self, key: int) -> Iterable[int] | None:
        return self._values(key, after=False)

    def after(self, key: int) -> Iterable[int] | None:
        return self._values(key, after=True)

    def _values(self, key: int, *, after: bool) -> list[int] | None:
        position, other = (OBJECT, SUBJECT) if self._is_inverse else (SUBJECT, OBJECT)
        known = {position: key, PREDICATE: self.part.predicate}
        return [quad[other] for quad in quads_with(self._reader, self._scope, known, after)] or None


def counts_of(
    pairs: KeyedRelation | MergedPairs, place: int, counted: Callable[..., Any], tests: Any = ()
) -> Iterator[tuple[int, int]]:
    """The values of a column of pairs, with numbers of rows that add up to all; counted in growing pieces.

    `counted` keeps those that pass the tests.
    """
    if isinstance(pairs, MergedPairs):
        whole = [np.concatenate(columns) for columns in zip(*pairs.pieces_before(), strict=True)]
        column = whole[place] if whole else np.empty(0, np.int64)
    else:
        run = pairs.run_before()
        column = np.empty(0, np.int64) if run is None else run.columns[place]
    start, size = 0, _FIRST_COUNTED
    while start < len(column):
        yield from counted([np.unique(column[start : start + size], return_counts=True)], tests)
        start, size = start + size, min(4 * size, _LARGEST_COUNTED)


def values_per_object(pairs: KeyedRelation | MergedPairs) -> float:
    """The mean number of subjects per object, estimated without turning the pairs.

    Ids are hashes, so a range of them is a sample of the values.
    """
    run = pairs.part.forward.run if isinstance(pairs, MergedPairs) else pairs.run
    if run is None:
        return 1.0
    values, size = run.columns[1], run.length
    if size <= _SAMPLE:
        return size / len(np.unique(values))
    among = len(np.unique(values[:: size // _SAMPLE]))
    part = size // _SAMPLE + 1
    below = np.int64(-(1 << 63) + (1 << 64) // part)
    return size / max(among, part * len(np.unique(values[values < below])))


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
    found = _found(reader, known, graph, after)
    if scope.kind != "merged":
        yield from (
            found if graph is not None and scope.kind == "one" else (q for q in found if scope.covers(q[3]))
        )
        return
    graphs, seen = scope.graphs, set[tuple[int, int, int]]()
    for subject, predicate, object_, name in found:
        if (graphs is None or name in graphs) and (subject, predicate, object_) not in seen:
            seen.add((subject, predicate, object_))
            yield subject, predicate, object_, 0


def _of_graph(reader: Reader, graph: int, predicate: int | None, after: bool) -> Iterator[Quad]:
    """All quads of one graph, or those of one predicate."""
    if not (reader.has_orders and reader.is_mixed):
        yield from _scanned(reader, Scope("one", frozenset({graph})), predicate, after)
    elif predicate is None:
        for predicate, subject, object_ in reader.ordered("gpso", 3).prefixed((graph,), after):
            yield subject, predicate, object_, graph
    else:
        for subject, object_ in reader.ordered("gpso", 3).prefixed((graph, predicate), after):
            yield subject, predicate, object_, graph


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
        for piece in growing(len(columns[0])):
            for subject, object_, *others in zip(
                *(column[piece].tolist() for column in columns), strict=True
            ):
                yield subject, name, object_, others[0] if others else graph


def _found(reader: Reader, known: Mapping[int, int], graph: int | None, after: bool) -> Iterator[Quad]:
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
        found = _in_orders(reader, subject, object_, after)
        yield from found if graph is None else (quad for quad in found if quad[3] == graph)


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
    if graph is not None and _has_many(part, subject, object_):
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


def _has_many(part: PartReader, subject: int | None, object_: int | None) -> bool:
    """Whether searching the rows of a subject or object for those of one graph takes long."""
    if subject is not None and object_ is not None:
        return False
    if subject is not None:
        return part.forward.count_before(subject) > _MOST_FILTERED
    return object_ is None or part.backward().count_before(object_) > _MOST_FILTERED


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
        for start, end in reader.ordered("gpso", 3).prefixed((graph, predicate), after):
            yield start, predicate, end, graph


class Lookup:
    """The quads of a scope (of one predicate if given) as rows in an order of positions.

    The first positions are the key: an integer, or a tuple of several; so is a value, the others.
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

    def _is_of_small_graph(self) -> bool:
        """Whether the scope is a graph with a small part of the quads."""
        graph, reader = own_graph(self._scope), self._reader
        if graph is None or not (reader.has_orders and reader.is_mixed):
            return False
        run = reader.ordered("gpso", 3).run
        if run is None:
            return True
        low, high = run.range((graph,))
        return (high - low) * _SMALL_PART < run.length

    def _parts(self) -> Iterable[PartReader]:
        if self._predicate is None:
            return self._reader.parts()
        part = self._reader.part(self._predicate)
        return () if part is None else (part,)

    def size_before(self) -> int:
        if self._is_of_small_graph():
            return sum(1 for _ in self.rows_before())
        return sum(size_of(part, self._scope) for part in self._parts())

    def size_after(self) -> int:
        return sum(size_of(part, self._scope, after=True) for part in self._parts())

    def pieces_before(self) -> Iterator[Sequence[Column]]:
        """All rows as columns, in growing pieces from each predicate in turn: any may have what is sought."""
        if self._is_of_small_graph():
            yield from as_columns(self.rows_before())
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
            found: Iterator[Sequence[Column]] = (
                [column[piece] for column in columns] for piece in growing(len(columns[0]))
            )
        elif part.graph is not None and self._scope.covers(part.graph):
            found = pieces_of(part.forward)
        else:
            return
        for subjects, objects, *others in found:
            length = len(subjects)
            graphs = others[0] if others else np.full(length, 0 if graph is None else graph)
            quad = (subjects, np.full(length, part.predicate), objects, graphs)
            yield [quad[position] for position in self._order]

    def counts(self, positions: Sequence[int]) -> Iterator[tuple[Any, int]]:
        """The values of some of PREDICATE and GRAPH, each with a number of quads; without listing them."""
        arrange = _arranged(positions)
        for part in self._parts():
            for graph, size in self._sizes(part, GRAPH in positions):
                yield arrange((0, part.predicate, 0, graph)), size

    def _sizes(self, part: PartReader, by_graph: bool) -> Iterator[tuple[int, int]]:
        """The numbers of quads of a part, by graph if that is asked for."""
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


class GraphNames:
    """The names of the graphs of a scope that have a quad, found when they are read."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self._reader = reader
        self._scope = scope
        self._names: dict[int, None] | None = None

    def _found(self) -> dict[int, None]:
        if self._names is None:
            found: dict[int, None] = {}
            for part in self._reader.parts():
                if part.is_single:
                    graph = part.graph
                    names = [] if graph is None or not part.forward.size_before() else [graph]
                else:
                    run = part.forward.run_before()
                    names = [] if run is None else np.unique(run.columns[2]).tolist()
                found.update((name, None) for name in names if self._scope.covers(name))
            self._names = found
        return self._names

    def rows_before(self) -> Iterator[Row]:
        return ((name,) for name in self._found())

    def has_before(self, name: int, value: Any) -> bool:
        return name in self._found()


class Nodes:
    """The subjects and objects of a scope, found when they are read."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self._reader = reader
        self._scope = scope
        self._with_graph = scope.kind == "named"

    def rows_before(self) -> Iterator[Row]:
        seen: set[Row] = set()
        for subject, _, object_, graph in quads_with(self._reader, self._scope, {}):
            for node in (subject, object_):
                row = (node, graph) if self._with_graph else (node,)
                if row not in seen:
                    seen.add(row)
                    yield row

    def before(self, node: int) -> Iterator[int]:
        """The graphs in which a node occurs."""
        yield from dict.fromkeys(quad[GRAPH] for quad in self._mentioning(node))

    def has_before(self, node: int, value: Any) -> bool:
        found = self._mentioning(node)
        return any(not self._with_graph or quad[GRAPH] == value for quad in found)

    def _mentioning(self, node: int) -> Iterator[Quad]:
        yield from quads_with(self._reader, self._scope, {SUBJECT: node})
        yield from quads_with(self._reader, self._scope, {OBJECT: node})


def _arranged(positions: Sequence[int]) -> Callable[[Sequence[int]], Any]:
    return itemgetter(*positions) if positions else lambda quad: ()


def _row_of(positions: Sequence[int]) -> Callable[[Sequence[int]], Row]:
    if len(positions) == 1:
        return lambda quad: (quad[positions[0]],)
    return _arranged(positions)
