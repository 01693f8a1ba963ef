"""Query shapes in which a change could cost more than evaluating again, each against pyoxigraph.

Shows per shape the median change, and the kind of change that is the worst compared with one evaluation of
the query by pyoxigraph, whose terms are read. Some of the changes make the whole result come and go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyoxigraph as ox

import sparqlive
from bench.measure import Report, Sizes, duration, middle, number, run_alone

EX = "http://example.org/"
SIZES = {"rows": (2_000, 100), "changes": (5, 2)}
EVALUATIONS = 3
PREDICATES = ("p", "q", "r", "few", "unread", "none")

SHAPES = {
    "product": "?s :p ?o . ?x :none ?y",
    "NOT EXISTS, no shared variable": "?s :p ?o FILTER NOT EXISTS { ?x :none ?y }",
    "EXISTS or a comparison": "?s :p ?o FILTER(EXISTS { ?x :none ?y } || ?o < 0)",
    "EXISTS, no shared variable": "?s :p ?o FILTER EXISTS { ?x :q ?y }",
    "OPTIONAL, no shared variable": "?s :p ?o OPTIONAL { ?x :none ?y }",
    "OPTIONAL in OPTIONAL": "?s :p ?o OPTIONAL { ?s :q ?v OPTIONAL { ?x :none ?y } }",
    "MINUS": "?s :p ?o MINUS { ?s :r ?y }",
    "MINUS, variables that may be unbound": (
        "?s :p ?o OPTIONAL { ?s :q ?v } MINUS { ?s :r ?y OPTIONAL { ?s :q ?v } }"
    ),
    "join on a variable that may be unbound": "?s :p ?o OPTIONAL { ?s :q ?v } ?t :r ?v",
    "OPTIONAL with a condition on both sides": "?s :p ?o OPTIONAL { ?s :q ?v FILTER(?v > ?o) }",
    "OPTIONAL by a condition alone": "?s :r ?o OPTIONAL { ?t :few ?v FILTER(?v > ?o) }",
    "NOT EXISTS with <": "?s :p ?o FILTER NOT EXISTS { ?s :q ?v FILTER(?v > ?o) }",
    "NOT EXISTS with <, no shared variable": "?s :p ?o FILTER NOT EXISTS { ?t :few ?v FILTER(?v > ?o) }",
    "EXISTS with !=, no shared variable": "?s :p ?o FILTER EXISTS { ?t :q ?v FILTER(?v != ?o) }",
    "join by <": "?s :r ?o . ?t :few ?v FILTER(?o < ?v)",
    "latest of four properties": " ".join(
        ["?s :p ?o"]
        + [
            f"OPTIONAL {{ ?s :q ?y{i} FILTER NOT EXISTS {{ ?s :q ?n{i} FILTER(?n{i} > ?y{i}) }} }}"
            for i in range(4)
        ]
    ),
    "EXISTS in a condition on both sides": (
        "?s :p ?o OPTIONAL { ?s :q ?v FILTER(EXISTS { ?s :r ?w FILTER(?w < ?o && ?w < ?v) }) }"
    ),
}
HEADS = ("SELECT *", "SELECT (COUNT(*) AS ?n)")


def data(rows: int) -> list[ox.Quad]:
    quads = [quad("few", value, value) for value in range(20)]
    for row in range(rows):
        quads += (quad("p", row, row), quad("q", row, row * 2), quad("q", row, row - 1))
        if row % 2:
            quads.append(quad("r", row, row - 5))
    return quads


def quad(predicate: str, subject: int, value: int) -> ox.Quad:
    return ox.Quad(ox.NamedNode(f"{EX}s{subject}"), ox.NamedNode(EX + predicate), ox.Literal(value))


def changes(predicate: str, rows: int, count: int) -> list[ox.Quad]:
    """New quads of a predicate: subjects that are there, values that are not extreme."""
    return [quad(predicate, n * 7 % rows, rows // 2 + n) for n in range(count)]


@dataclass(frozen=True)
class Step:
    """A kind of change: the median seconds of carrying one, and of evaluating the query after it."""

    name: str
    carried: float
    evaluated: float

    @property
    def ratio(self) -> float:
        return self.evaluated / self.carried


def measure(body: str, head: str, sizes: Sizes) -> list[Step]:
    text = f"PREFIX : <{EX}> {head} {{ {body} }}"
    quads = data(sizes["rows"])
    store = ox.Store()
    store.extend(quads)
    steps = []
    with sparqlive.open() as session:
        session.load(quads)
        session.view("v", text)
        for predicate in PREDICATES:
            spent: dict[str, list[float]] = {"insert": [], "delete": []}
            for change in changes(predicate, sizes["rows"], sizes["changes"]):
                for kind in ("insert", "delete"):
                    began = time.process_time()
                    session.apply(**{kind: [change]})
                    spent[kind].append(time.process_time() - began)
            for kind, times in spent.items():
                (store.add if kind == "insert" else store.remove)(change)
                steps.append(Step(f"{kind} :{predicate}", middle(times), _evaluate(store, text)))
    return steps


def _evaluate(store: ox.Store, text: str) -> float:
    times = []
    for _ in range(EVALUATIONS):
        began = time.process_time()
        for solution in store.query(text):  # type: ignore[union-attr]
            tuple(solution)
        times.append(time.process_time() - began)
    return middle(times)


def run(sizes: Sizes) -> Report:
    report = Report()
    head = ["shape", "head", "median change", "worst kind of change", "ours", "peer", "peer ÷ ours"]
    report.details = [head]
    every: list[Step] = []
    for shape, head_, steps in _measured(sizes):
        every += steps
        worst = min(steps, key=lambda step: step.ratio)
        report.details.append(
            [
                shape,
                f"`{head_.removeprefix('SELECT ')}`",
                duration(middle(step.carried for step in steps)),
                worst.name,
                *map(duration, (worst.carried, worst.evaluated)),
                f"{number(worst.ratio)}×",
            ]
        )
    worst = min(every, key=lambda step: step.ratio)
    slower = sum(step.ratio < 1 for step in every)
    report.ratio_at_least(
        "shapes, median of all kinds of changes",
        middle(step.carried for step in every),
        middle(step.evaluated for step in every),
    )
    report.ratio_at_least(
        f"shapes, worst of {len(every)} kinds of changes ({worst.name}); {slower} cost more than evaluating",
        worst.carried,
        worst.evaluated,
    )
    report.remarks.append(
        "shapes: processor time. A change costs more than an evaluation where the whole result comes or goes "
        "with one quad (`:none`), or where OPTIONAL, NOT EXISTS and EXISTS are tied to the rest by a "
        "comparison alone, so that a new value is compared with every solution of the other side."
    )
    return report


def _measured(sizes: Sizes) -> Iterator[tuple[str, str, list[Step]]]:
    for name, body in SHAPES.items():
        for head in HEADS:
            yield name, head, measure(body, head, sizes)


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
