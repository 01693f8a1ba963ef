"""What a person does with views, sources and files, and with which rights; first steps with sample data."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyoxigraph import NamedNode

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Limits, Tokens
from sparqlive.sources.watcher import KINDS
from tests.agent.conftest import serving
from tests.agent.page.browsing import PEOPLE, Browser, Page, expect, go, mail, opened, problem, rows


@pytest.fixture
def agent(session: sparqlive.Session) -> Agent:
    return Agent(session, Settings(allow_private=True))


def test_three_clicks_lead_to_a_live_view(page: Page, session: sparqlive.Session) -> None:
    page.get_by_role("button", name="Load the sample shop").click()
    page.get_by_role("button", name="Create the view bargains").click()
    expect(page.get_by_role("heading", name="bargains")).to_be_visible()
    expect(rows(page).first).to_contain_text("Walnut desk")
    page.get_by_role("button", name="Change some prices and stock").click()
    expect(page.get_by_text("epoch 2", exact=True)).to_be_visible()
    assert list(session.views) == ["bargains"]
    assert len(session.query("SELECT ?p { ?p a <http://example.org/shop/Product> }").solutions()) == 42


def test_a_sample_is_a_number(page: Page) -> None:
    page.get_by_role("button", name="Load the sample shop").click()
    page.get_by_role("button", name="Create the view value-of-stock").click()
    expect(page.locator(".figure")).to_have_text("12,100")


def test_a_view_is_dropped_after_a_question(page: Page, session: sparqlive.Session) -> None:
    session.view("people", PEOPLE)
    go(page, "#/views/people")
    page.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "people" in session.views
    page.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop").click()
    expect(page.get_by_role("heading", name="Views", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="No views yet")).to_be_visible()
    assert not session.views


def test_sources_are_added_checked_and_removed(
    page: Page, session: sparqlive.Session, tmp_path: Path
) -> None:
    go(page, "#/sources")
    kinds = page.get_by_label("Kind").locator("option")
    expect(kinds).to_have_count(len(KINDS))
    assert sorted(kinds.evaluate_all("all => all.map((o) => o.value)")) == sorted(KINDS)
    file = tmp_path / "some.nt"
    file.write_text(mail("ann", "a@x"))
    page.get_by_label("Kind").select_option("file")
    page.get_by_label("Address").fill(str(file))
    page.get_by_label("Name").fill("some")
    page.get_by_label("Options, one per line").fill("poll_interval_seconds=3000\nwhen_missing=clear")
    page.get_by_role("button", name="Add source").click()
    line = page.get_by_role("row", name="some")
    expect(line).to_contain_text("watched")
    assert session.sources["some"].options == {"poll_interval_seconds": 3000, "when_missing": "clear"}
    file.write_text(mail("ann", "a@x") + "\n" + mail("bob", "b@x"))
    page.get_by_role("button", name="Check now: some").click()
    expect(line.get_by_role("cell").nth(2)).to_have_text("2")
    page.get_by_role("button", name="Remove: some").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="No sources yet")).to_be_visible()
    assert not session.sources
    page.get_by_label("Address").fill("nowhere")
    page.get_by_label("Options, one per line").fill("no such thing")
    page.get_by_role("button", name="Add source").click()
    expect(problem(page)).to_contain_text("name=value")


def test_files_are_loaded(page: Page, session: sparqlive.Session) -> None:
    go(page, "#/sources")
    turtle = b"<http://x/a> <http://x/p> 1, 2 ."
    page.get_by_label("Files", exact=True).set_input_files(
        [
            {"name": "a.ttl", "mimeType": "", "buffer": turtle},
            {"name": "b.nt.gz", "mimeType": "", "buffer": gzip.compress(b"<http://x/b> <http://x/p> _:x .")},
            {"name": "c.ttl", "mimeType": "", "buffer": b"<http://x/a> <"},
            {"name": "d.txt", "mimeType": "", "buffer": b""},
            {
                "name": "e.nq",
                "mimeType": "",
                "buffer": b"<http://x/e> <http://x/p> <http://x/o> <http://x/g> .",
            },
            {"name": "f.jsonld", "mimeType": "", "buffer": b'{"@id": "http://x/f", "http://x/p": 1}'},
        ]
    )
    loaded = page.locator(".loaded li")
    expect(loaded.filter(has_text="a.ttl")).to_contain_text("2 new quads")
    expect(loaded.filter(has_text="b.nt.gz")).to_contain_text("1 new quad ")
    expect(loaded.filter(has_text="c.ttl").locator(".bad")).to_be_visible()
    expect(loaded.filter(has_text="d.txt")).to_contain_text("Unknown ending")
    expect(loaded.filter(has_text="e.nq")).to_contain_text("1 new quad ")
    expect(loaded.filter(has_text="f.jsonld")).to_contain_text("1 new quad ")
    page.get_by_label("Into graph").fill("http://x/graph")
    page.evaluate(
        """(text) => {
          const data = new DataTransfer();
          data.items.add(new File([text], "dropped.ttl"));
          const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true });
          document.querySelector(".drop").dispatchEvent(drop);
        }""",
        turtle.decode(),
    )
    expect(loaded.filter(has_text="dropped.ttl")).to_contain_text("2 new quads")
    graphs = {graph.value for graph in session.graphs() if isinstance(graph, NamedNode)}
    assert graphs == {"http://x/g", "http://x/graph"}


def test_errors_and_limits_are_seen(page: Page, session: sparqlive.Session, tmp_path: Path) -> None:
    go(page, "#/status")
    expect(page.get_by_text("All views and sources are fine.")).to_be_visible()
    expect(page.get_by_role("row", name="Time of a query")).to_contain_text("30 s")
    expect(page.get_by_role("row", name="What waits for all readers")).to_contain_text("268 MB")
    expect(page.get_by_role("listitem").filter(has_text="service")).to_contain_text("ask other endpoints")
    session.source("file", str(tmp_path / "none.nt"), name="none")
    expect(page.locator(".faults")).to_contain_text("Source none")


CONTROLS = {  # by place, with a sign that the place is there
    ("#/views", "table.views tbody tr"): ("New view",),
    ("#/views/people", "table.rows"): ("Edit", "Drop", "Refresh"),
    ("#/query", ".code"): ("Register",),
    ("#/sources", "table.sources tbody tr"): ("Add source", "Remove: some", "Check now: some"),
}


@pytest.mark.parametrize(
    ("rights", "seen"),
    [
        (("read",), set()),
        (("read", "write"), {"Refresh", "Check now: some"}),
        (("admin",), {name for names in CONTROLS.values() for name in names}),
    ],
)
def test_only_what_a_token_may_do_is_offered(
    browser: Browser, session: sparqlive.Session, tmp_path: Path, rights: tuple[str, ...], seen: set[str]
) -> None:
    session.view("people", PEOPLE, refresh="manual")
    (tmp_path / "some.nt").write_text(mail("ann", "a@x"))
    session.source("file", str(tmp_path / "some.nt"), name="some")
    _, secret = Tokens(tmp_path).create(rights, "ann", Limits(query_seconds=2))
    with serving(Agent(session, Settings(), Access(tmp_path))) as address, opened(browser, address) as page:
        page.get_by_label("Token", exact=True).fill(secret)
        page.keyboard.press("Enter")
        for (place, sign), names in CONTROLS.items():
            go(page, place)
            expect(page.locator(sign).first).to_be_visible()
            for name in names:
                control = page.get_by_role("button", name=name, exact=True)
                control = control.or_(page.get_by_role("link", name=name, exact=True))
                expect(control).to_have_count(int(name in seen))
        expect(page.get_by_label("Files", exact=True)).to_have_count(int(rights != ("read",)))
        go(page, "#/query")
        page.get_by_label("SPARQL query").fill("DELETE WHERE { ?s ?p ?o }")
        expect(page.get_by_role("button", name="Run update")).to_be_enabled(enabled=rights != ("read",))
        go(page, "#/status")
        expect(page.get_by_text("The token ann may:")).to_be_visible()
        expect(page.get_by_role("row", name="Time of a query").first).to_contain_text("2.0 s")


def test_a_token_for_one_view_sees_that_view(
    browser: Browser, session: sparqlive.Session, tmp_path: Path
) -> None:
    session.view("people", PEOPLE)
    session.apply(insert=mail("ann", "a@x"))
    _, secret = Tokens(tmp_path).create(["read:view=people"])
    with (
        serving(Agent(session, Settings(), Access(tmp_path))) as address,
        opened(browser, address, "#/views/people") as page,
    ):
        page.get_by_label("Token", exact=True).fill(secret)
        page.keyboard.press("Enter")
        expect(rows(page)).to_have_text("…/anna@x")
        expect(rows(page).get_by_role("link")).to_have_count(0)  # it may not ask what else is known
        session.apply(insert=mail("bob", "b@x"))
        expect(rows(page)).to_have_count(2)
