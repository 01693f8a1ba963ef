"""Evaluates expressions over ids: conditions and bindings of a plan become functions of integers.

Translates ids to the values that expressions read, and back. Invariant: an id stands for one term, so a value
is parsed once and cached while it is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pyoxigraph import Literal

from sparqlive.rdf.dictionary import UNDEF, Dictionary, term_of
from sparqlive.rdf.term_columns import Ids
from sparqlive.runtime.deadline import paced
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.column_tests import TRUE, UNKNOWN, ColumnTest, TermTexts
from sparqlive.sparql.expressions import Evaluate, ExpressionError
from sparqlive.sparql.functions.logic import MIRRORED, RELATIONS
from sparqlive.sparql.ordering import blank_bytes, iri_bytes, natural_bytes, order_bytes, string_bytes
from sparqlive.sparql.values import DOUBLE, INTEGER, XSD, Value, value_of
from sparqlive.zset.columns import Mask

_KINDS = {"ISIRI": "<", "ISURI": "<", "ISBLANK": "_", "ISLITERAL": '"'}
_EXACT = 1 << 53
"""Smaller integers are exact as doubles."""
_SMALL = 10_000
_INTEGER_END = f'"^^<{XSD}integer>'
_INTEGER_STOP = -len(_INTEGER_END)


def _read(text: str) -> Value:
    """Parses the value of a term's text. A small natural number in canonical form needs no term object."""
    digits = _natural(text)
    return value_of(term_of(text)) if digits is None else Value(INTEGER, int(digits))


def _natural(text: str) -> str | None:
    """Returns the digits of a small xsd:integer without sign and leading zeros."""
    if text.endswith(_INTEGER_END):
        digits = text[1:_INTEGER_STOP]
        is_natural = digits.isdecimal() and digits.isascii() and len(digits) < 18
        if is_natural and (digits[0] != "0" or digits == "0"):
            return digits
    return None


def _order_of(text: str) -> tuple[bytes, bytes]:
    """Returns the sort key of a term's text; creates a term object only where the text does not suffice."""
    if text[0] == "<":
        return iri_bytes(text[1:-1]), b""
    if text[0] == "_":
        return blank_bytes(text[2:]), b""
    if text[-1] == '"' and "\\" not in text:
        return string_bytes(text[1:-1]), b""
    digits = _natural(text)
    if digits is not None:
        return natural_bytes(digits)
    return order_bytes(value_of(term_of(text)))


@dataclass(frozen=True)
class Keep:
    """Decides which ids pass a test, one by one or by columns. None of the ids is UNDEF."""

    _dictionary: Dictionary
    _test: ColumnTest
    one: Callable[[int], bool]

    @property
    def column_rows(self) -> int:
        """Minimum number of rows to test by columns."""
        return self._dictionary.tuning.column_rows

    def many(self, numbers: Ids) -> Mask:
        distinct, places = np.unique(numbers, return_inverse=True)
        verdicts = self._test(TermTexts(self._dictionary.column(distinct)))
        kept: Mask = verdicts == TRUE
        for place in np.flatnonzero(verdicts == UNKNOWN).tolist():
            kept[place] = self.one(int(distinct[place]))
        return kept[places]


class Terms:
    def __init__(self, dictionary: Dictionary, base: Terms | None = None) -> None:
        """`base`: the terms of the dictionary that this one extends; they cache values and sort keys for
        others too.
        """
        self.dictionary = dictionary
        self.tuning = dictionary.tuning
        self._base = base
        self._values: dict[int, Value] = {}
        self._numbers: dict[int, int | float] = {}
        """The cached values that Python compares as SPARQL does, without promotion."""
        self._small: dict[int, int] = {}
        """The ids of small computed integers, mostly counts."""
        self._orders: dict[int, tuple[bytes, bytes]] = {}
        self.swept_terms = 0
        """Number of terms that the last sweep found in use."""

    def extended(self) -> Terms:
        """Returns terms for one request, whose new terms others do not see."""
        return Terms(self.dictionary.extended(), self)

    def captured(self) -> Terms:
        """Returns terms for rows that are captured now and read later, while the writer goes on."""
        return self if self.dictionary.keeps_all else self.extended()

    def ids(self) -> Iterator[Ids]:
        """Yields the ids that are cached here, and may be returned without being entered again."""
        yield np.array([number for name in ("true", "false") if (number := vars(self).get(name))], np.int64)

    def sweep(self, used: Ids) -> None:
        """Releases the terms whose ids are not among `used`, and drops everything that depends on them."""
        self.dictionary.sweep(used)
        for known in (self._values, self._numbers, self._small, self._orders):
            known.clear()
        self.swept_terms = self.dictionary.entered

    @cached_property
    def true(self) -> int:
        return self.dictionary.id_of(Literal(True))

    @cached_property
    def false(self) -> int:
        return self.dictionary.id_of(Literal(False))

    def value(self, number: int) -> Value | None:
        """Returns the value of an id; None for UNDEF."""
        value = self._values.get(number)
        if value is not None or number == UNDEF:
            return value
        if len(self._values) > self.tuning.cached_values:
            self._values.clear()
            self._numbers.clear()
        if self._base is not None and not self.dictionary.has_own(number):
            value = self._base.value(number)
            assert value is not None
        else:
            value = _read(self.dictionary.text(number))
        self._values[number] = value
        kind = value.kind
        if kind is DOUBLE or (kind is INTEGER and -_EXACT < value.value < _EXACT):
            self._numbers[number] = value.value
        return value

    def id_of(self, value: Value) -> int:
        """Returns the id of a value's term. The text of a computed integer is known without a term object."""
        if value.kind is INTEGER and value.is_computed:
            integer: int = value.value
            known = self._small.get(integer)
            if known is None:
                known = self.dictionary.enter(f'"{integer}{_INTEGER_END}')
                if 0 <= integer < _SMALL:
                    self._small[integer] = known
            return known
        return self.dictionary.id_of(value.term)

    def order(self, number: int) -> tuple[bytes, bytes]:
        """Returns the sort key of an id's term: its rank, and a tie-breaker among equal ranks."""
        order = self._orders.get(number)
        if order is not None:
            return order
        if len(self._orders) > self.tuning.cached_values:
            self._orders.clear()
        order = self._orders[number] = self._order(number)
        return order

    def _order(self, number: int) -> tuple[bytes, bytes]:
        if number == UNDEF:
            return order_bytes(None)
        if self._base is not None and not self.dictionary.has_own(number):
            return self._base.order(number)
        return _order_of(self.dictionary.text(number))

    def orders(self, numbers: Ids) -> tuple[list[bytes], list[bytes]]:
        """Returns the sort keys of many ids: their ranks, and their tie-breakers."""
        distinct, places = np.unique(numbers, return_inverse=True)
        keys = self.order_keys(distinct)
        chosen = [keys[place] for place in places.tolist()]
        return [rank for rank, _ in chosen], [rest for _, rest in chosen]

    def order_keys(self, numbers: Ids) -> list[tuple[bytes, bytes]]:
        """Returns the sort keys of sorted, distinct ids; keys that are not cached are computed by columns."""
        known, unbound = (self._base or self)._orders, order_bytes(None)
        found: list[Any] = [unbound if number == UNDEF else known.get(number) for number in numbers.tolist()]
        missing = [place for place, key in enumerate(found) if key is None]
        texts = self.dictionary.column(numbers[missing]).to_pylist()
        for place, text in zip(missing, paced(texts), strict=True):
            found[place] = _order_of(text)
        if len(known) + len(missing) <= self.tuning.cached_values:
            has_own = self.dictionary.has_own
            for place, number in zip(missing, numbers[missing].tolist(), strict=True):
                if self._base is None or not has_own(number):
                    known[number] = found[place]
        return found

    def condition(
        self,
        expression: Expression,
        variables: Sequence[Var],
        holds: Callable[[Sequence[Value | None]], bool],
    ) -> Callable[..., bool]:
        """Returns a function that tests whether a solution, given by the ids of `variables`, satisfies it.

        `holds` is the expression, compiled for these variables.
        """
        value = self.value
        match variables:
            case [variable]:
                if isinstance(expression, Call) and expression.name in _KINDS:
                    return self._of_kind(_KINDS[expression.name], expression, holds)
                return self._with_number(expression, variable, lambda a: holds((value(a),)))
            case [_, _]:
                return self._comparison(expression, variables, lambda a, b: holds((value(a), value(b))))
        return lambda *ids: holds([value(number) for number in ids])

    def by_columns(self, test: ColumnTest, one: Callable[[int], bool]) -> Keep:
        """Returns a test of many ids: by columns where these suffice, otherwise one by one."""
        return Keep(self.dictionary, test, one)

    def remembering(self, test: Callable[[int], bool]) -> Callable[[int], bool]:
        """Caches the outcome of a test of one id."""
        known: dict[int, bool] = {}
        most = self.tuning.cached_values

        def remembered(number: int) -> bool:
            outcome = known.get(number)
            if outcome is None:
                if len(known) >= most:
                    known.clear()
                outcome = known[number] = test(number)
            return outcome

        return remembered

    def _of_kind(
        self, mark: str, expression: Call, holds: Callable[[Sequence[Value | None]], bool]
    ) -> Callable[[int], bool]:
        """Returns a test of the kind of a variable's term, decided by the first character of its text."""
        text, value = self.dictionary.text, self.value
        if not isinstance(expression.arguments[0], Var):
            return lambda a: holds((value(a),))
        return lambda a: a != UNDEF and text(a)[0] == mark

    def _with_number(
        self, expression: Expression, variable: Var, general: Callable[[int], bool]
    ) -> Callable[[int], bool]:
        """Returns a comparison of one variable with an integer; it parses no value of a natural number."""
        match expression:
            case Call(name, (Var() as tested, Constant(term))) if name in RELATIONS:
                relation = RELATIONS[name]
            case Call(name, (Constant(term), Var() as tested)) if name in RELATIONS:
                relation = RELATIONS[MIRRORED[name]]
            case _:
                return general
        constant, text = value_of(term), self.dictionary.text
        if tested != variable or constant.kind is not INTEGER:
            return general
        number: int = constant.value

        def compare(a: int) -> bool:
            digits = None if a == UNDEF else _natural(text(a))
            return general(a) if digits is None else relation(int(digits), number)

        return compare

    def _comparison(
        self, expression: Expression, variables: Sequence[Var], general: Callable[[int, int], bool]
    ) -> Callable[[int, int], bool]:
        """Returns a test of two variables; comparing two numbers only looks them up."""
        if not (isinstance(expression, Call) and set(expression.arguments) == set(variables)):
            return general
        mirrored = expression.arguments[0] != variables[0]
        name = MIRRORED.get(expression.name, "") if mirrored else expression.name
        relation, number = RELATIONS.get(name), self._numbers.get
        if relation is None:
            return general

        def compare(a: int, b: int) -> bool:
            first, second = number(a), number(b)
            if first is None or second is None:
                return general(a, b)
            return relation(first, second)

        return compare

    def binding(self, expression: Expression, evaluate: Evaluate) -> Callable[..., int]:
        """Returns a function that computes the id of the value; UNDEF for an error."""
        if isinstance(expression, Constant):
            number = self.dictionary.id_of(expression.term)
            return lambda *_: number
        value, id_of = self.value, self.id_of

        def bind(*ids: Any) -> int:
            try:
                return id_of(evaluate([value(number) for number in ids]))
            except ExpressionError:
                return UNDEF

        return bind
