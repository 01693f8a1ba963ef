"""The differences between the SQL of the backends: lists, structs, and rows made from them.

Everything else is written once, in SQL that both backends understand. Numbers carry their type, because a
bare `1` has 32 bits in one place and 64 in another.
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

    def collect(self, fields: Sequence[str], condition: str = "true") -> str:
        """The list of a group's rows as structs; a field is `expression AS name` or a column."""

    def is_empty(self, name: str) -> str:
        """Whether a list is empty."""

    def struct(self, fields: Sequence[str]) -> str:
        """A struct, which compares field by field; fields as in `collect`."""

    def product(self, number: str, weight: str) -> str:
        """The product of a number of 64 bits and a weight, wide enough for any sum of such products."""

    def arithmetic_or_null(self, sign: str, left: str, right: str) -> str:
        """`+`, `-` or `*` of two numbers of 64 bits; NULL if the result has more."""

    def starts_with(self, text: str, start: str) -> str:
        """Whether a text starts with another."""

    def ends_with(self, text: str, end: str) -> str:
        """Whether a text ends with another."""

    def inline(self, name: str, fields: Sequence[str]) -> str:
        """One row per struct of a list, its fields as columns."""


_TRY_FUNCTIONS = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


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

    def collect(self, fields: Sequence[str], condition: str = "true") -> str:
        return f"collect_list({self.struct(fields)}) FILTER (WHERE {condition})"

    def is_empty(self, name: str) -> str:
        return f"size({name}) = 0"

    def struct(self, fields: Sequence[str]) -> str:
        return f"struct({', '.join(fields)})"

    def product(self, number: str, weight: str) -> str:
        return f"(CAST({number} AS DECIMAL(19, 0)) * CAST({weight} AS DECIMAL(18, 0)))"

    def arithmetic_or_null(self, sign: str, left: str, right: str) -> str:
        return f"{_TRY_FUNCTIONS[sign]}({left}, {right})"

    def starts_with(self, text: str, start: str) -> str:
        return f"startswith({text}, {start})"

    def ends_with(self, text: str, end: str) -> str:
        return f"endswith({text}, {end})"

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

    def collect(self, fields: Sequence[str], condition: str = "true") -> str:
        listed = f"list({_struct(fields)}) FILTER (WHERE {condition})"
        return f"coalesce({listed}, [])"  # over no rows a list would be NULL

    def is_empty(self, name: str) -> str:
        return f"len({name}) = 0"

    def struct(self, fields: Sequence[str]) -> str:
        return _struct(fields)

    def product(self, number: str, weight: str) -> str:
        return f"(CAST({number} AS HUGEINT) * {weight})"

    def arithmetic_or_null(self, sign: str, left: str, right: str) -> str:
        return f"TRY({left} {sign} {right})"

    def starts_with(self, text: str, start: str) -> str:
        return f"starts_with({text}, {start})"

    def ends_with(self, text: str, end: str) -> str:
        return f"ends_with({text}, {end})"

    def inline(self, name: str, fields: Sequence[str]) -> str:
        return f"unnest({name}, recursive := true)"


def _struct(fields: Sequence[str]) -> str:
    named = [(field.rpartition(" AS ")[0] or field, field.rpartition(" AS ")[2]) for field in fields]
    return f"{{{', '.join(f'{name!r}: {value}' for value, name in named)}}}"
