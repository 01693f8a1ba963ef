"""The choice between live, Spark and a rebuild, against each of them, for batches of 1 to 1M changes.

A star and a path of three patterns, each alone in a store of 10M triples that Spark loaded. For each size of
a batch the choice comes first, then each strategy as it is forced; after each, the batch is taken back. A
batch is timed whole: from the given quads until the view's delta is there and the epoch committed. Spark is
running.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyoxigraph import Quad
from pyspark.sql import SparkSession

import sparqlive
from bench.large import VIEWS, Graph
from bench.measure import Report, Sizes, duration, middle, number, run_alone, same, timed
from sparqlive.spark.spark_session import start_session
from sparqlive.strategies import Strategy

SIZES = {"triples": (10_000_000, 60_000), "largest": (1_000_000, 1_000), "rounds": (1, 1)}
RATIO_WANTED = 1.3
SECONDS_MORE = 0.02
REBUILD_WANTED = 200.0
_FORCED: tuple[Strategy, ...] = ("live", "spark", "rebuild")
_QUICK = 1_000
"""Batches up to so many changes are carried five times by what is quick."""


def session_of_spark() -> SparkSession:
    spark = start_session("local[2]", {"spark.driver.memory": "3g", "spark.log.level": "ERROR"})
    spark.range(10).count()
    return spark


def loaded(spark: SparkSession, graph: Graph, folder: Path) -> sparqlive.Session:
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
    session: sparqlive.Session, graph: Graph, view: str, changes: int, rounds: int
) -> dict[str, tuple[float, str]]:
    batch = graph.batch(view, changes, seed=changes)
    found = {}
    for how in ("auto", *_FORCED):
        quick = changes <= _QUICK and how in ("auto", "live")
        samples = [seconds(session, view, batch, how) for _ in range(5 if quick else rounds)]  # type: ignore[arg-type]
        found[how] = (middle(elapsed for elapsed, _ in samples), samples[-1][1])
    return found


def one(session: sparqlive.Session, graph: Graph, view: str, sizes: Sizes, report: Report) -> None:
    _, computing = timed(lambda: session.view(view, VIEWS[view], strategy="spark"))
    solutions = session.views[view].content.row_count()
    worst, changes = (0.0, 0.0, 0.0, 0), 1
    hundred: dict[str, tuple[float, str]] = {}
    while changes <= sizes["largest"]:
        found = measured(session, graph, view, changes, sizes["rounds"])
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
        changes *= 10
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
    spark = session_of_spark()
    with tempfile.TemporaryDirectory(prefix="sparqlive-choice-") as name:
        graph = Graph(sizes["triples"])
        with loaded(spark, graph, Path(name)) as session:
            for view in VIEWS:
                one(session, graph, view, sizes, report)
    spark.stop()
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
