"""The page in a real browser: rows that come and go, plans, queries, keyboard, and nothing that is not ours.

After every test: no error in the browser's console, no violation of the Content-Security-Policy, and no
request to another host.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from tests.agent.conftest import serving
from tests.peers import chromium

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
expect.set_options(timeout=60_000)  # what is there is seen at once; a busy machine takes its time

_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PEOPLE = "SELECT ?who ?mail { ?who <http://x/mail> ?mail }"


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    command = chromium()
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=command, args=_OPTIONS)
        yield started
        started.close()


@pytest.fixture
def address(agent: Agent) -> Iterator[str]:
    with serving(agent) as given:
        yield given


@pytest.fixture
def page(browser: playwright.Browser, address: str) -> Iterator[playwright.Page]:
    """The page as it is opened; what goes wrong in it fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(60_000)
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(address) else None)
    opened.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('policy', e.violatedDirective))"
    )
    opened.goto(address)
    yield opened
    context.close()
    assert wrong == []


def mail(who: str, address: str) -> str:
    return f'<http://x/{who}> <http://x/mail> "{address}" .'


def rows(page: playwright.Page) -> playwright.Locator:
    return page.locator("table.rows tbody tr:not(.left)")


def test_views_with_their_rows(page: playwright.Page, session: sparqlive.Session) -> None:
    expect(page.get_by_role("heading", name="No view yet")).to_be_visible()
    session.apply(insert=mail("ann", "a@x"))
    session.view("people", PEOPLE)
    line = page.get_by_role("row", name="people")
    expect(line.get_by_role("cell").first).to_have_text("1")
    session.apply(insert=mail("bob", "b@x"))
    expect(line.get_by_role("cell").first).to_have_text("2")


def test_rows_enter_and_leave(page: playwright.Page, session: sparqlive.Session) -> None:
    session.apply(insert=mail("ann", "a@x"))
    session.view("people", PEOPLE)
    page.get_by_role("link", name="people").click()
    expect(rows(page)).to_have_count(1)
    session.apply(insert=mail("bob", "b@x"))
    expect(page.locator("tr.entered")).to_contain_text("b@x")
    expect(page.locator(".summary")).to_have_text("2 rows")
    session.apply(delete=mail("ann", "a@x"))
    expect(page.locator("tr.left")).to_contain_text("a@x")
    expect(rows(page)).to_have_count(1)
    expect(page.locator("tr.left")).to_have_count(0)
    expect(page.locator("tr.entered")).to_have_count(0)


def test_terms_are_text(page: playwright.Page, session: sparqlive.Session) -> None:
    bad = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    session.apply(insert=mail("ann", bad))
    session.view("people", PEOPLE)
    page.get_by_role("link", name="people").click()
    expect(rows(page)).to_contain_text(bad)
    assert page.locator("main img, main script").count() == 0
