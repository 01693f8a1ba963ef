"""SERVICE: other engines behind real HTTP servers are asked, and the result is as if their data were here.

The comparison is pyoxigraph with the data of both sides in one store, where GRAPH stands for SERVICE.
"""

from __future__ import annotations

import gzip
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyoxigraph as ox
import pytest
import rdflib

import sparqlive
from tests.conftest import W3C, W3C_ABSENT
from tests.sources.server import Handler, Site, serve
from tests.w3c import BASE, from_results
from tests.waiting import wait_until

PREFIX = "PREFIX : <http://e/> "
REMOTE = ox.NamedNode("urn:remote")
HERE = """
:a :p 1 ; :t "x" . :b :p 2 . :c :p 2 ; :t "y\\u0022 \\\\\\\\u0041" . :d :p 9 . _:n :p 1 .
"""
THERE = """
:a :q 10, 11 . :b :q 20 ; :r :a . :c :q 30 ; :r :b . :e :q 1 . :f :r 2 . :a :s "y\\u0022 \\\\\\\\u0041" .
"""


def quads_of(text: str) -> list[ox.Quad]:
    return list(ox.parse(f"@prefix : <http://e/> . {text}", ox.RdfFormat.TURTLE))


def filled(quads: Iterable[ox.Quad]) -> ox.Store:
    store = ox.Store()
    store.extend(quads)
    return store


def endpoint(store: ox.Store, asked: list[str] | None = None) -> Any:
    """An endpoint that pyoxigraph answers; notes what it is asked."""

    def answer(handler: Handler) -> None:
        query = parse_qs(handler.body.decode())["query"][0]
        if asked is not None:
            asked.append(query)
        results: Any = store.query(query)
        body = results.serialize(format=ox.QueryResultsFormat.JSON)
        handler.send(200, {"Content-Type": "application/sparql-results+json; charset=utf-8"}, body)

    return answer


def rdflib_endpoint(graph: rdflib.Graph) -> Any:
    def answer(handler: Handler) -> None:
        results = graph.query(parse_qs(handler.body.decode())["query"][0])
        body = results.serialize(format="xml")
        assert body is not None
        handler.send(200, {"Content-Type": "application/sparql-results+xml"}, body)

    return answer


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as found:
        yield found


@pytest.fixture(scope="module")
def remote() -> Iterator[Site]:
    """Endpoints with the same data: /sparql and /rdflib."""
    store = filled(quads_of(THERE))
    graph = rdflib.Graph().parse(data=f"@prefix : <http://e/> . {THERE}", format="turtle")
    with serve() as site:
        site.pages = {"/sparql": endpoint(store), "/rdflib": rdflib_endpoint(graph)}
        yield site


@pytest.fixture(scope="module")
def local() -> Iterator[sparqlive.Session]:
    with sparqlive.open() as session:
        session.apply(quads_of(HERE))
        named = [ox.Quad(q.subject, q.predicate, q.object, ox.NamedNode("urn:g")) for q in quads_of(HERE)[:3]]
        session.apply(named)
        yield session


@pytest.fixture(scope="module")
def together(local: sparqlive.Session) -> ox.Store:
    store = filled(local.quads())
    store.extend(ox.Quad(q.subject, q.predicate, q.object, REMOTE) for q in quads_of(THERE))
    return store


def solutions(results: Any) -> Counter[Any]:
    names = sorted(variable.value for variable in results.variables)
    return Counter(tuple(_shown(row[name]) for name in names) for row in results)


def answered(answer: sparqlive.Answer) -> Counter[Any]:
    order = sorted(range(len(answer.variables)), key=lambda place: answer.variables[place])
    rows: Counter[Any] = Counter()
    for row, weight in answer.weights().items():
        rows[tuple(_shown(row[place]) for place in order)] += weight
    return rows


def _shown(term: Any) -> Any:
    return "blank node" if isinstance(term, ox.BlankNode) else term


PATTERNS = (
    "?s :q ?z",
    "?s :r ?o2 . ?o2 :q ?z",
    "?s :q ?z FILTER(?z > 10)",
    "?s :q ?z FILTER(?o < 2)",  # ?o is not bound there
    "?s :q ?z OPTIONAL { ?s :r ?o }",
    "SELECT ?s (COUNT(*) AS ?z) { ?s :q ?any } GROUP BY ?s",
    "SELECT ?s ?z { ?s :q ?z } ORDER BY ?z LIMIT 2",
    "{ ?s :q ?z } UNION { ?x :r ?o }",
    "?x :s ?t OPTIONAL { ?x :q ?z }",
    "VALUES (?s ?z) { (:a 1) (UNDEF 2) (:zz 3) }",
)
CONTEXTS = (
    "SERVICE <E> { P }",
    "?s :p ?o . SERVICE <E> { P }",
    "SERVICE <E> { P } ?s :p ?o FILTER(?o < 3)",
    "?s :p ?o OPTIONAL { SERVICE <E> { P } }",
    "?s :p ?o OPTIONAL { SERVICE <E> { P } FILTER(?z > ?o) }",
    "?s :p ?o OPTIONAL { ?s :t ?t } SERVICE <E> { P }",
    "{ ?s :p ?o } UNION { SERVICE <E> { P } }",
    "?s :p ?o { { SERVICE <E> { P } } UNION { ?s :t ?z } }",
    "?s :p ?o MINUS { SERVICE <E> { P } }",
    "?s :p ?o BIND(?o + 1 AS ?y) SERVICE <E> { P }",
    "?s :p ?o . GRAPH ?g { ?s :p ?o SERVICE <E> { P } }",
    "?s :p ?o { SELECT ?s (MAX(?z) AS ?most) { ?s :t ?t . SERVICE <E> { P } } GROUP BY ?s }",
    "?s :p ?o { SELECT ?z { ?s :t ?t . SERVICE <E> { P } } ORDER BY ?z LIMIT 1 }",
    "?s :p ?o . SERVICE <E> { P } SERVICE <E> { ?s :r ?w }",
    "?s :p ?o . { ?s :t ?t OPTIONAL { SERVICE <E> { P } } }",
    "?b :p 99 SERVICE <E> { P }",
)


@pytest.mark.parametrize(("context", "pattern"), list(product(CONTEXTS, PATTERNS)))
def test_results_are_as_if_the_data_were_here(
    remote: Site, local: sparqlive.Session, together: ox.Store, context: str, pattern: str
) -> None:
    query = f"{PREFIX} SELECT * {{ {context.replace('P }', pattern + ' }')} }}"
    oracle = query.replace("SERVICE <E>", f"GRAPH {REMOTE}")
    if "GRAPH ?g" in query:
        oracle = oracle.replace("GRAPH ?g {", f"FILTER(?g != {REMOTE}) GRAPH ?g {{")
    found = local.query(query.replace("<E>", f"<{remote.address}/sparql>"), allow_private=True)
    if "LIMIT" in query:  # pyoxigraph restricts a window inside OPTIONAL before it cuts it
        with sparqlive.open() as session:
            session.apply(together)
            assert answered(found) == answered(session.query(oracle))
    else:
        assert answered(found) == solutions(together.query(oracle))


EXISTS = (
    "?s :p ?o FILTER EXISTS { SERVICE <E> { ?s :q ?z } }",
    "?s :p ?o FILTER NOT EXISTS { SERVICE <E> { ?s :q ?z } }",
    "?s :p ?o FILTER EXISTS { ?s :t ?t SERVICE <E> { ?s :q ?z } }",
    "?s :p ?o FILTER(?o > 5 || EXISTS { SERVICE <E> { ?s :r ?z } })",
    "?s :p ?o BIND(EXISTS { SERVICE <E> { ?s :r ?z } } AS ?y)",
    "SERVICE <E> { ?s :q ?z } FILTER NOT EXISTS { ?s :t ?t }",
)


@pytest.mark.parametrize("where", EXISTS)
def test_exists(remote: Site, local: sparqlive.Session, together: ox.Store, where: str) -> None:
    query = f"{PREFIX} SELECT * {{ {where} }}"
    found = local.query(query.replace("<E>", f"<{remote.address}/sparql>"), allow_private=True)
    assert answered(found) == solutions(together.query(query.replace("SERVICE <E>", f"GRAPH {REMOTE}")))


def test_exists_that_is_no_join_is_refused(remote: Site, local: sparqlive.Session) -> None:
    query = f"{PREFIX} SELECT * {{ ?s :p ?o FILTER EXISTS {{ SERVICE <{remote.address}/sparql> {{ ?s :q ?z "
    with pytest.raises(sparqlive.Unsupported, match=r"inside EXISTS reads \?o"):
        local.query(query + "FILTER(?z > ?o) } } }", allow_private=True)


@pytest.mark.parametrize("where", ["?s :p ?o . SERVICE <E> { ?s :q ?z }", "SERVICE <E> { ?s :q ?z }"])
def test_other_engines_and_forms(remote: Site, local: sparqlive.Session, where: str) -> None:
    where = where.replace("<E>", f"<{remote.address}/%s>")
    one = local.query(f"{PREFIX} SELECT * {{ {where % 'sparql'} }}", allow_private=True)
    other = local.query(f"{PREFIX} SELECT * {{ {where % 'rdflib'} }}", allow_private=True)
    assert answered(one) == answered(other) != Counter()
    assert local.query(f"{PREFIX} ASK {{ {where % 'sparql'} }}", allow_private=True)
    graph = local.query(f"{PREFIX} CONSTRUCT {{ ?s :is ?z }} {{ {where % 'sparql'} }}", allow_private=True)
    assert len(set(graph.quads())) == len({(row[0], row[-1]) for row in one.weights()})


def test_values_are_sent_in_batches(site: Site) -> None:
    asked: list[str] = []
    data = (ox.Quad(ox.NamedNode(f"urn:s{n}"), ox.NamedNode("urn:q"), ox.Literal(n)) for n in range(1000))
    site.pages["/sparql"] = endpoint(filled(data), asked)
    with sparqlive.open() as session:
        session.apply("".join(f"<urn:s{n}> <urn:p> <urn:o> .\n" for n in range(250)))
        query = f"SELECT * {{ ?s <urn:p> ?o SERVICE <{site.address}/sparql> {{ ?s <urn:q> ?z }} }}"
        assert len(session.query(query, allow_private=True)) == 250
        assert [text.count("(<urn:s") for text in asked] == [100, 100, 50]
        asked.clear()
        empty = query.replace("<urn:p>", "<urn:none>")
        assert len(session.query(empty, allow_private=True)) == 0
        assert asked == []


def test_blank_nodes_of_endpoints_are_others(site: Site) -> None:
    store = filled(quads_of("_:n :q _:m . _:m :q _:n ."))
    site.pages["/sparql"] = endpoint(store)
    with sparqlive.open() as session:
        session.apply(list(store))
        service = f"SERVICE <{site.address}/sparql> {{ ?s :q ?o }}"
        joined = session.query(f"{PREFIX} SELECT * {{ ?s :q ?o . {service} }}", allow_private=True)
        assert len(joined) == 0
        one = session.query(f"{PREFIX} SELECT * {{ {service} }}", allow_private=True).weights()
        assert {row[0] for row in one} == {row[1] for row in one}, "the same within a response"


def test_volatile_functions_are_called_once(remote: Site, local: sparqlive.Session) -> None:
    where = f"?s :p ?o BIND(STRUUID() AS ?z) SERVICE <{remote.address}/sparql> {{ ?s :q ?w }}"
    assert len(local.query(f"{PREFIX} SELECT * {{ {where} }}", allow_private=True)) == 4


def test_functions_of_the_endpoint_are_its_own(site: Site) -> None:
    body = b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"literal","value":"1"}}]}}'
    site.pages["/"] = lambda handler: handler.send(200, {"Content-Type": "application/json"}, body)
    with sparqlive.open() as session:
        where = f"SERVICE <{site.address}/> {{ BIND(<urn:own>(1) AS ?x) FILTER(<urn:more>(NOW())) }}"
        assert len(session.query(f"SELECT * {{ {where} }}", allow_private=True)) == 1
        assert b"own" in site.asked[0].body


# Failures


def failing(status: int = 200, kind: str = "application/sparql-results+json", body: bytes = b"{}") -> Any:
    return lambda handler: handler.send(status, {"Content-Type": kind}, body)


BOMB = gzip.compress(b" " * (65 << 20), 1)
FAILURES = {
    "an error": (failing(500, "text/plain", b"out of order"), "status 500: out of order"),
    "no results": (failing(200, "text/html", b"<html>"), "text/html instead of SPARQL results"),
    "broken": (failing(body=b'{"head":'), "cannot be read"),
    "broken later": (
        failing(body=b'{"head":{"vars":["z"]},"results":{"bindings":[{},{"z":'),
        "cannot be read",
    ),
    "a triple term": (
        failing(
            body=b'{"head":{"vars":["z"]},"results":{"bindings":[{"z":{"type":"triple","value":{'
            b'"subject":{"type":"uri","value":"urn:s"},"predicate":{"type":"uri","value":"urn:p"},'
            b'"object":{"type":"uri","value":"urn:o"}}}}]}}'
        ),
        "triple terms",
    ),
    "an answer": (failing(body=b'{"head":{},"boolean":true}'), "ASK"),
    "a redirect": (
        lambda handler: handler.send(302, {"Location": "http://127.0.0.1:1/"}),
        "redirects POST",
    ),
    "too much": (
        lambda handler: handler.send(200, {"Content-Encoding": "gzip"}, BOMB),
        "max_bytes",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures(site: Site, case: str) -> None:
    site.pages["/"], said = FAILURES[case]
    with sparqlive.open() as session:
        session.apply(quads_of(HERE))
        query = PREFIX + "SELECT * { ?s :p ?o SERVICE %s <" + site.address + "/> { ?s :q ?z } }"
        with pytest.raises(sparqlive.ServiceFailed, match=said):
            session.query(query % "", allow_private=True)
        silent = session.query(query % "SILENT", allow_private=True).weights()
        assert len(silent) == 5
        assert {row[2] for row in silent} == {None}


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/", "http://169.254.169.254/"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.ServiceFailed, match="not a public address"):
            session.query(f"SELECT * {{ SERVICE <{address}> {{ ?s ?p ?o }} }}")
        assert len(session.query(f"SELECT * {{ SERVICE SILENT <{address}> {{ ?s ?p ?o }} }}")) == 1


@pytest.mark.parametrize("address", ["ftp://e/", "file:///etc/passwd", "urn:x", "http://a:b@e/"])
def test_what_is_no_web_address_is_refused(address: str) -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.ServiceFailed, match="address"):
        session.query(f"SELECT * {{ SERVICE <{address}> {{ ?s ?p ?o }} }}")


def test_variables_are_refused() -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Unsupported, match=r"SERVICE \?e .* as an IRI"):
        session.query("SELECT * { ?e ?p ?o SERVICE ?e { ?s ?p2 ?o2 } }")


def test_the_time_limit_counts(site: Site) -> None:
    site.pages["/"] = lambda handler: time.sleep(20)
    with sparqlive.open() as session:
        for silent in ("", "SILENT"):
            began = time.monotonic()
            with pytest.raises(sparqlive.Timeout):
                session.query(
                    f"SELECT * {{ SERVICE {silent} <{site.address}/> {{ ?s ?p ?o }} }}",
                    allow_private=True,
                    timeout_seconds=0.3,
                )
            assert time.monotonic() - began < 15


def test_an_answer_belongs_to_one_epoch(site: Site) -> None:
    """A change that is committed while the endpoint is asked is not seen."""
    with sparqlive.open() as session:
        session.apply('<urn:a> <urn:p> "1" .')

        def answer(handler: Handler) -> None:
            session.apply('<urn:b> <urn:p> "2" .', '<urn:a> <urn:p> "1" .')
            endpoint(ox.Store())(handler)

        site.pages["/"] = answer
        where = f"?s <urn:p> ?o OPTIONAL {{ SERVICE <{site.address}/> {{ ?s <urn:q> ?z }} }}"
        found = session.query(f"SELECT ?s {{ {where} }}", allow_private=True)
        assert found.epoch == 1
        assert found.weights() == {(ox.NamedNode("urn:a"),): 1}
        assert session.epoch == 2


# Views


def test_a_view_reads_the_graph_of_a_source(site: Site, tmp_path: Path) -> None:
    store = filled(quads_of(THERE))

    def answer(handler: Handler) -> None:
        graph: Any = store.query(parse_qs(handler.body.decode())["query"][0])
        body = graph.serialize(format=ox.RdfFormat.N_TRIPLES)
        handler.send(200, {"Content-Type": "application/n-triples"}, body)

    site.pages["/sparql"] = answer
    address = site.address + "/sparql"
    query = f"{PREFIX} SELECT ?s ?z {{ ?s :p ?o OPTIONAL {{ SERVICE SILENT <{address}> {{ ?s :q ?z }} }} }}"
    with sparqlive.open(tmp_path) as session:
        session.apply(quads_of(":b :p 1 ."))
        with pytest.raises(sparqlive.Unsupported, match=rf'session.source\("endpoint", "{address}"'):
            session.view("v", query)
        session.source(
            "endpoint", address, name="e", query="CONSTRUCT WHERE { ?s ?p ?o }",
            poll_interval_seconds=0.05, allow_private=True,
        )  # fmt: skip
        view = session.view("v", query)
        assert session.view("v", query) is view
        assert "GRAPH <source:e> { ?s :q ?z }" in view.text
        wait_until(lambda: [row[1] for row in view.weights()] == [ox.Literal(20)])
        store.update(PREFIX + "DELETE DATA { :b :q 20 } ; INSERT DATA { :b :q 21 }")
        wait_until(lambda: [row[1] for row in view.weights()] == [ox.Literal(21)])
        session.check()
        nested = (
            f"{PREFIX} SELECT * {{ SERVICE <{address}> {{ ?s :q ?z SERVICE <{address}> {{ ?s :r ?o }} }} }}"
        )
        assert session.view("nested", nested).text.count("GRAPH <source:e>") == 2
        exists = f"""{PREFIX} SELECT (COUNT(?s) AS ?n) {{
          FILTER EXISTS {{ SERVICE <{address}> {{ ?s :r ?x }} }} SERVICE <{address}> {{ ?s :q ?z }}
        }} HAVING (EXISTS {{ SERVICE<{address}>{{ ?a ?b ?c }} }})"""
        assert [row[0].value for row in session.view("exists", exists).weights()] == ["2"]
        with pytest.raises(sparqlive.Unsupported, match="GRAPH inside SERVICE"):
            session.view("w", f"SELECT * {{ SERVICE <{address}> {{ GRAPH ?g {{ ?s ?p ?o }} }} }}")
        with pytest.raises(sparqlive.Unsupported, match="FROM NAMED <source:e>"):
            session.view("w", f"SELECT * FROM <urn:g> {{ SERVICE <{address}> {{ ?s ?p ?o }} }}")
        with pytest.raises(sparqlive.Unsupported, match="SERVICE"):
            session.view("w", f"SELECT * {{ SERVICE <{address}/other> {{ ?s ?p ?o }} }}")
    with sparqlive.open(tmp_path, watch=False) as session:
        assert len(session.views["v"]) == 1


# W3C

SERVICE = W3C / "sparql" / "sparql11" / "service"
TESTS = {  # endpoints of each test, and their data; 5 asks SERVICE ?variable
    "service01": ("data01", {"http://example.org/sparql": "data01endpoint"}),
    "service02": (
        None,
        {"http://example1.org/sparql": "data02endpoint1", "http://example2.org/sparql": "data02endpoint2"},
    ),
    "service03": (
        None,
        {"http://example1.org/sparql": "data03endpoint1", "http://example2.org/sparql": "data03endpoint2"},
    ),
    "service04a": ("data04", {"http://example.org/sparql": "data04endpoint"}),
    "service06": (None, {"http://example1.org/sparql": "data06endpoint1"}),
    "service07": ("data07", {}),
}


@pytest.mark.skipif(not SERVICE.is_dir(), reason=W3C_ABSENT)
@pytest.mark.parametrize("name", TESTS)
def test_w3c(name: str, site: Site) -> None:
    """The endpoints are sessions, because the tests nest SERVICE."""
    data, endpoints = TESTS[name]

    def here(text: str) -> str:
        for number, address in enumerate(endpoints):
            text = text.replace(address, f"{site.address}/{number}")
        return text

    def session_endpoint(file: str) -> Any:
        def answer(handler: Handler) -> None:
            with sparqlive.open() as session:
                session.load(SERVICE / f"{file}.ttl")
                asked = parse_qs(handler.body.decode())["query"][0]
                body = session.query(asked, allow_private=True).serialize("json").encode()
            handler.send(200, {"Content-Type": "application/sparql-results+json"}, body)

        return answer

    for number, file in enumerate(endpoints.values()):
        site.pages[f"/{number}"] = session_endpoint(file)
    with sparqlive.open() as session:
        if data is not None:
            session.load(SERVICE / f"{data}.ttl")
        query = here((SERVICE / f"{name}.rq").read_text(encoding="utf-8"))
        found = session.query(query, base=BASE, allow_private=True)
        expected = from_results(
            SERVICE / f"{name.removesuffix('a')}.srx", ox.QueryResultsFormat.XML, tuple(found.variables)
        )
        assert found.weights() == expected
