"""Writes parts of dates and times in SQL, from instant and timezone, with the calendar of `sparql.moments`.

An instant that does not fit in 64-bit microseconds is a doubt.
"""

from __future__ import annotations

from sparqlive.bulk.arithmetic import decimal_operand, integer_operand
from sparqlive.bulk.dialect import number
from sparqlive.bulk.operand import Operand, Writing, string_operand
from sparqlive.sparql.values import DATE, DATETIME, TIME

_DAY = number(86_400 * 10**6)
_CYCLE = number(146_097)
"""Number of days in 400 years."""
_CYCLES = 1_000
"""Number of 400-year cycles to add, so that no number of days is negative."""
_DATES, _CLOCKS, _ALL = (DATETIME, DATE), (DATETIME, TIME), (DATETIME, DATE, TIME)

PARTS = ("YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "TZ")


def part(name: str, operand: Operand, writing: Writing) -> Operand:
    """Writes one of `PARTS`; an error if the term has no such part."""
    kinds = _DATES if name in ("YEAR", "MONTH", "DAY") else _CLOCKS if name != "TZ" else _ALL
    has_part = f"{operand.kind} IN ({', '.join(f'{kind:d}' for kind in kinds)})"
    if name == "TZ":
        return _timezone(has_part, operand, writing)
    instant = operand.cell("instant")
    writing.doubts.append(f"{has_part} AND {instant} IS NULL")
    zone = f"coalesce({operand.cell('zone')}, 0) * {number(60 * 10**6)}"
    local = writing.step(f"CASE WHEN {has_part} THEN {instant} + {zone} END")
    time = writing.step(f"(({local} % {_DAY}) + {_DAY}) % {_DAY}")
    if name in ("YEAR", "MONTH", "DAY"):
        return integer_operand(_date_part(name, f"({local} - {time})", writing), writing)
    quotient = writing.dialect.quotient
    if name == "HOURS":
        return integer_operand(quotient(time, number(3600 * 10**6)), writing)
    if name == "MINUTES":
        return integer_operand(f"({quotient(time, number(60 * 10**6))} % 60)", writing)
    micro = number(10**6)
    seconds = f"({quotient(time, micro)} % 60)", f"({time} % {micro}) * {number(10**12)}"
    return decimal_operand(seconds, writing)


def _date_part(name: str, midnight: str, writing: Writing) -> str:
    """Counts the days of a year that starts in March, as `sparql.moments` does."""
    step, quotient = writing.step, writing.dialect.quotient
    days = step(f"{quotient(midnight, _DAY)} + {number(719_468)} + {_CYCLE} * {_CYCLES}")
    rest = step(f"{days} % {_CYCLE}")
    leaps = f"{rest} - {quotient(rest, number(1_460))} + {quotient(rest, number(36_524))}"
    year = step(quotient(f"({leaps} - {quotient(rest, number(146_096))})", number(365)))
    start = f"{year} * 365 + {quotient(year, number(4))} - {quotient(year, number(100))}"
    day_of_year = step(f"{rest} - ({start})")
    march_month = step(quotient(f"(5 * {day_of_year} + 2)", number(153)))
    month = f"if({march_month} < 10, {march_month} + 3, {march_month} - 9)"
    if name == "MONTH":
        return month
    if name == "DAY":
        return f"{day_of_year} - {quotient(f'(153 * {march_month} + 2)', number(5))} + 1"
    cycles = f"({quotient(days, _CYCLE)} - {_CYCLES}) * 400"
    return f"{year} + {cycles} + if({march_month} < 10, 0, 1)"


def _timezone(has_part: str, operand: Operand, writing: Writing) -> Operand:
    zone, quotient = operand.cell("zone"), writing.dialect.quotient
    size = f"CAST(abs({zone}) AS BIGINT)"
    hours, minutes = quotient(size, number(60)), f"({size} % 60)"
    digits = (f"lpad(CAST({value} AS STRING), 2, '0')" for value in (hours, minutes))
    form = f"if({zone} < 0, '-', '+') || {' || '.join([next(digits), repr(':'), next(digits)])}"
    text = f"CASE WHEN {zone} IS NULL THEN '' WHEN {zone} = 0 THEN 'Z' ELSE {form} END"
    return string_operand(writing.step(f"CASE WHEN {has_part} THEN {text} END"), None, writing)
