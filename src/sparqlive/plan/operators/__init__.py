"""The operators of a plan, one file per operator, which executors evaluate from scratch and by delta rules.

All operators have bag semantics over solutions. Each has its `variables` (the order of its columns) and the
set of those that are `always` bound; the others may be unbound in some solution. An operator says what its
delta rule is, which keys can be pushed into it, what it needs of its inputs, which filters may move below it,
how many solutions it has, and how it is explained. Invariants: `Join` has at least two parts. Graphs are
resolved, so only leaves know about GRAPH: below `GRAPH ?g`, every leaf has a hidden variable for the graph
name.
"""

from __future__ import annotations

from collections.abc import Callable

from sparqlive.plan.operators.base import FanOut, Leaf, Operator, Order, QuadLeaf, ordered_union, shared
from sparqlive.plan.operators.closure import Closure
from sparqlive.plan.operators.distinct import Distinct
from sparqlive.plan.operators.extend import Extend, Filter
from sparqlive.plan.operators.graphs import GraphChoice, MergedGraphs, NamedGraphs, OneGraph
from sparqlive.plan.operators.group import Group
from sparqlive.plan.operators.join import Join
from sparqlive.plan.operators.keyed import Keeping, Keyed
from sparqlive.plan.operators.left_join import LeftJoin
from sparqlive.plan.operators.mark import Mark
from sparqlive.plan.operators.names import Names, Nodes
from sparqlive.plan.operators.numbered import Numbered
from sparqlive.plan.operators.project import Listing, Project, kept_of
from sparqlive.plan.operators.scan import Scan
from sparqlive.plan.operators.semi import Semi
from sparqlive.plan.operators.stored import Shared, Stored, digest_of
from sparqlive.plan.operators.table import UNIT, Parameters, Table
from sparqlive.plan.operators.template import Template
from sparqlive.plan.operators.two_sided import TwoSided
from sparqlive.plan.operators.union import Union
from sparqlive.plan.operators.window import Window

__all__ = [
    "OPERATORS", "UNIT", "Closure", "Distinct", "Extend", "FanOut", "Filter", "GraphChoice", "Group", "Join",
    "Keeping", "Keyed", "Leaf", "LeftJoin", "Listing", "Mark", "MergedGraphs", "NamedGraphs", "Names",
    "Nodes", "Numbered", "OneGraph", "Operator", "Order", "Parameters", "Project", "QuadLeaf", "Scan",
    "Semi", "Shared", "Stored", "Table", "Template", "TwoSided", "Union", "Window", "complete", "digest_of",
    "kept_of", "ordered_union", "shared",
]  # fmt: skip

OPERATORS = (
    *(Scan, Names, Nodes, Table, Parameters),
    *(Join, Filter, Extend, Project, Listing, Template, Union),
    *(LeftJoin, Semi, Mark),
    *(Distinct, Group, Closure, Window, Numbered, Stored, Shared),
)
"""All of them. Executors have a table with an entry for each."""

_ANSWERS = ("variables", "delta_rule", "pushable", "needed_below", "size", "letter", "words")


def complete(answer: Callable[[type[Operator]], object], where: str) -> None:
    """Fails, when a module is imported, if it has no answer for some operator."""
    for operator in OPERATORS:
        if not answer(operator):
            raise NotImplementedError(f"{where} has no answer for the operator {operator.__name__}")


def _has(name: str) -> Callable[[type[Operator]], bool]:
    return lambda operator: getattr(operator, name) is not getattr(Operator, name)


for _name in _ANSWERS:
    complete(_has(_name), f"plan/operators ({_name})")
