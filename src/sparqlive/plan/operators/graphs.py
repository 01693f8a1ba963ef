"""Which graphs a leaf reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pyoxigraph import NamedNode

from sparqlive.sparql.algebra import Var


@dataclass(frozen=True, slots=True)
class OneGraph:
    """A single graph; the unnamed one if `name` is None."""

    name: NamedNode | None


@dataclass(frozen=True, slots=True)
class MergedGraphs:
    """The set union of several graphs, or of all graphs including the unnamed one (None)."""

    names: tuple[NamedNode, ...] | None


@dataclass(frozen=True, slots=True)
class NamedGraphs:
    """Each named graph in turn, with its name bound to `variable`; only those in `names`, if given."""

    variable: Var
    names: tuple[NamedNode, ...] | None


GraphChoice: TypeAlias = OneGraph | MergedGraphs | NamedGraphs


def graph_variable(graph: GraphChoice) -> tuple[Var, ...]:
    return (graph.variable,) if isinstance(graph, NamedGraphs) else ()
