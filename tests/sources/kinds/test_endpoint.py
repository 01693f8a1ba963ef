"""A remote SPARQL endpoint: another engine behind a real HTTP server, asked by CONSTRUCT."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pyoxigraph as ox
import pytest
from pyoxigraph import Literal, NamedNode

import sparqlive
from tests.sources.server import Handler, Site
from tests.waiting import wait_until

QUERY = "CONSTRUCT { ?s <a:double> ?d ; <a:of> [ <a:is> ?o ] } WHERE { ?s <a:p> ?o BIND(2 * ?o AS ?d) }"


def filled() -> ox.Store:
    store = ox.Store()
    store.add(ox.Quad(NamedNode("a:s"), NamedNode("a:p"), Literal(1)))
    return store


def endpoint(store: ox.Store, **headers: str) -> Any:
    def answer(handler: Handler) -> None:
        graph: Any = store.query(parse_qs(handler.body.decode())["query"][0])
        body = graph.serialize(format=ox.RdfFormat.N_TRIPLES)
        handler.send(200, {"Content-Type": "application/n-triples", **headers}, body)

    return answer


def test_an_endpoint_is_followed(site: Site) -> None:
    store = filled()
    site.pages["/sparql"] = endpoint(store)
    with sparqlive.open(default_graph="union") as session:
        view = session.view("doubles", "SELECT ?d WHERE { ?s <a:double> ?d ; <a:of>/<a:is> ?o }")
        source = session.source(
            "endpoint", site.address + "/sparql", query=QUERY, poll_interval_seconds=0.05, allow_private=True
        )
        wait_until(lambda: len(view) == 1)
        epoch = session.epoch
        source.refresh()
        assert session.epoch == epoch, "other blank nodes are no change"
        store.add(ox.Quad(NamedNode("a:s"), NamedNode("a:p"), Literal(3)))
        source.refresh()
        assert set(view.weights()) == {(Literal(2),), (Literal(6),)}
        store.clear()
        source.refresh()
        assert (len(view), len(session)) == (0, 0)
        session.check()


def test_what_fails_deletes_nothing(site: Site) -> None:
    store = filled()
    site.pages["/"] = endpoint(store)
    with sparqlive.open() as session:
        options = {"poll_interval_seconds": None, "allow_private": True}
        source = session.source("endpoint", site.address + "/", query=QUERY, **options)
        source.refresh()
        store.clear()
        for answer, sentence in (
            (endpoint(store, **{"X-SQL-State": "S1TAT"}), "a part of the result"),
            (lambda handler: handler.send(500), "the server failed"),
            (lambda handler: handler.send(200, {"Content-Type": "text/html"}, b"an error"), "HTML"),
            (lambda handler: handler.send(302, {"Location": "/elsewhere"}), "redirects POST requests"),
        ):
            site.pages["/"] = answer
            with pytest.raises(sparqlive.Error, match=sentence):
                source.refresh()
            assert len(session) == 3


def test_other_queries_are_refused() -> None:
    with sparqlive.open() as session:
        for query in ("SELECT * { ?s ?p ?o }", "ASK {}", "CONSTRUCT {"):
            with pytest.raises(sparqlive.Error):
                session.source("endpoint", "http://example.org/sparql", query=query)
        with pytest.raises(sparqlive.Error, match="query"):
            session.source("endpoint", "http://example.org/sparql")
