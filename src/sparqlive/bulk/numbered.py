"""Numbers the occurrences of solutions: a solution of weight n becomes n rows with different numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.bulk.dialect import ONE, ZERO
from sparqlive.bulk.distinct import counted
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, keys_of, summed, text
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def content(
    evaluation: Evaluation, operator: op.Numbered, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    source = evaluation.content(operator.source, state, frozenset(operator.source.variables), None)
    source = summed(source)
    frame = source.frame.where(f"{WEIGHT} > 0").select("*", f"{ONE} AS s")
    frame = frame.counted_up("n", ZERO, f"{WEIGHT} - {ONE}")
    return _numbered(evaluation, operator, source, frame)


def change(evaluation: Evaluation, operator: op.Numbered, changed: Solutions) -> Solutions:
    """Adds or removes the highest numbers; the others stay."""
    old = evaluation.before(operator, keys_of(changed))
    frame = counted(changed, old).where("d <> 0")
    frame = frame.select("*", "n AS old", "CAST(sign(d) AS BIGINT) AS s")
    frame = frame.select(*(name for name in frame.columns if name != "n"))
    frame = frame.counted_up("n", "least(old, old + d)", f"greatest(old, old + d) - {ONE}")
    return _numbered(evaluation, operator, changed, frame)


def _numbered(evaluation: Evaluation, operator: op.Numbered, source: Solutions, frame: Frame) -> Solutions:
    """Writes the number as a literal; `n` and `s` are the number and the weight of each row."""
    variable = operator.variable
    name, written = column(variable), text(variable)
    literal = f"""concat('"', n, '"^^<{_INTEGER}>') AS {written}"""
    frame = frame.select(*source.ids, *source.text_columns, literal, f"s AS {WEIGHT}")
    number = f"{evaluation.terms.id_of_text(written)} AS {name}"
    return replace(
        source,
        frame=frame.select(*source.ids, number, *source.text_columns, written, WEIGHT),
        variables=(*source.variables, variable),
        always=source.always | {variable},
        own_text=source.own_text | {variable},
        texts=source.texts | {variable},
    )
