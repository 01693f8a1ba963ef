"""The distinct nodes, or names of graphs, of a scope, for plans that read them.

Owns the number of quads that mention each; its sign changes are the delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from sparqlive.quads.scope import GRAPH, OBJECT, SUBJECT, Change, Quad, Scope
from sparqlive.zset.relation import KeyedRelation, Row
from sparqlive.zset.run import Run

Kind: TypeAlias = Literal["nodes", "names"]


class Counted:
    """The distinct nodes, or graph names, of a scope, with the number of quads that mention each."""

    def __init__(self, kind: Kind, scope: Scope) -> None:
        self._nodes = kind == "nodes"
        self._with_graph = scope.kind == "named"
        arity = 1 + (self._nodes and self._with_graph)
        self.relation = KeyedRelation(arity, 1)
        self._counts: dict[Row, int] = {}
        self._changes: dict[Row, int] = {}
        self.delta: list[tuple[Row, int]] = []

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
        if counts:
            columns = zip(*counts, strict=True)
            self.relation.fill(Run.sort([np.fromiter(column, np.int64, len(counts)) for column in columns]))

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
