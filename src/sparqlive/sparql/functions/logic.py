"""Truth, equality and order of values: the comparison operators of SPARQL 1.1 §17.3.

Defines the effective boolean value, and `=` and `<` for any two values. What the operator table does not
cover is an error: literals with an unknown value, and order between different families. Invariant: `!=` is
the negation of `=`, and both are an error for the same arguments.

Beyond the table (allowed by §17.3.1): literals of two known, different families are unequal instead of an
error; language-tagged strings of the same tag are ordered; dates, times and durations are compared.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from sparqlive.sparql.moments import compare_durations, compare_moments
from sparqlive.sparql.values import (
    BOOLEAN,
    DATETIME,
    DAY_TIME_DURATION,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    ILL_TYPED,
    IRI,
    LANGSTRING,
    OTHER,
    STRING,
    TIME,
    ExpressionError,
    Value,
    declared_kind,
    to_double,
    to_single,
)


def effective_boolean(value: Value) -> bool:
    """Returns the effective boolean value (§17.2.2).

    An ill-formed boolean or number is false, not an error; NaN is false.
    """
    kind = value.kind
    if kind == BOOLEAN:
        truth: bool = value.value
        return truth
    if kind <= LANGSTRING:
        content = value.value
        return bool(content) and content == content
    if kind == ILL_TYPED:
        declared = declared_kind(value)
        if declared <= DOUBLE or declared == BOOLEAN:
            return False
    raise ExpressionError("A value without a truth value")


def promote(left: Value, right: Value) -> tuple[Any, Any]:
    """Converts two numbers, one of them floating point, to their common type (XPath 2.0, appendix B.1)."""
    if left.kind <= FLOAT and right.kind <= FLOAT:
        return to_single(to_double(left.value)), to_single(to_double(right.value))
    return to_double(left.value), to_double(right.value)


def equals(left: Value, right: Value) -> bool:
    """`=`: by value if the values are known, else RDFterm-equal (§17.4.1.7)."""
    first, second = left.kind, right.kind
    if first <= DOUBLE and second <= DOUBLE:
        if first <= DECIMAL and second <= DECIMAL:
            return bool(left.value == right.value)
        one, other = promote(left, right)
        return bool(one == other)
    if first > ILL_TYPED or second > ILL_TYPED:  # an IRI or a blank node equals only itself
        return first == second and bool(left.value == right.value)
    if first == LANGSTRING or second == LANGSTRING:  # no other datatype has such values
        return first == second and bool(left.value == right.value) and left.language == right.language
    if first >= OTHER or second >= OTHER:
        if left.term == right.term:
            return True
        raise ExpressionError("Different literals, of which one has no known value")
    if DATETIME <= first <= TIME and first == second:
        return _determined(compare_moments(left.value, right.value)) == 0
    if DAY_TIME_DURATION <= first <= DURATION and DAY_TIME_DURATION <= second <= DURATION:
        return bool(left.value == right.value)
    return first == second and bool(left.value == right.value)


def differs(left: Value, right: Value) -> bool:
    return not equals(left, right)


def _determined(order: int | None) -> int:
    if order is None:
        raise ExpressionError("The order depends on a timezone or on the length of a month")
    return order


def _ordering(relation: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    """Returns one of `< > <= >=`. Each uses Python's relation on the values, so all are False for NaN."""

    def compare(left: Value, right: Value) -> bool:
        first, second = left.kind, right.kind
        if first <= DOUBLE and second <= DOUBLE:
            if first <= DECIMAL and second <= DECIMAL:
                return relation(left.value, right.value)
            return relation(*promote(left, right))
        if first == second:
            if first in (STRING, BOOLEAN):
                return relation(left.value, right.value)
            if DATETIME <= first <= TIME:
                return relation(_determined(compare_moments(left.value, right.value)), 0)
            if first == LANGSTRING and left.language == right.language:
                return relation(left.value, right.value)
        if DAY_TIME_DURATION <= first <= DURATION and DAY_TIME_DURATION <= second <= DURATION:
            return relation(_determined(compare_durations(left.value, right.value)), 0)
        raise ExpressionError("No order between these values")

    return compare


COMPARISONS: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "=": equals,
    "!=": differs,
    "<": _ordering(operator.lt),
    ">": _ordering(operator.gt),
    "<=": _ordering(operator.le),
    ">=": _ordering(operator.ge),
}

RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison that means the same with its sides exchanged."""


def same_term(left: Value, right: Value) -> bool:
    return left.kind == right.kind and left.term == right.term


def is_iri(value: Value) -> bool:
    return value.kind == IRI


def is_blank(value: Value) -> bool:
    return value.kind > IRI


def is_literal(value: Value) -> bool:
    return value.kind <= ILL_TYPED


def is_numeric(value: Value) -> bool:
    return value.kind <= DOUBLE
