"""Lets views read endpoints that are sources: SERVICE becomes GRAPH, in the text of the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sparqlive.engine.limits import QUERY_CHARACTERS
from sparqlive.errors import Unsupported
from sparqlive.plan.services import services_in
from sparqlive.sources.manager import Source
from sparqlive.sparql import algebra as al
from sparqlive.sparql.syntax import parse_query, plain_text


def with_source_graphs(text: str, base: str | None, sources: Iterable[Source]) -> str:
    """Returns the query with the graph of a source for each SERVICE that the source reads.

    What has no source stays, and is rejected when the query is planned.
    """
    endpoints = [source for source in sources if source.kind == "endpoint"]
    if not endpoints or len(text) > QUERY_CHARACTERS or "service" not in text.lower():
        return text
    while True:  # once more for each level of nesting
        replaced = _with_graphs(plain_text(text), parse_query(text, base), endpoints)
        if replaced is None:
            return text
        text = replaced


def _with_graphs(text: str, query: al.Query, endpoints: Iterable[Source]) -> str | None:
    """Replaces each SERVICE that has a source, except inside another one; None if nothing was replaced."""
    parts, end = [], 0
    by_place = {service.text.start: service for service in services_in(query) if service.text is not None}
    for _, service in sorted(by_place.items()):
        address = "" if isinstance(service.name, al.Var) else service.name.value.partition("#")[0]
        found = [source for source in endpoints if source.address.partition("#")[0] == address]
        if found:
            _check(service, query, found)
            assert service.text is not None
            parts += [text[end : service.text.start], f"GRAPH {found[0].graph}"]
            end = service.text.end
    return "".join([*parts, text[end:]]) if parts else None


def _check(service: al.Service, query: al.Query, found: list[Source]) -> None:
    graphs = [str(source.graph) for source in found]
    if len(found) > 1:
        raise Unsupported(
            f"SERVICE {service.name} is read by {len(found)} sources. Write GRAPH with the graph of one of "
            f"them instead: {', '.join(graphs)}."
        )
    if query.dataset is not None:
        raise Unsupported(
            f"SERVICE {service.name} is the graph {graphs[0]} of a source, and the query names its graphs "
            f"with FROM. Add FROM NAMED {graphs[0]}, and write GRAPH {graphs[0]} instead of SERVICE."
        )
    if any(_graphs_in(service.pattern)):
        raise Unsupported(
            f"GRAPH inside SERVICE {service.name} is not supported in a view: the source of the endpoint has "
            f"one graph, {graphs[0]}."
        )


def _graphs_in(item: Any) -> Iterator[al.Graph]:
    if isinstance(item, al.Graph):
        yield item
    for part in al.parts_of(item):
        yield from _graphs_in(part)
