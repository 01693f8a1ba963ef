from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.operators.base import FanOut, Operator
from sparqlive.plan.operators.keyed import Keyed
from sparqlive.plan.wording import Words
from sparqlive.sparql.aggregates import SUMS
from sparqlive.sparql.algebra import Aggregate, Var


@dataclass(frozen=True)
class Group(Keyed):
    """One solution per group of solutions with the same keys.

    The keys are the first columns of the source. The argument of an aggregate is one of its columns, or None
    for all of them. If there is a `member`, only rows that bind it are solutions; the others only make their
    group exist.
    """

    aggregates: tuple[tuple[Var, Aggregate], ...]
    member: Var | None = None

    letter = "R"

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.keys, *(variable for variable, _ in self.aggregates))

    @cached_property
    def computed(self) -> frozenset[Var]:
        return frozenset(variable for variable, _ in self.aggregates)

    @cached_property
    def always(self) -> frozenset[Var]:
        counts = {variable for variable, aggregate in self.aggregates if aggregate.name == "COUNT"}
        return (self.source.always & frozenset(self.keys)) | counts

    @cached_property
    def follows_from_totals(self) -> bool:
        """Whether the totals of a group determine its result, except for numbers that they leave out."""
        return all(
            aggregate.name in ("COUNT", *SUMS) and not aggregate.distinct for _, aggregate in self.aggregates
        )

    @cached_property
    def required(self) -> tuple[Operator, ...]:
        """Without keys there is one group even if nothing is in it."""
        return (self.source,) if self.keys else ()

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        return (0,) if read.issubset(self.keys) else ()

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return self.source.estimate(bound, fan_out) if self.keys else 1.0

    def words(self, words: Words) -> str:
        by = f"group by {words.text_of_list(self.keys, self.maybe)}" if self.keys else "one group"
        aggregates = [
            f"{words.with_marks(aggregate, self.source.always)} as {words.text_of_list([v], self.maybe)}"
            for v, aggregate in self.aggregates
        ]
        if self.member is None:
            return ": ".join([by, *([", ".join(aggregates)] if aggregates else [])])
        return f"{by}, including groups without {words.variable(self.member)}: {', '.join(aggregates)}"

    def stored_words(self, words: Words) -> str:
        if self.follows_from_totals:
            return "the totals of each group, and the values that they leave out"
        return "the values of each group, and the state of its aggregates"
