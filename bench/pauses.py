"""A stream of single changes over a large view: the garbage collector's pauses, and the longest changes."""

from __future__ import annotations

import gc
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyoxigraph import NamedNode, Quad

import sparqlive
from bench.measure import Report, Sizes, duration, percentile, run_alone, same, timed
from sparqlive.zset.relation import KeyedRelation, Relation

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
        self._start = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._start = time.perf_counter()
        else:
            self.pauses.append((time.perf_counter() - self._start, info["generation"]))

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


def stream(session: sparqlive.Session, rows: int, changes: int) -> tuple[list[float], list[float]]:
    """Old members leave and new ones come, in turn: seconds a change, and those of them spent in merges."""
    leaving = left(rows, changes)
    samples, merging = [], []
    merged = [0.0]
    with merges_watched(merged):
        for step in range(changes):
            merged[0] = 0.0
            change = member(leaving[step // 2] if step % 2 else rows + step // 2)
            start = time.perf_counter()
            epoch = session.apply(delete=[change]) if step % 2 else session.apply(insert=[change])
            delta = epoch.deltas["members"]
            samples.append(time.perf_counter() - start)
            merging.append(merged[0])
            same("pauses", len(delta), 1)
    return samples, merging


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
        with collections.watched():
            samples, merging = stream(session, rows, changes)
        same("pauses", view.weights(), expected(rows, changes))
        _, whole = timed(gc.collect)
    _figures(report, f"pauses, view of {rows:,} rows, {changes:,} changes", samples, merging, collections)
    report.remarks.append(
        f"pauses: loaded in {duration(loading)}, view computed in {duration(registering)}; a full collection "
        f"afterwards took {duration(whole)}."
    )
    return report


def _figures(
    report: Report, name: str, samples: list[float], merging: list[float], collections: Collections
) -> None:
    longest = max((pause for pause, _ in collections.pauses), default=0.0)
    report.at_most(f"{name}: longest pause of the garbage collector", longest, PAUSE_WANTED, duration)
    report.note(
        f"{name}: p50, p99, longest change",
        ", ".join(
            duration(value) for value in (percentile(samples, 50), percentile(samples, 99), max(samples))
        ),
    )
    generations = Counter(generation for _, generation in collections.pauses)
    counts = ", ".join(f"{count} of generation {number}" for number, count in sorted(generations.items()))
    report.remarks.append(f"pauses: collections during the stream: {counts or 'none'}.")
    order = sorted(range(len(samples)), key=samples.__getitem__, reverse=True)[:5]
    text = ", ".join(f"{duration(samples[i])} (merges {duration(merging[i])})" for i in order)
    merges = sum(spent > 0 for spent in merging)
    report.remarks.append(
        f"pauses: {merges} changes folded an overlay into its run, {duration(sum(merging))} of "
        f"{duration(sum(samples))} in all; the longest changes: {text}."
    )


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
