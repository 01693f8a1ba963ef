from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Of, Plus, Signs, State
from sparqlive.plan.operators.keyed import Keeping
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Distinct(Keeping):
    """Each solution once. Its counts are stored."""

    letter = "D"

    def delta_rule(self) -> Plus:
        """Δdistinct(A) = signs(A, ΔA): where a count becomes positive, or stops being positive."""
        return Plus((Signs(self, Of(State.DELTA, self.source)),))

    @cached_property
    def pushable(self) -> frozenset[Var]:
        """A row with a variable and a row without it are different, and both may be compatible."""
        return self.source.pushable & self.source.always

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        return (0,)

    def words(self, words: Words) -> str:
        return "distinct"

    def stored_words(self, words: Words) -> str:
        return "the count of each solution before duplicates are removed"
