"""Exact dates, times and durations of XML Schema, with years of up to 17 digits.

Parses and writes xsd:dateTime, xsd:date, xsd:time and the durations, and defines their orders. Parsing
returns None for invalid lexical forms, including those with surrounding white space, and for texts of more
than `MAXIMUM_LENGTH` characters, which would be expensive. Invariant: seconds are an int or a Fraction, never
a float, so they are exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

Seconds: TypeAlias = int | Fraction

DAY: Final = 86_400
MAXIMUM_LENGTH: Final = 200
_WIDEST_ZONE: Final = 14 * 3600
_CALENDAR_CYCLE_DAYS: Final = 146_097  # 400 Gregorian years

_DATE = r"(-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-([0-9]{2})-([0-9]{2})"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)"
_ZONE = r"(Z|[+-][0-9]{2}:[0-9]{2})?"
_DATE_TIME_FORM = re.compile(_DATE + "T" + _TIME + _ZONE)
_DATE_FORM = re.compile(_DATE + _ZONE)
_TIME_FORM = re.compile(_TIME + _ZONE)
_DURATION_FORM = re.compile(
    r"(-)?P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point on the local timeline.

    Seconds since 1970-01-01T00:00:00 on a clock that is `offset` minutes ahead of UTC; None if there is no
    timezone.
    """

    local: Seconds
    offset: int | None

    @property
    def instant(self) -> Seconds:
        """Seconds on the UTC timeline. A missing timezone counts as UTC."""
        return self.local if self.offset is None else self.local - self.offset * 60

    def date(self) -> tuple[int, int, int]:
        return _civil(self.local // DAY)

    def clock(self) -> tuple[int, int, Seconds]:
        seconds = self.local % DAY
        minutes = seconds // 60
        return minutes // 60, minutes % 60, seconds - minutes * 60


class Duration(NamedTuple):
    """Months and seconds, which XML Schema keeps separate. Both have the same sign."""

    months: int
    seconds: Seconds


def days(year: int, month: int, day: int) -> int:
    """Returns the days since 1970-01-01 in the proleptic Gregorian calendar, for any year."""
    shifted = year - (month <= 2)  # a year that starts in March has its leap day at the end
    cycle, year_of_cycle = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_cycle = year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + day_of_year
    return cycle * _CALENDAR_CYCLE_DAYS + day_of_cycle - 719_468


def _civil(day_number: int) -> tuple[int, int, int]:
    """The inverse of `days`."""
    cycle, day_of_cycle = divmod(day_number + 719_468, _CALENDAR_CYCLE_DAYS)
    year_of_cycle = (
        day_of_cycle - day_of_cycle // 1_460 + day_of_cycle // 36_524 - day_of_cycle // 146_096
    ) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    march_month = (5 * day_of_year + 2) // 153
    month = march_month + 3 if march_month < 10 else march_month - 9
    day = day_of_year - (153 * march_month + 2) // 5 + 1
    return year_of_cycle + cycle * 400 + (month <= 2), month, day


def days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


# XSD compares times as if they were on this day.
TIME_REFERENCE: Final = days(1972, 12, 31) * DAY


def parse_date_time(text: str) -> Moment | None:
    found = _DATE_TIME_FORM.fullmatch(text)
    if found is None or len(text) > MAXIMUM_LENGTH:
        return None
    day, clock = _day_seconds(*found.group(1, 2, 3)), _clock_seconds(*found.group(4, 5, 6))
    if day is None or clock is None or not _zone_is_valid(found[7]):
        return None
    return Moment(day + clock, _offset(found[7]))


def parse_date(text: str) -> Moment | None:
    found = _DATE_FORM.fullmatch(text)
    if found is None or len(text) > MAXIMUM_LENGTH:
        return None
    day = _day_seconds(*found.group(1, 2, 3))
    return None if day is None or not _zone_is_valid(found[4]) else Moment(day, _offset(found[4]))


def parse_time(text: str) -> Moment | None:
    found = _TIME_FORM.fullmatch(text)
    if found is None or len(text) > MAXIMUM_LENGTH:
        return None
    clock = _clock_seconds(*found.group(1, 2, 3))
    if clock is None or not _zone_is_valid(found[4]):
        return None
    return Moment(TIME_REFERENCE + clock % DAY, _offset(found[4]))


def _day_seconds(year_text: str, month_text: str, day_text: str) -> int | None:
    if len(year_text) > 18:
        return None  # beyond any calendar, and large enough to be expensive
    year, month, day = int(year_text), int(month_text), int(day_text)
    if not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        return None
    return days(year, month, day) * DAY


def _clock_seconds(hour_text: str, minute_text: str, second_text: str) -> Seconds | None:
    hour, minute, second = int(hour_text), int(minute_text), _seconds(second_text)
    if hour == 24:  # the end of the day
        return DAY if minute == 0 and second == 0 else None
    if hour > 24 or minute > 59 or second >= 60:
        return None
    return hour * 3600 + minute * 60 + second


def _seconds(text: str) -> Seconds:
    if "." not in text:
        return int(text)
    exact = Fraction(text)
    return exact.numerator if exact.denominator == 1 else exact


def _zone_is_valid(text: str | None) -> bool:
    if text is None or text == "Z":
        return True
    hours, minutes = int(text[1:3]), int(text[4:6])
    return minutes <= 59 and hours * 60 + minutes <= 14 * 60


def _offset(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    return -minutes if text[0] == "-" else minutes


def parse_duration(text: str) -> Duration | None:
    found = _DURATION_FORM.fullmatch(text)
    if found is None or len(text) > MAXIMUM_LENGTH:
        return None
    years, months, day_count, hours, minutes = (int(part or 0) for part in found.group(2, 3, 4, 5, 6))
    seconds = day_count * DAY + hours * 3600 + minutes * 60 + _seconds(found[7] or "0")
    sign = -1 if found[1] else 1
    return Duration(sign * (years * 12 + months), sign * seconds)


def parse_day_time_duration(text: str) -> Duration | None:
    found = parse_duration(text)
    return None if found is None or "Y" in text or "M" in text.partition("T")[0] else found


def parse_year_month_duration(text: str) -> Duration | None:
    found = parse_duration(text)
    return None if found is None or "D" in text or "T" in text else found


def compare_moments(left: Moment, right: Moment) -> int | None:
    """Returns -1, 0 or 1; None if a missing timezone leaves the order open (XML Schema part 2, §3.2.7.4)."""
    difference = left.instant - right.instant
    if (left.offset is None) == (right.offset is None):
        return (difference > 0) - (difference < 0)
    if -_WIDEST_ZONE <= difference <= _WIDEST_ZONE:
        return None
    return 1 if difference > 0 else -1


_DURATION_REFERENCES: Final = tuple(
    Moment(days(year, month, 1) * DAY, 0) for year, month in ((1696, 9), (1697, 2), (1903, 3), (1903, 7))
)


def compare_durations(left: Duration, right: Duration) -> int | None:
    """Returns -1, 0 or 1; None if the length of a month decides (XML Schema part 2, §3.2.6.2)."""
    if left == right:
        return 0
    orders = set()
    for start in _DURATION_REFERENCES:
        first, second = add_duration(start, left).local, add_duration(start, right).local
        orders.add((first > second) - (first < second))
    return orders.pop() if len(orders) == 1 and 0 not in orders else None


def add_duration(start: Moment, duration: Duration) -> Moment:
    """Adds months first, clips the day to the month, then adds seconds (XML Schema part 2, appendix E)."""
    local = start.local
    if duration.months:
        year, month, day = start.date()
        clock = local % DAY
        year, month = divmod(year * 12 + month - 1 + duration.months, 12)
        local = days(year, month + 1, min(day, days_in_month(year, month + 1))) * DAY + clock
    return Moment(local + duration.seconds, start.offset)


def midnight(moment: Moment) -> Moment:
    return Moment(moment.local // DAY * DAY, moment.offset)


def time_of_day(moment: Moment) -> Moment:
    return Moment(TIME_REFERENCE + moment.local % DAY, moment.offset)


# Canonical lexical forms


def plain(number: Decimal) -> str:
    """Writes a number without an exponent and without trailing zeros."""
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def to_decimal(seconds: Seconds) -> Decimal:
    """Converts exactly: the denominator of parsed seconds divides a power of ten."""
    if isinstance(seconds, int):
        return Decimal(seconds)
    places = seconds.denominator.bit_length()
    return Decimal(f"{seconds.numerator * 10**places // seconds.denominator}E-{places}")


def zone_form(offset: int | None) -> str:
    if offset is None:
        return ""
    if offset == 0:
        return "Z"
    hours, minutes = divmod(abs(offset), 60)
    return f"{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"


def date_time_form(moment: Moment) -> str:
    return f"{_date_part(moment)}T{_time_part(moment)}{zone_form(moment.offset)}"


def date_form(moment: Moment) -> str:
    return _date_part(moment) + zone_form(moment.offset)


def time_form(moment: Moment) -> str:
    return _time_part(moment) + zone_form(moment.offset)


def _date_part(moment: Moment) -> str:
    year, month, day = moment.date()
    return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"


def _time_part(moment: Moment) -> str:
    hour, minute, second = moment.clock()
    whole, point, fraction = plain(to_decimal(second)).partition(".")
    return f"{hour:02}:{minute:02}:{whole:0>2}{point}{fraction}"


def year_month_form(duration: Duration) -> str:
    years, months = divmod(abs(duration.months), 12)
    parts = (f"{years}Y" if years else "") + (f"{months}M" if months or not years else "")
    return f"{'-' if duration.months < 0 else ''}P{parts}"


def day_time_form(duration: Duration) -> str:
    return duration_form(Duration(0, duration.seconds))


def duration_form(duration: Duration) -> str:
    negative = duration.months < 0 or duration.seconds < 0
    months, seconds = (-duration.months, -duration.seconds) if negative else duration
    if not months and not seconds:
        return "PT0S"
    minutes = seconds // 60
    counts: tuple[tuple[str, Seconds], ...] = (
        ("Y", months // 12),
        ("M", months % 12),
        ("D", minutes // 1440),
        ("H", minutes // 60 % 24),
        ("M", minutes % 60),
        ("S", seconds - minutes * 60),
    )
    date_part = "".join(plain(to_decimal(count)) + unit for unit, count in counts[:3] if count)
    time_part = "".join(plain(to_decimal(count)) + unit for unit, count in counts[3:] if count)
    return f"{'-' if negative else ''}P{date_part}{'T' + time_part if time_part else ''}"
