"""LIMIT and OFFSET: the window of one key, in the order that live keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparqlive.bulk.definition import Definition, Made, Row, ValueOf
from sparqlive.plan import operators as op
from sparqlive.plan.places import Cut
from sparqlive.sparql.ordering import order_bytes


def definition(operator: op.Window) -> Definition:
    # Workers get the columns, not the plan below them.
    columns = op.Table(operator.variables, ())
    window = op.Window(columns, operator.keys, operator.order, operator.offset, operator.limit)

    def evaluate(rows: Sequence[tuple[Row, int]], value_of: ValueOf) -> Iterable[tuple[Made, int]]:
        return Cut(window, lambda number: order_bytes(value_of(number))).of(rows)

    return Definition(operator.variables, frozenset(), evaluate)
