"""Aggregates (SPARQL 1.1 §18.5.1): how COUNT, SUM, MIN and the others are computed for a group.

Both executors use these accumulators. Values are added and removed with weights, by the ids of their terms; 0
is an error or an unbound variable. COUNT skips errors, and SAMPLE chooses another value. For the others, one
error in the group makes the aggregate an error, until it is removed. GROUP_CONCAT accepts everything that STR
accepts. Invariant: a result depends only on the bag of values, not on the order of changes or on earlier
values. Totals are exact and rounded once; ties are broken by the total order of terms.

COUNT, SUM and AVG follow from *totals*, a few integers that are sums over the values. They leave out numbers
that do not fit (`exact_parts`), the *others*, such as floating point numbers, and only count them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from decimal import Decimal
from heapq import nlargest, nsmallest
from typing import Any, Final, Protocol, TypeAlias

from sparqlive.runtime.deadline import paced
from sparqlive.sparql.algebra import Aggregate
from sparqlive.sparql.columns import PLACES, exact_parts
from sparqlive.sparql.functions.numeric import divide
from sparqlive.sparql.ordering import OrderKey, order_key
from sparqlive.sparql.values import (
    BLANK,
    DECIMAL,
    DOUBLE,
    EXACT,
    INTEGER,
    MAXIMUM_CHARACTERS,
    ExpressionError,
    Value,
    decimal,
    double,
    integer,
    single,
    string,
    text_too_long,
    to_double,
)

ValueOf: TypeAlias = Callable[[int], Value | None]
"""Returns the value of a term's id; None for 0."""

SUMS: Final = ("SUM", "AVG")
HALF: Final = 1 << 48
"""A sum that may exceed 64 bits is two totals: its quotient by this, rounded to zero, and the rest."""
_FLOAT_BITS: Final = 1074  # every double is a multiple of 2 ** -1074
_HEAD: Final = 64
"""The least number of first values that a group keeps for MIN, MAX and SAMPLE."""
_VALUES_TO_HEAD: Final = 64
"""A group keeps at least one value in this many, so that reading it again is rare enough to be cheap."""
_FEWEST_FIRST: Final = 2 * _HEAD
_LARGEST: Final = 1 << 63
"""Integers of at most 64 bits fit into totals."""


def halves(total: int) -> tuple[int, int]:
    """Splits a sum into two totals."""
    if -HALF < total < HALF:
        return 0, total
    high = total // HALF if total > 0 else -(-total // HALF)
    return high, total - high * HALF


class Accumulator(Protocol):
    """The values of one aggregate in one group."""

    def add(self, element: Any, weight: int) -> None:
        """Adds values, or removes them if the weight is negative. An element is an id, or a row for `*`."""

    def add_all(self, elements: Sequence[Any], weights: Sequence[int]) -> None:
        """Adds many values."""

    def result(self) -> Value | None:
        """Returns the result; None means an error."""


class Grouping:
    """The aggregates of one grouping: how rows are added to groups, and the results.

    `aggregates` come with the column of their argument, None for `*`. A row with 0 in the column `member`
    makes its group exist, but is not one of its solutions.
    """

    def __init__(
        self, aggregates: Sequence[tuple[Aggregate, int | None]], member: int | None, value_of: ValueOf
    ) -> None:
        self._makers = [_maker(aggregate, value_of) for aggregate, _ in aggregates]
        self._columns = [column for _, column in aggregates]
        self._summed = [n for aggregate, n in aggregates if n is not None and aggregate.name in SUMS]
        extremes = ("MIN", "MAX", "SAMPLE")
        self._extremes = [n for n, (aggregate, _) in enumerate(aggregates) if aggregate.name in extremes]
        self._member = member
        self._value_of = value_of

    def group(self) -> Group:
        return Group([make() for make in self._makers])

    def add(self, group: Group, row: tuple[int, ...], weight: int) -> None:
        group.weight += weight  # not a method of Group: its call would cost 40 ns per changed row
        if self._member is not None and not row[self._member]:
            return
        for accumulator, column in zip(group.accumulators, self._columns, strict=True):
            accumulator.add(row if column is None else row[column], weight)

    def add_all(self, group: Group, columns: Sequence[Sequence[int]], weights: Sequence[int]) -> None:
        """Adds many rows, given as columns. Going aggregate by aggregate takes a quarter of the time."""
        rows = list(zip(*columns, strict=True)) if self._member is not None or None in self._columns else []
        if self._member is not None:
            for row, weight in paced(zip(rows, weights, strict=True)):
                self.add(group, row, weight)
            return
        group.weight += sum(weights)
        for accumulator, column in zip(group.accumulators, self._columns, strict=True):
            accumulator.add_all(rows if column is None else columns[column], weights)

    def is_used_up(self, group: Group) -> bool:
        """Whether the group must be built again from its rows, because its first values are used up."""
        for place in self._extremes:  # a loop, because this runs for each changed group
            accumulator = group.accumulators[place]
            if accumulator.is_used_up():  # type: ignore[attr-defined]
                return True
        return False

    def restored(self, totals: Sequence[int]) -> Group:
        """Restores a group from its totals; `add_others` adds the numbers that they leave out."""
        group, numbers = self.group(), iter(totals)
        group.weight = next(numbers)
        for accumulator in group.accumulators:
            accumulator.restore(numbers)  # type: ignore[attr-defined]
        return group

    def has_others(self, row: tuple[int, ...]) -> bool:
        """Whether a row has a number that totals leave out."""
        is_member = self._member is None or row[self._member]
        return bool(is_member) and any(_is_other(self._value_of(row[column])) for column in self._summed)

    def add_others(self, group: Group, row: tuple[int, ...], weight: int) -> None:
        """Adds the numbers of a row that totals leave out."""
        for accumulator, column in zip(group.accumulators, self._columns, strict=True):
            if not isinstance(accumulator, _Sum) or column is None:
                continue
            if _is_other(self._value_of(row[column])):
                accumulator.add(row[column], weight)


class Group:
    """A group: its number of rows, and the accumulators of its aggregates."""

    __slots__ = ("accumulators", "weight")

    def __init__(self, accumulators: list[Accumulator]) -> None:
        self.weight = 0
        self.accumulators = accumulators

    def totals(self) -> list[int]:
        """The number of rows and the totals, if all aggregates follow from them."""
        found = [self.weight]
        for accumulator in self.accumulators:
            found += accumulator.totals()  # type: ignore[attr-defined]
        return found

    def results(self) -> list[Value | None]:
        try:
            return [accumulator.result() for accumulator in self.accumulators]
        except ExpressionError:
            return [_result(accumulator) for accumulator in self.accumulators]


def _result(accumulator: Accumulator) -> Value | None:
    try:
        return accumulator.result()
    except ExpressionError:  # a number or a string is too long
        return None


def _maker(aggregate: Aggregate, value_of: ValueOf) -> Callable[[], Accumulator]:
    def plain() -> Accumulator:
        match aggregate.name:
            case "COUNT":
                return _Count()
            case "SUM":
                return _Sum(value_of)
            case "AVG":
                return _Average(value_of)
            case "MIN":
                return _Extreme(value_of, is_last=False)
            case "MAX":
                return _Extreme(value_of, is_last=True)
            case "SAMPLE":
                return _Sample(value_of, is_last=False)
            case "GROUP_CONCAT":
                return _Concatenation(value_of, aggregate.separator)
        raise AssertionError(f"There is no aggregate {aggregate.name}.")

    # Of equal values, the least is the same: DISTINCT changes nothing.
    if aggregate.distinct and aggregate.name not in ("MIN", "MAX", "SAMPLE"):
        return lambda: _Distinct(plain())
    return plain


class _OneByOne:
    """Adds many values one by one."""

    __slots__ = ()

    def add(self, element: Any, weight: int) -> None:
        raise NotImplementedError

    def add_all(self, elements: Sequence[Any], weights: Sequence[int]) -> None:
        add = self.add
        for element, weight in paced(zip(elements, weights, strict=True)):
            add(element, weight)


class _Distinct(_OneByOne):
    """Passes each element on once; an error is an element like any other."""

    __slots__ = ("_inner", "_weights")

    def __init__(self, inner: Accumulator) -> None:
        self._inner = inner
        self._weights: dict[Hashable, int] = {}

    def add(self, element: Any, weight: int) -> None:
        old = self._weights.get(element, 0)
        new = old + weight
        if new:
            self._weights[element] = new
            if not old:
                self._inner.add(element, 1)
        else:
            del self._weights[element]
            self._inner.add(element, -1)

    def result(self) -> Value | None:
        return self._inner.result()


class _Count:
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self, element: Any, weight: int) -> None:
        if element != 0:
            self._count += weight

    def add_all(self, elements: Sequence[Any], weights: Sequence[int]) -> None:
        if 0 not in elements:
            self._count += sum(weights)
        else:
            pairs = zip(elements, weights, strict=True)
            self._count += sum(weight for element, weight in pairs if element != 0)

    def totals(self) -> tuple[int, ...]:
        return (self._count,)

    def restore(self, totals: Iterator[int]) -> None:
        self._count = next(totals)

    def result(self) -> Value | None:
        return integer(self._count)


def _is_other(value: Value | None) -> bool:
    """Whether a value is a number that totals leave out."""
    if value is None or value.kind > DOUBLE:
        return False
    if value.kind is INTEGER:
        return not -_LARGEST <= value.value < _LARGEST
    return value.kind is not DECIMAL or exact_parts(value.value)[0] is None


class _Sum:
    """The exact total: of numbers that fit, of wider ones, and of floating point numbers.

    `exact_parts` splits the first kind for summing, `_fraction` in units of 10 ** -18. `_binary` is in units
    of 2 ** -1074.
    """

    __slots__ = (
        "_binary", "_count", "_decimals", "_doubles", "_errors", "_floats", "_fraction", "_infinite",
        "_integers", "_nans", "_negative", "_others", "_tens", "_value_of", "_whole", "_wide",
    )  # fmt: skip

    def __init__(self, value_of: ValueOf) -> None:
        self._value_of = value_of
        self._errors = self._count = self._decimals = self._floats = self._doubles = 0
        self._whole = self._fraction = self._integers = self._binary = 0
        self._tens = Decimal(0)
        self._nans = self._infinite = self._negative = 0
        self._others = self._wide = 0
        """How many numbers the totals leave out, and how many of these are decimals."""

    def add(self, element: int, weight: int) -> None:
        value = self._value_of(element)
        if value is None or value.kind > DOUBLE:
            self._errors += weight
            return
        self._count += weight
        kind, number = value.kind, value.value
        if kind is INTEGER and -_LARGEST <= number < _LARGEST:
            self._whole += number * weight
            return
        if kind is DECIMAL:
            self._decimals += weight
            whole, fraction = exact_parts(number)
            if whole is not None and fraction is not None:
                self._whole += whole * weight
                self._fraction += fraction * weight
                return
            self._wide += weight
            self._tens = EXACT.fma(number, weight, self._tens)
        elif kind is INTEGER:
            self._integers += number * weight
        else:
            if kind is DOUBLE:
                self._doubles += weight
            else:
                self._floats += weight
            self._add_float(number, weight)
        self._others += weight

    def add_all(self, elements: Sequence[int], weights: Sequence[int]) -> None:
        value_of, count, total = self._value_of, 0, 0
        for element, weight in paced(zip(elements, weights, strict=True)):
            value = value_of(element)
            if value is not None and value.kind is INTEGER and -_LARGEST <= value.value < _LARGEST:
                count += weight
                total += value.value * weight
            else:
                self.add(element, weight)
        self._count += count
        self._whole += total

    def totals(self) -> tuple[int, ...]:
        whole = self._whole
        return (
            self._errors,
            self._count - self._others,
            self._decimals - self._wide,
            *((0, whole) if -HALF < whole < HALF else halves(whole)),
            *halves(self._fraction),
            self._others,
        )

    def restore(self, totals: Iterator[int]) -> None:
        self._errors, self._count, self._decimals = next(totals), next(totals), next(totals)
        self._whole = next(totals) * HALF + next(totals)
        self._fraction = next(totals) * HALF + next(totals)
        next(totals)

    def _add_float(self, number: float, weight: int) -> None:
        if math.isfinite(number):
            numerator, denominator = number.as_integer_ratio()
            self._binary += weight * (numerator << (_FLOAT_BITS + 1 - denominator.bit_length()))
        elif number != number:
            self._nans += weight
        elif number > 0:
            self._infinite += weight
        else:
            self._negative += weight

    def result(self) -> Value | None:
        if self._errors:
            return None
        if self._doubles or self._floats:
            return self._floating(1)
        return self._exact()

    def _exact(self) -> Value:
        """Returns the total without floating point numbers."""
        return decimal(self._exact_total()) if self._decimals else integer(self._whole + self._integers)

    def _exact_total(self) -> Decimal:
        total = EXACT.add(self._tens, self._whole + self._integers)
        return EXACT.add(total, EXACT.scaleb(Decimal(self._fraction), -PLACES)) if self._fraction else total

    def _floating(self, divisor: int) -> Value:
        """Returns the total divided, rounded once to the widest type present."""
        special = self._special()
        if special is not None:
            return double(special) if self._doubles else single(special)
        tens, ones = self._exact_total().as_integer_ratio()
        numerator, denominator = self._binary * ones + (tens << _FLOAT_BITS), ones << _FLOAT_BITS
        denominator *= divisor
        if self._doubles:
            return double(_nearest(numerator, denominator))
        return single(_to_odd(numerator, denominator))

    def _special(self) -> float | None:
        if self._nans or (self._infinite and self._negative):
            return math.nan
        if self._infinite or self._negative:
            return math.inf if self._infinite else -math.inf
        return None


class _Average(_Sum):
    __slots__ = ()

    def result(self) -> Value | None:
        if self._errors:
            return None
        if not self._count:
            return integer(0)
        if self._doubles or self._floats:
            return self._floating(self._count)
        # The total may have more digits than a value may have.
        return divide(Value(DECIMAL, self._exact_total()), integer(self._count))


def total(name: str, totals: Iterable[int], others: Sequence[tuple[Value, int]]) -> Value | None:
    """Returns SUM or AVG from totals and the numbers that they leave out; None means an error."""
    values = [value for value, _ in others]
    accumulator = (_Sum if name == "SUM" else _Average)(values.__getitem__)
    accumulator.restore(iter(totals))
    for place, (_, weight) in enumerate(others):
        accumulator.add(place, weight)
    return _result(accumulator)


def _nearest(numerator: int, denominator: int) -> float:
    """Returns the double nearest to a fraction, as Python's integer division does; zero is positive."""
    try:
        return numerator / denominator + 0.0
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _to_odd(numerator: int, denominator: int) -> float:
    """Returns a double that rounds to the single nearest to a fraction.

    If the fraction lies between two doubles, this is the one whose last bit is odd: it is not halfway between
    two singles.
    """
    near = _nearest(numerator, denominator)
    if not math.isfinite(near):
        return near
    ones, units = near.as_integer_ratio()
    difference = numerator * units - ones * denominator
    if not difference or math.frexp(near)[0] * 2**53 % 2:
        return near
    return math.nextafter(near, math.inf if difference > 0 else -math.inf)


class _Extreme:
    """The first value in the order of terms, or the last one.

    The *head* has the first values in order, or the last ones, with their weights. `_edge`: values beyond
    this entry are not in the head; None if all are.
    """

    __slots__ = ("_added", "_edge", "_errors", "_head", "_is_last", "_value_of", "_weights")

    def __init__(self, value_of: ValueOf, is_last: bool) -> None:
        self._value_of = value_of
        self._is_last = is_last
        self._head: list[tuple[OrderKey, int]] = []
        self._weights: dict[int, int] = {}
        self._edge: tuple[OrderKey, int] | None = None
        self._errors = self._added = 0

    def is_used_up(self) -> bool:
        """Whether there are values beyond the head, and none in it."""
        return not self._head and self._edge is not None

    def add(self, element: int, weight: int) -> None:
        if not element:
            self._errors += weight
            return
        old = self._weights.get(element)
        if old is None:
            self._insert(self._entry(element), weight)
        elif old + weight:
            self._weights[element] = old + weight
        else:
            del self._weights[element]
            del self._head[bisect_left(self._head, self._entry(element))]

    def add_all(self, elements: Sequence[int], weights: Sequence[int]) -> None:
        few = len(elements) < _FEWEST_FIRST
        added: dict[int, int] = {}
        for element, weight in paced(zip(elements, weights, strict=True)):
            if few or weight < 0 or not element:
                self.add(element, weight)
            else:
                added[element] = added.get(element, 0) + weight
        self._added += len(added)
        first = nlargest if self._is_last else nsmallest
        entries = first(self._most, map(self._entry, self._among_first(list(added))))
        if len(entries) < len(added):
            self._end_at(entries[-1])
        for entry in entries:
            known = self._weights.get(entry[1])
            if known is None:
                self._insert(entry, added[entry[1]])
            else:
                self._weights[entry[1]] = known + added[entry[1]]

    @property
    def _most(self) -> int:
        return max(_HEAD, self._added // _VALUES_TO_HEAD)

    def _insert(self, entry: tuple[OrderKey, int], weight: int) -> None:
        edge, head = self._edge, self._head
        if edge is not None and (entry < edge if self._is_last else edge < entry):
            return
        insort(head, entry)
        self._weights[entry[1]] = weight
        if len(head) > _FEWEST_FIRST and len(head) > 2 * self._most:
            self._end_at(head[-self._most if self._is_last else self._most - 1])

    def _end_at(self, entry: tuple[OrderKey, int]) -> None:
        """Drops the values beyond an entry."""
        edge, head = self._edge, self._head
        if edge is not None and (entry < edge if self._is_last else edge < entry):
            entry = edge
        self._edge = entry
        beyond = slice(bisect_left(head, entry)) if self._is_last else slice(bisect_right(head, entry), None)
        for _, element in head[beyond]:
            del self._weights[element]
        del head[beyond]

    def _among_first(self, elements: list[int]) -> list[int]:
        """Selects the elements that may belong to the head, comparing numbers by their nearest doubles."""
        most = self._most
        if len(elements) <= most:
            return elements
        values = [self._value_of(element) for element in elements]
        if any(value is None or value.kind > DOUBLE or value.value != value.value for value in values):
            return elements
        nearest = [to_double(value.value) for value in values if value is not None]
        if self._is_last:
            edge = nlargest(most, nearest)[-1]
            return [element for element, number in zip(elements, nearest, strict=True) if number >= edge]
        edge = nsmallest(most, nearest)[-1]
        return [element for element, number in zip(elements, nearest, strict=True) if number <= edge]

    def _entry(self, element: int) -> tuple[OrderKey, int]:
        return order_key(self._value_of(element)), element

    def result(self) -> Value | None:
        return None if self._errors else self._first()

    def _first(self) -> Value | None:
        if not self._head:
            return None
        return self._value_of(self._head[-1 if self._is_last else 0][1])


class _Sample(_Extreme):
    """Any value is allowed (§18.5.1.8). This returns the first one, so that it depends only on the group."""

    __slots__ = ()

    def result(self) -> Value | None:
        return self._first()


class _Concatenation(_OneByOne):
    """Concatenates texts in the order of their terms. Each result is built from scratch."""

    __slots__ = ("_entries", "_errors", "_separator", "_value_of", "_weights")

    def __init__(self, value_of: ValueOf, separator: str) -> None:
        self._value_of = value_of
        self._separator = separator
        self._errors = 0
        self._weights: dict[int, int] = {}
        self._entries: list[tuple[OrderKey, int, str]] = []

    def add(self, element: int, weight: int) -> None:
        value = self._value_of(element)
        if value is None or value.kind is BLANK:
            self._errors += weight
            return
        old = self._weights.get(element, 0)
        if not old:
            insort(self._entries, (order_key(value), element, value.lexical))
        if old + weight:
            self._weights[element] = old + weight
        else:
            del self._weights[element]
            del self._entries[bisect_left(self._entries, (order_key(value), element))]

    def result(self) -> Value | None:
        if self._errors:
            return None
        weights, separator = self._weights, self._separator
        length = sum((len(text) + len(separator)) * weights[number] for _, number, text in self._entries)
        if length - len(separator) > MAXIMUM_CHARACTERS:
            raise text_too_long()
        joined = "".join((text + separator) * weights[number] for _, number, text in self._entries)
        return string(joined[: length - len(separator)] if self._entries else "")
