"""RDF terms with their values: what expressions compute with.

Maps the lexical forms of literals to Python values and back, and defines the kinds of values that SPARQL's
operators distinguish (§17.1). A literal of an unknown datatype is OTHER; a literal with an invalid lexical
form is ILL_TYPED. The operators decide what to do with these. Invariants: a value created from a term keeps
that term, including its lexical form; a computed value has the canonical form. A computed number has at most
`MAXIMUM_DIGITS` digits and a computed string at most `MAXIMUM_CHARACTERS` characters; longer ones are errors,
because a short query that keeps doubling a value would exhaust the memory. Strings in the data may be
longer; longer numbers in the data count as ILL_TYPED.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, Overflow, Subnormal
from enum import IntEnum
from typing import Any, Final

from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.sparql import moments
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.moments import Duration, Moment

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
MAXIMUM_DIGITS: Final = 4000  # Python does not parse or format integers of more than 4300
MAXIMUM_CHARACTERS: Final = 2**20  # a thousand rows of such strings take a gigabyte
_INTEGER_BOUND: Final = 10**MAXIMUM_DIGITS

# Sums and products of decimals are exact: the default context would round them to 28 digits.
EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BOUNDED: Final = Context(
    prec=MAXIMUM_DIGITS, Emax=MAXIMUM_DIGITS, Emin=-MAXIMUM_DIGITS, traps=[Inexact, Overflow, Subnormal]
)


class ExpressionError(Exception):
    """SPARQL's "error": the expression has no value for this row. Filters and BIND catch it."""


class Kind(IntEnum):
    """Ordered so that one comparison recognises a family: exact numbers, numbers, literals."""

    INTEGER = 0
    DECIMAL = 1
    FLOAT = 2
    DOUBLE = 3
    STRING = 4
    LANGSTRING = 5
    BOOLEAN = 6
    DATETIME = 7
    DATE = 8
    TIME = 9
    DAY_TIME_DURATION = 10
    YEAR_MONTH_DURATION = 11
    DURATION = 12
    OTHER = 13
    ILL_TYPED = 14
    IRI = 15
    BLANK = 16


INTEGER: Final = Kind.INTEGER
DECIMAL: Final = Kind.DECIMAL
FLOAT: Final = Kind.FLOAT
DOUBLE: Final = Kind.DOUBLE
STRING: Final = Kind.STRING
LANGSTRING: Final = Kind.LANGSTRING
BOOLEAN: Final = Kind.BOOLEAN
DATETIME: Final = Kind.DATETIME
DATE: Final = Kind.DATE
TIME: Final = Kind.TIME
DAY_TIME_DURATION: Final = Kind.DAY_TIME_DURATION
YEAR_MONTH_DURATION: Final = Kind.YEAR_MONTH_DURATION
DURATION: Final = Kind.DURATION
OTHER: Final = Kind.OTHER
ILL_TYPED: Final = Kind.ILL_TYPED
IRI: Final = Kind.IRI
BLANK: Final = Kind.BLANK


class Value:
    """A term and its value.

    `value` is an int, Decimal, float, bool, str (for strings, IRIs, blank node labels and literals without a
    known value), Moment or Duration, depending on `kind`. The term of a computed value is created on first
    use, because most values are only compared. Equality is that of terms, not of values.
    """

    __slots__ = ("_term", "kind", "value")

    def __init__(self, kind: Kind, value: Any, term: Term | None = None) -> None:
        self.kind = kind
        self.value = value
        self._term = term

    @property
    def term(self) -> Term:
        term = self._term
        if term is None:
            term = Literal(lexical_form(self.kind, self.value), datatype=_DATATYPES[self.kind])
            self._term = term
        return term

    @property
    def is_computed(self) -> bool:
        """Whether the value has no term yet; it will have the canonical form."""
        return self._term is None

    @property
    def lexical(self) -> str:
        """What STR returns: the IRI, the lexical form, or a blank node's label."""
        return self.term.value

    @property
    def language(self) -> str:
        """What LANG returns: empty without a tag."""
        if self.kind is STRING:
            return ""
        term = self.term
        return (term.language or "") if isinstance(term, Literal) else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.term == other.term

    def __hash__(self) -> int:
        return hash(self.term)

    def __repr__(self) -> str:
        return f"Value({self.term})"


# From terms


def value_of(term: Term) -> Value:
    """Returns the value of a term. The value keeps the term."""
    if isinstance(term, Literal):
        if term.language is not None:
            # SPARQL 1.1's functions cannot keep a base direction (RDF 1.2).
            return Value(LANGSTRING if term.direction is None else OTHER, term.value, term)
        known = _READERS.get(term.datatype.value)
        text = term.value
        if known is None:
            return Value(OTHER, text, term)
        kind, read = known
        value = read(text)
        return Value(ILL_TYPED, text, term) if value is None else Value(kind, value, term)
    if isinstance(term, NamedNode):
        return Value(IRI, term.value, term)
    if isinstance(term, BlankNode):
        return Value(BLANK, term.value, term)
    raise TypeError(f"Not an IRI, a blank node or a literal: {term!r}")


_INTEGER_FORM = re.compile(r"[+-]?[0-9]+")
_DECIMAL_FORM = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE_FORM = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL_DOUBLES = {"INF": float("inf"), "+INF": float("inf"), "-INF": float("-inf"), "NaN": float("nan")}
_BOOLEAN_FORMS = {"true": True, "1": True, "false": False, "0": False}


def read_integer(text: str) -> int | None:
    if len(text) > MAXIMUM_DIGITS + 1 or _INTEGER_FORM.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_INTEGER_BOUND < number < _INTEGER_BOUND else None


def read_decimal(text: str) -> Decimal | None:
    if len(text) > 2 * MAXIMUM_DIGITS + 3 or _DECIMAL_FORM.fullmatch(text) is None:
        return None
    number = Decimal(text)
    return number if _is_bounded(number) else None


def _is_bounded(number: Decimal) -> bool:
    """Whether it has at most `MAXIMUM_DIGITS` digits, and at most as many zeros before or after them."""
    try:
        _BOUNDED.plus(number)
    except (Inexact, Overflow, Subnormal):
        return False
    return True


def read_double(text: str) -> float | None:
    special = _SPECIAL_DOUBLES.get(text)
    if special is not None:
        return special
    return float(text) if _DOUBLE_FORM.fullmatch(text) is not None else None


def read_float(text: str) -> float | None:
    number = read_double(text)
    return None if number is None else to_single(number)


def _read_stamp(text: str) -> Moment | None:
    moment = moments.parse_date_time(text)
    return None if moment is None or moment.offset is None else moment


def _read_between(minimum: int | None, maximum: int | None) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        number = read_integer(text)
        if number is None or (minimum is not None and number < minimum):
            return None
        return None if maximum is not None and number > maximum else number

    return read


_INTEGER_RANGES: Final[dict[str, tuple[int | None, int | None]]] = {
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}


def integer_bounds() -> dict[str, tuple[int | None, int | None]]:
    """Returns the bounds of the types derived from xsd:integer, by their local names."""
    return dict(_INTEGER_RANGES)


_READERS: Final[dict[str, tuple[Kind, Callable[[str], Any]]]] = {
    XSD + "string": (STRING, str),
    XSD + "boolean": (BOOLEAN, _BOOLEAN_FORMS.get),
    XSD + "integer": (INTEGER, read_integer),
    XSD + "decimal": (DECIMAL, read_decimal),
    XSD + "float": (FLOAT, read_float),
    XSD + "double": (DOUBLE, read_double),
    XSD + "dateTime": (DATETIME, moments.parse_date_time),
    XSD + "dateTimeStamp": (DATETIME, _read_stamp),
    XSD + "date": (DATE, moments.parse_date),
    XSD + "time": (TIME, moments.parse_time),
    XSD + "dayTimeDuration": (DAY_TIME_DURATION, moments.parse_day_time_duration),
    XSD + "yearMonthDuration": (YEAR_MONTH_DURATION, moments.parse_year_month_duration),
    XSD + "duration": (DURATION, moments.parse_duration),
    **{XSD + name: (INTEGER, _read_between(*bounds)) for name, bounds in _INTEGER_RANGES.items()},
}


def declared_kind(value: Value) -> Kind:
    """Returns the kind of a literal's datatype, whatever its lexical form; OTHER if unknown."""
    term = value.term
    known = _READERS.get(term.datatype.value) if isinstance(term, Literal) else None
    return OTHER if known is None else known[0]


# From Python values


def integer(number: int) -> Value:
    if not -_INTEGER_BOUND < number < _INTEGER_BOUND:
        raise ExpressionError(f"An integer of more than {MAXIMUM_DIGITS} digits")
    return Value(INTEGER, number)


def decimal(number: Decimal) -> Value:
    if not _is_bounded(number):
        raise ExpressionError(f"A decimal of more than {MAXIMUM_DIGITS} digits")
    return Value(DECIMAL, number)


def single(number: float) -> Value:
    """Returns an xsd:float: the number rounded to single precision."""
    return Value(FLOAT, to_single(number))


def double(number: float) -> Value:
    return Value(DOUBLE, number)


def string(text: str) -> Value:
    if len(text) > MAXIMUM_CHARACTERS:
        raise text_too_long()
    return Value(STRING, text)


def text_too_long() -> ExpressionError:
    return ExpressionError(f"A string of more than {MAXIMUM_CHARACTERS} characters")


def language_string(text: str, language: str) -> Value:
    """Returns a language-tagged string; with an empty tag, a simple literal."""
    if not language:
        return string(text)
    if len(text) > MAXIMUM_CHARACTERS:
        raise text_too_long()
    try:
        return Value(LANGSTRING, text, Literal(text, language=language))
    except ValueError as problem:
        raise ExpressionError(f"Not a language tag: {language[:100]}") from problem


def iri(text: str) -> Value:
    if len(text) > MAXIMUM_CHARACTERS:
        raise text_too_long()
    try:
        return Value(IRI, text, NamedNode(text))
    except ValueError as problem:
        raise ExpressionError(f"Not an absolute IRI: {text[:100]}") from problem


def date_time(moment: Moment) -> Value:
    return Value(DATETIME, moment)


def day_time_duration(seconds: moments.Seconds) -> Value:
    return Value(DAY_TIME_DURATION, Duration(0, seconds))


TRUE: Final = Value(BOOLEAN, True, Literal(True))
FALSE: Final = Value(BOOLEAN, False, Literal(False))


def boolean(truth: bool) -> Value:
    return TRUE if truth else FALSE


# Floating point


def to_single(number: float) -> float:
    """Rounds to single precision; too large numbers become infinite (IEEE 754)."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return rounded


def to_double(number: float | Decimal) -> float:
    """Converts an int, a Decimal or a float by rounding; too large numbers become infinite.

    A decimal has no negative zero.
    """
    if not number and isinstance(number, Decimal):
        return 0.0
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


# Canonical lexical forms


def _double_form(number: float) -> str:
    return _special_form(number) or _plain_float(repr(number))


def _float_form(number: float) -> str:
    return _special_form(number) or _plain_float(_shortest_single(number))


def _shortest_single(number: float) -> str:
    for digits in range(1, 10):  # nine digits always distinguish two singles
        text = format(number, f".{digits}g")
        if to_single(float(text)) == number:
            break
    return text


def cast_form(kind: Kind, number: float) -> str:
    """Returns the string that a float or double is cast to (F&O §17.1.2).

    Outside of 0.000001 to 1000000, it has one digit, a fraction and an exponent, such as `1.0E6`.
    """
    if not math.isfinite(number) or number == 0 or 1e-6 <= abs(number) < 1e6:
        return lexical_form(kind, number)
    shortest = _shortest_single(number) if kind is FLOAT else repr(number)
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def _special_form(number: float) -> str | None:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "INF" if number > 0 else "-INF"
    return None


def _plain_float(text: str) -> str:
    if text.startswith("-"):  # keeps the sign of a negative zero
        return "-" + moments.plain(Decimal(text[1:]))
    return moments.plain(Decimal(text))


_WRITERS: Final[dict[Kind, Callable[[Any], str]]] = {
    INTEGER: str,
    DECIMAL: moments.plain,
    FLOAT: _float_form,
    DOUBLE: _double_form,
    STRING: str,
    BOOLEAN: lambda truth: "true" if truth else "false",
    DATETIME: moments.date_time_form,
    DATE: moments.date_form,
    TIME: moments.time_form,
    DAY_TIME_DURATION: moments.day_time_form,
    YEAR_MONTH_DURATION: moments.year_month_form,
    DURATION: moments.duration_form,
}

_DATATYPES: Final[dict[Kind, NamedNode]] = {
    INTEGER: NamedNode(XSD + "integer"),
    DECIMAL: NamedNode(XSD + "decimal"),
    FLOAT: NamedNode(XSD + "float"),
    DOUBLE: NamedNode(XSD + "double"),
    STRING: NamedNode(XSD + "string"),
    BOOLEAN: NamedNode(XSD + "boolean"),
    DATETIME: NamedNode(XSD + "dateTime"),
    DATE: NamedNode(XSD + "date"),
    TIME: NamedNode(XSD + "time"),
    DAY_TIME_DURATION: NamedNode(XSD + "dayTimeDuration"),
    YEAR_MONTH_DURATION: NamedNode(XSD + "yearMonthDuration"),
    DURATION: NamedNode(XSD + "duration"),
}


def lexical_form(kind: Kind, value: Any) -> str:
    """Returns the canonical lexical form; numbers have no exponent."""
    return _WRITERS[kind](value)
