"""Aggregates over many groups: one value of a group is replaced, or the largest one is removed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

from pyoxigraph import Literal, NamedNode, Quad, Store

import sparqlive
from bench.measure import (
    Report,
    Sizes,
    bag,
    duration,
    middle,
    percentile,
    run_alone,
    same,
    solutions,
    span,
    timed,
)

SIZES = {"groups": (1000, 100), "values": (100, 20), "changes_a_round": (400, 50), "rounds": (5, 2)}
WANTED = 1000.0
WANTED_SECONDS = 65e-6

_PREFIX = "http://example.org/"
_IN, _VALUE = NamedNode(_PREFIX + "in"), NamedNode(_PREFIX + "value")
_VALUES = 10_000
_WHERE = "{ ?item :in ?group ; :value ?value } GROUP BY ?group"
QUERIES = {
    "COUNT and SUM": f"SELECT ?group (COUNT(?value) AS ?count) (SUM(?value) AS ?sum) {_WHERE}",
    "MAX": f"SELECT ?group (MAX(?value) AS ?most) {_WHERE}",
}
Batch = Mapping[str, list[Quad]]


def member(group: int, number: int) -> NamedNode:
    return NamedNode(f"{_PREFIX}item/{group}/{number}")


def value(group: int, number: int, amount: int) -> Quad:
    return Quad(member(group, number), _VALUE, Literal(amount))


class Items:
    """The values of the items, as they are by now."""

    def __init__(self, groups: int, values: int) -> None:
        chance = random.Random(7)
        self.amounts = [[chance.randrange(_VALUES) for _ in range(values)] for _ in range(groups)]

    def quads(self) -> Iterator[Quad]:
        for group, amounts in enumerate(self.amounts):
            name = NamedNode(f"{_PREFIX}group/{group}")
            for number, amount in enumerate(amounts):
                yield Quad(member(group, number), _IN, name)
                yield value(group, number, amount)

    def replaced(self, chance: random.Random) -> Batch:
        """Any value becomes another one."""
        group = chance.randrange(len(self.amounts))
        number = chance.randrange(len(self.amounts[group]))
        return self._to(group, number, chance.randrange(_VALUES))

    def largest_lowered(self, chance: random.Random) -> Batch:
        """The largest value of a group becomes a small one."""
        amounts = self.amounts[group := chance.randrange(len(self.amounts))]
        return self._to(group, amounts.index(max(amounts)), chance.randrange(_VALUES // 10))

    def _to(self, group: int, number: int, amount: int) -> Batch:
        old, self.amounts[group][number] = self.amounts[group][number], amount
        return {"delete": [value(group, number, old)], "insert": [value(group, number, amount)]}


def run(sizes: Sizes) -> Report:
    report = Report()
    for name, query in QUERIES.items():
        measure(report, name, f"PREFIX : <{_PREFIX}> {query}", sizes)
    return report


def measure(report: Report, name: str, query: str, sizes: Sizes) -> None:
    items, chance = Items(sizes["groups"], sizes["values"]), random.Random(8)
    next_batch = items.largest_lowered if name == "MAX" else items.replaced
    store = Store()
    store.bulk_extend(items.quads())
    ours: list[float] = []
    peer: list[float] = []
    with sparqlive.open() as session:
        session.load(items.quads())
        view, registering = timed(lambda: session.view("view", query))
        for _ in range(sizes["rounds"]):
            for _ in range(sizes["changes_a_round"]):
                batch = next_batch(chance)
                start = time.perf_counter()
                session.apply(**batch)
                ours.append(time.perf_counter() - start)
                changed(store, batch)
            batch = next_batch(chance)
            peer.append(timed(lambda batch=batch: again(store, query, batch))[1])
            session.apply(**batch)
        same(name, view.weights(), dict(bag(store, query, view.variables)))
    groups, values = sizes["groups"], sizes["values"]
    title = f"{name} over {groups:,} groups of {values:,} values, a value changed"
    report.ratio_at_least(title, middle(ours), middle(peer), WANTED)
    report.at_most(f"{title}: time", middle(ours), WANTED_SECONDS, duration)
    report.remarks.append(
        f"aggregates, {name}: p99 of a change {duration(percentile(ours, 99))}; view computed in "
        f"{duration(registering)}; peer {span(peer)}."
    )


def changed(store: Store, batch: Batch) -> None:
    for quad in batch["delete"]:
        store.remove(quad)
    for quad in batch["insert"]:
        store.add(quad)


def again(store: Store, query: str, batch: Batch) -> int:
    changed(store, batch)
    return solutions(store, query)


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
