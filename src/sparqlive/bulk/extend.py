"""Filters and bindings: native where Spark means what SPARQL means, else the Python definition in Arrow.

Native is what looks at ids only: BOUND, sameTerm, equality with an IRI, the connectives over these (NULL is
SPARQL's error: both logics have the same tables), IF, COALESCE, copies and constants. The rest reads terms,
which are joined in for the variables that the expression mentions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyoxigraph import Literal, NamedNode

from sparqlive.bulk.dialect import ZERO
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, semi, text
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.keys import is_copy
from sparqlive.sparql.algebra import Call, Constant, Expression, Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def filter_content(
    evaluation: Evaluation, operator: op.Filter, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    wanted = needed | mentioned(operator.condition)
    return filtered(evaluation, evaluation.content(operator.source, state, wanted, keys), operator.condition)


def extend_content(
    evaluation: Evaluation, operator: op.Extend, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    if operator.variable not in needed:
        return evaluation.content(operator.source, state, needed, keys)
    if keys is not None and operator.variable in keys.variables:
        assert is_copy(operator) and isinstance(operator.expression, Var)
        keys = keys.renamed(operator.variable, operator.expression)
    wanted = (needed | mentioned(operator.expression)) - {operator.variable}
    source = evaluation.content(operator.source, state, wanted, keys)
    return extended(evaluation, source, operator.variable, operator.expression)


def filtered(evaluation: Evaluation, source: Solutions, condition: Expression) -> Solutions:
    native = _Native(evaluation, source).condition(condition)
    if native is not None:
        return source.of(source.frame.where(native))
    read = _read(source, condition)
    function = evaluation.terms.condition(condition, read)
    frame = with_terms(evaluation, source, read)
    return source.of(frame.where(_call(function, read)).select(*source.frame.columns))


def extended(evaluation: Evaluation, source: Solutions, variable: Var, expression: Expression) -> Solutions:
    name, others = column(variable), source.frame.columns
    variables = (*source.variables, variable)
    native = _Native(evaluation, source)
    value = native.value(expression)
    if isinstance(expression, Var) and expression in source.variables:
        return _copied(source, variable, expression)
    if value is not None:
        bound = frozenset({variable} if native.is_bound(expression) else ())
        told = source.told | ({variable} if native.is_told(expression) else set())
        frame = source.frame.select(*others, f"{value} AS {name}")
        return replace(
            source, frame=frame, variables=variables, always=source.always | bound, told=frozenset(told)
        )
    read = _read(source, expression)
    function = evaluation.terms.computation(expression, read)
    frame = with_terms(evaluation, source, read)
    frame = frame.select(*others, f"{_call(function, read)} AS {text(variable)}")
    frame = frame.select("*", f"{evaluation.terms.id_of_text(text(variable))} AS {name}")
    return replace(
        source,
        frame=frame,
        variables=variables,
        told=source.told | {variable},
        texts=source.texts | {variable},
    )


def _copied(source: Solutions, variable: Var, original: Var) -> Solutions:
    columns = [*source.frame.columns, f"{column(original)} AS {column(variable)}"]
    if original in source.texts:
        columns.append(f"{text(original)} AS {text(variable)}")

    def with_copy(group: frozenset[Var]) -> frozenset[Var]:
        return group | {variable} if original in group else group

    return replace(
        source,
        frame=source.frame.select(*columns),
        variables=(*source.variables, variable),
        always=with_copy(source.always),
        plain=with_copy(source.plain),
        told=with_copy(source.told),
        texts=with_copy(source.texts),
    )


# Terms for the Python definitions


def _read(source: Solutions, expression: Expression) -> tuple[Var, ...]:
    return tuple(sorted(v for v in mentioned(expression) if v in source.variables))


def _call(function: str, read: tuple[Var, ...]) -> str:
    """For each variable its id, and its text if it is not a constant of the plan.

    Without variables the weight stands in: a function gets the number of rows from its columns.
    """
    arguments = [name for number, v in enumerate(read) for name in (column(v), f"a_{number}")]
    return f"{function}({', '.join(arguments) or WEIGHT})"


def with_terms(evaluation: Evaluation, source: Solutions, read: tuple[Var, ...]) -> Frame:
    """The source's columns, and the text of the n-th variable in `a_n`, NULL if the plan itself tells it."""
    frame, columns = source.frame, source.frame.columns
    small = source.small
    for number, variable in enumerate(read):
        name, own = column(variable), text(variable) if variable in source.texts else "CAST(NULL AS STRING)"
        if variable in source.told:
            frame = frame.select("*", f"{own} AS a_{number}")
            continue
        found = evaluation.terms.frame.select(f"id AS {name}", "term AS found")
        if variable in source.plain:
            frame = frame.broadcast(small).join(found, [name])
        else:
            if small:
                found = semi(found, source.frame.select(name).broadcast(), [name]).select("*").broadcast()
            frame = frame.join(found, [name], "LEFT")
        known = [f"a_{before}" for before in range(number)]
        frame = frame.select(*columns, *known, f"coalesce(found, {own}) AS a_{number}")
    return frame


# Expressions over ids


class _Native:
    """Expressions as SQL text over ids; None for what needs terms."""

    def __init__(self, evaluation: Evaluation, source: Solutions) -> None:
        self._id_of = evaluation.quads.id_of
        self._source = source
        self._true, self._false = (literal(self._id_of(Literal(truth))) for truth in (True, False))

    def condition(self, expression: Expression) -> str | None:
        """A boolean, NULL for an error."""
        if not isinstance(expression, Call):
            return None
        match expression.name, expression.arguments:
            case "BOUND", (Var() as variable,):
                return f"({column(variable)} <> {ZERO})" if variable in self._source.variables else "false"
            case "!", (argument,):
                inner = self.condition(argument)
                return None if inner is None else f"(NOT {inner})"
            case ("&&" | "||") as name, (left, right):
                one, other = self.condition(left), self.condition(right)
                if one is None or other is None:
                    return None
                return f"({one} {'AND' if name == '&&' else 'OR'} {other})"
            case "SAMETERM", (left, right):
                return self._equality("=", left, right)
            case ("=" | "!=") as name, (left, right) if _is_iri(left) or _is_iri(right):
                return self._equality("=" if name == "=" else "<>", left, right)
        return None

    def _equality(self, sign: str, left: Expression, right: Expression) -> str | None:
        """An IRI equals nothing but itself (§17.4.1.7), so its id decides."""
        one, other = self.value(left), self.value(right)
        if one is None or other is None:
            return None
        return f"(nullif({one}, {ZERO}) {sign} nullif({other}, {ZERO}))"

    def value(self, expression: Expression) -> str | None:
        """The id of the expression's value; 0 for an error."""
        match expression:
            case Var():
                return column(expression) if expression in self._source.variables else ZERO
            case Constant(term):
                return literal(self._id_of(term))
            case Call("COALESCE", arguments):
                values = [self._textless(argument) for argument in arguments]
                if None in values:
                    return None
                return f"coalesce({', '.join([*(f'nullif({value}, {ZERO})' for value in values), ZERO])})"
            case Call("IF", (test, then, otherwise)):
                holds, one, other = self.condition(test), self._textless(then), self._textless(otherwise)
                if holds is None or one is None or other is None:
                    return None
                return f"(CASE WHEN {holds} THEN {one} WHEN NOT {holds} THEN {other} ELSE {ZERO} END)"
        holds = self.condition(expression)
        if holds is None:
            return None
        return f"(CASE WHEN {holds} THEN {self._true} WHEN NOT {holds} THEN {self._false} ELSE {ZERO} END)"

    def _textless(self, expression: Expression) -> str | None:
        """A value whose term is not in a text column, which would have to be chosen along with it."""
        if isinstance(expression, Var) and expression in self._source.texts:
            return None
        return self.value(expression)

    def is_bound(self, expression: Expression) -> bool:
        """Whether a native value is never an error."""
        match expression:
            case Constant() | Call("BOUND", _):
                return True
            case Var():
                return expression in self._source.always
            case Call("COALESCE", arguments):
                return any(self.is_bound(argument) for argument in arguments)
        return False

    def is_told(self, expression: Expression) -> bool:
        """Whether a native value is always a constant of the plan."""
        match expression:
            case Var():
                return expression in self._source.told or expression not in self._source.variables
            case Call("COALESCE", arguments) | Call("IF", (_, *arguments)):
                return all(self.is_told(argument) for argument in arguments)
        return True


def _is_iri(expression: Expression) -> bool:
    return isinstance(expression, Constant) and isinstance(expression.term, NamedNode)
