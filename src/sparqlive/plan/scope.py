"""Where a pattern is evaluated: its active graph, and inside EXISTS what is passed into its leaves.

Owns the meaning of being inside GRAPH for what reads no quads. Invariant: below `GRAPH ?g` the hidden graph
variable is in scope wherever a plan is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var


@dataclass(frozen=True)
class Scope:
    """`named`: inside GRAPH. `passed` are columns of `outer`, the solutions around the EXISTS."""

    graph: op.GraphChoice
    named: bool = False
    passed: tuple[Var, ...] = ()
    outer: op.Operator = op.UNIT

    @property
    def hidden(self) -> tuple[Var, ...]:
        return (self.graph.variable,) if isinstance(self.graph, op.NamedGraphs) else ()

    def within(self, variables: tuple[Var, ...] | None) -> Scope:
        """Inside a SELECT of some variables (None: of all): what else is around it is not in scope there."""
        if variables is None or not self.passed:
            return self
        passed: list[Var] = []
        seen = False
        for v in self.passed:
            seen = seen if v.hidden else v in variables  # a variable's tags follow it
            if seen:
                passed.append(v)
        around = tuple(v for v in self.outer.variables if v.hidden or v in variables)
        return replace(self, passed=tuple(passed), outer=op.Project(self.outer, around))

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
