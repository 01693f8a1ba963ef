"""Asks SPARQL endpoints: a query by POST, and the solutions of a SELECT in any of the W3C formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias
from urllib.parse import urlencode

from pyoxigraph import BlankNode, Literal, NamedNode, QueryBoolean, QueryResultsFormat, parse_query_results

from sparqlive.errors import Error
from sparqlive.web.apart import run_apart
from sparqlive.web.headers import type_and_parameters
from sparqlive.web.network import Network, Reach, Response

Term: TypeAlias = NamedNode | BlankNode | Literal
Solution: TypeAlias = tuple[Term | None, ...]

_RESULTS = "application/sparql-results+json, application/sparql-results+xml;q=0.9"
_FORMATS = {
    "application/sparql-results+json": QueryResultsFormat.JSON,
    "application/json": QueryResultsFormat.JSON,
    "application/sparql-results+xml": QueryResultsFormat.XML,
    "application/xml": QueryResultsFormat.XML,
    "text/xml": QueryResultsFormat.XML,
    "text/tab-separated-values": QueryResultsFormat.TSV,
}
_EXCERPT_LENGTH = 200


async def ask_endpoint(network: Network, address: str, query: str, accept: str) -> Response:
    """Sends a query to an endpoint (SPARQL 1.1 Protocol §2.1.2)."""
    headers = {"Accept": accept, "Content-Type": "application/x-www-form-urlencoded"}
    return await network.request("POST", address, headers, urlencode({"query": query}).encode())


def is_partial(response: Response) -> bool:
    """Whether an endpoint marks its result as incomplete: Virtuoso does, when the query timed out."""
    return "x-sql-state" in response.headers


def solutions_of(
    address: str, queries: Iterable[str], variables: Sequence[str], reach: Reach
) -> list[Solution]:
    """Sends SELECT queries to an endpoint, one after the other; returns all their solutions.

    They share one budget of bytes and of time. Blank nodes get new labels, the same within a response. The
    thread that calls this can be stopped while it waits.
    """

    async def ask() -> list[Solution]:
        found: list[Solution] = []
        async with Network(reach, address) as network:
            for query in queries:
                response = await ask_endpoint(network, address, query, _RESULTS)
                found += _read(response, variables)
        return found

    return run_apart(ask)


def _read(response: Response, variables: Sequence[str]) -> list[Solution]:
    if response.status != 200:
        said = " ".join(response.body[: 4 * _EXCERPT_LENGTH].decode("utf-8", "replace").split())
        raise Error(f"{response.url} returned status {response.status}: {said[:_EXCERPT_LENGTH]}")
    if is_partial(response):
        raise Error(f"{response.url} returned only a part of the result.")
    media_type, _ = type_and_parameters(response.headers.get("content-type", ""))
    if media_type not in _FORMATS:
        raise Error(f"{response.url} returned {media_type or 'no media type'} instead of SPARQL results.")
    rows = _parsed(response.body, _FORMATS[media_type], variables)
    if isinstance(rows, str):
        raise Error(f"{response.url} returned results that cannot be read: {rows}.")
    return rows


def _parsed(body: bytes, syntax: QueryResultsFormat, variables: Sequence[str]) -> list[Solution] | str:
    """Returns solutions, or why there are none.

    Not as an exception: its traceback would take pyoxigraph's reader to another thread, where it cannot be.
    """
    try:
        results = parse_query_results(body, syntax)
        if isinstance(results, QueryBoolean):
            return "they are the answer of an ASK query"
        known = {variable.value for variable in results.variables}
        nodes: dict[str, BlankNode] = {}
        return [
            tuple(_term(solution[name], nodes) if name in known else None for name in variables)
            for solution in results
        ]
    except (ValueError, SyntaxError) as error:
        return str(error)


def _term(term: object, nodes: dict[str, BlankNode]) -> Term | None:
    match term:
        case BlankNode():
            return nodes.setdefault(term.value, BlankNode())
        case None | NamedNode() | Literal():
            return term
    raise ValueError("triple terms are not supported")
