"""Pictures of the page for the documentation: `python -m tests.agent.screenshots` writes docs/page/."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, sync_playwright

import sparqlive
from sparqlive.agent.agent import Agent
from tests.agent.conftest import serving
from tests.agent.page.browsing import OPTIONS
from tests.peers import chromium

PICTURES = Path(__file__).parent.parent.parent / "docs" / "page"
LOOKS = {  # ending of the name: colours, width and height
    "": ("light", 1200, 780),
    "-dark": ("dark", 1200, 780),
    "-phone": ("light", 390, 780),
}
PLACES = {  # name: place, and what it shows when it is ready
    "views": ("#/views", "table.views tbody tr"),
    "rows": ("#/views/cheap", "table.rows tbody tr"),
    "plan": ("#/views/cheap/plan", "svg.plan .box"),
    "chart": ("#/views/by-country/chart?kind=bar&x=country&y=products", ".bars tr"),
    "query": ("#/query", ".code"),
    "describe": ("#/describe?iri=http%3A%2F%2Fexample.org%2Fshop%2Fm1", "table.rows tbody tr"),
    "sources": ("#/sources", "table.sources tbody tr"),
    "epochs": ("#/epochs", "table.epochs tbody tr"),
    "status": ("#/status", ".limits tr"),
}
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


def prepare(page: Page, name: str, session: sparqlive.Session, chance: random.Random) -> None:
    """Brings a place into the state that its picture shows."""
    if name == "rows":
        page.wait_for_timeout(2500)  # rows that changed before are no longer marked
        update(session, "DELETE WHERE { :p8 :price ?old } ; INSERT DATA { :p8 :price 19 . :p40 :price 7 }")
        update(session, "DELETE DATA { :p40 :price 7 } ; INSERT DATA { :p41 :price 12 }")
        page.locator("tr.entered").first.wait_for()
        update(
            session,
            f"DELETE WHERE {{ :p8 :price ?old }} ; INSERT DATA {{ :p8 :price {chance.randint(61, 99)} }}",
        )
    if name == "query":
        editor = page.get_by_label("SPARQL query")
        editor.fill(
            f"{PREFIX}SELECT ?label ?price ?country WHERE {{\n  ?product :label ?label ; :price ?price ;\n"
            f"    :maker/:country ?country\n  FILTER (?price < 60) # in euros\n}}\nORDER BY ?price"
        )
        editor.press("Control+Enter")
        page.locator("table.rows tbody tr").first.wait_for()
    page.wait_for_timeout(500)


def take(browser: Browser, session: sparqlive.Session, address: str, empty: str) -> None:
    chance = random.Random(4)
    for ending, (colours, width, height) in LOOKS.items():
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
        page.goto(empty)
        page.get_by_role("button", name="Load the sample shop").wait_for()
        page.screenshot(path=PICTURES / f"welcome{ending}.png")
        page.goto(address)
        for _ in range(100):
            change(session, chance)
            page.wait_for_timeout(20)
        for name, (place, sign) in PLACES.items():
            page.goto(f"{address}/{place}")
            page.locator(sign).first.wait_for()
            prepare(page, name, session, chance)
            page.screenshot(path=PICTURES / f"{name}{ending}.png")
        page.close()


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with (
        TemporaryDirectory(prefix="shop-") as directory,
        sparqlive.open(default_graph="union") as session,
        sparqlive.open() as other,
        serving(Agent(session)) as address,
        serving(Agent(other)) as empty,
        sync_playwright() as playwright,
    ):
        fill(session, random.Random(4))
        file = Path(directory, "reviews.ttl")
        file.write_text(f"<{SHOP}p1> <{SHOP}review> 5 .")
        session.source("file", str(file), name="reviews")
        session.source("file", str(file.with_name("returns.ttl")), name="returns")
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        take(browser, session, address, empty)
        browser.close()


if __name__ == "__main__":
    main()
