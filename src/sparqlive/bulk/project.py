"""Evaluates projections: keeps some variables of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.bulk.solutions import Keys, Solutions, arranged, narrowed
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(
    evaluation: Evaluation, operator: op.Project, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    inner = evaluation.content(operator.source, state, needed & frozenset(operator.columns), keys)
    return _project(inner, tuple(v for v in operator.columns if v in needed))


def change(evaluation: Evaluation, operator: op.Project, changed: Solutions) -> Solutions:
    return _project(changed, operator.columns)


def _project(source: Solutions, columns: tuple[Var, ...]) -> Solutions:
    """Keeps some variables; a variable that the source lacks is never bound."""
    kept = narrowed(source, frozenset(columns), sums=False)
    if kept.variables == columns:
        return kept
    frame = arranged(kept, columns, kept.texts)
    missing = frozenset(columns) - frozenset(kept.variables)
    return replace(kept, frame=frame, variables=columns, own_text=kept.own_text | missing)
