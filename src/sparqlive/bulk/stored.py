"""Evaluates operators whose content is that of their source.

Live stores such content if keys do not reach it; bulk restricts the source by the keys. Content that several
operators read has one name, so that the text of a query contains it once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.bulk.solutions import Keys, Solutions, reached
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(
    evaluation: Evaluation, operator: op.Stored, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    return evaluation.content(operator.source, state, needed, keys)


def shared_content(
    evaluation: Evaluation, operator: op.Shared, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    """Returns the content that the keys reach; the whole content is computed once per state."""
    made = evaluation.named.get((operator, state))
    if made is None:
        whole = evaluation.content(operator.source, state, frozenset(operator.variables), None)
        backend = evaluation.backend
        frame = backend.frame(backend.query(whole.frame), whole.frame.columns)
        made = evaluation.named[operator, state] = replace(whole, frame=frame)
    return made if keys is None else reached(made, keys)


def change(evaluation: Evaluation, operator: op.Stored | op.Shared, changed: Solutions) -> Solutions:
    return changed
