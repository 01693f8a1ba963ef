"""Parts that several operators read: under one name, so that the text of a query contains them once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.bulk.solutions import Keys, Solutions, reached
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(evaluation: Evaluation, operator: op.Shared, state: State, keys: Keys | None) -> Solutions:
    """The whole content, made once for each state, and what the keys reach of it."""
    made = evaluation.named.get((operator, state))
    if made is None:
        whole = evaluation.content(operator.source, state, frozenset(operator.variables), None)
        backend = evaluation.backend
        frame = backend.frame(backend.query(whole.frame), whole.frame.columns)
        made = evaluation.named[operator, state] = replace(whole, frame=frame)
    return made if keys is None else reached(made, keys)
