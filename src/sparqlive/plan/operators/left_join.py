from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Flips, Of, Outer, Plus, State, Times
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.operators.base import Operator, ordered_union
from sparqlive.plan.operators.two_sided import TwoSided
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Expression, Var


@dataclass(frozen=True)
class LeftJoin(TwoSided):
    """OPTIONAL: left solutions with their matches that satisfy the condition, or alone if there are none."""

    left: Operator
    right: Operator
    condition: Expression | None

    letter = "L"

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return ordered_union(self.left.variables, self.right.variables)

    @cached_property
    def reads(self) -> frozenset[Var]:
        right = frozenset(self.right.variables)
        return right if self.condition is None else right | mentioned(self.condition)

    @cached_property
    def flip_keys(self) -> tuple[Var, ...] | None:
        return super().flip_keys if self.condition is None else None

    def delta_rule(self) -> Plus:
        """Δ(A ⟕ B) = (ΔA ⟕ B) + (A′ ⋈ (ΔB + flips(B, ΔB))) (Theorems 4.5, 4.6)."""
        from_left = Outer(Of(State.DELTA, self.left), Of(State.OLD, self.right), self.condition)
        from_right = Plus((Of(State.DELTA, self.right), Flips(self)))
        return Plus((from_left, Times((Of(State.NEW, self.left), from_right))))

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        decides = all(v in self.left.always or v not in self.right.variables for v in read)
        return (0,) if decides else ()

    def words(self, words: Words) -> str:
        if self.condition is None:
            return f"optional{self.words_of_shared(words)}"
        condition = words.with_marks(self.condition, self.left.always | self.right.always)
        return f"optional{self.words_of_shared(words)} if {condition}"

    def words_of_flips(self, words: Words) -> str:
        if self.condition is not None:
            return "flips by whole left solutions: the condition is tested on each pair (also in ⋈)"
        return super().words_of_flips(words)
