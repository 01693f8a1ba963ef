"""Evaluates leaves whose rows do not come from the quads: inline tables, and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparqlive.bulk.dialect import ONE, ZERO
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, restricted
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(
    evaluation: Evaluation, table: op.Table, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    columns, id_of = table.columns, evaluation.quads.id_of
    numbers = [tuple(UNDEF if term is None else id_of(term) for term in row) for row in table.rows]
    frame = frame_of(columns, numbers)
    return Solutions(frame, columns, table.always, own_text=frozenset(columns), small=len(numbers) < 10_000)


def parameters(
    evaluation: Evaluation, leaf: op.Parameters, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    frame = frame_of(leaf.columns, evaluation.parameters)
    return Solutions(restricted(frame, keys, leaf.columns), leaf.columns, leaf.always)


def frame_of(columns: Sequence[Var], rows: Sequence[Sequence[int]]) -> Frame:
    """Makes a frame of rows that the driver has, each with weight one."""
    names = [*map(column, columns), WEIGHT]
    if not rows:
        nothing = ", ".join(f"{ZERO} AS {name}" for name in names)
        return Frame.table(f"(SELECT {nothing} WHERE false)", names)
    values = ", ".join(f"({', '.join([*map(literal, row), ONE])})" for row in rows)
    return Frame.table(f"(SELECT * FROM (VALUES {values}) AS t({', '.join(names)}))", names)
