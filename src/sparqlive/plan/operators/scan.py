from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyoxigraph import NamedNode

from sparqlive.plan.operators.base import FanOut, QuadLeaf, ordered_union
from sparqlive.plan.operators.graphs import GraphChoice, graph_variable, in_graph
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var, VarOrTerm

_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")


@dataclass(frozen=True)
class Scan(QuadLeaf):
    """A quad pattern: the quads of `graph` that match, each with weight one.

    `excluded` are predicates that do not match (negated property sets).
    """

    graph: GraphChoice
    subject: VarOrTerm
    predicate: VarOrTerm
    object: VarOrTerm
    excluded: tuple[NamedNode, ...] = ()

    letter = "T"

    @cached_property
    def positions(self) -> tuple[VarOrTerm, VarOrTerm, VarOrTerm]:
        return (self.subject, self.predicate, self.object)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        found = tuple(term for term in self.positions if isinstance(term, Var))
        return ordered_union(found, graph_variable(self.graph))

    def estimate(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        """A measured fan-out if there is data, else a rule of thumb based on the bound positions."""
        if bound.issuperset(self.variables):
            # a test of a pair fails more often than a test of membership in a class
            return 0.0 if len(self.variables) > 1 else 0.1
        measured = fan_out(self, bound)
        return measured if measured is not None else self._rule_of_thumb(bound)

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return self.estimate(bound, fan_out)

    def _rule_of_thumb(self, bound: frozenset[Var]) -> float:
        """A subject has few objects, an object many subjects, a graph very many quads."""

        def fixed(term: VarOrTerm) -> bool:
            return not isinstance(term, Var) or term in bound

        if fixed(self.subject):
            return 2.0 if fixed(self.predicate) else 8.0
        if fixed(self.object):
            return 50.0 if isinstance(self.object, Var) else 1000.0
        return 1e6 if fixed(self.predicate) else 1e7

    def words(self, words: Words) -> str:
        predicate = "a" if self.predicate == _TYPE else words.position(self.predicate)
        text = f"{words.position(self.subject)} {predicate} {words.position(self.object)}"
        if self.excluded:
            text += f" with {predicate} none of {' '.join(map(str, self.excluded))}"
        return in_graph(text, self.graph, words)
