"""Reads the W3C tests of protocols: requests that are sent one after the other, and what must come back.

A test's steps are in its manifest (`ht:requests`). `send` puts the agent's path in place of the suite's, and
checks status, format, answer, graph and Location as the manifest's comments say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyoxigraph as ox

from tests.w3c import BASE, MF, RDFS, UT, Graph, Term, isomorphic

HT = "http://www.w3.org/2011/http#"
CNT = "http://www.w3.org/2011/content#"
STATUS = {
    "OK": {200},
    "Created": {201},
    "NoContent": {204},
    "NotFound": {404},
    "StatusCode2xx": set(range(200, 300)),
    "StatusCode3xx": set(range(300, 400)),
    "StatusCode4xx": set(range(400, 500)),
}
FORMATS = {
    "boolean": {"application/sparql-results+json", "application/sparql-results+xml"},
    "tabular": {
        "application/sparql-results+json",
        "application/sparql-results+xml",
        "text/csv",
        "text/tab-separated-values",
    },
    "RDF": {"text/turtle", "application/rdf+xml", "application/n-triples", "application/ld+json"},
}


@dataclass(frozen=True)
class Step:
    """One request, and what is expected of its answer."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    statuses: frozenset[int]
    expected_format: str | None
    expected_boolean: bool | None
    expected_headers: dict[str, str]
    expected_body: str | None
    expected_location: str | None


@dataclass(frozen=True)
class RequestTest:
    name: str
    graphs: tuple[tuple[str, Path], ...]
    steps: tuple[Step, ...]


def read_request_tests(manifest: Path) -> list[RequestTest]:
    """All tests that a manifest describes, those too that its list of entries leaves out."""
    graph = Graph(manifest, BASE)
    names = dict.fromkeys(
        triple.subject for triple in graph.triples if triple.predicate.value == MF + "action"
    )
    return [_test(graph, name, manifest.parent) for name in names]


def _test(graph: Graph, test: Term, folder: Path) -> RequestTest:
    graphs = tuple(
        (_text(graph, data, RDFS + "label"), folder / _text(graph, data, UT + "graph").removeprefix(BASE))
        for data in graph.all(test, UT + "graphData")
    )
    action = graph.one(test, MF + "action")
    requests = graph.list(graph.one(action, HT + "requests"))
    return RequestTest(
        test.value.partition("#")[2], graphs, tuple(_step(graph, request) for request in requests)
    )


def _step(graph: Graph, request: Term) -> Step:
    response = graph.one(request, HT + "resp")
    content = graph.one(request, HT + "body")
    body = None
    if content is not None:
        body = _text(graph, content, CNT + "chars").encode(_text(graph, content, CNT + "characterEncoding"))
    expected = graph.one(response, HT + "body")
    boolean = graph.one(response, MF + "expectedBoolean")
    format_ = graph.one(response, MF + "expectedFormat")
    location = graph.one(response, MF + "expectedLocation")
    statuses = [status.value.partition("#")[2] for status in graph.all(response, MF + "expectedStatus")]
    return Step(
        _text(graph, request, HT + "methodName"),
        _text(graph, request, HT + "absolutePath"),
        dict(_headers(graph, request)),
        body,
        frozenset().union(*(STATUS[status] for status in statuses)),
        None if format_ is None else format_.value,
        None if boolean is None else boolean.value == "true",
        dict(_headers(graph, response)),
        None if expected is None else _text(graph, expected, CNT + "chars"),
        None if location is None else location.value,
    )


def _headers(graph: Graph, message: Term) -> Iterator[tuple[str, str]]:
    for header in graph.list(graph.one(message, HT + "headers")):
        yield _text(graph, header, HT + "fieldName"), _text(graph, header, HT + "fieldValue")


def _text(graph: Graph, subject: Term, predicate: str) -> str:
    found = graph.one(subject, predicate)
    assert found is not None, predicate
    return found.value


def send(client: httpx.Client, test: RequestTest, theirs: str, ours: str) -> None:
    """Sends the steps of a test; their path becomes ours."""
    known: dict[str, str] = {}
    for number, step in enumerate(test.steps, 1):
        path, body = step.path.replace(theirs, ours, 1), step.body
        for name, value in known.items():
            path = path.replace(name, value)
            body = body.replace(name.encode(), value.encode()) if body is not None else None
        answer = client.request(step.method, path, headers=step.headers, content=body)
        where = f"{test.name}, request {number}: {step.method} {path}: {answer.status_code} {answer.text}"
        assert answer.status_code in step.statuses, where
        _check_answer(step, answer, where)
        if step.expected_location is not None:
            known[step.expected_location] = answer.headers["location"]


def _check_answer(step: Step, answer: httpx.Response, where: str) -> None:
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    if step.expected_format is not None:
        assert media_type in FORMATS[step.expected_format], where
    if step.expected_boolean is not None:
        assert answer.json()["boolean"] is step.expected_boolean, where
    if step.expected_headers:
        for name, value in step.expected_headers.items():
            assert answer.headers[name].replace(" ", "") == value.replace(" ", ""), where
    if step.expected_body is not None:
        given = list(ox.parse(answer.content, format=ox.RdfFormat.TURTLE, base_iri=BASE))
        wanted = list(ox.parse(step.expected_body.encode(), format=ox.RdfFormat.TURTLE, base_iri=BASE))
        assert isomorphic(weights(given), weights(wanted)), where


def weights(quads: list[ox.Quad]) -> dict[tuple[Term, ...], int]:
    return {(quad.subject, quad.predicate, quad.object): 1 for quad in quads}
