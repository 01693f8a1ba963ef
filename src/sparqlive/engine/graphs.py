"""The graphs of one epoch: their sizes, and the triples of one of them.

Quads are read from a snapshot, which neither blocks writers nor waits for an epoch that is being carried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from weakref import finalize

import numpy as np
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from sparqlive.engine.writer import Writer
from sparqlive.quads.scope import EVERY_GRAPH, OBJECT, PREDICATE, SUBJECT, Scope
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF, Term
from sparqlive.runtime.deadline import paced
from sparqlive.sparql.graphs import write_graph
from sparqlive.zset.blocks import Block, cut

GraphName = NamedNode | DefaultGraph


def sizes_of_graphs(writer: Writer) -> tuple[int, dict[GraphName, int]]:
    """The current epoch, and its graphs with their sizes; the unnamed graph is always included."""
    with writer.capturing():
        writer.ensure_open()
        epoch, sizes = writer.epoch, {DEFAULT_GRAPH: 0, **writer.quads.graph_sizes()}
        term = writer.terms.captured().dictionary.term
    return epoch, {
        DefaultGraph() if number == DEFAULT_GRAPH else term(number): size  # type: ignore[misc]
        for number, size in sizes.items()
    }


def matching_quads(
    writer: Writer, graph: NamedNode | BlankNode | DefaultGraph | None, given: Mapping[int, Term | None]
) -> Iterator[Quad]:
    """Yields the quads of the current epoch that have the given graph, and terms at some positions."""
    with ExitStack() as files:
        with writer.capturing():
            writer.ensure_open()
            dictionary = writer.terms.captured().dictionary
            find = dictionary.find
            known = {position: find(term) for position, term in given.items() if term is not None}
            scopes = EVERY_GRAPH if graph is None else [Scope("one", frozenset({find(graph) or UNDEF}))]
            if None in known.values():  # no quad has a term that is unknown
                return
            snapshot = writer.quads.snapshot()
            files.enter_context(writer.pinned())
        found = (snapshot.matching(scope, known) for scope in scopes)  # type: ignore[arg-type]
        yield from dictionary.quads(chain.from_iterable(found))


class CapturedGraph:
    """The triples of one graph at the current epoch; later changes do not affect them."""

    def __init__(self, writer: Writer, name: GraphName) -> None:
        files = ExitStack()
        with writer.capturing():
            writer.ensure_open()
            self._dictionary = writer.terms.captured().dictionary
            self._scope = Scope("one", frozenset({self._dictionary.find(name) or UNDEF}))
            self.epoch = writer.epoch
            """The epoch that the triples belong to."""
            self._quads = writer.quads.snapshot()
            files.enter_context(writer.pinned())
        finalize(self, files.close)

    def __len__(self) -> int:
        """Number of triples."""
        return self._quads.size_of(self._scope)

    def blocks(self) -> Iterator[Block]:
        """Yields the triples as blocks of the ids of subject, predicate and object."""
        index = self._quads.index(self._scope, None, (SUBJECT, PREDICATE, OBJECT), 0)
        for columns in index.pieces_before():
            yield from cut(columns, np.ones(len(columns[0]), np.int64))

    def pieces(self, syntax: str) -> Iterator[str]:
        """Yields the graph as nt, nquads, turtle, trig, rdfxml or jsonld, in pieces of bounded size."""
        return write_graph(syntax, paced(self.blocks()), self._dictionary.texts)
