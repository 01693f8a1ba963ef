"""A site and a Solid server on this machine for the tests of sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples.watch_party.server import SolidServer, solid_server
from tests import peers
from tests.sources.relay import Relay, relay
from tests.sources.server import Site, serve, unused_port


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as found:
        yield found


@pytest.fixture(scope="session")
def pods() -> Iterator[tuple[SolidServer, Relay]]:
    """A server for all tests; its addresses are those of the relay."""
    command, front, back = peers.solid_server(), unused_port(), unused_port()
    address = f"http://localhost:{front}/"
    with solid_server(command, back, address) as server, relay(front, back) as between:
        yield server, between
