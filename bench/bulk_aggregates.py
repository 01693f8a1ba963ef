"""A catalogue of orders in bulk, beside its limit: a join, SUM and COUNT by city, and orders not shipped.

A store with orders (customer, value, shipped) and customers (name, city). Measured are the first computation
of each view on DuckDB in process, as in `bench/bulk.py`, and batches of orders that come and go, from encoded
changes to the view's delta. Both are compared with hand-written SQL over the columns that the session has in
memory: the complete query, and the delta rules for any insertion or deletion. For the sums, the SQL has a
table with the totals before the batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
from pyoxigraph import RdfFormat, parse

import sparqlive
from bench.bulk import compare_first, first_rows, write_sorted
from bench.measure import Report, Sizes, duration, run_alone, same, timed
from bench.orders import PREFIX, Catalogue
from sparqlive.quads.scope import Scope
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, hash_of

SIZES = {
    "triples": (12_000_000, 100_000),
    "orders": (40_000, 400),
    "most_orders": (400_000, 1_000),
    "rounds": (2, 1),
}
_JOINED = "?o :customer ?c . ?o :value ?v . ?c :city ?t"
VIEWS = {
    "join": f"SELECT ?o ?c ?v ?t {{ {_JOINED} }}",
    "sum": f"SELECT ?t (SUM(?v) AS ?total) (COUNT(*) AS ?n) {{ {_JOINED} }} GROUP BY ?t",
    "not shipped": "SELECT ?o ?c { ?o :customer ?c FILTER NOT EXISTS { ?o :shipped ?d } }",
}
WANTED = {"join": 3.0, "sum": 5.0, "not shipped": 3.0}
"""How many times as long as the hand-written SQL a view may take."""
_PREDICATES = ("customer", "value", "shipped", "city")

_ORDERS = (
    "SELECT c.s, c.o AS c, v.o AS v, t.o AS t FROM customer c JOIN value v USING (s) JOIN city t ON t.s = c.o"
)
_WHOLE = {
    "join": _ORDERS,
    "sum": f"SELECT t, sum(whole) AS total, count(*) AS n FROM ({_ORDERS}) JOIN terms ON id = v GROUP BY t",
    "not shipped": "SELECT s, o FROM customer ANTI JOIN shipped USING (s)",
}
_ORDERS_DELTA = (
    "SELECT s, c, v, t, sum(w) AS w FROM ("
    "SELECT d.s, d.o AS c, v.o AS v, t.o AS t, w FROM d_customer d JOIN value v USING (s) "
    "JOIN city t ON t.s = d.o "
    "UNION ALL SELECT d.s, c.o, d.o, t.o, w FROM d_value d JOIN n_customer c USING (s) "
    "JOIN city t ON t.s = c.o "
    "UNION ALL SELECT c.s, c.o, v.o, d.o, w FROM d_city d JOIN n_customer c ON c.o = d.s "
    "JOIN n_value v ON v.s = c.s) GROUP BY ALL HAVING sum(w) <> 0"
)
_SUMS_DELTA = (
    f"SELECT t, sum(w * whole) AS more, sum(w) AS orders FROM ({_ORDERS_DELTA}) "
    "JOIN terms ON id = v GROUP BY t"
)
_DELTA = {
    "join": _ORDERS_DELTA,
    "sum": f"WITH changed AS MATERIALIZED ({_SUMS_DELTA}) "
    "SELECT t, total, n, -1 AS w FROM totals SEMI JOIN changed USING (t) "
    "UNION ALL SELECT t, coalesce(total, 0) + more, coalesce(n, 0) + orders, 1 "
    "FROM changed LEFT JOIN totals USING (t) WHERE coalesce(n, 0) + orders > 0",
    "not shipped": "SELECT s, o, sum(w) AS w FROM ("
    "SELECT s, o, w FROM d_customer ANTI JOIN n_shipped USING (s) ANTI JOIN d_shipped USING (s) "
    "UNION ALL SELECT s, o, 1 FROM n_customer SEMI JOIN d_shipped USING (s) ANTI JOIN n_shipped USING (s) "
    "UNION ALL SELECT s, o, -1 FROM customer SEMI JOIN d_shipped USING (s) ANTI JOIN shipped USING (s)) "
    "GROUP BY ALL HAVING sum(w) <> 0",
}


def run(sizes: Sizes) -> Report:
    report = Report()
    catalogue = Catalogue(sizes["triples"])
    with tempfile.TemporaryDirectory(prefix="sparqlive-orders-") as name:
        folder = Path(name)
        catalogue.write(folder / "data.nt")
        with sparqlive.open(folder / "store") as session:
            epoch, seconds = timed(lambda: session.load(folder / "data.nt"))
            same("load", epoch.inserted, catalogue.triples)
            report.note(f"load of the catalogue, {catalogue.triples:,} triples", duration(seconds))
            for view in VIEWS:
                _measure_first(report, session, view, folder)
                for orders in (sizes["orders"], sizes["most_orders"]):
                    _measure_batches(report, session, catalogue, view, orders, sizes["rounds"])
                session.drop(view)
    return report


def _measure_first(report: Report, session: sparqlive.Session, view: str, folder: Path) -> None:
    """Twice: the first time, the session also reads columns and terms that it then keeps in memory."""
    query = f"PREFIX : <{PREFIX}> {VIEWS[view]}"
    _, seconds = timed(partial(session.view, view, query, strategy="duckdb"))
    report.note(f"{view}: first computation, with columns and terms read from files", duration(seconds))
    session.drop(view)
    registered, durable = timed(partial(session.view, view, query, strategy="duckdb"))
    hand = _Hand(session, view)
    rows, theirs = timed(hand.whole)
    same(view, len(registered), rows.num_rows)
    if view == "sum":
        same(view, _totals(registered.weights().items()), hand.totals(rows))
    count, ours = timed(partial(first_rows, session, view))
    same(view, count, rows.num_rows)
    _, written = timed(partial(hand.write, folder / "peer.parquet"))
    compare_first(report, f"{view}: first computation", (ours, durable), (theirs, written), WANTED[view])


def _measure_batches(
    report: Report, session: sparqlive.Session, catalogue: Catalogue, view: str, orders: int, rounds: int
) -> None:
    """New orders come, and go again."""
    carried, complete, theirs = [], [], []
    for batch in range(rounds):
        text = catalogue.new_orders(orders, batch)
        for insert, delete in ((text, ""), ("", text)):
            hand = _Hand(session, view)
            hand.take(delete, insert)
            epoch, seconds = timed(partial(session.apply, insert=insert, delete=delete, strategy="duckdb"))
            hand.read_terms()
            rows, by_hand = timed(hand.delta)
            delta = epoch.deltas[view]
            same(f"{view}, {orders:,} orders", len(delta), rows.num_rows)
            if view == "sum":
                same(view, _totals(delta.weights().items()), hand.totals(rows))
            carried.append(epoch.choices[view].seconds)
            complete.append(seconds)
            theirs.append(by_hand)
    ours, peer = median(carried), median(theirs)
    what = f"{view}, batches of {orders:,} orders"
    report.ratio_at_most(
        f"{what}, encoded to delta, peer hand-written SQL", ours, peer, ours / peer, WANTED[view]
    )
    report.note(f"{what}, text to durable", duration(median(complete)))


def _totals(weights: Iterable[tuple[Any, int]]) -> tuple[int, int]:
    """All sums and all counts, added up."""
    rows = [(int(row[1].value) * weight, int(row[2].value) * weight) for row, weight in weights]
    return sum(total for total, _ in rows), sum(count for _, count in rows)


def _predicate(name: str) -> int:
    return hash_of(f"<{PREFIX}{name}>")


class _Hand:
    """SQL as one would write it for one view, over the columns that the session has in memory."""

    def __init__(self, session: sparqlive.Session, view: str) -> None:
        self._session = session
        self._view = view
        self._connection = duckdb.connect()
        unnamed = Scope("one", frozenset({DEFAULT_GRAPH}))
        for name in _PREDICATES:
            (table,) = session._writer.quads.tables(unnamed, _predicate(name), after=False)
            self._connection.register(name, pa.table({"s": table.subjects, "o": table.objects}))
        if view == "sum":
            self.read_terms()
            self._connection.register("totals", self._connection.sql(_WHOLE[view]).to_arrow_table())

    def read_terms(self) -> None:
        """The dictionary, with the terms that a batch brought."""
        if self._view == "sum":
            self._connection.register("terms", self._session._writer.strategies._data.terms())

    def whole(self) -> Any:
        return self._connection.sql(_WHOLE[self._view]).to_arrow_table()

    def write(self, path: Path) -> None:
        write_sorted(self._connection, _WHOLE[self._view], path)

    def take(self, delete: str, insert: str) -> None:
        rows = [
            (hash_of(str(quad.subject)), hash_of(str(quad.predicate)), hash_of(str(quad.object)), weight)
            for weight, text in ((-1, delete), (1, insert))
            for quad in parse(text, RdfFormat.N_TRIPLES)
        ]
        columns = dict(zip("spow", map(pa.array, zip(*rows, strict=True)), strict=True))
        self._connection.register("changes", pa.table(columns))

    def delta(self) -> Any:
        parts = ", ".join(
            f"d_{name} AS (SELECT s, o, w FROM changes WHERE p = {_predicate(name)}), n_{name} AS ("
            f"SELECT s, o FROM {name} ANTI JOIN (SELECT s, o FROM d_{name} WHERE w < 0) USING (s, o) "
            f"UNION ALL SELECT s, o FROM d_{name} WHERE w > 0)"
            for name in _PREDICATES
        )
        return self._connection.sql(f"WITH {parts} SELECT * FROM ({_DELTA[self._view]})").to_arrow_table()

    def totals(self, rows: Any) -> tuple[int, int]:
        weights = rows.column("w").to_pylist() if "w" in rows.column_names else [1] * rows.num_rows
        pairs = zip(rows.column("total").to_pylist(), rows.column("n").to_pylist(), weights, strict=True)
        signed = [(int(total) * weight, int(count) * weight) for total, count, weight in pairs]
        return sum(total for total, _ in signed), sum(count for _, count in signed)


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
