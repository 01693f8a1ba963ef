"""Paths of any length: the ancestors in a taxonomy, and all pairs of a graph with cycles.

An edge is removed and inserted again. The taxonomy's peer evaluates the query again. For all pairs the peer
is this engine, which computes the view from scratch without listing its pairs. A change does list the pairs
that it changes, so the slowest change is the one that counts.
"""

from __future__ import annotations

import random
import time

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

SIZES = {
    "concepts": (100_000, 5_000),
    "nodes": (20_000, 1_000),
    "edges": (40_000, 2_000),
    "changes_a_round": (100, 50),
    "rounds": (5, 2),
}
WANTED = 100.0

_PREFIX = "http://example.org/"
_BROADER = NamedNode(f"{_PREFIX}broader")
TOP = f"PREFIX : <{_PREFIX}> SELECT ?x {{ ?x :broader+ :n0 }}"
PAIRS = f"PREFIX : <{_PREFIX}> SELECT ?x ?y {{ ?x :broader+ ?y }}"
_LARGEST_COMPARED = 1_000


def edge(narrower: int, broader: int) -> Quad:
    return Quad(NamedNode(f"{_PREFIX}n{narrower}"), _BROADER, NamedNode(f"{_PREFIX}n{broader}"))


def taxonomy(concepts: int) -> list[Quad]:
    """Every concept below an earlier one, a tenth of them below two."""
    chance = random.Random(5)
    found = [edge(concept, chance.randrange(concept)) for concept in range(1, concepts)]
    found += [
        edge(c, chance.randrange(c)) for c in (chance.randrange(1, concepts) for _ in range(concepts // 10))
    ]
    return list(dict.fromkeys(found))


def cyclic(nodes: int, edges: int) -> list[Quad]:
    """Random edges: two a node give one component of most of the nodes, and what leads there and away."""
    chance = random.Random(6)
    found = dict.fromkeys(edge(chance.randrange(nodes), chance.randrange(nodes)) for _ in range(edges))
    return list(found)


def run(sizes: Sizes) -> Report:
    report = Report()
    _taxonomy(sizes, report)
    _all_pairs(sizes, report, "taxonomy", taxonomy(sizes["concepts"]))
    _all_pairs(sizes, report, "graph with cycles", cyclic(sizes["nodes"], sizes["edges"]))
    return report


def _taxonomy(sizes: Sizes, report: Report) -> None:
    quads = taxonomy(sizes["concepts"])
    chosen = _chosen(quads, sizes)
    store = Store()
    store.bulk_extend(quads)
    ours, peer = [], []
    with sparqlive.open() as session:
        session.load(quads)
        view, registering = timed(lambda: session.view("view", TOP))
        for number in range(sizes["rounds"]):
            ours += changes(session, chosen[number])
            taken = chosen[number][0]
            store.remove(taken)
            count, elapsed = timed(lambda: solutions(store, TOP))
            peer.append(elapsed)
            session.apply(delete=[taken])
            same("to the top", len(view), count)
            session.apply(insert=[taken])
            store.add(taken)
        same("to the top", view.weights(), dict(bag(store, TOP, view.variables)))
        size = view.stats()
    report.ratio_at_least(
        f"`?x :broader+ :top`, {sizes['concepts']:,} concepts", middle(ours), middle(peer), WANTED
    )
    report.remarks.append(
        f"to the top: view computed in {duration(registering)}; p99 of a change "
        f"{duration(percentile(ours, 99))}; peer {span(peer)}; {size}."
    )


def _all_pairs(sizes: Sizes, report: Report, name: str, quads: list[Quad]) -> None:
    chosen = _chosen(quads, sizes)
    ours, again = [], []
    with sparqlive.open() as session:
        session.load(quads)
        view, registering = timed(lambda: session.view("view", PAIRS))
        again.append(registering)
        for edges in chosen:
            ours += changes(session, edges)
            session.drop("view")
            view, elapsed = timed(lambda: session.view("view", PAIRS))
            again.append(elapsed)
        pairs = len(view)
        if len(quads) <= 2 * _LARGEST_COMPARED:
            store = Store()
            store.bulk_extend(quads)
            same(name, view.weights(), dict(bag(store, PAIRS, view.variables)))
    what = f"all pairs of a {name}, {len(quads):,} edges"
    report.ratio_at_least(f"{what}, a change", middle(ours), middle(again))
    report.ratio_at_least(f"{what}, the slowest change", max(ours), middle(again), 1.0)
    report.remarks.append(
        f"{name}: {pairs:,} pairs; p90 of a change {duration(percentile(ours, 90))}, p99 "
        f"{duration(percentile(ours, 99))}; from scratch {span(again)}."
    )


def _chosen(quads: list[Quad], sizes: Sizes) -> list[list[Quad]]:
    chance = random.Random(7)
    return [chance.sample(quads, sizes["changes_a_round"]) for _ in range(sizes["rounds"])]


def changes(session: sparqlive.Session, edges: list[Quad]) -> list[float]:
    samples = []
    for quad in edges:
        total = 0
        for batch in ({"delete": [quad]}, {"insert": [quad]}):
            start = time.perf_counter()
            delta = session.apply(**batch).deltas["view"]
            samples.append(time.perf_counter() - start)
            total += sum(delta.rows.values())
        same("a change and its opposite", total, 0)
    return samples


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
