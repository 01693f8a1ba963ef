"""Requests while an epoch is carried: queries, views and new streams answer with the epoch before it."""

from __future__ import annotations

from contextlib import ExitStack

import httpx

import sparqlive
from tests.agent.reading import reading
from tests.engine.test_beside_epochs import ROWS, held_up, insert


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
