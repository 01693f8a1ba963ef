"""A star of three patterns around each of many subjects; one triple is removed and inserted again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

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

SIZES = {"subjects": (1_000_000, 50_000), "changes_a_round": (200, 100), "rounds": (5, 2)}
WANTED = 10_000.0

PREFIX = "http://example.org/"
_OBJECTS = 1000
QUERY = f"PREFIX : <{PREFIX}> SELECT ?s ?x ?y ?z {{ ?s :a ?x . ?s :b ?y . ?s :c ?z }}"
_LARGEST_COMPARED = 100_000


def graph(subjects: int, name: str = "s", seed: int = 3) -> Iterator[Quad]:
    chance = random.Random(seed)
    arms = [NamedNode(PREFIX + name) for name in "abc"]
    objects = [NamedNode(f"{PREFIX}o{value}") for value in range(_OBJECTS)]
    for subject in range(subjects):
        centre = NamedNode(f"{PREFIX}{name}{subject}")
        for arm in arms:
            yield Quad(centre, arm, objects[int(chance.random() * _OBJECTS)])


def run(sizes: Sizes) -> Report:
    subjects, rounds, a_round = sizes["subjects"], sizes["rounds"], sizes["changes_a_round"]
    chance = random.Random(4)
    chosen = set(chance.sample(range(subjects * 3), min(subjects, rounds * a_round + rounds)))
    edges = [quad for place, quad in enumerate(graph(subjects)) if place in chosen]
    chance.shuffle(edges)
    making = timed(lambda: sum(1 for _ in graph(subjects)))[1]
    store = Store()
    _, peer_loading = timed(lambda: store.bulk_extend(graph(subjects)))
    ours, peer = [], []
    with sparqlive.open() as session:
        _, loading = timed(lambda: session.load(graph(subjects)))
        view, registering = timed(lambda: session.view("star", QUERY))
        for number in range(rounds):
            ours += changes(session, edges[rounds + number * a_round :][:a_round])
            peer.append(again(store, session, edges[number]))
        same("star", len(view), subjects)
        if subjects <= _LARGEST_COMPARED:
            same("star", view.weights(), dict(bag(store, QUERY, view.variables)))
    report = Report()
    report.ratio_at_least(f"star, {subjects:,} subjects", middle(ours), middle(peer), WANTED)
    report.remarks.append(
        f"star: {3 * subjects:,} triples loaded in {duration(loading)} (peer {duration(peer_loading)}), of "
        f"which making them took {duration(making)}; view computed in {duration(registering)}; "
        f"p99 of a change {duration(percentile(ours, 99))}; peer {span(peer)}."
    )
    return report


def changes(session: sparqlive.Session, edges: list[Quad]) -> list[float]:
    samples = []
    for edge in edges:
        for batch, weight in (({"delete": [edge]}, -1), ({"insert": [edge]}, 1)):
            start = time.perf_counter()
            delta = session.apply(**batch).deltas["star"]
            samples.append(time.perf_counter() - start)
            same("star", list(delta.weights().values()), [weight])
    return samples


def again(store: Store, session: sparqlive.Session, edge: Quad) -> float:
    start = time.perf_counter()
    store.remove(edge)
    count = solutions(store, QUERY)
    elapsed = time.perf_counter() - start
    store.add(edge)
    session.apply(delete=[edge])
    same("star", len(session.views["star"]), count)
    session.apply(insert=[edge])
    return elapsed


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
