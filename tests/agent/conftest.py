"""A running agent: a real server on a free port of this machine, in a thread, and a client that asks it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.app import make_app
from sparqlive.agent.serve import Listening, configuration
from sparqlive.agent.settings import Settings


class Server(uvicorn.Server):
    """Stops as the one of `sparqlive serve` does; the session stays open."""

    def __init__(self, agent: Agent) -> None:
        config = configuration(make_app(agent), agent.settings, Listening(), lifespan="on")
        super().__init__(config)
        self._agent = agent

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._agent.stopping.set()
        await super().shutdown(sockets)


@contextmanager
def serving(agent: Agent, port: int = 0) -> Iterator[str]:
    """The address of a server that answers for an agent while the block runs."""
    listening = socket.create_server(("127.0.0.1", port))
    server = Server(agent)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(120)
        listening.close()
        assert not thread.is_alive()


@pytest.fixture
def session() -> Iterator[sparqlive.Session]:
    with sparqlive.open(default_graph="union") as opened:
        yield opened


@pytest.fixture
def agent(session: sparqlive.Session) -> Agent:
    return Agent(session, Settings())


@pytest.fixture
def client(agent: Agent) -> Iterator[httpx.Client]:
    with serving(agent) as address, httpx.Client(base_url=address, timeout=120) as made:
        yield made
