"""The bulk executor on DuckDB against hand-written SQL over the same tables: joins, filters, sums of orders.

A catalogue of orders (customer, value, shipped) and customers (name, city), as columns of ids and a
dictionary with typed columns, in DuckDB's own tables. Views are computed, and changed by new orders.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyoxigraph import Literal, NamedNode

from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import ResultTables, evaluate
from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, hash_of
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import NAMES, typed
from sparqlive.sparql.syntax import parse_query

EX = "http://example.org/"
_CITIES = 1000
_VALUES = 20_000
_ORDER, _CUSTOMER, _NAME = 1, 2, 3
_DECIMAL = NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
_JOINED = "?o :customer ?c . ?o :value ?v . ?c :city ?city"
VIEWS = {
    "join": f"SELECT ?o ?c ?v ?city {{ {_JOINED} }}",
    "sum": f"SELECT ?city (SUM(?v) AS ?total) (COUNT(*) AS ?n) {{ {_JOINED} }} GROUP BY ?city",
    "greatest": f"SELECT ?city (MAX(?v) AS ?most) {{ {_JOINED} }} GROUP BY ?city",
    "distinct": f"SELECT ?city (COUNT(DISTINCT ?c) AS ?n) {{ {_JOINED} }} GROUP BY ?city",
    "not shipped": "SELECT ?o ?c { ?o :customer ?c FILTER NOT EXISTS { ?o :shipped ?d } }",
    "filter": "SELECT ?o ?v { ?o :value ?v FILTER(?v > 100) }",
    "top": "SELECT ?o ?v { ?o :value ?v } ORDER BY DESC(?v) LIMIT 100",
}


def id_of(term: Term) -> int:
    return hash_of(str(term))


def _iri(name: str) -> int:
    return id_of(NamedNode(EX + name))


def _mixed(kind: int, numbers: Any) -> Any:
    """Ids that look like hashes (the finaliser of SplitMix64), different for each kind and number."""
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) * np.uint64(4) + np.uint64(kind)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)


@dataclass
class Catalogue:
    """The tables `quads`, `terms` and `changes` of a connection."""

    connection: duckdb.DuckDBPyConnection
    triples: int
    decimals: bool

    def fill(self, new_orders: int) -> None:
        chance = np.random.default_rng(1)
        orders, customers = int(self.triples * 0.28), self.triples // 10
        values = [self._value(number) for number in range(_VALUES)]
        cities = [f"<{EX}city/{number}>" for number in range(_CITIES)]
        who = np.arange(customers)
        self._table("quads", self._orders(chance, 0, orders, customers, values, shipped=0.85))
        city_of = np.array([hash_of(city) for city in cities])[chance.integers(0, _CITIES, customers)]
        self._add("quads", [(_mixed(_CUSTOMER, who), "city", city_of)])
        self._add("quads", [(_mixed(_CUSTOMER, who), "name", _mixed(_NAME, who))])
        new = self._orders(chance, orders, new_orders, customers, values, shipped=0.5)
        self._table("changes", new)
        self.connection.execute("ALTER TABLE changes ADD COLUMN w BIGINT DEFAULT 1")
        count = np.arange(orders + new_orders)
        texts = [
            (_mixed(_ORDER, count), [f"<{EX}order/{number}>" for number in count.tolist()]),
            (_mixed(_CUSTOMER, who), [f"<{EX}customer/{number}>" for number in who.tolist()]),
            (_mixed(_NAME, who), [f'"Customer {number}"' for number in who.tolist()]),
            *((np.array([hash_of(text) for text in words]), words) for words in (values, cities)),
        ]
        self._terms(texts)

    def _value(self, number: int) -> str:
        if self.decimals:
            return str(Literal(f"{number // 100}.{number % 100:02}", datatype=_DECIMAL))
        return str(Literal(number))

    def _orders(
        self, chance: Any, start: int, count: int, customers: int, values: list[str], *, shipped: float
    ) -> list[tuple[Any, str, Any]]:
        orders = _mixed(_ORDER, np.arange(start, start + count))
        ids = np.array([hash_of(value) for value in values])
        sent = orders[chance.random(count) < shipped]
        return [
            (orders, "customer", _mixed(_CUSTOMER, chance.integers(0, customers, count))),
            (orders, "value", ids[chance.integers(0, _VALUES, count)]),
            (sent, "shipped", np.full(len(sent), _iri("yes"))),
        ]

    def _table(self, name: str, parts: list[tuple[Any, str, Any]]) -> None:
        self.connection.execute(f"CREATE TABLE {name} (s BIGINT, p BIGINT, o BIGINT, g BIGINT)")
        self._add(name, parts)

    def _add(self, name: str, parts: list[tuple[Any, str, Any]]) -> None:
        for subjects, predicate, objects in parts:
            part = pa.table({"s": subjects, "o": objects})
            self.connection.register("part", part)
            values = f"s, {_iri(predicate)}, o, {DEFAULT_GRAPH}"
            self.connection.execute(f"INSERT INTO {name} SELECT {values} FROM part")
            self.connection.unregister("part")

    def _terms(self, texts: list[tuple[Any, list[str]]]) -> None:
        for place, (ids, words) in enumerate(texts):
            column = pa.array(words)
            part = pa.table([ids, column, *typed(column).flatten()], names=["id", "term", *NAMES])
            self.connection.register("part", part)
            verb = "INSERT INTO terms" if place else "CREATE TABLE terms AS"
            self.connection.execute(f"{verb} SELECT * FROM part")
            self.connection.unregister("part")


def plan_of(text: str) -> Operator:
    return rewrite(translate(parse_query(f"PREFIX : <{EX}> {text}", None), False))


def ours(connection: duckdb.DuckDBPyConnection, plan: Operator) -> ResultTables:
    tables = connection.table("quads"), connection.table("terms")
    return evaluate(plan, DuckDb(connection), *tables, id_of)


def our_delta(connection: duckdb.DuckDBPyConnection, plan: Operator) -> ResultTables:
    tables = (connection.table(name) for name in ("quads", "changes", "terms"))
    return delta(plan, DuckDb(connection), *tables, id_of)


def hand_written(name: str, quads: str = "quads", orders: str | None = None) -> str:
    """SQL as one would write it. `orders`: the quads of the orders to start from, if not all."""
    first = orders or quads

    def part(predicate: str, table: str) -> str:
        return f"(SELECT s, o FROM {table} WHERE p = {_iri(predicate)})"

    joined = (
        f"{part('customer', first)} c JOIN {part('value', first)} v ON v.s = c.s "
        f"JOIN {part('city', quads)} t ON t.s = c.o"
    )
    valued = f"{joined} JOIN terms ON terms.id = v.o"
    return {
        "join": f"SELECT c.s, c.o, v.o AS v, t.o AS city FROM {joined}",
        "sum": f"SELECT t.o, sum(whole) + sum(fraction) / 1e18, count(*) FROM {valued} GROUP BY t.o",
        "greatest": f"SELECT t.o, max(nearest) FROM {valued} GROUP BY t.o",
        "distinct": f"SELECT t.o, count(DISTINCT c.o) FROM {joined} GROUP BY t.o",
        "not shipped": f"SELECT c.s, c.o FROM {part('customer', first)} c "
        f"ANTI JOIN {part('shipped', first)} d ON d.s = c.s",
        "filter": f"SELECT v.s, v.o FROM {part('value', first)} v JOIN terms ON id = v.o WHERE whole >= 100 "
        "AND nearest > 100",
        "top": f"SELECT v.s, v.o FROM {part('value', first)} v JOIN terms ON id = v.o "
        "ORDER BY nearest DESC LIMIT 100",
    }[name]


def hand_written_delta(name: str) -> str:
    """Of what the new orders add; of groups, those that they touch before and after."""
    if name not in ("sum", "greatest", "distinct"):
        return hand_written(name, orders="changes")
    touched = (
        f"(SELECT DISTINCT t.o FROM changes c JOIN quads t ON t.s = c.o "
        f"WHERE c.p = {_iri('customer')} AND t.p = {_iri('city')})"
    )
    both = "(SELECT s, p, o FROM quads UNION ALL SELECT s, p, o FROM changes)"
    return " UNION ALL ".join(
        hand_written(name, quads).replace("GROUP BY", f"WHERE t.o IN {touched} GROUP BY")
        for quads in ("quads", both)
    )


def best(call: Callable[[], Any], rounds: int, clock: Callable[[], float]) -> float:
    times = []
    for _ in range(rounds):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--triples", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=10_000, help="new orders")
    parser.add_argument("--decimals", action="store_true", help="values are decimals")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--views", nargs="*", default=list(VIEWS))
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, for a machine that is busy")
    chosen = parser.parse_args()
    clock = time.process_time if chosen.cpu else time.perf_counter
    connection = duckdb.connect(":memory:", config={"threads": "2"})
    Catalogue(connection, chosen.triples, chosen.decimals).fill(chosen.changes)
    print("| view | first, ours | SQL | ratio | delta, ours | SQL | ratio |\n|---|---|---|---|---|---|---|")
    for name in chosen.views:
        print(f"| {name} | {' | '.join(measured(connection, name, chosen.rounds, clock))} |", flush=True)


def measured(
    connection: duckdb.DuckDBPyConnection, name: str, rounds: int, clock: Callable[[], float]
) -> list[str]:
    """The times of a view, ours and by hand, first and changed."""
    plan, cells = plan_of(VIEWS[name]), []
    for made, by_hand in ((ours, hand_written(name)), (our_delta, hand_written_delta(name))):
        mine = best(partial(made, connection, plan), rounds, clock)
        peer = best(connection.sql(by_hand).to_arrow_table, rounds, clock)
        cells += [f"{mine:.3f} s", f"{peer:.3f} s", f"{mine / peer:.1f}x"]
    return cells


if __name__ == "__main__":
    main()
