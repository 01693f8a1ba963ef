from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

from sparqlive.plan.delta import Flips, Of, Plus, State, Tested, Times
from sparqlive.plan.operators.base import FanOut, Operator, shared
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


class TwoSided(Operator):
    """An operator that treats left solutions with and without a match differently: OPTIONAL, MINUS, EXISTS.

    It has the columns of the left side, unless it overrides them.
    """

    left: Operator
    right: Operator

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return self.left.variables

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.left.always

    @cached_property
    def required(self) -> tuple[Operator, ...]:
        return (self.left,)

    @cached_property
    def shared(self) -> tuple[Var, ...]:
        return shared(self.left, self.right)

    @cached_property
    def reads(self) -> frozenset[Var]:
        """The variables that decide whether a right solution matches."""
        return frozenset(self.right.variables)

    @cached_property
    def flip_keys(self) -> tuple[Var, ...] | None:
        """The shared variables if they decide whether there is a match (Theorem 4.6), else None."""
        always = self.left.always & self.right.always
        return self.shared if always.issuperset(self.shared) else None

    def delta_rule(self) -> Plus:
        """Δ(A ⊖ B) = (ΔA ⊖ B) + (A′ ⋈ flips(B, ΔB)) (Theorem 4.6)."""
        tested = Tested(self, Of(State.DELTA, self.left), Of(State.OLD, self.right))
        return Plus((tested, Times((Of(State.NEW, self.left), Flips(self)))))

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return self.left.pushable - (self.left.maybe & self.reads)

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return [needed | self.reads, frozenset(self.right.variables)]

    def _over(self, children: Sequence[Operator]) -> Self:
        return replace(self, left=children[0], right=children[1])  # type: ignore[type-var]

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return self.left.estimate(bound, fan_out)

    def words_of_shared(self, words: Words) -> str:
        return words.on(self.shared, self.left.maybe | self.right.maybe)

    def tested(self, left: str, right: str) -> str:
        """Left solutions that are tested against right ones, in the notation of the counting paper."""
        raise NotImplementedError

    def words_of_flips(self, words: Words) -> str:
        """Describes what the changes of matches are looked up by."""
        if self.flip_keys:
            return f"flips by {words.text_of_list(self.flip_keys)}"
        if self.flip_keys is not None:
            return "flips of the whole right side at once: there is no shared variable"
        maybe = self.left.maybe | self.right.maybe
        unbound = [v for v in self.shared if v in maybe]
        return f"flips by whole left solutions: {words.text_of_list(unbound)} may be unbound"
