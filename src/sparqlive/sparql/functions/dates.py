"""Parts of dates and times (SPARQL 1.1 §17.4.5), and arithmetic with durations.

YEAR to TZ accept xsd:dateTime, and xsd:date and xsd:time for the parts that these have; other values are
errors. The arithmetic is an extension (§17.3.1) that follows XPath's operators. Invariants: two moments are
subtracted only if both or neither have a timezone; a result that is too long to be parsed again is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sparqlive.sparql.moments import (
    Duration,
    Moment,
    Seconds,
    add_duration,
    midnight,
    time_of_day,
    to_decimal,
    zone_form,
)
from sparqlive.sparql.values import (
    DATE,
    DATETIME,
    DAY_TIME_DURATION,
    DURATION,
    TIME,
    YEAR_MONTH_DURATION,
    ExpressionError,
    Kind,
    Value,
    day_time_duration,
    decimal,
    integer,
    string,
    value_of,
)


def _part(kinds: tuple[Kind, ...], part: Callable[[Moment], Value]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        if value.kind not in kinds:
            raise ExpressionError("Not a date or time with such a part")
        return part(value.value)

    return apply


def _timezone(moment: Moment) -> Value:
    if moment.offset is None:
        raise ExpressionError("No timezone")
    return day_time_duration(moment.offset * 60)


_WITH_DATE: Final = (DATETIME, DATE)
_WITH_TIME: Final = (DATETIME, TIME)
_ALL: Final = (DATETIME, DATE, TIME)

year: Final = _part(_WITH_DATE, lambda moment: integer(moment.date()[0]))
month: Final = _part(_WITH_DATE, lambda moment: integer(moment.date()[1]))
day: Final = _part(_WITH_DATE, lambda moment: integer(moment.date()[2]))
hours: Final = _part(_WITH_TIME, lambda moment: integer(moment.clock()[0]))
minutes: Final = _part(_WITH_TIME, lambda moment: integer(moment.clock()[1]))
seconds: Final = _part(_WITH_TIME, lambda moment: decimal(to_decimal(moment.clock()[2])))
timezone: Final = _part(_ALL, _timezone)
timezone_text: Final = _part(_ALL, lambda moment: string(zone_form(moment.offset)))


# Arithmetic

_SMALL: Final = 10**15  # seconds, or months: thirty million years at least


def _is_moment(kind: Kind) -> bool:
    return DATETIME <= kind <= TIME


def _is_duration(kind: Kind) -> bool:
    return DAY_TIME_DURATION <= kind <= DURATION


def add(left: Value, right: Value) -> Value:
    if _is_moment(left.kind) and _is_duration(right.kind):
        return _shift(left, right.value)
    if _is_duration(left.kind) and _is_moment(right.kind):
        return _shift(right, left.value)
    if _is_duration(left.kind) and _is_duration(right.kind):
        return _sum(left, right.kind, right.value)
    raise ExpressionError("Cannot be added")


def subtract(left: Value, right: Value) -> Value:
    if left.kind == right.kind and _is_moment(left.kind):
        return _difference(left.value, right.value)
    if _is_moment(left.kind) and _is_duration(right.kind):
        return _shift(left, _negative(right.value))
    if _is_duration(left.kind) and _is_duration(right.kind):
        return _sum(left, right.kind, _negative(right.value))
    raise ExpressionError("Cannot be subtracted")


def negate(value: Value) -> Value:
    if not _is_duration(value.kind):
        raise ExpressionError("Not a number or a duration")
    return Value(value.kind, _negative(value.value))


def _negative(duration: Duration) -> Duration:
    return Duration(-duration.months, -duration.seconds)


def _shift(value: Value, duration: Duration) -> Value:
    if value.kind == TIME and duration.months:
        raise ExpressionError("A time has no months")
    moment = add_duration(value.value, duration)
    if value.kind == DATE:
        return _readable(Value(DATE, midnight(moment)), moment.local)
    return _readable(Value(value.kind, time_of_day(moment) if value.kind == TIME else moment), moment.local)


def _difference(left: Moment, right: Moment) -> Value:
    if (left.offset is None) != (right.offset is None):
        raise ExpressionError("The difference depends on a timezone")
    seconds = left.instant - right.instant
    return _readable(day_time_duration(seconds), seconds)


def _sum(left: Value, other_kind: Kind, other: Duration) -> Value:
    total = Duration(left.value.months + other.months, left.value.seconds + other.seconds)
    if left.kind == other_kind and left.kind in (DAY_TIME_DURATION, YEAR_MONTH_DURATION):
        return _readable(Value(left.kind, total), *total)
    if total.months * total.seconds < 0:
        raise ExpressionError("Months and seconds of opposite signs are no duration")
    return _readable(Value(DURATION, total), *total)


def _readable(value: Value, *parts: Seconds) -> Value:
    """Returns the value with the given months or seconds; raises an error if its written form is too long."""
    if all(isinstance(part, int) and -_SMALL < part < _SMALL for part in parts):
        return value
    if value_of(value.term).kind is not value.kind:
        raise ExpressionError("A date or duration that is too long")
    return value
