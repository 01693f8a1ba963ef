"""The SPARQL 1.1 Protocol at /sparql: queries and updates by GET, as a form, or as the body.

Owns the interpretation of requests, and which of them are malformed (§2.1, §2.2). The dataset of a request
overrides the dataset of its query; all graphs come from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal
from urllib.parse import quote

from pyoxigraph import NamedNode
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.answers import PLAIN, Result, hint_header
from sparqlive.agent.bodies import body_of, decode, short_type, type_of
from sparqlive.agent.description import describe
from sparqlive.agent.negotiation import (
    FORMAT,
    GRAPH_TYPES,
    PARAMETERS,
    RESULT_TYPES,
    TABLE_TYPES,
    WEIGHTS,
    result_format,
    written,
)
from sparqlive.agent.operations import Operation, Parameter
from sparqlive.agent.problems import Refused
from sparqlive.agent.url_encoded import pairs_of
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.updates import prepare_update
from sparqlive.numbers import parse_seconds
from sparqlive.sparql.algebra import Dataset
from sparqlive.web.headers import type_and_parameters

_FORM = "application/x-www-form-urlencoded"
_QUERY = "application/sparql-query"
_UPDATE = "application/sparql-update"
_GRAPHS = {
    "query": ("default-graph-uri", "named-graph-uri"),
    "update": ("using-graph-uri", "using-named-graph-uri"),
}


@dataclass(frozen=True)
class SparqlRequest:
    """The query or update of a request, with its parameters."""

    kind: Literal["query", "update"]
    text: str
    parameters: Sequence[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        return [value for parameter, value in self.parameters if parameter == name]

    def one(self, name: str) -> str | None:
        found = self.all(name)
        if len(found) > 1:
            raise Refused(400, f"The request has the parameter {name} {len(found)} times. Send it once.")
        return found[0] if found else None

    def dataset(self) -> Dataset | None:
        """The graphs that the request names, if it names any."""
        default, named = (self._iris(name) for name in _GRAPHS[self.kind])
        other = _GRAPHS["update" if self.kind == "query" else "query"]
        if any(self.all(name) for name in other):
            raise Refused(400, f"{' and '.join(other)} are not parameters of {_a(self.kind)}.")
        return Dataset(default, named) if default or named else None

    def _iris(self, name: str) -> tuple[NamedNode, ...]:
        return tuple(iri_of(name, value) for value in self.all(name))


def iri_of(name: str, value: str) -> NamedNode:
    """Parses the value of a parameter as an IRI."""
    try:
        return NamedNode(value)
    except ValueError as error:
        raise Refused(400, f"The parameter {name} is not an absolute IRI: {error}.") from None


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "update" else f"a {kind}"


async def get(agent: Agent, request: Request) -> Response:
    """Answers a query; without one, returns the service description."""
    parameters = pairs_of(request.scope["query_string"])
    names = {name for name, _ in parameters}
    if "update" in names:
        raise Refused(400, "GET cannot change data. Send the update by POST.")
    if "query" not in names:
        return await describe(agent, request, base_of(request))
    return await answer_query(agent, request, SparqlRequest("query", _only("query", parameters), parameters))


async def post(agent: Agent, request: Request) -> Response:
    media_type = type_of(request)
    _check_charset(request)
    url_parameters = pairs_of(request.scope["query_string"])
    if media_type in (_QUERY, _UPDATE):
        kind: Literal["query", "update"] = "query" if media_type == _QUERY else "update"
        if any(name in ("query", "update") for name, _ in url_parameters):
            raise Refused(400, f"The body is {_a(kind)}, and the URL has another query or update. Send one.")
        asked = SparqlRequest(kind, decode(await body_of(agent, request)), url_parameters)
    elif media_type == _FORM:
        body = await body_of(agent, request)
        parameters = [*url_parameters, *await agent.run(pairs_of, body, len(url_parameters))]
        kinds = {name for name, _ in parameters} & {"query", "update"}
        if len(kinds) > 1:
            raise Refused(400, "The request has both a query and an update. Send one.")
        kind = "update" if "update" in kinds else "query"
        asked = SparqlRequest(kind, _only(kind, parameters), parameters)
    else:
        shown = short_type(media_type)
        raise Refused(415, f"The body must be {_QUERY}, {_UPDATE} or {_FORM}, not {shown}.")
    if asked.kind == "query":
        agent.require(request, "read")
        return await answer_query(agent, request, asked)
    agent.require(request, "write")
    return await run_update(agent, request, asked)


def _seconds(agent: Agent, request: Request, asked: SparqlRequest) -> float:
    """The time limit of a request. The parameter `timeout` can only lower the limit of the caller."""
    allowed = agent.access.query_seconds(request, agent.settings.query_seconds)
    timeout = asked.one("timeout")
    return allowed if timeout is None else min(allowed, parse_seconds("timeout", timeout))


def _service_refusal(agent: Agent, request: Request) -> Refused | None:
    """The reason why this request may not ask other endpoints; None if it may."""
    if not agent.settings.service:
        return Refused(403, "This agent does not ask other endpoints, so SERVICE is not allowed.")
    try:
        agent.require(request, "service")
    except Refused as error:
        return error
    return None


async def answer_query(agent: Agent, request: Request, asked: SparqlRequest) -> Response:
    """Returns the result of a query: from a view with the same query, or evaluated once."""
    seconds = _seconds(agent, request, asked)
    dataset = asked.dataset()
    formats = [value for name in PARAMETERS for value in asked.all(name)]

    service_refusal = _service_refusal(agent, request)

    def evaluate() -> Result:
        answer = agent.session.query(
            asked.text,
            base=base_of(request),
            timeout_seconds=seconds,
            row_limit=agent.settings.query_rows,
            dataset=dataset,
            from_views=True,
            stream=True,
            allow_private=agent.settings.allow_private,
            service_refusal=service_refusal,
        )
        syntax, media_type = result_format(request, answer.form, formats)
        headers = {"Sparqlive-Epoch": str(answer.epoch), **hint_header(answer.hint)}
        if answer.view is not None:
            headers["Sparqlive-View"] = quote(answer.view, safe=PLAIN)
        return Result(written(answer, syntax, request), headers, media_type)

    return await agent.answer(request, evaluate, seconds, for_others=_may_contain("service", asked.text))


async def run_update(agent: Agent, request: Request, asked: SparqlRequest) -> Response:
    """Runs an update as one epoch. Its documents are fetched before it takes the thread of a writer."""
    prepare = partial(
        prepare_update,
        asked.text,
        base_of(request),
        asked.dataset(),
        agent.settings.allow_private,
        _seconds(agent, request, asked),
    )
    if _may_contain("load", asked.text):
        prepared = await agent.run_for_others(request, prepare)
        return epoch_response(await agent.run_writing(agent.session.carry_out, prepared))
    return epoch_response(await agent.run_writing(lambda: agent.session.carry_out(prepare())))


def _may_contain(keyword: str, text: str) -> bool:
    """Whether a text may contain a keyword, maybe with escaped letters (SPARQL 1.1 §19.2)."""
    lower = text.lower()
    return keyword in lower or "\\u" in lower


def epoch_response(epoch: Epoch, status: int = 200) -> Response:
    """The response that reports an epoch."""
    return JSONResponse(epoch_json(epoch), status, {"Sparqlive-Epoch": str(epoch.number)})


def epoch_json(epoch: Epoch) -> dict[str, int]:
    """What an epoch changed."""
    return {
        "epoch": epoch.number,
        "inserted": epoch.inserted,
        "deleted": epoch.deleted,
        "ignored": epoch.ignored,
    }


def base_of(request: Request) -> str:
    """The base IRI of a request: its URL without query and fragment."""
    return str(request.url.replace(query="", fragment=""))


def _only(name: str, parameters: Sequence[tuple[str, str]]) -> str:
    found = [value for parameter, value in parameters if parameter == name]
    if len(found) != 1:
        raise Refused(400, f"The request has {len(found) or 'no'} parameters named {name}. Send exactly one.")
    return found[0]


def _check_charset(request: Request) -> None:
    _, parameters = type_and_parameters(request.headers.get("content-type", ""))
    charset = parameters.get("charset", "utf-8")
    if charset.lower() not in ("utf-8", "utf8", "us-ascii"):
        raise Refused(400, f"The body must be UTF-8, not {charset[:40]}.")


_ABOUT_QUERY = (
    Parameter(
        "default-graph-uri", "Graph to include in the query's default graph; overrides FROM. Repeatable."
    ),
    Parameter("named-graph-uri", "Named graph of the query; overrides FROM NAMED. Repeatable."),
    Parameter("timeout", "Time limit in seconds, at most the agent's own limit.", "number"),
    FORMAT,
    WEIGHTS,
)
_RESULTS = tuple(
    name.partition(";")[0] for name in (*RESULT_TYPES.values(), *TABLE_TYPES.values(), *GRAPH_TYPES.values())
)

OPERATIONS = (
    Operation(
        "GET",
        "/sparql",
        get,
        "read",
        "Returns the result of a query; without a query, the service description.",
        (Parameter("query", "SPARQL query."), *_ABOUT_QUERY),
        gives={200: _RESULTS},
    ),
    Operation(
        "POST",
        "/sparql",
        post,
        "known",
        "Returns the result of a query (right: read), or runs an update as one epoch (right: write).",
        (
            *_ABOUT_QUERY,
            Parameter(
                "using-graph-uri", "Graph to include in the default graph of all WHERE clauses. Repeatable."
            ),
            Parameter("using-named-graph-uri", "Named graph of all WHERE clauses. Repeatable."),
        ),
        takes=(_QUERY, _UPDATE, _FORM),
        gives={200: ("application/json", *_RESULTS)},
    ),
)
