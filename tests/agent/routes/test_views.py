"""Views over HTTP: registered, read in every format as of an epoch, explained and dropped."""

from __future__ import annotations

from urllib.parse import quote, unquote

import httpx
import pytest

import sparqlive
from sparqlive.agent.answers import hint_header
from tests.engine.test_view_names import BAD, GOOD

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
SPARQL = {"content-type": "application/sparql-query"}


def put(client: httpx.Client, name: str, query: str = QUERY, **options: str) -> httpx.Response:
    return client.put(f"/views/{name}", content=query, headers=SPARQL, params=options)


def test_a_view_is_registered_read_and_dropped(client: httpx.Client, session: sparqlive.Session) -> None:
    made = put(client, "v")
    assert made.status_code == 201
    assert made.headers["location"] == "/views/v"
    assert made.json()["variables"] == ["s", "o"]
    session.apply(insert="<http://x/a> <http://x/p> 1 .".replace("1", '"1"'))
    read = client.get("/views/v")
    assert read.headers["content-type"] == "application/sparql-results+json"
    assert [row["o"]["value"] for row in read.json()["results"]["bindings"]] == ["1"]
    assert [view["name"] for view in client.get("/views").json()["views"]] == ["v"]
    assert client.get("/views/v/statistics").json()["rows"] == 1
    assert "http://x/p" in client.get("/views/v/explain").text
    assert client.delete("/views/v").status_code == 204
    assert client.get("/views/v").status_code == 404


def test_the_same_query_again_changes_nothing_and_another_is_refused(client: httpx.Client) -> None:
    put(client, "v")
    assert put(client, "v").status_code == 200
    other = put(client, "v", "SELECT ?s { ?s ?p ?o }")
    assert other.status_code == 409
    assert "v" in other.json()["detail"]
    assert put(client, "v", "SELECT ?s { ?s ?p ?o }", replace="true").json()["variables"] == ["s"]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("text/csv", "text/csv"),
        ("application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/csv;q=0.5, text/tab-separated-values", "text/tab-separated-values"),
        ("application/json", "application/sparql-results+json"),
        ("text/*, */*;q=0.1", "text/csv"),
    ],
)
def test_the_format_is_negotiated(client: httpx.Client, accept: str, media_type: str) -> None:
    put(client, "v")
    given = client.get("/views/v", headers={"accept": accept})
    assert given.headers["content-type"].partition(";")[0] == media_type


def test_what_cannot_be_given_is_given_in_the_first_format(client: httpx.Client) -> None:
    put(client, "v")
    for given in (
        client.get("/views/v", headers={"accept": "image/png"}),
        client.get("/views/v", params={"format": "png"}),
    ):
        assert given.status_code == 200
        assert given.headers["content-type"] == "application/sparql-results+json"


def test_the_etag_is_the_epoch(client: httpx.Client, session: sparqlive.Session) -> None:
    put(client, "v")
    tag = client.get("/views/v").headers["etag"]
    assert client.get("/views/v", headers={"if-none-match": tag}).status_code == 304
    session.apply(insert='<http://x/a> <http://x/p> "1" .')
    again = client.get("/views/v", headers={"if-none-match": tag})
    assert again.status_code == 200
    assert again.headers["etag"] != tag


def test_a_view_is_read_as_of_an_earlier_epoch(client: httpx.Client, session: sparqlive.Session) -> None:
    put(client, "v")
    for value in "123":
        session.apply(insert=f'<http://x/a> <http://x/p> "{value}" .')
    assert client.get("/views/v", params={"at": 2, "format": "csv"}).text.count("\r\n") == 1 + 2
    assert client.get("/views/v", params={"at": 99}).status_code == 410
    assert client.get("/views/v", params={"at": "x"}).status_code == 400


def test_a_graph_is_given_as_rdf(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert="<http://x/a> <http://x/p> <http://x/b> .")
    put(client, "g", "CONSTRUCT { ?o <http://x/q> ?s } { ?s <http://x/p> ?o }")
    given = client.get("/views/g", headers={"accept": "application/n-triples"})
    assert given.text == "<http://x/b> <http://x/q> <http://x/a> .\n"


@pytest.mark.parametrize("query", ["SELECT", "SELECT (RAND() AS ?r) {}", ""])
def test_a_query_that_cannot_be_kept_is_400_with_a_sentence(client: httpx.Client, query: str) -> None:
    refused = put(client, "v", query)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert len(refused.json()["detail"]) > 20
    assert client.get("/views").json()["views"] == []


def test_bodies_of_other_types_and_names_that_are_none_are_refused(client: httpx.Client) -> None:
    assert client.put("/views/v", content=QUERY).status_code == 415
    assert client.post("/views/v").status_code == 405


@pytest.mark.parametrize("name", [name for name in BAD if name not in ("", ".", "..", "a/b", "/")], ids=ascii)
def test_names_are_refused_that_python_refuses(client: httpx.Client, name: str) -> None:
    refused = put(client, quote(name, safe=""))
    assert refused.status_code == 400
    assert refused.json()["detail"].startswith("Invalid view name")
    assert client.get("/views").json()["views"] == []


@pytest.mark.parametrize("name", GOOD)
def test_names_are_taken_that_python_takes(client: httpx.Client, name: str) -> None:
    made = put(client, quote(name, safe=""))
    assert made.status_code == 201
    assert client.get(made.headers["Location"]).status_code == 200
    assert [view["name"] for view in client.get("/views").json()["views"]] == [name]
    answered = client.get("/sparql", params={"query": QUERY})
    assert unquote(answered.headers["Sparqlive-View"]) == name


def test_the_first_rows_are_given_once_each(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert="\n".join(f'<http://x/{n}> <http://x/p> "{n % 4}" .' for n in range(20)))
    put(client, "v", "SELECT ?o { ?s <http://x/p> ?o } ORDER BY DESC(?o)")
    given = client.get("/views/v/rows", params={"limit": 3}).json()
    assert (given["rows"], given["epoch"]) == (4, 1)
    assert [row["o"]["value"] for row in given["results"]["bindings"]] == ["3", "2", "1"]
    assert given["weights"] == [5, 5, 5]
    assert given["ordered"]
    session.apply(insert="\n".join(f'<http://x/{n}> <http://x/p> "z{n}" .' for n in range(5000)))
    large = client.get("/views/v/rows", params={"limit": 3}).json()
    assert (large["rows"], large["ordered"], len(large["weights"])) == (5004, False, 3)
    put(client, "u", QUERY)
    assert len(client.get("/views/u/rows", params={"limit": 7}).json()["weights"]) == 7
    assert client.get("/views/u/rows", params={"limit": 0}).json()["rows"] == 5020
    for wrong in ("1000000000", "-1", "9" * 5000, "٣"):
        assert client.get("/views/u/rows", params={"limit": wrong}).status_code == 400
        assert client.get("/views/u", params={"at": "x" + wrong}).status_code == 400


def test_an_empty_result_has_a_header_that_says_why(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert="<http://x/a> <http://x/p> <http://x/b> .")
    said = "No triple has the predicate <http://x/zoë>. Check its prefix and spelling."
    empty = QUERY.replace("http://x/p", "http://x/zoë")
    asked = client.post("/sparql", content=empty.encode(), headers=SPARQL)
    for response in (asked, put(client, "v", empty), client.get("/views/v"), client.get("/views/v/rows")):
        assert response.is_success
        assert unquote(response.headers["sparqlive-hint"]) == said
        assert response.headers["sparqlive-hint"].isascii()
    put(client, "full")
    for response in (client.get("/sparql", params={"query": QUERY}), client.get("/views/full")):
        assert "sparqlive-hint" not in response.headers


def test_a_hint_is_one_header_whatever_is_in_it() -> None:
    hint = 'Only named graphs have a triple that matches ?s ?p "a\r\nSet-Cookie: b\x00é%41".'
    [value] = hint_header(hint).values()
    assert value.isascii()
    assert value.isprintable()
    assert unquote(value) == hint
