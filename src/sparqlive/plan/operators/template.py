from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Plus, linear
from sparqlive.plan.operators.base import UNKNOWN_SIZE, FanOut, Operator, OverOne, WithColumns
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var, VarOrTerm


@dataclass(frozen=True)
class Template(WithColumns, OverOne):
    """Instantiates each row for each solution: the triples of CONSTRUCT, or the resources of DESCRIBE."""

    source: Operator
    columns: tuple[Var, ...]
    rows: tuple[tuple[VarOrTerm, ...], ...]

    letter = "Q"

    @cached_property
    def always(self) -> frozenset[Var]:
        bound = self.source.always
        return frozenset(
            column
            for place, column in enumerate(self.columns)
            if all(not isinstance(row[place], Var) or row[place] in bound for row in self.rows)
        )

    @cached_property
    def read(self) -> frozenset[Var]:
        """The variables of the source that occur in a row."""
        return frozenset(term for row in self.rows for term in row if isinstance(term, Var))

    def delta_rule(self) -> Plus:
        """Δtemplate(A) = template(ΔA) (Theorem 3.1)."""
        return linear(self)

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return frozenset()

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return [self.read]

    @cached_property
    def computed(self) -> frozenset[Var]:
        return frozenset(self.columns)

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return UNKNOWN_SIZE

    def words(self, words: Words) -> str:
        listed = " . ".join(" ".join(map(words.position, row)) for row in self.rows)
        return f"template {{ {listed} }} as {words.text_of_list(self.columns, self.maybe)}"
