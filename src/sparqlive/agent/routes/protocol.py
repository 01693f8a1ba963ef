"""The SPARQL 1.1 Protocol at /sparql: queries and updates, by GET, by a form, or as a body of their own.

Owns what a request means, and which of them are malformed (§2.1, §2.2). The dataset of a request overrides
that of its query; all graphs are the store's. Invariant: an answer is written whole before the first byte of
it is sent, so that no client takes a part for all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from pyoxigraph import NamedNode
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.bodies import body_of, decoded, shown_type, type_of
from sparqlive.agent.description import describe
from sparqlive.agent.negotiation import FORMAT, GRAPH_TYPES, PARAMETERS, RESULT_TYPES, result_format
from sparqlive.agent.operations import Operation, Parameter, seconds_of
from sparqlive.agent.problems import Refused
from sparqlive.agent.url_encoded import pairs_of
from sparqlive.engine.view import Epoch
from sparqlive.sparql.algebra import Dataset
from sparqlive.sparql.deadline import within
from sparqlive.web.headers import type_and_parameters

_FORM = "application/x-www-form-urlencoded"
_QUERY = "application/sparql-query"
_UPDATE = "application/sparql-update"
# In a header, names of views are percent-encoded where they are not plain ASCII.
_PLAIN = " !\"#$&'()*+,:;<=>?@[\\]^`{|}"
_GRAPHS = {
    "query": ("default-graph-uri", "named-graph-uri"),
    "update": ("using-graph-uri", "using-named-graph-uri"),
}


@dataclass(frozen=True)
class Asked:
    """What a request asks for: a query or an update, with its parameters."""

    kind: Literal["query", "update"]
    text: str
    parameters: Sequence[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        return [value for given, value in self.parameters if given == name]

    def one(self, name: str) -> str | None:
        found = self.all(name)
        if len(found) > 1:
            raise Refused(400, f"The parameter {name} is given {len(found)} times, and means one thing.")
        return found[0] if found else None

    def dataset(self) -> Dataset | None:
        """The graphs that the request names, if it names any."""
        default, named = (self._iris(name) for name in _GRAPHS[self.kind])
        other = _GRAPHS["update" if self.kind == "query" else "query"]
        if any(self.all(name) for name in other):
            raise Refused(400, f"{' and '.join(other)} are no parameters of {_a(self.kind)}.")
        return Dataset(default, named) if default or named else None

    def _iris(self, name: str) -> tuple[NamedNode, ...]:
        return tuple(iri_of(name, value) for value in self.all(name))


def iri_of(name: str, value: str) -> NamedNode:
    """An IRI that a parameter gives."""
    try:
        return NamedNode(value)
    except ValueError as error:
        raise Refused(400, f"The parameter {name} is not an absolute IRI: {error}.") from None


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "update" else f"a {kind}"


async def get(agent: Agent, request: Request) -> Response:
    """A query; without one, what the service is."""
    parameters = pairs_of(request.scope["query_string"])
    names = {name for name, _ in parameters}
    if "update" in names:
        raise Refused(400, "An update is sent by POST: GET changes nothing.")
    if "query" not in names:
        return await describe(agent, request, base_of(request))
    return await answered(agent, request, Asked("query", _only("query", parameters), parameters))


async def post(agent: Agent, request: Request) -> Response:
    media_type = type_of(request)
    _check_charset(request)
    beside = pairs_of(request.scope["query_string"])
    if media_type in (_QUERY, _UPDATE):
        kind: Literal["query", "update"] = "query" if media_type == _QUERY else "update"
        if any(name in ("query", "update") for name, _ in beside):
            raise Refused(400, f"The body is {_a(kind)}, and the address has another one.")
        asked = Asked(kind, decoded(await body_of(agent, request)), beside)
    elif media_type == _FORM:
        parameters = [*beside, *await agent.run(pairs_of, await body_of(agent, request), len(beside))]
        kinds = {name for name, _ in parameters} & {"query", "update"}
        if len(kinds) > 1:
            raise Refused(400, "A request is a query or an update, not both.")
        kind = "update" if "update" in kinds else "query"
        asked = Asked(kind, _only(kind, parameters), parameters)
    else:
        shown = shown_type(media_type)
        raise Refused(415, f"The body must be {_QUERY}, {_UPDATE} or {_FORM}, not {shown}.")
    if asked.kind == "query":
        agent.require(request, "read")
        return await answered(agent, request, asked)
    agent.require(request, "write")
    return await carried_out(agent, request, asked)


def _seconds(agent: Agent, request: Request, asked: Asked) -> float:
    """How long it may take: whoever asks can only lower what they are allowed."""
    allowed = agent.access.query_seconds(request, agent.settings.query_seconds)
    given = asked.one("timeout")
    return allowed if given is None else min(allowed, seconds_of("timeout", given))


async def answered(agent: Agent, request: Request, asked: Asked) -> Response:
    """The result of a query: of the view that it is, or evaluated for this once."""
    seconds = _seconds(agent, request, asked)
    dataset = asked.dataset()
    formats = [value for name in PARAMETERS for value in asked.all(name)]

    def evaluate() -> tuple[str, dict[str, str], str]:
        began = time.monotonic()
        answer = agent.session.query(
            asked.text,
            base=base_of(request),
            timeout_seconds=seconds,
            row_limit=agent.settings.query_rows,
            dataset=dataset,
            from_views=True,
        )
        syntax, media_type = result_format(request, answer.form, formats)
        headers = {"Sparqlive-Epoch": str(answer.epoch), "Vary": "Accept"}
        if answer.view is not None:
            headers["Sparqlive-View"] = quote(answer.view, safe=_PLAIN)
        return within(seconds, lambda: answer.serialize(syntax), began=began), headers, media_type

    return await agent.answer(request, evaluate)


async def carried_out(agent: Agent, request: Request, asked: Asked) -> Response:
    """One epoch of an update, or no change."""
    epoch = await agent.run_writing(
        agent.session.update,
        asked.text,
        base=base_of(request),
        dataset=asked.dataset(),
        allow_private=agent.settings.allow_private,
        timeout_seconds=_seconds(agent, request, asked),
    )
    return changed(epoch)


def changed(epoch: Epoch, status: int = 200) -> Response:
    """What a request has changed."""
    body = {
        "epoch": epoch.number,
        "inserted": epoch.inserted,
        "deleted": epoch.deleted,
        "ignored": epoch.ignored,
    }
    return JSONResponse(body, status, {"Sparqlive-Epoch": str(epoch.number)})


def base_of(request: Request) -> str:
    """What relative IRIs are meant from: the address of the request."""
    return str(request.url.replace(query="", fragment=""))


def _only(name: str, parameters: Sequence[tuple[str, str]]) -> str:
    found = [value for given, value in parameters if given == name]
    if len(found) != 1:
        raise Refused(400, f"The request has {len(found) or 'no'} parameters {name}: give one.")
    return found[0]


def _check_charset(request: Request) -> None:
    _, parameters = type_and_parameters(request.headers.get("content-type", ""))
    charset = parameters.get("charset", "utf-8")
    if charset.lower() not in ("utf-8", "utf8", "us-ascii"):
        raise Refused(400, f"The body must be UTF-8, not {charset[:40]}.")


_ABOUT_QUERY = (
    Parameter(
        "default-graph-uri", "A graph of the query's default graph, in place of FROM; may be repeated."
    ),
    Parameter("named-graph-uri", "A named graph of the query, in place of FROM NAMED; may be repeated."),
    Parameter("timeout", "Seconds after which the query is stopped, if the agent allows as much.", "number"),
    FORMAT,
)
_RESULTS = tuple(name.partition(";")[0] for name in (*RESULT_TYPES.values(), *GRAPH_TYPES.values()))

OPERATIONS = (
    Operation(
        "GET",
        "/sparql",
        get,
        "read",
        "The result of a query; without one, the description of the service.",
        (Parameter("query", "The query."), *_ABOUT_QUERY),
        gives={200: _RESULTS},
    ),
    Operation(
        "POST",
        "/sparql",
        post,
        "known",
        "The result of a query, for the right to read; or one epoch of an update, for the right to write.",
        (
            *_ABOUT_QUERY,
            Parameter(
                "using-graph-uri", "A graph of the default graph of all WHERE clauses; may be repeated."
            ),
            Parameter("using-named-graph-uri", "A named graph of all WHERE clauses; may be repeated."),
        ),
        takes=(_QUERY, _UPDATE, _FORM),
        gives={200: ("application/json", *_RESULTS)},
    ),
)
