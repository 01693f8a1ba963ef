"""What one change costs, alone and in batches of 100 to 10,000, for three views of a star.

Two kinds of batches: triples that are deleted and inserted again, and triples of new subjects, which are
inserted and then deleted. The second kind has to enter new terms. A batch is given as quads and timed until
its delta is available; the time per change is that of the batch divided by its triples.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from pyoxigraph import Quad

import sparqlive
from bench.measure import Report, Sizes, duration, middle, run_alone, same
from bench.star import PREFIX, QUERY, graph

SIZES = {"subjects": (300_000, 5_000), "largest": (10_000, 1_000), "changes": (40_000, 2_000)}
BATCHES = (1, 100, 1_000, 10_000)
SINGLE_SECONDS = 25e-6
SECONDS_PER_CHANGE = 5e-6
VIEWS = {
    "join": QUERY,
    "OPTIONAL": f"PREFIX : <{PREFIX}> SELECT ?s ?x ?y {{ ?s :a ?x OPTIONAL {{ ?s :b ?y }} }}",
    "COUNT by object": f"PREFIX : <{PREFIX}> SELECT ?x (COUNT(*) AS ?n) {{ ?s :a ?x }} GROUP BY ?x",
}
_LEAST_ROUNDS = 4
_MOST_SINGLE = 2_000


def run(sizes: Sizes) -> Report:
    report = Report()
    head = ["view", "batch", "returning: per change", "new: per change"]
    report.details = [head]
    present = list(graph(sizes["subjects"]))
    for name, query in VIEWS.items():
        with sparqlive.open() as session:
            session.load(present)
            view = session.view("view", query)
            before = len(view)
            for size in (size for size in BATCHES if size <= sizes["largest"]):
                seconds = [_seconds(session, some, first) for some, first in _kinds(present, size, sizes)]
                _add(report, name, size, seconds)
            same(f"batches, {name}", len(view), before)
            session.check()
    return report


def _kinds(present: Sequence[Quad], size: int, sizes: Sizes) -> Iterator[tuple[list[list[Quad]], str]]:
    """The batches of both kinds, and what is done first with each of them."""
    rounds = max(_LEAST_ROUNDS, min(_MOST_SINGLE, sizes["changes"] // size))
    chance = random.Random(size)
    yield [chance.sample(present, size) for _ in range(rounds)], "delete"
    new = graph(rounds * size, f"new{size}-", size)
    yield [[next(new) for _ in range(size)] for _ in range(rounds)], "insert"


def _seconds(session: sparqlive.Session, batches: list[list[Quad]], first: str) -> float:
    """The median time of a batch, per change."""
    samples = []
    for batch in batches:
        for action in (first, "insert" if first == "delete" else "delete"):
            start = time.perf_counter()
            epoch = session.apply(**{action: batch})
            _ = epoch.deltas["view"]
            samples.append((time.perf_counter() - start) / len(batch))
            same("batches", epoch.inserted + epoch.deleted, len(batch))
    return middle(samples)


def _add(report: Report, view: str, size: int, seconds: list[float]) -> None:
    limit = SINGLE_SECONDS if size == 1 else SECONDS_PER_CHANGE
    for kind, value in zip(("returning", "new"), seconds, strict=True):
        report.at_most(f"batches of {size:,}, {view}, {kind} triples: per change", value, limit, duration)
    report.details.append([view, f"{size:,}", *map(duration, seconds)])


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
