"""Which graphs a leaf reads, and how they are explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pyoxigraph import NamedNode

from sparqlive.plan.wording import Words
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


def in_graph(text: str, graph: GraphChoice, words: Words) -> str:
    match graph:
        case OneGraph(name):
            return text if name is None else f"GRAPH {name} {{ {text} }}"
        case NamedGraphs(variable):
            return f"GRAPH {words.variable(variable)} {{ {text} }}{among(graph)}"
        case MergedGraphs(None):
            return f"{text} in the union of all graphs"
        case MergedGraphs(names):
            return f"{text} in {'the union of ' + ' '.join(map(str, names)) if names else 'no graph'}"


def among(graph: NamedGraphs) -> str:
    return "" if graph.names is None else f" among {' '.join(map(str, graph.names)) or 'none'}"
