"""Arithmetic and the functions on numbers (SPARQL 1.1 §17.3, §17.4.4).

Defines the promotion integer → decimal → float → double, and how each type handles overflow and zero.
Operands other than numbers, dates and durations (in `functions.dates`) are errors. Invariants: integers and
decimals are exact, except that a quotient is truncated to `QUOTIENT_PLACES` decimal places; an xsd:float
result is rounded to single precision.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Context, Decimal
from typing import Any, Final

from sparqlive.sparql.functions import dates
from sparqlive.sparql.functions.logic import promote
from sparqlive.sparql.values import (
    DECIMAL,
    DOUBLE,
    EXACT,
    FLOAT,
    INTEGER,
    ExpressionError,
    Value,
    decimal,
    double,
    integer,
    single,
)

QUOTIENT_PLACES: Final = 18
_QUOTIENT_UNIT: Final = Decimal(1).scaleb(-QUOTIENT_PLACES)
_HALF: Final = Decimal("0.5")


def _arithmetic(
    of_numbers: Callable[[Any, Any], Any],
    of_decimals: Callable[[Decimal, Decimal], Decimal],
    otherwise: Callable[[Value, Value], Value],
) -> Callable[[Value, Value], Value]:
    def calculate(left: Value, right: Value) -> Value:
        first, second = left.kind, right.kind
        if first == INTEGER and second == INTEGER:
            return integer(of_numbers(left.value, right.value))
        if first <= DECIMAL and second <= DECIMAL:
            return decimal(of_decimals(left.value, right.value))
        if first <= DOUBLE and second <= DOUBLE:
            result = of_numbers(*promote(left, right))
            return single(result) if first <= FLOAT and second <= FLOAT else double(result)
        return otherwise(left, right)

    return calculate


def _no_numbers(left: Value, right: Value) -> Value:
    raise ExpressionError("Not a number")


add: Final = _arithmetic(operator.add, EXACT.add, dates.add)
subtract: Final = _arithmetic(operator.sub, EXACT.subtract, dates.subtract)
multiply: Final = _arithmetic(operator.mul, EXACT.multiply, _no_numbers)


def divide(left: Value, right: Value) -> Value:
    """Divides; two integers give a decimal.

    Division by zero is an error, but infinite or NaN for floating point.
    """
    first, second = left.kind, right.kind
    if first > DOUBLE or second > DOUBLE:
        raise ExpressionError("Not a number")
    if first <= DECIMAL and second <= DECIMAL:
        return decimal(_divide_decimals(Decimal(left.value), Decimal(right.value)))
    quotient = _divide_floats(*promote(left, right))
    return single(quotient) if first <= FLOAT and second <= FLOAT else double(quotient)


def _divide_decimals(dividend: Decimal, divisor: Decimal) -> Decimal:
    if not divisor:
        raise ExpressionError("Division by zero")
    if not dividend:
        return Decimal(0)
    whole_digits = max(dividend.adjusted() - divisor.adjusted() + 1, 0)
    context = Context(prec=whole_digits + QUOTIENT_PLACES + 2, rounding=ROUND_DOWN)
    return context.divide(dividend, divisor).quantize(_QUOTIENT_UNIT, context=context)


def _divide_floats(dividend: float, divisor: float) -> float:
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def negate(value: Value) -> Value:
    if value.kind > DOUBLE:
        return dates.negate(value)
    return _like(value, -value.value if value.kind != DECIMAL else value.value.copy_negate())


def plus(value: Value) -> Value:
    if value.kind > DOUBLE:
        raise ExpressionError("Not a number")
    return _like(value, value.value)


def _like(value: Value, number: Any) -> Value:
    """Returns the number in the type of the value; types derived from xsd:integer become xsd:integer."""
    return Value(value.kind, number)


def absolute(value: Value) -> Value:
    if value.kind > DOUBLE:
        raise ExpressionError("Not a number")
    return _like(value, value.value.copy_abs() if value.kind == DECIMAL else abs(value.value))


def _rounding(
    of_floats: Callable[[float], float], of_decimals: Callable[[Decimal], Decimal]
) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        kind = value.kind
        if kind == INTEGER:
            return _like(value, value.value)
        if kind == DECIMAL:
            return decimal(of_decimals(value.value))
        if kind > DOUBLE:
            raise ExpressionError("Not a number")
        number: float = value.value
        if not math.isfinite(number) or number == 0:
            return _like(value, number)
        # A negative number that rounds to zero is negative zero (XPath F&O §6.4).
        return _like(value, math.copysign(of_floats(number), number))

    return apply


def _half_up_float(number: float) -> float:
    # floor(x + 0.5) would be wrong where x + 0.5 is not a double.
    down = math.floor(number)
    return float(down + 1) if number - down >= 0.5 else float(down)


def _half_up_decimal(number: Decimal) -> Decimal:
    return EXACT.add(number, _HALF).to_integral_value(ROUND_FLOOR)


half_up: Final = _rounding(_half_up_float, _half_up_decimal)
ceiling: Final = _rounding(
    lambda number: float(math.ceil(number)), lambda number: number.to_integral_value(ROUND_CEILING)
)
floor: Final = _rounding(
    lambda number: float(math.floor(number)), lambda number: number.to_integral_value(ROUND_FLOOR)
)
