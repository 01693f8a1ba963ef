"""Query shapes in which a change could cost more than evaluating again, each against pyoxigraph.

`python -m bench.shapes [ROWS]` prints per shape the time of one change, and of one evaluation of the query by
pyoxigraph.
"""

from __future__ import annotations

import statistics
import sys
import time

import pyoxigraph as ox

import sparqlive

EX = "http://example.org/"
ROWS = 2_000
CHANGES = 30

SHAPES = {
    "NOT EXISTS, no shared variable": "?s :p ?o FILTER NOT EXISTS { ?x :none ?y }",
    "EXISTS, no shared variable": "?s :p ?o FILTER EXISTS { ?x :q ?y }",
    "OPTIONAL, no shared variable": "?s :p ?o OPTIONAL { ?x :none ?y }",
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


def changes(rows: int) -> list[ox.Quad]:
    """New quads of each predicate in turn: subjects that are there, values that are not extreme."""
    predicates = ("p", "q", "r", "few", "unread")
    return [quad(predicates[n % 5], n * 7 % rows, rows // 2 + n) for n in range(CHANGES)]


def measure(body: str, head: str, rows: int) -> tuple[float, float, float]:
    """Seconds: the median of a change and the longest one here, and one evaluation by pyoxigraph."""
    text = f"PREFIX : <{EX}> {head} {{ {body} }}"
    quads = data(rows)
    with sparqlive.open() as session:
        session.load(quads)
        session.view("v", text)
        spent = []
        for change in changes(rows):
            for step in ({"insert": [change]}, {"delete": [change]}):
                began = time.process_time()
                session.apply(**step)
                spent.append(time.process_time() - began)
    store = ox.Store()
    store.extend(quads)
    began = time.process_time()
    for _ in store.query(text):  # type: ignore[union-attr]
        pass
    return statistics.median(spent), max(spent), time.process_time() - began


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print(f"| shape, {rows:,} rows | head | change, median ms | longest ms | pyoxigraph evaluates, ms |")
    print("|---|---|---:|---:|---:|")
    for name, body in SHAPES.items():
        for head in HEADS:
            here, longest, there = (1000 * seconds for seconds in measure(body, head, rows))
            print(f"| {name} | `{head[7:]}` | {here:.2f} | {longest:.2f} | {there:.1f} |", flush=True)


if __name__ == "__main__":
    main()
