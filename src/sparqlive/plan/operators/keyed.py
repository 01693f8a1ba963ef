"""Operators that store the content of their source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Of, Plus, Redone, State
from sparqlive.plan.operators.base import Operator, OverOne
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Keeping(OverOne):
    """An operator that stores the content of its source and computes its own change from it."""

    source: Operator

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return [frozenset(self.source.variables)]


@dataclass(frozen=True)
class Keyed(Keeping):
    """A keeping operator whose rows with a key depend on all source rows with that key.

    Without `keys`, its rows depend on the whole source.
    """

    keys: tuple[Var, ...]

    def delta_rule(self) -> Plus:
        """ΔK(A) = redone(A, ΔA): for each key in ΔA, minus the old rows, plus the new rows."""
        return Plus((Redone(self, Of(State.DELTA, self.source)),))

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return frozenset()
