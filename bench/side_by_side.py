"""Tables of two sides and a peer: what each cell measured, what is wanted, and what is missed.

Invariant: a cell that was stopped has missed what is wanted of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.limited import Outcomes, Stopped
from bench.measure import Figure, Report
from bench.text import duration, markdown_table

Side = float | Stopped | None
"""Seconds or bytes; why there are none; or nothing that was asked for."""


@dataclass(frozen=True)
class Row:
    """A cell of a table."""

    name: str
    first: Side = None
    second: Side = None
    peer: Side = None
    wanted: tuple[float | None, float | None] = (None, None)
    """At most, on each side."""
    text: Callable[[float], str] = duration

    @property
    def is_judged(self) -> bool:
        return self.wanted != (None, None)

    def missed(self) -> list[bool]:
        return [
            most is not None and (isinstance(value, Stopped) or (value is not None and value > most))
            for value, most in zip((self.first, self.second), self.wanted, strict=True)
        ]

    def cells(self, sides: tuple[str, str]) -> list[str]:
        ratios = [self._ratio(value) for value in (self.first, self.second)]
        wanted = [f"≤ {self.text(most)}" for most in dict.fromkeys(self.wanted) if most is not None]
        missed = [side for side, is_missed in zip(sides, self.missed(), strict=True) if is_missed]
        return [
            self.name,
            *(self._shown(value) for value in (self.first, self.second, self.peer)),
            " / ".join(ratio or "–" for ratio in ratios) if any(ratios) else "",
            " / ".join(wanted),
            f"**missed {' and '.join(missed)}**" if missed else "",
        ]

    def _ratio(self, value: Side) -> str:
        if not isinstance(value, float) or not isinstance(self.peer, float) or not self.peer:
            return ""
        ratio = value / self.peer
        return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.2g}×"

    def _shown(self, value: Side) -> str:
        if isinstance(value, Stopped):
            return value.reason
        return "" if value is None else self.text(value)


@dataclass(frozen=True)
class Table:
    title: str
    rows: Sequence[Row]
    sides: tuple[str, str] = ("in memory", "in a store")

    def unjudged(self) -> Table:
        """What is wanted is wanted at full size."""
        return replace(self, rows=[replace(row, wanted=(None, None)) for row in self.rows])

    def lines(self) -> list[str]:
        head = ["", *self.sides, "pyoxigraph", "ratios", "wanted", ""]
        return markdown_table([head, *(row.cells(self.sides) for row in self.rows)])


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB"


def bytes_a_quad(value: float) -> str:
    return f"{value:,.1f} B"


class Sides:
    """What child processes measured, by the names of the sides; `cpu`: processor time counts."""

    def __init__(self, of: dict[str, Outcomes], cpu: bool) -> None:
        self._of = of
        self._clock = int(cpu)

    def seconds(self, side: str, cell: str, part: str | None = None) -> Side:
        value = self._value(side, cell)
        if value is None or isinstance(value, Stopped):
            return value
        return float((value if part is None else value[part])[self._clock])

    def number(self, side: str, cell: str, of: int = 1) -> Side:
        value = self._value(side, cell)
        return value if value is None or isinstance(value, Stopped) else float(value / of)

    def _value(self, side: str, cell: str) -> Any:
        """Nothing is measured after a load or an opening that was stopped."""
        values = self._of[side].values
        found = values.get(cell)
        if found is not None:
            return found
        stopped = [name for name in ("start", "load", "opening") if isinstance(values.get(name), Stopped)]
        return Stopped(f"not reached: {stopped[0]} {values[stopped[0]].reason}") if stopped else None


def summary(benchmark: str, tables: Sequence[Table]) -> Report:
    """For the page of all benchmarks: a line per table, and all cells in one table."""
    report = Report(details=[["data", "cell", *Table.sides, "pyoxigraph", "ratios", "wanted", ""]])
    for table in tables:
        judged = [row for row in table.rows if row.is_judged]
        missed = sum(any(row.missed()) for row in judged)
        reached = f"{len(judged) - missed} of {len(judged)} cells"
        name = f"{benchmark}, {table.title}"
        report.figures.append(Figure(name, reached, "", f"{missed} missed", "none missed", not missed))
        short = table.title.partition(":")[0]
        report.details += [[short, *row.cells(table.sides)] for row in table.rows]
        if table.sides != Table.sides:
            report.remarks.append(
                f"{benchmark}: of {short}, the two columns are {' and '.join(table.sides)}."
            )
    return report
