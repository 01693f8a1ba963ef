"""Operators with the solutions of their source.

What live stores because keys do not reach it is here the source restricted by its keys. What several
operators read is under one name, so that the text of a query contains it once.
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
    """The whole content, made once for each state, and what the keys reach of it."""
    made = evaluation.named.get((operator, state))
    if made is None:
        whole = evaluation.content(operator.source, state, frozenset(operator.variables), None)
        backend = evaluation.backend
        frame = backend.frame(backend.query(whole.frame), whole.frame.columns)
        made = evaluation.named[operator, state] = replace(whole, frame=frame)
    return made if keys is None else reached(made, keys)


def change(evaluation: Evaluation, operator: op.Stored | op.Shared, changed: Solutions) -> Solutions:
    return changed
