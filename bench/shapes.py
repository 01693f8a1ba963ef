"""Query shapes in which a change could cost more than evaluating again, each against pyoxigraph.

`python -m bench.shapes [ROWS]` prints per shape the time of one change, and of one evaluation of the query by
pyoxigraph, whose terms are read. Some of the changes make the whole result come and go.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass

import pyoxigraph as ox

import sparqlive

EX = "http://example.org/"
ROWS = 2_000
CHANGES = 5  # of each predicate
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
    quads = [quad("few", number, number) for number in range(20)]
    for number in range(rows):
        quads += (quad("p", number, number), quad("q", number, number * 2), quad("q", number, number - 1))
        if number % 2:
            quads.append(quad("r", number, number - 5))
    return quads


def quad(predicate: str, subject: int, value: int) -> ox.Quad:
    return ox.Quad(ox.NamedNode(f"{EX}s{subject}"), ox.NamedNode(EX + predicate), ox.Literal(value))


def changes(predicate: str, rows: int) -> list[ox.Quad]:
    """New quads of a predicate: subjects that are there, values that are not extreme."""
    return [quad(predicate, n * 7 % rows, rows // 2 + n) for n in range(CHANGES)]


@dataclass(frozen=True)
class Step:
    """A kind of change: the median seconds of carrying one, and of evaluating the query after it."""

    name: str
    carried: float
    evaluated: float


def measure(body: str, head: str, rows: int) -> list[Step]:
    text = f"PREFIX : <{EX}> {head} {{ {body} }}"
    quads = data(rows)
    store = ox.Store()
    store.extend(quads)
    steps = []
    with sparqlive.open() as session:
        session.load(quads)
        session.view("v", text)
        for predicate in PREDICATES:
            spent: dict[str, list[float]] = {"insert": [], "delete": []}
            for change in changes(predicate, rows):
                for kind in ("insert", "delete"):
                    began = time.process_time()
                    session.apply(**{kind: [change]})
                    spent[kind].append(time.process_time() - began)
            for kind, times in spent.items():
                (store.add if kind == "insert" else store.remove)(change)
                steps.append(Step(f"{kind} :{predicate}", statistics.median(times), _evaluate(store, text)))
    return steps


def _evaluate(store: ox.Store, text: str) -> float:
    times = []
    for _ in range(EVALUATIONS):
        began = time.process_time()
        for solution in store.query(text):  # type: ignore[union-attr]
            tuple(solution)
        times.append(time.process_time() - began)
    return statistics.median(times)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print(f"| shape, {rows:,} rows | head | median change, ms | worst change | ms | pyoxigraph, ms | ratio |")
    print("|---|---|---:|---|---:|---:|---:|")
    for name, body in SHAPES.items():
        for head in HEADS:
            steps = measure(body, head, rows)
            median = 1000 * statistics.median(step.carried for step in steps)
            worst = max(steps, key=lambda step: step.carried / step.evaluated)
            here, there = 1000 * worst.carried, 1000 * worst.evaluated
            print(
                f"| {name} | `{head[7:]}` | {median:.2f} | {worst.name} | {here:.2f} | {there:.2f} | "
                f"{here / there:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
