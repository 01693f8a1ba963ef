"""The names of graphs and the nodes of a scope, found when a query reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparqlive.quads.lookup import quads_with
from sparqlive.quads.reader import Reader
from sparqlive.quads.scope import GRAPH, OBJECT, SUBJECT, Quad, Scope
from sparqlive.zset.relation import Row


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
