"""Random histories of stores with deferred views: changes, refreshes by time, reopening, crashes, compaction.

After each step, every view must be what pyoxigraph computes from the quads of the view's epoch, and `check()`
must pass. `python -m tests.random_histories --minutes 10` continues with further seeds.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import pyoxigraph as ox

import sparqlive
from sparqlive.engine.deferred import Refresh
from sparqlive.live import plan_registry
from tests.oracle import Oracle, assert_same
from tests.soaking import soak

EX = "http://example.org/"
QUERIES = (
    "SELECT ?x ?y { ?x :p ?y }",
    "SELECT DISTINCT ?x { ?x :p ?y }",
    "SELECT ?x ?z { ?x :p ?y . ?y :q ?z }",
    "SELECT ?x ?y ?z { ?x :p ?y OPTIONAL { ?y :q ?z } }",
    "SELECT ?y (COUNT(?x) AS ?n) { ?x :p ?y } GROUP BY ?y",
    "SELECT ?x ?y { ?x :p+ ?y }",
    "SELECT ?x { ?x :p ?y FILTER NOT EXISTS { ?y :q ?z } }",
    "SELECT ?x ?y ?v ?w { ?x :p ?y . ?v :q ?w }",  # a product, which fails if too much of it changes
    "SELECT ?x ?y { ?x :p ?y } ORDER BY ?y ?x LIMIT 3",
)
REFRESHES: tuple[Refresh, ...] = ("immediate", "manual", 0.001, 0.02, 0.3)
_PRODUCT_ROWS = 25


class History:
    """One store, and the quads of each of its epochs."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.copies = 0
        self.session = sparqlive.open(folder / "store")
        self.quads: set[ox.Quad] = set()
        self.at: dict[int, set[ox.Quad]] = {0: set()}
        self.queries: dict[str, str] = {}

    def run(self, steps: int) -> None:
        actions = (
            [self.change] * 8
            + [self.register] * 3
            + [self.reopen, self.crash] * 2
            + [self.refresh, self.drop, self.compact, self.repair]
        )
        try:
            for _ in range(steps):
                self.random.choice(actions)()
                time.sleep(self.random.choice((0, 0, 0.002, 0.03)))
                self.verify()
        finally:
            self.session.close()

    def change(self) -> None:
        nodes = [ox.NamedNode(f"{EX}{number}") for number in range(5)]
        predicates = [ox.NamedNode(EX + name) for name in "pq"]
        chosen = [
            ox.Quad(self.random.choice(nodes), self.random.choice(predicates), self.random.choice(nodes))
            for _ in range(self.random.randint(1, 6))
        ]
        delete = [quad for quad in chosen if quad in self.quads]
        insert = [quad for quad in chosen if quad not in self.quads]
        epoch = self.session.apply(insert, delete)
        self.quads = (self.quads - {*delete}) | {*insert}
        self.at[epoch.number] = set(self.quads)

    def register(self) -> None:
        name, query = f"v{self.random.randrange(6)}", self.random.choice(QUERIES)
        text = f"PREFIX : <{EX}> {query}"
        self.session.view(name, text, replace=True, refresh=self.random.choice(REFRESHES))
        self.queries[name] = text

    def drop(self) -> None:
        if self.queries:
            name = self.random.choice(list(self.queries))
            self.session.drop(name)
            del self.queries[name]

    def refresh(self) -> None:
        for name, view in self.session.views.items():
            if view.failure is None and self.random.random() < 0.5:
                self.session.views[name].refresh()

    def compact(self) -> None:
        self.session.compact()

    def repair(self) -> None:
        assert self.session.repair() == []

    def reopen(self) -> None:
        path = self.folder / ("store" if not self.copies else f"copy{self.copies}")
        self.session.close()
        self.session = sparqlive.open(path)

    def crash(self) -> None:
        """Continues with a copy of the files as they are, as if the process had been killed."""
        path = self.folder / ("store" if not self.copies else f"copy{self.copies}")
        self.copies += 1
        with self.session.reading():
            shutil.copytree(path, self.folder / f"copy{self.copies}")
        self.session.close()
        shutil.rmtree(path)
        self.session = sparqlive.open(self.folder / f"copy{self.copies}")

    def verify(self) -> None:
        with self.session.reading():
            self.session.check()
            assert {*self.session.views} == {*self.queries}
            for name, view in self.session.views.items():
                if view.failure is not None:
                    assert "more than" in view.failure, view.failure
                    continue
                expected = Oracle(self.at[view.epoch]).weights(self.queries[name], view.variables)
                assert_same(view.weights(), expected, f"{name} at epoch {view.epoch}: {self.queries[name]}")


def check_history(seed: int, folder: Path, steps: int = 30) -> None:
    with mock.patch.object(plan_registry, "EXPANDED_ROWS", _PRODUCT_ROWS):
        History(seed, folder).run(steps)


def main() -> int:
    tried = 0

    def attempt(seed: int) -> None:
        nonlocal tried
        with tempfile.TemporaryDirectory(prefix="sparqlive-") as folder:
            check_history(seed, Path(folder))
        tried += 1

    return soak(__doc__, attempt, lambda: f"{tried} histories")


if __name__ == "__main__":
    sys.exit(main())
