"""Quads as ids, and scopes: the sets of quads that a pattern can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.sparql.algebra import Term
from sparqlive.zset.columns import Mask
from sparqlive.zset.run import Column

Quad: TypeAlias = tuple[int, int, int, int]
Change: TypeAlias = tuple[int, int, int, int, int]

SUBJECT, PREDICATE, OBJECT, GRAPH = range(4)


class Scope(NamedTuple):  # a tuple, because it is a key of several dicts at every change: its hash is fast
    """The quads of one graph, of several graphs merged into a set, or of each named graph.

    `graphs` None means all graphs: "merged" includes the unnamed one, "named" does not.
    """

    kind: Literal["one", "merged", "named"]
    graphs: frozenset[int] | None

    def covers(self, graph: int) -> bool:
        if self.graphs is not None:
            return graph in self.graphs
        return self.kind == "merged" or graph != DEFAULT_GRAPH

    def covered(self, graphs: Column) -> Mask:
        """Like `covers`, for a column of graphs."""
        if self.graphs is not None:
            return np.isin(graphs, list(self.graphs))
        return np.full(len(graphs), True) if self.kind == "merged" else graphs != DEFAULT_GRAPH


def scope_in(graph: op.GraphChoice, id_of: Callable[[Term], int]) -> Scope:
    """The quads that a leaf ranges over."""
    match graph:
        case op.OneGraph(name):
            return Scope("one", frozenset({DEFAULT_GRAPH if name is None else id_of(name)}))
        case op.MergedGraphs(names):
            return Scope("merged", None if names is None else frozenset(map(id_of, names)))
        case op.NamedGraphs(_, names):
            return Scope("named", None if names is None else frozenset(map(id_of, names)))


EVERY_GRAPH = (Scope("one", frozenset({DEFAULT_GRAPH})), Scope("named", None))
"""The unnamed graph, and each named one."""
