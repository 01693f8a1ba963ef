"""A site on this machine for the tests of sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sources.server import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as found:
        yield found
