"""Answers as tables that are sorted, filtered, paged, copied and saved; what is known about an IRI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet

import sparqlive
from tests.agent.page.browsing import (
    PEOPLE,
    Browser,
    Locator,
    Page,
    expect,
    flashed,
    go,
    mail,
    opened,
    problem,
    rows,
)

PRICES = "SELECT ?item ?price { ?item <http://x/price> ?price }"


@pytest.fixture
def page(browser: Browser, address: str, session: sparqlive.Session) -> Iterator[Page]:
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    session.apply(
        insert="\n".join(
            f'<http://x/i{number}> <http://x/price> "{number * 7 % 250}"^^<{integer}> .'
            for number in range(250)
        )
    )
    with opened(browser, address, "#/query") as one:
        yield one


def run(page: Page, query: str) -> None:
    page.get_by_label("SPARQL query").fill(query)
    page.get_by_label("SPARQL query").press("Control+Enter")


def first(page: Page) -> Locator:
    return page.locator("table.rows tbody tr td:nth-child(2)").first


def test_an_answer_is_sorted_filtered_and_paged(page: Page) -> None:
    run(page, PRICES)
    expect(page.get_by_role("heading", name="250 rows")).to_be_visible()
    expect(rows(page)).to_have_count(100)
    page.get_by_role("columnheader", name="?price").click()  # anywhere in it
    expect(first(page)).to_have_text("0")
    expect(page.get_by_role("columnheader", name="?price")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("201–250 of 250 rows")).to_be_visible()
    expect(rows(page)).to_have_count(50)
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="?price").click()  # numbers by value, not by text
    expect(first(page)).to_have_text("249")
    page.get_by_label("Filter Answer").fill("/i24")
    expect(rows(page)).to_have_count(11)
    expect(page.get_by_text("11 of 250 rows")).to_be_visible()


def test_an_answer_is_copied_and_saved(page: Page, session: sparqlive.Session, tmp_path: Path) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    run(page, f"{PRICES} ORDER BY ?price LIMIT 2")
    page.get_by_role("button", name="Copy", exact=True).click()
    flashed(page, "Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.split("\n")[:2] == ["item\tprice", "http://x/i0\t0"]
    assert saved(page, "CSV", tmp_path).splitlines()[:2] == ["item,price", "http://x/i0,0"]
    assert len(json.loads(saved(page, "JSON", tmp_path))["results"]["bindings"]) == 2
    session.apply(insert=mail("ann", r"say \"é\n𝄞\""))
    run(page, "CONSTRUCT { ?mail <http://x/of> ?who } { ?who <http://x/knows> ?mail }")
    expect(page.get_by_role("heading", name="0 triples")).to_be_visible()
    run(page, "CONSTRUCT WHERE { ?who <http://x/mail> ?mail }")
    expect(rows(page)).to_have_text('…/ann…/mailsay "é\n𝄞"', use_inner_text=False)
    assert "x/mail" in saved(page, "Turtle", tmp_path)


def saved(page: Page, form: str, directory: Path) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download as {form}").click()
    target = directory / download.value.suggested_filename
    download.value.save_as(target)
    return target.read_text(encoding="utf-8")


def test_a_view_is_saved(page: Page, session: sparqlive.Session, tmp_path: Path) -> None:
    session.view("prices", PRICES)
    page.goto(page.url.partition("#")[0] + "#/views/prices")
    assert len(saved(page, "CSV", tmp_path).splitlines()) == 251
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as Parquet").click()
    download.value.save_as(tmp_path / "prices.parquet")
    assert parquet.read_table(tmp_path / "prices.parquet").num_rows == 250


def test_an_iri_leads_to_what_is_known_about_it(page: Page, session: sparqlive.Session) -> None:
    session.apply(
        insert="\n".join(
            [mail("ann", "a@x"), "<http://x/bob> <http://x/knows> <http://x/ann> .", mail("bob", "b@x")]
        )
    )
    run(page, PEOPLE)
    page.get_by_role("link", name="…/bob").click()
    expect(page.get_by_role("heading", name="bob")).to_be_visible()
    properties = page.get_by_role("region", name="Properties")
    expect(properties).to_contain_text("b@x")
    properties.get_by_role("link", name="…/ann").click()
    expect(page.get_by_role("heading", name="ann")).to_be_visible()
    expect(page.get_by_role("region", name="Mentioned by")).to_contain_text("…/bob")
    page.go_back()
    expect(page.get_by_role("heading", name="bob")).to_be_visible()
    page.get_by_role("link", name="Query", exact=True).last.click()
    expect(page.get_by_label("SPARQL query")).to_have_value("DESCRIBE <http://x/bob>")


def test_what_is_no_iri_is_not_asked_for(page: Page) -> None:
    page.goto(page.url.partition("#")[0] + "#/describe?iri=x%3A%3E%20%7D%20DROP")
    expect(problem(page)).to_contain_text("not an absolute IRI")


def test_an_empty_answer_and_an_empty_view_say_why(page: Page, session: sparqlive.Session) -> None:
    said = "No triple has the predicate <http://x/prize>. Check its prefix and spelling."
    query = "SELECT ?item { ?item <http://x/prize> ?price }"
    run(page, query)
    expect(page.get_by_role("heading", name="0 rows")).to_be_visible()
    expect(page.locator("p.why")).to_have_text(said)
    run(page, PRICES)
    expect(page.locator("p.why")).to_have_count(0)
    session.view("empty", query)
    go(page, "#/views/empty")
    expect(page.locator("p.why")).to_have_text(said)
    session.apply(insert="<http://x/i1> <http://x/prize> <http://x/first> .")
    expect(rows(page)).to_have_count(1)
    expect(page.locator("p.why")).to_be_hidden()
    session.apply(delete="<http://x/i1> <http://x/prize> <http://x/first> .")
    expect(page.locator("p.why")).to_have_text(said)
