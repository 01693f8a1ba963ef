from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.operators.base import UNKNOWN_SIZE, FanOut
from sparqlive.plan.operators.keyed import Keyed
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var, VarOrTerm


@dataclass(frozen=True)
class Closure(Keyed):
    """Paths of one or more steps (`+`): each pair of connected nodes once per key.

    The source has the start and the end of a step as columns, then the keys. `start` and `end` are the ends
    of the whole path: different variables, or terms for a fixed end. A path of no steps is represented by
    steps from a node to itself.
    """

    start: VarOrTerm
    end: VarOrTerm

    letter = "C"

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*(term for term in (self.start, self.end) if isinstance(term, Var)), *self.keys)

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset(self.variables)

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return frozenset(self.variables)

    @cached_property
    def computed(self) -> frozenset[Var]:
        return frozenset()

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        fixed = not (isinstance(self.start, Var) and isinstance(self.end, Var))
        return 1000.0 if fixed and not self.keys else UNKNOWN_SIZE

    def words(self, words: Words) -> str:
        within = f" within each {words.text_of_list(self.keys)}" if self.keys else ""
        return f"paths from {words.position(self.start)} to {words.position(self.end)}{within}"

    def stored_words(self, words: Words) -> str:
        reached = "the nodes that each node reaches, shared within a cycle"
        if not isinstance(self.start, Var):
            reached = f"the tree of nodes that {words.position(self.start)} reaches"
        elif not isinstance(self.end, Var):
            reached = f"the tree of nodes that reach {words.position(self.end)}"
        return f"its steps, and {reached}"
