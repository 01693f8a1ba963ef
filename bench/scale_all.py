"""Measures all sizes of `bench.scale`, each in a process of its own, and writes bench/results/scale.md.

`python -m bench.scale_all --folder /mnt/large` takes hours, and 60 GB of disk. `--only "Spark, 3M" "12M"`
makes the runs whose names have one of these words, and leaves the figures of the others as they are;
`--smaller 1000` uses small sizes and writes nothing. The page has what was asked for first, whether it was
reached or not, then every step, with the commit, the versions, the machine and its load. It is written after
each run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.orders import Catalogue
from sparqlive.runtime.memory import machine_memory

RESULTS = Path(__file__).parent / "results" / "scale.md"
FIGURES = RESULTS.with_suffix(".json")
"""What was measured, by the names of the runs; the page is written from it."""
_HUNDRED = ("--batches", "100", "--repeat", "20")
_ALL_BATCHES = ("--batches", "100", "10000", "1000000", "--repeat", "3")
_SPARK = ("--strategy", "spark", "--forced", "spark", "--memory", "0")


class Run(NamedTuple):
    """One call of `bench.scale`."""

    name: str
    triples: int
    options: Sequence[str]


RUNS = (
    Run("DuckDB, 3M", 3_000_000, ("--memory", "0", *_HUNDRED)),
    Run("DuckDB, 30M", 30_000_000, ("--memory", "0", *_HUNDRED)),
    Run(
        "DuckDB, 30M, memory=1GB",
        30_000_000,
        ("--memory", "1GB", "--batches", "100", "--repeat", "100", "--check"),
    ),
    Run(
        "DuckDB, 30M, large batches",
        30_000_000,
        ("--memory", "1GB", "--batches", "10000", "1000000", "--repeat", "2"),
    ),
    Run("Spark, 3M", 3_000_000, (*_SPARK, *_ALL_BATCHES)),
    Run("Spark, 30M", 30_000_000, (*_SPARK, *_ALL_BATCHES)),
    Run("Spark, 12M", 12_000_000, (*_SPARK, "--batches", "200", "20000", "--repeat", "3")),
    Run("Spark, 100M", 100_000_000, (*_SPARK, *_ALL_BATCHES[:-1], "2", "--cold")),
)
Steps = list[dict[str, Any]]


def measured(run: Run, folder: Path, triples: int) -> Steps:
    """The steps of a run, which has its own store. Texts are kept for other runs of the same size."""
    text, result = folder / f"orders-{triples}.nt", folder / "figures.json"
    if not text.exists():
        Catalogue(triples).write(text)
    command = [sys.executable, "-m", "bench.scale", "--triples", str(triples), "--text", str(text)]
    subprocess.run([*command, "--json", str(result), "--folder", str(folder), *run.options], check=True)
    found: Steps = json.loads(result.read_text())
    return found


def middle(steps: Steps, name: str, what: str) -> float | None:
    """The median of all steps of a name; the first one of several is left out, because it warms up."""
    values = [step[what] for step in steps if step["step"] == name]
    return median(values[1:] or values) if values else None


def targets(found: dict[str, Steps]) -> Iterator[tuple[str, float | None, float, str]]:
    """What was asked for: a name, the figure, the most it may be, and the unit."""
    for backend in ("DuckDB", "Spark"):
        few, many = (
            middle(found.get(f"{backend}, {size}", []), "batch of 100", "processor_seconds")
            for size in ("3M", "30M")
        )
        ratio = None if few is None or many is None else many / few
        yield f"{backend}: processor time of 100 changes at 30M against 3M", ratio, 1.5, "×"
    peak = _peak(found, "DuckDB, 30M, memory=1GB")
    yield 'peak at 30M with memory="1GB", 100 batches and a check', peak, 1.5e9 / 2**20, " MiB"
    drivers = {size: _peak(found, f"Spark, {size}") for size in ("3M", "30M", "100M")}
    for size in ("30M", "100M"):
        yield f"memory of Spark's driver at {size}", drivers[size], 400e6 / 2**20, " MiB"
    grown = None if None in (drivers["3M"], drivers["30M"]) else drivers["30M"] - drivers["3M"]
    yield "the same, growth from 3M to 30M", grown, 50e6 / 2**20, " MiB"
    spark = found.get("Spark, 12M", [])
    for step, most in (
        ("batch of 200", 6),
        ("batch of 20,000", 10),
        ("first computation: join", 15),
        ("first computation: totals", 15),
        ("first computation: open", 6),
    ):
        yield f"Spark at 12M, {step}", middle(spark, step, "seconds"), most, " s"


def _peak(found: dict[str, Steps], run: str) -> Any:
    """The most memory of a run, until its rows are read."""
    steps = (step for step in found.get(run, ()) if "solutions" not in step["step"])
    return max((step["most_mebibytes"] for step in steps), default=None)


def page(figures: dict[str, Any]) -> str:
    memory = (machine_memory() or 0) / 2**30
    found: dict[str, Steps] = {name: figures[name]["steps"] for name in figures}
    lines = [
        "# Views that no process holds, measured",
        "",
        f"`python -m bench.scale_all` on {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB. Processor time is that of all processes, Spark's included; memory is the "
        "anonymous memory of this process (on Spark, the driver's). The load is the number of processes that "
        "wanted a core at the end of a step, these included.",
        "",
        "| what was asked for | measured | at most | reached |",
        "|---|---|---|---|",
    ]
    for name, value, most, unit in targets(found):
        shown = "not measured" if value is None else f"{value:,.2f}{unit}"
        reached = "" if value is None else ("yes" if value <= most else "no")
        lines.append(f"| {name} | {shown} | {most:,.4g}{unit} | {reached} |")
    for run, steps in found.items():
        lines += ["", f"## {run}", "", figures[run]["measured"], ""]
        lines.append("| step | times | seconds | processor time | memory, at most | load |")
        lines.append("|---|---|---|---|---|---|")
        for name in dict.fromkeys(step["step"] for step in steps):
            times = sum(step["step"] == name for step in steps)
            seconds, own, most, load = (
                middle(steps, name, what)
                for what in ("seconds", "processor_seconds", "most_mebibytes", "load")
            )
            used = f"{own:.2f} s" if own is not None and own > 0 else "not known"  # that of ended processes
            lines.append(f"| {name} | {times} | {seconds:.2f} s | {used} | {most:,.0f} MiB | {load:.1f} |")
    return "\n".join(lines) + "\n"


def conditions() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    versions = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "pyarrow", "pyspark"))
    return f"{date.today()}, commit {commit}, CPython {platform.python_version()}, {versions}."


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="for texts and stores, which are removed afterwards")
    parser.add_argument(
        "--only",
        nargs="*",
        default=[""],
        metavar="WORDS",
        help="the runs whose names have one of these words",
    )
    parser.add_argument(
        "--smaller",
        type=int,
        default=1,
        metavar="N",
        help="graphs N times smaller, and the page only printed",
    )
    arguments = parser.parse_args(given)
    figures: dict[str, Any] = {}
    if arguments.smaller == 1 and FIGURES.exists():
        figures = json.loads(FIGURES.read_text())
    failed = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for run in RUNS:
            if not any(words in run.name for words in arguments.only):
                continue
            triples = run.triples // arguments.smaller
            print(f"\n{run.name}: {triples:,} triples", flush=True)
            try:
                figures[run.name] = {"measured": conditions(), "steps": measured(run, Path(folder), triples)}
            except subprocess.CalledProcessError:
                failed.append(run.name)  # the others are worth their hours
            if arguments.smaller == 1:
                FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
                RESULTS.write_text(page(figures))
    print(page(figures))
    if failed:
        raise SystemExit(f"These runs failed: {'; '.join(failed)}.")


if __name__ == "__main__":
    main()
