"""Runs the experiments of the counting paper and writes tables and plots: `python -m bench.paper`.

What was measured is kept in `raw.jsonl` beside the page, and is not measured again: a run can be ended and
continued, and can be asked for some experiments. The page is written from what is there. `--quick` uses small
sizes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from bench.kept import Kept
from bench.measure import duration, markdown_table, same
from bench.paper.cases import EXPERIMENTS, FULL, QUICK, Planned, Sizes
from bench.paper.compare import METHODS
from bench.paper.sections import Section, sections
from bench.paper.worker import Worker
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
    "After every update, all methods had the same result, incrementally and from scratch: the checksums are",
    "in [raw.jsonl](raw.jsonl).",
    "The paper's own figures are from another machine (4 cores, 16 GB, §5.1).",
]


@dataclass
class Run:
    """What is asked for: sizes, methods, at most so many rounds, and seconds for each update by a method.

    `ends`: no case begins after this time of the clock.
    """

    sizes: Sizes
    methods: Sequence[str]
    rounds: int
    seconds: float
    ends: float = inf

    def keys(self, names: Sequence[str]) -> Iterator[str]:
        """The keys of all results of some experiments."""
        for name in names:
            for planned in EXPERIMENTS[name](self.sizes):
                for method in self._of(planned.methods):
                    yield from (_key(case, method) for case in planned.names)

    def measure(self, names: Sequence[str], kept: Kept, again: bool) -> None:
        """Measures what is missing, or everything again."""
        workers = {method: Worker(method) for method in self.methods}
        try:
            for name in names:
                start = time.perf_counter()
                for planned in EXPERIMENTS[name](self.sizes):
                    missing = {
                        method: [case for case in planned.names if again or _key(case, method) not in kept]
                        for method in self._of(planned.methods)
                    }
                    if any(missing.values()) and time.perf_counter() < self.ends:
                        self._measure(planned, missing, workers, kept)
                print(f"{name}: {duration(time.perf_counter() - start)}", flush=True)
        finally:
            for worker in workers.values():
                worker.close()

    def _measure(
        self,
        planned: Planned,
        missing: Mapping[str, Sequence[str]],
        workers: Mapping[str, Worker],
        kept: Kept,
    ) -> None:
        """Measures cases on one graph. Each method loads it once."""
        lines, cases = planned.make()
        with tempfile.TemporaryDirectory(prefix="sparqlive-paper-") as folder:
            file = Path(folder) / "graph.nt"
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            for method, wanted in missing.items():
                for case in cases:
                    if case.name in wanted and time.perf_counter() < self.ends:
                        found = workers[method].measure(file, case, self.rounds, self.seconds)
                        _keep(kept, case.name, method, {"triples": len(lines), **found})
                workers[method].forget()

    def _of(self, methods: Sequence[str]) -> list[str]:
        return [method for method in self.methods if method in methods]

    def page(self, kept: Kept) -> tuple[str, list[Section]]:
        """The page of all experiments that have results, and their sections."""

        def results(case: str, method: str) -> Mapping[str, Any]:
            return kept.get(_key(case, method)) or {}

        found = sections(self.sizes, results, self.methods)
        keys = list(self.keys(list(EXPERIMENTS)))
        rounds = [entry["rounds"] for key in keys for entry in (kept.get(key) or {"updates": ()})["updates"]]
        lines = ["# The counting paper's experiments", "", *kept.described(keys), "", *_INTRODUCTION]
        if rounds:
            few = sum(1 for one in rounds if one < max(rounds))
            lines += [
                f"Times are medians of {max(rounds)} rounds; {few:,} of {len(rounds):,} cells have fewer, to",
                f"keep within {self.seconds:.0f} s. Results that are missing were not measured.",
            ]
        for section in found:
            lines += ["", f"## {section.title}", "", *markdown_table(section.table), ""]
            lines += [f"- {remark}" for remark in section.remarks]
            if section.series or section.bars:
                lines += ["", f"![{section.title}]({section.name}.svg)"]
        return "\n".join(lines) + "\n", found


def _keep(kept: Kept, case: str, method: str, found: dict[str, Any]) -> None:
    """Adds a result, which must be that of all other methods."""
    checksums = {entry["update"]: entry["checksum"] for entry in found["updates"]}
    for other in METHODS:
        known = kept.get(_key(case, other)) if other != method else None
        for entry in known["updates"] if known else ():
            if (update := entry["update"]) in checksums:
                same(f"{case}, {update}, {method} and {other}", checksums[update], entry["checksum"])
    kept.add(_key(case, method), found)
    print(f"  {case}: {method} {found.get('unfinished', '')}", flush=True)


def _key(case: str, method: str) -> str:
    return f"{case} | {method}"


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


def write(run: Run, kept: Kept, folder: Path) -> Path:
    text, found = run.page(kept)
    folder.mkdir(parents=True, exist_ok=True)
    for section in found:
        if section.series or section.bars:
            draw(section, folder)
    file = folder / "paper.md"
    file.write_text(text, encoding="utf-8")
    return file


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.paper", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="experiment", help=f"some of: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes; writes to a temporary folder")
    parser.add_argument("--methods", help=f"separated by ';'; default: {'; '.join(METHODS)}")
    parser.add_argument("--output", type=Path, help="folder of the page, its plots and raw results")
    parser.add_argument("--again", action="store_true", help="measure again what was measured before")
    parser.add_argument("--page", action="store_true", help="only write the page")
    for name, what in (("one_in", "1/p of the paths"), ("products", "sizes of BSBM"), ("groups", "of SUM")):
        parser.add_argument(f"--{name.replace('_', '-')}", help=f"{what}, separated by commas")
    parser.add_argument(
        "--rounds", type=int, default=3, help="measure each update at most so often; default 3"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for each update by a method; default 60")
    parser.add_argument("--minutes", type=float, default=inf, help="end after so long; a later run continues")
    options = parser.parse_args(given)
    names = options.names or list(EXPERIMENTS)
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"Unknown experiment {unknown[0]!r}. Available: {', '.join(EXPERIMENTS)}.")
    methods = [part.strip() for part in options.methods.split(";")] if options.methods else list(METHODS)
    wrong = [method for method in methods if method not in METHODS]
    if wrong:
        parser.error(f"Unknown method {wrong[0]!r}. Available: {'; '.join(METHODS)}.")
    all_sizes = QUICK if options.quick else FULL
    sizes = all_sizes
    for name in ("one_in", "products", "groups"):
        if chosen := vars(options)[name]:
            sizes = replace(sizes, **{name: tuple(map(int, chosen.split(",")))})
    folder = options.output or (Path(tempfile.mkdtemp(prefix="paper-")) if options.quick else OUTPUT)
    command = command_of("python -m bench.paper", sys.argv[1:] if given is None else given)
    kept = Kept(folder / "raw.jsonl", lambda: provenance(command, _PACKAGES))
    if not options.page:
        ends = time.perf_counter() + 60 * options.minutes
        Run(sizes, methods, options.rounds, options.seconds, ends).measure(names, kept, options.again)
    everything = Run(all_sizes, METHODS, options.rounds, options.seconds)
    print(f"Written: {write(everything, kept, folder)}")


if __name__ == "__main__":
    main()
