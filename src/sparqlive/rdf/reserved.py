"""Reserved names, which only sparqlive itself writes: the graphs of views, and links between documents.

Owns these names, and the errors for attempts to write them. Readers of `LINKS` can trust it: no document,
load or update can write there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyoxigraph import NamedNode

from sparqlive.errors import InvalidChange
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, Dictionary

VIEW_SCHEME = "view:"
"""`<view:name>` is the graph of a view; it is computed, never stored."""
LINKS = NamedNode("sparqlive:links")
"""The graph that records which documents describe which resources, for views that follow links."""
DESCRIBED_BY = NamedNode("sparqlive:describedBy")
"""The predicate of its triples, from a resource to the document that was fetched for it."""
PREFIXES = ("<view:", "<sparqlive:")
"""The prefixes of reserved names in N-Triples syntax."""
_REMEMBERED = 100_000


class Gate:
    """Checks every inserted quad, by its ids; remembers the names that it has checked."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._graphs = {DEFAULT_GRAPH}
        self._predicates: set[int] = set()

    def check(self, wanted: Mapping[tuple[int, int, int, int], int]) -> None:
        """Rejects inserts under a reserved name; deletes may use any name."""
        graphs, predicates = self._graphs, self._predicates
        for (_, predicate, _, graph), weight in wanted.items():
            if weight > 0 and (predicate not in predicates or graph not in graphs):
                self.check_names((predicate,), (graph,))

    def forget(self) -> None:
        """Forgets the ids of allowed names, because they may stand for others from now on."""
        self._graphs, self._predicates = {DEFAULT_GRAPH}, set()

    def check_names(self, predicates: Iterable[int], graphs: Iterable[int]) -> None:
        """Rejects reserved predicates and graphs of inserted quads."""
        for numbers, known, refusal in (
            (graphs, self._graphs, graph_refusal),
            (predicates, self._predicates, predicate_refusal),
        ):
            for number in numbers:
                if number not in known:
                    refused = refusal(self._dictionary.text(number)[1:-1])
                    if refused is not None:
                        raise InvalidChange(refused)
                    if len(known) < _REMEMBERED:
                        known.add(number)


def graph_refusal(graph: str) -> str | None:
    """Why a graph or a source cannot have this name; None if it can."""
    if graph.startswith(VIEW_SCHEME):
        return (
            f"Cannot write into the graph <{graph}>: names that start with {VIEW_SCHEME} are reserved for "
            f"the graphs of views. Choose another name for the graph."
        )
    if graph == LINKS.value:
        return (
            f"Cannot write into the graph <{graph}>: it is reserved for sparqlive's records of which "
            f"documents describe which resources. Choose another name for the graph."
        )
    return None


def predicate_refusal(predicate: str) -> str | None:
    """Why quads with this predicate cannot be written; None if they can."""
    if predicate == DESCRIBED_BY.value:
        return (
            f"Cannot write quads with the predicate <{predicate}>: it is reserved for sparqlive's records of "
            f"which documents describe which resources. Choose another predicate."
        )
    return None
