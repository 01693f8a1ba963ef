"""Other engines beside ours, in one run: re-evaluation and maintenance, on the benchmark of `bench/ivm`.

Operators one by one (path, star, OPTIONAL, MINUS, COUNT, SUM, MAX), and the Train Benchmark: its six queries
on growing models, errors injected and repaired. `make peers` installs the engines first; one that is not
there is left out, and the page says so.

A full run takes one to two hours on two cores; `--quick` takes some minutes.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.ivm import report
from bench.ivm.__main__ import DRIVERS, run_drivers
from bench.ivm.cells import Cell, Outcome, cells, expected_results
from bench.ivm.mixes import EPOCHS, TRAIN_MIXES
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
    incremunica = _PLACE / "incremunica"
    pathway = ROOT / ".venv-pathway" / "bin" / "python"
    node = f"node bench/ivm/drivers/incremunica.js --home {incremunica}"
    wanted = {
        **{name: (DRIVERS[name], None) for name in ("ours", "pyoxigraph", "rdflib", "duckdb")},
        "incremunica": (node, incremunica / "installed"),
        **{f"incremunica, {join}": (f"{node} --join {join}", incremunica / "installed") for join in joins},
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


def measured(
    drivers: dict[str, str], title: str, wanted: Sequence[Cell], triples: int, epochs: int, timeout: float
) -> tuple[list[str], list[str], list[Outcome]]:
    """Lines of a section, the engines' names, and the outcomes. Every checked step is compared."""
    start = time.perf_counter()
    print(f"{title}, {triples:,} triples: {len(wanted)} cells on {len(drivers)} engines", flush=True)
    expected = expected_results(triples)
    outcomes, engines = run_drivers(drivers, wanted, triples, epochs, timeout, expected, every=True)
    print(f"took {time.perf_counter() - start:.0f} s", flush=True)
    names = list(drivers)
    lines = ["", f"## {title}, {triples:,} triples", "", *markdown_table(report.by_query(outcomes, names))]
    lines += ["", *markdown_table(report.by_mix(outcomes, names))]
    lines += ["", *markdown_table(report.counts(outcomes, names))]
    return lines, engines, outcomes


def page(
    command: str,
    engines: Sequence[str],
    absent: Sequence[str],
    sections: Sequence[str],
    failed: Sequence[str],
) -> str:
    lines = [
        "# Other engines beside ours",
        "",
        *provenance(command, ("sparqlive", "duckdb"), engines),
        "",
        "A time is the median of a batch, over the mixes; in brackets, how many times as long as the first",
        "engine it took. Results were compared after every batch; the last section has every case that was",
        "refused, wrong or too slow. `incremunica` joins as shipped; with the name of a join algorithm, this",
        "one does all inner joins. Engines take turns on each cell.",
        "",
        *(f"- {name}: {kind}" for name, kind in _KINDS.items()),
        "- all others: evaluate the query again; `fuseki` over HTTP, the rest in process",
        *(f"- {line}" for line in absent),
        *sections,
        "",
        "## Refused, wrong, too slow",
        "",
        *(failed or ["- none"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the smallest graphs and few batches")
    parser.add_argument("--triples", help="sizes for the operators, separated by commas")
    parser.add_argument("--train", help="sizes for the Train Benchmark, separated by commas")
    parser.add_argument("--epochs", type=int, help=f"batches per cell, at most {EPOCHS}")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one request")
    parser.add_argument("--joins", default="full-hash", help="join algorithms of Incremunica, with commas")
    parser.add_argument("--only", help="some engines, separated by commas; the first is compared with")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()

    def sizes(given: str | None, quick: str, full: str) -> list[int]:
        return [int(size) for size in (given or (quick if options.quick else full)).split(",")]

    drivers, absent = commands([join for join in options.joins.split(",") if join])
    if options.only:
        drivers = {name: drivers[name] for name in options.only.split(",")}
    epochs = min(options.epochs or (4 if options.quick else EPOCHS), EPOCHS)
    print(f"Estimated: {'some minutes' if options.quick else 'one to two hours'}.", flush=True)
    sections: list[str] = []
    outcomes: list[Outcome] = []
    engines: list[str] = []
    runs = [
        *(("Operators", operators(), size) for size in sizes(options.triples, "1000", "1000,10000,100000")),
        *(("Train Benchmark", train(), size) for size in sizes(options.train, "1000", "7000,28000,112000")),
    ]
    for title, wanted, size in runs:
        lines, engines, found = measured(drivers, title, wanted, size, epochs, options.timeout)
        sections += lines
        outcomes += found
    command = command_of("python -m bench.peers", sys.argv[1:])
    text = page(command, engines, absent, sections, report.failures(outcomes))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
