"""Progress output: bars and colours on a terminal, plain lines elsewhere.

Owns the wording of the lines; computes nothing, and reads no terms.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from sparqlive.engine.epoch import Epoch

_VIEWS_SHOWN = 6
_QUIET_SECONDS = 1.0
"""Work that is shorter than this shows nothing."""


@dataclass
class ProgressStep:
    """A running step; `result` is the text of its last line."""

    result: str = "done"

    def end_with(self, result: str) -> None:
        """Sets the text of the last line."""
        self.result = result


class _Stages(ProgressColumn):
    """What Spark is doing, if this process has one."""

    max_refresh = 1.0

    def render(self, task: Task) -> Text:
        if "pyspark" not in sys.modules:
            return Text()
        from sparqlive.bulk.backends.spark.stages import running_stages

        return Text(running_stages(), style="dim")


class Progress:
    """Writes to a stream, by default standard output."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._console = Console(file=self._stream, highlight=False)

    @classmethod
    def on_standard_error(cls) -> Progress:
        """Progress that leaves standard output to the command's result."""
        return cls(sys.stderr)

    @contextmanager
    def waiting(self, title: str) -> Iterator[None]:
        """Shows, only on a terminal and only after a second, that work is under way; leaves no line."""
        if not self.is_terminal:
            yield
            return
        bars = self._bars()
        bars.add_task(title, total=None)
        timer = threading.Timer(_QUIET_SECONDS, bars.start)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            bars.stop()

    def _bars(self) -> Bars:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), _Stages())
        return Bars(*columns, console=self._console, transient=True)

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    def line(self, text: str) -> None:
        """Prints one line."""
        if self.is_terminal:
            self._console.print(text, markup=False, soft_wrap=True)
        else:
            print(text, file=self._stream, flush=True)

    @contextmanager
    def step(self, title: str) -> Iterator[ProgressStep]:
        """Shows a step of unknown length: a moving bar while it runs, then a line with its result."""
        step = ProgressStep()
        start = time.perf_counter()
        if self.is_terminal:
            with self._bars() as bars:
                bars.add_task(title, total=None)
                yield step
        else:
            yield step
        self.line(f"{title}: {step.result}, {duration(time.perf_counter() - start)}")

    def epoch(self, epoch: Epoch, source: str, seconds: float) -> None:
        """Prints an epoch: its changes, the rows changed per view, the strategy, the time, and the reason."""
        changed, lasted, why = rows_changed(epoch), duration(seconds), reason(epoch)
        if not self.is_terminal:
            counts = f"+{epoch.inserted:,} −{epoch.deleted:,}"
            self.line(
                f"epoch {epoch.number}  {source}  {counts}  {changed}  {epoch.strategy}  {lasted}  {why}"
            )
            return
        line = Text.assemble(
            (f"epoch {epoch.number:<5} ", "bold"),
            f"{source}  ",
            (f"{f'+{epoch.inserted:,}':>7} ", "green" if epoch.inserted else "dim"),
            (f"{f'−{epoch.deleted:,}':>7}  ", "red" if epoch.deleted else "dim"),
            (f"{epoch.strategy:<7} {lasted:>9}  ", "dim"),
            f"{changed}  ",
            (why, "dim"),
        )
        self._console.print(line, soft_wrap=True)


def changed_views(epoch: Epoch) -> list[str]:
    """The names of the views that an epoch changed."""
    return list(epoch.deltas.changed())


def reason(epoch: Epoch) -> str:
    """Why the epoch was carried the way it was: for each strategy, its views and the reason of the first."""
    chosen: dict[str, list[str]] = {}
    for name, choice in epoch.choices.items():
        chosen.setdefault(choice.strategy, []).append(name)
    if not chosen:
        return "(small batch)"
    reasons = [f"{', '.join(names)}: {epoch.choices[names[0]].reason}" for names in chosen.values()]
    return f"({' '.join(reasons)})"


def rows_changed(epoch: Epoch) -> str:
    """The number of rows changed per view."""
    changed = {name: len(epoch.deltas[name]) for name in changed_views(epoch)}
    if not changed:
        return "no view changed"
    shown = [f"{name} {count:,}" for name, count in list(changed.items())[:_VIEWS_SHOWN]]
    more = len(changed) - len(shown)
    return ", ".join(shown) + (f" and {more} more views" if more else "")


def solution_count(count: int) -> str:
    return f"{count:,} solution{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds in a readable unit."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
