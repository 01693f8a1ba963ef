"""Defines the differences between the SQL of the backends: lists, structs, and rows made from them.

Everything else is written once, in SQL that both backends understand. Numbers carry their type, because a
bare `1` has 32 bits on one backend and 64 on the other. Invariant: texts from outside (terms, parts of them,
patterns, paths) enter SQL only through `Dialect.text`, which a backend reads back character by character,
whatever the settings of its session are; names from outside never enter SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


def number(value: int) -> str:
    """Writes a number of 64 bits."""
    return f"CAST({value} AS BIGINT)"


ZERO, ONE = number(0), number(1)


def total(name: str) -> str:
    """Sums a column under its own name."""
    return f"CAST(sum({name}) AS BIGINT) AS {name}"


class Dialect(Protocol):
    def text(self, value: str) -> str:
        """Writes a constant text. Texts from outside enter SQL only here."""

    def explode(self, values: Sequence[str]) -> str:
        """Writes one row per value."""

    def explode_range(self, start: str, end: str) -> str:
        """Writes one row per number from start to end."""

    def stack(self, rows: Sequence[Sequence[str]], names: Sequence[str], kept: Sequence[str]) -> str:
        """Writes one row per list of cells, under these names, beside the kept columns.

        Readers of the cells do not see their expressions: Spark's optimizer would repeat each expression
        wherever the cell is used.
        """

    def collect(self, fields: Sequence[str], condition: str = "true") -> str:
        """Collects a group's rows as a list of structs; a field is `expression AS name` or a column."""

    def is_empty(self, name: str) -> str:
        """Tests whether a list is empty."""

    def struct(self, fields: Sequence[str]) -> str:
        """Writes a struct, which compares field by field; fields as in `collect`."""

    def product(self, number: str, weight: str) -> str:
        """Multiplies a 64-bit number by a weight, wide enough for any sum of such products."""

    def halves(self, total: str, unit: int) -> tuple[str, str]:
        """Splits a sum of such products into two 64-bit numbers: units, rounded toward zero, and the rest."""

    def arithmetic_or_null(self, sign: str, left: str, right: str) -> str:
        """Writes `+`, `-` or `*` of two 64-bit numbers; NULL on overflow."""

    def quotient(self, dividend: str, divisor: str) -> str:
        """Writes the integral part of a quotient of two positive 64-bit numbers; the divisor is not zero."""

    def divided(self, dividend: str, divisor: str) -> str:
        """Divides two doubles (IEEE 754)."""

    def is_written(self, double: str) -> str:
        """Tests whether `written` gives the shortest text that reads back as the same double."""

    def written(self, double: str) -> str:
        """Writes a double without an exponent; INF and NaN as in XML Schema."""

    def matches(self, text: str, pattern: str) -> str:
        """Tests whether a regular expression matches anywhere in a text."""

    def bytes_of(self, text: str) -> str:
        """Counts the bytes of a text in UTF-8."""

    def starts_with(self, text: str, start: str) -> str:
        """Tests whether a text starts with another."""

    def ends_with(self, text: str, end: str) -> str:
        """Tests whether a text ends with another."""

    def inline(self, name: str) -> str:
        """Writes one row per struct of a list, with its fields as columns."""


_TRY_FUNCTIONS = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


class SparkSql:
    def text(self, value: str) -> str:
        """Writes the bytes as digits. Before Spark parses a query, it replaces `${env:…}` and the like, even
        inside quotes; and a setting of the session decides what a backslash means.
        """
        return f"CAST(X'{value.encode().hex()}' AS STRING)"

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

    def halves(self, total: str, unit: int) -> tuple[str, str]:
        high = f"({total} DIV {unit})"
        return high, f"CAST({total} - {self.product(high, str(unit))} AS BIGINT)"

    def arithmetic_or_null(self, sign: str, left: str, right: str) -> str:
        return f"{_TRY_FUNCTIONS[sign]}({left}, {right})"

    def quotient(self, dividend: str, divisor: str) -> str:
        return f"({dividend} DIV {divisor})"

    def divided(self, dividend: str, divisor: str) -> str:
        infinity = f"CAST(if(CAST({divisor} AS STRING) LIKE '-%', '-Infinity', 'Infinity') AS DOUBLE)"
        return f"if({divisor} = 0, {dividend} * {infinity}, try_divide({dividend}, {divisor}))"

    def is_written(self, double: str) -> str:
        # Before Java 19, there may be one digit too many. Up to 15 digits, no other number is as short.
        digits = f"length(regexp_replace(CAST({double} AS STRING), 'E.*|[-.]', ''))"
        is_plain = f"abs({double}) >= 0.001 AND abs({double}) < 1e15 AND {digits} <= 15"
        return f"{_is_special(double)} OR ({is_plain})"

    def written(self, double: str) -> str:
        digits = f"CAST(try_cast({double} AS DECIMAL(38, 18)) AS STRING)"
        return _written(double, f"regexp_replace({digits}, '[.]?0+$', '')")

    def matches(self, text: str, pattern: str) -> str:
        return f"({text} RLIKE {self.text(pattern)})"

    def bytes_of(self, text: str) -> str:
        return f"octet_length({text})"

    def starts_with(self, text: str, start: str) -> str:
        return f"startswith({text}, {start})"

    def ends_with(self, text: str, end: str) -> str:
        return f"endswith({text}, {end})"

    def inline(self, name: str) -> str:
        return f"inline({name})"


class DuckDbSql:
    def text(self, value: str) -> str:
        """Puts the text in quotes, where DuckDB interprets only a doubled quote."""
        escaped = value.replace("'", "''")
        return f"'{escaped}'"

    def explode(self, values: Sequence[str]) -> str:
        return f"unnest([{', '.join(values)}])"

    def explode_range(self, start: str, end: str) -> str:
        return f"unnest(generate_series({start}, {end}))"

    def stack(self, rows: Sequence[Sequence[str]], names: Sequence[str], kept: Sequence[str]) -> str:
        if len(rows) == 1:
            return ", ".join(
                [*kept, *(f"{cell} AS {name}" for cell, name in zip(rows[0], names, strict=True))]
            )
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

    def halves(self, total: str, unit: int) -> tuple[str, str]:
        exact = f"CAST({total} AS HUGEINT)"  # a sum from this process is a decimal, divided as a double
        high = f"({exact} // {unit})"
        return f"CAST({high} AS BIGINT)", f"CAST({exact} - {high} * {unit} AS BIGINT)"

    def arithmetic_or_null(self, sign: str, left: str, right: str) -> str:
        return f"TRY({left} {sign} {right})"

    def quotient(self, dividend: str, divisor: str) -> str:
        return f"({dividend} // {divisor})"

    def divided(self, dividend: str, divisor: str) -> str:
        return f"({dividend} / {divisor})"

    def is_written(self, double: str) -> str:
        return f"{_is_special(double)} OR (abs({double}) >= 0.0001 AND abs({double}) < 1e16)"

    def written(self, double: str) -> str:
        return _written(double, f"regexp_replace(CAST({double} AS STRING), '[.]0$', '')")

    def matches(self, text: str, pattern: str) -> str:
        return f"regexp_matches({text}, {self.text(pattern)})"

    def bytes_of(self, text: str) -> str:
        return f"strlen({text})"

    def starts_with(self, text: str, start: str) -> str:
        return f"starts_with({text}, {start})"

    def ends_with(self, text: str, end: str) -> str:
        return f"ends_with({text}, {end})"

    def inline(self, name: str) -> str:
        return f"unnest({name}, recursive := true)"


def _is_special(double: str) -> str:
    return f"isnan({double}) OR abs({double}) = {_INFINITY} OR {double} = 0"


def _written(double: str, finite: str) -> str:
    zero = f"if(CAST({double} AS STRING) LIKE '-%', '-0', '0')"
    return (
        f"CASE WHEN isnan({double}) THEN 'NaN' WHEN {double} = {_INFINITY} THEN 'INF' "
        f"WHEN {double} = -{_INFINITY} THEN '-INF' WHEN {double} = 0 THEN {zero} ELSE {finite} END"
    )


_INFINITY = "CAST('Infinity' AS DOUBLE)"


def _struct(fields: Sequence[str]) -> str:
    named = [(field.rpartition(" AS ")[0] or field, field.rpartition(" AS ")[2]) for field in fields]
    return f"{{{', '.join(f'{name!r}: {value}' for value, name in named)}}}"
