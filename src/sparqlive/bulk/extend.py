"""Evaluates filters and bindings: in SQL where it agrees with SPARQL, else by the Python definition in Arrow.

`native` decides which expressions SQL can evaluate, and which of their rows Python must decide: only these
rows go to Python. The Python definition reads terms, which are joined in for the variables that the
expression uses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.bulk.frame import Frame
from sparqlive.bulk.native import Native
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, semi, text, united
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Expression, Var

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
        assert operator.is_copy and isinstance(operator.expression, Var)
        keys = keys.renamed(operator.variable, operator.expression)
    wanted = (needed | mentioned(operator.expression)) - {operator.variable}
    source = evaluation.content(operator.source, state, wanted, keys)
    return extended(evaluation, source, operator.variable, operator.expression)


def filter_change(evaluation: Evaluation, operator: op.Filter, changed: Solutions) -> Solutions:
    return filtered(evaluation, changed, operator.condition)


def extend_change(evaluation: Evaluation, operator: op.Extend, changed: Solutions) -> Solutions:
    return extended(evaluation, changed, operator.variable, operator.expression)


def filtered(evaluation: Evaluation, source: Solutions, condition: Expression) -> Solutions:
    native = Native(evaluation, source)
    written = native.condition(condition)
    if written is None or (native.doubts and not evaluation.backend.repeats(source.frame)):
        return _filtered_by_python(evaluation, source, condition)
    columns = source.frame.columns
    frame = native.frame()
    if not native.doubts:
        return source.of(frame.where(written).select(*columns))
    sure = frame.where(f"NOT {native.doubt} AND {written}").select(*columns)
    left = source.of(frame.where(native.doubt).select(*columns))
    return source.of(sure.union(_filtered_by_python(evaluation, left, condition).frame))


def _filtered_by_python(evaluation: Evaluation, source: Solutions, condition: Expression) -> Solutions:
    read = _read(source, condition)
    function = evaluation.terms.condition(condition, read)
    frame = with_terms(evaluation, source, read)
    return source.of(frame.where(_call(function, read)).select(*source.frame.columns))


def extended(evaluation: Evaluation, source: Solutions, variable: Var, expression: Expression) -> Solutions:
    if isinstance(expression, Var) and expression in source.variables:
        return _copied(source, variable, expression)
    native = Native(evaluation, source)
    value, written = native.value(expression), None
    if value is None:
        native = Native(evaluation, source)
        written = native.text(expression)
    is_native = value is not None or written is not None
    if not is_native or (native.doubts and not evaluation.backend.repeats(source.frame)):
        return _extended_by_python(evaluation, source, variable, expression)
    typed = native.frame()
    sure = typed.where(f"NOT {native.doubt}") if native.doubts else typed
    if value is None:
        frame = sure.select(*source.frame.columns, f"{written} AS {text(variable)}")
        found = _with_text(evaluation, source, frame, variable)
    else:
        frame = sure.select(*source.frame.columns, f"{value} AS {column(variable)}")
        found = _with_id(source, frame, variable, expression, native)
    if not native.doubts:
        return found
    left = source.of(typed.where(native.doubt).select(*source.frame.columns))
    others = _extended_by_python(evaluation, left, variable, expression)
    return replace(united([found, others], found.variables), small=source.small)


def _with_id(
    source: Solutions, frame: Frame, variable: Var, expression: Expression, native: Native
) -> Solutions:
    """Adds a variable whose id the frame has."""
    return replace(
        source,
        frame=frame,
        variables=(*source.variables, variable),
        always=source.always | frozenset({variable} if native.is_bound(expression) else ()),
        own_text=source.own_text | frozenset({variable} if native.has_own_text(expression) else ()),
    )


def _extended_by_python(
    evaluation: Evaluation, source: Solutions, variable: Var, expression: Expression
) -> Solutions:
    read = _read(source, expression)
    function = evaluation.terms.computation(expression, read)
    frame = with_terms(evaluation, source, read)
    frame = frame.select(*source.frame.columns, f"{_call(function, read)} AS {text(variable)}")
    return _with_text(evaluation, source, frame, variable)


def _with_text(evaluation: Evaluation, source: Solutions, frame: Frame, variable: Var) -> Solutions:
    """Adds a variable whose text the frame has."""
    number = f"{evaluation.terms.id_of_text(text(variable))} AS {column(variable)}"
    return replace(
        source,
        frame=frame.select("*", number),
        variables=(*source.variables, variable),
        own_text=source.own_text | {variable},
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
        own_text=with_copy(source.own_text),
        texts=with_copy(source.texts),
    )


# Terms for the Python definitions


def _read(source: Solutions, expression: Expression) -> tuple[Var, ...]:
    return tuple(sorted(v for v in mentioned(expression) if v in source.variables))


def _call(function: str, read: tuple[Var, ...]) -> str:
    """Writes a call with each variable's id, and its text unless it is a constant of the plan.

    Without variables, the weight is passed, because a function gets the number of rows from its columns.
    """
    arguments = [name for number, v in enumerate(read) for name in (column(v), f"a_{number}")]
    return f"{function}({', '.join(arguments) or WEIGHT})"


def with_terms(evaluation: Evaluation, source: Solutions, read: tuple[Var, ...]) -> Frame:
    """Adds the text of the n-th variable as `a_n`; NULL if the variable is a constant of the plan."""
    if read:
        source = evaluation.held(source)
    frame, columns = source.frame, source.frame.columns
    small = source.small
    for number, variable in enumerate(read):
        name, own = column(variable), text(variable) if variable in source.texts else "CAST(NULL AS STRING)"
        if variable in source.own_text:
            frame = frame.select("*", f"{own} AS a_{number}")
            continue
        found = evaluation.terms.of(source, variable, ("id", "term"))
        found = found.select(f"id AS {name}", "term AS found")
        if variable in source.plain:
            frame = frame.broadcast(small).join(found, [name])
        else:
            if small:
                found = semi(found, source.frame.select(name).broadcast(), [name]).select("*").broadcast()
            frame = frame.join(found, [name], "LEFT")
        known = [f"a_{before}" for before in range(number)]
        frame = frame.select(*columns, *known, f"coalesce(found, {own}) AS a_{number}")
    return frame
