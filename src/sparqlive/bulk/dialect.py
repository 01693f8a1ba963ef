"""What differs between the SQL of two backends: lists, structs, and rows that are made of them.

Everything else is written once, in what both understand. Numbers carry their type, because a bare `1` is of
32 bits in one place and of 64 in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


def number(value: int) -> str:
    """A number of 64 bits."""
    return f"CAST({value} AS BIGINT)"


ZERO, ONE = number(0), number(1)


def total(name: str) -> str:
    """The sum of a column, under its own name."""
    return f"CAST(sum({name}) AS BIGINT) AS {name}"


class Dialect(Protocol):
    def text(self, value: str) -> str:
        """A constant text."""

    def explode(self, values: Sequence[str]) -> str:
        """One row per value."""

    def explode_range(self, start: str, end: str) -> str:
        """One row per number from start to end."""

    def stack(self, rows: Sequence[Sequence[str]], names: Sequence[str], kept: Sequence[str]) -> str:
        """One row per list of cells, under these names, beside the columns that are kept."""

    def collect(self, fields: Sequence[str]) -> str:
        """The list of a group's rows as structs; a field is `expression AS name` or a column."""

    def inline(self, name: str, fields: Sequence[str]) -> str:
        """One row per struct of a list, its fields as columns."""


class SparkSql:
    def text(self, value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    def explode(self, values: Sequence[str]) -> str:
        return f"explode(array({', '.join(values)}))"

    def explode_range(self, start: str, end: str) -> str:
        return f"explode(sequence({start}, {end}))"

    def stack(self, rows: Sequence[Sequence[str]], names: Sequence[str], kept: Sequence[str]) -> str:
        cells = ", ".join(cell for row in rows for cell in row)
        return ", ".join([*kept, f"stack({len(rows)}, {cells}) AS ({', '.join(names)})"])

    def collect(self, fields: Sequence[str]) -> str:
        return f"collect_list(struct({', '.join(fields)}))"

    def inline(self, name: str, fields: Sequence[str]) -> str:
        return f"inline({name})"


class DuckDbSql:
    def text(self, value: str) -> str:
        escaped = value.replace("'", "''")
        return f"'{escaped}'"

    def explode(self, values: Sequence[str]) -> str:
        return f"unnest([{', '.join(values)}])"

    def explode_range(self, start: str, end: str) -> str:
        return f"unnest(generate_series({start}, {end}))"

    def stack(self, rows: Sequence[Sequence[str]], names: Sequence[str], kept: Sequence[str]) -> str:
        structs = ", ".join(
            _struct([f"{cell} AS {name}" for cell, name in zip(row, names, strict=True)]) for row in rows
        )
        return ", ".join([*kept, f"unnest([{structs}], recursive := true)"])

    def collect(self, fields: Sequence[str]) -> str:
        return f"coalesce(list({_struct(fields)}), [])"  # over no rows a list would be NULL

    def inline(self, name: str, fields: Sequence[str]) -> str:
        return f"unnest({name}, recursive := true)"


def _struct(fields: Sequence[str]) -> str:
    named = [(field.rpartition(" AS ")[0] or field, field.rpartition(" AS ")[2]) for field in fields]
    return f"{{{', '.join(f'{name!r}: {value}' for value, name in named)}}}"
