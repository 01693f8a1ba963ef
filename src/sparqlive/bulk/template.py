"""Evaluates templates: a solution produces the rows of the template, with its bindings for the variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.bulk.dialect import ZERO
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, text
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var, VarOrTerm

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(
    evaluation: Evaluation, operator: op.Template, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    return change(evaluation, operator, evaluation.content(operator.source, state, operator.read, None))


def change(evaluation: Evaluation, operator: op.Template, source: Solutions) -> Solutions:
    own = frozenset(source.variables)

    def number(term: VarOrTerm) -> str:
        if isinstance(term, Var):
            return column(term) if term in own else ZERO
        return literal(evaluation.quads.id_of(term))

    def text_or_null(term: VarOrTerm) -> str:
        return text(term) if isinstance(term, Var) and term in source.texts else "CAST(NULL AS STRING)"

    def where_all(holds: Callable[[VarOrTerm], bool]) -> frozenset[Var]:
        return frozenset(
            v for place, v in enumerate(operator.columns) if all(holds(row[place]) for row in operator.rows)
        )

    texts = frozenset(operator.columns) - where_all(lambda term: term not in source.texts)
    places = [place for place, v in enumerate(operator.columns) if v in texts]
    rows = [[*map(number, row), *(text_or_null(row[place]) for place in places)] for row in operator.rows]
    names = [*map(column, operator.columns), *(text(operator.columns[place]) for place in places)]
    return replace(
        source,
        frame=source.frame.stacked(rows, names, WEIGHT),
        variables=operator.columns,
        always=where_all(lambda term: not isinstance(term, Var) or term in source.always),
        plain=where_all(lambda term: term in source.plain),
        own_text=where_all(lambda term: not isinstance(term, Var) or term in source.own_text),
        texts=texts,
    )
