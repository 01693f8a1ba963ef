"""Evaluates GROUP BY: the aggregates of one group, by the accumulators that live uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sparqlive.bulk import aggregate, keyed
from sparqlive.bulk.definition import Definition, Made, Row, ValueOf
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import Solutions, before_and_after, column, semi
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.aggregates import Grouping
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def _definition(operator: op.Group) -> Definition:
    columns, width = operator.source.variables, len(operator.keys)
    aggregates = [
        (aggregate, None if aggregate.argument is None else columns.index(aggregate.argument))
        for _, aggregate in operator.aggregates
    ]
    member = None if operator.member is None else columns.index(operator.member)

    def evaluate(rows: Sequence[tuple[Row, int]], value_of: ValueOf) -> Iterable[tuple[Made, int]]:
        grouping = Grouping(aggregates, member, value_of)
        group = grouping.group()
        for row, weight in rows:
            grouping.add(group, row, weight)
        results = [None if value is None else str(value.term) for value in group.results()]
        return [((*rows[0][0][:width], *results), 1)]

    read = dict.fromkeys(
        aggregate.argument
        for _, aggregate in operator.aggregates
        if isinstance(aggregate.argument, Var) and aggregate.name != "COUNT"
    )
    return Definition(tuple(read), frozenset(operator.variables[width:]), evaluate)


def redo(evaluation: Evaluation, operator: op.Group, old: Solutions | None, added: Solutions) -> Solutions:
    """Computes groups in SQL where it can, and the rest in Python."""

    def by_python(before: Solutions | None, more: Solutions) -> Solutions:
        source = before_and_after(operator.source.variables, before, more)
        return keyed.by_python(evaluation, operator, _definition(operator), source)

    return aggregate.redone(evaluation, operator, old, added, by_python)


def change(evaluation: Evaluation, operator: op.Group, changed: Solutions) -> Solutions:
    """Computes the change from the totals of the groups, if they are known."""
    by_rows = partial(keyed.change, redo, evaluation, operator, changed)
    totals = evaluation.totals.get(operator)
    return (
        by_rows() if totals is None else aggregate.redone_from_totals(evaluation, operator, totals, by_rows)
    )


def content_from_totals(evaluation: Evaluation, operator: op.Group, known: aggregate.Totals) -> Solutions:
    """Computes the content of groups from totals, which count as a change of nothing."""
    keys, variables = [column(v) for v in operator.keys], operator.source.variables

    def by_rows(some: Frame | None) -> Solutions:
        source = evaluation.content(operator.source, State.NEW, frozenset(variables), None)
        some_rows = source if some is None else source.of(semi(source.frame, some, keys))
        return redo(evaluation, operator, None, some_rows)

    return aggregate.redone_from_totals(evaluation, operator, known, by_rows)
