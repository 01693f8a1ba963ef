"""Every place of the page, light and dark, narrow and wide: axe-core finds nothing, nothing sticks out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from tests.agent.conftest import serving
from tests.agent.page.browsing import PEOPLE, RDF_TYPE, Browser, Page, expect, go, mail, patient
from tests.peers import axe

PLACES = {
    "#/views": "table.views tbody tr",
    "#/views/people": "table.rows tbody tr",
    "#/views/people/plan": "svg.plan .box",
    "#/views/people/query": "pre.query",
    "#/views/kinds/chart": ".bars tr",
    "#/views/kinds/chart?kind=number": ".figure",
    "#/views/kinds/chart?kind=line&x=kind&y=n": "svg.line .head",
    "#/query": ".code",
    "#/sources": "table.sources tbody tr",
    "#/epochs": "table.epochs tbody tr",
    "#/status": ".limits tr",
    "#/describe?iri=http%3A%2F%2Fx%2Fann": "table.rows tbody tr",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An agent that has something to show at every place."""
    with sparqlive.open(default_graph="union") as session, serving(Agent(session)) as address:
        session.view("people", PEOPLE)
        session.view("kinds", "SELECT ?kind (COUNT(*) AS ?n) { ?who a ?kind } GROUP BY ?kind")
        file = tmp_path_factory.mktemp("source") / "some.nt"
        file.write_text(mail("eve", "e@x"))
        session.source("file", str(file), name="some")
        session.source("file", str(file.with_name("none.nt")), name="none")
        session.apply(insert=mail("ann", "a@x" * 60))
        session.apply(insert=f"<http://x/ann> <{RDF_TYPE}> <http://x/Person> .\n{mail('bob', 'b@x')}")
        session.apply(insert=f"<http://x/bob> <{RDF_TYPE}> <http://x/Robot> .")
        yield address


@pytest.fixture(scope="module")
def empty() -> Iterator[str]:
    with sparqlive.open() as session, serving(Agent(session)) as address:
        yield address


def check(page: Page) -> None:
    """Nothing that axe-core finds, and nothing that sticks out of the window."""
    page.wait_for_function("document.getAnimations().every((one) => one.playState !== 'running')")
    found = page.evaluate(
        """async () => (await axe.run(document)).violations.map(({ id, impact, nodes }) =>
          [impact, id, ...nodes.slice(0, 3).map((node) => node.html + node.failureSummary)])"""
    )
    assert found == [], page.url
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_every_place_is_accessible(
    browser: Browser, filled: str, empty: str, scheme: str, width: int
) -> None:
    script = axe()
    size = {"width": width, "height": 844}
    with patient(
        browser, viewport=size, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True
    ) as context:
        page = context.new_page()
        page.goto(filled)
        page.evaluate(script)
        for place, sign in PLACES.items():
            go(page, place)
            expect(page.locator(sign).first).to_be_visible()
            check(page)
        try_query(page)
        page.goto(f"{filled}/chart#view=kinds&kind=bar")
        expect(page.locator(".bars tr").first).to_be_visible()
        page.evaluate(script)
        check(page)
        page.goto(empty)
        expect(page.get_by_role("button", name="Load the sample shop")).to_be_visible()
        page.evaluate(script)
        check(page)


def try_query(page: Page) -> None:
    """An answer, an error, suggestions and a question, each of them checked."""
    go(page, "#/query")
    editor = page.get_by_label("SPARQL query")
    editor.fill(PEOPLE)
    editor.press("Control+Enter")
    expect(page.locator("table.rows tbody tr").first).to_be_visible()
    check(page)
    editor.fill("SELECT ?s {\n ?s ?p }")
    editor.press("Control+Enter")
    expect(page.locator(".wrong")).to_be_visible()
    check(page)
    editor.fill("SELECT * { ?s ")
    editor.press("Control+Space")
    expect(page.get_by_role("listbox", name="Suggestions").get_by_role("option").first).to_be_visible()
    check(page)
    go(page, "#/views/people")
    page.get_by_role("button", name="Drop").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check(page)
    page.keyboard.press("Escape")


def test_motion_is_reduced_where_people_ask_for_it(browser: Browser, filled: str) -> None:
    with patient(browser, reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(f"{filled}/#/views/kinds/chart")
        expect(page.locator(".bars .length").first).to_have_css("transition-duration", "0s")


@pytest.mark.parametrize("place", ["#/sources", "#/epochs"])
def test_a_phone_shows_all_columns(browser: Browser, filled: str, place: str) -> None:
    with patient(browser, viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto(f"{filled}/{place}")
        cells = page.locator(".scroll tbody tr").first.locator("th, td")
        expect(cells.first).to_be_visible()
        boxes = [cell.bounding_box() for cell in cells.all()]
        assert len(boxes) == page.locator(".scroll thead th").count()
        assert all(box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
        assert page.locator(".scroll").evaluate("(node) => node.scrollWidth <= node.clientWidth")
        assert page.locator(".scroll").get_by_role("rowheader").count() > 1
