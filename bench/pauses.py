"""A stream of single changes under a large view: pauses of the garbage collector, and the slowest changes."""

from __future__ import annotations

import gc
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyoxigraph import NamedNode, Quad

import sparqlive
from bench.measure import Report, Sizes, duration, percentile, run_alone, same, timed
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.relation import Relation

SIZES = {"rows": (1_000_000, 100_000), "changes": (20_000, 4_000)}
PAUSE_WANTED = 0.005

_PREFIX = "http://example.org/"
_GROUPS = 1000
QUERY = f"PREFIX : <{_PREFIX}> SELECT ?s ?v {{ ?s :in ?g . ?g :value ?v }}"


def node(name: str) -> NamedNode:
    return NamedNode(_PREFIX + name)


def member(number: int) -> Quad:
    return Quad(node(f"s{number}"), node("in"), node(f"g{number % _GROUPS}"))


def graph(rows: int) -> Iterator[Quad]:
    for group in range(_GROUPS):
        yield Quad(node(f"g{group}"), node("value"), node(f"v{group % 10}"))
    for number in range(rows):
        yield member(number)


class Collections:
    """How long each run of the garbage collector stopped the process, by generation."""

    def __init__(self) -> None:
        self.pauses: list[tuple[float, int]] = []
        self.total = 0.0
        self._start = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._start = time.perf_counter()
        else:
            pause = time.perf_counter() - self._start
            self.total += pause
            self.pauses.append((pause, info["generation"]))

    @contextmanager
    def watched(self) -> Iterator[None]:
        gc.callbacks.append(self)
        try:
            yield
        finally:
            gc.callbacks.remove(self)


@contextmanager
def merges_watched(seconds: list[float]) -> Iterator[None]:
    """Adds up the time in which overlays are folded into sorted runs."""
    kept: list[tuple[type, Callable[..., Any]]] = []

    def watch(kind: type) -> None:
        original = kind.merge

        def merge(self: Any) -> None:
            start = time.perf_counter()
            original(self)
            seconds[0] += time.perf_counter() - start

        kept.append((kind, original))
        kind.merge = merge

    for kind in (KeyedRelation, Relation):
        watch(kind)
    try:
        yield
    finally:
        for kind, original in kept:
            kind.merge = original


class Sample(NamedTuple):
    """The seconds of one change, and how many of them went into merges and into the collector.

    A tuple of numbers, which the collector passes over: the measurement must not be what it measures.
    """

    seconds: float
    merging: float
    collecting: float


def stream(session: sparqlive.Session, rows: int, changes: int, collections: Collections) -> list[Sample]:
    """Old members leave and new ones come, in turn."""
    leaving = left(rows, changes)
    samples = []
    merged = [0.0]
    with merges_watched(merged), collections.watched():
        for step in range(changes):
            merged[0], collected = 0.0, collections.total
            change = member(leaving[step // 2] if step % 2 else rows + step // 2)
            start = time.perf_counter()
            epoch = session.apply(delete=[change]) if step % 2 else session.apply(insert=[change])
            delta = epoch.deltas["members"]
            elapsed = time.perf_counter() - start
            samples.append(Sample(elapsed, merged[0], collections.total - collected))
            same("pauses", len(delta), 1)
    return samples


def left(rows: int, changes: int) -> list[int]:
    return random.Random(9).sample(range(rows), changes // 2)


def expected(rows: int, changes: int) -> dict[tuple[NamedNode, NamedNode], int]:
    """The view after the stream."""
    gone = set(left(rows, changes))
    there = (number for number in range(rows + changes // 2) if number not in gone)
    return {(node(f"s{number}"), node(f"v{number % _GROUPS % 10}")): 1 for number in there}


def run(sizes: Sizes) -> Report:
    rows, changes = sizes["rows"], sizes["changes"] // 2 * 2
    report = Report()
    collections = Collections()
    with sparqlive.open() as session:
        _, loading = timed(lambda: session.load(graph(rows)))
        view, registering = timed(lambda: session.view("members", QUERY))
        same("pauses", len(view), rows)
        samples = stream(session, rows, changes, collections)
        same("pauses", view.weights(), expected(rows, changes))
        _, whole = timed(gc.collect)
    _figures(report, f"pauses, view of {rows:,} rows, {changes:,} changes", samples, collections)
    report.remarks.append(
        f"pauses: loaded in {duration(loading)}, view computed in {duration(registering)}; a full collection "
        f"afterwards took {duration(whole)}."
    )
    return report


def _figures(report: Report, name: str, samples: list[Sample], collections: Collections) -> None:
    times = [sample.seconds for sample in samples]
    longest = max((pause for pause, _ in collections.pauses), default=0.0)
    report.at_most(f"{name}: longest pause of the garbage collector", longest, PAUSE_WANTED, duration)
    marks = (percentile(times, 50), percentile(times, 99), max(times))
    report.note(f"{name}: p50, p99, longest change", ", ".join(map(duration, marks)))
    generations = Counter(generation for _, generation in collections.pauses)
    counts = ", ".join(f"{count} of generation {number}" for number, count in sorted(generations.items()))
    report.remarks.append(f"pauses: collections during the stream: {counts or 'none'}.")
    slowest = sorted(samples, key=lambda sample: sample.seconds, reverse=True)[:5]
    text = ", ".join(
        f"{duration(s.seconds)} (merges {duration(s.merging)}, collector {duration(s.collecting)})"
        for s in slowest
    )
    merges = sum(sample.merging > 0 for sample in samples)
    report.remarks.append(
        f"pauses: {merges} changes folded an overlay into its run, "
        f"{duration(sum(s.merging for s in samples))} of {duration(sum(times))} in all; "
        f"the longest changes: {text}."
    )


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
