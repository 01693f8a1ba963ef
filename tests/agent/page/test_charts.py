"""Charts that move with the changes of a view, on the page and alone on a page that others can embed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving
from tests.agent.page.browsing import (
    Browser,
    Locator,
    Page,
    expect,
    flashed,
    go,
    opened,
    patient,
    problem,
)
from tests.waiting import wait_until

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
DATE = "http://www.w3.org/2001/XMLSchema#date"
BY_KIND = "SELECT ?kind (COUNT(*) AS ?items) { ?item <http://x/kind> ?kind } GROUP BY ?kind"
BY_DAY = "SELECT ?day (COUNT(*) AS ?items) { ?item <http://x/day> ?day } GROUP BY ?day"


def kinds(**numbers: int) -> str:
    return "\n".join(
        f'<http://x/{kind}{number}> <http://x/kind> "{kind}" .'
        for kind, count in numbers.items()
        for number in range(count)
    )


def bars(page: Page) -> Locator:
    return page.locator(".bars tr")


def widths(page: Page) -> list[float]:
    lengths: list[float] = page.locator(".bars .length").evaluate_all(
        "(bars) => bars.map((bar) => bar.getBoundingClientRect().width)"
    )
    return lengths


def test_bars_move_with_the_changes(page: Page, session: sparqlive.Session) -> None:
    session.view("kinds", BY_KIND)
    session.apply(insert=kinds(tea=3, coffee=2))
    go(page, "#/views/kinds/chart")
    expect(bars(page)).to_have_text(["tea3", "coffee2"])
    expect(page.get_by_label("Show as")).to_have_value("bar")
    session.apply(insert=kinds(coffee=5, water=1))
    expect(bars(page)).to_have_text(["coffee5", "tea3", "water1"])
    wait_until(
        lambda: (drawn := widths(page)) == sorted(drawn, reverse=True)
    )  # they move to their new lengths
    session.apply(delete=kinds(tea=3))
    expect(bars(page)).to_have_text(["coffee5", "water1"])


def test_words_beside_bars_are_not_broken(page: Page, session: sparqlive.Session) -> None:
    session.view("kinds", BY_KIND)
    session.apply(insert=kinds(Netherlands=3, Luxembourg=2))
    go(page, "#/views/kinds/chart?kind=bar")
    expect(bars(page)).to_have_count(2)
    lines = page.locator(".bars th").evaluate_all(
        "(names) => names.map((name) => { const range = new Range(); range.selectNodeContents(name);"
        " return range.getClientRects().length; })"
    )
    assert lines == [1, 1]


def test_one_number_moves_with_the_changes(page: Page, session: sparqlive.Session) -> None:
    session.view("all", "SELECT (COUNT(*) AS ?n) { ?item <http://x/kind> ?kind }")
    go(page, "#/views/all/chart")
    figure = page.locator(".figure")
    expect(figure).to_have_text("0")
    session.apply(insert=kinds(tea=1200))
    expect(figure).to_have_text("1,200")
    expect(page.locator(".change")).to_have_text("▲ +1,200")
    session.apply(delete=kinds(tea=1))
    expect(figure).to_have_text("1,199")
    expect(page.locator(".change")).to_have_text("▼ −1")
    expect(page.get_by_role("img", name="all, ?n:")).to_be_visible()  # its past, as a line


def test_a_line_along_time_and_other_choices(page: Page, session: sparqlive.Session) -> None:
    session.view("days", BY_DAY)
    day = '<http://x/{}> <http://x/day> "2026-01-0{}"^^<' + DATE + "> ."
    session.apply(insert="\n".join(day.format(number, 1 + number % 4) for number in range(9)))
    go(page, "#/views/days/chart")
    line = page.get_by_role("img", name="days, ?items by ?day: 4 points from 2 to 3, last 2")
    expect(line).to_be_visible()
    session.apply(insert=day.format(100, 5))
    expect(page.get_by_role("img", name="5 points from 1 to 3, last 1")).to_be_visible()
    page.get_by_label("Value").select_option("number of rows")
    expect(page.get_by_role("img", name="days, number of rows by ?day")).to_be_visible()
    page.get_by_label("Show as").select_option("Bars")
    expect(bars(page)).to_have_count(5)
    page.reload()  # the choice is in the address
    expect(bars(page)).to_have_count(5)
    page.get_by_label("Show as").select_option("Line")
    page.get_by_label("Along").select_option("time, from now on")
    expect(page.get_by_role("img", name="days, number of rows: ")).to_be_visible()


def test_a_large_view_comes_in_parts_and_one_that_is_too_large_says_what_to_do(
    page: Page, session: sparqlive.Session
) -> None:
    session.view("items", "SELECT ?item { ?item <http://x/kind> ?kind }")
    session.apply(insert=kinds(tea=9_000))
    go(page, "#/views/items/chart")
    expect(page.locator(".figure")).to_have_text("9,000")
    session.apply(insert=kinds(coffee=9_000))
    expect(page.locator(".figure")).to_have_text("18,000")
    session.apply(insert=kinds(water=2_001))
    page.reload()
    expect(problem(page)).to_contain_text("20,001 rows")


def test_a_page_with_only_the_chart(
    page: Page, browser: Browser, session: sparqlive.Session, address: str
) -> None:
    session.view("kinds", BY_KIND)
    session.apply(insert=kinds(tea=3, coffee=2))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    go(page, "#/views/kinds/chart")
    expect(bars(page)).to_have_count(2)
    page.get_by_text("Embed this chart").click()
    page.get_by_role("button", name="Copy address").click()
    flashed(page, "Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{address}/chart#view=kinds&")
    with opened(browser, address, link.removeprefix(f"{address}/")) as chart:
        expect(bars(chart)).to_have_text(["tea3", "coffee2"])
        expect(chart.get_by_role("heading", name="kinds")).to_be_visible()
        session.apply(insert=kinds(coffee=4))
        expect(bars(chart)).to_have_text(["coffee4", "tea3"])
        expect(chart.get_by_role("button")).to_have_count(0)
        session.view("kinds", BY_KIND + " HAVING (?items > 3)", replace=True)
        expect(bars(chart)).to_have_text(["coffee4"])
        session.drop("kinds")
        expect(problem(chart)).to_contain_text("dropped")


@contextmanager
def elsewhere(directory: Path) -> Iterator[str]:
    """The origin of another site, which shows the files of a directory."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("allowed", [True, False])
def test_other_pages_embed_a_chart_if_they_are_allowed(
    browser: Browser, session: sparqlive.Session, tmp_path: Path, allowed: bool
) -> None:
    """With a token for one view in the part of the address that browsers do not send."""
    session.view("kinds", BY_KIND)
    session.apply(insert=kinds(tea=3))
    _, secret = Tokens(tmp_path).create(["read:view=kinds"])
    (tmp_path / "site").mkdir()
    with elsewhere(tmp_path / "site") as site:
        origins = (site,) if allowed else ()
        agent = Agent(session, Settings(origins=origins), Access(tmp_path, allowed=origins))
        with serving(agent) as address, patient(browser) as context:
            source = f"{address}/chart#view=kinds&kind=bar&token={secret}"
            (tmp_path / "site" / "index.html").write_text(f"<iframe src='{source}'></iframe>")
            page = context.new_page()
            with page.expect_response(f"{address}/chart") as answer:
                page.goto(site)
            frame = page.frame_locator("iframe")
            if allowed:
                expect(frame.locator(".bars tr")).to_have_text("tea3")
                session.apply(insert=kinds(coffee=1))
                expect(frame.locator(".bars tr")).to_have_count(2)
            else:
                assert answer.value.status == 403
