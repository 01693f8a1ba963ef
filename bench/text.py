"""How figures are written: numbers, durations, tables. Needs only the standard library."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{number(value * factor)} {unit}"
    return f"{number(value * 1e6)} µs"


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in body),
    ]
