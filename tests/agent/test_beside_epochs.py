"""Requests while an epoch is carried: queries, views and new streams answer with the epoch before it."""

from __future__ import annotations

from contextlib import ExitStack

import httpx
import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from tests.agent.reading import reading
from tests.engine.test_beside_epochs import EX, ROWS, held_up, insert


def test_requests_do_not_wait_for_an_epoch(client: httpx.Client, session: sparqlive.Session) -> None:
    session.update(insert(range(10)))
    session.view("rows", ROWS)
    with held_up(session, lambda: session.update(insert(range(10, 20)))):
        for response in (client.get("/sparql", params={"query": ROWS}), client.get("/views/rows")):
            assert response.headers["sparqlive-epoch"] == "1"
            assert len(response.json()["results"]["bindings"]) == 10
        with reading(client, "/views/rows/changes", snapshot="false") as later:
            assert (later.next().kind, later.epoch) == ("progress", 1)
        with reading(client, "/views/rows/changes") as reader:
            assert (reader.next().kind, reader.epoch, reader.content.total()) == ("snapshot", 1, 10)
    with reading(client, "/views/rows/changes") as reader:
        reader.next()
        assert (reader.epoch, reader.content.total()) == (2, 20)
    assert len(client.get("/sparql", params={"query": ROWS}).json()["results"]["bindings"]) == 20


def test_a_stream_that_begins_beside_an_epoch_gets_its_changes(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    session.update(insert(range(10)))
    session.view("rows", ROWS)
    with ExitStack() as streams:
        with held_up(session, lambda: session.update(insert(range(10, 20)))):
            reader = streams.enter_context(reading(client, "/views/rows/changes"))
            assert (reader.next().kind, reader.epoch) == ("snapshot", 1)
        assert reader.until(2).total() == 20


def test_what_else_does_not_wait_for_an_epoch(client: httpx.Client, session: sparqlive.Session) -> None:
    session.update(insert(range(5)))
    session.view("rows", ROWS)
    session.update(insert(range(5, 10)))
    graph = NamedNode(EX + "graph")
    session.apply(insert=[Quad(graph, graph, graph, graph)])
    listed = client.get("/views").json()["views"][0]
    client.get("/metrics")  # measures the state, which changes while an epoch is carried
    with held_up(session, lambda: session.update(insert(range(10, 20)))):
        rows = client.get("/views/rows/rows").json()
        assert (rows["epoch"], rows["rows"], sum(rows["weights"])) == (3, 10, 10)
        assert client.get("/views").json()["views"] == [listed]
        assert client.get("/views/rows/statistics").json() == listed
        assert 'sparqlive_view_rows{view="rows"} 10.0' in client.get("/metrics").text
        assert client.get("/epochs").json()["epochs"][-1]["epoch"] == 3
        response = client.get("/graphs", params={"default": "", "format": "nt"})
        assert (response.headers["sparqlive-epoch"], response.text.count("\n")) == ("3", 20)
        assert client.get("/graphs", params={"graph": graph.value, "format": "nt"}).text.count("\n") == 1
        assert client.get("/sparql").headers["sparqlive-epoch"] == "3"


@pytest.mark.parametrize("header", [True, False])
def test_a_stream_that_continues_beside_an_epoch_gets_its_changes(
    client: httpx.Client, session: sparqlive.Session, header: bool
) -> None:
    session.update(insert(range(5)))
    session.view("rows", ROWS)
    session.update(insert(range(5, 10)))
    session.update(insert(range(10, 15)))
    with ExitStack() as streams:
        with held_up(session, lambda: session.update(insert(range(15, 20)))):
            headers = {"last-event-id": "2"} if header else {}
            options = {} if header else {"since": "2"}
            reader = streams.enter_context(reading(client, "/views/rows/changes", headers, **options))
            assert (reader.next().kind, reader.epoch, reader.content.total()) == ("delta", 3, 5)
        assert reader.until(4).total() == 10
