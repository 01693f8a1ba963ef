"""The paper's Berlin SPARQL Benchmark queries; all triples of a product are removed and inserted again.

Two products: one in the query's result, one that does not concern it. A batch is all triples that mention the
product.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pyoxigraph import Quad, Store

import sparqlive
from bench import bsbm_data
from bench.measure import Report, Sizes, bag, duration, middle, number, run_alone, same, solutions, timed

WANTED = 1.5
SIZES = {"most_rounds": (200, 10), "query_milliseconds": (8_000, 1_000)}


@dataclass
class Cell:
    """One query with one kind of update."""

    ours: list[float] = field(default_factory=list)
    peer_update: list[float] = field(default_factory=list)
    peer_query: list[float] = field(default_factory=list)

    @property
    def against_query(self) -> float:
        return middle(self.peer_query) / middle(self.ours)

    @property
    def against_both(self) -> float:
        both = [u + q for u, q in zip(self.peer_update, self.peer_query, strict=True)]
        return middle(both) / middle(self.ours)


class _Pair:
    """A session and the peer over the same data."""

    def __init__(self, quads: list[Quad]) -> None:
        self.store = Store()
        self.store.extend(quads)
        self.session = sparqlive.open()
        self.session.load(quads)

    def change(self, cell: Cell, case: bsbm_data.Case, batch: list[Quad], delete: bool) -> None:
        given = {"delete": batch} if delete else {"insert": batch}
        cell.ours.append(timed(lambda: self.session.apply(**given).deltas[case.name])[1])
        start = time.perf_counter()
        if delete:
            for quad in batch:
                self.store.remove(quad)
        else:
            self.store.extend(batch)
        updated = time.perf_counter()
        solutions(self.store, case.query)
        cell.peer_query.append(time.perf_counter() - updated)
        cell.peer_update.append(updated - start)

    def compare(self, case: bsbm_data.Case) -> int:
        view = self.session.views[case.name]
        same(f"bsbm {case.name}", view.weights(), dict(bag(self.store, case.query, view.variables)))
        return len(view)


def measured(pair: _Pair, case: bsbm_data.Case, sizes: Sizes) -> tuple[dict[str, Cell], int]:
    """The four cells of a query, and the number of its answers."""
    steps = [("relevant, deleted", case.relevant, True), ("relevant, inserted", case.relevant, False)]
    copy = not pair.session.apply(delete=case.irrelevant).deleted
    if not copy:
        pair.session.apply(insert=case.irrelevant)
    for delete in (not copy, copy):
        kind = "irrelevant, deleted" if delete else "irrelevant, inserted"
        steps.append((kind, case.irrelevant, delete))
    pair.session.view(case.name, case.query)
    answers = pair.compare(case)
    cells = {name: Cell() for name, _, _ in steps}
    for name, batch, delete in steps:
        pair.change(cells[name], case, batch, delete)
        now = pair.compare(case)
        same(f"bsbm {case.name}, {name}, changes the answer", now != answers, name == "relevant, deleted")
    cells = {name: Cell() for name, _, _ in steps}
    stop = time.perf_counter() + sizes["query_milliseconds"] / 1000
    for round_ in range(sizes["most_rounds"]):
        if round_ >= 3 and time.perf_counter() > stop:
            break
        for name, batch, delete in steps:
            pair.change(cells[name], case, batch, delete)
    pair.compare(case)
    pair.session.drop(case.name)
    return cells, answers


def run(sizes: Sizes) -> Report:
    report = Report()
    if not bsbm_data.file().exists():
        report.remarks.append("bsbm: not run; bsbm-1000.nt.gz is not there. SPARQLIVE_DATA names its folder.")
        return report
    quads = bsbm_data.read()
    pair, loading = timed(lambda: _Pair(quads))
    head = ["query", "update", "triples", "ours", "peer: query", "peer: update + query"]
    report.details = [[*head, "× query", "× update + query"]]
    all_cells: dict[str, Cell] = {}
    for case in bsbm_data.cases(bsbm_data.Products(quads)):
        cells, answers = measured(pair, case, sizes)
        for name, cell in cells.items():
            all_cells[f"{case.name}, {name}"] = cell
            triples = len(case.irrelevant if name.startswith("irrelevant") else case.relevant)
            report.details.append(_detail(case.name, name, triples, cell))
        report.remarks.append(f"bsbm {case.name}: {answers:,} answers.")
    pair.session.close()
    _summary(report, all_cells)
    report.remarks.append(
        f"bsbm: {len(quads):,} triples, loaded into both in {duration(loading)}; the results were compared "
        f"row by row after each kind of update. The peer must take a batch in before it can evaluate the "
        f"query, so 'update + query' is its way to a fresh answer; 'query' leaves its update out, not ours."
    )
    return report


def _detail(query: str, update: str, triples: int, cell: Cell) -> list[str]:
    both = middle(u + q for u, q in zip(cell.peer_update, cell.peer_query, strict=True))
    return [
        query,
        update,
        str(triples),
        duration(middle(cell.ours)),
        duration(middle(cell.peer_query)),
        duration(both),
        f"{number(cell.against_query)}×",
        f"{number(cell.against_both)}×",
    ]


def _summary(report: Report, cells: dict[str, Cell]) -> None:
    name = min(cells, key=lambda name: cells[name].against_both)
    cell = cells[name]
    both = middle(u + q for u, q in zip(cell.peer_update, cell.peer_query, strict=True))
    faster = sum(c.against_both > 1 for c in cells.values())
    report.ratio_at_least(
        f"bsbm, worst of {len(cells)} cells ({name}); {faster} are faster", middle(cell.ours), both, WANTED
    )
    name = min(cells, key=lambda name: cells[name].against_query)
    cell = cells[name]
    faster = sum(c.against_query > 1 for c in cells.values())
    report.ratio_at_least(
        f"bsbm, the peer's update not counted, worst cell ({name}); {faster} are faster",
        middle(cell.ours),
        middle(cell.peer_query),
        WANTED,
    )


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
