"""The order of ORDER BY, MIN and MAX (SPARQL 1.1 §15.1), completed to a total order.

Owns one sort key per term: unbound, then blank nodes, then IRIs, then literals; literals by family (numbers,
strings, tagged strings, booleans, dates and times, durations, the rest), in a family by value. Refuses
nothing: terms that SPARQL leaves unordered get a place.
Invariant: distinct terms have distinct keys, and keys are always comparable, whatever the terms.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from pyoxigraph import Literal

from sparqlive.sparql.values import (
    BLANK,
    BOOLEAN,
    DAY_TIME_DURATION,
    DOUBLE,
    DURATION,
    IRI,
    LANGSTRING,
    OTHER,
    STRING,
    Value,
)

OrderKey: TypeAlias = tuple[Any, ...]

_UNBOUND: Final[OrderKey] = (0,)
_MEAN_MONTH_SECONDS: Final = 2_629_746  # of 400 Gregorian years


def order_key(value: Value | None) -> OrderKey:
    """A key for `sorted`: equal for equal terms only, and consistent with `<` where `<` has an answer."""
    if value is None:
        return _UNBOUND
    kind = value.kind
    if kind == BLANK:
        return (1, value.value)
    if kind == IRI:
        return (2, value.value)
    term = value.term
    assert isinstance(term, Literal), "what is no IRI and no blank node is a literal"
    # The kind as well as the datatype: a float comes before a double of the same value.
    return (3, *_by_value(value), int(kind), term.datatype.value, term.value, term.language or "")


def _by_value(value: Value) -> tuple[Any, ...]:
    kind, content = value.kind, value.value
    if kind <= DOUBLE:
        # Python compares int, Decimal and float exactly. NaN has no place among them: it comes first.
        return (0, 1, content) if content == content else (0, 0, 0)
    if kind in (STRING, LANGSTRING, BOOLEAN):
        return (int(kind), content)
    if kind >= OTHER:
        return (int(kind),)
    if DAY_TIME_DURATION <= kind <= DURATION:
        return (int(DAY_TIME_DURATION), content.months * _MEAN_MONTH_SECONDS + content.seconds)
    return (int(kind), content.instant, content.offset is not None)
