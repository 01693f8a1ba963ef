"""The cost of a batch of 100 changes as the graph grows: live, on Spark, and by a rebuild.

A star and a path of three patterns in stores of 1M to 30M triples that Spark loaded; `choice` says how a
batch is timed. Writes a plot beside the results.
"""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

from bench.choice import loaded, seconds
from bench.large import VIEWS, Graph
from bench.local_spark import local_spark
from bench.measure import Report, Sizes, duration, middle, number, run_alone
from sparqlive.engine.carry import Strategy

SIZES = {"smallest": (1_000_000, 30_000), "sizes": (4, 2), "changes": (100, 100), "rounds": (3, 1)}
PLOT = Path(__file__).parent / "results" / "growth.svg"
_LIVE_ROUNDS = 20
_FACTORS = (1, 3, 10, 30, 100)

Costs = dict[tuple[str, str], list[float]]
"""For each view and strategy, the seconds of a batch by size."""


def measured(triples: int, sizes: Sizes, costs: Costs) -> int:
    graph = Graph(triples)
    with (
        local_spark("3g") as spark,
        tempfile.TemporaryDirectory(prefix="sparqlive-growth-") as name,
        loaded(spark, graph, Path(name)) as session,
    ):
        for view, query in VIEWS.items():
            session.view(view, query, strategy="spark")
            batch = graph.batch(view, sizes["changes"], seed=5)
            how: Strategy
            for how, rounds in (("live", _LIVE_ROUNDS), ("spark", 1 + sizes["rounds"]), ("rebuild", 1)):
                samples = [seconds(session, view, batch, how)[0] for _ in range(rounds)]
                warm = samples[1:] or samples
                costs.setdefault((view, how), []).append(middle(warm))
            session.drop(view)
        triples = len(session)
    gc.collect()
    return triples


def run(sizes: Sizes) -> Report:
    costs: Costs = {}
    counts = []
    for factor in _FACTORS[: sizes["sizes"]]:
        counts.append(measured(factor * sizes["smallest"], sizes, costs))
        print(counts[-1], {key: duration(values[-1]) for key, values in costs.items()}, flush=True)
    report = Report()
    report.details.append(["view", "strategy", *(f"{count:,} triples" for count in counts), "growth"])
    for (view, how), values in costs.items():
        growth = f"{number(values[-1] / values[0])}×"
        report.details.append([view, how, *map(duration, values), growth])
    for view in VIEWS:
        live, spark, rebuild = (costs[view, how] for how in ("live", "spark", "rebuild"))
        span = f"from {counts[0]:,} to {counts[-1]:,} triples"
        report.at_most(
            f"growth, {view}, live, {span}", live[-1] / live[0], 2.0, lambda ratio: f"{number(ratio)}×"
        )
        report.at_most(
            f"growth, {view}, Spark's delta, {span}, against the rebuild's",
            spark[-1] / spark[0], rebuild[-1] / rebuild[0], lambda ratio: f"{number(ratio)}×",
        )  # fmt: skip
    if sizes["smallest"] == SIZES["smallest"][0]:
        plot(counts, costs)
    return report


def plot(counts: list[int], costs: Costs) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, len(VIEWS), figsize=(9, 4), sharey=True)
    for place, view in zip(places, VIEWS, strict=True):
        for how in ("rebuild", "spark", "live"):
            place.plot(counts, costs[view, how], marker="o", label=how)
        place.set(xscale="log", yscale="log", xlabel="triples", title=view)
        place.grid(alpha=0.3)
    places[0].set_ylabel("seconds a batch of 100 changes")
    places[0].legend()
    figure.tight_layout()
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT)


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
