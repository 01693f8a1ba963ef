from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.operators.base import Operator
from sparqlive.plan.operators.two_sided import TwoSided
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Semi(TwoSided):
    """Left solutions with (`keep`) or without a compatible right one: EXISTS, NOT EXISTS, MINUS.

    `domain`: a right solution counts only if both it and the left one bind one of these variables (MINUS,
    §18.5); None if there is no such test.
    """

    left: Operator
    right: Operator
    keep: bool
    domain: tuple[Var, ...] | None = None

    @property
    def letter(self) -> str:
        return "X" if self.domain is None else "M"

    @cached_property
    def tests_domain(self) -> bool:
        """Whether each pair must be tested, because no variable of the domain is bound in all pairs."""
        if self.domain is None:
            return False
        return not any(v in self.left.always and v in self.right.always for v in self.domain)

    @cached_property
    def flip_keys(self) -> tuple[Var, ...] | None:
        return None if self.tests_domain else super().flip_keys

    @cached_property
    def required(self) -> tuple[Operator, ...]:
        return self.children if self.keep else (self.left,)

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        return (0,)

    def words(self, words: Words) -> str:
        on = self.words_of_shared(words)
        if self.domain is None:
            return f"{'exists' if self.keep else 'not exists'}{on}"
        if not self.tests_domain:
            return f"minus{on}"
        return f"minus{on}, with one of {words.text_of_list(self.domain)} bound on both sides"

    def tested(self, left: str, right: str) -> str:
        return f"{left} {'⋉' if self.keep else '⊖'} {right}"
