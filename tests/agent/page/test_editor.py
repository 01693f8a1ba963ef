"""The query editor: colours, completion, errors at their place, cancelling, updates, tabs and links."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.page.browsing import (
    RDF_TYPE,
    Browser,
    Locator,
    Page,
    expect,
    flashed,
    mail,
    opened,
    problem,
    rows,
)
from tests.waiting import wait_until

FOAF = "http://xmlns.com/foaf/0.1/"
DATA = [
    f'<http://x/ann> <{FOAF}name> "Ann" .',
    f"<http://x/ann> <{RDF_TYPE}> <{FOAF}Person> .",
    mail("ann", "a@x"),
]


@pytest.fixture
def agent(session: sparqlive.Session) -> Agent:
    return Agent(session, Settings(query_seconds=300))


@pytest.fixture
def page(browser: Browser, address: str, session: sparqlive.Session) -> Iterator[Page]:
    session.apply(insert="\n".join(DATA))
    with opened(browser, address, "#/query") as one:
        yield one


def editor(page: Page) -> Locator:
    return page.get_by_label("SPARQL query")


def suggested(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Suggestions").get_by_role("option")


def write(page: Page, text: str) -> None:
    """Types a text into an empty editor, key by key."""
    editor(page).fill("")
    editor(page).press_sequentially(text)


def test_the_text_is_coloured(page: Page) -> None:
    editor(page).fill('# all\nSELECT ?who { ?who <http://x/mail> "a@x"@en . FILTER(STRLEN(?who) > 4) }')
    for kind, text in {
        "comment": "# all",
        "keyword": "SELECT",
        "variable": "?who",
        "iri": "<http://x/mail>",
        "string": '"a@x"',
        "language": "@en",
        "function": "STRLEN",
        "number": "4",
    }.items():
        expect(page.locator(f".sparql .{kind}").first).to_have_text(text)
    # The coloured text lies exactly behind the one that is edited, also with long lines.
    editor(page).fill("SELECT ?long {\n" + "?aVariable ?another ?third . " * 40 + "}\n")
    wait_until(lambda: editor(page).bounding_box() == page.locator(".code pre").bounding_box())
    page.wait_for_function(
        "new Set([...document.querySelectorAll('.code > *')].map((node) => node.scrollHeight)).size === 1"
    )


def test_completion_knows_prefixes(page: Page) -> None:
    write(page, "PREFIX sko")
    expect(suggested(page)).to_have_count(1)
    page.keyboard.press("Tab")
    expect(editor(page)).to_have_value("PREFIX skos: <http://www.w3.org/2004/02/skos/core#>")
    expect(editor(page)).to_be_focused()
    write(page, "SEL")
    expect(suggested(page)).to_contain_text(["SELECT"])
    page.keyboard.press("Tab")
    expect(editor(page)).to_have_value("SELECT ")


def test_completion_knows_the_terms_of_the_store(page: Page) -> None:
    write(page, "SELECT * { ?who foaf:na")
    expect(suggested(page)).to_contain_text(["foaf:name"])
    page.keyboard.press("ArrowDown")
    expect(editor(page)).to_have_attribute("aria-activedescendant", "query-text-suggestions-0")
    page.keyboard.press("Enter")
    declared = f"PREFIX foaf: <{FOAF}>\n"
    expect(editor(page)).to_have_value(declared + "SELECT * { ?who foaf:name")
    editor(page).press_sequentially(" ?x ; a per")
    expect(suggested(page).first).to_contain_text("foaf:Person")
    page.keyboard.press("Escape")
    expect(suggested(page)).to_have_count(0)
    editor(page).press_sequentially(" . ?w")
    expect(suggested(page)).to_contain_text(["?who"])
    page.keyboard.press("Enter")  # nothing is chosen, so this is a new line
    written = declared + "SELECT * { ?who foaf:name ?x ; a per . ?w\n"
    expect(editor(page)).to_have_value(written)
    editor(page).press_sequentially("<mai")
    suggested(page).filter(has_text="<http://x/mail>").click()
    expect(editor(page)).to_have_value(written + "<http://x/mail>")
    expect(editor(page)).to_be_focused()
    page.keyboard.press("Control+z")
    expect(editor(page)).to_have_value(written + "<mai")
    page.keyboard.press("End")
    page.keyboard.press("Control+Space")
    expect(suggested(page).first).to_have_attribute("aria-selected", "true")


def test_an_error_is_underlined_at_its_place(page: Page) -> None:
    for text, wrong in {
        "SELECT ?s {\n  ?s ?p\n}": "}",
        "SELECT * { ?s ?p '𝄞𝄞' ?o }": "?o",
        "SELECT ?s { ?s": "?s",
        "INSERT DATA { <http://x/a> ?p 1 }": "?p",
    }.items():
        editor(page).fill(text)
        expect(page.locator(".sparql .wrong")).to_have_count(0)
        editor(page).press("Control+Enter")
        expect(problem(page)).to_contain_text("line ")
        expect(page.locator(".sparql .wrong")).to_have_text(wrong)
        expect(editor(page)).to_have_attribute("aria-invalid", "true")
        expect(editor(page)).to_be_focused()
    editor(page).fill("ASK {}")
    expect(editor(page)).not_to_have_attribute("aria-invalid", "true")
    editor(page).press("Control+Enter")
    expect(page.locator(".answer")).to_have_text("Yes")
    expect(problem(page)).to_have_count(0)


def test_a_long_query_shows_the_time_and_can_be_cancelled(page: Page, session: sparqlive.Session) -> None:
    session.apply(insert="\n".join(f'<http://x/{n}> <http://x/p> "{n}" .' for n in range(2000)))
    editor(page).fill(
        "SELECT (COUNT(?a) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i FILTER(CONCAT(?c, ?f, ?i) = '') }"
    )
    editor(page).press("Control+Enter")
    expect(page.locator(".clock")).to_contain_text("s")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    expect(problem(page)).to_have_count(0)


def test_an_update_changes_data(page: Page, session: sparqlive.Session) -> None:
    editor(page).fill('PREFIX x: <http://x/> INSERT DATA { x:bob x:mail "b@x", "c@x" }')
    expect(page.get_by_role("button", name="Register")).to_be_hidden()
    page.get_by_role("button", name="Run update").click()
    expect(page.get_by_role("heading", name="Update done")).to_be_visible()
    expect(page.locator(".result .facts")).to_contain_text("2 quads")
    assert session.epoch == 2


def test_tabs_last(page: Page) -> None:
    editor(page).fill("ASK { ?first ?p ?o }")
    page.get_by_role("button", name="New query").click()
    expect(editor(page)).to_be_focused()
    editor(page).fill("ASK { ?second ?p ?o }")
    page.get_by_role("button", name="Query 2", exact=True).dblclick()
    page.get_by_label("Name of this query").fill("second")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="second", exact=True).press("F2")  # by keyboard too
    page.get_by_label("Name of this query").fill("two")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="two", exact=True)).to_be_focused()
    page.get_by_role("button", name="Query 1", exact=True).click()
    expect(editor(page)).to_have_value("ASK { ?first ?p ?o }")
    page.reload()
    expect(editor(page)).to_have_value("ASK { ?first ?p ?o }")
    page.get_by_role("button", name="two", exact=True).click()
    expect(editor(page)).to_have_value("ASK { ?second ?p ?o }")
    page.get_by_role("button", name="Close two").click()
    expect(editor(page)).to_have_value("ASK { ?first ?p ?o }")
    expect(page.get_by_role("button", name="two", exact=True)).to_have_count(0)
    other = page.context.new_page()  # another window has the same tabs
    other.goto(page.url)
    expect(editor(other)).to_have_value("ASK { ?first ?p ?o }")


def test_a_query_has_an_address(page: Page, browser: Browser, address: str) -> None:
    query = 'SELECT ?who { ?who <http://x/mail> "a@x" } # 100% & ?=#ünïcode\n'
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    editor(page).fill(query)
    page.get_by_role("button", name="Copy link").click()
    flashed(page, "Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    with opened(browser, address) as other:
        other.goto(link)
        expect(editor(other)).to_have_value(query)
        expect(other.locator(".result")).to_have_text("")  # opening an address runs nothing
        editor(other).press("Control+Enter")
        expect(rows(other)).to_have_count(1)


def test_a_view_is_replaced_after_a_question(page: Page, session: sparqlive.Session) -> None:
    session.view("people", "SELECT ?who { ?who <http://x/mail> ?mail }")
    page.goto(page.url.partition("#")[0] + "#/views/people")
    page.get_by_role("link", name="Edit").click()
    expect(editor(page)).to_have_value(session.views["people"].text)
    query = "SELECT ?mail { ?who <http://x/mail> ?mail }"
    editor(page).fill(query)
    page.get_by_label("Updated").select_option("manual")
    page.get_by_role("button", name="Register").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Replace the view people?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert session.views["people"].text != query
    page.get_by_role("button", name="Register").click()
    dialog.get_by_role("button", name="Replace").click()
    expect(page.get_by_role("heading", name="people")).to_be_visible()
    expect(rows(page)).to_have_text("a@x")
    assert session.views["people"].text == query
    session.apply(insert=mail("bob", "b@x"))
    page.get_by_role("button", name="Refresh").click()
    expect(rows(page)).to_have_count(2)
