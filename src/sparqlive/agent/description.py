"""The SPARQL 1.1 Service Description: RDF about the endpoint, for a request to /sparql without a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, serialize
from starlette.requests import Request
from starlette.responses import Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.negotiation import GRAPH_TYPES, choose_type

_SD = "http://www.w3.org/ns/sparql-service-description#"
_VOID = "http://rdfs.org/ns/void#"
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
# https://www.w3.org/ns/formats/
_FORMATS = (
    "SPARQL_Results_JSON",
    "SPARQL_Results_XML",
    "SPARQL_Results_CSV",
    "SPARQL_Results_TSV",
    "Turtle",
    "N-Triples",
    "RDF_XML",
    "JSON-LD",
    "N-Quads",
    "TriG",
)


async def describe(agent: Agent, request: Request, endpoint: str) -> Response:
    """Answers with the description of an endpoint and the graphs of the current epoch."""
    _, media_type = choose_type(request, GRAPH_TYPES)
    session = agent.session

    def read() -> tuple[int, bytes | None]:
        epoch, graphs = session.graphs_with_epoch()
        quads = description(endpoint, session.default_graph == "union", graphs)
        return epoch, serialize(quads, format=RdfFormat.from_media_type(media_type))

    epoch, content = await agent.run(read)
    headers = {"Sparqlive-Epoch": str(epoch), "Vary": "Accept"}
    return Response(content, 200, headers, media_type=media_type)


def description(endpoint: str, union: bool, graphs: Mapping[NamedNode | DefaultGraph, int]) -> Iterator[Quad]:
    service, dataset, default = BlankNode(), BlankNode(), BlankNode()
    yield Quad(service, _TYPE, _sd("Service"))
    yield Quad(service, _sd("endpoint"), NamedNode(endpoint))
    for language in ("SPARQL10Query", "SPARQL11Query", "SPARQL11Update"):
        yield Quad(service, _sd("supportedLanguage"), _sd(language))
    if union:
        yield Quad(service, _sd("feature"), _sd("UnionDefaultGraph"))
    for result_format in _FORMATS:
        yield Quad(service, _sd("resultFormat"), NamedNode(f"http://www.w3.org/ns/formats/{result_format}"))
    regime = NamedNode("http://www.w3.org/ns/entailment/Simple")
    yield Quad(service, _sd("defaultEntailmentRegime"), regime)
    yield Quad(service, _sd("defaultDataset"), dataset)
    yield Quad(dataset, _TYPE, _sd("Dataset"))
    yield Quad(dataset, _sd("defaultGraph"), default)
    yield Quad(default, _TYPE, _sd("Graph"))
    if not union:  # the number of distinct triples in the union is unknown
        yield Quad(default, NamedNode(_VOID + "triples"), Literal(graphs[DefaultGraph()]))
    for name, size in graphs.items():
        if isinstance(name, NamedNode):
            named, graph = BlankNode(), BlankNode()
            yield Quad(dataset, _sd("namedGraph"), named)
            yield Quad(named, _TYPE, _sd("NamedGraph"))
            yield Quad(named, _sd("name"), name)
            yield Quad(named, _sd("graph"), graph)
            yield Quad(graph, _TYPE, _sd("Graph"))
            yield Quad(graph, NamedNode(_VOID + "triples"), Literal(size))


def _sd(name: str) -> NamedNode:
    return NamedNode(_SD + name)
