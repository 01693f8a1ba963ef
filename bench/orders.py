"""Generates a catalogue of orders (customer, value, shipped) and customers (name, city) as N-Triples.

28 % of the triples each are customers and values of orders, and 24 % say that an order was shipped; 10 % each
are names and cities of customers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PREFIX = "http://example.org/"
CITIES = 1000
VIEWS = {
    "join": "SELECT ?order ?name ?value { ?order :customer ?c . ?c :name ?name . ?order :value ?value }",
    "totals": "SELECT ?city (SUM(?value) AS ?sum) (COUNT(*) AS ?n) "
    "{ ?order :customer ?c . ?c :city ?city . ?order :value ?value } GROUP BY ?city",
    "open": "SELECT ?order ?c { ?order :customer ?c FILTER NOT EXISTS { ?order :shipped ?x } }",
}
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_VALUES = 20_000
_ORDERS_AT_ONCE = 300_000

Numbers = npt.NDArray[np.int64]


class Catalogue:
    def __init__(self, triples: int, seed: int = 5) -> None:
        self.orders, self.customers = int(triples * 0.28), triples // 10
        self._seed = seed
        self.triples = 0
        """Number of triples that `write` wrote."""

    def write(self, path: Path) -> None:
        chance = np.random.default_rng(self._seed)
        with path.open("wb") as file:
            for start in range(0, self.orders, _ORDERS_AT_ONCE):
                numbers = np.arange(start, min(self.orders, start + _ORDERS_AT_ONCE))
                for lines in self._order_lines(chance, numbers, shipped=0.85):
                    self.triples += len(lines)
                    file.write(lines.buffers()[2])
            for start in range(0, self.customers, _ORDERS_AT_ONCE):
                numbers = np.arange(start, min(self.customers, start + _ORDERS_AT_ONCE))
                for lines in _customer_lines(chance, numbers):
                    self.triples += len(lines)
                    file.write(lines.buffers()[2])

    def new_orders(self, count: int, batch: int) -> str:
        """The triples of orders that no other batch has; half of the orders are shipped."""
        chance = np.random.default_rng([self._seed, batch])
        numbers = np.arange(count) + self.orders + batch * count
        parts = self._order_lines(chance, numbers, shipped=0.5)
        return "".join(line for lines in parts for line in lines.to_pylist())

    def _order_lines(self, chance: Any, numbers: Numbers, *, shipped: float) -> Iterator[Any]:
        orders = _iris("order", numbers)
        yield _lines(
            orders, "customer", _iris("customer", chance.integers(self.customers, size=len(numbers)))
        )
        values = _words(chance.integers(_VALUES, size=len(numbers)))
        yield _lines(orders, "value", _joined('"', values, f'"^^<{_INTEGER}>'))
        sent = orders.filter(pa.array(chance.random(len(numbers)) < shipped))
        yield _lines(sent, "shipped", f"<{PREFIX}yes>")


def _customer_lines(chance: Any, numbers: Numbers) -> Iterator[Any]:
    customers = _iris("customer", numbers)
    yield _lines(customers, "name", _joined('"Customer ', _words(numbers), '"'))
    yield _lines(customers, "city", _iris("city", chance.integers(CITIES, size=len(numbers))))


def _iris(kind: str, numbers: Numbers) -> Any:
    return _joined(f"<{PREFIX}{kind}/", _words(numbers), ">")


def _lines(subjects: Any, predicate: str, objects: Any) -> Any:
    return _joined(subjects, f" <{PREFIX}{predicate}> ", objects, " .\n")


def _words(numbers: Numbers) -> Any:
    return pa.array(numbers).cast(pa.string())


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")
