"""The SPARQL 1.1 Graph Store Protocol at /graphs: reads, replaces, extends and deletes graphs.

Owns which graph a request addresses: `?graph=IRI`, `?default`, or the URL itself below /graphs/. Documents
are parsed under the same limits as documents from the Web. A named graph exists while it has a quad; the
default graph of this protocol is the unnamed graph, which always exists. Invariant: a request is one epoch,
or changes nothing.
"""

from __future__ import annotations

from uuid import uuid4

from pyoxigraph import DefaultGraph, NamedNode, Quad
from starlette.requests import Request
from starlette.responses import Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.answers import Result
from sparqlive.agent.bodies import body_of, short_type, type_of
from sparqlive.agent.multipart import FORM, files_of
from sparqlive.agent.negotiation import FORMAT, GRAPH_TYPES, choose_type
from sparqlive.agent.operations import Operation, Parameter
from sparqlive.agent.problems import Refused
from sparqlive.agent.routes.protocol import epoch_response, iri_of
from sparqlive.engine.epoch import Epoch
from sparqlive.web.document import SYNTAXES, Room, read_body
from sparqlive.web.network import Response as Document

Graph = NamedNode | DefaultGraph

# The quads of one graph are triples, so syntaxes with graph names would add nothing.
_TYPES = {syntax: name for syntax, name in GRAPH_TYPES.items() if syntax not in ("nquads", "trig")}


async def get(agent: Agent, request: Request) -> Response:
    graph = _graph_of(request)
    syntax, media_type = choose_type(request, _TYPES)

    seconds = agent.access.query_seconds(request, agent.settings.query_seconds)

    def read() -> Result:
        captured = agent.session.graph(graph)
        _ensure_exists(graph, bool(captured))
        return Result(captured.pieces(syntax), {"Sparqlive-Epoch": str(captured.epoch)}, media_type)

    return await agent.answer(request, read, seconds, "Reading the graph")


async def put(agent: Agent, request: Request) -> Response:
    """Replaces a graph by the document."""
    graph = _graph_of(request)
    quads = await _document(agent, request, graph)

    def replace() -> tuple[bool, Epoch]:
        existed = _exists(agent, graph)
        return existed, agent.session.replace(graph, quads)

    return _change_response(request, graph, bool(quads), *await agent.run_writing(replace))


async def post(agent: Agent, request: Request) -> Response:
    """Adds the document to a graph; without the name of a graph, to a new one."""
    new = request.url.path == "/graphs" and not request.url.query
    graph = iri_of("address", f"{request.base_url}graphs/{uuid4()}") if new else _graph_of(request)
    quads = await _document(agent, request, graph)

    def add() -> tuple[bool, Epoch]:
        with agent.session.reading():
            return _exists(agent, graph), agent.session.apply(
                insert=[_in_graph(quad, graph) for quad in quads]
            )

    return _change_response(request, graph, bool(quads), *await agent.run_writing(add))


async def delete(agent: Agent, request: Request) -> Response:
    graph = _graph_of(request)

    def remove() -> Epoch:
        with agent.session.reading():
            _ensure_exists(graph, _exists(agent, graph))
            return agent.session.replace(graph, ())

    return epoch_response(await agent.run_writing(remove))


def _graph_of(request: Request) -> Graph:
    """The graph that a request addresses (§4)."""
    named, default = request.query_params.getlist("graph"), request.query_params.getlist("default")
    if request.url.path != "/graphs":
        if named or default:
            raise Refused(400, "The URL is that of a graph, and its parameters name another graph. Drop one.")
        path = request.scope["raw_path"].decode("latin-1").partition("?")[0]
        if not path.isascii():
            raise Refused(400, "The URL has characters that must be percent-encoded.")
        return iri_of("address", str(request.base_url).rstrip("/") + path)
    if len(named) + len(default) != 1:
        raise Refused(400, "The request does not name one graph. Use either ?default or one ?graph=IRI.")
    return iri_of("graph", named[0]) if named else DefaultGraph()


def _exists(agent: Agent, graph: Graph) -> bool:
    return graph in agent.session.graphs()


def _ensure_exists(graph: Graph, exists: bool) -> None:
    if not exists and isinstance(graph, NamedNode):
        raise Refused(404, f"There is no graph {graph}.")


async def _document(agent: Agent, request: Request, graph: Graph) -> list[Quad]:
    """Returns the triples of the body; relative IRIs are resolved against the graph's name."""
    url = graph.value if isinstance(graph, NamedNode) else str(request.url.replace(query=""))
    body = await body_of(agent, request)
    header = request.headers.get("content-type", "")
    if type_of(request) == FORM and request.method == "POST":
        parts = await agent.run(files_of, header, body)
    else:
        parts = [(header, body)]
    quads: list[Quad] = []
    room = Room.of(agent.settings.body_bytes)  # of all parts together
    for media_type, content in parts:
        document = Document(url, 200, {"content-type": _rdf_type(media_type)}, content)
        quads += await read_body(document, room)
    if any(not isinstance(quad.graph_name, DefaultGraph) for quad in quads):
        raise Refused(400, "The document has named graphs. Send triples only.")
    return quads


def _rdf_type(header: str) -> str:
    media_type = header.partition(";")[0].strip().lower()
    if media_type not in SYNTAXES:
        supported = ", ".join(SYNTAXES)
        raise Refused(415, f"The body must be one of {supported}, not {short_type(media_type)}.")
    return header


def _in_graph(quad: Quad, graph: Graph) -> Quad:
    return Quad(quad.subject, quad.predicate, quad.object, graph)


def _change_response(request: Request, graph: Graph, exists: bool, existed: bool, epoch: Epoch) -> Response:
    """The response to a change: 201 if it created a graph (§5.3, §5.5)."""
    if existed or not exists or isinstance(graph, DefaultGraph):
        return epoch_response(epoch)
    answer = epoch_response(epoch, 201)
    is_address = graph.value.startswith(f"{request.base_url}graphs/")
    answer.headers["Location"] = graph.value if is_address else str(request.url)
    return answer


_WHICH = (
    Parameter("graph", "IRI of the graph.", "iri"),
    Parameter("default", "Selects the unnamed graph; the value is ignored."),
)
_BELOW = (Parameter("path", "The whole URL is the IRI of the graph.", place="path", required=True),)
_GIVEN = tuple(name.partition(";")[0] for name in _TYPES.values())


def _operations(path: str, which: tuple[Parameter, ...]) -> tuple[Operation, ...]:
    done: dict[int, tuple[str, ...]] = {200: ("application/json",), 201: ("application/json",)}
    taken = tuple(SYNTAXES)
    return (
        Operation("GET", path, get, "read", "Returns a graph.", (*which, FORMAT), gives={200: _GIVEN}),
        Operation("PUT", path, put, "write", "Replaces a graph by a document.", which, taken, done),
        Operation(
            "POST",
            path,
            post,
            "write",
            "Adds a document to a graph, or to a new graph if none is named.",
            which,
            (*taken, FORM),
            done,
        ),
        Operation("DELETE", path, delete, "write", "Deletes a graph.", which),
    )


OPERATIONS = (*_operations("/graphs", _WHICH), *_operations("/graphs/{path:path}", _BELOW))
