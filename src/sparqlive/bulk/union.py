"""Evaluates UNION: the parts, each with its own schema. A variable that a part lacks is unbound there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.bulk.solutions import Keys, Solutions, united
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(
    evaluation: Evaluation, operator: op.Union, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    parts = [evaluation.content(part, state, needed, keys) for part in operator.parts]
    return united(parts, tuple(v for v in operator.variables if v in needed))


def change(evaluation: Evaluation, operator: op.Union, changed: Solutions) -> Solutions:
    return changed
