"""Other engines beside ours, in one run: re-evaluation and maintenance, on the benchmark of `bench/ivm`.

Operators one by one (path, star, OPTIONAL, MINUS, COUNT, SUM, MAX), and the Train Benchmark: its six queries
on growing models, errors injected and repaired. `make peers` installs the engines first; one that is not
there is left out, and the page says so.

What was measured is kept beside the page, and is not measured again: a run can be ended and continued. Delete
`peers.jsonl` to begin anew. `--quick` takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from bench.ivm import report
from bench.ivm.__main__ import DRIVERS
from bench.ivm.cells import Cell, Expected, Outcome, cells, expected_results, run
from bench.ivm.driver import Driver, DriverError
from bench.ivm.mixes import EPOCHS, TRAIN_MIXES
from bench.kept import Kept
from bench.provenance import command_of, provenance
from bench.text import markdown_table

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "bench" / "results" / "peers.md"
_PLACE = ROOT / ".bench-peers"
_PYTHON = shlex.quote(sys.executable)
_FORMS = (
    "paths/three-hop",
    *(f"stars/{name}" for name in ("star", "optional", "minus", "count", "sum", "max", "total")),
)
_MIXES = ("single", "batch", "hot-keys")
QUICK_SIZES = "1000"
OPERATOR_SIZES = "1000,10000,100000"
TRAIN_SIZES = "7000,28000,112000"
_KINDS = {
    "ours": "maintains",
    "incremunica": "maintains",
    "pathway": "maintains, SPARQL by hand",
    "duckdb": "evaluates again, SQL by hand",
}
"""The others evaluate the query again."""


def commands(joins: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The drivers of the engines that are there, and a sentence for each that is not."""
    jar = next(iter(sorted(_PLACE.glob("jena-fuseki-server-*.jar"))), _PLACE / "jena-fuseki-server.jar")
    built = os.environ.get("SPARQLIVE_INCREMUNICA")
    incremunica = Path(built) if built else _PLACE / "incremunica"
    pathway = ROOT / ".venv-pathway" / "bin" / "python"
    installed = incremunica / ("package.json" if built else "installed")
    node = f"node bench/ivm/drivers/incremunica.js --home {incremunica}"
    wanted = {
        **{name: (DRIVERS[name], None) for name in ("ours", "pyoxigraph", "rdflib", "duckdb")},
        "incremunica": (node, installed),
        **{f"incremunica, {join}": (f"{node} --join {join}", installed) for join in joins},
        "pathway": (f"{pathway} -m bench.ivm.drivers.pathway_streams", pathway),
        "fuseki": (f"{_PYTHON} -m bench.ivm.drivers.fuseki --jar {jar}", jar),
        "rdf4j": (
            f"java -cp {_PLACE / 'rdf4j' / 'jars'}/* bench/ivm/drivers/Rdf4j.java",
            _PLACE / "rdf4j" / "jars" / "installed",
        ),
    }
    there = {name: command for name, (command, file) in wanted.items() if file is None or file.exists()}
    absent = [f"{name} is not installed: {file}" for name, (_, file) in wanted.items() if name not in there]
    return there, absent


def operators() -> list[Cell]:
    return [cell for cell in cells(("paths", "stars"), _MIXES) if f"{cell.dataset}/{cell.query}" in _FORMS]


def train() -> list[Cell]:
    return list(cells(("railway",), TRAIN_MIXES))


class Engines:
    """The drivers, each started when it is first asked. One that does not start fails in every cell."""

    def __init__(self, commands: Mapping[str, str], seconds: float) -> None:
        self._drivers = {name: Driver(command, ROOT, seconds) for name, command in commands.items()}
        self._seconds = seconds
        self.names: list[str] = []
        self._broken: dict[str, str] = {}
        for name, driver in self._drivers.items():
            try:
                self.names.append(f"{name}: {driver.hello()}")
            except DriverError as error:
                self._broken[name] = f"does not start: {error}"

    def run(self, name: str, cell: Cell, triples: int, epochs: int, expected: Expected) -> Outcome:
        if name in self._broken:
            return Outcome(name, cell, "failed", self._broken[name])
        return run(name, self._drivers[name], cell, triples, epochs, expected, True, self._seconds)

    def close(self) -> None:
        for driver in self._drivers.values():
            driver.close()


@dataclass(frozen=True)
class Part:
    """Cells on graphs of one size."""

    title: str
    cells: Sequence[Cell]
    triples: int

    def key(self, cell: Cell, driver: str) -> str:
        return f"{self.triples} triples, {cell.name}, {driver}"

    def outcomes(self, kept: Kept, drivers: Sequence[str]) -> list[Outcome]:
        """What was measured of this part, cell by cell."""
        found = [kept.get(self.key(cell, driver)) for cell in self.cells for driver in drivers]
        return [Outcome.from_dict(outcome) for outcome in found if outcome is not None]

    def expected(self, kept: Kept, drivers: Sequence[str]) -> Expected:
        """The published checksums, or those of the first driver that has a result."""
        expected = expected_results(self.triples)
        for outcome in self.outcomes(kept, drivers):
            if outcome.status == "right":
                for number, checksum in outcome.checksums.items():
                    expected.setdefault(outcome.cell.name, {}).setdefault(number, checksum)
        return expected


def _parts(triples: str, of_trains: str) -> list[Part]:
    return [
        *(Part("Operators", operators(), int(size)) for size in triples.split(",")),
        *(Part("Train Benchmark", train(), int(size)) for size in of_trains.split(",")),
    ]


def measure(
    parts: Sequence[Part], drivers: Mapping[str, str], kept: Kept, engines: Engines, epochs: int, ends: float
) -> None:
    """Measures what is missing, until the clock shows `ends`. Engines take turns on each cell.

    A query that an engine did not finish is not given to it again, with another mix or more triples.
    """
    late: dict[tuple[str, str, str], str] = {}
    for part in sorted(parts, key=lambda part: part.triples):
        expected = part.expected(kept, list(drivers))
        for cell in part.cells:
            for name in drivers:
                query = (name, cell.dataset, cell.query)
                if part.key(cell, name) not in kept:
                    if time.perf_counter() > ends:
                        return
                    if query in late:
                        outcome = Outcome(name, cell, "late", late[query])
                    else:
                        outcome = engines.run(name, cell, part.triples, epochs, expected)
                    kept.add(part.key(cell, name), _rounded(outcome))
                outcome = Outcome.from_dict(kept.get(part.key(cell, name)))
                if outcome.status == "late":
                    late[query] = outcome.note
        print(f"{part.title}, {part.triples:,} triples: done", flush=True)


def _rounded(outcome: Outcome) -> dict[str, Any]:
    seconds = [float(f"{value:.4g}") for value in outcome.seconds]
    return {**outcome.as_dict(), "seconds": seconds, "first": float(f"{outcome.first:.4g}")}


def section(part: Part, outcomes: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    lines = ["", f"## {part.title}, {part.triples:,} triples", ""]
    wanted = len(part.cells) * len(names)
    if len(outcomes) < wanted:
        lines += [f"{len(outcomes)} of {wanted} results were measured so far.", ""]
    lines += [*markdown_table(report.by_query(outcomes, names)), ""]
    lines += [*markdown_table(report.by_mix(outcomes, names)), ""]
    return [*lines, *markdown_table(report.counts(outcomes, names))]


def page(kept: Kept, parts: Sequence[Part], names: Sequence[str], absent: Sequence[str]) -> str:
    """The page of what was measured. `names`: the engines, the first is compared with."""
    found = [(part, part.outcomes(kept, names)) for part in parts]
    keys = [part.key(cell, name) for part in parts for cell in part.cells for name in names]
    outcomes = [outcome for _, some in found for outcome in some]
    least = min((len(outcome.seconds) for outcome in outcomes if outcome.status == "right"), default=0)
    most = max((len(outcome.seconds) for outcome in outcomes), default=0)
    lines = [
        "# Other engines beside ours",
        "",
        *kept.described(keys),
        "",
        "A time is the median of a batch, over the mixes; in brackets, how many times as long as the first",
        "engine it took. Results were compared after every batch; the last section has every case that was",
        "refused, wrong or too slow. `incremunica` joins as shipped; with the name of a join algorithm, this",
        f"one does all inner joins. Engines take turns on each cell. A cell has {least} to {most} batches:",
        "its seconds are limited. A query that an engine did not finish in them is not given to it again.",
        "",
        *(f"- {name}: {kind}" for name, kind in _KINDS.items()),
        "- all others: evaluate the query again; `fuseki` over HTTP, the rest in process",
        *(f"- {line}" for line in absent),
        *(line for part, some in found if some for line in section(part, some, names)),
        "",
        "## Refused, wrong, too slow",
        "",
        *(report.failures(outcomes) or ["- none"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the smallest graphs and few batches")
    parser.add_argument("--triples", help="sizes for the operators, separated by commas")
    parser.add_argument("--train", help="sizes for the Train Benchmark, separated by commas")
    parser.add_argument("--epochs", type=int, help=f"batches per cell, at most {EPOCHS}")
    parser.add_argument("--seconds", type=float, default=10.0, help="for a cell on one engine; default 10")
    parser.add_argument("--minutes", type=float, default=inf, help="end after so long; a later run continues")
    parser.add_argument("--joins", default="full-hash", help="join algorithms of Incremunica, with commas")
    parser.add_argument("--only", help="measure some engines, separated by ';'")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--output", type=Path, help="the page; the raw results are beside it, as .jsonl")
    options = parser.parse_args()

    drivers, absent = commands([join for join in options.joins.split(",") if join])
    only = [name.strip() for name in options.only.split(";")] if options.only else list(drivers)
    unknown = [name for name in only if name not in drivers]
    if unknown:
        parser.error(f"Unknown engine {unknown[0]!r}. Available: {', '.join(drivers)}.")
    usual = (QUICK_SIZES, QUICK_SIZES) if options.quick else (OPERATOR_SIZES, TRAIN_SIZES)
    parts = _parts(options.triples or usual[0], options.train or usual[1])
    shown = {(part.title, part.triples): part for part in (*_parts(*usual), *parts)}
    output = options.output or (
        Path(tempfile.mkdtemp(prefix="peers-")) / OUTPUT.name if options.quick else OUTPUT
    )
    chosen = {} if options.page else {name: drivers[name] for name in only}
    ends = time.perf_counter() + 60 * options.minutes
    engines = Engines(chosen, options.seconds)
    command = command_of("python -m bench.peers", sys.argv[1:])
    conditions = partial(provenance, command, ("sparqlive", "duckdb"), engines.names)
    kept = Kept(output.with_suffix(".jsonl"), conditions)
    try:
        epochs = min(options.epochs or (4 if options.quick else EPOCHS), EPOCHS)
        measure(parts, chosen, kept, engines, epochs, ends)
    finally:
        engines.close()
    output.write_text(page(kept, list(shown.values()), list(drivers), absent), encoding="utf-8")
    print(f"Written: {output}")


if __name__ == "__main__":
    main()
