"""The pairs of one predicate in a union of graphs, as a set: a pair in several graphs counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from sparqlive.quads.columns import as_columns, columns_of
from sparqlive.quads.reader import PartReader, Reader
from sparqlive.quads.scope import Scope
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.order import distinct
from sparqlive.zset.relation import Row
from sparqlive.zset.run import Column, growing

_SAMPLE = 10_000


class MergedPairs:
    """Subject → objects of one predicate in several graphs, as a set; or object → subjects."""

    __slots__ = ("__weakref__", "_is_inverse", "_known", "_reader", "_scope", "part")

    def __init__(self, reader: Reader, part: PartReader, scope: Scope, is_inverse: bool = False) -> None:
        self._reader = reader
        self.part = part
        self._scope = scope
        self._is_inverse = is_inverse
        self._known: tuple[Any, Sequence[Column]] | None = None
        """The columns of a part with several graphs, and the run that they were computed from."""

    @property
    def relation(self) -> KeyedRelation:
        return self.part.backward() if self._is_inverse else self.part.forward

    def _covers_all(self) -> bool:
        """Whether the rows have no graph, and the scope covers them."""
        return self._scope.graphs is None or self.part.graph in self._scope.graphs

    def before(self, key: int) -> Iterable[int] | None:
        if self._has_others(key):
            return self._of_each_graph(key, after=False)
        values = self.relation.before(key)
        if self.part.is_single:
            return values if values is None or self._covers_all() else None
        return None if values is None else self._merged(values)

    def after(self, key: int) -> Iterable[int] | None:
        if self._has_others(key):
            return self._of_each_graph(key, after=True)
        values = self.relation.after(key)
        if self.part.is_single:
            return values if values is None or self._covers_all() else None
        return None if values is None else self._merged(values)

    def _has_others(self, key: int) -> bool:
        """Whether a key has so many rows that looking it up in each graph is faster."""
        graphs = self._scope.graphs
        if graphs is None or self.part.is_single:
            return False
        return self.relation.count_before(key) > self._reader.tuning.filtered_rows * len(graphs)

    def _of_each_graph(self, key: int, *, after: bool) -> dict[int, None] | None:
        relation = self._reader.ordered("gpos" if self._is_inverse else "gpso", 3)
        read, predicate = relation.after if after else relation.before, self.part.predicate
        values: dict[int, None] = {}
        for graph in self._scope.graphs or ():
            values.update(dict.fromkeys(read((graph, predicate, key)) or ()))
        return values or None

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
            exists = relation.has_after(subject, object_) if after else relation.has_before(subject, object_)
            return exists and self._covers_all()
        rows = relation.prefixed((subject, object_), after)
        return any(graphs is None or graph in graphs for (graph,) in rows)

    def count_before(self, key: int) -> int:
        if self.part.is_single:
            return self.relation.count_before(key) if self._covers_all() else 0
        values = self.before(key)
        return 0 if values is None else len(values)  # type: ignore[arg-type]

    def count_after(self, key: int) -> int:
        if self.part.is_single:
            return self.relation.count_after(key) if self._covers_all() else 0
        values = self.after(key)
        return 0 if values is None else len(values)  # type: ignore[arg-type]

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
                for part in growing(0, len(columns[0]))
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
        if self.part.is_single:
            return self.part.forward.size_after() if self._covers_all() else 0
        return len(self._columns(after=True)[0])

    def size_about(self) -> int:
        return self.part.forward.size_about() if not self.part.is_single or self._covers_all() else 0

    @property
    def fan_out(self) -> float:
        return self.relation.fan_out

    def pieces_before(self) -> Iterator[Sequence[Column]]:
        """All rows as columns, in growing pieces."""
        if not self.part.is_single:
            columns = self._columns(after=False)
            pieces = ([column[part] for column in columns] for part in growing(0, len(columns[0])))
        else:
            pieces = pieces_of(self.part.forward) if self._covers_all() else iter(())  # type: ignore[assignment]
        return (piece[::-1] for piece in pieces) if self._is_inverse else pieces


def pieces_of(relation: KeyedRelation | MergedPairs) -> Iterator[Sequence[Column]]:
    """All rows before an epoch as columns, in growing pieces; rows of changed keys come last."""
    if isinstance(relation, MergedPairs):
        yield from relation.pieces_before()
        return
    changed = [np.fromiter(relation.overlay, np.int64, len(relation.overlay))]
    if relation.late is not None:
        changed.append(relation.late.columns[0])
    keys = distinct(np.concatenate(changed))
    if relation.run is not None:
        columns = relation.run.columns
        for part in growing(0, relation.run.length):
            piece = [column[part] for column in columns]
            if len(keys):
                places = np.minimum(np.searchsorted(keys, piece[0]), len(keys) - 1)
                is_same = keys[places] != piece[0]
                piece = [column[is_same] for column in piece]
            yield piece
    rows = ((key, value) for key in keys.tolist() for value in relation.before(key) or ())
    yield from as_columns((key, *value) if type(value) is tuple else (key, value) for key, value in rows)


def counts_of(
    pairs: KeyedRelation | MergedPairs, place: int, counted: Callable[..., Any], tests: Any = ()
) -> Iterator[tuple[int, int]]:
    """Counts the rows of pairs by the values of a column, in growing pieces; a value may come several times.

    `counted` keeps the rows that pass the tests.
    """
    if isinstance(pairs, MergedPairs):
        whole = [np.concatenate(columns) for columns in zip(*pairs.pieces_before(), strict=True)]
        column = whole[place] if whole else np.empty(0, np.int64)
    else:
        run = pairs.run_before()
        column = np.empty(0, np.int64) if run is None else run.columns[place]
    for piece in growing(0, len(column)):
        yield from counted([np.unique(column[piece], return_counts=True)], tests)


def values_per_object(pairs: KeyedRelation | MergedPairs) -> float:
    """The mean number of subjects per object, estimated without inverting the pairs.

    Ids are hashes, so a range of them is a sample of the values.
    """
    run = pairs.part.forward.run if isinstance(pairs, MergedPairs) else pairs.run
    if run is None:
        return 1.0
    values, size = run.columns[1], run.length
    if size <= _SAMPLE:
        return size / len(distinct(values))
    among = len(distinct(values[:: size // _SAMPLE]))
    part = size // _SAMPLE + 1
    below = np.int64(-(1 << 63) + (1 << 64) // part)
    return size / max(among, part * len(distinct(values[values < below])))
