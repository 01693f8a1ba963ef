"""Leaves without a quad pattern: the graph names that exist, and the nodes of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.operators.base import FanOut, QuadLeaf
from sparqlive.plan.operators.graphs import (
    GraphChoice,
    NamedGraphs,
    OneGraph,
    among,
    graph_variable,
    in_graph,
)
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var

_MANY = 1e7


@dataclass(frozen=True)
class Names(QuadLeaf):
    """The graph names that exist: of one graph (a switch), or one solution per named graph."""

    graph: OneGraph | NamedGraphs

    letter = "N"
    if_some_bound = _MANY

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return graph_variable(self.graph)

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return _MANY

    def words(self, words: Words) -> str:
        if isinstance(self.graph, OneGraph):
            return f"whether {self.graph.name} exists"
        return f"each named graph as {words.variable(self.graph.variable)}{among(self.graph)}"


@dataclass(frozen=True)
class Nodes(QuadLeaf):
    """The subjects and objects of a graph, each once per graph: where zero-length paths start."""

    graph: GraphChoice
    variable: Var

    letter = "N"
    if_some_bound = _MANY

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (self.variable, *graph_variable(self.graph))

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return _MANY

    def words(self, words: Words) -> str:
        return in_graph(f"each node as {words.variable(self.variable)}", self.graph, words)
