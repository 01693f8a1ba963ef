"""A site and a Solid server on this machine for the tests of sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from examples.watch_party.server import SolidServer, solid_server
from tests import peers
from tests.sources.relay import Relay, relay
from tests.sources.server import Site, serve, unused_port


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as found:
        yield found


class Pods:
    """A Solid server that keeps all in memory, and the relay in front of it, whose addresses it has."""

    def __init__(self, command: Sequence[str], relay: Relay) -> None:
        self.relay = relay
        self.address = f"http://localhost:{relay.port}/"
        self.server = SolidServer(self.address)
        self._command = command
        self._running = ExitStack()

    def start(self) -> None:
        self._running.enter_context(solid_server(self._command, self.relay.target, self.address))

    def stop(self) -> None:
        self._running.close()


@pytest.fixture(scope="session")
def pods() -> Iterator[Pods]:
    """One for all tests: it takes a while to start."""
    command = peers.solid_server()
    with relay(unused_port(), unused_port()) as between:
        found = Pods(command, between)
        found.start()
        yield found
        found.stop()
