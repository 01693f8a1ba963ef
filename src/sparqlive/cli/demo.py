"""The command `demo`: an agent with a small shop in which something happens all the time."""

from __future__ import annotations

import random
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import sparqlive
from sparqlive.cli.arguments import check_port, check_rate
from sparqlive.cli.serve import ensure_agent_installed

_PREFIX = "PREFIX : <http://example.org/shop/>\n"
_VIEWS = {
    "open orders": "SELECT ?order ?item ?quantity { ?order :item ?item ; :quantity ?quantity "
    "FILTER NOT EXISTS { ?order :shipped true } }",
    "revenue by city": "SELECT ?city (SUM(?price * ?quantity) AS ?revenue) (COUNT(*) AS ?orders) "
    "{ ?order :item/:price ?price ; :quantity ?quantity ; :city ?city } GROUP BY ?city",
    "best sellers": "SELECT ?item (SUM(?quantity) AS ?sold) { ?order :item ?item ; :quantity ?quantity } "
    "GROUP BY ?item ORDER BY DESC(?sold) LIMIT 5",
    "low stock": "SELECT ?item ?stock { ?item :stock ?stock FILTER(?stock < 10) } ORDER BY ?stock",
}
_ITEMS = {"tea": 4, "coffee": 7, "cake": 5, "juice": 3, "bread": 2, "honey": 9, "jam": 6, "milk": 1}
_CITIES = ("Ghent", "Leipzig", "Porto", "Turin", "Uppsala")
_OPEN_ORDERS = 40


def demo(
    port: Annotated[
        int,
        typer.Option(callback=check_port, metavar="PORT", help="Port to listen on; 0 picks a free port."),
    ] = 8080,
    rate: Annotated[
        float, typer.Option(callback=check_rate, metavar="NUMBER", help="Changes per second.")
    ] = 2.0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the web browser.")
    ] = True,
) -> None:
    """Serve a small shop that changes all the time; open its page.

    The shop is in a temporary store, which is removed at the end.
    """
    ensure_agent_installed("demo")
    from sparqlive.agent.logs import start_logging
    from sparqlive.agent.routes.health import Opening
    from sparqlive.agent.serve import Listening, serve
    from sparqlive.agent.settings import Settings

    addresses: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sparqlive-demo-") as folder:
        store = Path(folder) / "demo.store"

        def open_session(opening: Opening) -> sparqlive.Session:
            session = sparqlive.open(store, default_graph="union", progress=opening)
            _fill(session)
            threading.Thread(target=_trade, args=(session, rate), name="demo", daemon=True).start()
            address = f"{addresses[0]}/"
            print(
                f"The shop is open at {address}. It changes {rate:g} times per second. Ctrl-C ends it.",
                flush=True,
            )
            if browser:
                webbrowser.open(address)
            return session

        start_logging()
        serve(store, open_session, Settings(), Listening(port=port), addresses.append)


def _fill(session: sparqlive.Session) -> None:
    stock = " ".join(f":{name} :price {price} ; :stock 100 ." for name, price in _ITEMS.items())
    session.update(f"{_PREFIX} INSERT DATA {{ {stock} }}")
    for name, query in _VIEWS.items():
        session.view(name, _PREFIX + query)


def _trade(session: sparqlive.Session, rate: float) -> None:
    """Applies changes until the session is closed."""
    for request in _events(random.Random(7)):
        try:
            session.update(_PREFIX + request)
        except sparqlive.Closed:
            return
        time.sleep(1 / rate)


def _events(chance: random.Random) -> Iterator[str]:
    """Updates of the shop: orders come, are shipped, and the stock is refilled."""
    waiting: list[int] = []
    number = 0
    while True:
        if len(waiting) > _OPEN_ORDERS or (waiting and chance.random() < 0.45):
            order = waiting.pop(chance.randrange(len(waiting)))
            yield f"INSERT DATA {{ :order{order} :shipped true }}"
        elif chance.random() < 0.15:
            item = chance.choice(list(_ITEMS))
            yield (
                f"DELETE {{ :{item} :stock ?old }} INSERT {{ :{item} :stock ?new }} "
                f"WHERE {{ :{item} :stock ?old BIND(?old + 60 AS ?new) }}"
            )
        else:
            number += 1
            waiting.append(number)
            item, quantity = chance.choice(list(_ITEMS)), chance.randint(1, 9)
            yield (
                f"INSERT DATA {{ :order{number} :item :{item} ; :quantity {quantity} ; "
                f':city "{chance.choice(_CITIES)}" }} ; '
                f"DELETE {{ :{item} :stock ?old }} INSERT {{ :{item} :stock ?new }} "
                f"WHERE {{ :{item} :stock ?old BIND(?old - {quantity} AS ?new) }}"
            )
