"""Evaluates operators that store their source's rows by key: groups, windows, closures.

A Python worker gathers the rows of one key, and runs the operator's own definition over them. For a change,
it does so only for the keys that the change touches, over the rows before and the rows after it; the
difference is the operator's change (the rule `Redone`). Groups follow from totals where they can.

The module of such an operator has a `redo`: SQL where SQL can do it, and `by_python` with a `Definition` for
the rest, or for everything. A definition must run the same code as live, on ids and values. It is pickled, so
it holds columns and constants instead of the plan. Invariant: over no rows an operator has no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sparqlive.bulk.definition import Definition, Made, Row
from sparqlive.bulk.extend import with_terms
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, keys_of, semi, text
from sparqlive.bulk.terms import value_of_text
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.values import Value

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


Redo: TypeAlias = "Callable[[Evaluation, Any, Solutions | None, Solutions], Solutions]"
"""Computes an operator's rows after a change, minus its rows before it, if there are any."""


def content(
    redo: Redo,
    evaluation: Evaluation,
    operator: op.Keyed,
    state: State,
    needed: frozenset[Var],
    keys: Keys | None,
) -> Solutions:
    source = evaluation.content(operator.source, state, frozenset(operator.source.variables), None)
    return redo(evaluation, operator, None, source)


def change(
    redo: Redo, evaluation: Evaluation, operator: op.Keyed, changed: Solutions, some: Frame | None = None
) -> Solutions:
    """Computes the change of some keys, or of all keys that the change touches."""
    keys = [column(v) for v in operator.keys]
    more = changed if some is None else changed.of(semi(changed.frame, some, keys))
    old = evaluation.before(operator, keys_of(more).only(operator.keys))
    if keys or some is not None:
        touched = more.frame.select(*keys).broadcast(more.small) if some is None else some
        old = old.of(semi(old.frame, touched, keys))
        if more.small and not old.small:
            frame, is_small = evaluation.backend.measured(old.frame)
            old = replace(old, frame=frame, small=is_small)
    return redo(evaluation, operator, old, more)


def by_python(
    evaluation: Evaluation, operator: op.Keyed, definition: Definition, source: Solutions
) -> Solutions:
    """Runs the definition over rows `before_and_after` a change, in Python workers."""
    frame = with_terms(evaluation, source, definition.read)
    texts = {v: text(v) for v in source.texts} | {v: f"a_{n}" for n, v in enumerate(definition.read)}
    given = [*source.ids, *(texts.get(v, "CAST(NULL AS STRING)") for v in source.variables)]
    names = _names(operator.variables)
    fields = [f"{value} AS f_{number}" for number, value in enumerate([*given, "before", "after"])]
    function = evaluation.terms.function(
        _worker(definition, len(source.variables), names, evaluation.terms.constants), _arrow_kind(names)
    )
    together = frame.collected([column(v) for v in operator.keys], fields, "rows")
    made = together.select(f"{function}(rows) AS made").listed("made", names)
    columns = _columns(evaluation, operator, definition, source)
    return _solutions(operator, definition, source).of(made.select(*columns))


# Results: ids for terms of the source, texts for computed terms


def _names(variables: tuple[Var, ...]) -> list[str]:
    numbers = range(len(variables))
    return [*(f"id_{number}" for number in numbers), *(f"text_{number}" for number in numbers), WEIGHT]


def _columns(
    evaluation: Evaluation, operator: op.Keyed, definition: Definition, source: Solutions
) -> list[str]:
    ids, texts = [], []
    for number, variable in enumerate(operator.variables):
        if variable in definition.computed:
            ids.append(f"{evaluation.terms.id_of_text(f'text_{number}')} AS {column(variable)}")
        else:
            ids.append(f"id_{number} AS {column(variable)}")
        if variable in definition.computed or variable in source.texts:
            texts.append(f"text_{number} AS {text(variable)}")
    return [*ids, *texts, WEIGHT]


def _solutions(operator: op.Keyed, definition: Definition, source: Solutions) -> Solutions:
    kept = frozenset(operator.variables) - definition.computed
    return Solutions(
        source.frame,
        operator.variables,
        always=operator.always,
        plain=source.plain & kept & operator.always,
        own_text=(source.own_text & kept) | definition.computed,
        texts=(source.texts & kept) | definition.computed,
        small=source.small,
    )


# In the workers


def _worker(
    definition: Definition, width: int, names: Sequence[str], constants: Mapping[int, str]
) -> Callable[[pa.Array], pa.Array]:
    """Returns a function from lists of source rows, one per key, to lists of the operator's rows.

    The columns of a source row are the ids of its variables, their texts, and its weights before and after.
    """

    def redo(groups: pa.Array) -> pa.Array:
        columns = [column.to_pylist() for column in groups.flatten().flatten()]
        ids, texts, (before, after) = columns[:width], columns[width:-2], columns[-2:]
        rows: list[Row] = list(zip(*ids, strict=True)) if width else [()] * len(after)
        made, end = [], 0
        for size in groups.value_lengths().to_pylist():
            start, end = end, end + size
            given = _texts_by_id(
                [column[start:end] for column in ids], [column[start:end] for column in texts]
            )
            value_of = _values(given, constants)
            total: dict[Made, int] = {}
            for sign, weights in ((-1, before), (1, after)):
                state = [(row, n) for row, n in zip(rows[start:end], weights[start:end], strict=True) if n]
                for row, weight in definition.evaluate(state, value_of) if state else ():
                    total[row] = total.get(row, 0) + sign * weight
            made.append([_cells(row, weight, given, names) for row, weight in total.items() if weight])
        return pa.array(made, _arrow_kind(names))

    return redo


def _texts_by_id(ids: Sequence[Sequence[int]], texts: Sequence[Sequence[str | None]]) -> dict[int, str]:
    """Returns the texts of ids that have one."""
    return {
        number: known
        for numbers, words in zip(ids, texts, strict=True)
        for number, known in zip(numbers, words, strict=True)
        if known is not None
    }


def _values(given: Mapping[int, str], constants: Mapping[int, str]) -> Callable[[int], Value | None]:
    def value_of(number: int) -> Value | None:
        return None if number == UNDEF else value_of_text(given.get(number) or constants[number])

    return value_of


def _cells(row: Made, weight: int, given: Mapping[int, str], names: Sequence[str]) -> dict[str, Any]:
    ids = [cell if isinstance(cell, int) else None for cell in row]
    texts = [given.get(cell) if isinstance(cell, int) else cell for cell in row]
    return dict(zip(names, [*ids, *texts, weight], strict=True))


def _arrow_kind(names: Sequence[str]) -> pa.DataType:
    kinds = [(name, pa.string() if name.startswith("text") else pa.int64()) for name in names]
    return pa.list_(pa.struct(kinds))
