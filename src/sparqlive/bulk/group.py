"""GROUP BY: the aggregates of one group, by the accumulators that live uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparqlive.bulk.definition import Definition, Made, Row, ValueOf
from sparqlive.plan import operators as op
from sparqlive.sparql.aggregates import Grouping
from sparqlive.sparql.algebra import Var


def definition(operator: op.Group) -> Definition:
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
