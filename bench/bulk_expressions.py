"""Filters and bindings over many terms on DuckDB: as SQL, and as Arrow functions of the Python definitions.

A dictionary of integers, decimals, doubles, dates and strings with its typed columns, and a quad for each of
these terms. Every expression runs over the terms of the kind that it is for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
from pyoxigraph import NamedNode

from bench.bulk_executor import EX, best, id_of, ours, plan_of
from sparqlive.bulk import extend
from sparqlive.bulk.native import Native
from sparqlive.rdf.columns import Encoder
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.sparql.algebra import Expression
from sparqlive.sparql.columns import NAMES, typed

_XSD = "http://www.w3.org/2001/XMLSchema#"
EXPRESSIONS = {
    "integer": ("FILTER(?v * 2 + 1 > 100)", "FILTER(?v / 3 < 100)", "BIND(?v * 2 + 1 AS ?r)"),
    "decimal": ("FILTER(?v * 1.19 > 100)", "BIND(?v * 1.19 AS ?r)", "BIND(ROUND(?v / 7) AS ?r)"),
    "double": ("FILTER(?v * 0.5 + 1 > 100)", "BIND(?v / 3 AS ?r)", "BIND(FLOOR(?v) AS ?r)"),
    "dateTime": ("FILTER(YEAR(?v) = 2020)", "BIND(MONTH(?v) AS ?r)", "BIND(SUBSTR(STR(?v), 1, 7) AS ?r)"),
    "string": (
        "FILTER(CONTAINS(LCASE(?v), '77'))",
        "FILTER(STRLEN(?v) > 12)",
        "BIND(UCASE(?v) AS ?r)",
        "BIND(CONCAT(STRBEFORE(?v, ' '), '-') AS ?r)",
    ),
}


def texts_of(kind: str, count: int) -> list[str]:
    if kind == "string":
        return [f'"Customer {number}"' for number in range(count)]
    if kind == "dateTime":
        start = np.datetime64("2000-01-01T00:00:00")
        forms = [f"{moment}Z" for moment in (start + np.arange(count) * 601).tolist()]
        forms = [form.replace(" ", "T") for form in forms]
    else:
        forms = {
            "integer": lambda: [str(number) for number in range(count)],
            "decimal": lambda: [f"{number // 100}.{number % 100:02}" for number in range(count)],
            "double": lambda: [repr(number / 7) for number in range(count)],
        }[kind]()
    return [f'"{form}"^^<{_XSD}{kind}>' for form in forms]


def fill(connection: duckdb.DuckDBPyConnection, kind: str, count: int) -> None:
    texts = pa.array(texts_of(kind, count))
    ids = Encoder().ids(texts)
    terms = pa.table([ids, texts, *typed(texts).flatten()], names=["id", "term", *NAMES])
    connection.register("new_terms", terms)
    connection.execute("CREATE OR REPLACE TABLE terms AS SELECT * FROM new_terms")
    predicate = id_of(NamedNode(EX + "v"))
    quads = f"SELECT id AS s, {predicate} AS p, id AS o, {DEFAULT_GRAPH} AS g FROM terms"
    connection.execute(f"CREATE OR REPLACE TABLE quads AS {quads}")


class _Nothing(Native):
    """Has no SQL, so that everything is left to Python."""

    def condition(self, expression: Expression) -> str | None:
        return None

    def value(self, expression: Expression) -> str | None:
        return None

    def text(self, expression: Expression) -> str | None:
        return None


@contextmanager
def by_python() -> Iterator[None]:
    extend.Native = _Nothing  # type: ignore[misc]
    try:
        yield
    finally:
        extend.Native = Native  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--terms", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, for a machine that is busy")
    chosen = parser.parse_args()
    clock: Callable[[], float] = time.process_time if chosen.cpu else time.perf_counter
    connection = duckdb.connect(":memory:", config={"threads": "2"})
    print("| terms | expression | SQL | Python | ratio |\n|---|---|---|---|---|")
    for kind, expressions in EXPRESSIONS.items():
        fill(connection, kind, chosen.terms)
        for expression in expressions:
            run = partial(ours, connection, plan_of(f"SELECT * {{ ?s :v ?v {expression} }}"))
            native = best(run, chosen.rounds, clock)
            with by_python():
                peer = best(run, 1, clock)
            cells = (kind, f"`{expression}`", f"{native:.2f} s", f"{peer:.2f} s", f"{peer / native:.1f}x")
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
