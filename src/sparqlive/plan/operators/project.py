from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Plus, linear
from sparqlive.plan.operators.base import Operator, Order, OverOne, WithColumns
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Project(WithColumns, OverOne):
    """Keeps some variables and sums the weights of solutions that become equal.

    A variable that the source does not have is never bound.
    """

    source: Operator
    columns: tuple[Var, ...]

    letter = "P"

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.source.always & frozenset(self.columns)

    def delta_rule(self) -> Plus:
        """Δπ(A) = π(ΔA) (Theorem 3.1)."""
        return linear(self)

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return self.source.pushable & frozenset(self.columns)

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return [needed & frozenset(self.columns)]

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        return (0,) if read.issubset(self.columns) else ()

    @cached_property
    def computed(self) -> frozenset[Var]:
        return frozenset()

    def words(self, words: Words) -> str:
        return f"project {words.text_of_list(self.columns, self.maybe) or 'no variables'}"

    def applied(self, argument: str, words: Words) -> str:
        return f"π_{{{','.join(map(words.variable, self.columns))}}}({argument})"


@dataclass(frozen=True)
class Listing(Project):
    """The top of a query with ORDER BY: its columns, and the order in which solutions are listed.

    The source has extra columns for sort keys that the query does not select.
    """

    order: Order


def kept_of(plan: Operator) -> Operator:
    """Returns the plan whose rows are stored. A listing selects and orders them when they are read."""
    return plan.source if isinstance(plan, Listing) else plan
