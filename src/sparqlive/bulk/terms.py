"""Provides terms in SQL: the dictionary, the constants of a plan, and the Python functions that read terms.

Owns the Arrow functions: they run `sparql.expressions`, the one definition of SPARQL's functions, in Python
workers. A worker compiles an expression once and caches the values of recent terms. Invariant: an id stands
for one term, so a cached value stays right for its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.bulk.backend import Backend, Function, LaterFrame
from sparqlive.bulk.dialect import ZERO
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import Solutions, column
from sparqlive.plan import operators as op
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.rdf.dictionary import UNDEF, term_of
from sparqlive.sparql.algebra import Expression, Term, Var, parts_of
from sparqlive.sparql.columns import NAMES, SCHEMA, typed
from sparqlive.sparql.expressions import ExpressionError, compile_condition, compile_expression
from sparqlive.sparql.values import Value, value_of
from sparqlive.zset.run import Column

_CACHED_VALUES = 50_000
_CACHED_EXPRESSIONS = 256


class Terms:
    """The dictionary, the constants of the plan, and the ids that differ from their term's hash."""

    def __init__(
        self,
        backend: Backend,
        terms: Any,
        plan: op.Operator,
        id_of: Callable[[Term], int],
        exceptions: Mapping[str, int],
        look_up: Callable[[Column], pa.Table] | None = None,
    ) -> None:
        """`look_up`: returns the terms of a few ids, with their typed columns."""
        self._look_up = look_up
        columns = terms.columns if isinstance(terms, LaterFrame) else backend.columns(terms)
        self.has_types = set(NAMES) <= set(columns)
        """Whether the table has the typed columns; otherwise they are computed."""
        self._terms = terms
        self._backend = backend
        self._typing: str | None = None
        self.constants = {id_of(term): str(term) for term in _constants(plan)}
        self._exceptions = exceptions
        self._exceptional_name: str | None = None
        self._functions: dict[tuple[pa.DataType, Expression, tuple[Var, ...]], str] = {}

    def of(self, source: Solutions, variable: Var, names: Sequence[str]) -> Frame:
        """Returns columns of the dictionary; if a variable's terms are few and looked up, only of these."""
        if source.small and self._look_up is not None:
            table = self._backend.held(source.frame)[1]
            if table is not None:
                found = self._look_up(table.column(column(variable)).to_numpy())
                return self._backend.local(found.select(names))
        return self.frame.select(*names)

    @cached_property
    def frame(self) -> Frame:
        """The dictionary, for plans that read terms."""
        if isinstance(self._terms, LaterFrame):
            return self._terms.make()
        return self._backend.frame(self._terms, ("id", "term", *(NAMES if self.has_types else ())))

    def condition(self, condition: Expression, variables: tuple[Var, ...]) -> str:
        """Returns the name of a function that tests whether solutions satisfy a condition."""
        return self._function_name(pa.bool_(), condition, variables, condition_function)

    def computation(self, expression: Expression, variables: tuple[Var, ...]) -> str:
        """Returns the name of a function that computes the canonical text of an expression's value."""
        return self._function_name(pa.string(), expression, variables, term_function)

    def _function_name(
        self,
        kind: pa.DataType,
        expression: Expression,
        variables: tuple[Var, ...],
        make: Callable[[Expression, tuple[Var, ...], Mapping[int, str]], Any],
    ) -> str:
        key = (kind, expression, variables)
        if key not in self._functions:
            self._functions[key] = self.function(make(expression, variables, self.constants), kind)
        return self._functions[key]

    def typing(self) -> str:
        """Returns the name of a function that computes the typed columns of texts, as structs."""
        if self._typing is None:
            self._typing = self.function(typed, pa.struct(list(SCHEMA)))
        return self._typing

    def function(self, function: Function, kind: pa.DataType) -> str:
        """Registers a function that runs in Python workers, and returns its name."""
        return self._backend.function(function, kind)

    def id_of_text(self, name: str) -> str:
        """Writes the id of a computed term as an SQL expression; 0 if there is no term."""
        number = f"xxhash64({name})"
        if self._exceptions:
            number = f"coalesce({self._exceptional()}({name}), {number})"
        return f"if({name} IS NULL, {ZERO}, {number})"

    def _exceptional(self) -> str:
        """Returns the name of a function that looks up the ids of exceptions, however many there are."""
        if self._exceptional_name is None:
            self._exceptional_name = self.function(_exceptional_ids(dict(self._exceptions)), pa.int64())
        return self._exceptional_name


def _constants(plan: op.Operator) -> Iterator[Term]:
    """Yields the terms that a solution can have even if the data lacks them."""
    yield from (Literal(True), Literal(False))
    for operator in operators_of(plan):
        if operator.computed:
            yield from _terms_in(operator)


def _terms_in(item: Any) -> Iterator[Term]:
    """Yields the terms in an operator's own fields, or in a part of one."""
    for part in parts_of(item):
        if isinstance(part, NamedNode | BlankNode | Literal):
            yield part
        elif not isinstance(part, op.Operator):
            yield from _terms_in(part)


# In the workers


def _exceptional_ids(exceptions: Mapping[str, int]) -> Function:
    def ids(texts: pa.Array) -> pa.Array:
        return pa.array([exceptions.get(text) for text in texts.to_pylist()], pa.int64())

    return ids


def condition_function(
    condition: Expression, variables: tuple[Var, ...], constants: Mapping[int, str]
) -> Function:
    """Tests whether solutions satisfy a condition, from the ids and texts of the variables."""

    def hold(*columns: pa.Array) -> pa.Array:
        test = _compiled_condition(condition, variables)
        return pa.array([test(row) for row in _rows(columns, constants)], pa.bool_())

    return hold


def term_function(
    expression: Expression, variables: tuple[Var, ...], constants: Mapping[int, str]
) -> Function:
    """Computes the canonical text of an expression's value; NULL for an error."""

    def compute(*columns: pa.Array) -> pa.Array:
        evaluate = _compiled_expression(expression, variables)
        return pa.array([_text(evaluate, row) for row in _rows(columns, constants)], pa.string())

    return compute


def _text(evaluate: Callable[[Any], Value], row: list[Value | None]) -> str | None:
    try:
        return str(evaluate(row).term)
    except ExpressionError:
        return None


def _rows(columns: tuple[pa.Array, ...], constants: Mapping[int, str]) -> Iterator[list[Value | None]]:
    """Yields the values of each solution, from pairs of id and text columns."""
    if len(columns) == 1:
        yield from ([] for _ in range(len(columns[0])))
        return
    lists = [column.to_pylist() for column in columns]
    for cells in zip(*lists, strict=True):
        yield [
            None if number == UNDEF else value_of_text(_text_of(number, constants.get(number, text)))
            for number, text in zip(cells[::2], cells[1::2], strict=True)
        ]


def _text_of(number: int, text: str | None) -> str:
    if text is None:
        raise LookupError(f"The dictionary has no term with the id {number}.")
    return text


@lru_cache(maxsize=_CACHED_VALUES)
def value_of_text(text: str) -> Value:
    return value_of(term_of(text))


@lru_cache(maxsize=_CACHED_EXPRESSIONS)
def _compiled_condition(expression: Expression, variables: tuple[Var, ...]) -> Callable[[Any], bool]:
    return compile_condition(expression, variables)


@lru_cache(maxsize=_CACHED_EXPRESSIONS)
def _compiled_expression(expression: Expression, variables: tuple[Var, ...]) -> Callable[[Any], Value]:
    return compile_expression(expression, variables)
