"""The scope of a pattern: its active graph, and inside EXISTS the variables passed into its leaves.

Defines what GRAPH means for operators that read no quads. Invariant: below `GRAPH ?g`, the hidden graph
variable is in scope for every plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sparqlive.plan import operators as op
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Scope:
    """`named`: inside GRAPH. `outer` are the solutions around the EXISTS, `passed` some of their columns."""

    graph: op.GraphChoice
    named: bool = False
    passed: tuple[Var, ...] = ()
    outer: op.Operator = op.UNIT

    @property
    def hidden(self) -> tuple[Var, ...]:
        return (self.graph.variable,) if isinstance(self.graph, op.NamedGraphs) else ()

    @property
    def tags(self) -> dict[Var, tuple[Var, Var]]:
        """The passed variables that may be unbound, each with its tags: whether it is bound, and to what."""
        return {
            v: (self.passed[place + 1], self.passed[place + 2])
            for place, v in enumerate(self.passed)
            if not v.hidden and v not in self.outer.always
        }

    def apart(self, variable: Var) -> tuple[Scope, Scope]:
        """Splits the scope inside EXISTS: outer solutions that bind the variable, and those that do not."""
        is_bound, value = self.tags[variable]
        others = op.Project(self.outer, tuple(v for v in self.outer.variables if v != variable))
        having = op.Extend(op.Filter(is_bound, others), variable, value)
        lacking = op.Filter(al.Call("!", (is_bound,)), others)
        passed = tuple(v for v in self.passed if v != variable)
        return replace(self, outer=having), replace(self, outer=lacking, passed=passed)

    def within(self, variables: tuple[Var, ...] | None) -> Scope:
        """Returns the scope inside a SELECT of some variables (None: all).

        Other outer variables are not visible there.
        """
        if variables is None or self.outer is op.UNIT:
            return self
        passed: list[Var] = []
        seen = False
        for v in self.passed:
            seen = seen if v.hidden else v in variables  # the tags of a variable are visible where it is
            if seen:
                passed.append(v)
        around = tuple(v for v in self.outer.variables if v.hidden or v in variables)
        return replace(self, passed=tuple(passed), outer=op.Project(self.outer, around))

    def nodes(self, variable: Var, ends: Iterable[al.VarOrTerm]) -> op.Operator:
        """Returns where zero-length paths match: at nodes of the graph, and at terms that EXISTS substitutes.

        §18.6 substitutes a term, which matches itself even if the graph has no such node (§18.4).
        """
        nodes: op.Operator = op.Nodes(self.graph, variable)
        parts = [nodes]
        for end in dict.fromkeys(ends):
            if (
                isinstance(end, Var)
                and end in self.outer.always
                and not _is_node(end, self.outer, self.graph)
            ):
                values: op.Operator = op.Project(self.outer, (end,))
                if end != variable:
                    values = op.Project(op.Extend(values, variable, end), (variable,))
                parts.append(op.Project(self.in_graph(values), nodes.variables))
        return nodes if len(parts) == 1 else op.Distinct(op.Union(tuple(parts)))

    def in_graph(self, plan: op.Operator) -> op.Operator:
        """Restricts a plan without quad patterns to the graph: one copy per graph, if the graph exists."""
        names = self._names()
        return plan if names is None else op.Join((names, plan))

    def _names(self) -> op.Operator | None:
        if not self.named:
            return None
        if isinstance(self.graph, op.MergedGraphs):  # a graph that is not in the dataset
            return op.Table((), ())
        return op.Names(self.graph)


def _is_node(variable: Var, plan: op.Operator, graph: op.GraphChoice) -> bool:
    """Whether the plan guarantees that a variable is bound only to nodes of a graph."""
    match plan:
        case op.Scan(where, subject, _, object_):
            return where == graph and variable in (subject, object_)
        case op.Join(parts):
            return any(_is_node(variable, part, graph) for part in parts)
        case op.Union(parts):
            return all(_is_node(variable, part, graph) for part in parts)
        case op.TwoSided():
            return _is_node(variable, plan.left, graph)
        case op.Filter(_, source) | op.Project(source, _) | op.Distinct(source) | op.Shared(source):
            return _is_node(variable, source, graph)
        case op.Extend(source, other, _):
            return other != variable and _is_node(variable, source, graph)
    return False
