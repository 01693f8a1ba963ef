"""The SPARQL 1.1 Protocol: the W3C tests, each way to ask, what is malformed, limits, answers from views."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.agent.w3c_requests import RequestTest, read_request_tests, send
from tests.conftest import W3C, W3C_ABSENT

# What stops a query may come inside a finalizer, where Python drops it with a word; then it comes again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

MANIFEST = W3C / "sparql" / "sparql11" / "protocol" / "manifest.ttl"
TESTS = read_request_tests(MANIFEST) if MANIFEST.is_file() else []

DATA = """<http://x/a> <http://x/p> "1" .
<http://x/b> <http://x/p> "2" .
<http://x/c> <http://x/p> "3" <http://x/g> ."""
QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
DIRECT = {"content-type": "application/sparql-query"}
UPDATE = {"content-type": "application/sparql-update"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


def values(answer: httpx.Response, name: str = "o") -> list[str]:
    assert answer.status_code == 200, answer.text
    return sorted(row[name]["value"] for row in answer.json()["results"]["bindings"])


def test_the_suite_is_complete() -> None:
    if not TESTS:
        pytest.skip(W3C_ABSENT)
    assert len(TESTS) == 34


@pytest.mark.w3c
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_w3c(test: RequestTest, client: httpx.Client, session: sparqlive.Session) -> None:
    for name, file in test.graphs:
        session.load(str(file), graph=name)
    send(client, test, "/sparql/", "/sparql")


def test_each_way_to_ask_gives_the_same(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert=DATA)
    ways = [
        client.get("/sparql", params={"query": QUERY}),
        client.post("/sparql", data={"query": QUERY}),
        client.post("/sparql", content=QUERY, headers=DIRECT),
    ]
    assert [values(answer) for answer in ways] == [["1", "2", "3"]] * 3
    assert {answer.headers["sparqlive-epoch"] for answer in ways} == {"1"}


def test_each_way_to_update_is_one_epoch(client: httpx.Client, session: sparqlive.Session) -> None:
    insert = "INSERT DATA { <http://x/a> <http://x/p> 1, %d } ; DELETE DATA { <http://x/a> <http://x/p> 1 }"
    made = client.post("/sparql", data={"update": insert % 2})
    assert made.json() == {"epoch": 1, "inserted": 1, "deleted": 0, "ignored": 2}
    made = client.post("/sparql", content=insert % 3, headers=UPDATE)
    assert made.headers["sparqlive-epoch"] == "2"
    assert len(session) == 2


def test_the_datasets_of_requests(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert=DATA)
    only = {"query": QUERY, "default-graph-uri": "http://x/g"}
    assert values(client.get("/sparql", params=only)) == ["3"]
    overridden = {"query": QUERY.replace("{", "FROM <http://x/none> {", 1), "default-graph-uri": "http://x/g"}
    assert values(client.get("/sparql", params=overridden)) == ["3"]
    assert values(client.get("/sparql", params={"query": QUERY, "named-graph-uri": "http://x/g"})) == []
    named = {"query": "SELECT ?o { GRAPH ?g { ?s ?p ?o } }", "named-graph-uri": "http://x/g"}
    assert values(client.get("/sparql", params=named)) == ["3"]
    unknown = {"query": QUERY, "default-graph-uri": ["http://x/none", "http://x/g"]}
    assert values(client.get("/sparql", params=unknown)) == ["3"]
    copy = "INSERT { ?s <http://x/q> ?o } WHERE { ?s <http://x/p> ?o }"
    client.post("/sparql", data={"update": copy, "using-graph-uri": "http://x/g"})
    assert values(client.get("/sparql", params={"query": "SELECT ?o { ?s <http://x/q> ?o }"})) == ["3"]


@pytest.mark.parametrize(
    "clash",
    [
        "WITH <http://x/g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
        "DELETE { ?s ?p ?o } USING <http://x/g> WHERE { ?s ?p ?o }",
        "DELETE { ?s ?p ?o } USING NAMED <http://x/g> WHERE { ?s ?p ?o }",
        "INSERT DATA { <x:a> <x:b> 1 } ; DELETE { ?s ?p ?o } USING <http://x/g> WHERE { ?s ?p ?o }",
    ],
)
def test_a_dataset_that_clashes_changes_nothing(
    client: httpx.Client, session: sparqlive.Session, clash: str
) -> None:
    session.apply(insert=DATA)
    refused = client.post("/sparql", data={"update": clash, "using-graph-uri": "http://x/g"})
    assert refused.status_code == 400
    assert "USING" in refused.json()["detail"]
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"query": [QUERY, QUERY]}, "2 parameters named query"),
        ({"update": "CLEAR ALL"}, "POST"),
        ({"query": QUERY, "update": "CLEAR ALL"}, "POST"),
        ({"query": "SELECT"}, "line 1"),
        ({"query": "INSERT DATA { <x:a> <x:b> 1 }"}, "line 1"),
        ({"query": QUERY, "default-graph-uri": "g"}, "default-graph-uri"),
        ({"query": QUERY, "using-graph-uri": "http://x/g"}, "using-graph-uri"),
        ({"query": QUERY, "timeout": "soon"}, "timeout"),
        ({"query": QUERY, "timeout": "0"}, "timeout"),
        ({"query": QUERY, "timeout": "nan"}, "timeout"),
        ({"query": QUERY, "timeout": ["1", "2"]}, "timeout"),
        ({"query": QUERY, "timeout": "inf"}, "timeout"),
        ({"query": QUERY, "timeout": ""}, "timeout"),
        ({"query": QUERY, "timeout": "-1"}, "timeout"),
        ({"query": QUERY, "timeout": "1e999"}, "timeout"),
        ({"query": QUERY, "timeout": "1_0"}, "timeout"),
        ({"query": QUERY, "timeout": "\u0661"}, "timeout"),
        ({"query": QUERY, "timeout": "9" * 5000}, "timeout"),
        ({"query": "SELECT * { ?x ?p ?y SERVICE ?x { ?s ?p ?o } }"}, "SERVICE ?x"),
    ],
)
def test_what_get_refuses(client: httpx.Client, parameters: dict[str, str | list[str]], said: str) -> None:
    refused = client.get("/sparql", params=parameters)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert said in refused.json()["detail"]


@pytest.mark.parametrize(
    ("content", "headers", "address", "status"),
    [
        (b"query=ASK%20%7B%7D&query=ASK%20%7B%7D", FORM, "", 400),
        (b"query=ASK%20%7B%7D&update=CLEAR%20ALL", FORM, "", 400),
        (b"query=ASK%20%7B%7D", FORM, "?query=ASK%20%7B%7D", 400),
        (b"", FORM, "", 400),
        (b"query=%FF", FORM, "", 400),
        (b"query", FORM, "", 400),
        (b"ASK {}", DIRECT, "?query=ASK%20%7B%7D", 400),
        (b"ASK {}", DIRECT, "?update=CLEAR%20ALL", 400),
        (b"ASK { ?s ?p '\xff' }", DIRECT, "", 400),
        (b"ASK {}", {"content-type": "application/sparql-query; charset=latin-1"}, "", 400),
        (b"CLEAR ALL", UPDATE, "?default-graph-uri=http%3A%2F%2Fx%2Fg", 400),
        (b"CLEAR", UPDATE, "", 400),
        (b"LOAD <http://127.0.0.1:9/>", UPDATE, "", 400),
        (b"ASK {}", {"content-type": "text/plain"}, "", 415),
        (b"ASK {}", {}, "", 415),
    ],
)
def test_what_post_refuses(
    client: httpx.Client,
    session: sparqlive.Session,
    content: bytes,
    headers: dict[str, str],
    address: str,
    status: int,
) -> None:
    session.apply(insert=DATA)
    refused = client.post("/sparql" + address, content=content, headers=headers)
    assert refused.status_code == status, refused.text
    assert len(refused.json()["detail"]) > 20
    assert (session.epoch, len(session)) == (1, 3)


def test_other_methods_are_refused(client: httpx.Client) -> None:
    assert client.put("/sparql", params={"query": QUERY}).status_code == 405


def test_head_is_get_without_a_body(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert=DATA)
    head = client.head("/sparql", params={"query": QUERY})
    whole = client.get("/sparql", params={"query": QUERY})
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert head.headers["sparqlive-epoch"] == "1"


# Answers from views


@pytest.mark.parametrize(
    ("view", "query", "same"),
    [
        (QUERY, "PREFIX x: <http://x/>\nSELECT ?s ?o WHERE { ?s x:p ?o . }", True),
        (QUERY, "SELECT ?o ?s { ?s <http://x/p> ?o }", False),
        (QUERY, "SELECT ?x ?o { ?x <http://x/p> ?o }", False),
        (QUERY, "SELECT DISTINCT ?s ?o { ?s <http://x/p> ?o }", False),
        (QUERY, "SELECT ?s ?o { GRAPH ?g { ?s <http://x/p> ?o } }", False),
        ("SELECT ?s { ?s <http://x/p> ?o }", "SELECT ?s { ?s <http://x/p> ?value }", True),
        ("SELECT ?s { ?s ?p ?o FILTER(?o > 1) }", "SELECT ?s { { ?s ?a ?b } FILTER(?b > 1) }", True),
        ("SELECT ?s { ?s ?p ?o FILTER(?o > 1) }", "SELECT ?s { ?s ?a ?b FILTER(?a > 1) }", False),
        ("SELECT ?s { ?s ?p ?o } ORDER BY ?o", "SELECT ?s { ?s ?a ?b } ORDER BY ?b", True),
        ("SELECT ?s { ?s ?p ?o } ORDER BY ?o", "SELECT ?s { ?s ?a ?b } ORDER BY DESC(?b)", False),
        ("SELECT ?s { ?s ?p ?o } ORDER BY ?o", "SELECT ?s { ?s ?a ?b }", False),
        (
            "SELECT (COUNT(?o) AS ?n) { ?s ?p ?o }",
            "SELECT (COUNT(?value) AS ?n) { ?a ?b ?value }",
            True,
        ),
        ("ASK { ?s <http://x/p> ?o }", "ASK { ?a <http://x/p> ?b }", True),
        (
            "CONSTRUCT { ?o <http://x/q> ?s } { ?s <http://x/p> ?o }",
            "CONSTRUCT { ?a <http://x/q> ?b } { ?b <http://x/p> ?a }",
            True,
        ),
        ("SELECT ?s { ?s <http://x/p>+ ?o }", "SELECT ?s { ?s <http://x/p>+ ?x }", True),
        (
            "SELECT ?s { ?s ?p ?o FILTER EXISTS { ?o ?q ?r } }",
            "SELECT ?s { ?s ?p ?x FILTER EXISTS { ?x ?y ?z } }",
            True,
        ),
    ],
)
def test_a_query_that_is_a_view_is_answered_from_it(
    client: httpx.Client, session: sparqlive.Session, view: str, query: str, same: bool
) -> None:
    session.view("v", view)
    session.apply(insert=DATA)
    given = client.get("/sparql", params={"query": query}, headers={"accept": "*/*"})
    assert given.headers.get("sparqlive-view") == ("v" if same else None)
    assert given.headers["sparqlive-epoch"] == "1"
    if same:
        once = session.query(query)
        read = session.query(query, from_views=True)
        assert (once.view, read.view) == (None, "v")
        assert read.weights() == once.weights()
        assert sorted(map(str, read.solutions())) == sorted(map(str, once.solutions()))


def test_a_view_that_stands_for_an_earlier_epoch_answers_nothing(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    view = session.view("v", QUERY, refresh="manual")
    session.apply(insert=DATA)
    given = client.get("/sparql", params={"query": QUERY})
    assert "sparqlive-view" not in given.headers
    assert values(given) == ["1", "2", "3"]
    view.refresh()
    given = client.get("/sparql", params={"query": QUERY})
    assert given.headers["sparqlive-view"] == "v"
    assert values(given) == ["1", "2", "3"]


def test_the_dataset_of_a_request_tells_it_from_a_view(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    session.view("v", QUERY)
    session.view("g", QUERY.replace("{", "FROM <http://x/g> {", 1))
    session.apply(insert=DATA)
    given = client.get("/sparql", params={"query": QUERY, "default-graph-uri": "http://x/g"})
    assert given.headers["sparqlive-view"] == "g"
    assert values(given) == ["3"]


# Limits

SLOW = """PREFIX : <http://x/> SELECT (COUNT(*) AS ?n)
          { ?a :p ?b . ?c :p ?d . ?e :p ?f . ?g :p ?h FILTER(?a != ?d && ?c != ?f && ?e != ?h) }"""


@contextmanager
def limited(session: sparqlive.Session, settings: Settings) -> Iterator[httpx.Client]:
    session.apply(
        insert="\n".join(f"<http://x/s{i}> <http://x/p> <http://x/o{i % 17}> ." for i in range(300))
    )
    with serving(Agent(session, settings)) as base, httpx.Client(base_url=base, timeout=60) as client:
        yield client


@pytest.mark.parametrize(("asked", "allowed"), [("0.3", 60.0), ("60", 0.3), (None, 0.3)])
def test_a_query_is_stopped_in_time(session: sparqlive.Session, asked: str | None, allowed: float) -> None:
    with limited(session, Settings(query_seconds=allowed)) as client:
        began = time.monotonic()
        parameters = {"query": SLOW, **({} if asked is None else {"timeout": asked})}
        stopped = client.get("/sparql", params=parameters)
        assert stopped.status_code == 503
        assert "was stopped" in stopped.json()["detail"]
        assert time.monotonic() - began < 40
        assert len(values(client.get("/sparql", params={"query": QUERY}))) == 300
        session.check()


def test_others_are_served_while_queries_run(session: sparqlive.Session) -> None:
    with limited(session, Settings(query_seconds=10)) as client, ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(client.get, "/sparql", params={"query": SLOW}) for _ in range(3)]
        time.sleep(0.5)
        assert client.put("/views/v", content=QUERY, headers=DIRECT).status_code == 201
        insert = "INSERT DATA { <http://x/new> <http://x/p> 1 }"
        assert client.post("/sparql", content=insert, headers=UPDATE).status_code == 200
        from_view = client.get("/views/v")
        assert len(values(from_view)) == 301
        assert not any(one.done() for one in asking)
        assert {one.result().status_code for one in asking} == {503}


@pytest.mark.parametrize("syntax", ["json", "xml", "csv", "tsv", "turtle", "jsonld"])
def test_writing_the_result_counts(session: sparqlive.Session, syntax: str) -> None:
    """However the time is spent, the limit holds, and no client takes a part for the whole."""
    form = "SELECT ?a ?c" if syntax in ("json", "xml", "csv", "tsv") else "CONSTRUCT { ?a ?c ?b }"
    query = f"{form} {{ ?a <http://x/p> ?b . ?c <http://x/p> <http://x/o1> }}"
    with limited(session, Settings()) as client:
        for _ in range(2):  # the first one also loads what is needed
            whole = client.get("/sparql", params={"query": query, "format": syntax})
            assert whole.status_code == 200
        for part in (0, 1, 4, 6, 8, 10):
            seconds = whole.elapsed.total_seconds() * part / 10 or 0.001
            try:
                given = client.get("/sparql", params={"query": query, "format": syntax, "timeout": seconds})
            except httpx.RemoteProtocolError:  # after the first bytes: the last chunk is missing
                continue
            assert given.status_code == 503 or (part and _content(given, syntax) == _content(whole, syntax))
        session.check()


def _content(response: httpx.Response, syntax: str) -> object:
    """The triples, or the text of a result: how a graph is cut into pieces depends on time."""
    if syntax not in ("turtle", "jsonld"):
        return response.text
    kind = ox.RdfFormat.TURTLE if syntax == "turtle" else ox.RdfFormat.JSON_LD
    return {quad.triple for quad in ox.parse(response.content, kind)}


def test_more_rows_than_allowed_are_an_error(session: sparqlive.Session) -> None:
    # Fewer than the rows that are always computed before the first byte, however slow the machine is.
    with limited(session, Settings(query_rows=9)) as client:
        refused = client.get("/sparql", params={"query": QUERY})
        assert refused.status_code == 422
        assert "9 rows" in refused.json()["detail"]
        few = client.get("/sparql", params={"query": QUERY + " LIMIT 9"})
        assert len(values(few)) == 9
        session.view("v", QUERY)
        assert len(values(client.get("/sparql", params={"query": QUERY}))) == 300, "a view may be larger"


@pytest.mark.parametrize(
    ("media_type", "text", "place"),
    [
        ("application/sparql-query", "SELECT ?s {\n  ?s ?p\n}", (3, 1)),
        ("application/sparql-query", "SELECT * { ?s ?p '𝄞𝄞' ?o }", (1, 23)),
        ("application/sparql-update", "INSERT DATA {\n <http://x/a> ?p 1 }", (2, 15)),
    ],
)
def test_a_syntax_error_has_a_place_for_editors(
    client: httpx.Client, media_type: str, text: str, place: tuple[int, int]
) -> None:
    answer = client.post("/sparql", content=text.encode(), headers={"content-type": media_type})
    assert answer.status_code == 400
    body = answer.json()
    assert (body["line"], body["column"]) == place
    assert body["detail"].startswith(f"line {place[0]}, column {place[1]}:")


def test_other_errors_have_no_place(client: httpx.Client) -> None:
    headers = {"content-type": "application/sparql-query"}
    answer = client.post("/sparql", content="ASK { BIND(STRLEN() AS ?x) }", headers=headers)
    assert answer.status_code == 400
    assert set(answer.json()) <= {"title", "status", "detail", "line", "column"}
