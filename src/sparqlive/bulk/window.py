"""Evaluates LIMIT and OFFSET: the window of one key, in the order that live uses.

SQL drops rows that come too late for the window, by the positions of the first order key; Python sorts the
few remaining rows by the one definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sparqlive.bulk import keyed
from sparqlive.bulk.definition import Definition, Made, Row, ValueOf
from sparqlive.bulk.order import READ, place
from sparqlive.bulk.solutions import Solutions, before_and_after
from sparqlive.bulk.typed import with_types
from sparqlive.plan import operators as op
from sparqlive.plan.sort_keys import Cut
from sparqlive.sparql.ordering import order_bytes

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

_PLACE = ("place_0", "place_1", "place_2")


def _definition(operator: op.Window) -> Definition:
    # Workers get the columns instead of the plan below them.
    columns = op.Table(operator.variables, ())
    window = op.Window(columns, operator.keys, operator.order, operator.offset, operator.limit)

    def evaluate(rows: Sequence[tuple[Row, int]], value_of: ValueOf) -> Iterable[tuple[Made, int]]:
        return Cut(window, lambda number: order_bytes(value_of(number))).of(rows)

    return Definition(operator.variables, frozenset(), evaluate)


def redo(evaluation: Evaluation, operator: op.Window, old: Solutions | None, added: Solutions) -> Solutions:
    source = before_and_after(operator.source.variables, old, added)
    source = _candidates(evaluation, operator, source, has_old=old is not None)
    return keyed.by_python(evaluation, operator, _definition(operator), source)


def _candidates(
    evaluation: Evaluation, operator: op.Window, source: Solutions, *, has_old: bool
) -> Solutions:
    """Returns the rows that may be in the window, before or after the change.

    Each row has a weight of at least one, so it takes at most as many rows as the window's end to fill it. A
    row with a position after the last of these cannot be in the window.
    """
    if operator.limit is None or operator.keys or not operator.variables:
        return source
    if not evaluation.backend.repeats(source.frame):
        return source
    variable, is_descending = operator.order[0] if operator.order else (operator.variables[0], False)
    places = [f"{part} AS {name}" for part, name in zip(place(variable), _PLACE, strict=True)]
    placed = with_types(evaluation, source, {variable: READ}).select(*source.frame.columns, *places)
    struct = evaluation.backend.dialect.struct(_PLACE)
    order = ", ".join(f"{name} DESC" if is_descending else name for name in _PLACE)
    conditions, frame = [], placed
    for weight in ("before", "after") if has_old else ("after",):
        first = (
            placed.where(f"{weight} > 0").select(*_PLACE).first_rows(order, operator.offset + operator.limit)
        )
        last = first.grouped([], f"{'min' if is_descending else 'max'}({struct}) AS last_{weight}")
        frame = frame.join(last.broadcast(), [])
        conditions.append(f"{struct} {'>=' if is_descending else '<='} last_{weight}")
    return source.of(frame.where(" OR ".join(conditions)).select(*source.frame.columns))
