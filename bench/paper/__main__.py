"""Runs the experiments of the counting paper and writes tables and plots: `python -m bench.paper`.

A full run takes two to three hours on two cores and 16 GiB of memory, most of it for the paper's own method
on dense paths and for BSBM with 15,000 products. `--quick` takes some minutes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.measure import duration, markdown_table
from bench.paper.compare import METHODS
from bench.paper.experiments import EXPERIMENTS, FULL, QUICK, Section, Sizes
from bench.provenance import command_of, provenance

OUTPUT = Path(__file__).parents[1] / "results" / "paper"
_PACKAGES = ("sparqlive", "duckdb", "pyoxigraph", "pyspark", "matplotlib")
_INTRODUCTION = [
    "Each experiment of *Incremental View Maintenance for SPARQL Queries: Adapting the Counting Algorithm*",
    "(Staquet, Buelens, Van den Bussche, 2026; doi 10.1145/3796549), §5.2 and §5.3, run again.",
    "`live`, `duckdb` and `spark` are ours, with the strategy forced. `counting` is the paper's own method,",
    "written from the paper and tuned: its delta rules in DuckDB over strings, every subpattern stored.",
    "`counting, as published` adds deltas by a full outer join, as §5.1 says. A ratio is the time from",
    "scratch ÷ the incremental time.",
    "All methods had the same result after every update, or the run would have stopped.",
    "The paper's own figures are from another machine (4 cores, 16 GB, §5.1).",
]


def page(command: str, sections: Sequence[Section], sizes: Sizes) -> str:
    lines = ["# The counting paper's experiments", "", *provenance(command, _PACKAGES)]
    lines += [f"- sizes: {sizes}", "", *_INTRODUCTION]
    for section in sections:
        lines += ["", f"## {section.title}", "", *markdown_table(section.table), ""]
        lines += [f"- {remark}" for remark in section.remarks]
        if section.series or section.bars:
            lines += ["", f"![{section.title}]({section.name}.svg)"]
    return "\n".join(lines) + "\n"


def draw(section: Section, folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "sparqlive"  # the same picture has the same text
    from matplotlib import pyplot

    if section.series:
        figure, axes = pyplot.subplots(figsize=(8, 5))
        colours: dict[str, str] = {}
        for name, points in section.series.items():
            method, kind = name.rsplit(", ", 1)
            colour = colours.setdefault(method, f"C{len(colours)}")
            style = "--" if kind == "from scratch" else "-"
            axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", markersize=3, label=name)
        axes.set(xscale="log", yscale="log", xlabel=section.x_label, ylabel="seconds", title=section.title)
    else:
        labels = list(dict.fromkeys(label for bars in section.bars.values() for label, _ in bars))
        figure, axes = pyplot.subplots(figsize=(9, max(3.0, 0.18 * len(labels) * len(section.bars))))
        height = 0.8 / len(section.bars)
        for number, (method, bars) in enumerate(section.bars.items()):
            places = [labels.index(label) + number * height for label, _ in bars]
            axes.barh(places, [ratio for _, ratio in bars], height, label=method)
        axes.set_yticks([place + 0.4 - height / 2 for place in range(len(labels))], labels, fontsize=7)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set(xscale="log", xlabel="from scratch ÷ incremental", title=section.title)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(folder / f"{section.name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def run(names: Sequence[str], sizes: Sizes, methods: Sequence[str]) -> list[Section]:
    sections = []
    for name in names:
        start = time.perf_counter()
        sections += EXPERIMENTS[name](sizes, methods)
        print(f"{name}: {duration(time.perf_counter() - start)}", flush=True)
    return sections


def write(command: str, sections: Sequence[Section], sizes: Sizes, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        if section.series or section.bars:
            draw(section, folder)
    file = folder / "paper.md"
    file.write_text(page(command, sections, sizes), encoding="utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.paper", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="experiment", help=f"some of: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, some minutes")
    parser.add_argument("--methods", help=f"separated by ';'; default: {'; '.join(METHODS)}")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the page and its plots")
    for name, what in (("one_in", "1/p of the paths"), ("products", "sizes of BSBM"), ("groups", "of SUM")):
        parser.add_argument(f"--{name.replace('_', '-')}", help=f"{what}, separated by commas")
    parser.add_argument("--rounds", type=int, help="how often each update is measured; the median counts")
    options = parser.parse_args()
    names = options.names or list(EXPERIMENTS)
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"Unknown experiment {unknown[0]!r}. Available: {', '.join(EXPERIMENTS)}.")
    methods = [part.strip() for part in options.methods.split(";")] if options.methods else list(METHODS)
    wrong = [method for method in methods if method not in METHODS]
    if wrong:
        parser.error(f"Unknown method {wrong[0]!r}. Available: {'; '.join(METHODS)}.")
    sizes = QUICK if options.quick else FULL
    for name in ("one_in", "products", "groups"):
        if given := vars(options)[name]:
            sizes = replace(sizes, **{name: tuple(map(int, given.split(",")))})
    if options.rounds:
        sizes = replace(sizes, rounds=options.rounds)
    print(f"Estimated: {'some minutes' if options.quick else 'two to three hours'}.", flush=True)
    command = command_of("python -m bench.paper", sys.argv[1:])
    print(f"Written: {write(command, run(names, sizes, methods), sizes, options.output)}")


if __name__ == "__main__":
    main()
