"""Sustained changes per second in batches of 1 to 1,000,000, in memory and durable, beside pathway.

Two views over orders and customers: their join, and SUM and COUNT by city. A change is an order that comes
or goes: two triples here, one row in pathway. Half of the changes insert new orders and half delete old ones,
so the data keeps its size. Both sides process the same changes in the same batches, one epoch or one logical
time per batch. Both deliver the changed rows of both views to Python after each batch: terms here, numbers
there. Both must have delivered every change of the join, and have the same sums at the end. What a batch is
made of exists before the clock starts: quads or N-Triples text here, numbers there.

`--pathway PYTHON` names the interpreter of an environment with pathway (`pip install pathway`), here and for
`python -m bench throughput`. By default, it is `.venv-pathway/bin/python`, which `make bench-throughput`
creates. Without pathway, only this side is measured. pathway needs no licence key for this, not even for its
persistence in files.

A Python connector feeds pathway, with one commit per batch (`bench/throughput_pathway.py`). In memory it runs
twice: batches are sent without waiting, or each batch waits for the result of the one before, as with
`session.apply`. The faster run is the peer.

What is not equal, and is left so:

- An order is three numbers in pathway; here it is two triples with four terms, of which one or two are new.
- The rows of both views can be read here at any time, and the last deltas again; pathway keeps no rows of
  the join, only its index.
- `durability="epoch"`: an epoch is on disk, synced, before `apply` returns, with the deltas of both views.
  "relaxed": it is in the file system's hands, and synced within 100 ms. Either way, a killed process loses
  nothing that `apply` returned. pathway's persistence writes a log of its input in a background thread, never
  syncs it, and the clock does not wait for it: that is nearer to "relaxed".

Before the clock starts, an order of each city comes and goes here, because groups are read when they first
change. pathway has read all orders by then.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from bench.measure import PATHWAY_VARIABLE, Report, Sizes, number, run_alone, same, timed

SIZES = {
    "orders": (1_000_000, 10_000),
    "customers": (100_000, 1_000),
    "cities": (1_000, 50),
    "batches": (20_000, 200),
    "changes": (300_000, 20_000),
    "largest": (1_000_000, 10_000),
}
"""A case has at most so many batches and so many changes, but always two batches."""
BATCHES = (1, 100, 10_000, 1_000_000)
MODES = {"in memory": None, "durable": "epoch", "relaxed": "relaxed"}

PREFIX = "http://example.org/"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
JOINED = "?o :customer ?c ; :value ?v . ?c :city ?t"
VIEWS = {
    "join": f"PREFIX : <{PREFIX}> SELECT ?o ?v ?t {{ {JOINED} }}",
    "sums": f"PREFIX : <{PREFIX}> SELECT ?t (SUM(?v) AS ?total) (COUNT(*) AS ?number) {{ {JOINED} }} "
    "GROUP BY ?t",
}
_VALUES = 20_000
_WARM_UP = 100
"""Orders per batch before the clock starts: few enough for no choice of a strategy, and no measurement."""
_QUADS_AT_MOST = 1_000
"""Larger batches are N-Triples text."""
_ROOT = Path(__file__).parent.parent

Array = npt.NDArray[np.int64]
Sums = dict[int, tuple[int, int]]
"""Sum and count for each city."""


@dataclass(frozen=True)
class Case:
    """Orders (number, customer, value), the city of each customer, and changes (sign, and an order)."""

    batch: int
    orders: Array
    cities: Array
    changes: Array
    expected: Sums

    @property
    def batches(self) -> int:
        return len(self.changes) // self.batch

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """The orders that each batch deletes and inserts."""
        for start in range(0, len(self.changes), self.batch):
            part = self.changes[start : start + self.batch]
            yield part[part[:, 0] < 0, 1:], part[part[:, 0] > 0, 1:]

    def write(self, folder: Path) -> None:
        for name in ("orders", "cities", "changes"):
            np.save(folder / f"{name}.npy", getattr(self, name))


def case_of(sizes: Sizes, batch: int) -> Case:
    chance = np.random.default_rng(batch)
    count = sizes["orders"]

    def orders(start: int, size: int) -> Array:
        customers, values = (
            chance.integers(sizes["customers"], size=size),
            chance.integers(_VALUES, size=size),
        )
        return np.stack([np.arange(start, start + size), customers, values], axis=1)

    cities = chance.integers(sizes["cities"], size=sizes["customers"])
    first = orders(0, count)
    present, parts = first.copy(), []
    moved = max(batch // 2, 1)
    batches = max(2, min(sizes["batches"], sizes["changes"] // batch))
    steps = batches * batch // (2 * moved)
    for step in range(steps):
        places = chance.choice(count, moved, replace=False)
        new = orders(count + step * moved, moved)
        parts += [_signed(1, new), _signed(-1, present[places])]
        present[places] = new
    return Case(batch, first, cities, np.concatenate(parts), _sums(cities[present[:, 1]], present[:, 2]))


def _signed(sign: int, orders: Array) -> Array:
    return np.insert(orders, 0, sign, axis=1)


def _sums(cities: Array, values: Array) -> Sums:
    totals, counts = np.bincount(cities, values), np.bincount(cities)
    return {city: (int(totals[city]), int(counts[city])) for city in np.flatnonzero(counts).tolist()}


# Ours


def changes_per_second(case: Case, path: Path | None, durability: Any) -> tuple[float, set[str]]:
    """Also returns the strategies that carried the batches."""
    options = {} if durability is None else {"durability": durability}
    with sparqlive.open(path, **options) as session:
        session.apply(insert=order_text(case.orders) + city_text(case.cities))
        for name, query in VIEWS.items():
            session.view(name, query)
        _warm_up(session, case)
        elapsed, strategies = 0.0, set()
        given = order_quads if case.batch <= _QUADS_AT_MOST else order_text
        for deletes, inserts in case.parts():
            (epoch, joined), seconds = timed(partial(_deliver, session, given(deletes), given(inserts)))
            elapsed += seconds
            strategies.add(epoch.strategy)
            same("throughput", epoch.inserted + epoch.deleted, 2 * case.batch)
            same("throughput, changes of the join", joined, case.batch)
        _check(session, case)
    return len(case.changes) / elapsed, strategies


def _deliver(session: sparqlive.Session, deletes: Any, inserts: Any) -> tuple[sparqlive.Epoch, int]:
    """Applies a batch and reads the changed rows of both views; also returns how many the join has."""
    epoch = session.apply(delete=deletes, insert=inserts)
    deltas = [epoch.deltas[name].weights() for name in VIEWS]
    return epoch, len(deltas[0])


def _warm_up(session: sparqlive.Session, case: Case) -> None:
    """An order of each city comes and goes."""
    unused = len(case.orders) + len(case.changes)
    _, customers = np.unique(case.cities, return_index=True)
    numbers = np.arange(unused, unused + len(customers))
    extra = np.stack([numbers, customers, np.zeros_like(numbers)], axis=1)
    for start in range(0, len(extra), _WARM_UP):
        quads = order_quads(extra[start : start + _WARM_UP])
        session.apply(insert=quads)
        session.apply(delete=quads)


def _check(session: sparqlive.Session, case: Case) -> None:
    same("throughput, join", len(session.views["join"]), sum(count for _, count in case.expected.values()))
    rows: list[Any] = list(session.views["sums"].weights())
    sums = {
        int(city.value.rpartition("/")[2]): (int(total.value), int(count.value))
        for city, total, count in rows
    }
    same("throughput, sums by city", sums == case.expected, True)


def order_quads(orders: Array) -> list[Quad]:
    customer, value = NamedNode(f"{PREFIX}customer"), NamedNode(f"{PREFIX}value")
    quads = []
    for order, who, amount in orders.tolist():
        subject = NamedNode(f"{PREFIX}order/{order}")
        quads.append(Quad(subject, customer, NamedNode(f"{PREFIX}customer/{who}")))
        quads.append(Quad(subject, value, Literal(amount)))
    return quads


def order_text(orders: Array) -> str:
    order, customer, value = (_words(column) for column in orders.T)
    subject = f"<{PREFIX}order/"
    return _joined(
        *(subject, order, f"> <{PREFIX}customer> <{PREFIX}customer/", customer, "> .\n"),
        *(subject, order, f'> <{PREFIX}value> "', value, f'"^^<{_INTEGER}> .\n'),
    )


def city_text(cities: Array) -> str:
    customers, names = _words(np.arange(len(cities))), _words(cities)
    return _joined(f"<{PREFIX}customer/", customers, f"> <{PREFIX}city> <{PREFIX}city/", names, "> .\n")


def _words(numbers: Array) -> Any:
    return pa.array(np.ascontiguousarray(numbers)).cast(pa.string())


def _joined(*parts: Any) -> str:
    return "".join(pc.binary_join_element_wise(*parts, "").to_pylist())


# The peer


def pathway_interpreter() -> str | None:
    default = _ROOT / ".venv-pathway" / "bin" / "python"
    return os.environ.get(PATHWAY_VARIABLE) or (str(default) if default.exists() else None)


def pathway_changes_per_second(
    interpreter: str, case: Case, folder: Path, *flags: str, report: Report
) -> float:
    script = Path(__file__).with_name("throughput_pathway.py")
    command = [interpreter, "-I", str(script), str(folder), str(case.batch), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"throughput: pathway failed.\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    sums = {city: (total, count) for city, total, count in found["cities"]}
    same("throughput, pathway's sums by city", sums == case.expected, True)
    same("throughput, pathway's changes of the join", found["joined"], len(case.changes))
    if found["times"] != case.batches:
        report.remarks.append(
            f"throughput: pathway {found['version']} processed {case.batches:,} batches of {case.batch:,} in "
            f"{found['times']:,} logical times."
        )
    return len(case.changes) / float(found["seconds"])


def _peer_rates(case: Case, folder: Path, report: Report) -> dict[str, float]:
    """Changes per second of pathway, by the words of the table's head."""
    interpreter = pathway_interpreter()
    if interpreter is None:
        return {}
    case.write(folder)
    measure = partial(pathway_changes_per_second, interpreter, case, folder, report=report)
    return {
        "sent": measure(),
        "awaited": measure("--wait"),
        "persisted": measure("--persist", str(folder / "persisted")),
    }


# The report


def run(sizes: Sizes) -> Report:
    report = Report()
    head = ["changes per batch", "batches", *MODES, "carried"]
    report.details.append([*head, "pathway, sent", "pathway, awaited", "pathway, persisted"])
    for batch in (batch for batch in BATCHES if batch <= sizes["largest"]):
        case = case_of(sizes, batch)
        with tempfile.TemporaryDirectory(prefix="sparqlive-throughput-") as name:
            folder = Path(name)
            peers = _peer_rates(case, folder, report)
            ours, strategies = {}, set()
            for mode, durability in MODES.items():
                path = None if durability is None else folder / mode
                ours[mode], used = changes_per_second(case, path, durability)
                strategies |= used
        _add(report, case, ours, sorted(strategies), peers)
    if pathway_interpreter() is None:
        report.remarks.append("throughput: pathway was not measured; --pathway names an interpreter with it.")
    return report


def _add(
    report: Report, case: Case, ours: dict[str, float], strategies: list[str], peers: dict[str, float]
) -> None:
    in_memory = max((peers[name] for name in ("sent", "awaited") if name in peers), default=None)
    for mode, rate in ours.items():
        peer = in_memory if MODES[mode] is None else peers.get("persisted")
        report.rate_at_least(f"throughput, batches of {case.batch:,}, {mode}, peer pathway", rate, peer, 1)
    peer_rates = (peers.get(name) for name in ("sent", "awaited", "persisted"))
    cells = [*map(_rate, ours.values()), ", ".join(strategies), *map(_rate, peer_rates)]
    report.details.append([f"{case.batch:,}", f"{case.batches:,}", *cells])
    print(report.details[-1], flush=True)


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{number(rate)}/s"


def main() -> None:
    run_alone(__doc__, SIZES, run, pathway=True)


if __name__ == "__main__":
    main()
