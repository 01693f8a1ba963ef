"""The graph names and the nodes of a scope. Nothing is stored: their existence is looked up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from sparqlive.quads.lookup import quads_with
from sparqlive.quads.reader import Reader
from sparqlive.quads.scope import GRAPH, OBJECT, SUBJECT, Change, Quad, Scope
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.order import distinct
from sparqlive.zset.relation import Row

Kind: TypeAlias = Literal["nodes", "names"]
KINDS: tuple[Kind, ...] = ("nodes", "names")
Delta: TypeAlias = list[tuple[Row, int]]


class GraphNames:
    """The names of the graphs in a scope that have a quad."""

    __slots__ = ("__weakref__", "_found", "_reader", "_scope")

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self._reader = reader
        self._scope = scope
        self._found: dict[int, None] | None = None
        """The names found by visiting all predicates, if these are few."""

    def rows_before(self) -> Iterator[Row]:
        names = self._order().keys_before() if self._reader.has_orders else self._visited()
        return ((name,) for name in names if self._scope.covers(name))

    def rows_after(self) -> Iterator[Row]:
        return ((name,) for name in self._order().keys_after() if self._scope.covers(name))

    def has_before(self, name: int, value: Any) -> bool:
        if not self._scope.covers(name):
            return False
        if self._reader.has_orders:
            return self._order().count_before(name) > 0
        return name in self._visited()

    def has_after(self, name: int, value: Any) -> bool:
        return self._scope.covers(name) and self._order().count_after(name) > 0

    def delta(self, changes: Sequence[Change]) -> Delta:
        """The names that staged changes add to the scope or remove from it."""
        if type(changes) is ColumnRows:
            names = distinct(changes.columns[GRAPH]).tolist()
        else:
            names = list({change[GRAPH] for change in changes})
        before, after = self._order().count_before, self._order().count_after
        signs = (((name,), (after(name) > 0) - (before(name) > 0)) for name in names)
        return [(row, sign) for row, sign in signs if sign]

    def _order(self) -> KeyedRelation:
        return self._reader.ordered("gpso", 1)

    def _visited(self) -> dict[int, None]:
        if self._found is None:
            self._found = {}
            for part in self._reader.parts():
                if part.is_single:
                    graph = part.graph
                    names = [] if graph is None or not part.forward.size_before() else [graph]
                else:
                    run = part.forward.run_before()
                    names = [] if run is None else distinct(run.columns[2]).tolist()
                self._found.update(dict.fromkeys(names))
        return self._found


class Nodes:
    """The subjects and objects of a scope: node, or node and graph for named graphs."""

    __slots__ = ("__weakref__", "_reader", "_scope", "_with_graph")

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self._reader = reader
        self._scope = scope
        self._with_graph = scope.kind == "named"

    def rows_before(self) -> Iterator[Row]:
        return self._rows(after=False)

    def rows_after(self) -> Iterator[Row]:
        return self._rows(after=True)

    def before(self, node: int) -> Iterator[int]:
        """The graphs in which a node occurs."""
        return iter(dict.fromkeys(quad[GRAPH] for quad in self._mentioning(node)))

    def after(self, node: int) -> Iterator[int]:
        return iter(dict.fromkeys(quad[GRAPH] for quad in self._mentioning(node, after=True)))

    def has_before(self, node: int, value: Any) -> bool:
        return self._has(node, value, after=False)

    def has_after(self, node: int, value: Any) -> bool:
        return self._has(node, value, after=True)

    def delta(self, changes: Sequence[Change]) -> Delta:
        """The nodes that staged changes add to the scope or remove from it."""
        found: Delta = []
        touched: dict[Row, set[int]] = {}
        for change in changes:
            for row in self._rows_of(change):
                touched.setdefault(row, set()).add(change[4])
        for row, weights in touched.items():
            value = row[1] if self._with_graph else ()
            was_there = -1 in weights or self.has_before(row[0], value)
            sign = (1 in weights or self.has_after(row[0], value)) - was_there
            if sign:
                found.append((row, sign))
        return found

    def _rows_of(self, quad: Sequence[int]) -> Iterable[Row]:
        if self._with_graph:
            return (quad[SUBJECT], quad[GRAPH]), (quad[OBJECT], quad[GRAPH])
        return (quad[SUBJECT],), (quad[OBJECT],)

    def _rows(self, *, after: bool) -> Iterator[Row]:
        seen: set[Row] = set()
        for quad in quads_with(self._reader, self._scope, {}, after):
            for row in self._rows_of(quad):
                if row not in seen:
                    seen.add(row)
                    yield row

    def _has(self, node: int, value: Any, *, after: bool) -> bool:
        found = self._mentioning(node, after=after)
        return any(not self._with_graph or quad[GRAPH] == value for quad in found)

    def _mentioning(self, node: int, *, after: bool = False) -> Iterator[Quad]:
        yield from quads_with(self._reader, self._scope, {SUBJECT: node}, after)
        yield from quads_with(self._reader, self._scope, {OBJECT: node}, after)
