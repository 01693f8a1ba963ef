"""The order of ORDER BY, MIN and MAX (SPARQL 1.1 §15.1), completed to a total order.

Unbound comes first, then blank nodes, IRIs and literals. Literals are ordered by family (numbers, strings,
tagged strings, booleans, dates and times, durations, others), and within a family by value. Terms that SPARQL
leaves unordered have a position, too. A *rank* is what ORDER BY compares: terms with equal values (1 and 1.0)
have the same rank, so the next sort key decides between them. A *key* is the rank and a tie-breaker among
terms of the same rank. Both exist as tuples, which define them, and as byte strings, which are fast and
small. Invariants: distinct terms have distinct keys, and keys are always comparable. Bytes compare like the
tuples, and no byte string is a prefix of another, so a sequence of them compares column by column, even if
some are inverted (descending).
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
    INTEGER,
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
    """Returns a key for `sorted`: equal only for equal terms, and consistent with `<` where it is defined."""
    rank = rank_key(value)
    if value is None or value.kind >= IRI:
        return rank
    # Includes the kind: a float comes before a double of the same value.
    return (*rank, int(value.kind), *_literal_key(value))


def rank_key(value: Value | None) -> OrderKey:
    """Returns a rank: the same for terms that are equal by value, and only for these."""
    if value is None:
        return _UNBOUND
    kind, content = value.kind, value.value
    if kind == BLANK:
        return (1, content)
    if kind == IRI:
        return (2, content)
    if kind <= DOUBLE:
        # Python compares int, Decimal and float exactly. NaN is not comparable: it comes first.
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


# Bytes: one byte for the family, then the value. Text ends with 00 01, and a 00 inside it becomes 00 FF.

_IRI_FAMILY: Final = b"\x03"
_BLANK_FAMILY: Final = b"\x02"
_UNBOUND_BYTES: Final = b"\x01"
_NOT_A_NUMBER: Final = b"\x04"
_MINUS_INFINITY: Final = b"\x05"
_NEGATIVE: Final = b"\x06"
_ZERO: Final = b"\x07"
_POSITIVE: Final = b"\x08"
_INFINITY: Final = b"\x09"
_FAMILIES: Final = 0x0A  # strings and later kinds, in the order of kinds
_INVERTED: Final = bytes(range(255, -1, -1))
_NOTHING: Final = b""
_INTEGER_REST: Final = bytes((INTEGER + 1,)) + b"integer\x00\x01"


def order_bytes(value: Value | None) -> tuple[bytes, bytes]:
    """Returns the rank, and the rest of the key."""
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
    """Returns the rank of a simple literal."""
    return b"\x0a" + _text(content)


def natural_bytes(digits: str) -> tuple[bytes, bytes]:
    """Returns the rank of an xsd:integer without a sign and leading zeros, and the rest of its key."""
    rest = _INTEGER_REST + digits.encode() + b"\x00\x01"
    significant = digits.rstrip("0")
    return _magnitude(_POSITIVE, significant, len(digits) - 1) if significant else _ZERO, rest


def descending(rank: bytes) -> bytes:
    """Inverts a rank for descending order."""
    return rank.translate(_INVERTED)


def _among_equals(value: Value) -> bytes:
    """All datatypes with comparable values are from XML Schema: the local name distinguishes them."""
    datatype, lexical, _, _ = _literal_key(value)
    return bytes((value.kind + 1,)) + _text(datatype.removeprefix(XSD)) + _text(lexical)


def _text(content: str) -> bytes:
    return content.encode().replace(b"\x00", b"\x00\xff") + b"\x00\x01"


def _number(number: int | Decimal | float | Fraction) -> bytes:
    """Encodes sign, decimal exponent and pairs of digits: exact for every type."""
    if isinstance(number, float):
        if number != number:
            return _NOT_A_NUMBER
        if number in (float("inf"), float("-inf")):
            return _INFINITY if number > 0 else _MINUS_INFINITY
    if number == 0:
        return _ZERO
    digits, exponent = _decimal(number)
    if number > 0:
        return _magnitude(_POSITIVE, digits, exponent)
    return _NEGATIVE + _magnitude(_NOTHING, digits, exponent).translate(_INVERTED)


def _magnitude(start: bytes, digits: str, exponent: int) -> bytes:
    """Encodes the exponent of the first digit, and the digits, which have no zeros at their end."""
    if len(digits) % 2:
        digits += "0"
    pairs = bytes([int(digits[place : place + 2]) + 1 for place in range(0, len(digits), 2)])
    return b"".join((start, _exponent(exponent), pairs, b"\x00"))


def _decimal(number: int | Decimal | float | Fraction) -> tuple[str, int]:
    """Returns the digits without trailing zeros, and the exponent of the first digit."""
    if isinstance(number, int):
        text = str(abs(number))
        return text.rstrip("0"), len(text) - 1
    if isinstance(number, Fraction):  # seconds: the denominator divides a power of ten
        places = 1
        while 10**places % number.denominator:
            places += 1
        text = str(abs(number.numerator) * (10**places // number.denominator))
        return text.rstrip("0"), len(text) - 1 - places
    exact = Decimal(number)
    text = "".join(map(str, exact.as_tuple().digits))
    return text.rstrip("0"), exact.adjusted()


def _exponent(exponent: int) -> bytes:
    """Encodes an exponent: one byte for all but the rarest."""
    if -126 <= exponent <= 126:
        return bytes((exponent + 128,))
    mark = b"\xff" if exponent > 0 else b"\x01"
    return mark + (exponent + 2**62).to_bytes(8, "big")
