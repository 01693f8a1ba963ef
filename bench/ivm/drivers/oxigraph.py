"""pyoxigraph: takes the change in and evaluates the query again, to its last solution."""

from __future__ import annotations

import pyoxigraph
from pyoxigraph import Quad, RdfFormat, Store, parse

from bench.ivm.drivers.serving import Rows, serve


class Oxigraph:
    name = f"pyoxigraph {pyoxigraph.__version__}"

    def __init__(self) -> None:
        self._store = Store()

    def start(self, file: str, query: str) -> None:
        self._store.bulk_load(path=file, format=RdfFormat.N_QUADS)
        self._query = query
        self._evaluate()

    def parsed(self, lines: list[str]) -> list[Quad]:
        return list(parse("\n".join(lines), RdfFormat.N_QUADS))

    def apply(self, delete: list[Quad], insert: list[Quad]) -> None:
        for quad in delete:
            self._store.remove(quad)
        self._store.extend(insert)
        self._evaluate()

    def _evaluate(self) -> None:
        found = self._store.query(self._query)
        if not isinstance(found, pyoxigraph.QueryBoolean):
            for _ in found:
                pass

    def rows(self) -> Rows:
        found = self._store.query(self._query)
        if isinstance(found, pyoxigraph.QueryBoolean):
            return [[]] if found else []
        if isinstance(found, pyoxigraph.QueryTriples):
            return [[str(term) for term in triple] for triple in set(found)]
        return [[None if term is None else str(term) for term in solution] for solution in found]


if __name__ == "__main__":
    serve(Oxigraph)
