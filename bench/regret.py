"""Regret of the session's choice: its time over that of the best strategy, for views × sizes × batches.

Orders and customers as in `bench.throughput`. Each view has two sessions on the same data, in memory and
without Spark. In one, every batch is carried by the session's own choice, which learns only from what it
chose. In the other, each strategy carries the batches in turn. A batch replaces orders by new ones, and the
next one takes that back, so the data keeps its size. A batch is timed as a whole, from the given quads to the
committed epoch; the first ones of each kind are not counted. A cell is the median of the others. Both
sessions must have the same delta at the end of each cell. `--quick` uses small sizes.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean

import sparqlive
from bench.measure import Report, Sizes, duration, middle, number, run_alone, same, timed
from bench.throughput import PREFIX, VIEWS, Case, case_of, city_text, order_quads, order_text
from sparqlive.engine.carry import Strategy

SIZES = {
    "smallest": (10_000, 1_000),
    "largest": (1_000_000, 1_000),
    "most_changes": (100_000, 1_000),
    "batches": (5, 3),
}
WORST_WANTED = 1.3
MEAN_WANTED = 1.05
FORCED: tuple[Strategy, ...] = ("live", "duckdb", "rebuild")
_STEP = 10
_FEWEST_CHANGES = 100
_UNCOUNTED = 2
"""The first batches of each kind: they meet new terms, and start what is not running yet."""
_VIEWS = {
    **VIEWS,
    "star": f"PREFIX : <{PREFIX}> SELECT ?o ?c ?v {{ ?o :customer ?c ; :value ?v FILTER(?v > 10000) }}",
    "without orders": f"PREFIX : <{PREFIX}> SELECT ?c {{ ?c :city ?t "
    "FILTER NOT EXISTS { ?o :customer ?c } }",
    "largest value": f"PREFIX : <{PREFIX}> SELECT ?c (MAX(?v) AS ?most) {{ ?o :customer ?c ; :value ?v }} "
    "GROUP BY ?c",
}


def _case(orders: int, changes: int) -> Case:
    """Orders of a size, and one batch of them: a change of an order is two changed quads."""
    sizes = {"orders": orders, "customers": max(50, orders // 10), "cities": max(20, orders // 1_000)}
    return case_of({**sizes, "batches": 2, "changes": changes}, max(2, changes // 2))


def _session(case: Case, view: str) -> sparqlive.Session:
    session = sparqlive.open(bulk="duckdb")
    session.apply(insert=order_text(case.orders) + city_text(case.cities))
    session.view(view, _VIEWS[view])
    return session


def _seconds(
    session: sparqlive.Session, case: Case, view: str, how: Strategy, batches: int
) -> tuple[float, list[str], object]:
    """The median of a batch, the strategies that carried the counted ones, and the delta of the last."""
    deletes, inserts = map(order_quads, next(case.parts()))
    samples, strategies, delta = [], [], None
    for step in range(2 * ((batches + _UNCOUNTED + 1) // 2)):  # pairs, so that the data is as before
        gone, new = (deletes, inserts) if step % 2 == 0 else (inserts, deletes)
        epoch, elapsed = timed(partial(session.apply, delete=gone, insert=new, strategy=how))
        delta = dict(epoch.deltas[view].rows)
        if step >= _UNCOUNTED:
            samples.append(elapsed)
            strategies.append(epoch.strategy)
    return middle(samples), strategies, delta


def _cells(orders: int, view: str, sizes: Sizes, report: Report) -> list[float]:
    """The regret of each batch size for one view and size, from small batches to large ones."""
    regrets, changes = [], _FEWEST_CHANGES
    first = _case(orders, changes)
    with _session(first, view) as choosing, _session(first, view) as forced:
        while changes <= min(sizes["most_changes"], orders):
            case = _case(orders, changes)
            chosen, strategies, delta = _seconds(choosing, case, view, "auto", sizes["batches"])
            times = {}
            for how in FORCED:
                times[how], _, other = _seconds(forced, case, view, how, sizes["batches"])
                same(f"regret, {view}, {changes} changes, {how}", other == delta, True)
            best = min(times.values())
            # The choice cannot be better than the best of its strategies: below 1 is noise.
            regrets.append(max(1.0, chosen / best))
            cells = [*(duration(times[how]) for how in FORCED), duration(chosen)]
            carried = ", ".join(sorted(set(strategies)))
            report.details.append(
                [view, f"{orders:,}", f"{changes:,}", *cells, carried, f"{number(regrets[-1])}×"]
            )
            print(report.details[-1], flush=True)
            changes *= _STEP
    return regrets


def run(sizes: Sizes) -> Report:
    report = Report()
    report.details.append(["view", "orders", "changed quads", *FORCED, "the choice", "was", "regret"])
    regrets: list[float] = []
    for view in _VIEWS:
        orders = sizes["smallest"]
        while orders <= sizes["largest"]:
            regrets += _cells(orders, view, sizes, report)
            orders *= _STEP
    for name, value, wanted in (
        ("worst", max(regrets), WORST_WANTED),
        ("mean", fmean(regrets), MEAN_WANTED),
    ):
        report.at_most(
            f"regret, {name} of {len(regrets)} cells", value, wanted, lambda ratio: f"{number(ratio)}×"
        )
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
