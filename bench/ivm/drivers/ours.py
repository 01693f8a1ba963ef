"""sparqlive: the query is a view. A change is timed until the view's delta is available."""

from __future__ import annotations

import argparse

from pyoxigraph import Quad, RdfFormat, parse

import sparqlive
from bench.ivm.drivers.serving import QueryRefusedError, Rows, serve


class Ours:
    def __init__(self, strategy: str) -> None:
        self.name = f"sparqlive {sparqlive.__version__}" + ("" if strategy == "auto" else f", {strategy}")
        self._strategy = strategy
        self._session = sparqlive.open()

    def start(self, file: str, query: str) -> None:
        self._session.load(file)
        try:
            self._view = self._session.view("view", query)
        except sparqlive.Unsupported as error:
            raise QueryRefusedError(str(error)) from None

    def parsed(self, lines: list[str]) -> list[Quad]:
        return list(parse("\n".join(lines), RdfFormat.N_QUADS))

    def apply(self, delete: list[Quad], insert: list[Quad]) -> None:
        epoch = self._session.apply(insert=insert, delete=delete, strategy=self._strategy)
        _ = epoch.deltas["view"]

    def rows(self) -> Rows:
        for row, weight in self._view.weights().items():
            for _ in range(weight):
                yield [None if term is None else str(term) for term in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--strategy", default="auto", help="auto, live, duckdb, spark or rebuild")
    strategy = parser.parse_args().strategy
    serve(lambda: Ours(strategy))


if __name__ == "__main__":
    main()
