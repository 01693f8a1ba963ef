"""A cell of the benchmark: one query over one graph under one mix of changes, run on one driver.

Invariant: a result that is not the expected one ends the cell, and its times count for nothing.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from bench.ivm.checksum import checksum
from bench.ivm.data import DATASETS
from bench.ivm.driver import Driver, DriverError, LateError, RefusedError
from bench.ivm.mixes import EPOCHS, MIXES, TRAIN_MIXES, Batch, changing

HERE = Path(__file__).parent
CHECKED = frozenset({0, 1, 2, 4, 8, 16, EPOCHS})
"""Results are compared after these numbers of batches."""
Expected = dict[str, dict[str, str]]
"""For each cell: number of batches, checksum."""


@dataclass(frozen=True)
class Cell:
    dataset: str
    query: str
    mix: str

    @property
    def name(self) -> str:
        return f"{self.dataset}/{self.query}/{self.mix}"

    def text(self) -> str:
        return (HERE / "queries" / self.dataset / f"{self.query}.rq").read_text(encoding="utf-8")

    def covers(self) -> str:
        return self.text().partition("\n")[0].removeprefix("# ")


@dataclass
class Outcome:
    """What a driver did with a cell: right, refused, wrong, late or failed.

    `seconds` has one entry per batch; `checksums` one per compared result, by the number of batches before.
    """

    driver: str
    cell: Cell
    status: str = "right"
    note: str = ""
    first: float = 0.0
    seconds: list[float] = field(default_factory=list)
    changes: int = 0
    checksums: dict[str, str] = field(default_factory=dict)

    @property
    def middle(self) -> float | None:
        return median(self.seconds) if self.status == "right" and self.seconds else None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Outcome:
        return cls(**{**given, "cell": Cell(**given["cell"])})


def cells(datasets: Iterable[str], mixes: Iterable[str], queries: Iterable[str] = ()) -> Iterator[Cell]:
    """The chosen cells; of all queries if none is named. Inject and repair exist for the railway alone."""
    wanted, mixes = set(queries), list(mixes)
    for dataset in datasets:
        for file in sorted((HERE / "queries" / dataset).glob("*.rq")):
            if not wanted or file.stem in wanted or f"{dataset}/{file.stem}" in wanted:
                for mix in mixes:
                    if mix in MIXES or dataset == "railway":
                        yield Cell(dataset, file.stem, mix)


@cache
def _changing(dataset: str, triples: int, mix: str, query: str) -> tuple[list[str], list[Batch]]:
    lines, batches = changing(dataset, triples, mix, query)
    return lines, list(batches)


def graph_of(cell: Cell, triples: int) -> tuple[list[str], list[Batch]]:
    query = cell.query if cell.mix in TRAIN_MIXES else ""
    return _changing(cell.dataset, triples, cell.mix, query)


def run(
    name: str,
    driver: Driver,
    cell: Cell,
    triples: int,
    epochs: int,
    expected: Expected,
    every: bool = False,
    budget: float = inf,
) -> Outcome:
    """Runs a cell. Without an expected checksum, the first driver's results are not judged.

    `every`: results are compared after every batch. `budget`: no batch begins after so many seconds.
    """
    outcome, begun = Outcome(name, cell), time.perf_counter()
    lines, batches = graph_of(cell, triples)
    wanted = expected.setdefault(cell.name, {})
    with tempfile.NamedTemporaryFile("w", suffix=".nq", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        try:
            outcome.first = driver.ask(op="start", file=file.name, query=cell.text())["seconds"]
            _check(outcome, driver, wanted, 0)
            for number, (deletes, inserts) in enumerate(batches[:epochs], 1):
                if outcome.status != "right" or (number > 1 and time.perf_counter() - begun > budget):
                    break
                outcome.seconds.append(driver.ask(op="apply", delete=deletes, insert=inserts)["seconds"])
                outcome.changes += len(deletes) + len(inserts)
                if every or number in CHECKED or number == min(epochs, len(batches)):
                    _check(outcome, driver, wanted, number)
        except RefusedError as error:
            outcome.status, outcome.note = "refused", str(error)
        except LateError as error:
            outcome.status, outcome.note = "late", str(error)
        except DriverError as error:
            outcome.status, outcome.note = "failed", str(error)
    return outcome


def _check(outcome: Outcome, driver: Driver, wanted: dict[str, str], number: int) -> None:
    found = outcome.checksums[str(number)] = checksum(driver.rows())
    expected = wanted.setdefault(str(number), found)
    if found != expected:
        outcome.status = "wrong"
        outcome.note = f"after {number} batches: {found}, expected {expected}"


def expected_file(triples: int) -> Path:
    return HERE / "expected" / f"{triples}.json"


def expected_results(triples: int) -> Expected:
    """The published checksums for graphs of this size; empty where there are none."""
    file = expected_file(triples)
    return json.loads(file.read_text()) if file.exists() else {}


ALL_DATASETS = tuple(DATASETS)
ALL_MIXES = (*MIXES, *TRAIN_MIXES)
