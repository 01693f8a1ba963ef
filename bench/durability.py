"""The store: what durability adds to a change, how fast it opens, and how long compaction blocks it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from bench.measure import Report, Sizes, duration, middle, percentile, run_alone, same, timed
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, hash_of
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import compactor
from sparqlive.store.store import Store

SIZES = {"changes": (500, 100), "quads": (10_000_000, 200_000), "stream": (60_000, 5_000)}
TIMES_A_COMMIT = 2.0
OPENING_SECONDS = 20.0
PAUSE_SECONDS = 0.25

_PREFIX = "http://example.org/"
_PREDICATES = 10
QUERY = f"PREFIX : <{_PREFIX}> SELECT ?s ?v {{ ?s :p0 ?g . ?g :value ?v }}"


def node(name: str) -> NamedNode:
    return NamedNode(_PREFIX + name)


class Bare:
    """A bare SQLite commit: one row a transaction, of the size of a change, with the same settings."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE changes (epoch INTEGER PRIMARY KEY, quads BLOB NOT NULL)")

    def commit(self, number: int) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        self._database.execute("INSERT INTO changes VALUES (?, ?)", (number, bytes(40)))
        self._database.execute("COMMIT")

    def close(self) -> None:
        self._database.close()


def single_changes(session: sparqlive.Session, changes: int, between: Callable[[int], None]) -> list[float]:
    """Members join groups, one at a time; each changes the view by a row."""
    session.load([Quad(node(f"g{n}"), node("value"), Literal(n)) for n in range(100)])
    session.view("members", QUERY)
    seconds = []
    for number in range(changes):
        quad = Quad(node(f"s{number % 50}"), node("p0"), node(f"g{number // 50 % 100}"))
        epoch, elapsed = timed(lambda quad=quad: session.apply(insert=[quad]))
        seconds.append(elapsed)
        same("durability", len(epoch.deltas["members"]), 1)
        between(number)
    return seconds


def commits(report: Report, directory: Path, changes: int) -> None:
    """In turns, so that a busy disk is busy for both."""
    bare = Bare(directory / "bare.sqlite")
    commit: list[float] = []
    with sparqlive.open(directory / "store") as session:
        stored = single_changes(
            session, changes, lambda number: commit.append(timed(lambda: bare.commit(number))[1])
        )
    bare.close()
    with sparqlive.open() as session:
        memory = middle(single_changes(session, changes, lambda _: None))
    with sparqlive.open(directory / "relaxed", durability="relaxed") as session:
        relaxed = middle(single_changes(session, changes, lambda _: None))
    beyond, peer = middle(stored) - memory, middle(commit)
    name = "durability, a single change: time beyond in memory against a bare SQLite commit"
    report.ratio_at_most(name, beyond, peer, beyond / peer, TIMES_A_COMMIT)
    report.note("durability, a single change in memory", duration(memory))
    report.note('durability, a single change with durability="relaxed"', duration(relaxed))


def made(path: Path, quads: int) -> None:
    """A store as a bulk load leaves it: runs, no log."""
    rng = np.random.default_rng(1)
    names = [f"<{_PREFIX}s{n}>" for n in range(quads // 4)]
    ids = np.array([hash_of(name) for name in names])
    groups = [f"<{_PREFIX}g{n}>" for n in range(1000)]
    group_ids = np.array([hash_of(name) for name in groups])
    predicates = [f"<{_PREFIX}p{n}>" for n in range(_PREDICATES)]
    value = f"<{_PREFIX}value>"
    texts = [*names, *groups, *predicates, value, *(str(Literal(n)) for n in range(1000))]

    def pieces() -> Iterator[tuple[Any, Any, Any, Any]]:
        numbers = np.array([hash_of(str(Literal(n))) for n in range(1000)])
        for text in sorted([*predicates, value], key=hash_of):
            if text == value:
                s, o = group_ids, numbers
            else:
                s = rng.choice(ids, quads // _PREDICATES)
                o = rng.choice(group_ids, len(s))
            pairs = np.unique(np.stack([s, o], axis=1), axis=0)
            size = len(pairs)
            yield pairs[:, 0], np.full(size, hash_of(text)), pairs[:, 1], np.full(size, DEFAULT_GRAPH)

    store = Store(path)
    store.write_terms(TermColumns.of([(hash_of(text), text) for text in texts]))
    store.write_quads(pieces())
    store.close()


def opening(report: Report, path: Path, quads: int) -> None:
    made(path, quads)
    with sparqlive.open(path) as session:
        view, computing = timed(lambda: session.view("members", QUERY))
        rows, count = len(view), len(session)
        session.compact()

    def ready() -> sparqlive.Session:
        session = sparqlive.open(path)
        session.apply(insert=[Quad(node("new"), node("p0"), node("g1"))])
        return session

    session, seconds = timed(ready)
    with session:
        rows, count = rows + 1, count + 1
        same("durability", len(session), count)
        same("durability", len(session.views["members"]), rows)
    name = f"durability, opening {count:,} quads, to the first change carried"
    report.at_most(name, seconds, OPENING_SECONDS, duration)
    report.remarks.append(
        f"durability: the view of {rows:,} rows was first computed in {duration(computing)}."
    )


def compacting(report: Report, path: Path, stream: int) -> None:
    """A stream of changes during which the store is compacted several times."""
    ran: list[float] = []
    run = compactor.Compactor.run

    def watched(self: compactor.Compactor, everything: bool) -> None:
        ran.append(timed(lambda: run(self, everything))[1])

    compactor.Compactor.run = watched  # type: ignore[method-assign]
    seconds = []
    try:
        tuning = replace(DEFAULT, compacted_rows=stream // 4)
        with sparqlive.Session(path, durability="relaxed", tuning=tuning) as session:
            session.apply(insert=[Quad(node("first"), node("p0"), node("g1"))])  # reads the terms
            for number in range(stream):
                quad = Quad(node(f"s{number}"), node(f"p{number % 3}"), node(f"g{number * 7 % 1000}"))
                start = time.perf_counter()
                session.apply(insert=[quad])
                seconds.append(time.perf_counter() - start)
    finally:
        compactor.Compactor.run = run  # type: ignore[method-assign]
    name = f"durability, {stream:,} changes while the store is compacted: longest change"
    report.at_most(name, max(seconds), PAUSE_SECONDS, duration)
    marks = ", ".join(duration(percentile(seconds, mark)) for mark in (50, 99, 99.9))
    report.remarks.append(
        f"durability: {len(ran)} compactions of {duration(max(ran, default=0.0))} at most; "
        f"p50, p99, p99.9 of a change: {marks}."
    )


def run(sizes: Sizes) -> Report:
    report = Report()
    directory = Path(tempfile.mkdtemp(prefix="sparqlive-durability-"))
    steps: list[Callable[[], None]] = [
        lambda: commits(report, directory, sizes["changes"]),
        lambda: opening(report, directory / "large", sizes["quads"]),
        lambda: compacting(report, directory / "large", sizes["stream"]),
    ]
    try:
        for step in steps:
            step()
    finally:
        shutil.rmtree(directory)
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
