"""The order of ORDER BY, MIN and MAX (SPARQL 1.1 §15.1), completed to a total order.

Owns one order of terms: unbound, then blank nodes, then IRIs, then literals; literals by family (numbers,
strings, tagged strings, booleans, dates and times, durations, the rest), in a family by value. Refuses
nothing: terms that SPARQL leaves unordered get a place. A *rank* is what ORDER BY sees: terms of one value
(1 and 1.0) have one rank, so that its next key decides between them. A *key* is the rank and then whatever
tells terms of one rank apart.
Both exist as tuples, by definition, and as byte strings, which compare fast and take little room. Invariants:
distinct terms have distinct keys, and keys are always comparable; bytes compare as the tuples do, and no
byte string is the beginning of another one, so that a sequence of them compares column by column, also with
the bytes of some of them inverted (descending).
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
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
    XSD,
    Value,
)

OrderKey: TypeAlias = tuple[Any, ...]

_UNBOUND: Final[OrderKey] = (0,)
_MEAN_MONTH_SECONDS: Final = 2_629_746  # of 400 Gregorian years


# Tuples


def order_key(value: Value | None) -> OrderKey:
    """A key for `sorted`: equal for equal terms only, and consistent with `<` where `<` has an answer."""
    rank = rank_key(value)
    if value is None or value.kind >= IRI:
        return rank
    # The kind as well as the datatype: a float comes before a double of the same value.
    return (*rank, int(value.kind), *_literal_key(value))


def rank_key(value: Value | None) -> OrderKey:
    """The same for terms that are equal by value, and for no others."""
    if value is None:
        return _UNBOUND
    kind, content = value.kind, value.value
    if kind == BLANK:
        return (1, content)
    if kind == IRI:
        return (2, content)
    if kind <= DOUBLE:
        # Python compares int, Decimal and float exactly. NaN has no place among them: it comes first.
        return (3, 0, 1, content) if content == content else (3, 0, 0, 0)
    if kind == LANGSTRING:
        return (3, int(kind), content, value.language)
    if kind in (STRING, BOOLEAN):
        return (3, int(kind), content)
    if kind >= OTHER:
        return (3, int(kind), *_literal_key(value))
    if DAY_TIME_DURATION <= kind <= DURATION:
        return (3, int(DAY_TIME_DURATION), _length(value))
    return (3, int(kind), content.instant, content.offset is not None)


def _literal_key(value: Value) -> tuple[str, str, str, str]:
    term = value.term
    assert isinstance(term, Literal), "what is no IRI and no blank node is a literal"
    direction = "" if term.direction is None else term.direction.value
    return (term.datatype.value, term.value, term.language or "", direction)


def _length(value: Value) -> int | Fraction:
    seconds: int | Fraction = value.value.months * _MEAN_MONTH_SECONDS + value.value.seconds
    return seconds


# Bytes: a byte for the family, then the value. Text ends in 00 01, and a 00 inside it is 00 FF.

_IRI_FAMILY: Final = b"\x03"
_BLANK_FAMILY: Final = b"\x02"
_UNBOUND_BYTES: Final = b"\x01"
_NOT_A_NUMBER: Final = b"\x04"
_MINUS_INFINITY: Final = b"\x05"
_NEGATIVE: Final = b"\x06"
_ZERO: Final = b"\x07"
_POSITIVE: Final = b"\x08"
_INFINITY: Final = b"\x09"
_FAMILIES: Final = 0x0A  # strings and what follows them, in the order of kinds
_INVERTED: Final = bytes(range(255, -1, -1))
_NOTHING: Final = b""


def order_bytes(value: Value | None) -> tuple[bytes, bytes]:
    """The rank, and what follows it in the key."""
    if value is None:
        return _UNBOUND_BYTES, _NOTHING
    kind, content = value.kind, value.value
    if kind == IRI:
        return iri_bytes(content), _NOTHING
    if kind == BLANK:
        return blank_bytes(content), _NOTHING
    if kind <= DOUBLE:
        return _number(content), _among_equals(value)
    family = bytes((_FAMILIES + kind - STRING,))
    if kind == STRING:
        return family + _text(content), _NOTHING
    if kind == LANGSTRING:
        return family + _text(content) + _text(value.language), _NOTHING
    if kind == BOOLEAN:
        return family + (b"\x02" if content else b"\x01"), _among_equals(value)
    if kind >= OTHER:
        return family + b"".join(map(_text, _literal_key(value))), _NOTHING
    if DAY_TIME_DURATION <= kind <= DURATION:
        family = bytes((_FAMILIES + DAY_TIME_DURATION - STRING,))
        return family + _number(_length(value)), _among_equals(value)
    zoned = b"\x02" if content.offset is not None else b"\x01"
    return family + _number(content.instant) + zoned, _among_equals(value)


def iri_bytes(iri: str) -> bytes:
    return _IRI_FAMILY + iri.encode() + b"\x00\x01"


def blank_bytes(label: str) -> bytes:
    return _BLANK_FAMILY + label.encode() + b"\x00\x01"


def string_bytes(content: str) -> bytes:
    """Of a simple literal."""
    return b"\x0a" + _text(content)


def descending(rank: bytes) -> bytes:
    """The rank for an order that goes down."""
    return rank.translate(_INVERTED)


def _among_equals(value: Value) -> bytes:
    """All datatypes with values to compare are of XML Schema: the local name tells them apart."""
    datatype, lexical, _, _ = _literal_key(value)
    return bytes((value.kind + 1,)) + _text(datatype.removeprefix(XSD)) + _text(lexical)


def _text(content: str) -> bytes:
    return content.encode().replace(b"\x00", b"\x00\xff") + b"\x00\x01"


def _number(number: int | Decimal | float | Fraction) -> bytes:
    """Sign, decimal exponent, and the digits in pairs: exact, whatever the type."""
    if isinstance(number, float):
        if number != number:
            return _NOT_A_NUMBER
        if number in (float("inf"), float("-inf")):
            return _INFINITY if number > 0 else _MINUS_INFINITY
    if number == 0:
        return _ZERO
    digits, exponent = _decimal(number)
    if len(digits) % 2:
        digits += "0"
    pairs = bytes([int(digits[place : place + 2]) + 1 for place in range(0, len(digits), 2)])
    magnitude = _exponent(exponent) + pairs + b"\x00"
    return _POSITIVE + magnitude if number > 0 else _NEGATIVE + magnitude.translate(_INVERTED)


def _decimal(number: int | Decimal | float | Fraction) -> tuple[str, int]:
    """The digits without zeros at the end, and the exponent of the first one."""
    if isinstance(number, int):
        text = str(abs(number))
        return text.rstrip("0"), len(text) - 1
    if isinstance(
        number, Fraction
    ):  # of seconds, written in decimals: the denominator divides a power of ten
        places = 1
        while 10**places % number.denominator:
            places += 1
        text = str(abs(number.numerator) * (10**places // number.denominator))
        return text.rstrip("0"), len(text) - 1 - places
    exact = Decimal(number)
    text = "".join(map(str, exact.as_tuple().digits))
    return text.rstrip("0"), exact.adjusted()


def _exponent(exponent: int) -> bytes:
    """One byte for all but the rarest."""
    if -126 <= exponent <= 126:
        return bytes((exponent + 128,))
    mark = b"\xff" if exponent > 0 else b"\x01"
    return mark + (exponent + 2**62).to_bytes(8, "big")
