"""Pictures of the page for the documentation: `python -m tests.agent.screenshots` writes them into docs/."""

from __future__ import annotations

import random
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import sparqlive
from sparqlive.agent.agent import Agent
from tests.agent.conftest import serving
from tests.agent.routes.test_page import OPTIONS
from tests.peers import chromium

DOCS = Path(__file__).parent.parent.parent / "docs"
SHOP = "http://example.org/shop/"
PREFIX = f"PREFIX : <{SHOP}>\n"
KINDS = ("Walnut desk", "Reading lamp", "Oak shelf", "Wool rug", "Cork board", "Glass carafe", "Copper pan")
COLOURS = ("black", "white", "red", "green", "blue", "natural", "grey")
VIEWS = {
    "cheap": """SELECT ?product ?label ?price ?stock WHERE {
  ?product :label ?label ; :price ?price .
  OPTIONAL { ?product :stock ?stock }
  FILTER (?price < 60)
}""",
    "by-country": """SELECT ?country (COUNT(*) AS ?products) (AVG(?price) AS ?mean)
WHERE { ?p :maker/:country ?country ; :price ?price } GROUP BY ?country""",
    "dearest": "SELECT ?product ?price WHERE { ?product :price ?price } ORDER BY DESC(?price) LIMIT 10",
    "made-in": "CONSTRUCT { ?p :made-in ?c } WHERE { ?p :maker ?m . ?m :country ?c }",
    "sold-out": "ASK { ?p :stock 0 }",
}


def update(session: sparqlive.Session, text: str) -> None:
    session.update(PREFIX + text)


def fill(session: sparqlive.Session, chance: random.Random) -> None:
    products = [f"{kind}, {colour}" for kind in KINDS for colour in COLOURS]
    lines = [
        f':p{number} :label "{label}"@en ; :price {chance.randint(5, 300)} ; :maker :m{number % 7} .'
        for number, label in enumerate(products)
    ]
    countries = ("NL", "BE", "DE", "FR", "NL", "BE", "NL")
    lines += [f":m{number} :country :{country} ." for number, country in enumerate(countries)]
    update(session, f"INSERT DATA {{ {' '.join(lines)} }}")
    for name, query in VIEWS.items():
        session.view(name, PREFIX + query)


def change(session: sparqlive.Session, chance: random.Random) -> None:
    """A product gets another price or another stock."""
    product, what = f":p{chance.randrange(49)}", chance.choice(("price", "stock"))
    value = chance.randint(5, 120) if what == "price" else chance.randint(0, 9)
    update(
        session,
        f"DELETE {{ {product} :{what} ?old }} INSERT {{ {product} :{what} {value} }} "
        f"WHERE {{ OPTIONAL {{ {product} :{what} ?old }} }}",
    )


def take(page: Page, session: sparqlive.Session, chance: random.Random, address: str) -> None:
    for _ in range(150):
        change(session, chance)
        page.wait_for_timeout(20)
    page.goto(f"{address}/#/views/cheap")
    page.locator("table.rows tbody tr").first.wait_for()
    page.wait_for_timeout(2000)
    update(session, "DELETE WHERE { :p8 :price ?old } ; INSERT DATA { :p8 :price 19 . :p40 :price 7 }")
    update(session, "DELETE DATA { :p40 :price 7 } ; INSERT DATA { :p41 :price 12 }")
    page.locator("tr.entered").first.wait_for()
    page.wait_for_timeout(400)
    page.screenshot(path=DOCS / "page.png")
    page.goto(f"{address}/#/views/cheap/plan")
    page.locator("svg.plan .box").first.wait_for()
    page.set_viewport_size({"width": 1200, "height": 940})
    page.wait_for_timeout(300)
    page.screenshot(path=DOCS / "plan.png")


def main() -> None:
    chance = random.Random(4)
    with (
        sparqlive.open(default_graph="union") as session,
        serving(Agent(session)) as address,
        sync_playwright() as playwright,
    ):
        fill(session, chance)
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        page = browser.new_page(viewport={"width": 1200, "height": 780}, color_scheme="light")
        page.goto(address)
        take(page, session, chance, address)
        browser.close()


if __name__ == "__main__":
    main()
