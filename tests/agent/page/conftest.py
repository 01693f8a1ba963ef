"""One browser for all tests of the page, and an agent per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparqlive.agent.agent import Agent
from tests.agent.conftest import serving
from tests.agent.page.browsing import OPTIONS, Browser, Page, opened, playwright
from tests.peers import chromium


@pytest.fixture(scope="package")  # its driver holds an event loop, which other tests must not find running
def browser() -> Iterator[Browser]:
    command = chromium()
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=command, args=OPTIONS)
        yield started
        started.close()


@pytest.fixture
def address(agent: Agent) -> Iterator[str]:
    with serving(agent) as given:
        yield given


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address) as one:
        yield one
