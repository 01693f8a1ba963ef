"""Where a pattern is evaluated: its active graph, and inside EXISTS what is passed into its leaves.

Owns the meaning of being inside GRAPH for what reads no quads. Invariant: below `GRAPH ?g` the hidden graph
variable is in scope wherever a plan is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sparqlive.plan import operators as op
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Scope:
    """`named`: inside GRAPH. `outer` are the solutions around the EXISTS, `passed` columns of them."""

    graph: op.GraphChoice
    named: bool = False
    passed: tuple[Var, ...] = ()
    outer: op.Operator = op.UNIT

    @property
    def hidden(self) -> tuple[Var, ...]:
        return (self.graph.variable,) if isinstance(self.graph, op.NamedGraphs) else ()

    @property
    def tags(self) -> dict[Var, tuple[Var, Var]]:
        """What is passed in and may be unbound, with the columns that tell whether it is, and its value."""
        return {
            v: (self.passed[place + 1], self.passed[place + 2])
            for place, v in enumerate(self.passed)
            if not v.hidden and v not in self.outer.always
        }

    def apart(self, variable: Var) -> tuple[Scope, Scope]:
        """Inside EXISTS: for the solutions around it that have the variable, and for those that do not."""
        is_bound, value = self.tags[variable]
        others = op.Project(self.outer, tuple(v for v in self.outer.variables if v != variable))
        having = op.Extend(op.Filter(is_bound, others), variable, value)
        lacking = op.Filter(al.Call("!", (is_bound,)), others)
        passed = tuple(v for v in self.passed if v != variable)
        return replace(self, outer=having), replace(self, outer=lacking, passed=passed)

    def within(self, variables: tuple[Var, ...] | None) -> Scope:
        """Inside a SELECT of some variables (None: of all): what else is around it is not in scope there."""
        if variables is None or self.outer is op.UNIT:
            return self
        passed: list[Var] = []
        seen = False
        for v in self.passed:
            seen = seen if v.hidden else v in variables  # a variable's tags follow it
            if seen:
                passed.append(v)
        around = tuple(v for v in self.outer.variables if v.hidden or v in variables)
        return replace(self, passed=tuple(passed), outer=op.Project(self.outer, around))

    def nodes(self, variable: Var, ends: Iterable[al.VarOrTerm]) -> op.Operator:
        """Where paths of no steps are: at the nodes of the graph, and at what EXISTS puts in place of an end.

        §18.6 substitutes a term, which matches itself, also where the graph has no such node (§18.4).
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
        """What has no quad pattern of its own is there once a graph, and only if the graph exists."""
        names = self._names()
        return plan if names is None else op.Join((names, plan))

    def _names(self) -> op.Operator | None:
        if not self.named:
            return None
        if isinstance(self.graph, op.MergedGraphs):  # a graph that the dataset does not have
            return op.Table((), ())
        return op.Names(self.graph)


def _is_node(variable: Var, plan: op.Operator, graph: op.GraphChoice) -> bool:
    """Whether a variable has nodes of a graph only, as far as the plan tells."""
    match plan:
        case op.Scan(where, subject, _, object_):
            return where == graph and variable in (subject, object_)
        case op.Join(parts):
            return any(_is_node(variable, part, graph) for part in parts)
        case op.Union(parts):
            return all(_is_node(variable, part, graph) for part in parts)
        case op.LeftJoin(left, _, _) | op.Semi(left, _, _, _) | op.Mark(left, _, _):
            return _is_node(variable, left, graph)
        case op.Filter(_, source) | op.Project(source, _) | op.Distinct(source) | op.Shared(source):
            return _is_node(variable, source, graph)
        case op.Extend(source, other, _):
            return other != variable and _is_node(variable, source, graph)
    return False
