"""A path of three edges through random bipartite graphs; one edge is removed and inserted again.

The graph of the counting paper's first experiment (§5.2.1): four layers of nodes, a fraction p of the
possible edges from each layer to the next.
"""

from __future__ import annotations

import random
import time
from itertools import pairwise

from pyoxigraph import NamedNode, Quad, Store

import sparqlive
from bench.measure import (
    Report,
    Sizes,
    bag,
    duration,
    middle,
    percentile,
    run_alone,
    same,
    solutions,
    span,
    timed,
)

SIZES = {"nodes": (1000, 300), "edges_a_round": (150, 50), "rounds": (3, 2), "most_rounds": (9, 2)}
WANTED = {1000: None, 100: 3_000.0, 35: 8_000.0}
"""For 1/p: how many times faster than evaluating the query again."""

PREFIX = "http://example.org/"
_PATTERN = "{ ?x :link ?z1 . ?z1 :link ?z2 . ?z2 :link ?y }"
QUERY = f"PREFIX : <{PREFIX}> SELECT ?x ?y {_PATTERN}"
COUNTING = f"PREFIX : <{PREFIX}> SELECT (COUNT(*) AS ?n) {_PATTERN}"
_LARGEST_COMPARED = 2_000_000
_PEER_SECONDS = 10.0


def graph(nodes: int, one_in: int, chance: random.Random) -> list[Quad]:
    link = NamedNode(PREFIX + "link")
    layers = [[NamedNode(f"{PREFIX}{layer}/{node}") for node in range(nodes)] for layer in "abcd"]
    return [
        Quad(source, link, target)
        for sources, targets in pairwise(layers)
        for source in sources
        for target in targets
        if chance.random() * one_in < 1
    ]


def changes(session: sparqlive.Session, edges: list[Quad]) -> tuple[list[float], list[float]]:
    """Takes each edge away and puts it back: the seconds until the delta is there, and until it is read."""
    until_there, until_read = [], []
    for edge in edges:
        for batch in ({"delete": [edge]}, {"insert": [edge]}):
            start = time.perf_counter()
            delta = session.apply(**batch).deltas["path"]
            until_there.append(time.perf_counter() - start)
            delta.weights()
            until_read.append(time.perf_counter() - start)
    return until_there, until_read


def again(store: Store, session: sparqlive.Session, edge: Quad) -> tuple[float, float]:
    """The peer's seconds for a change and the whole query, and for one that only counts in its engine."""
    start = time.perf_counter()
    store.remove(edge)
    count = solutions(store, QUERY)
    whole = time.perf_counter() - start
    start = time.perf_counter()
    store.add(edge)
    for _ in store.query(COUNTING):
        pass
    counted = time.perf_counter() - start
    session.apply(delete=[edge])
    same("path3", len(session.views["path"]), count)
    session.apply(insert=[edge])
    return whole, counted


def one(sizes: Sizes, one_in: int, report: Report) -> None:
    nodes, edges_a_round = sizes["nodes"], sizes["edges_a_round"]
    chance = random.Random(one_in)
    edges = graph(nodes, one_in, chance)
    store = Store()
    store.extend(edges)
    with sparqlive.open() as session:
        _, loading = timed(lambda: session.load(edges))
        view, registering = timed(lambda: session.view("path", QUERY))
        changes(session, chance.sample(edges, min(len(edges), 20)))
        there, read, whole, counted = [], [], [], []
        for round_ in range(sizes["most_rounds"]):
            if round_ >= sizes["rounds"] and sum(whole) > _PEER_SECONDS:
                break
            ours = changes(session, chance.sample(edges, min(len(edges), edges_a_round)))
            there += ours[0]
            read += ours[1]
            peer = again(store, session, chance.choice(edges))
            whole.append(peer[0])
            counted.append(peer[1])
        count = len(view)
        if count <= _LARGEST_COMPARED:
            same("path3", view.weights(), dict(bag(store, QUERY, view.variables)))
    name = f"path3, p = 1/{one_in}"
    report.ratio_at_least(name, middle(there), middle(whole), WANTED[one_in])
    report.ratio_at_least(f"{name}, the delta also decoded and read", middle(read), middle(whole))
    report.ratio_at_least(
        f"{name}, against COUNT(*), which hands no rows out", middle(there), middle(counted)
    )
    report.remarks.append(
        f"path3, p = 1/{one_in}: {len(edges):,} edges, {count:,} solutions; loaded in {duration(loading)}, "
        f"view computed in {duration(registering)}; p99 of a change {duration(percentile(there, 99))}; "
        f"peer {span(whole)}."
    )


def run(sizes: Sizes) -> Report:
    report = Report()
    for one_in in WANTED:
        one(sizes, one_in, report)
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
