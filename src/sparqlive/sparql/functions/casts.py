"""Casts: the XSD constructor functions (SPARQL 1.1 §17.5, XPath F&O §17).

Defines which kinds can be cast to which. The pairs that the table marks N are errors, and so are strings
outside the target's lexical space after trimming white space (F&O §17.1.1). Invariant: the result has the
canonical lexical form of its type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from sparqlive.sparql import moments
from sparqlive.sparql.moments import Duration
from sparqlive.sparql.values import (
    BLANK,
    BOOLEAN,
    DATE,
    DATETIME,
    DAY_TIME_DURATION,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    INTEGER,
    STRING,
    TIME,
    XSD,
    YEAR_MONTH_DURATION,
    ExpressionError,
    Kind,
    Value,
    boolean,
    cast_form,
    decimal,
    integer,
    lexical_form,
    read_decimal,
    read_double,
    read_float,
    read_integer,
    string,
    to_double,
    to_single,
)

_WHITE_SPACE: Final = " \t\n\r"
_BOOLEAN_FORMS: Final = {"true": True, "1": True, "false": False, "0": False}


def _from_string(value: Value, read: Callable[[str], Any]) -> Any:
    if value.kind != STRING:
        raise ExpressionError("No such cast")
    result = read(value.value.strip(_WHITE_SPACE))
    if result is None:
        raise ExpressionError("A string outside the lexical space of the type")
    return result


def to_boolean(value: Value) -> Value:
    if value.kind == BOOLEAN:
        return boolean(value.value)
    if value.kind <= DOUBLE:
        return boolean(value.value == value.value and value.value != 0)
    return boolean(_from_string(value, _BOOLEAN_FORMS.get))


def to_integer(value: Value) -> Value:
    if value.kind <= DOUBLE:
        if value.kind >= FLOAT and not math.isfinite(value.value):
            raise ExpressionError("Not a finite number")
        return integer(int(value.value))
    return integer(int(value.value) if value.kind == BOOLEAN else _from_string(value, read_integer))


def to_decimal(value: Value) -> Value:
    """A float or double becomes the shortest decimal that rounds to it."""
    if value.kind <= DECIMAL or value.kind == BOOLEAN:
        return decimal(Decimal(value.value))
    if value.kind <= DOUBLE:
        if not math.isfinite(value.value):
            raise ExpressionError("Not a finite number")
        return Value(DECIMAL, Decimal(repr(value.value)))
    return Value(DECIMAL, _from_string(value, read_decimal))


def to_double_value(value: Value) -> Value:
    if value.kind <= DOUBLE or value.kind == BOOLEAN:
        return Value(DOUBLE, to_double(value.value))
    return Value(DOUBLE, _from_string(value, read_double))


def to_float_value(value: Value) -> Value:
    if value.kind <= DOUBLE or value.kind == BOOLEAN:
        return Value(FLOAT, to_single(to_double(value.value)))
    return Value(FLOAT, _from_string(value, read_float))


def to_string(value: Value) -> Value:
    """Writes numbers, booleans, dates and durations in the form of F&O §17.1.2, and other values as STR does.

    The form depends only on the value: a dateTime keeps its timezone, but loses trailing zeros of its
    seconds.
    """
    kind = value.kind
    if kind is BLANK:
        raise ExpressionError("A blank node has no text")
    if kind is FLOAT or kind is DOUBLE:
        return string(cast_form(kind, value.value))
    if kind <= DECIMAL or BOOLEAN <= kind <= DURATION:
        return string(lexical_form(kind, value.value))
    return string(value.lexical)


def to_date_time(value: Value) -> Value:
    if value.kind in (DATETIME, DATE):
        return Value(DATETIME, value.value)
    return Value(DATETIME, _from_string(value, moments.parse_date_time))


def to_date(value: Value) -> Value:
    if value.kind in (DATETIME, DATE):
        return Value(DATE, moments.midnight(value.value))
    return Value(DATE, _from_string(value, moments.parse_date))


def to_time(value: Value) -> Value:
    if value.kind in (DATETIME, TIME):
        return Value(TIME, moments.time_of_day(value.value))
    return Value(TIME, _from_string(value, moments.parse_time))


def _duration_cast(
    kind: Kind, keep: Callable[[Duration], Duration], read: Callable[[str], Duration | None]
) -> Callable[[Value], Value]:
    def cast(value: Value) -> Value:
        if DAY_TIME_DURATION <= value.kind <= DURATION:
            return Value(kind, keep(value.value))
        return Value(kind, _from_string(value, read))

    return cast


CASTS: Final[dict[str, Callable[[Value], Value]]] = {
    XSD + "boolean": to_boolean,
    XSD + "integer": to_integer,
    XSD + "decimal": to_decimal,
    XSD + "float": to_float_value,
    XSD + "double": to_double_value,
    XSD + "string": to_string,
    XSD + "dateTime": to_date_time,
    XSD + "date": to_date,
    XSD + "time": to_time,
    XSD + "duration": _duration_cast(DURATION, lambda whole: whole, moments.parse_duration),
    XSD + "dayTimeDuration": _duration_cast(
        DAY_TIME_DURATION, lambda whole: Duration(0, whole.seconds), moments.parse_day_time_duration
    ),
    XSD + "yearMonthDuration": _duration_cast(
        YEAR_MONTH_DURATION, lambda whole: Duration(whole.months, 0), moments.parse_year_month_duration
    ),
}

assert INTEGER < DECIMAL < FLOAT < DOUBLE, "the casts rely on the order of the kinds"
