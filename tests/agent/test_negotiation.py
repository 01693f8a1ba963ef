"""Which format an answer has: clients ask in many ways, and get something that they can read for each."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

import sparqlive

SELECT = "SELECT ?s ?o { ?s ?p ?o }"
ASK = "ASK { ?s ?p ?o }"
CONSTRUCT = "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"
JSON, XML = "application/sparql-results+json", "application/sparql-results+xml"
CSV, TSV = "text/csv", "text/tab-separated-values"
TURTLE, RDFXML, JSONLD = "text/turtle", "application/rdf+xml", "application/ld+json"


def type_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    assert "Accept" in answer.headers["vary"].split(", ")
    return answer.headers["content-type"].partition(";")[0]


@pytest.mark.parametrize(
    ("query", "accept", "expected"),
    [
        (SELECT, "text/csv", CSV),
        (SELECT, "*/*", JSON),
        (SELECT, "text/csv, */*", CSV),
        (SELECT, "text/*", CSV),
        (SELECT, "application/json", JSON),
        (SELECT, "application/xml;q=0.9, text/csv;q=0.8", XML),
        (SELECT, "TEXT/CSV ; Q=1.0", CSV),
        (SELECT, "text/csv;q=0, */*", JSON),
        (SELECT, "application/sparql-results+json;q=0, */*", XML),
        (SELECT, "application/sparql-results+json;q=0", JSON),
        (SELECT, 'text/csv;header="a,b;c";q=0.1, text/tab-separated-values;q=0.2', TSV),
        (SELECT, "text/csv;q=0.5,text/csv;q=0.1,text/tab-separated-values;q=0.3", CSV),
        (SELECT, "text/csv;q=many", CSV),
        (SELECT, "text/csv;q=nan, text/tab-separated-values;q=0.5", CSV),
        (SELECT, "text/csv;q=-1, text/tab-separated-values;q=0.5", TSV),
        (SELECT, "text/csv;q=99, text/tab-separated-values;q=1e999", CSV),
        (SELECT, "image/png", JSON),
        (SELECT, TURTLE, JSON),
        (SELECT, ',;,=,"', JSON),
        (SELECT, "/", JSON),
        (ASK, XML, XML),
        (ASK, CSV, JSON),
        (ASK, "text/csv, application/sparql-results+xml;q=0.1", XML),
        (CONSTRUCT, "*/*", TURTLE),
        (CONSTRUCT, JSON, TURTLE),
        (CONSTRUCT, "application/json", JSONLD),
        (CONSTRUCT, "text/xml", RDFXML),
        (CONSTRUCT, CSV, TURTLE),
        (CONSTRUCT, "text/n3", TURTLE),
        (CONSTRUCT, "application/rdf+xml;q=0.9, text/turtle;q=0.1", RDFXML),
        (CONSTRUCT, 'application/ld+json;profile="http://www.w3.org/ns/json-ld#compacted"', JSONLD),
        ("DESCRIBE <http://x/a>", "application/n-triples, */*;q=0.1", "application/n-triples"),
    ],
)
def test_accept(client: httpx.Client, query: str, accept: str, expected: str) -> None:
    given = client.get("/sparql", params={"query": query}, headers={"accept": accept})
    assert type_of(given) == expected


@pytest.mark.parametrize(
    ("query", "asked", "accept", "expected"),
    [
        (SELECT, "format=csv", "*/*", CSV),
        (SELECT, "format=CSV", XML, CSV),
        (SELECT, "output=tsv", XML, TSV),
        (SELECT, "results=xml", "*/*", XML),
        (SELECT, f"format={quote(XML)}", "*/*", XML),
        (SELECT, "format=application/sparql-results+xml", "*/*", XML),  # the plus is a space here
        (SELECT, "format=application/json", XML, JSON),
        (SELECT, "format=text/csv%3Bcharset%3Dutf-8", "*/*", CSV),
        (SELECT, "format=csv&format=csv", "*/*", CSV),
        (SELECT, "format=png&format=csv", "*/*", CSV),
        (SELECT, "format=png&output=png&results=png", XML, XML),
        (SELECT, "format=turtle", XML, XML),
        (SELECT, "format=turtle", "*/*", JSON),
        (SELECT, "format=", XML, XML),
        (SELECT, "format=json&output=xml", CSV, JSON),
        (SELECT, "format=tsv&format=text/tab-separated-values", "*/*", TSV),
        (ASK, "format=csv", "*/*", CSV),
        (CONSTRUCT, "format=json-ld&format=application/ld%2Bjson%2Capplication/x-json%2Bld", "*/*", JSONLD),
        (CONSTRUCT, "format=json&output=json&results=json", "*/*", JSONLD),
        (CONSTRUCT, "format=json", TURTLE, TURTLE),
        (CONSTRUCT, "format=xml", "*/*", RDFXML),
        (CONSTRUCT, "format=n3", "*/*", TURTLE),
        (CONSTRUCT, "format=ttl", RDFXML, TURTLE),
        (CONSTRUCT, "format=csv", RDFXML, RDFXML),
        (CONSTRUCT, "format=rdf%2Bxml", "*/*", RDFXML),
        (CONSTRUCT, "&&format=nt&", "*/*", "application/n-triples"),
    ],
)
def test_parameters(
    client: httpx.Client, session: sparqlive.Session, query: str, asked: str, accept: str, expected: str
) -> None:
    headers = {"accept": accept}
    address = f"/sparql?query={quote(query)}&{asked}"
    assert type_of(client.get(address, headers=headers)) == expected
    form = {**headers, "content-type": "application/x-www-form-urlencoded"}
    body = f"query={quote(query)}&{asked}"
    assert type_of(client.post("/sparql", content=body, headers=form)) == expected
    direct = {**headers, "content-type": "application/sparql-query"}
    assert type_of(client.post(f"/sparql?{asked}", content=query, headers=direct)) == expected
    session.view("v", query)
    assert type_of(client.get(f"/views/v?{asked}", headers=headers)) == expected


@pytest.mark.parametrize("asked", ["", "format=csv", "format=png", "format=json&output=json"])
def test_graphs_and_the_description_are_never_refused_for_their_format(
    client: httpx.Client, session: sparqlive.Session, asked: str
) -> None:
    session.apply(insert="<http://x/a> <http://x/p> <http://x/b> .")
    for path in ("/graphs?default&", "/sparql?"):
        for accept in ("image/png", JSON, "*/*"):
            expected = JSONLD if "json" in asked and accept == "*/*" else TURTLE
            assert type_of(client.get(path + asked, headers={"accept": accept})) == expected
