"""Quads as columns: parts within a scope, tables for bulk backends, whole orders, and growing pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np

from sparqlive.quads.base import POSITIONS, Base, WholeOrder
from sparqlive.quads.reader import PartReader, Reader
from sparqlive.quads.scope import Scope
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.run import Column, Run

_NO_COLUMN = np.empty(0, np.int64)


class PairTable(NamedTuple):
    """Quads of one predicate as columns. `graph` is the graph of all of them, or a column.

    `deleted`: deleted quads, as columns of subjects, objects and, with several graphs, graphs.
    """

    predicate: int
    graph: int | Column
    subjects: Column
    objects: Column
    deleted: Sequence[Column] | None = None


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


def as_columns(rows: Iterable[Sequence[int]]) -> Iterator[Sequence[Column]]:
    """Converts rows to columns, a bounded number at a time."""
    remaining, size = iter(rows), DEFAULT.first_piece_rows
    while part := list(islice(remaining, size)):
        yield list(np.array(part, dtype=np.int64).T)
        size = min(4 * size, DEFAULT.largest_piece_rows)


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
    """Yields the quads of a part as a table, unless the scope covers none of them."""
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
    """All quads of a mapped base in an order, with the later changes of the parts."""
    relation = KeyedRelation(4, key_length, base.whole(order))
    *columns, weights = _as_quads(((part, *_changes_of(part, base)) for part in parts), order)
    if len(weights):
        relation.stage_columns(columns, weights)
        relation.commit()
    return relation


def _changes_of(part: PartReader, base: Base) -> tuple[Sequence[Column], Column]:
    """The changes of a part after the base, and their weights."""
    forward = part.forward
    if not base.has(part.predicate):
        run = forward.run_before()
        columns: Sequence[Column] = [_NO_COLUMN] * forward.arity if run is None else run.columns
        return columns, np.ones(len(columns[0]), np.int64)
    return forward.changes_after_run()


def sorted_run(parts: Iterable[PartReader], order: WholeOrder) -> Run:
    """The quads of all parts in an order, as one run."""
    runs = ((part, part.forward.run_before()) for part in parts)
    columns_by_part = ((part, run.columns, _NO_COLUMN) for part, run in runs if run is not None)
    return Run.sort(_as_quads(columns_by_part, order)[:4])


def _as_quads(
    parts: Iterable[tuple[PartReader, Sequence[Column], Column]], order: WholeOrder
) -> list[Column]:
    """Converts columns of parts, with or without graphs, to columns of quads in an order, and weights."""
    nonempty = [(part, columns, weights) for part, columns, weights in parts if len(columns[0])]
    sizes = [len(columns[0]) for _, columns, _ in nonempty]
    graphs = np.repeat(np.array([part.graph or 0 for part, _, _ in nonempty], np.int64), sizes)
    ends = accumulate(sizes)
    for (_, columns, _), size, end in zip(nonempty, sizes, ends, strict=True):
        if len(columns) == 3:
            graphs[end - size : end] = columns[2]
    quad = [
        np.concatenate([columns[0] for _, columns, _ in nonempty] or [_NO_COLUMN]),
        np.repeat(np.array([part.predicate for part, _, _ in nonempty], np.int64), sizes),
        np.concatenate([columns[1] for _, columns, _ in nonempty] or [_NO_COLUMN]),
        graphs,
    ]
    weights = np.concatenate([weights for _, _, weights in nonempty] or [_NO_COLUMN])
    return [*(quad[i] for i in POSITIONS[order]), weights]
