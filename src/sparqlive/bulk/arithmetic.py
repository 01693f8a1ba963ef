"""Writes arithmetic in SQL: operators and functions of numbers, and the texts of their results.

An exact number is `whole` and `fraction`, two 64-bit numbers, and so are all intermediate results: both
backends compute these alike. Doubles are IEEE numbers on both. Invariant: a value that does not fit is a
doubt, and so is every xsd:float that would have to be rounded or written.
"""

from __future__ import annotations

from collections.abc import Callable

from sparqlive.bulk.dialect import number
from sparqlive.bulk.operand import SIGNED, Operand, Writing, nothing, number_operand
from sparqlive.bulk.typed import TEXT
from sparqlive.sparql.columns import UNIT
from sparqlive.sparql.values import DATETIME, DECIMAL, DOUBLE, DURATION, FLOAT, INTEGER, XSD

_UNIT, _HALF = number(UNIT), number(UNIT // 2)
_BILLION = number(10**9)
_MOST_UNITS = 9 * 10**9
"""The greatest divisor or factor: multiplied by a billion, it still fits in 64 bits."""
_SCALES = (1, 100, 10**6)
"""A divisor or factor has no decimals, or up to two, or up to six."""
_INTEGRAL = "CAST('4503599627370496' AS DOUBLE)"
"""From 2 ** 52 on, every double is an integer."""

Parts = tuple[str, str]
"""`whole` and `fraction` of an exact number."""


def arithmetic(sign: str, left: Operand, right: Operand, writing: Writing) -> Operand:
    """Writes `+ - * /`. Python handles dates and durations; other operands that are no numbers are errors."""
    step = writing.step
    if sign in "+-" and all(operand.may_be(DATETIME, DURATION) for operand in (left, right)):
        moments = (f"{operand.kind} BETWEEN {DATETIME:d} AND {DURATION:d}" for operand in (left, right))
        writing.doubts.append(" AND ".join(moments))
    both = f"greatest({left.kind}, {right.kind})"  # greatest() ignores NULL
    kind = f"{left.kind} <= {DOUBLE:d} AND {right.kind} <= {DOUBLE:d} THEN {both}"
    if sign == "/":
        is_zero = f"{right.cell('whole')} = 0 AND {right.cell('fraction')} = 0"
        is_exact = f"{left.kind} <= {DECIMAL:d} AND {right.kind} <= {DECIMAL:d}"
        kind = f"{is_exact} THEN if({is_zero}, NULL, {DECIMAL:d}) WHEN {kind}"
    kind = step(f"CASE WHEN {kind} END")
    parts = {"+": _sum, "-": _difference, "*": _product, "/": _quotient}[sign]
    whole, fraction = map(step, parts(_exact(left), _exact(right), writing))
    one, other = left.cell(SIGNED), right.cell(SIGNED)
    of_doubles = writing.dialect.divided(one, other) if sign == "/" else f"{one} {sign} {other}"
    double = step(f"CASE WHEN {kind} = {DOUBLE:d} THEN {of_doubles} END")
    writing.doubts.append(f"{kind} = {FLOAT:d} OR ({kind} <= {DECIMAL:d} AND {whole} IS NULL)")
    return _number(kind, whole, fraction, double, writing)


def _number(kind: str, whole: str, fraction: str, double: str, writing: Writing) -> Operand:
    """Makes a computed number; an exact one becomes a double where a double is needed."""

    def signed() -> str:
        exact = f"if({fraction} = 0, CAST({whole} AS DOUBLE), CAST({_decimal(whole, fraction)} AS DOUBLE))"
        return f"if({kind} <= {DECIMAL:d}, {exact}, {double})"

    cells: dict[str, Callable[[], str]] = {
        "kind": lambda: kind,
        "whole": lambda: whole,
        "fraction": lambda: fraction,
        SIGNED: signed,
        TEXT: lambda: _text(kind, whole, fraction, double, writing),
    }
    return number_operand(cells)


def integer_operand(value: str, writing: Writing) -> Operand:
    """Makes an integer of 64 bits; NULL is an error."""
    whole = writing.step(value)
    kind = writing.step(f"CASE WHEN {whole} IS NOT NULL THEN {INTEGER:d} END")
    return _number(kind, whole, number(0), nothing(SIGNED), writing)


def decimal_operand(value: Parts, writing: Writing) -> Operand:
    whole, fraction = map(writing.step, value)
    kind = writing.step(f"CASE WHEN {whole} IS NOT NULL THEN {DECIMAL:d} END")
    return _number(kind, whole, fraction, nothing(SIGNED), writing)


# Exact numbers


def _exact(operand: Operand) -> Parts:
    return operand.cell("whole"), operand.cell("fraction")


def _sum(left: Parts, right: Parts, writing: Writing) -> Parts:
    (whole, fraction), (other, other_fraction) = left, right
    carry = f"if({fraction} + {other_fraction} >= {_UNIT}, {number(1)}, {number(0)})"
    either = writing.dialect.arithmetic_or_null
    return either("+", either("+", whole, other), carry), f"(({fraction} + {other_fraction}) % {_UNIT})"


def _difference(left: Parts, right: Parts, writing: Writing) -> Parts:
    (whole, fraction), (other, other_fraction) = left, right
    carry = f"if({fraction} < {other_fraction}, {number(1)}, {number(0)})"
    either = writing.dialect.arithmetic_or_null
    rest = f"(({fraction} - {other_fraction} + {_UNIT}) % {_UNIT})"
    return either("-", either("-", whole, other), carry), rest


def _magnitude(value: Parts, writing: Writing) -> Parts:
    """Writes the absolute value."""
    whole, fraction = value
    opposite, rest = _opposite(value, writing)
    return writing.step(f"if({whole} < 0, {opposite}, {whole})"), writing.step(
        f"if({whole} < 0, {rest}, {fraction})"
    )


def _opposite(value: Parts, writing: Writing) -> Parts:
    whole, fraction = value
    of_integer = writing.dialect.arithmetic_or_null("-", number(0), whole)
    opposite = f"if({fraction} = 0, {of_integer}, {number(-1)} - {whole})"
    return opposite, f"if({fraction} = 0, {fraction}, {_UNIT} - {fraction})"


def _units(value: Parts, writing: Writing) -> tuple[str, str]:
    """Writes a positive number in units, and the number of units per one; NULL if there are too many."""
    whole, fraction = value
    scales, units = [], []
    for scale in _SCALES:
        unit = number(UNIT // scale)
        fits = f"WHEN {fraction} % {unit} = 0 AND {whole} < {number(_MOST_UNITS // scale)}"
        scales.append(f"{fits} THEN {number(scale)}")
        units.append(f"{fits} THEN {whole} * {number(scale)} + {writing.dialect.quotient(fraction, unit)}")
    return writing.step(f"CASE {' '.join(units)} END"), writing.step(f"CASE {' '.join(scales)} END")


def _with_sign(left: Parts, right: Parts, magnitude: Parts, writing: Writing) -> Parts:
    differs = writing.step(f"({left[0]} < 0) <> ({right[0]} < 0)")
    value = writing.step(magnitude[0]), writing.step(magnitude[1])
    opposite, rest = _opposite(value, writing)
    return f"if({differs}, {opposite}, {value[0]})", f"if({differs}, {rest}, {value[1]})"


def _product(left: Parts, right: Parts, writing: Writing) -> Parts:
    """Multiplies two integers, or a number by units: nine digits of the fraction at a time."""
    step, quotient, either = writing.step, writing.dialect.quotient, writing.dialect.arithmetic_or_null
    one, other = _magnitude(left, writing), _magnitude(right, writing)
    units_of_one, scale_of_one = _units(one, writing)
    units_of_other, scale_of_other = _units(other, writing)
    first = step(f"{units_of_other} IS NOT NULL")
    whole, fraction = (step(f"if({first}, {a}, {b})") for a, b in zip(one, other, strict=True))
    units = step(f"if({first}, {units_of_other}, {units_of_one})")
    scale = step(f"if({first}, {scale_of_other}, {scale_of_one})")
    low = step(f"({fraction} % {_BILLION}) * {units}")
    high = step(f"{quotient(fraction, _BILLION)} * {units} + {quotient(low, _BILLION)}")
    scaled = step(either("+", either("*", whole, units), quotient(high, _BILLION)))
    rest = step(f"({high} % {_BILLION}) * {_BILLION} + {low} % {_BILLION}")
    exact = f"CASE WHEN {rest} % {scale} = 0 THEN {quotient(scaled, scale)} END"
    parts = f"({scaled} % {scale}) * {quotient(_UNIT, scale)} + {quotient(rest, scale)}"
    result, part = _with_sign(left, right, (exact, parts), writing)
    are_integers = step(f"{left[1]} = 0 AND {right[1]} = 0")
    plain = either("*", left[0], right[0])
    return f"if({are_integers}, {plain}, {result})", f"if({are_integers}, {number(0)}, {part})"


def _quotient(left: Parts, right: Parts, writing: Writing) -> Parts:
    """Divides by units: first the whole, then nine digits at a time; truncated at 18 digits."""
    step, quotient, either = writing.step, writing.dialect.quotient, writing.dialect.arithmetic_or_null
    whole, fraction = _magnitude(left, writing)
    units, scale = _units(_magnitude(right, writing), writing)
    divisor = step(f"nullif({units}, 0)")
    unit = step(quotient(_UNIT, scale))
    dividend = step(either("+", either("*", whole, scale), quotient(fraction, unit)))
    rest = step(f"({fraction} % {unit}) * {scale}")
    high = step(f"({dividend} % {divisor}) * {_BILLION} + {quotient(rest, _BILLION)}")
    low = step(f"({high} % {divisor}) * {_BILLION} + {rest} % {_BILLION}")
    digits = f"{quotient(high, divisor)} * {_BILLION} + {quotient(low, divisor)}"
    return _with_sign(left, right, (quotient(dividend, divisor), digits), writing)


# Functions of one number


def function(name: str, operand: Operand, writing: Writing) -> Operand:
    """Writes NEGATE, PLUS, ABS, ROUND, CEIL or FLOOR; the result has the type of the number."""
    step, signed = writing.step, operand.cell(SIGNED)
    if name == "NEGATE" and operand.may_be(DATETIME, DURATION):
        writing.doubts.append(f"{operand.kind} BETWEEN {DATETIME:d} AND {DURATION:d}")
    kind = step(f"CASE WHEN {operand.kind} <= {DOUBLE:d} THEN {operand.kind} END")
    whole, fraction = map(step, _applied(name, _exact(operand), writing))
    double = f"CASE WHEN {kind} > {DECIMAL:d} THEN {_applied_to_double(name, signed)} END"
    writing.doubts.append(f"{kind} <= {DECIMAL:d} AND {whole} IS NULL")
    return _number(kind, whole, fraction, step(double), writing)


def _applied(name: str, value: Parts, writing: Writing) -> Parts:
    whole, fraction = value
    match name:
        case "NEGATE":
            return _opposite(value, writing)
        case "ABS":
            return _magnitude(value, writing)
        case "PLUS":
            return value
    least = {"FLOOR": _UNIT, "ROUND": _HALF, "CEIL": number(1)}[name]
    up = f"if({fraction} >= {least}, {number(1)}, {number(0)})"
    return writing.dialect.arithmetic_or_null("+", whole, up), number(0)


def _applied_to_double(name: str, value: str) -> str:
    match name:
        case "NEGATE":
            return f"-({value})"
        case "ABS":
            return f"abs({value})"
        case "PLUS":
            return value
    down = f"CAST(floor({value}) AS DOUBLE)"
    if name == "CEIL":
        result = f"CAST(ceil({value}) AS DOUBLE)"
    elif name == "ROUND":
        result = f"if({value} - {down} >= 0.5, {down} + 1, {down})"
    else:
        result = down
    # A zero keeps the sign of the number.
    return f"if(abs({value}) < {_INTEGRAL}, if({result} = 0, {value} * 0, {result}), {value})"


# Texts


def _decimal(whole: str, fraction: str) -> str:
    """Writes the canonical form of an exact number."""
    is_below = f"{whole} < 0 AND {fraction} > 0"
    integral = f"if({is_below}, -({whole} + 1), {whole})"
    places = f"if({is_below}, {_UNIT} - {fraction}, {fraction})"
    digits = f"regexp_replace(lpad(CAST({places} AS STRING), 18, '0'), '0+$', '')"
    point = f"if({fraction} = 0, '', '.' || {digits})"
    return f"(if({is_below}, '-', '') || CAST({integral} AS STRING) || {point})"


def _text(kind: str, whole: str, fraction: str, double: str, writing: Writing) -> str:
    """Writes the canonical text of a number; NULL for an error."""
    dialect = writing.dialect
    writing.doubts.append(f"{kind} = {FLOAT:d}")
    writing.doubts.append(f"{kind} = {DOUBLE:d} AND NOT ({dialect.is_written(double)})")
    forms = {
        "integer": (INTEGER, f"CAST({whole} AS STRING)"),
        "decimal": (DECIMAL, _decimal(whole, fraction)),
        "double": (DOUBLE, dialect.written(double)),
    }
    cases = (
        f"""WHEN {kind} = {number_:d} THEN '"' || {form} || '"^^<{XSD}{name}>'"""
        for name, (number_, form) in forms.items()
    )
    return f"CASE {' '.join(cases)} END"
