"""Tests conditions on one variable by columns, from the texts of many terms.

A verdict is true, false, an error, or unknown: then the condition itself has to be evaluated for the term.
Texts with escapes are unknown, and so is everything that the columns do not show. Invariant: a verdict other
than unknown equals the value of the condition for the term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparqlive.rdf.dictionary import term_of
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.columns import Typed, bits, exact_parts, typed, typed_value
from sparqlive.sparql.expressions import compile_expression, operands
from sparqlive.sparql.functions.logic import MIRRORED, RELATIONS, effective_boolean
from sparqlive.sparql.functions.patterns import matcher
from sparqlive.sparql.values import (
    DATETIME,
    DECIMAL,
    DOUBLE,
    ILL_TYPED,
    INTEGER,
    IRI,
    LANGSTRING,
    STRING,
    TIME,
    ExpressionError,
    Value,
    value_of,
)

FALSE, TRUE, ERROR, UNKNOWN = range(4)

Verdicts: TypeAlias = npt.NDArray[np.int8]
_Bits: TypeAlias = npt.NDArray[np.bool_]

_SEARCHES: Final = {"CONTAINS": pc.match_substring, "STRSTARTS": pc.starts_with, "STRENDS": pc.ends_with}
_MARKS: Final = {"ISIRI": "<", "ISURI": "<", "ISBLANK": "_", "ISLITERAL": '"'}


class TermTexts:
    """The canonical N-Triples forms of many terms, and their parts."""

    def __init__(self, texts: pa.LargeStringArray) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _first(self) -> Any:
        """The first byte of each text."""
        _, ends, characters = self.texts.buffers()
        starts = np.frombuffer(ends, np.int64)[self.texts.offset : self.texts.offset + len(self)]
        return np.frombuffer(characters, np.uint8)[starts] if len(self) else np.empty(0, np.uint8)

    def is_of(self, mark: str) -> _Bits:
        """Whether a text starts with a character: `<` for an IRI, `_` for a blank node, `"` for a literal."""
        found: _Bits = self._first == ord(mark)
        return found

    @cached_property
    def is_plain(self) -> _Bits:
        """Whether a text has no escapes."""
        return ~bits(pc.match_substring(self.texts, "\\"))

    @cached_property
    def _literals(self) -> tuple[Any, pa.Array, list[str], Any]:
        """Literals without escapes: places, contents, the different endings after a content, and whose."""
        places = np.flatnonzero(self.is_of('"') & self.is_plain)
        parts = pc.split_pattern(self.texts.take(pa.array(places)), pattern='"', max_splits=2).flatten()
        starts = np.arange(len(places), dtype=np.int64) * 3
        endings = parts.take(pa.array(starts + 2)).dictionary_encode()
        contents = parts.take(pa.array(starts + 1))
        return places, contents, endings.dictionary.to_pylist(), endings.indices.to_numpy()

    @cached_property
    def contents(self) -> tuple[pa.LargeStringArray, _Bits]:
        """The characters of IRIs and literals without escapes, and which terms these are."""
        places, contents, _, _ = self._literals
        iris = np.flatnonzero(self.is_of("<") & self.is_plain)
        inner = pc.utf8_slice_codeunits(self.texts.take(pa.array(iris)), 1, -1)
        is_known, sources = np.zeros(len(self), bool), np.zeros(len(self), np.int64)
        is_known[places] = is_known[iris] = True
        sources[places], sources[iris] = np.arange(len(places)), len(places) + np.arange(len(iris))
        return pa.concat_arrays([contents, inner]).take(pa.array(sources, mask=~is_known)), is_known

    def by_ending(self, choose: Callable[[str], int]) -> Verdicts:
        """Verdicts on literals by what follows their content: a datatype, a language tag, or nothing.

        Other terms are errors.
        """
        found = np.where(self.is_of('"'), UNKNOWN, ERROR).astype(np.int8)
        places, _, endings, codes = self._literals
        if len(places):
            found[places] = np.array([choose(ending) for ending in endings], np.int8)[codes]
        return found

    def shapes(self) -> tuple[Any, Any]:
        """The shape of each term as a number, and the place of a term of each shape.

        A shape is IRI, blank node, or literal with what follows its content: a datatype, a language tag, or
        nothing.
        """
        codes = np.where(self.is_of("<"), 0, 1)
        literals = np.flatnonzero(self.is_of('"'))
        if len(literals):
            texts = self.texts.take(pa.array(literals))
            parts = pc.split_pattern(texts, pattern='"', max_splits=1, reverse=True).flatten()
            endings = parts.take(pa.array(np.arange(len(literals), dtype=np.int64) * 2 + 1))
            codes[literals] = endings.dictionary_encode().indices.to_numpy() + 2
        _, firsts, found = np.unique(codes, return_index=True, return_inverse=True)
        return found, firsts

    @cached_property
    def _typed(self) -> pa.StructArray:
        return typed(self.texts)

    @cached_property
    def kinds(self) -> Any:
        """The kind of each term's value."""
        return self._typed.field("kind").to_numpy()

    def typed(self, name: str) -> tuple[Any, _Bits]:
        """One of the typed columns (`sparql/columns.py`), and where it has a value."""
        column = self._typed.field(name)
        return np.asarray(column.fill_null(0)), bits(column.is_valid())


ColumnTest: TypeAlias = Callable[[TermTexts], Verdicts]


def column_test(condition: Expression, variable: Var) -> ColumnTest | None:
    """Returns the test of a filter whose only variable is always bound; None if columns cannot decide it."""
    match condition:
        case Call("&&", parts):
            return _connective(operands("&&", parts), variable, decisive=FALSE)
        case Call("||", parts):
            return _connective(operands("||", parts), variable, decisive=TRUE)
        case Call("!", (operand,)):
            inner = column_test(operand, variable)
            return None if inner is None else lambda terms: _NEGATED[inner(terms)]
        case Call(name, (Var() as tested,)) if name in _MARKS:
            mark = _MARKS[name]
            return (lambda terms: terms.is_of(mark).astype(np.int8)) if tested == variable else None
        case Call(name, (searched, Constant(part))) if name in _SEARCHES:
            return _search(name, searched, value_of(part), variable)
        case Call("REGEX", (searched, Constant(pattern), *flags)):
            return _regex(searched, [value_of(pattern), *_constants(flags)], variable)
        case Call(name, (Call("LANG" | "DATATYPE", (Var() as tested,)), Constant())) if tested == variable:
            return _of_ending(condition, tested) if name in RELATIONS or name == "LANGMATCHES" else None
        case Call("IN", (Var() as sought, *members)):
            equal = [Call("=", (sought, member)) for member in members]
            return _connective(tuple(equal), variable, decisive=TRUE) if equal else None
        case Call(name, (left, Constant(term))) if name in RELATIONS:
            return _comparison(name, left, value_of(term), variable)
        case Call(name, (Constant(term), right)) if name in RELATIONS:
            return _comparison(MIRRORED[name], right, value_of(term), variable)
    return None


def reads_shape_alone(expression: Expression, variable: Var) -> bool:
    """Whether an expression has the same value for all terms of one shape (`TermTexts.shapes`)."""
    match expression:
        case Constant():
            return True
        case Call(name, (Var() as read,)) if name in _MARKS or name in ("LANG", "DATATYPE"):
            return read == variable
        case Call(_, arguments):
            return all(reads_shape_alone(argument, variable) for argument in arguments)
    return False


def _connective(operands: Sequence[Expression], variable: Var, decisive: int) -> ColumnTest | None:
    """Combines verdicts: decisive wins over unknown, unknown over an error, an error over the other one."""
    known = [column_test(operand, variable) for operand in operands]
    tests = [test for test in known if test is not None]
    if not tests:
        return None
    is_whole = len(tests) == len(known)

    def combine(terms: TermTexts) -> Verdicts:
        verdicts = [test(terms) for test in tests]
        found = np.full(len(terms), TRUE - decisive if is_whole else UNKNOWN, np.int8)
        for value in (ERROR, UNKNOWN, decisive):
            for verdict in verdicts:
                if value != ERROR or is_whole:
                    found[verdict == value] = value
        return found

    return combine


def _constants(parts: Sequence[Expression]) -> list[Value | None]:
    return [value_of(part.term) if isinstance(part, Constant) else None for part in parts]


# Strings


@dataclass(frozen=True)
class _Strings:
    """The strings that an expression computes. `state`: TRUE where they are known, else ERROR or UNKNOWN."""

    texts: pa.LargeStringArray
    state: Verdicts

    def verdicts(self, found: pa.Array) -> Verdicts:
        return np.where(self.state == TRUE, bits(found), self.state).astype(np.int8)


def _strings_of(expression: Expression, variable: Var) -> Callable[[TermTexts], _Strings] | None:
    match expression:
        case Var():
            return _string_literals if expression == variable else None
        case Call("STR", (Var() as tested,)):
            return _characters if tested == variable else None
        case Call("LCASE" | "UCASE" as name, (inner,)):
            strings_of = _strings_of(inner, variable)
            return None if strings_of is None else lambda terms: _in_case(name, strings_of(terms))
    return None


def _string_literals(terms: TermTexts) -> _Strings:
    """The contents of strings, also of those with a language tag."""
    texts, _ = terms.contents
    return _Strings(texts, terms.by_ending(_is_string))


def _is_string(ending: str) -> int:
    if "--" in ending:  # a language tag with a direction, or an IRI that contains this
        return UNKNOWN
    return ERROR if ending.startswith("^^") else TRUE


def _characters(terms: TermTexts) -> _Strings:
    """The result of STR."""
    texts, is_known = terms.contents
    return _Strings(
        texts, np.where(is_known, TRUE, np.where(terms.is_of("_"), ERROR, UNKNOWN)).astype(np.int8)
    )


def _in_case(name: str, strings: _Strings) -> _Strings:
    """Letters in lower or upper case; beyond ASCII, other letters may result than Arrow knows."""
    is_known = bits(pc.string_is_ascii(strings.texts)) | (strings.state != TRUE)
    change = pc.ascii_lower if name == "LCASE" else pc.ascii_upper
    return _Strings(change(strings.texts), np.where(is_known, strings.state, UNKNOWN).astype(np.int8))


def _search(name: str, searched: Expression, part: Value, variable: Var) -> ColumnTest | None:
    strings_of, find = _strings_of(searched, variable), _SEARCHES[name]
    if strings_of is None or part.kind != STRING or not part.value:
        return None

    def test(terms: TermTexts) -> Verdicts:
        strings = strings_of(terms)
        return strings.verdicts(find(strings.texts, part.value))

    return test


def _regex(searched: Expression, constants: Sequence[Value | None], variable: Var) -> ColumnTest | None:
    strings_of = _strings_of(searched, variable)
    texts = [value.value for value in constants if value is not None and value.kind == STRING]
    if strings_of is None or len(texts) < len(constants):
        return None
    try:
        found = matcher(texts[0], "".join(texts[1:])).for_columns()
    except ExpressionError:
        return None
    if found is None:
        return None
    pattern, most = found

    def test(terms: TermTexts) -> Verdicts:
        strings = strings_of(terms)
        is_match, is_known = _matches(strings.texts, pattern, most)
        state = np.where(is_known | (strings.state != TRUE), strings.state, UNKNOWN)
        return np.where(state == TRUE, is_match, state).astype(np.int8)

    return test


def _matches(texts: pa.LargeStringArray, pattern: str, most: int) -> tuple[_Bits, _Bits]:
    """Returns which texts match, and for which texts this is known: those of at most `most` characters.

    A call of Arrow cannot be interrupted, so each call gets a limited number of characters.
    """
    lengths = np.asarray(pc.binary_length(texts).fill_null(0))
    is_known = lengths <= most
    texts = pc.if_else(pa.array(is_known), texts, "")
    rows = max(1, most // int(lengths[is_known].max(initial=1)))
    try:
        parts = [
            bits(pc.match_substring_regex(texts.slice(start, rows), pattern))
            for start in range(0, len(texts), rows)
        ]
    except pa.ArrowInvalid:  # Arrow's RE2 has its own limits
        return is_known, np.zeros(len(texts), bool)
    return np.concatenate([np.empty(0, bool), *parts]), is_known


# Comparisons with a constant


def _comparison(name: str, left: Expression, constant: Value, variable: Var) -> ColumnTest | None:
    if left == variable:
        return _of_value(name, constant)
    strings_of = _strings_of(left, variable)
    if strings_of is None or constant.kind != STRING or not _is_simple(left):
        return None
    relation = _ARROW_RELATIONS[name]

    def test(terms: TermTexts) -> Verdicts:
        strings = strings_of(terms)
        return strings.verdicts(relation(strings.texts, constant.value))

    return test


def _is_simple(expression: Expression) -> bool:
    """Whether a string has no language tag: it is the result of STR, perhaps in another case."""
    while isinstance(expression, Call) and expression.name in ("LCASE", "UCASE"):
        expression = expression.arguments[0]
    return isinstance(expression, Call) and expression.name == "STR"


def _of_value(name: str, constant: Value) -> ColumnTest | None:
    """A comparison of the variable's value: with values of the constant's kind by columns.

    Values of other kinds are unequal, or have no order.
    """
    order: Callable[[TermTexts], tuple[_Bits, Any]]
    kind, text = constant.kind, str(constant.term)
    if kind <= DECIMAL and None not in exact_parts(constant.value):
        order, last_kind = partial(_exact_order, *exact_parts(constant.value)), DOUBLE
    elif DATETIME <= kind <= TIME:
        order, last_kind = partial(_moment_order, typed_value(constant)), kind
    elif kind == STRING and "\\" not in text:
        order, last_kind = partial(_string_order, constant.value), kind
    else:
        return partial(_same_text, text, name) if kind == IRI and name in ("=", "!=") else None
    first_kind, relation = INTEGER if last_kind == DOUBLE else kind, RELATIONS[name]
    is_order = name not in ("=", "!=")
    unequal = TRUE if name == "!=" else FALSE

    def test(terms: TermTexts) -> Verdicts:
        kinds = terms.kinds
        found = np.full(len(terms), ERROR if is_order else UNKNOWN, np.int8)
        if not is_order:
            found[(kinds <= LANGSTRING) | (kinds > ILL_TYPED)] = unequal
        found[(kinds >= first_kind) & (kinds <= last_kind)] = UNKNOWN
        is_known, difference = order(terms)
        holds: Any = relation(difference, 0)
        found[is_known] = holds[is_known]
        return found

    return test


def _exact_order(whole: int, fraction: int, terms: TermTexts) -> tuple[_Bits, Any]:
    """Which terms are exact numbers, and whether they are less (-1), equal (0) or greater (1)."""
    wholes, is_known = terms.typed("whole")
    fractions, _ = terms.typed("fraction")
    difference = _sign(wholes, whole)
    difference[difference == 0] = _sign(fractions[difference == 0], fraction)
    return is_known, difference


def _moment_order(constant: Typed, terms: TermTexts) -> tuple[_Bits, Any]:
    """The same for dates and times, if both have a timezone or neither has one."""
    instants, is_known = terms.typed("instant")
    if constant.instant is None:
        return np.zeros(len(terms), bool), instants
    _, has_zone = terms.typed("zone")
    is_known &= (terms.kinds == constant.kind) & (has_zone == (constant.zone is not None))
    return is_known, _sign(instants, constant.instant)


def _string_order(content: str, terms: TermTexts) -> tuple[_Bits, Any]:
    """The same for strings, by code points, which UTF-8 keeps in order."""
    texts, is_known = terms.contents
    difference = bits(pc.greater(texts, content)).astype(np.int8) - bits(pc.less(texts, content))
    return is_known & (terms.kinds == STRING), difference


def _sign(values: Any, constant: int) -> Any:
    return (values > constant).astype(np.int8) - (values < constant)


def _same_text(text: str, name: str, terms: TermTexts) -> Verdicts:
    relation = _ARROW_RELATIONS[name]
    return bits(relation(terms.texts, text)).astype(np.int8)


# Datatypes and language tags


def _of_ending(condition: Expression, variable: Var) -> ColumnTest:
    """Tests a condition on a literal's datatype or language tag, once for each of these."""
    evaluate = compile_expression(condition, [variable])

    def choose(ending: str) -> int:
        try:
            return TRUE if effective_boolean(evaluate([value_of(term_of(f'""{ending}'))])) else FALSE
        except ExpressionError:
            return ERROR

    return lambda terms: terms.by_ending(choose)


_NEGATED: Final = np.array([TRUE, FALSE, ERROR, UNKNOWN], np.int8)
_ARROW_RELATIONS: Final[dict[str, Callable[..., pa.Array]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    ">": pc.greater,
    "<=": pc.less_equal,
    ">=": pc.greater_equal,
}
