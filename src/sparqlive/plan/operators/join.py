from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Of, Plus, State, Times
from sparqlive.plan.operators.base import FanOut, Operator, OverParts
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Join(OverParts):
    """The natural join of compatible solutions; weights multiply."""

    parts: tuple[Operator, ...]

    letter = "J"

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset().union(*(part.always for part in self.parts))

    def delta_rule(self) -> Plus:
        """Σᵢ A₁′ ⋈ … ⋈ ΔAᵢ ⋈ … ⋈ Aₙ (Theorems 4.3, 4.5)."""
        return Plus(tuple(map(self.delta_term, range(len(self.parts)))))

    def delta_term(self, changed: int) -> Times:
        """Inputs before the changed one are read in their new state, those after it in their old state."""
        states = [State.NEW] * changed + [State.DELTA] + [State.OLD] * (len(self.parts) - changed - 1)
        return Times(tuple(Of(state, part) for state, part in zip(states, self.parts, strict=True)))

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        of = [frozenset(part.variables) for part in self.parts]
        return [needed.union(*of[:i], *of[i + 1 :]) for i in range(len(of))]

    @cached_property
    def required(self) -> tuple[Operator, ...]:
        return self.parts

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        """The first loop is the cheapest; how many rows the others add is not known."""
        return min(part.estimate(bound, fan_out) for part in self.parts)

    def words(self, words: Words) -> str:
        times = Counter(v for part in self.parts for v in part.variables)
        return f"join{words.on([v for v, number in times.items() if number > 1], self.maybe)}"
