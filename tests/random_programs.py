"""Random programs over a session: `python -m tests.random_programs --minutes 60`.

A program is a list of steps drawn from a seed: batches and SPARQL updates; views of nested queries that
are added, replaced and dropped, some of them refreshed by time or by hand; random strategies; compaction;
reopening; dozens of graphs and predicates. After some steps each view is compared with pyoxigraph where it is
to be trusted, with the reference (`session.check`), with the same query asked once, and with the sum of its
deltas. A difference is shown with its seed, and the exit status is 1.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyoxigraph as ox

import sparqlive
from tests.oracle import Oracle, Weights, add, assert_same
from tests.random_nested import MOST_CHARACTERS, Maker, quad, trusted
from tests.random_queries import EX, NODES, PREDICATES
from tests.soaking import soak

STRATEGIES = ("auto", "auto", "auto", "live", "duckdb", "rebuild")
REFRESHES = ("immediate", "immediate", "immediate", "manual", 0.02, 0.3)


@dataclass
class Done:
    """How much was run and compared."""

    programs: int = 0
    steps: int = 0
    compared: int = 0
    with_oracle: int = 0

    def __str__(self) -> str:
        return (
            f"{self.programs} programs of {self.steps} steps, {self.compared} comparisons of views, "
            f"{self.with_oracle} of them with pyoxigraph too"
        )


class Program:
    """One session and what is known of it: its quads, its views, and the sums of their deltas."""

    def __init__(self, seed: int, path: Path, done: Done) -> None:
        self.pick = random.Random(seed)
        self.done = done
        self.maker = Maker(seed, self.pick.choice((1, 2, 3)))
        self.path = path if self.pick.random() < 0.7 else None
        self.union = self.pick.random() < 0.4
        self.memory = self.pick.choice((None, None, "300MB", 0)) if self.path else None
        self.data: set[ox.Quad] = set()
        self.sums: dict[str, Weights] = {}
        self.count = 0
        self.answers: list[tuple[str, sparqlive.Answer, Weights]] = []
        self.session = self.open()
        width = self.pick.choice((1, 1, 40))
        self.extra = [
            ox.Quad(
                self.pick.choice(NODES),
                ox.NamedNode(f"{EX}p{number}") if self.pick.random() < 0.5 else self.pick.choice(PREDICATES),
                self.pick.choice(NODES),
                ox.NamedNode(f"{EX}g{number}"),
            )
            for number in range(width)
        ]

    def open(self) -> sparqlive.Session:
        default = "union" if self.union else "strict"
        return sparqlive.open(self.path, default_graph=default, memory=self.memory)

    def run(self, steps: int) -> None:
        ways: list[tuple[Callable[[], None], int]] = [
            (self.batch, 8),
            (self.update, 2),
            (self.add_view, 3),
            (self.replace_view, 1),
            (self.drop_view, 1),
            (self.refresh, 2),
            (self.wait, 1),
            (self.compact, 1),
            (self.reopen, 2),
            (self.compare, 3),
            (self.ask, 3),
            (self.read, 2),
        ]
        try:
            self.batch()
            for _ in range(2):
                self.add_view()
            for _ in range(steps):
                self.done.steps += 1
                self.pick.choices([way for way, _ in ways], [share for _, share in ways])[0]()
            self.compare()
        finally:
            self.session.close()

    # Steps

    def batch(self) -> None:
        count = self.pick.choice((1, 1, 2, 5, 20))
        coming = {quad(self.pick) for _ in range(count)}
        coming.update(self.pick.sample(self.extra, min(len(self.extra), self.pick.choice((0, 1, 10)))))
        some = min(len(self.data), self.pick.choice((0, 1, 3, 15)))
        going = set(self.pick.sample(sorted(self.data, key=str), some)) - coming
        epoch = self.session.apply(
            insert=sorted(coming, key=str),
            delete=sorted(going, key=str),
            strategy=self.pick.choice(STRATEGIES),
        )
        self.data = (self.data - going) | coming
        self.sum_up(epoch)

    def update(self) -> None:
        """DELETE and INSERT by a pattern, or CLEAR of a graph."""
        first, second = self.pick.sample(PREDICATES, 2)
        if self.pick.random() < 0.2:
            text = f"CLEAR SILENT GRAPH <{EX}{self.pick.choice(('g', 'h', 'g0'))}>"
        else:
            text = f"DELETE {{ ?s {first} ?o }} INSERT {{ ?s {second} ?o }} WHERE {{ ?s {first} ?o }}"
        if self.union and "WHERE" in text:  # patterns read all graphs, templates write the unnamed one
            found = {(q.subject, q.object) for q in self.data if q.predicate == first}
            changed = {ox.Quad(s, first, o) for s, o in found}
            self.data = (self.data - changed) | {ox.Quad(s, second, o) for s, o in found}
        else:
            store = ox.Store()
            store.extend(self.data)
            store.update(text)
            self.data = set(store)
        self.sum_up(self.session.update(text))

    def add_view(self, name: str | None = None) -> None:
        if name is None and len(self.sums) >= 6:
            return
        while len(text := self.maker.query()) > MOST_CHARACTERS:
            pass
        self.count += 1
        shown = name or f"v{self.count}"
        try:
            view = self.session.view(
                shown, text, replace=name is not None, refresh=self.pick.choice(REFRESHES)
            )
        except (sparqlive.SyntaxError, sparqlive.Unsupported):
            return
        self.sums[shown] = view.weights()

    def replace_view(self) -> None:
        if self.sums:
            self.add_view(self.pick.choice(sorted(self.sums)))

    def drop_view(self) -> None:
        if self.sums:
            name = self.pick.choice(sorted(self.sums))
            self.session.drop(name)
            del self.sums[name]

    def refresh(self) -> None:
        for name in self.sums:
            if self.pick.random() < 0.5:
                self.session.views[name].refresh()

    def wait(self) -> None:
        time.sleep(self.pick.choice((0.01, 0.03)))

    def compact(self) -> None:
        self.session.compact()

    def reopen(self) -> None:
        """Closes and opens again; at times once more at once, while deferred views are due."""
        if self.path is not None:
            self.answers.clear()
            for _ in range(self.pick.choice((1, 1, 2))):
                self.session.close()
                self.session = self.open()

    def ask(self) -> None:
        """Asks a query whose answer is read later, perhaps after its first row."""
        while len(text := self.maker.query()) > MOST_CHARACTERS:
            pass
        try:
            answer, whole = self.session.query(text), self.session.query(text)
        except (sparqlive.SyntaxError, sparqlive.Unsupported):
            return
        if self.pick.random() < 0.5:
            next(iter(answer), None)
        self.answers.append((text, answer, whole.weights()))

    def read(self) -> None:
        """Reads an answer: it belongs to the epoch in which it was asked for."""
        if self.answers:
            text, answer, expected = self.answers.pop(self.pick.randrange(len(self.answers)))
            assert_same(answer.weights(), expected, f"an answer read later: {text}")

    # Comparing

    def sum_up(self, epoch: sparqlive.Epoch) -> None:
        for name in self.sums:
            if self.session.views[name].refresh_setting == "immediate":
                self.sums[name] = add(self.sums[name], epoch.deltas[name].weights())

    def compare(self) -> None:
        assert set(self.session.quads()) == self.data, "the quads differ"
        for name in self.sums:
            self.session.views[name].refresh()
        self.session.check()
        oracle = Oracle(self.data, union=self.union)
        for name, total in self.sums.items():
            view = self.session.views[name]
            what = f"{name}: {view.text}"
            assert view.failure is None, f"{view.failure}: {what}"
            rows = view.weights()
            self.done.compared += 1
            assert all(weight > 0 for weight in rows.values()), f"a weight is not positive: {what}"
            assert_same(self.session.query(view.text).weights(), rows, f"asked once: {what}")
            if view.refresh_setting == "immediate":
                assert_same(total, rows, f"the sum of its deltas: {what}")
            if trusted(view._state.query, view.text) and not (self.union and "FROM" in view.text):
                self.done.with_oracle += 1
                assert_same(rows, oracle.weights(view.text, view.variables), f"the oracle: {what}")


def run(seed: int, done: Done, steps: int = 25) -> None:
    """Runs one program; what differs is an AssertionError or a CheckFailed."""
    with tempfile.TemporaryDirectory() as folder:
        Program(seed, Path(folder, "store"), done).run(steps)
    done.programs += 1


def main() -> int:
    done = Done()
    return soak(__doc__, lambda seed: run(seed, done), lambda: done)


if __name__ == "__main__":
    sys.exit(main())
