"""Names that only sparqlive itself writes: the graphs of views, and where resources are described.

Owns these names, and the sentence by which others are refused them. Whoever reads `LINKS` can trust it: no
document, load or update has put anything there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyoxigraph import NamedNode

from sparqlive.errors import InvalidChange
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, Dictionary

VIEW_SCHEME = "view:"
"""`<view:name>` is the graph of a view; it is computed, never stored."""
LINKS = NamedNode("sparqlive:links")
"""The graph of which documents describe which resources, of views that follow links."""
DESCRIBED_BY = NamedNode("sparqlive:describedBy")
"""The predicate of its triples: a resource, and the document that was fetched for it."""
PREFIXES = ("<view:", "<sparqlive:")
"""What such names begin with, as N-Triples writes them."""
_REMEMBERED = 100_000


class Gate:
    """Every quad that comes in passes here, by its ids; names that were looked at are remembered."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._graphs = {DEFAULT_GRAPH}
        self._predicates: set[int] = set()

    def check(self, wanted: Mapping[tuple[int, int, int, int], int]) -> None:
        """Refuses quads that come in under a reserved name; those that leave may have any."""
        graphs, predicates = self._graphs, self._predicates
        for (_, predicate, _, graph), weight in wanted.items():
            if (graph not in graphs or predicate not in predicates) and weight > 0:
                self.check_names((predicate,), (graph,))

    def check_names(self, predicates: Iterable[int], graphs: Iterable[int]) -> None:
        """The same for all predicates and graphs of quads that come in."""
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
    """Why nobody may write into a graph, or name a source so; None if everybody may."""
    if graph.startswith(VIEW_SCHEME):
        return (
            f"Nothing can be written into the graph <{graph}>: graphs of that name are views', and their "
            f"content is computed. Choose another name for the graph."
        )
    if graph == LINKS.value:
        return (
            f"Nothing can be written into the graph <{graph}>: sparqlive alone writes there which documents "
            f"describe which resources. Choose another name for the graph."
        )
    return None


def predicate_refusal(predicate: str) -> str | None:
    """Why nobody may write quads of a predicate; None if everybody may."""
    if predicate == DESCRIBED_BY.value:
        return (
            f"No quad of the predicate <{predicate}> can be written: sparqlive alone says with it which "
            f"documents describe which resources, so that nobody can forge it."
        )
    return None
