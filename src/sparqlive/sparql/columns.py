"""The typed columns of a term, so that SQL can compare, add and order terms without parsing their texts.

`typed_value` defines these columns; `typed` computes them for a column of texts. An exact number is two
64-bit integers: `whole`, the greatest integer that is not greater, and `fraction`, the rest in units of 10 **
-18. Their sums and comparisons are exact on every backend. A decimal type would not be exact, because Spark
rounds the product of a wide decimal and a weight. Numbers that do not fit have no `whole` and are handled in
Python. Invariants: a column is NULL where it does not apply; equal texts have equal columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparqlive.rdf.dictionary import term_of
from sparqlive.sparql.functions.logic import effective_boolean
from sparqlive.sparql.values import (
    BLANK,
    BOOLEAN,
    DATE,
    DATETIME,
    DECIMAL,
    DOUBLE,
    EXACT,
    FLOAT,
    INTEGER,
    IRI,
    LANGSTRING,
    STRING,
    TIME,
    XSD,
    ExpressionError,
    Kind,
    Value,
    integer_bounds,
    lexical_form,
    to_double,
    value_of,
)

UNIT: Final = 10**18
"""The number of units of `fraction` in one."""
NEGATIVE_ZERO: Final = "-0"
"""The `content` of a floating point zero with a sign."""
PLACES: Final = 18
_LONGEST_INSTANT: Final = 4 * 10**18  # so that the difference of two fits in 64 bits
_MICROSECONDS: Final = 10**6


class Typed(NamedTuple):
    """The columns of one term."""

    kind: int
    """A `Kind`."""
    whole: int | None = None
    """Of an integer or a decimal: the greatest integer not above it; NULL if the number does not fit."""
    fraction: int | None = None
    """The rest, in units of 10 ** -18."""
    nearest: float | None = None
    """Of any number: the nearest double; zero is positive here. Of a date or time: its whole seconds."""
    instant: int | None = None
    """Of a date-time, date or time: microseconds on the UTC timeline. A missing timezone counts as UTC."""
    zone: int | None = None
    """The offset from UTC in minutes; NULL without a timezone."""
    truth: bool | None = None
    """The effective boolean value; NULL for an error."""
    language: str | None = None
    """The tag of a language-tagged string."""
    content: str | None = None
    """The characters of a string whose text has escapes, or the form of a number that the columns before do
    not say: an exact one that does not fit in `whole`, or a negative zero.

    The content of other strings can be read from the text.
    """


SCHEMA: Final = pa.schema(
    [
        ("kind", pa.int8()),
        ("whole", pa.int64()),
        ("fraction", pa.int64()),
        ("nearest", pa.float64()),
        ("instant", pa.int64()),
        ("zone", pa.int16()),
        ("truth", pa.bool_()),
        ("language", pa.string()),
        ("content", pa.string()),
    ]
)
NAMES: Final = tuple(SCHEMA.names)
assert Typed._fields == NAMES
VERSION: Final = "1"
"""The version of the typed columns. A reader ignores those of another version and computes them again."""
_VERSION_KEY: Final = b"sparqlive.typed"
TERM_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("term", pa.large_string(), nullable=False),
        *SCHEMA,
    ],
    metadata={_VERSION_KEY: VERSION.encode()},
)
"""Terms with their ids and typed columns."""
REPEATING: Final = ("kind", "zone", "language")
"""Columns with few values, for which a file has a dictionary."""


def term_table(ids: pa.Array, texts: pa.Array) -> pa.Table:
    """Terms with their ids and typed columns."""
    return pa.Table.from_arrays([ids, texts, *typed(texts).flatten()], schema=TERM_SCHEMA)


def entry_table(entries: Iterable[tuple[int, str]]) -> pa.Table:
    """The same for ids and texts one by one."""
    rows = list(entries)
    texts = pa.array([text for _, text in rows], pa.large_string())
    return term_table(pa.array([number for number, _ in rows], pa.int64()), texts)


def has_types(schema: pa.Schema) -> bool:
    """Whether a table of terms has the typed columns of this version."""
    return (schema.metadata or {}).get(_VERSION_KEY) == VERSION.encode() and set(NAMES) <= set(schema.names)


# The definition


def typed_value(value: Value) -> Typed:
    kind, content = value.kind, value.value
    truth = _truth(value)
    if kind <= DOUBLE:
        nearest = to_double(content) + 0.0
        if kind > DECIMAL:
            is_negative_zero = content == 0 and math.copysign(1.0, content) < 0
            return Typed(
                kind, nearest=nearest, truth=truth, content=NEGATIVE_ZERO if is_negative_zero else None
            )
        whole, fraction = exact_parts(content)
        form = lexical_form(kind, content) if whole is None else None
        return Typed(kind, whole, fraction, nearest, truth=truth, content=form)
    if kind in (STRING, LANGSTRING):
        language = value.language if kind == LANGSTRING else None
        return Typed(
            kind, truth=truth, language=language, content=content if "\\" in str(value.term) else None
        )
    if DATETIME <= kind <= TIME:
        exact = content.instant * _MICROSECONDS
        instant = int(exact) if exact == int(exact) and abs(exact) <= _LONGEST_INSTANT else None
        seconds = to_double(content.instant // 1)
        return Typed(kind, nearest=seconds, instant=instant, zone=content.offset, truth=truth)
    return Typed(kind, truth=truth)


def typed_text(text: str) -> Typed:
    """Returns the columns of a term, given its canonical N-Triples form."""
    return typed_value(value_of(term_of(text)))


def exact_parts(number: int | Decimal) -> tuple[int, int] | tuple[None, None]:
    """Returns `whole` and `fraction` of an exact number, if it fits."""
    scaled = EXACT.scaleb(Decimal(number), PLACES)
    if scaled.adjusted() > 40 or scaled != scaled.to_integral_value():
        return None, None
    whole, fraction = divmod(int(scaled), UNIT)
    return (whole, fraction) if -(2**63) <= whole < 2**63 else (None, None)


def _truth(value: Value) -> bool | None:
    try:
        return effective_boolean(value)
    except ExpressionError:
        return None


# By columns

_Rows: TypeAlias = npt.NDArray[np.int64]
_Bits: TypeAlias = npt.NDArray[np.bool_]


def typed(texts: pa.Array) -> pa.Array:
    """Computes the columns of terms, given by their canonical texts, as structs; NULL for NULL."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    columns = _Columns(len(texts))
    if (ending := _shared_datatype(texts)) is not None:
        columns.put_literals(np.arange(len(texts)), texts, ending)
        return columns.result()
    is_iri, is_blank = bits(pc.starts_with(texts, "<")), bits(pc.starts_with(texts, "_"))
    columns.kind[is_iri], columns.kind[is_blank] = IRI, BLANK
    is_string = bits(pc.starts_with(texts, '"')) & bits(pc.ends_with(texts, '"'))
    strings = np.flatnonzero(is_string)
    columns.put_strings(STRING, strings, texts.take(strings), 2)
    others = np.flatnonzero(~(is_iri | is_blank | is_string) & bits(pc.is_valid(texts)))
    columns.put_others(others, texts.take(others))
    return columns.result()


def _shared_datatype(texts: pa.Array) -> str | None:
    """Returns what all texts end with, if it is a datatype. The objects of most predicates share one."""
    if not len(texts) or texts.null_count:
        return None
    first: str = texts[0].as_py()
    ending = first[first.rindex('"') :] if first[0] == '"' else ""
    return ending if ending.endswith(">") and pc.all(pc.ends_with(texts, ending)).as_py() else None


def bits(found: pa.Array) -> _Bits:
    """Which values are true; a null is not."""
    known: _Bits = np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), bool)
    return known


class _Columns:
    """The columns while they are being filled: arrays of numbers, and the few strings by position."""

    def __init__(self, size: int) -> None:
        self.kind: Any = np.full(size, -1, np.int8)
        self.values: dict[str, Any] = {
            name: np.zeros(size, SCHEMA.field(name).type.to_pandas_dtype()) for name in NAMES[1:7]
        }
        self.known: dict[str, _Bits] = {name: np.zeros(size, bool) for name in self.values}
        self.words: dict[str, dict[str, int]] = {"language": {}, "content": {}}
        self.places: dict[str, Any] = {name: np.full(size, -1, np.int32) for name in self.words}

    def put(self, rows: _Rows, kind: Kind, **values: Any) -> None:
        self.kind[rows] = kind
        for name, column in values.items():
            self.values[name][rows] = column
            self.known[name][rows] = True

    def put_one_by_one(self, rows: _Rows, texts: pa.Array) -> None:
        for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True):
            found = typed_text(text)
            self.kind[row] = found.kind
            for name in self.values:
                value = getattr(found, name)
                if value is not None:
                    self.values[name][row], self.known[name][row] = value, True
            for name, words in self.words.items():
                word = getattr(found, name)
                if word is not None:
                    self.places[name][row] = words.setdefault(word, len(words))

    def put_strings(self, kind: Kind, rows: _Rows, texts: pa.Array, marks: int) -> None:
        """Adds strings. A text has `marks` characters besides its content."""
        escaped = bits(pc.match_substring(texts, "\\"))
        self.put_one_by_one(rows[escaped], texts.filter(pa.array(escaped)))
        self.put(rows[~escaped], kind, truth=np.asarray(pc.binary_length(texts))[~escaped] > marks)

    def put_others(self, rows: _Rows, texts: pa.Array) -> None:
        """Adds literals with a datatype or a language tag, one datatype or tag at a time."""
        if not len(rows):
            return
        parts = pc.split_pattern(texts, pattern='"', max_splits=1, reverse=True).flatten()
        halves = np.arange(len(rows), dtype=np.int64) * 2
        endings = parts.take(pa.array(halves + 1)).dictionary_encode()
        codes = endings.indices.to_numpy()
        for code, ending in enumerate(endings.dictionary.to_pylist()):
            places = np.flatnonzero(codes == code)
            own = rows[places]
            if ending[0] == "@" and "--" not in ending:
                language = self.words["language"]
                self.places["language"][own] = language.setdefault(ending[1:], len(language))
                self.put_strings(LANGSTRING, own, texts.take(places), 2 + len(ending))
                continue
            self.put_literals(own, texts.take(places), f'"{ending}')

    def put_literals(self, rows: _Rows, texts: pa.Array, ending: str) -> None:
        """Adds literals of one datatype: all texts have the same ending, from the quotation mark on."""
        read = _READERS.get(ending[4:-1].removeprefix(XSD))
        done = np.zeros(len(rows), bool)
        if read is not None:
            encoded = texts.cast(pa.large_binary())  # slicing bytes costs a fifth of slicing strings
            lexical = pc.binary_slice(encoded, 1, -len(ending.encode())).cast(pa.large_string())
            done = read(self, rows, lexical)
        if not done.all():
            self.put_one_by_one(rows[~done], texts.filter(pa.array(~done)))

    def result(self) -> pa.Array:
        kind = pa.array(self.kind, pa.int8(), mask=self.kind < 0)
        numbers = [
            pa.array(self.values[name], SCHEMA.field(name).type, mask=~known)
            for name, known in self.known.items()
        ]
        words = [_looked_up(self.places[name], list(self.words[name])) for name in self.words]
        return pa.StructArray.from_arrays([kind, *numbers, *words], fields=list(SCHEMA))


def _looked_up(places: Any, words: list[str]) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(places, mask=places < 0))


# Readers of whole columns, by datatype. A reader returns which rows it could read: those in the usual forms.

_Reader: TypeAlias = Callable[[_Columns, _Rows, pa.Array], _Bits]
_INTEGER_FORM = r"^[+-]?[0-9]{1,18}$"
_DECIMAL_FORM = r"^(?P<sign>[+-]?)(?P<whole>[0-9]{1,18})(?:\.(?P<part>[0-9]{1,18}))?$"
_DOUBLE_FORM = r"^[+-]?[0-9]{1,17}(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?$"
_DAY_FORM = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_ZONE_FORM = r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"


def _matched(lexical: pa.Array, form: str) -> tuple[_Bits, pa.Array]:
    found = bits(pc.match_substring_regex(lexical, form))
    return found, lexical.filter(pa.array(found))


def _unsigned(lexical: pa.Array) -> pa.Array:
    """Removes a plus sign, which Arrow does not parse."""
    return pc.utf8_ltrim(lexical, "+")


def _integers(minimum: int | None, maximum: int | None) -> _Reader:
    def read(columns: _Columns, rows: _Rows, lexical: pa.Array) -> _Bits:
        if pc.all(pc.ascii_is_decimal(lexical)).as_py() and pc.max(pc.binary_length(lexical)).as_py() <= 18:
            done, texts = np.ones(len(lexical), bool), lexical
        else:
            done, texts = _matched(lexical, _INTEGER_FORM)
        numbers = _unsigned(texts).cast(pa.int64()).to_numpy()
        inside = np.full(len(numbers), True)
        if minimum is not None:
            inside &= numbers >= max(minimum, -(2**63))
        if maximum is not None:
            inside &= numbers <= min(maximum, 2**63 - 1)
        done[np.flatnonzero(done)[~inside]] = False
        numbers = numbers[inside]
        nearest = numbers.astype(np.float64)
        columns.put(rows[done], INTEGER, whole=numbers, fraction=0, nearest=nearest, truth=numbers != 0)
        return done

    return read


def _decimals(columns: _Columns, rows: _Rows, lexical: pa.Array) -> _Bits:
    done, texts = _matched(lexical, _DECIMAL_FORM)
    if not done.any():
        return done
    sign, whole_text, part = pc.extract_regex(texts, _DECIMAL_FORM).flatten()
    # An absent group is empty: padded with zeros, it is zero.
    whole = whole_text.cast(pa.int64()).to_numpy().copy()
    fraction = pc.utf8_rpad(pc.fill_null(part, ""), PLACES, "0").cast(pa.int64()).to_numpy().copy()
    is_negative = bits(pc.equal(sign, "-"))
    whole[is_negative] = -whole[is_negative] - (fraction[is_negative] > 0)
    fraction[is_negative] = np.where(fraction[is_negative] > 0, UNIT - fraction[is_negative], 0)
    nearest = _unsigned(texts).cast(pa.float64()).to_numpy() + 0.0
    truth = (whole != 0) | (fraction != 0)
    columns.put(rows[done], DECIMAL, whole=whole, fraction=fraction, nearest=nearest, truth=truth)
    return done


def _doubles(kind: Kind) -> _Reader:
    def read(columns: _Columns, rows: _Rows, lexical: pa.Array) -> _Bits:
        done, texts = _matched(lexical, _DOUBLE_FORM)
        numbers = _unsigned(texts).cast(pa.float64()).to_numpy()
        if kind == FLOAT:
            with np.errstate(over="ignore"):
                numbers = numbers.astype(np.float32).astype(np.float64)
        inside = (numbers != 0) | ~np.signbit(numbers)
        done[np.flatnonzero(done)[~inside]] = False
        numbers = numbers[inside]
        columns.put(rows[done], kind, nearest=numbers, truth=numbers != 0)
        return done

    return read


def _booleans(columns: _Columns, rows: _Rows, lexical: pa.Array) -> _Bits:
    is_true = bits(pc.is_in(lexical, pa.array(["true", "1"])))
    done = is_true | bits(pc.is_in(lexical, pa.array(["false", "0"])))
    columns.put(rows[done], BOOLEAN, truth=is_true[done])
    return done


def _moments(kind: Kind) -> _Reader:
    clock = r"T(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.(?P<part>[0-9]{1,6}))?"
    form = f"^{_DAY_FORM}{clock if kind == DATETIME else ''}{_ZONE_FORM}$"

    def read(columns: _Columns, rows: _Rows, lexical: pa.Array) -> _Bits:
        done, texts = _matched(lexical, form)
        if not done.any():
            return done
        found = pc.extract_regex(texts, form)
        parts = {field.name: found.field(field.name) for field in found.type}
        seconds, inside = _local_seconds(parts)
        zones = parts["zone"].dictionary_encode()
        zone = np.array([_zone(text) for text in zones.dictionary.to_pylist()])[zones.indices.to_numpy()]
        inside &= zone < _NO_SUCH_ZONE
        done[np.flatnonzero(done)[~inside]] = False
        is_known = zone > -_NO_SUCH_ZONE
        micro = _number(pc.utf8_rpad(parts["part"], 6, "0")) if "part" in parts else 0
        seconds = seconds - np.where(is_known, zone, 0) * 60
        instant = seconds * _MICROSECONDS + micro
        columns.put(rows[done], kind, nearest=seconds[inside], instant=instant[inside])
        zoned = rows[done][is_known[inside]]
        columns.values["zone"][zoned], columns.known["zone"][zoned] = zone[inside & is_known], True
        return done

    return read


_NO_SUCH_ZONE = 10_000


def _number(texts: pa.Array) -> Any:
    """Parses digits; an empty text is zero."""
    return pc.utf8_lpad(pc.fill_null(texts, ""), 1, "0").cast(pa.int64()).to_numpy()


def _local_seconds(parts: dict[str, pa.Array]) -> tuple[Any, _Bits]:
    """Returns local seconds since 1970, and which of them have a valid day and time."""
    year, month, day = (_number(parts[name]) for name in ("year", "month", "day"))
    hour, minute, second = (
        _number(parts[name]) if name in parts else 0 * year for name in ("hour", "minute", "second")
    )
    inside = (month >= 1) & (month <= 12) & (day >= 1) & (hour <= 23) & (minute <= 59) & (second <= 59)
    months = ((year - 1970) * 12 + np.where(inside, month, 1) - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    inside &= days.astype("datetime64[M]") == months
    return days.astype(np.int64) * 86_400 + hour * 3600 + minute * 60 + second, inside


def _zone(text: str | None) -> int:
    """Returns the offset in minutes; an out-of-range value if it is missing or invalid."""
    if not text:
        return -_NO_SUCH_ZONE
    if text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59 or hours * 60 + minutes > 14 * 60:
        return _NO_SUCH_ZONE
    return -(hours * 60 + minutes) if text[0] == "-" else hours * 60 + minutes


_READERS: Final[dict[str, _Reader]] = {
    "integer": _integers(None, None),
    "decimal": _decimals,
    "double": _doubles(DOUBLE),
    "float": _doubles(FLOAT),
    "boolean": _booleans,
    "dateTime": _moments(DATETIME),
    "date": _moments(DATE),
    **{name: _integers(*bounds) for name, bounds in integer_bounds().items()},
}
