"""The aggregates by their definitions (SPARQL 1.1 §18.5.1), over whole bags.

Keeps no state, and shares only the values, their order and their written forms with `sparql/aggregates.py`.
Totals are fractions. Where the specification leaves a choice, this follows the documented one: an error in
the list is an error of MIN, MAX, SUM, AVG and GROUP_CONCAT; SAMPLE is the first value in the order of terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from sparqlive.sparql.algebra import Aggregate, Term, Var
from sparqlive.sparql.ordering import order_key
from sparqlive.sparql.values import (
    EXACT,
    MAXIMUM_CHARACTERS,
    ExpressionError,
    Kind,
    Value,
    decimal,
    double,
    integer,
    single,
    string,
    text_too_long,
    value_of,
)

Counted: TypeAlias = list[tuple[Value, int]]
"""Values with the number of times that each occurs."""

_PLACES = 18


def aggregate_of(
    aggregate: Aggregate, columns: tuple[Var, ...], rows: Mapping[tuple[Term | None, ...], int]
) -> Term | None:
    """Computes an aggregate over the solutions of a group, with their multiplicities; None means an error."""
    if aggregate.argument is None:
        return integer(len(rows) if aggregate.distinct else sum(rows.values())).term
    assert isinstance(aggregate.argument, Var)
    place = columns.index(aggregate.argument)
    terms: dict[Term | None, int] = {}
    for row, times in rows.items():
        terms[row[place]] = 1 if aggregate.distinct else terms.get(row[place], 0) + times
    errors = terms.pop(None, 0)
    known = [(value_of(term), times) for term, times in terms.items() if term is not None]
    try:
        found = _value(sorted(known, key=lambda item: order_key(item[0])), errors, aggregate)
    except ExpressionError:
        return None
    return None if found is None else found.term


def _value(known: Counted, errors: int, aggregate: Aggregate) -> Value | None:
    """`known`: the values in their order; `errors`: the number of errors beside them."""
    number = sum(times for _, times in known)
    if aggregate.name == "COUNT":
        return integer(number)
    if aggregate.name == "SAMPLE":
        return known[0][0] if known else None
    if errors:
        return None
    match aggregate.name:
        case "MIN":
            return known[0][0] if known else None
        case "MAX":
            return known[-1][0] if known else None
        case "SUM":
            return _total(known, None)
        case "AVG":
            return _total(known, number) if known else integer(0)
        case "GROUP_CONCAT":
            return _concatenated(known, aggregate.separator)
    raise AssertionError(aggregate.name)


def _concatenated(known: Counted, separator: str) -> Value | None:
    if any(value.kind == Kind.BLANK for value, _ in known):
        return None
    if (
        sum(times * len(value.lexical + separator) for value, times in known) - len(separator)
        > MAXIMUM_CHARACTERS
    ):
        raise text_too_long()  # before the text is written, which can be as long as a product of counts
    return string(separator.join(value.lexical for value, times in known for _ in range(times)))


def _total(values: Counted, divisor: int | None) -> Value | None:
    """Returns the sum of numbers, or their mean if there is a divisor, in the widest of their types."""
    if any(value.kind > Kind.DOUBLE for value, _ in values):
        return None
    kind = max((value.kind for value, _ in values), default=Kind.INTEGER)
    wild = [
        value.value
        for value, _ in values
        if isinstance(value.value, float) and not math.isfinite(value.value)
    ]
    if wild:
        return double(sum(wild)) if kind == Kind.DOUBLE else single(sum(wild))
    total = sum((Fraction(value.value) * times for value, times in values), Fraction(0)) / (divisor or 1)
    if kind == Kind.DOUBLE:
        return double(_nearest_double(total))
    if kind == Kind.FLOAT:
        return single(_nearest_single(total))
    if divisor is not None:
        return decimal(Decimal(math.trunc(total * 10**_PLACES)).scaleb(-_PLACES, EXACT))
    if kind == Kind.INTEGER:
        return integer(int(total))
    places = total.denominator.bit_length()
    return decimal(Decimal(int(total * 10**places)).scaleb(-places, EXACT))


def _nearest_double(number: Fraction) -> float:
    try:
        return float(number) + 0.0
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _nearest_single(number: Fraction) -> float:
    """Rounds to the nearest single; of two equally near ones, to the one whose last bit is zero."""
    if abs(number) >= Fraction(2) ** 128 - Fraction(2) ** 103:
        return math.inf if number > 0 else -math.inf
    size = abs(number)
    exponent = max(-149, size.numerator.bit_length() - size.denominator.bit_length() - 25)
    unit = Fraction(2) ** exponent
    while size / unit >= 2**24:  # 24 significant bits
        unit *= 2
    rounded = round(size / unit) * unit  # half to even
    return -float(rounded) + 0.0 if number < 0 else float(rounded)
