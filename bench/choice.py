"""The session's choice of a strategy against live, Spark and a rebuild, for batches of 1 to 1M changes.

A star and a path of three patterns, each alone in a store of 10M triples that Spark loaded; and a dense path,
where a change concerns many derivations: the counting paper's first graph (§5.2.1). Each batch is carried
once before it is timed, so that no strategy meets new terms. Then it is carried with the session's choice and
with each forced strategy, and undone each time. A batch is timed as a whole: from the given quads until the
view's delta is available and the epoch is committed. Spark is already running.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Protocol

from pyoxigraph import NamedNode, Quad, RdfFormat, serialize
from pyspark.sql import SparkSession

import sparqlive
from bench import path3
from bench.large import VIEWS, Graph
from bench.local_spark import local_spark
from bench.measure import Report, Sizes, duration, middle, number, run_alone, same, timed
from sparqlive.engine.carry import Strategy

SIZES = {
    "triples": (10_000_000, 60_000),
    "largest": (1_000_000, 1_000),
    "dense_nodes": (1_000, 100),
    "dense_one_in": (25, 10),
    "dense_largest": (50_000, 1_000),
    "rounds": (1, 1),
}
RATIO_WANTED = 1.3
SECONDS_MORE = 0.02
REBUILD_WANTED = 200.0
_FORCED: tuple[Strategy, ...] = ("live", "spark", "rebuild")
_QUICK = 1_000
"""Batches up to so many changes are carried five times by what is quick."""


class Batches(Protocol):
    """A graph that is loaded from a file, and batches of changes of it."""

    @property
    def triples(self) -> int: ...

    def write(self, path: Path) -> None: ...

    def batch(self, view: str, changes: int, seed: int) -> tuple[list[Quad], list[Quad]]: ...


class Dense:
    """Three random bipartite graphs; half of a batch are edges that go, half are edges that come."""

    def __init__(self, nodes: int, one_in: int) -> None:
        self._nodes = nodes
        self._edges = path3.graph(nodes, one_in, random.Random(one_in))

    @property
    def triples(self) -> int:
        return len(self._edges)

    def write(self, path: Path) -> None:
        serialize((edge.triple for edge in self._edges), path, RdfFormat.N_TRIPLES)

    def batch(self, view: str, changes: int, seed: int) -> tuple[list[Quad], list[Quad]]:
        chance = random.Random(seed)
        there, link = set(self._edges), self._edges[0].predicate
        new: dict[Quad, None] = {}
        while len(new) < changes - changes // 2:
            layer = chance.randrange(3)
            source, target = (
                NamedNode(f"{path3.PREFIX}{name}/{chance.randrange(self._nodes)}")
                for name in "abcd"[layer : layer + 2]
            )
            edge = Quad(source, link, target)
            if edge not in there:
                new[edge] = None
        return chance.sample(self._edges, changes // 2), list(new)


def loaded(spark: SparkSession, graph: Batches, folder: Path) -> sparqlive.Session:
    """A store with the graph, loaded by Spark."""
    file = folder / "data.nt"
    graph.write(file)
    session = sparqlive.open(folder / f"store-{graph.triples}", spark=spark)
    session.load(file)
    file.unlink()
    return session


def seconds(
    session: sparqlive.Session, view: str, batch: tuple[list[Quad], list[Quad]], how: Strategy
) -> tuple[float, str]:
    """Carries a batch, and takes it back live: the seconds of the first, and the strategy that carried it."""
    deletes, inserts = batch
    epoch, elapsed = timed(lambda: session.apply(delete=deletes, insert=inserts, strategy=how))
    back = session.apply(delete=inserts, insert=deletes, strategy="live")
    changed = {row: -weight for row, weight in back.deltas[view].rows.items()}
    same(f"choice, {view}, {how}", changed == epoch.deltas[view].rows, True)
    return elapsed, epoch.strategy


def measured(
    session: sparqlive.Session, graph: Batches, view: str, changes: int, rounds: int
) -> dict[str, tuple[float, str]]:
    batch = graph.batch(view, changes, seed=changes)
    seconds(session, view, batch, "auto")
    found = {}
    for how in ("auto", *_FORCED):
        quick = changes <= _QUICK and how in ("auto", "live")
        samples = [seconds(session, view, batch, how) for _ in range(5 if quick else rounds)]  # type: ignore[arg-type]
        found[how] = (middle(elapsed for elapsed, _ in samples), samples[-1][1])
    return found


def one(
    session: sparqlive.Session,
    graph: Batches,
    view: str,
    query: str,
    largest: int,
    rounds: int,
    report: Report,
) -> None:
    _, computing = timed(lambda: session.view(view, query, strategy="spark"))
    solutions = session.views[view]._state.content.row_count()
    worst, changes = (0.0, 0.0, 0.0, 0), 1
    hundred: dict[str, tuple[float, str]] = {}
    while changes <= largest:
        found = measured(session, graph, view, changes, rounds)
        best = min(found[how][0] for how in _FORCED)
        chosen, strategy = found["auto"]
        excess = chosen / best if chosen > best + SECONDS_MORE else min(1.0, chosen / best)
        worst = max(worst, (excess, chosen, best, changes))
        hundred = found if changes == 100 else hundred
        report.details.append(
            [view, f"{changes:,}", *(duration(found[how][0]) for how in _FORCED), duration(chosen), strategy,
             f"{number(chosen / best)}×"]
        )  # fmt: skip
        print(report.details[-1], flush=True)
        changes = changes * 10 if changes == largest else min(changes * 10, largest)
    excess, chosen, best, at = worst
    name = f"choice, {view}, the worst of all batches (20 ms more do not count)"
    report.ratio_at_most(f"{name}: {at:,} changes" if at else name, chosen, best, excess, RATIO_WANTED)
    if hundred:
        report.ratio_at_least(
            f"choice, {view}, 100 changes against a rebuild",
            hundred["auto"][0],
            hundred["rebuild"][0],
            REBUILD_WANTED,
        )
    report.remarks.append(
        f"choice, {view}: {graph.triples:,} triples, {solutions:,} rows, computed on Spark in "
        f"{duration(computing)}."
    )
    session.drop(view)


def run(sizes: Sizes) -> Report:
    report = Report()
    report.details.append(["view", "changes", *_FORCED, "the choice", "was", "to the best"])
    with local_spark("3g") as spark, tempfile.TemporaryDirectory(prefix="sparqlive-choice-") as name:
        dense = Dense(sizes["dense_nodes"], sizes["dense_one_in"])
        with loaded(spark, dense, Path(name)) as session:
            one(session, dense, "dense path", path3.QUERY, sizes["dense_largest"], sizes["rounds"], report)
        graph = Graph(sizes["triples"])
        with loaded(spark, graph, Path(name)) as session:
            for view, query in VIEWS.items():
                one(session, graph, view, query, sizes["largest"], sizes["rounds"], report)
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
