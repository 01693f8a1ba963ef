"""The first ten of many rows: one row changes, with ORDER BY and LIMIT and without them.

A quarter of the changes is at the top, so that the window moves; the others are anywhere.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from pyoxigraph import Literal, NamedNode, Quad, Store

import sparqlive
from bench.measure import Report, Sizes, duration, middle, percentile, run_alone, same, timed

SIZES = {"rows": (1_000_000, 50_000), "changes": (2_000, 400)}
WANTED_SECONDS = 50e-6
WINDOW = 10

_PREFIX = "http://example.org/"
_PRICE = NamedNode(_PREFIX + "price")
_PRICES = 100_000
PLAIN = f"PREFIX : <{_PREFIX}> SELECT ?item ?price {{ ?item :price ?price }}"
TOP = f"{PLAIN} ORDER BY ?price LIMIT {WINDOW}"


def item(number: int) -> NamedNode:
    return NamedNode(f"{_PREFIX}item/{number}")


def graph(rows: int) -> Iterator[Quad]:
    """Many rows share a price: ties are broken by the item."""
    chance = random.Random(5)
    prices = [Literal(price) for price in range(_PRICES)]
    for number in range(rows):
        yield Quad(item(number), _PRICE, prices[int(chance.random() * _PRICES)])


def changes(rows: int, count: int) -> list[Quad]:
    """Rows that come and go again."""
    chance = random.Random(6)
    quads = []
    for place in range(count):
        price = chance.randrange(3) if place % 4 == 0 else chance.randrange(_PRICES)
        quads.append(Quad(item(rows + place), _PRICE, Literal(price)))
    return quads


def run(sizes: Sizes) -> Report:
    rows, count = sizes["rows"], sizes["changes"]
    with sparqlive.open() as plain, sparqlive.open() as ordered:
        sessions = {"plain": (plain, PLAIN), "ordered": (ordered, TOP)}
        registering, samples = {}, {}
        for name, (session, query) in sessions.items():
            session.load(graph(rows))
            _, registering[name] = timed(lambda session=session, query=query: session.view("view", query))
            samples[name] = list[float]()
        for quad in changes(rows, count):
            for change in ({"insert": [quad]}, {"delete": [quad]}):
                for name, (session, _) in sessions.items():
                    start = time.perf_counter()
                    session.apply(**change)
                    samples[name].append(time.perf_counter() - start)
        compare(rows, ordered.views["view"])
        state = ordered.views["view"].stats()["state_bytes"]
    more = middle(samples["ordered"]) - middle(samples["plain"])
    report = Report()
    name = f"top {WINDOW} of {rows:,} rows, a change: more than without ORDER BY"
    report.at_most(name, more, WANTED_SECONDS, duration)
    report.remarks.append(
        f"window: a change takes {duration(middle(samples['ordered']))} with ORDER BY and LIMIT "
        f"(p99 {duration(percentile(samples['ordered'], 99))}), {duration(middle(samples['plain']))} without "
        f"(p99 {duration(percentile(samples['plain'], 99))}); the view is computed in "
        f"{duration(registering['ordered'])} and {duration(registering['plain'])}; "
        f"its state takes {state / rows:.0f} bytes a row."
    )
    return report


def compare(rows: int, view: sparqlive.View) -> None:
    """The window, in order, by the peer."""
    store = Store()
    store.bulk_extend(graph(rows))
    expected = list(store.query(TOP.replace("?price LIMIT", "?price ?item LIMIT")))
    listed = [(solution["item"], solution["price"]) for solution in view.solutions()]
    same("window", listed, [(solution["item"], solution["price"]) for solution in expected])


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
