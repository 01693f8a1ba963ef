from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.operators.base import Operator
from sparqlive.plan.operators.two_sided import TwoSided
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Mark(TwoSided):
    """Adds a hidden boolean to left solutions: whether a compatible right solution exists."""

    left: Operator
    right: Operator
    variable: Var

    letter = "K"

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.left.variables, self.variable)

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.left.always | {self.variable}

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        return (0,) if self.variable not in read else ()

    def words(self, words: Words) -> str:
        return f"mark {words.variable(self.variable)}: exists{self.words_of_shared(words)}"

    def tested(self, left: str, right: str) -> str:
        return f"mark({left}, {right})"
