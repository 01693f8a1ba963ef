"""Operators that live stores because keys do not reach them: here, the source restricted by its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.bulk.solutions import Keys, Solutions
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(
    evaluation: Evaluation, operator: op.Stored, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    return evaluation.content(operator.source, state, needed, keys)
