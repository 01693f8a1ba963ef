"""What the tests of the page share: how the browser starts, and how they find things on the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.waiting import PATIENCE_SECONDS, wait_until

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
PATIENCE = PATIENCE_SECONDS * 1000
expect.set_options(timeout=PATIENCE)
Browser, Context = playwright.Browser, playwright.BrowserContext
Locator, Page = playwright.Locator, playwright.Page

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
PEOPLE = "SELECT ?who ?mail { ?who <http://x/mail> ?mail }"

# Remembers what is shown only for a moment: on a busy machine, a test looks when the moment is over.
MOMENTS = """
window.moments = [];
new MutationObserver(() => {
  for (const node of document.querySelectorAll("tr.entered, tr.left, button")) {
    const moment = `${node.className} ${node.textContent}`;
    if (moments.at(-1) !== moment) moments.push(moment);
  }
}).observe(document, { subtree: true, childList: true, characterData: true, attributeFilter: ["class"] });
"""


@contextmanager
def patient(browser: Browser, **options: Any) -> Iterator[Context]:
    """A context of the browser whose pages wait as long as a busy machine may take."""
    with browser.new_context(**options) as context:
        context.set_default_timeout(PATIENCE)
        context.add_init_script(MOMENTS)
        yield context


@contextmanager
def opened(browser: Browser, address: str, place: str = "", **options: Any) -> Iterator[Page]:
    """The page at an address. Errors in its console, violations of its policy and foreign requests fail."""
    settings = {"viewport": {"width": 1280, "height": 800}, **options}
    with patient(browser, **settings) as context:
        page = context.new_page()
        wrong: list[str] = []
        page.on("console", lambda said: wrong.append(said.text) if _is_wrong(said) else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if _is_own(asked.url, address) else wrong.append(asked.url))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) =>"
            " console.error('policy', event.violatedDirective))"
        )
        page.goto(f"{address}/{place}")
        yield page
    assert wrong == []


def _is_wrong(said: Any) -> bool:
    """Whether the console has an error of the page; the browser also reports statuses like 400."""
    return said.type in ("error", "warning") and "responded with a status" not in said.text


def _is_own(url: str, address: str) -> bool:
    return url.startswith((address, f"blob:{address}"))


def mail(who: str, address: str) -> str:
    return f'<http://x/{who}> <http://x/mail> "{address}" .'


def rows(page: Page) -> Locator:
    return page.locator("table.rows tbody tr:not(.left)")


def flashed(page: Page, *words: str) -> None:
    """Waits until a row was marked as entered or left, or a button had a text, if only for a moment."""
    wait_until(
        lambda: page.evaluate("(words) => moments.some((one) => words.every((w) => one.includes(w)))", words)
    )


def problem(page: Page) -> Locator:
    return page.get_by_role("alert").filter(visible=True)


def go(page: Page, place: str) -> None:
    """Goes to another place of the page without loading it again."""
    page.evaluate("(place) => { location.hash = place }", place)
