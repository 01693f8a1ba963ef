"""The benchmark for incremental SPARQL: `python -m bench.ivm run`, `generate` and `expect`.

Needs only the standard library; drivers need their engines.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.ivm import report
from bench.ivm.cells import (
    ALL_DATASETS,
    ALL_MIXES,
    HERE,
    Cell,
    Expected,
    Outcome,
    cells,
    expected_file,
    expected_results,
    graph_of,
    run,
)
from bench.ivm.data import graph
from bench.ivm.driver import Driver, DriverError
from bench.ivm.mixes import EPOCHS, MIXES
from bench.provenance import command_of, provenance
from bench.text import markdown_table

_PYTHON = shlex.quote(sys.executable)
_INCREMUNICA = "node bench/ivm/drivers/incremunica.js"
DRIVERS = {
    "ours": f"{_PYTHON} -m bench.ivm.drivers.ours",
    "pyoxigraph": f"{_PYTHON} -m bench.ivm.drivers.oxigraph",
    "rdflib": f"{_PYTHON} -m bench.ivm.drivers.rdflib_again",
    "duckdb": f"{_PYTHON} -m bench.ivm.drivers.duckdb_again",
    "incremunica": _INCREMUNICA,
    **{
        f"incremunica-{join}": f"{_INCREMUNICA} --join {join}"
        for join in (
            "match-hash",
            "full-hash",
            "delete-hash",
            "memory-bind",
            "computational-bind",
            "nestedloop",
        )
    },
}
"""The drivers here, by name. `--driver NAME=COMMAND` adds another one."""
_ROOT = HERE.parents[1]


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ivm", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="run drivers and print tables")
    running.add_argument(
        "--driver",
        action="append",
        metavar="NAME[=COMMAND]",
        help=f"one of {', '.join(DRIVERS)}, or a name and a command; repeat it; the first is compared with",
    )
    running.add_argument("--epochs", type=int, default=EPOCHS, help=f"batches per cell, at most {EPOCHS}")
    running.add_argument("--timeout", type=float, default=60.0, help="seconds for one request")
    running.add_argument("--output", type=Path, help="write the tables to this file")
    running.add_argument("--json", type=Path, help="write each cell as a line of JSON")
    writing = commands.add_parser("generate", help="write graphs, batches and queries as files")
    writing.add_argument("folder", type=Path)
    expecting = commands.add_parser("expect", help="write the expected checksums: two drivers must agree")
    for command in (running, writing, expecting):
        command.add_argument("--triples", type=int, default=1000, help="size of each graph; default 1000")
        command.add_argument("--dataset", action="append", choices=ALL_DATASETS, help="default: all")
        command.add_argument("--mix", action="append", choices=ALL_MIXES, help="default: all")
        command.add_argument("--query", action="append", metavar="NAME", help="default: all")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[Cell]:
    mixes, datasets = options.mix or ALL_MIXES, options.dataset or ALL_DATASETS
    found = list(cells(datasets, mixes, options.query or ()))
    if not found:
        raise SystemExit(f"No query is named {', '.join(options.query)}. See bench/ivm/queries/.")
    return found


def run_drivers(
    commands: dict[str, str],
    wanted: Sequence[Cell],
    triples: int,
    epochs: int,
    timeout: float,
    expected: Expected,
    every: bool = False,
) -> tuple[list[Outcome], list[str]]:
    """The outcomes, and the engines' names. Drivers take turns on each cell, so that load is shared.

    `every`: results are compared after every batch.
    """
    drivers = {name: Driver(command, _ROOT, timeout) for name, command in commands.items()}
    outcomes: list[Outcome] = []
    broken: list[Outcome] = []
    engines: list[str] = []
    try:
        for name, driver in list(drivers.items()):
            try:
                engines.append(f"{name}: {driver.hello()}")
            except DriverError as error:
                broken += [Outcome(name, cell, "failed", f"does not start: {error}") for cell in wanted]
                del drivers[name]
        start, shown = time.perf_counter(), 0.0
        for number, cell in enumerate(wanted):
            for name, driver in drivers.items():
                outcomes.append(run(name, driver, cell, triples, epochs, expected, every))
            elapsed = time.perf_counter() - start
            if elapsed > shown + 10:
                shown = elapsed
                left = elapsed / (number + 1) * (len(wanted) - number - 1)
                print(
                    f"{number + 1} of {len(wanted)} cells, about {left:.0f} s left",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        for driver in drivers.values():
            driver.close()
    return [*outcomes, *broken], engines


def page(command: str, outcomes: Sequence[Outcome], engines: Sequence[str], triples: int) -> str:
    drivers = list(dict.fromkeys(o.driver for o in outcomes))
    peer = "the published checksums" if expected_results(triples) else f"those of {drivers[0]}"
    parts = [
        ["# Incremental SPARQL, measured"],
        provenance(command, others=engines),
        [
            f"Graphs of about {triples:,} triples. A time is the median of a batch; in brackets, how many",
            f"times as long as {drivers[0]} it took, as a geometric mean over the mixes. Results were",
            f"compared with {peer}; a query with a wrong result has no time.",
        ],
        markdown_table(report.counts(outcomes, drivers)),
        *([markdown_table(report.by_mix(outcomes, drivers))] if len(drivers) > 1 else []),
        markdown_table(report.by_query(outcomes, drivers)),
        report.failures(outcomes),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def measure(options: argparse.Namespace) -> None:
    commands = {}
    for given in options.driver or ["ours", "pyoxigraph"]:
        name, _, command = given.partition("=")
        if not command and name not in DRIVERS:
            raise SystemExit(f"Unknown driver {name!r}. Known: {', '.join(DRIVERS)}; or NAME=COMMAND.")
        commands[name] = command or DRIVERS[name]
    expected = expected_results(options.triples)
    if not expected:
        print(f"No published checksums for {options.triples} triples: drivers are compared with the first.")
    outcomes, engines = run_drivers(
        commands, chosen(options), options.triples, min(options.epochs, EPOCHS), options.timeout, expected
    )
    command = command_of("python -m bench.ivm", sys.argv[1:])
    text = page(command, outcomes, engines, options.triples)
    print(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    if options.json is not None:
        options.json.write_text("".join(f"{json.dumps(o.as_dict())}\n" for o in outcomes), encoding="utf-8")


def expect(options: argparse.Namespace) -> None:
    """Writes what ours and pyoxigraph agree on. A cell on which they differ stops this command."""
    commands = {name: DRIVERS[name] for name in ("pyoxigraph", "ours")}
    expected: Expected = {}
    outcomes, _ = run_drivers(commands, chosen(options), options.triples, EPOCHS, 600.0, expected)
    bad = [o for o in outcomes if o.status != "right"]
    if bad:
        raise SystemExit("\n".join(f"{o.driver} {o.cell.name}: {o.status} {o.note}" for o in bad))
    file = expected_file(options.triples)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(expected, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(expected)} cells in {file}")


def generate(options: argparse.Namespace) -> None:
    """Writes graphs, batches and queries, for those who want files instead of a driver."""
    for dataset in options.dataset or ALL_DATASETS:
        folder = options.folder / dataset
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "graph.nq").write_text("".join(f"{x}\n" for x in graph(dataset, options.triples)))
    for cell in chosen(options):
        folder = options.folder / cell.dataset
        (folder / f"{cell.query}.rq").write_text(cell.text())
        name = cell.mix if cell.mix in MIXES else f"{cell.mix}-{cell.query}"
        lines, batches = graph_of(cell, options.triples)
        (folder / f"{name}.start.nq").write_text("".join(f"{line}\n" for line in lines))
        with (folder / f"{name}.changes").open("w") as file:
            for deletes, inserts in batches:
                file.write("@\n")
                file.writelines(f"- {line}\n" for line in deletes)
                file.writelines(f"+ {line}\n" for line in inserts)


def main() -> None:
    options = parsed()
    {"run": measure, "generate": generate, "expect": expect}[options.command](options)


if __name__ == "__main__":
    main()
