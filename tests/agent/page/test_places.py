"""The places of the page in a browser: rows that come and go, plans, sources, epochs, keyboard, tokens."""

from __future__ import annotations

from pathlib import Path

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from tests.agent.conftest import serving
from tests.agent.page.browsing import (
    PEOPLE,
    RDF_TYPE,
    Browser,
    Page,
    expect,
    flashed,
    mail,
    patient,
    problem,
    rows,
)


def test_views_with_their_rows(page: Page, session: sparqlive.Session) -> None:
    expect(page.get_by_role("heading", name="No views yet")).to_be_visible()
    session.apply(insert=mail("ann", "a@x"))
    session.view("people", PEOPLE)
    line = page.get_by_role("row", name="people")
    expect(line.get_by_role("cell").first).to_have_text("1")
    session.apply(insert=mail("bob", "b@x"))
    expect(line.get_by_role("cell").first).to_have_text("2")


def test_rows_enter_and_leave(page: Page, session: sparqlive.Session) -> None:
    session.apply(insert=mail("ann", "a@x"))
    session.view("people", PEOPLE)
    page.get_by_role("link", name="people").click()
    expect(rows(page)).to_have_count(1)
    session.apply(insert=mail("bob", "b@x"))
    flashed(page, "entered", "b@x")
    expect(page.locator(".summary")).to_have_text("2 rows")
    session.apply(delete=mail("ann", "a@x"))
    flashed(page, "left", "a@x")
    expect(rows(page)).to_have_count(1)
    expect(page.locator("tr.left")).to_have_count(0)
    expect(page.locator("tr.entered")).to_have_count(0)


def test_a_large_view_is_shown_in_part(page: Page, session: sparqlive.Session) -> None:
    session.apply(insert="\n".join(mail(f"p{number}", "x") for number in range(5000)))
    session.view("people", PEOPLE)
    page.get_by_role("link", name="people").click()
    expect(page.locator(".summary")).to_have_text("300 of 5,000 rows")
    session.apply(insert=mail("new", "y"))
    flashed(page, "entered", "…/newy")
    expect(page.locator(".summary")).to_have_text("300 of 5,001 rows")
    expect(page.locator("table.rows tbody tr")).to_have_count(300)
    session.apply(delete="\n".join(mail(f"p{number}", "x") for number in range(4990)))
    expect(page.locator(".summary")).to_have_text("11 rows")
    expect(rows(page)).to_have_count(11)


def test_an_order_is_kept_and_an_answer_turns(page: Page, session: sparqlive.Session) -> None:
    session.apply(insert="\n".join(mail("ann", text) for text in "bdf"))
    session.view("first", "SELECT ?mail { ?who <http://x/mail> ?mail } ORDER BY ?mail LIMIT 3")
    session.view("any", "ASK { ?who <http://x/mail> 'z' }")
    page.get_by_role("link", name="first").click()
    expect(rows(page)).to_have_text(["b", "d", "f"])
    session.apply(insert=mail("ann", "c"))
    flashed(page, "entered +enteredc")
    expect(rows(page)).to_have_text(["b", "c", "d"])
    page.get_by_role("link", name="Views").first.click()
    page.get_by_role("link", name="any").click()
    expect(page.locator(".answer")).to_have_text("No")
    session.apply(insert=mail("ann", "z"))
    expect(page.locator(".answer")).to_have_text("Yes")


def test_live_rows_are_sorted_as_the_user_says(page: Page, session: sparqlive.Session) -> None:
    session.apply(insert="\n".join(mail("ann", text) for text in ("10", "9", "b")))
    session.view("people", PEOPLE)
    page.get_by_role("link", name="people").click()
    values = rows(page).locator("td:nth-child(3)")
    page.get_by_role("button", name="?mail").click()
    expect(values).to_have_text(["9", "10", "b"])
    session.apply(insert=mail("ann", "9a"), delete=mail("ann", "10"))
    expect(values).to_have_text(["9", "9a", "b"])
    page.get_by_role("button", name="?mail").click()
    expect(page.get_by_role("columnheader", name="?mail")).to_have_attribute("aria-sort", "descending")
    expect(values).to_have_text(["b", "9a", "9"])


def test_weights_and_triples(page: Page, session: sparqlive.Session) -> None:
    session.view("mails", "SELECT ?mail { ?who <http://x/mail> ?mail }")
    session.view("graph", "CONSTRUCT { ?mail <http://x/of> ?who } { ?who <http://x/knows> ?mail }")
    page.get_by_role("link", name="mails").click()
    for who in "abc":
        session.apply(insert=mail(who, "a@x"))
    expect(rows(page)).to_contain_text("× 3")
    session.apply(delete=mail("b", "a@x"), insert="<http://x/a> <http://x/knows> <http://x/b> .")
    expect(rows(page)).to_contain_text("× 2")
    page.get_by_role("link", name="Query").last.click()
    page.get_by_role("link", name="Open in the query editor").click()
    expect(page.get_by_label("SPARQL query")).to_have_value(session.views["mails"].text)
    page.goto(page.url.partition("#")[0] + "#/views/graph")
    expect(rows(page)).to_have_text("…/b…/of…/a")
    page.get_by_label("Full terms").check()
    expect(rows(page)).to_have_text("<http://x/b><http://x/of><http://x/a>")


def test_paused_rows_stay_and_nothing_is_missed(page: Page, session: sparqlive.Session) -> None:
    session.apply(insert=mail("ann", "a@x"))
    session.view("people", PEOPLE)
    page.get_by_role("link", name="people").click()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    for number in range(9):
        session.apply(insert=mail("bob", f"{number}@x"))
    session.apply(delete=mail("ann", "a@x"))
    expect(page.get_by_text("epoch 11")).to_be_visible()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Resume").click()
    expect(rows(page)).to_have_count(9)
    session.drop("people")
    expect(problem(page)).to_contain_text("dropped")


def test_an_agent_comes_back_with_its_data_or_with_other_data(
    browser: Browser, session: sparqlive.Session
) -> None:
    session.view("people", PEOPLE)
    session.apply(insert=mail("ann", "a@x"))
    with patient(browser) as context:
        page = context.new_page()
        with serving(Agent(session)) as address:
            page.goto(f"{address}/#/views/people")
            expect(rows(page)).to_have_count(1)
            page.evaluate("document.querySelector('table.rows tbody tr').id = 'first'")
        session.apply(insert=mail("bob", "b@x"))
        port = int(address.rpartition(":")[2])
        with serving(Agent(session), port):
            expect(rows(page)).to_have_count(2)
            expect(page.locator("#first")).to_contain_text("a@x")  # it went on from where it was
        with sparqlive.open(default_graph="union") as other:
            other.view("people", PEOPLE)
            for number in range(5):
                other.apply(insert=mail("eve", f"{number}@y"))
            with serving(Agent(other), port):
                expect(rows(page)).to_have_count(5)
                expect(rows(page).filter(has_text="@y")).to_have_count(5)


def test_terms_are_text(page: Page, session: sparqlive.Session) -> None:
    bad = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    session.apply(insert=mail("ann", bad))
    session.view("people", PEOPLE)
    page.get_by_role("link", name="people").click()
    expect(rows(page)).to_contain_text(bad)
    expect(page.locator("main img, main script")).to_have_count(0)


def test_a_query_is_tried_planned_and_registered(page: Page, session: sparqlive.Session) -> None:
    session.apply(
        insert="\n".join(
            [mail("ann", "a@x"), mail("bob", "b@x"), "<http://x/ann> <http://x/is> <http://x/Boss> ."]
        )
    )
    page.get_by_role("link", name="Query", exact=True).click()
    box = page.get_by_label("SPARQL query")
    box.fill(f"{PEOPLE[:-2]} . ?who <http://x/is> ?what }}")
    box.press("Control+Enter")
    expect(page.get_by_role("heading", name="1 row")).to_be_visible()
    expect(page.locator("table.rows tbody tr")).to_contain_text("a@x")
    page.get_by_role("button", name="Show plan").click()
    expect(page.locator("svg.plan .box")).to_have_count(4)
    page.get_by_label("Register as view").fill("bosses")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name="bosses")).to_be_visible()
    expect(rows(page)).to_have_count(1)
    assert session.views["bosses"].solutions()[0]["mail"].value == "a@x"


def test_what_went_wrong_is_said_in_the_agents_sentence(
    browser: Browser, address: str, session: sparqlive.Session
) -> None:
    with patient(browser) as context:
        page = context.new_page()
        page.goto(f"{address}/#/query")
        box = page.get_by_label("SPARQL query")
        box.fill("SELECT ?s { ?s")
        page.get_by_role("button", name="Run").click()
        expect(problem(page)).to_contain_text("line 1")
        page.get_by_label("Register as view").fill("v")
        page.get_by_role("button", name="Register").click()
        expect(problem(page)).to_contain_text("line 1")
        box.fill("SELECT (RAND() AS ?r) {}")
        page.get_by_role("button", name="Show plan").click()
        expect(problem(page)).to_contain_text("RAND")
        page.goto(f"{address}/#/views/nothing")
        expect(problem(page)).to_contain_text("nothing")
    assert not session.views


def test_a_token_is_asked_for_and_used(browser: Browser, session: sparqlive.Session, tmp_path: Path) -> None:
    session.apply(insert=mail("ann", "a@x"))
    session.view("people", PEOPLE)
    _, secret = Tokens(tmp_path).create(["read"])
    with serving(Agent(session, Settings(), Access(tmp_path))) as address, patient(browser) as context:
        page = context.new_page()
        page.goto(address)
        field = page.get_by_label("Token", exact=True)
        expect(field).to_be_focused()
        expect(page.get_by_role("dialog")).to_contain_text("This request requires a token")
        field.fill(secret)
        field.press("Enter")
        page.get_by_role("link", name="people").click()
        expect(rows(page)).to_have_count(1)
        session.apply(insert=mail("bob", "b@x"))
        expect(rows(page)).to_have_count(2)
        stored = page.evaluate("[JSON.stringify(localStorage), document.cookie, location.href].join()")
        assert secret not in stored


def test_sources_and_epochs(page: Page, session: sparqlive.Session, tmp_path: Path) -> None:
    session.view("people", PEOPLE)
    (tmp_path / "some.nt").write_text(mail("ann", "a@x"))
    session.source("file", str(tmp_path / "some.nt"), name="some")
    session.source("file", str(tmp_path / "none.nt"), name="none")
    page.get_by_role("link", name="Sources").click()
    expect(page.get_by_role("row", name="some")).to_contain_text("watched")
    expect(page.get_by_role("row", name="none")).to_contain_text("none.nt")
    session.apply(insert=mail("bob", "b@x"), strategy="rebuild")
    page.get_by_role("link", name="Epochs").click()
    line = page.locator("table.epochs tbody tr").first
    expect(line).to_contain_text("rebuild was requested.")
    expect(line).to_contain_text("people 1")
    expect(page.locator(".plot .mark-rebuild").last).to_be_visible()
    expect(page.get_by_role("img", name="Latency of")).to_be_visible()


def test_the_plan_is_a_picture_with_rules_and_times(page: Page, session: sparqlive.Session) -> None:
    session.view(
        "mails", "SELECT ?mail (COUNT(*) AS ?n) { ?who <http://x/mail> ?mail . ?who a ?kind } GROUP BY ?mail"
    )
    for number in range(20):
        session.apply(insert=f"{mail(f'p{number}', 'a@x')}\n<http://x/p{number}> <{RDF_TYPE}> <http://x/P> .")
    page.get_by_role("link", name="mails").click()
    page.get_by_role("link", name="Plan").click()
    boxes = page.locator("svg.plan .box")
    expect(boxes.first).to_be_visible()
    names = boxes.locator(".name").all_text_contents()
    explained = session.views["mails"].explain()
    assert len(names) == len(set(names)) >= 5
    assert all(f"{name}  " in explained for name in names)
    group = boxes.filter(has=page.get_by_text("R", exact=True))
    expect(group.locator(".size")).to_contain_text("1 row")
    expect(group.locator(".time")).to_contain_text("% of the time")
    expect(page.locator("table.costs tbody tr").first).to_contain_text("20")
    group.focus()
    expect(page.locator(".rules li.chosen")).to_contain_text("ΔR = redone(")


def test_everything_is_reached_by_keyboard(page: Page, session: sparqlive.Session) -> None:
    session.view("people", PEOPLE)
    expect(page.get_by_role("link", name="people")).to_be_visible()
    seen = walk(page, "people")
    assert seen[:7] == ["Skip to content", "sparqlive", "Views", "Query", "Sources", "Epochs", "Status"]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="people")).to_be_visible()
    expect(page.locator("main")).to_be_focused()
    assert walk(page, "Plan")[-3:] == ["Rows", "Chart", "Plan"]
    page.keyboard.press("Enter")
    expect(page.locator("svg.plan .box")).not_to_have_count(0)
    walk(page, "T1")
    outlined = page.locator("svg.plan .box:focus-visible .back")
    expect(outlined).to_have_css("stroke-width", "3px")
    page.keyboard.press("Control+Home")
    page.evaluate("document.activeElement.blur()")
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def walk(page: Page, until: str) -> list[str]:
    """What the tabulator key comes to, up to something whose words begin so."""
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent).trim()"
        )
        seen.append(focused)
        if focused.startswith(until):
            return seen
    raise AssertionError(f"{until} is not reached: {seen}")
