"""Clients that people use: SPARQLWrapper, rdflib, httpx-sse, curl, and the headers of those in JavaScript."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from xml.dom.minidom import Document

import httpx
import httpx_sse
import pytest
import rdflib
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore
from SPARQLWrapper import (
    BASIC,
    CSV,
    GET,
    JSON,
    JSONLD,
    N3,
    POST,
    POSTDIRECTLY,
    RDF,
    RDFXML,
    TSV,
    TURTLE,
    URLENCODED,
    XML,
    SPARQLWrapper,
)

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving

DATA = '<http://x/a> <http://x/p> "1" .\n<http://x/b> <http://x/p> "2" .'
SELECT = "SELECT ?s ?o { ?s <http://x/p> ?o }"
ASK = "ASK { ?s <http://x/p> ?o }"
CONSTRUCT = "CONSTRUCT { ?s <http://x/q> ?o } { ?s <http://x/p> ?o }"
DESCRIBE = "DESCRIBE <http://x/a>"
INSERT = "INSERT DATA { <http://x/c> <http://x/p> 3 }"

# SPARQLWrapper warns of its own requests, and of formats that it did not ask for.
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")


@pytest.fixture
def endpoint(agent: Agent, session: sparqlive.Session) -> Iterator[str]:
    session.apply(insert=DATA)
    with serving(agent) as address:
        yield f"{address}/sparql"


@quiet
@pytest.mark.parametrize("query", [SELECT, ASK, CONSTRUCT, DESCRIBE])
@pytest.mark.parametrize(("method", "request_method"), [*product([GET, POST], [URLENCODED, POSTDIRECTLY])])
def test_sparqlwrapper_asks_in_every_way_for_every_format(
    endpoint: str, query: str, method: str, request_method: str
) -> None:
    for only_conneg, format_ in product(
        (False, True), (JSON, XML, CSV, TSV, TURTLE, N3, RDF, RDFXML, JSONLD)
    ):
        client = SPARQLWrapper(endpoint)
        client.setQuery(query)
        client.setMethod(method)
        client.setRequestMethod(request_method)
        client.setReturnFormat(format_)
        client.setOnlyConneg(only_conneg)
        answer = client.query()
        content = answer.convert()
        given = answer.info()["content-type"].partition(";")[0]
        assert understood(content), (format_, given)
        if not only_conneg:
            assert given == _expected(query, format_), format_


def understood(content: Any) -> bool:
    """What convert makes of an answer that it can read, with a term of the data in it."""
    match content:
        case dict():
            return "boolean" in content or len(content["results"]["bindings"]) == 2
        case Document():
            return "http://x/" in content.toxml() or "boolean" in content.toxml()
        case rdflib.Graph():
            return len(content) > 0
        case bytes():
            return b"http://x/" in content or content.strip().lower() in (b"true", b"?_askresult\ntrue")
    return False


def _expected(query: str, format_: str) -> str:
    if query in (SELECT, ASK):
        of_results = {
            XML: "application/sparql-results+xml",
            CSV: "text/csv",
            TSV: "text/tab-separated-values",
        }
        return of_results.get(format_, "application/sparql-results+json")
    of_graphs = {
        XML: "application/rdf+xml",
        RDF: "application/rdf+xml",
        RDFXML: "application/rdf+xml",
        JSON: "application/ld+json",
        JSONLD: "application/ld+json",
    }
    return of_graphs.get(format_, "text/turtle")


@quiet
@pytest.mark.parametrize("format_", [JSON, XML, CSV, TURTLE, JSONLD])
@pytest.mark.parametrize("request_method", [URLENCODED, POSTDIRECTLY])
def test_sparqlwrapper_updates(
    endpoint: str, session: sparqlive.Session, format_: str, request_method: str
) -> None:
    client = SPARQLWrapper(endpoint)
    client.setQuery(INSERT)
    client.setMethod(POST)
    client.setRequestMethod(request_method)
    client.setReturnFormat(format_)
    client.query()
    assert len(session) == 3


@pytest.mark.parametrize("form", ["json", "xml", "csv", "tsv", "application/rdf+xml"])
@pytest.mark.parametrize("method", ["GET", "POST", "POST_FORM"])
def test_rdflib_reads_results_and_graphs(endpoint: str, form: str, method: Any) -> None:
    store = SPARQLStore(endpoint, returnFormat=form, method=method)
    graph = rdflib.Graph(store)
    rows = {(str(row[0]), str(row[1])) for row in graph.query(SELECT)}
    assert rows == {("http://x/a", "1"), ("http://x/b", "2")}
    assert graph.query(ASK).askAnswer is True
    for query in (CONSTRUCT, DESCRIBE):
        made = graph.query(query).graph
        assert made is not None
        assert len(made) == (2 if query == CONSTRUCT else 1)
    assert len(graph) == 2
    assert (rdflib.URIRef("http://x/a"), rdflib.URIRef("http://x/p"), rdflib.Literal("1")) in graph


@pytest.mark.parametrize("form", ["json", "xml"])
def test_rdflib_writes(endpoint: str, session: sparqlive.Session, form: str) -> None:
    store = SPARQLUpdateStore(endpoint, endpoint, returnFormat=form)
    graph = rdflib.Graph(store, identifier=DATASET_DEFAULT_GRAPH_ID)
    added = (rdflib.URIRef("http://x/c"), rdflib.URIRef("http://x/p"), rdflib.Literal("ü\n3"))
    graph.add(added)
    assert added in graph
    store.update("DELETE WHERE { <http://x/a> ?p ?o }")
    graph.remove(added)
    assert len(session) == 1


@quiet
def test_a_token_is_a_password(session: sparqlive.Session, tmp_path: Path) -> None:
    session.apply(insert=DATA)
    _, secret = Tokens(tmp_path).create(["read"])
    with serving(Agent(session, Settings(), Access(tmp_path))) as address:
        client = SPARQLWrapper(f"{address}/sparql")
        client.setHTTPAuth(BASIC)
        client.setCredentials("whoever", secret)
        client.setQuery(SELECT)
        client.setReturnFormat(JSON)
        assert len(client.queryAndConvert()["results"]["bindings"]) == 2
        store = SPARQLStore(f"{address}/sparql", returnFormat="json", auth=("x", secret))
        assert len(list(rdflib.Graph(store).query(SELECT))) == 2


# Headers that these send, as of 2026


@pytest.mark.parametrize(
    ("headers", "of_select", "of_construct"),
    [
        # YASGUI
        (
            {"accept": "application/sparql-results+json,*/*;q=0.9"},
            "application/sparql-results+json",
            "text/turtle",
        ),
        ({"accept": "text/turtle,*/*;q=0.9"}, "application/sparql-results+json", "text/turtle"),
        # Comunica, fetch-sparql-endpoint
        (
            {"accept": "application/sparql-results+json;q=1.0,application/sparql-results+xml;q=0.7"},
            "application/sparql-results+json",
            "text/turtle",
        ),
        (
            {"accept": "application/n-quads,application/trig;q=0.95,text/turtle;q=0.9,*/*;q=0.1"},
            "application/sparql-results+json",
            "application/n-quads",
        ),
        # Jena
        (
            {
                "accept": "text/csv , text/tab-separated-values;q=0.9 , "
                "application/sparql-results+xml;q=0.7 , application/json;q=0.6 , */*;q=0.2"
            },
            "text/csv",
            "application/ld+json",
        ),
        # curl, requests, wget, java.net, fetch, and none
        ({"accept": "*/*"}, "application/sparql-results+json", "text/turtle"),
        (
            {"accept": "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"},
            "application/sparql-results+json",
            "text/turtle",
        ),
        ({"accept": ""}, "application/sparql-results+json", "text/turtle"),
        (
            {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
            "application/sparql-results+xml",
            "application/rdf+xml",
        ),
    ],
)
def test_headers_of_other_clients(
    endpoint: str, headers: dict[str, str], of_select: str, of_construct: str
) -> None:
    for query, expected in ((SELECT, of_select), (CONSTRUCT, of_construct)):
        for answer in (
            httpx.get(endpoint, params={"query": query}, headers=headers, timeout=120),
            httpx.post(endpoint, data={"query": query}, headers=headers, timeout=120),
        ):
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"].partition(";")[0] == expected


def test_curl(endpoint: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    command = ["curl", "-sS", "--fail", "--compressed", endpoint]
    asked = subprocess.run(
        [*command, "--data-urlencode", f"query={SELECT}"], capture_output=True, check=True, timeout=60
    )
    assert len(json.loads(asked.stdout)["results"]["bindings"]) == 2
    asked = subprocess.run(
        [*command, "-G", "--data-urlencode", f"query={SELECT}", "-d", "format=text/csv"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert asked.stdout.startswith(b"s,o\r\n")


# Server-sent events


def test_httpx_sse_reads_a_stream(endpoint: str, session: sparqlive.Session) -> None:
    session.view("v", SELECT)
    separators = "next\x85line\u2028separator\u2029paragraph"
    address = endpoint.replace("/sparql", "/views/v/changes")
    with httpx.Client(timeout=60) as client, httpx_sse.connect_sse(client, "GET", address) as source:
        events = source.iter_sse()
        first = next(events)
        assert (first.event, first.id, first.retry) == ("snapshot", "1", 1000)
        assert len(first.json()["weights"]) == 2
        session.apply(insert=f'<http://x/c> <http://x/p> "{separators}" .')
        second = next(events)
        assert (second.event, second.id) == ("delta", "2")
        [row] = second.json()["results"]["bindings"]
        assert row["o"]["value"] == separators


@pytest.mark.parametrize("format_", ["json", "patch"])
def test_every_block_of_a_stream_has_data(endpoint: str, session: sparqlive.Session, format_: str) -> None:
    session.view("g", CONSTRUCT)
    address = endpoint.replace("/sparql", f"/views/g/changes?format={format_}")
    with httpx.stream("GET", address, timeout=60) as response:
        pieces = response.iter_raw()
        text = next(pieces)
        session.apply(insert='<http://x/c> <http://x/p> "\u2028" .')
        while text.count(b"\n\n") < 2:
            text += next(pieces)
    for block in text.decode().split("\n\n")[:-1]:
        assert "\ndata: " in block
        assert len(block.splitlines()) == len(block.split("\n")), "no line ends but for those of the format"
