"""DuckDB: takes the change in and evaluates a query again that was written in SQL by hand.

The baseline without a SPARQL engine: one table per predicate, with subject and object as text in N-Triples
syntax, and the number where the object is one. `queries/<graph>/<query>.sql` is the same query as the `.rq`
file beside it; queries without one are refused. `{name}` stands for the table of a predicate.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import duckdb

from bench.ivm.cells import HERE
from bench.ivm.drivers.serving import QueryRefusedError, Rows, serve

_LINE = re.compile(r"(\S+) <([^>]*)> (.*) \.\s*", re.DOTALL)
_NUMBER = re.compile(r'"(-?\d+)"\^\^<http://www\.w3\.org/2001/XMLSchema#integer>')
Parsed = dict[str, list[tuple[str, str, int | None]]]
"""For each predicate its last name: subject, object, number."""


class Duckdb:
    name = f"DuckDB {duckdb.__version__}, SQL by hand"

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:")
        self._connection.execute(
            "CREATE MACRO term(n) AS '\"' || n || '\"^^<http://www.w3.org/2001/XMLSchema#integer>'"
        )
        self._tables: set[str] = set()

    def start(self, file: str, query: str) -> None:
        sql = _sql_of(query)
        used = set(re.findall(r"\{(\w+)\}", sql))
        for name in used:
            self._connection.execute(f'CREATE TABLE "{name}" (s VARCHAR, o VARCHAR, n BIGINT)')
        self._tables = used
        with Path(file).open(encoding="utf-8") as lines:
            self._insert(self.parsed([*lines]))
        self._sql = re.sub(r"\{(\w+)\}", r'"\1"', sql)
        self._found = self._connection.execute(self._sql).fetchall()

    def parsed(self, lines: list[str]) -> Parsed:
        rows: Parsed = defaultdict(list)
        for line in lines:
            found = _LINE.fullmatch(line)
            assert found is not None, line
            number = _NUMBER.fullmatch(found[3])
            rows[re.split("[/#]", found[2])[-1]].append(
                (found[1], found[3], None if number is None else int(number[1]))
            )
        return rows

    def apply(self, delete: Parsed, insert: Parsed) -> None:
        self._connection.begin()
        for name in self._tables & delete.keys():
            rows = [row[:2] for row in delete[name]]
            places = ", ".join(["(?, ?)"] * len(rows))
            self._connection.execute(
                f'DELETE FROM "{name}" WHERE (s, o) IN (VALUES {places})',
                [part for row in rows for part in row],
            )
        self._insert(insert)
        self._connection.commit()
        self._found = self._connection.execute(self._sql).fetchall()

    def _insert(self, rows: Parsed) -> None:
        for name in self._tables & rows.keys():
            for start in range(0, len(rows[name]), 1000):
                part = rows[name][start : start + 1000]
                places = ", ".join(["(?, ?, ?)"] * len(part))
                self._connection.execute(
                    f'INSERT INTO "{name}" VALUES {places}', [value for row in part for value in row]
                )

    def rows(self) -> Rows:
        return self._found


def _sql_of(query: str) -> str:
    for file in (HERE / "queries").glob("*/*.sql"):
        if file.with_suffix(".rq").read_text(encoding="utf-8") == query:
            return file.read_text(encoding="utf-8")
    raise QueryRefusedError("there is no SQL for this query")


if __name__ == "__main__":
    serve(Duckdb)
