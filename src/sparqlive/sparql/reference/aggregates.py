"""The aggregates by their definitions (SPARQL 1.1 §18.5.1), over whole lists.

Keeps no state, and shares only the values, their order and their written forms with `sparql/aggregates.py`.
Totals are fractions. Where the specification leaves a choice, this follows the documented one: an error in
the list is an error of MIN, MAX, SUM, AVG and GROUP_CONCAT; SAMPLE is the first value in the order of terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from sparqlive.sparql.algebra import Aggregate, Term, Var
from sparqlive.sparql.ordering import order_key
from sparqlive.sparql.values import (
    EXACT,
    ExpressionError,
    Kind,
    Value,
    decimal,
    double,
    integer,
    single,
    string,
    value_of,
)

_PLACES = 18


def aggregate_of(
    aggregate: Aggregate, columns: tuple[Var, ...], rows: Sequence[tuple[Term | None, ...]]
) -> Term | None:
    """Computes an aggregate over the solutions of a group; None means an error."""
    if aggregate.argument is None:
        return integer(len(set(rows)) if aggregate.distinct else len(rows)).term
    assert isinstance(aggregate.argument, Var)
    terms = [row[columns.index(aggregate.argument)] for row in rows]
    if aggregate.distinct:
        terms = list(dict.fromkeys(terms))
    try:
        found = _value([None if term is None else value_of(term) for term in terms], aggregate)
    except ExpressionError:
        return None
    return None if found is None else found.term


def _value(values: list[Value | None], aggregate: Aggregate) -> Value | None:
    known = sorted((value for value in values if value is not None), key=order_key)
    if aggregate.name == "COUNT":
        return integer(len(known))
    if aggregate.name == "SAMPLE":
        return known[0] if known else None
    if len(known) < len(values):
        return None
    match aggregate.name:
        case "MIN":
            return known[0] if known else None
        case "MAX":
            return known[-1] if known else None
        case "SUM":
            return _total(known, None)
        case "AVG":
            return _total(known, len(known)) if known else integer(0)
        case "GROUP_CONCAT":
            if any(value.kind == Kind.BLANK for value in known):
                return None
            return string(aggregate.separator.join(value.lexical for value in known))
    raise AssertionError(aggregate.name)


def _total(values: list[Value], divisor: int | None) -> Value | None:
    """Returns the sum of numbers, or their mean if there is a divisor, in the widest of their types."""
    if any(value.kind > Kind.DOUBLE for value in values):
        return None
    kind = max((value.kind for value in values), default=Kind.INTEGER)
    wild = [
        value.value for value in values if isinstance(value.value, float) and not math.isfinite(value.value)
    ]
    if wild:
        return double(sum(wild)) if kind == Kind.DOUBLE else single(sum(wild))
    total = sum((Fraction(value.value) for value in values), Fraction(0)) / (divisor or 1)
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
