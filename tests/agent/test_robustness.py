"""Clients that do not keep to the rules: the right status, nothing changed, nothing left behind."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Limits, Tokens
from tests.agent.conftest import serving
from tests.agent.reading import reading
from tests.waiting import happens

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
SPARQL = {"content-type": "application/sparql-query"}
UPDATE = {"content-type": "application/sparql-update"}


@contextmanager
def asked(session: sparqlive.Session, **settings: Any) -> Iterator[httpx.Client]:
    """A client of an agent with other settings."""
    agent = Agent(session, Settings(**settings))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        yield client


def connected(client: httpx.Client) -> socket.socket:
    assert client.base_url.port is not None
    made = socket.create_connection((client.base_url.host, client.base_url.port))
    made.settimeout(20)
    return made


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    pieces = []
    try:
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


# Malformed


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # TLS to a port without
        b"GET /views\r\n\r\n",
        b"GET /views HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /views HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"GET /views HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_400_and_the_connection_ends(client: httpx.Client, sent: bytes) -> None:
    with connected(client) as connection:
        connection.sendall(sent)
        assert rest_of(connection).startswith(b"HTTP/1.1 400 ")
    assert client.get("/views").status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "SELECT",
        "SELECT * " + "{" * 3000 + "}" * 3000,
        "SELECT * { ?a " + "/".join(["<u:p>"] * 3000) + " ?b }",
        "SELECT * { ?a <u:p> " + "(" * 2000 + ")" * 2000 + " }",
        "SELECT * { FILTER(" + "1+" * 5000 + "1) }",
        "\x00",
        "\ufeff" * 100,
        "SELECT * { ?s ?p '" + "\\" * 1001 + "' }",
        "PREFIX : <" + "x" * 100_000 + "> SELECT * { ?s :p '",
    ],
)
def test_malformed_queries_are_400_and_change_nothing(
    client: httpx.Client, session: sparqlive.Session, text: str
) -> None:
    given = [
        client.put("/views/v", content=text, headers=SPARQL),
        client.post("/sparql", content=text, headers=SPARQL),
        client.post("/sparql", content=text, headers=UPDATE),
        client.post("/subscriptions", content=text, headers=SPARQL),
    ]
    for answer in given:
        assert answer.status_code == 400, answer.text[:300]
        assert len(answer.content) < 10_000
    assert session.epoch == 0
    assert not session.views


def test_data_cannot_become_a_page(client: httpx.Client, session: sparqlive.Session) -> None:
    session.apply(insert='<http://x/a> <http://www.w3.org/1999/xhtml/script> "alert(1)" .')
    session.view("g", "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }")
    given = client.get("/views/g", params={"format": "rdfxml"})
    assert "alert(1)" in given.text
    assert "sandbox" in given.headers["content-security-policy"]
    assert given.headers["x-content-type-options"] == "nosniff"
    page = client.get("/").headers["content-security-policy"]
    assert "sandbox" not in page


# Large


def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent(session: sparqlive.Session) -> None:
    with asked(session, body_bytes=1000) as client, connected(client) as connection:
        head = b"PUT /views/v HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"
        connection.sendall(head + b"Content-Length: 1000000000000\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
    assert not session.views


def test_a_body_of_unknown_length_is_read_up_to_the_limit(session: sparqlive.Session) -> None:
    sent, endless = 0, 1 << 40

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        while sent < endless:
            sent += 1 << 16
            yield b" " * (1 << 16)

    with asked(session, body_bytes=100_000) as client:
        before = psutil.Process().memory_info().rss
        try:
            status = client.put("/views/v", content=pieces(), headers=SPARQL).status_code
        except httpx.TransportError:  # the agent has had enough, and closed
            status = 413
        assert status == 413
        assert sent < endless, "what comes after the answer is discarded for a second, not for ever"
        assert psutil.Process().memory_info().rss - before < 50 << 20
        assert client.get("/views").json()["views"] == []


def test_more_connections_than_there_may_be_are_503(session: sparqlive.Session) -> None:
    with asked(session, connections=5) as client, ExitStack() as held:
        for _ in range(6):
            held.enter_context(connected(client))
        assert happens(lambda: client.get("/healthz").status_code == 503)
        held.close()
        assert happens(lambda: client.get("/healthz").status_code == 200)


# Slow


@pytest.mark.parametrize("sent", [b"", b"GET /vie", b"GET /views HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_head_that_does_not_come_is_not_waited_for(session: sparqlive.Session, sent: bytes) -> None:
    with asked(session, header_seconds=0.5) as client, connected(client) as connection:
        begun = time.monotonic()
        stop = threading.Event()

        def trickle() -> None:
            """A byte at a time, so that the connection is never idle."""
            try:
                connection.sendall(sent)
                while sent and not stop.wait(0.1):
                    connection.sendall(b"x")
            except OSError:
                pass

        thread = threading.Thread(target=trickle)
        thread.start()
        assert rest_of(connection) == b""
        assert time.monotonic() - begun < 60
        stop.set()
        thread.join()


def test_a_second_head_on_a_connection_is_not_waited_for_either(session: sparqlive.Session) -> None:
    with asked(session, header_seconds=0.5) as client, connected(client) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /heal")
        assert rest_of(connection).count(b"HTTP/1.1 200 ") == 1


def test_a_body_that_does_not_come_is_408(session: sparqlive.Session) -> None:
    with asked(session, body_seconds=0.5) as client, connected(client) as connection:
        head = b"PUT /views/v HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"
        connection.sendall(head + b"Content-Length: 100\r\n\r\nSELECT")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
    assert not session.views


def test_a_body_whose_sender_leaves_changes_nothing(client: httpx.Client, session: sparqlive.Session) -> None:
    text = b"INSERT DATA { <http://x/a> <http://x/p> 1 }"
    with connected(client) as connection:
        head = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-update\r\n"
        connection.sendall(head + b"Content-Length: 1000\r\n\r\n" + text)
    assert client.get("/views").status_code == 200
    assert session.epoch == 0


# Nothing is left


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_streams_whose_readers_take_nothing_or_leave_are_let_go_of(session: sparqlive.Session) -> None:
    """Half of the readers stop reading, and half leave without a word."""
    session.view("v", QUERY)
    with asked(session, stall_seconds=1, progress_seconds=0.5) as client:
        client.get("/views")
        gc.collect()
        before, threads = files(), threading.active_count()
        ask = b"GET /views/v/changes HTTP/1.1\r\nHost: localhost\r\n\r\n"
        held = [connected(client) for _ in range(40)]
        for connection in held:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(ask)
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        for connection in held[20:]:
            connection.close()
        text = "x" * 100_000
        for number in range(60):
            session.apply(insert=f'<http://x/{number}> <http://x/p> "{text}" .')
        assert client.get("/views/v/statistics").json()["rows"] == 60
        agents = 'sparqlive_subscribers{view="v"}'
        assert happens(lambda: agents not in client.get("/metrics").text), "all are let go of"
        for connection in held:
            connection.close()
        assert happens(lambda: files() <= before), (files(), before)
        assert threading.active_count() <= threads + 8  # the agent's own, started when first needed


def test_hundreds_of_requests_of_all_kinds_leave_nothing(session: sparqlive.Session, tmp_path: Path) -> None:
    session.view("v", QUERY)
    _, secret = Tokens(tmp_path).create(["admin"])
    known, wrong = {"authorization": f"Bearer {secret}"}, {"authorization": "Bearer sparqlive_wrong"}

    def round_of(client: httpx.Client, number: int) -> None:
        assert client.get("/views/v", headers=known).status_code == 200
        assert client.get("/views/v", headers=wrong).status_code == 401
        assert client.get(f"/views/{number}", headers=known).status_code == 404
        assert client.post("/sparql", content="SELECT", headers={**SPARQL, **known}).status_code == 400
        assert client.post("/sparql", content=QUERY, headers={**SPARQL, **known}).status_code == 200
        view = f"/views/t{number}"
        assert client.put(view, content=QUERY, headers={**SPARQL, **known}).status_code == 201
        with reading(client, f"{view}/changes", known) as reader:
            assert reader.next().kind == "snapshot"
        assert client.delete(view, headers=known).status_code == 204

    agent = Agent(session, Settings(), Access(tmp_path))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        for number in range(10):
            round_of(client, number)
        gc.collect()
        before, memory = files(), psutil.Process().memory_info().rss
        for number in range(30):
            round_of(client, number)
        gc.collect()
        assert happens(lambda: files() <= before + 2), (files(), before)
        assert psutil.Process().memory_info().rss - memory < 30 << 20
        assert list(session.views) == ["v"]


def test_a_stream_ends_when_its_right_is_taken_back(session: sparqlive.Session, tmp_path: Path) -> None:
    session.view("v", QUERY)
    tokens = Tokens(tmp_path)
    agent = Agent(session, Settings(progress_seconds=0.5), Access(tmp_path))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as client:
        with reading(client, "/views/v/changes") as reader:
            assert reader.next().kind == "snapshot"
            _, secret = tokens.create(["read:view=v"], "ann")
            while (event := reader.next()).kind != "end":
                pass
            assert event.json["reason"] == "revoked", "somebody without a token, now that there are some"
        with reading(client, "/views/v/changes", {"authorization": f"Bearer {secret}"}) as reader:
            assert reader.next().kind == "snapshot"
            tokens.revoke("ann")
            while (event := reader.next()).kind != "end":
                pass
            assert event.json["reason"] == "revoked"


def test_subscriptions_beyond_a_number_are_429(session: sparqlive.Session, tmp_path: Path) -> None:
    session.view("v", QUERY)
    _, secret = Tokens(tmp_path).create(["read"], "ann", Limits(subscriptions=2))
    headers = {"authorization": f"Bearer {secret}"}
    agent = Agent(session, Settings(), Access(tmp_path))
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120, headers=headers) as client:
        with reading(client, "/views/v/changes"), reading(client, "/views/v/changes"):
            refused = client.get("/views/v/changes")
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "5"
            assert 'sparqlive_subscribers{view="v"} 2.0' in client.get("/metrics").text
        assert happens(lambda: 'sparqlive_subscribers{view="v"}' not in client.get("/metrics").text)
        with reading(client, "/views/v/changes") as reader:
            assert reader.next().kind == "snapshot"
