"""Shared code of the benchmarks: clocks, figures, and the table that shows them.

Owns the form of a result. Invariant: a figure shows what was measured, whether or not it reaches its target.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyoxigraph

from bench.text import duration, markdown_table, number

Sizes = Mapping[str, int]
AllSizes = Mapping[str, tuple[int, int]]
"""For each option of a benchmark: its value in a full run and in a quick one."""
PATHWAY_VARIABLE = "SPARQLIVE_PATHWAY"
"""The environment variable with the interpreter that has pathway."""


@dataclass(frozen=True)
class Figure:
    """A line of the table. `reached` None: nothing was asked for, the line is there to be compared with."""

    benchmark: str
    ours: str
    peer: str
    measured: str
    wanted: str = ""
    reached: bool | None = None


@dataclass
class Report:
    """The result of one benchmark: figures, and remarks below the table."""

    figures: list[Figure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    details: list[list[str]] = field(default_factory=list)
    """A table of its own, its head first; empty where the figures say it all."""

    def ratio_at_least(self, benchmark: str, ours: float, peer: float, wanted: float | None = None) -> None:
        """How many times longer the peer takes."""
        ratio = peer / ours
        self.figures.append(
            Figure(
                benchmark,
                duration(ours),
                duration(peer),
                f"{number(ratio)}×",
                "" if wanted is None else f"≥ {number(wanted)}×",
                None if wanted is None else ratio >= wanted,
            )
        )

    def ratio_at_most(self, benchmark: str, ours: float, peer: float, ratio: float, wanted: float) -> None:
        """How many times as long ours takes."""
        self.figures.append(
            Figure(
                benchmark,
                duration(ours),
                duration(peer),
                f"{number(ratio)}×",
                f"≤ {number(wanted)}×",
                ratio <= wanted,
            )
        )

    def rate_at_least(self, benchmark: str, ours: float, peer: float | None, wanted: float) -> None:
        """How many times as much ours does in a second; without a peer, only what ours does."""
        if peer is None:
            self.note(benchmark, f"{number(ours)}/s")
            return
        rates, ratio = (f"{number(ours)}/s", f"{number(peer)}/s"), ours / peer
        self.figures.append(
            Figure(benchmark, *rates, f"{number(ratio)}×", f"≥ {number(wanted)}×", ratio >= wanted)
        )

    def at_most(self, benchmark: str, value: float, limit: float, text: Callable[[float], str]) -> None:
        """A figure without a peer."""
        self.figures.append(
            Figure(benchmark, text(value), "", text(value), f"≤ {text(limit)}", value <= limit)
        )

    def note(self, benchmark: str, ours: str, peer: str = "", measured: str = "") -> None:
        """A figure that nothing was asked of."""
        self.figures.append(Figure(benchmark, ours, peer, measured))


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = action()
    return result, time.perf_counter() - start


Time = tuple[float, float]
"""Seconds by the clock, and of the processor, with processes that were started and have ended."""
_PATIENT_SECONDS = 1.0
"""A query that takes longer is repeated once, not as often as the others."""


def clocked(action: Callable[[], Any]) -> tuple[Any, Time]:
    wall, cpu = time.perf_counter(), _processor_seconds()
    result = action()
    return result, (time.perf_counter() - wall, _processor_seconds() - cpu)


def _processor_seconds() -> float:
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


def medians(times: Sequence[Time]) -> Time:
    return middle([one[0] for one in times]), middle([one[1] for one in times])


def asked(action: Callable[[], Any], rounds: int) -> tuple[Any, dict[str, Time]]:
    """The answer, and how long it takes the first time and when it is asked again."""
    answer, first = clocked(action)
    again = [clocked(action)[1] for _ in range(rounds if first[0] < _PATIENT_SECONDS else 1)]
    return answer, {"first": first, "warm": medians(again)}


def watched(action: Callable[[], Any]) -> tuple[Any, float, int]:
    """The result, the seconds, and the most memory of this process and its children at one time."""
    most = [0]
    done = threading.Event()
    process = psutil.Process()

    def watch() -> None:
        while not done.wait(0.1):
            family = [process, *process.children(recursive=True)]
            most[0] = max(most[0], sum(map(_resident, family)))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        result, seconds = timed(action)
        return result, seconds, most[0]
    finally:
        done.set()
        watcher.join()


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def anonymous_bytes(process: int | str = "self") -> int:
    """Memory of a process that no file backs: mapped files do not count."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    return int(found[1]) * 1024 if found else 0


def percentile(samples: Sequence[float], percent: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def middle(samples: Iterable[float]) -> float:
    return median(samples)


def span(samples: Sequence[float]) -> str:
    """How far apart the rounds of a slow measurement are: a busy machine shows here."""
    return f"{duration(min(samples))} to {duration(max(samples))} in {len(samples)} rounds"


def same(what: str, ours: object, peer: object) -> None:
    """A benchmark of wrong results is worth nothing: it stops."""
    if ours != peer:
        shown = [repr(value) if len(repr(value)) < 200 else f"{repr(value)[:200]}…" for value in (ours, peer)]
        raise SystemExit(f"{what}: the results differ. Ours: {shown[0]} Expected: {shown[1]}")


def solutions(store: pyoxigraph.Store, query: str) -> int:
    """Evaluates a query with the peer, to its last solution."""
    count = 0
    for _ in store.query(query):
        count += 1
    return count


def bag(store: pyoxigraph.Store, query: str, variables: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """The peer's solutions in the form of a view's weights."""
    return Counter(tuple(solution[name] for name in variables) for solution in store.query(query))


# The table


def environment() -> str:
    return (
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"pyoxigraph {pyoxigraph.__version__}, {platform.system()} {platform.machine()}"
    )


def figures_table(figures: Iterable[Figure]) -> list[str]:
    answers = {True: "yes", False: "no", None: ""}
    return markdown_table(
        [
            ("benchmark", "ours", "peer", "measured", "wanted", "reached"),
            *((f.benchmark, f.ours, f.peer, f.measured, f.wanted, answers[f.reached]) for f in figures),
        ]
    )


def shown(report: Report) -> str:
    parts = [figures_table(report.figures)]
    if report.details:
        parts.append(markdown_table(report.details))
    if report.remarks:
        parts.append([f"- {remark}" for remark in report.remarks])
    return "\n\n".join("\n".join(part) for part in parts)


# Running


def sizes_of(sizes: AllSizes, quick: bool) -> dict[str, int]:
    return {name: values[1 if quick else 0] for name, values in sizes.items()}


def unjudged(report: Report) -> Report:
    """What is wanted is wanted at full size: at any other, figures are only shown."""
    report.figures = [replace(figure, wanted="", reached=None) for figure in report.figures]
    return report


def add_pathway_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pathway", metavar="PYTHON", help="an interpreter that has pathway, for throughput")


def set_pathway(interpreter: str | None) -> None:
    """Tells this process, and those that it starts, where pathway is."""
    if interpreter is not None:
        os.environ[PATHWAY_VARIABLE] = interpreter


def run_alone(
    description: str | None, sizes: AllSizes, run: Callable[[Sizes], Report], *, pathway: bool = False
) -> None:
    """The main function of one benchmark: every size is an option; `pathway`: and the peer's interpreter."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    for name, (full, quick) in sizes.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, help=f"default {full:,}, quick {quick:,}"
        )
    if pathway:
        add_pathway_option(parser)
    options = vars(parser.parse_args())
    set_pathway(options.get("pathway"))
    chosen = sizes_of(sizes, options["quick"])
    chosen |= {name: options[name] for name in sizes if options[name] is not None}
    report = run(chosen)
    print(shown(report if chosen == sizes_of(sizes, quick=False) else unjudged(report)))
    print(f"\n{environment()}; {chosen}")
