"""Runs every benchmark, each in a process of its own, and writes the table.

`python -m bench` takes some minutes and writes bench/results/engine.md; `--quick` uses small sizes, shows the
table and writes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bench import aggregates, bsbm, closures, many_views, memory, parse, path3, pauses, star, window
from bench.measure import Report, duration, environment, figures_table, markdown_table, sizes_of, unjudged

BENCHMARKS = {
    "path3": path3,
    "star": star,
    "bsbm": bsbm,
    "many_views": many_views,
    "memory": memory,
    "pauses": pauses,
    "parse": parse,
    "window": window,
    "closures": closures,
    "aggregates": aggregates,
}
RESULTS = Path(__file__).parent / "results" / "engine.md"


def run(name: str, quick: bool) -> Report:
    module = BENCHMARKS[name]
    report = module.run(sizes_of(module.SIZES, quick))
    return unjudged(report) if quick else report


def page(command: str, reports: dict[str, Report], quick: bool) -> str:
    """The results as a page: what was asked for first, then the rest."""
    figures = [figure for report in reports.values() for figure in report.figures]
    asked = [figure for figure in figures if figure.reached is not None]
    others = [figure for figure in figures if figure.reached is None]
    lines = [
        "# The engine in process, measured",
        "",
        f"`{command}` with {environment()}.",
        "Times are medians, and ratios are of medians of one run in which the sides took turns.",
        "A change is timed from `session.apply` until the view's delta is there and the new state committed.",
        "The peer, unless a line says otherwise, is pyoxigraph: the change, then the whole query to its last",
        "solution.",
    ]
    for head, some in (("What was asked for:", asked), ("For comparison:", others)):
        if some:
            lines += ["", head, "", *figures_table(some)]
    for report in reports.values():
        if report.details:
            lines += ["", *markdown_table(report.details)]
    lines += ["", "## Sizes and remarks", ""]
    for name in reports:
        sizes = sizes_of(BENCHMARKS[name].SIZES, quick)
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
    parser.add_argument("--output", type=Path, help="where to write the page")
    parser.add_argument("names", nargs="*", metavar="benchmark", help=f"some of: {', '.join(BENCHMARKS)}")
    options = parser.parse_args()
    names = options.names or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(BENCHMARKS)}.")
    command = " ".join(["python -m bench", *(["--quick"] if options.quick else []), *options.names])
    text = page(command, reports_of(names, options.quick), options.quick)
    print(f"\n{text}")
    output = options.output
    if output is None and not options.quick and not options.names:
        output = RESULTS
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
