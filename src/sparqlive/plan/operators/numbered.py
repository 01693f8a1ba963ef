from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.operators.keyed import Keyed
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Numbered(Keyed):
    """Each occurrence of a solution separately, numbered 0 … weight - 1. The keys are all columns."""

    variable: Var

    letter = "Q"

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.source.variables, self.variable)

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.source.always | {self.variable}

    def words(self, words: Words) -> str:
        return f"number the occurrences of each solution as {words.variable(self.variable)}"

    def stored_words(self, words: Words) -> str:
        return "the count of each solution"
