from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Plus, linear
from sparqlive.plan.operators.base import FanOut, Operator, OverParts
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Union(OverParts):
    parts: tuple[Operator, ...]

    letter = "U"

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset.intersection(*(part.always for part in self.parts))

    def delta_rule(self) -> Plus:
        """Δ(A + B) = ΔA + ΔB (Theorem 3.1)."""
        return linear(self)

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return [needed] * len(self.parts)

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        return range(len(self.parts))

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return sum(part.estimate(bound, fan_out) for part in self.parts)

    def words(self, words: Words) -> str:
        return "union"

    def applied(self, argument: str, words: Words) -> str:
        return argument
