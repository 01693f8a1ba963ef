"""Runs the benchmarks, each in its own process, and writes the table.

`python -m bench` takes some minutes and writes bench/results/engine.md. `--spark` runs the ones on Spark
instead, which take half an hour, and writes bench/results/spark.md. `--quick` uses small sizes, prints the
table and writes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.measure import (
    Report,
    add_pathway_option,
    duration,
    figures_table,
    markdown_table,
    set_pathway,
    sizes_of,
    unjudged,
)
from bench.provenance import provenance

IN_PROCESS = (
    *("path3", "star", "batches", "bsbm", "many_views", "memory", "pauses", "parse", "window"),
    *("closures", "aggregates", "durability", "explore", "shapes", "wide", "beyond_memory"),
)
IN_BULK = ("bulk", "bulk_aggregates", "throughput")
ON_SPARK = ("spark_path3", "ingest", "choice", "growth")
OF_THE_AGENT = ("subscribers", "http_results", "hostile")
BENCHMARKS = (*IN_PROCESS, *IN_BULK, *ON_SPARK, *OF_THE_AGENT)
PACKAGES = ("sparqlive", "pyoxigraph", "duckdb", "pyspark")
RESULTS = Path(__file__).parent / "results"

_INTRODUCTIONS = {
    "engine": [
        "# The engine in process, measured",
        "Times are medians, and ratios are of medians of one run in which the sides took turns.",
        "A change is timed from `session.apply` until the new state is committed and the delta is available.",
        "The peer, unless a line says otherwise, is pyoxigraph: the change, then the whole query to its last",
        "solution.",
    ],
    "bulk": [
        "# Bulk work in process, measured",
        "The peer, unless a line says otherwise, is hand-written SQL on DuckDB over the same columns.",
    ],
    "agent": [
        "# The agent, measured",
        "The agent, the writer of its data and the clients share one machine.",
    ],
    "spark": [
        "# Spark, measured",
        "Spark runs in local mode with two threads. Times are medians, and ratios are of one run; a busy",
        "machine changes times by half and ratios by a tenth or two. Starting Spark is not counted.",
    ],
}


def module_of(name: str) -> Any:
    """Imported when it is run: some need packages that others do not."""
    return import_module(f"bench.{name}")


def run(name: str, quick: bool) -> Report:
    module = module_of(name)
    report = module.run(sizes_of(module.SIZES, quick))
    return unjudged(report) if quick else report


def page(command: str, reports: dict[str, Report], quick: bool) -> str:
    """The results as a page: figures with a target first, then the rest."""
    figures = [figure for report in reports.values() for figure in report.figures]
    asked = [figure for figure in figures if figure.reached is not None]
    others = [figure for figure in figures if figure.reached is None]
    topics = {"bulk": IN_BULK, "spark": ON_SPARK, "agent": OF_THE_AGENT}
    topic = next((name for name, some in topics.items() if reports.keys() <= {*some}), "engine")
    title, *introduction = _INTRODUCTIONS[topic]
    lines = [title, "", *provenance(command, PACKAGES), "", *introduction]
    for head, some in (("With a target:", asked), ("For comparison:", others)):
        if some:
            lines += ["", head, "", *figures_table(some)]
    for name, report in reports.items():
        if report.details:
            lines += ["", f"## {name}", "", *markdown_table(report.details)]
    lines += ["", "## Sizes and remarks", ""]
    for name in reports:
        sizes = sizes_of(module_of(name).SIZES, quick)
        lines.append(f"- {name}: {', '.join(f'{key} {value:,}' for key, value in sizes.items())}.")
    lines += [f"- {remark}" for report in reports.values() for remark in report.remarks]
    return "\n".join(lines) + "\n"


def reports_of(names: Iterable[str], quick: bool) -> dict[str, Report]:
    """A fresh process each: no benchmark inherits another's heap."""
    reports = {}
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for name in names:
            start = time.perf_counter()
            reports[name] = pool.submit(run, name, quick).result()
            print(f"{name}: {duration(time.perf_counter() - start)}", flush=True)
    return reports


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written")
    parser.add_argument("--spark", action="store_true", help="the ones on Spark instead of those in process")
    parser.add_argument("--output", type=Path, help="where to write the page")
    parser.add_argument("names", nargs="*", metavar="benchmark", help=f"some of: {', '.join(BENCHMARKS)}")
    add_pathway_option(parser)
    options = parser.parse_args()
    set_pathway(options.pathway)
    names = options.names or list(ON_SPARK if options.spark else IN_PROCESS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"Unknown benchmark {unknown[0]!r}. Available: {', '.join(BENCHMARKS)}.")
    flags = [f"--{flag}" for flag in ("spark", "quick") if vars(options)[flag]]
    command = " ".join(["python -m bench", *flags, *options.names])
    text = page(command, reports_of(names, options.quick), options.quick)
    print(f"\n{text}")
    output = options.output
    if output is None and not options.quick and not options.names:
        output = RESULTS / ("spark.md" if options.spark else "engine.md")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
