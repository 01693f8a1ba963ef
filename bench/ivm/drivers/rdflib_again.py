"""rdflib: takes the change in and evaluates the query again, to its last solution."""

from __future__ import annotations

from typing import Any

import rdflib
from rdflib.plugins.sparql import prepareQuery

from bench.ivm.drivers.serving import Rows, serve


class Rdflib:
    name = f"rdflib {rdflib.__version__}"

    def __init__(self) -> None:
        self._dataset = rdflib.Dataset()

    def start(self, file: str, query: str) -> None:
        self._dataset.parse(file, format="nquads")
        self._query = prepareQuery(query)
        self._found = self._evaluate()

    def parsed(self, lines: list[str]) -> list[Any]:
        dataset = rdflib.Dataset()
        dataset.parse(data="\n".join(lines), format="nquads")
        return list(dataset.quads())

    def apply(self, delete: list[Any], insert: list[Any]) -> None:
        for quad in delete:
            self._dataset.remove(quad)
        for subject, predicate, object_, graph in insert:
            self._dataset.graph(graph).add((subject, predicate, object_))
        self._found = self._evaluate()

    def _evaluate(self) -> Any:
        result = self._dataset.query(self._query)
        return result.askAnswer if result.type == "ASK" else list(result)

    def rows(self) -> Rows:
        if isinstance(self._found, bool):
            return [[]] if self._found else []
        return [[None if term is None else term.n3() for term in row] for row in self._found]


if __name__ == "__main__":
    serve(Rdflib)
