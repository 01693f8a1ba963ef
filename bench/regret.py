"""Regret of the session's choice: its time over that of the best strategy, for views × sizes × batches.

Orders and customers as in `bench.throughput`. Each view has four sessions on the same data, in memory and
without Spark. In one, every batch is carried by the session's own choice. In each of the others, one strategy
carries the batches: what a strategy leaves behind, such as merged runs, is of use to itself alone. The
sessions take turns. A batch replaces orders by new ones, and the next one takes that back, so the data keeps
its size. A batch is timed as a whole, from the given quads to the committed epoch; the first ones of each
kind are not counted. A cell is the median of the others. All sessions must have the same delta at the end of
each round.

What was measured is kept beside the page, as .jsonl, and is not measured again. A plot shows when incremental
maintenance wins. `--cpu` measures processor time, for a busy machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

import sparqlive
from bench.kept import Kept
from bench.measure import duration, markdown_table, middle, number, same
from bench.provenance import command_of, provenance
from bench.throughput import JOINED, PREFIX, VIEWS, Case, case_of, city_text, order_quads, order_text
from sparqlive.engine.carry import Strategy

OUTPUT = Path(__file__).parent / "results" / "regret.md"
ORDERS = (10_000, 100_000, 1_000_000)
CHANGES = (100, 1_000, 10_000, 40_000, 100_000)
WORST_WANTED = 1.3
MEAN_WANTED = 1.05
FORCED: tuple[Strategy, ...] = ("live", "duckdb", "rebuild")
WAYS: tuple[Strategy, ...] = ("auto", *FORCED)
_UNCOUNTED = 1
_COUNTED = 2
"""Rounds of a cell: the first one meets new terms, and starts what is not running yet; then at least two."""
_VIEWS = {
    **VIEWS,
    "star": f"PREFIX : <{PREFIX}> SELECT ?o ?c ?v {{ ?o :customer ?c ; :value ?v FILTER(?v > 10000) }}",
    "without orders": f"PREFIX : <{PREFIX}> SELECT ?c {{ ?c :city ?t "
    "FILTER NOT EXISTS { ?o :customer ?c } }",
    "largest value": f"PREFIX : <{PREFIX}> SELECT ?c (MAX(?v) AS ?most) {{ ?o :customer ?c ; :value ?v }} "
    "GROUP BY ?c",
    "orders or none": f"PREFIX : <{PREFIX}> SELECT ?c ?t ?o {{ ?c :city ?t OPTIONAL {{ ?o :customer ?c }} }}",
    "distinct": f"PREFIX : <{PREFIX}> SELECT DISTINCT ?t ?v {{ {JOINED} }}",
    "ten largest": f"PREFIX : <{PREFIX}> SELECT ?o ?v {{ ?o :value ?v }} ORDER BY DESC(?v) ?o LIMIT 10",
    "mean of some": f"PREFIX : <{PREFIX}> SELECT ?t (AVG(?v) AS ?mean) {{ {JOINED} FILTER(?v > 5000) }} "
    "GROUP BY ?t",
}
Row = dict[str, Any]
"""A cell: view, orders, changes, the seconds of each way, and the strategies that were chosen."""


def _case(orders: int, changes: int) -> Case:
    """Orders of a size, and one batch of them: a change of an order is two changed quads."""
    sizes = {"orders": orders, "customers": max(50, orders // 10), "cities": max(20, orders // 1_000)}
    return case_of({**sizes, "batches": 2, "changes": changes}, max(2, changes // 2))


def _session(case: Case, view: str) -> sparqlive.Session:
    session = sparqlive.open(bulk="duckdb")
    session.apply(insert=order_text(case.orders) + city_text(case.cities))
    session.view(view, _VIEWS[view])
    return session


class Measuring:
    """Measures the cells of one view and size, from small batches to large ones."""

    def __init__(self, clock: Callable[[], float], rounds: int, seconds: float) -> None:
        self._clock, self._rounds, self._seconds = clock, rounds, seconds

    def cells(self, view: str, orders: int, changes: Sequence[int]) -> list[Row]:
        first = _case(orders, changes[0])
        with ExitStack() as stack:
            sessions = {way: stack.enter_context(_session(first, view)) for way in WAYS}
            return [self._cell(view, orders, some, sessions) for some in changes]

    def _cell(
        self, view: str, orders: int, changes: int, sessions: Mapping[Strategy, sparqlive.Session]
    ) -> Row:
        deletes, inserts = map(order_quads, next(_case(orders, changes).parts()))
        samples: dict[str, list[float]] = {way: [] for way in WAYS}
        was: set[str] = set()
        begun, rounds = time.perf_counter(), 0
        while rounds < _UNCOUNTED + _COUNTED or (
            rounds < _UNCOUNTED + self._rounds and time.perf_counter() - begun < self._seconds
        ):
            deltas = []
            order = (
                list(sessions) if rounds % 2 else list(reversed(sessions))
            )  # the first one finds cold caches
            for way in order:
                session = sessions[way]
                for gone, new in ((deletes, inserts), (inserts, deletes)):
                    start = self._clock()
                    epoch = session.apply(delete=gone, insert=new, strategy=way)
                    elapsed = self._clock() - start
                    if rounds >= _UNCOUNTED:
                        samples[way].append(elapsed)
                        was |= {epoch.strategy} if way == "auto" else set()
                deltas.append(dict(epoch.deltas[view].rows))
            same(f"regret, {view}, {changes} changes", all(d == deltas[0] for d in deltas), True)
            rounds += 1
        times = {way: middle(samples[way]) for way in WAYS}
        row = {"view": view, "orders": orders, "changes": changes, **times, "was": sorted(was)}
        print(_line(row), flush=True)
        return {**row, "rounds": rounds - _UNCOUNTED}


def regret(row: Row) -> float:
    """The choice cannot be better than the best of its strategies: below 1 is noise."""
    return max(1.0, row["auto"] / min(row[how] for how in FORCED))


def lead(row: Row) -> float:
    """How many times as long a rebuild takes as the best incremental strategy."""
    return float(row["rebuild"] / min(row["live"], row["duckdb"]))


def _line(row: Row) -> list[str]:
    times = [*(duration(row[how]) for how in FORCED), duration(row["auto"])]
    start = [row["view"], f"{row['orders']:,}", f"{row['changes']:,}"]
    return [*start, *times, ", ".join(row["was"]), f"{number(regret(row))}×", f"{number(lead(row))}×"]


def page(kept: Kept, keys: Sequence[str], what: str) -> tuple[str, list[Row]]:
    rows: list[Row] = [row for key in keys for row in kept.get(key) or ()]
    head = [
        "view",
        "orders",
        "changed quads",
        *FORCED,
        "the choice",
        "was",
        "regret",
        "rebuild ÷ incremental",
    ]
    regrets = [regret(row) for row in rows]
    judged = [
        ["regret", "measured", "wanted", "reached"],
        *(
            [name, f"{number(value)}×", f"≤ {wanted:g}×", "yes" if value <= wanted else "no"]
            for name, value, wanted in (
                (f"worst of {len(rows)} cells", max(regrets), WORST_WANTED),
                ("mean", fmean(regrets), MEAN_WANTED),
            )
        ),
    ]
    least = min(row["rounds"] for row in rows)
    lines = [
        "# The choice of a strategy, and when incremental maintenance wins",
        "",
        *kept.described(keys),
        "",
        f"The {what} of a batch, from the given quads to the committed epoch: medians of {2 * least} batches",
        "and more. The regret is the time of the session's choice ÷ that of the best strategy.",
        "",
        *markdown_table(judged),
        "",
        "The last column answers *when does incremental maintenance win?*, which the counting paper leaves",
        "open (§5.4): above 1 it wins.",
        "",
        "![When incremental maintenance wins](regret.svg)",
        "",
        *markdown_table([head, *(_line(row) for row in rows)]),
    ]
    return "\n".join(lines) + "\n", rows


def draw(rows: Sequence[Row], file: Path) -> None:
    """How much longer a rebuild takes, by the share of the graph that changes."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "sparqlive"  # the same picture has the same text
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    views = list(dict.fromkeys(row["view"] for row in rows))
    styles = dict(zip(sorted({row["orders"] for row in rows}), (":", "--", "-"), strict=False))
    for (view, orders), style in [((v, o), s) for v in views for o, s in styles.items()]:
        some = [row for row in rows if (row["view"], row["orders"]) == (view, orders)]
        points = [(row["changes"] / (2.1 * orders), lead(row)) for row in some]
        if points:
            colour = f"C{views.index(view)}"
            label = f"{view}, {orders:,} orders"
            axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", markersize=3, label=label)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="changed quads ÷ quads of the graph",
        ylabel="rebuild ÷ best incremental strategy",
        title="Incremental maintenance wins above the line",
    )
    axes.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def groups(orders: Sequence[int], changes: Sequence[int]) -> dict[str, tuple[str, int, list[int]]]:
    """By key: a view, a size, and its batches, at most so large that they replace all orders."""
    found = {}
    for size in orders:
        some = [one for one in changes if one <= 4 * size]
        found |= {f"{view}, {size} orders, {some} changes": (view, size, some) for view in _VIEWS}
    return found


def run(
    measuring: Measuring, kept: Kept, orders: Sequence[int], changes: Sequence[int], ends: float = inf
) -> None:
    """Measures what is missing, sizes in their order."""
    for key, group in groups(orders, changes).items():
        if key not in kept and time.perf_counter() < ends:
            kept.add(key, measuring.cells(*group))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.regret", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small size; writes to a temporary folder")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of time")
    parser.add_argument("--orders", help=f"default {','.join(map(str, ORDERS))}")
    parser.add_argument(
        "--rounds", type=int, default=20, help="counted rounds of a cell, at most; default 20"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for a cell, but at least two rounds")
    parser.add_argument("--minutes", type=float, default=inf, help="end after so long; a later run continues")
    parser.add_argument("--output", type=Path, help="the page; raw results and the plot are beside it")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="regret-")) if options.quick else OUTPUT.parent
    output = options.output or folder / OUTPUT.name
    orders = [int(size) for size in options.orders.split(",")] if options.orders else list(ORDERS)
    command = command_of("python -m bench.regret", sys.argv[1:])
    kept = Kept(output.with_suffix(".jsonl"), partial(provenance, command, ("sparqlive", "duckdb")))
    clock = time.process_time if options.cpu else time.perf_counter
    measuring = Measuring(clock, options.rounds, options.seconds)
    ends = time.perf_counter() + 60 * options.minutes
    orders = [1_000] if options.quick else orders
    run(measuring, kept, orders, CHANGES, ends)
    keys = list(groups(sorted({*ORDERS, *orders}), CHANGES))
    text, rows = page(kept, keys, "processor time" if options.cpu else "time")
    output.write_text(text, encoding="utf-8")
    draw(rows, output.with_suffix(".svg"))
    print(f"Written: {output}")


if __name__ == "__main__":
    main()
