"""Tables of a run: times per query, ratios per mix, and what was wrong, refused or too slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import median

from bench.ivm.cells import Outcome
from bench.text import duration, number

Table = list[list[str]]


def by_query(outcomes: Sequence[Outcome], drivers: Sequence[str]) -> Table:
    """For each query: the median over its mixes of the median time of a batch, and the ratio to the first."""
    table = [["graph", "query", "covers", *drivers]]
    for dataset, query in dict.fromkeys((o.cell.dataset, o.cell.query) for o in outcomes):
        rows = [o for o in outcomes if (o.cell.dataset, o.cell.query) == (dataset, query)]
        table.append([dataset, query, rows[0].cell.covers(), *(_entry(rows, drivers[0], d) for d in drivers)])
    return table


def _entry(outcomes: Sequence[Outcome], first: str, driver: str) -> str:
    own = [o for o in outcomes if o.driver == driver]
    bad = [o for o in own if o.status != "right"]
    if bad:
        mixes = "" if len(bad) == len(own) else f" ({', '.join(o.cell.mix for o in bad)})"
        return f"{bad[0].note if bad[0].status == 'late' else bad[0].status}{mixes}"
    times = [o.middle for o in own if o.middle is not None]
    if not times:
        return ""
    if driver == first:
        return duration(median(times))
    ratio = _ratio(outcomes, first, driver)
    return duration(median(times)) + ("" if ratio is None else f" ({number(ratio)}×)")


def _ratio(outcomes: Iterable[Outcome], first: str, driver: str) -> float | None:
    """The geometric mean of the ratios of a driver's times to the first's, over cells that both got right."""
    times = {(o.cell, o.driver): o.middle for o in outcomes if o.middle}
    ratios = [
        log(seconds / times[cell, first])
        for (cell, name), seconds in times.items()
        if name == driver and (cell, first) in times
    ]
    return exp(sum(ratios) / len(ratios)) if ratios else None


def by_mix(outcomes: Sequence[Outcome], drivers: Sequence[str]) -> Table:
    """For each mix: how many times as long a driver takes as the first, as a geometric mean."""
    table = [["mix", *(f"{driver} ÷ {drivers[0]}" for driver in drivers[1:])]]
    for mix in dict.fromkeys(o.cell.mix for o in outcomes):
        rows = [o for o in outcomes if o.cell.mix == mix]
        ratios = [_ratio(rows, drivers[0], driver) for driver in drivers[1:]]
        table.append([mix, *("" if ratio is None else f"{number(ratio)}×" for ratio in ratios)])
    return table


def counts(outcomes: Sequence[Outcome], drivers: Sequence[str]) -> Table:
    """How many cells each driver got right, and how many not."""
    kinds = ("right", "refused", "wrong", "late", "failed")
    table = [["driver", *kinds]]
    for driver in drivers:
        own = [o.status for o in outcomes if o.driver == driver]
        table.append([driver, *(str(own.count(kind)) for kind in kinds)])
    return table


def failures(outcomes: Iterable[Outcome]) -> list[str]:
    """Each different reason once per driver, with the cells."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.status != "right":
            reason = "" if outcome.status == "wrong" else outcome.note.splitlines()[0][:200]
            found.setdefault((outcome.driver, outcome.status, reason), []).append(
                f"{outcome.cell.name} {outcome.note}" if outcome.status == "wrong" else outcome.cell.name
            )
    lines = []
    for (driver, status, reason), names in found.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"- {driver}, {status}{': ' + reason if reason else ''}: {'; '.join(names[:3])}{more}")
    return lines
