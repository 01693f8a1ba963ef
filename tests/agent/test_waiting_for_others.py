"""Work that waits for other servers: it has limits, and nothing else waits for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Limits, Tokens
from sparqlive.sparql.syntax import parse_query, parse_update
from tests.agent.conftest import serving
from tests.waiting import wait_until

UPDATE = {"content-type": "application/sparql-update"}
QUERY = {"content-type": "application/sparql-query"}


# The first ones of a process take longer than some limits here.
parse_update("CLEAR ALL")
parse_query("ASK {}")


class Dripping:
    """A server that begins to respond, sends a byte now and then, and never ends."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self._connections: list[socket.socket] = []
        self._ended = threading.Event()
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._accept, self._drip)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def asked(self) -> int:
        return len(self._connections)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/turtle\r\nContent-Length: 1000000\r\n\r\n"
            )
            self._connections.append(connection)

    def _drip(self) -> None:
        while not self._ended.wait(0.2):
            for connection in list(self._connections):
                with suppress(OSError):
                    connection.sendall(b"#")

    def end(self) -> None:
        self._ended.set()
        self._listening.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._listening.close()
        for connection in self._connections:
            connection.close()
        for thread in self._threads:
            thread.join(60)


@contextmanager
def dripping() -> Iterator[Dripping]:
    server = Dripping()
    try:
        yield server
    finally:
        server.end()


def load(address: str, slow: str, number: int) -> httpx.Response:
    return httpx.post(f"{address}/sparql", content=f"LOAD <{slow}/{number}>", headers=UPDATE, timeout=300)


def escaped_load(address: str, slow: str, number: int) -> httpx.Response:
    text = f"\\u004cOAD <{slow}/{number}> INTO GRAPH <x:g>"
    return httpx.post(f"{address}/sparql", content=text, headers=UPDATE, timeout=300)


def service(address: str, slow: str, number: int) -> httpx.Response:
    text = f"SELECT * {{ Service <{slow}/{number}> {{ ?s ?p ?o }} }}"
    return httpx.post(f"{address}/sparql", content=text, headers=QUERY, timeout=300)


def refresh(address: str, slow: str, number: int) -> httpx.Response:
    of = f"{slow}/{number}"
    asked = {"kind": "web", "address": of, "options": {"allow_private": True}}
    assert httpx.post(f"{address}/sources", json=asked, timeout=300).status_code == 201
    return httpx.post(f"{address}/sources/{quote(of, safe='')}/refresh", timeout=300)


@pytest.mark.parametrize("ask", [load, escaped_load, service, refresh])
def test_nothing_waits_for_work_that_waits(session: sparqlive.Session, ask: Any) -> None:
    """Twelve requests wait for a server that never ends. Without threads of their own, nobody is answered."""
    settings = Settings(query_seconds=600, allow_private=True)
    with (
        serving(Agent(session, settings)) as address,
        ThreadPoolExecutor(12) as threads,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        with dripping() as slow:
            waiting = [threads.submit(ask, address, slow.address, number) for number in range(12)]
            wait_until(lambda: slow.asked >= settings.queries)
            for round_ in range(2):
                for path in (
                    "/healthz",
                    "/readyz",
                    "/metrics",
                    "/views",
                    "/sources",
                    "/epochs",
                    "/openapi.json",
                ):
                    assert client.get(path).status_code == 200, path
                text = f"INSERT DATA {{ <x:s{round_}> <x:p> 1 }}"
                assert client.post("/sparql", content=text, headers=UPDATE).status_code == 200
                found = client.get("/sparql", params={"query": "SELECT ?s { ?s <x:p> 1 }", "format": "csv"})
                assert len(found.text.split()) == round_ + 2
                view = client.put(f"/views/v{round_}", content="SELECT ?s { ?s <x:p> ?o }", headers=QUERY)
                assert view.status_code == 201
                assert client.get(f"/views/v{round_}").status_code == 200
        assert {outcome(one) for one in waiting} <= {400, 502}


def outcome(one: Future[httpx.Response]) -> int:
    return one.result(timeout=300).status_code


def test_a_load_ends_with_the_time_of_its_request(session: sparqlive.Session) -> None:
    settings = Settings(query_seconds=600, allow_private=True)
    with dripping() as slow, serving(Agent(session, settings)) as address:
        url = f"{address}/sparql?timeout=3"
        plain = httpx.post(
            url,
            content=f"INSERT DATA {{ <x:a> <x:p> 1 }} ; LOAD <{slow.address}/>",
            headers=UPDATE,
            timeout=300,
        )
        assert plain.status_code == 503
        assert "exceeded its time limit of 3 s and was stopped" in plain.json()["detail"]
        assert session.epoch == 0
        several = "".join(f"LOAD SILENT <{slow.address}/{number}> ;" for number in range(50))
        silent = httpx.post(
            url, content=f"{several} INSERT DATA {{ <x:b> <x:p> 1 }}", headers=UPDATE, timeout=300
        )
        assert silent.json() == {"epoch": 1, "inserted": 1, "deleted": 0, "ignored": 0}
        # All documents share the time: without that, 50 of them would take 50 times as long.
        assert slow.asked < 20


def test_a_load_ends_with_the_time_of_its_token(session: sparqlive.Session, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.create(["write", "admin"], "hasty", Limits(query_seconds=0.5))
    settings = Settings(query_seconds=600, allow_private=True)
    headers = {"authorization": f"Bearer {secret}"}
    with (
        dripping() as slow,
        serving(Agent(session, settings, Access(tmp_path))) as address,
        httpx.Client(base_url=address, timeout=300, headers=headers) as client,
    ):
        stopped = client.post("/sparql", content=f"LOAD <{slow.address}/>", headers=UPDATE)
        assert stopped.status_code == 503
        assert "time limit of 0.5 s" in stopped.json()["detail"]
        added = client.post(
            "/sources",
            json={"kind": "web", "name": "slow", "address": slow.address, "options": {"allow_private": True}},
        )
        assert added.status_code == 201
        looked = client.post("/sources/slow/refresh")
        assert looked.status_code == 502
        assert "did not respond within 0.5 s" in looked.json()["detail"]


def test_a_load_ends_when_its_client_leaves(session: sparqlive.Session) -> None:
    agent = Agent(session, Settings(query_seconds=600, queries=1, allow_private=True))
    with dripping() as slow, serving(agent) as address:
        text = f"LOAD <{slow.address}/>".encode()
        head = f"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: {UPDATE['content-type']}\r\n"
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as leaving:
            leaving.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)
            wait_until(lambda: slow.asked == 1)
        # The only thread for such work is free again.
        failed = httpx.post(f"{address}/sparql?timeout=3", content=text, headers=UPDATE, timeout=300)
        assert failed.status_code == 503
        assert slow.asked == 2


def test_a_session_has_a_limit_for_its_loads_too() -> None:
    with dripping() as slow, sparqlive.open() as session:
        with pytest.raises(sparqlive.Timeout, match=r"LOAD <.*>: Fetching .* time limit of 3 s"):
            session.update(f"LOAD <{slow.address}/>", allow_private=True, timeout_seconds=3)
        done = session.update(f"LOAD SILENT <{slow.address}/>", allow_private=True, timeout_seconds=3)
        assert done.inserted == 0
