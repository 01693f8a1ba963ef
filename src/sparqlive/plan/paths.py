"""Translates property paths into operators.

Defines the meaning of paths (SPARQL 1.1 §18.4): sequences are joins, alternatives unions, `?` a DISTINCT, `*`
and `+` closures. Invariant: a plan has the variables at the ends of the path, and the hidden variable of the
graph.
"""

from __future__ import annotations

from collections.abc import Callable

from pyoxigraph import NamedNode

from sparqlive.plan import operators as op
from sparqlive.plan.scope import Scope
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var


class Paths:
    """`fresh` returns a new hidden variable."""

    def __init__(self, fresh: Callable[[str], Var]) -> None:
        self._fresh = fresh

    def plan(self, start: al.VarOrTerm, path: al.Path, end: al.VarOrTerm, scope: Scope) -> op.Operator:
        columns = op.ordered_union(tuple(v for v in (start, end) if isinstance(v, Var)), scope.hidden)
        match path:
            case NamedNode():
                return op.Scan(scope.graph, start, path, end)
            case al.Inverse(inner):
                return self.plan(end, inner, start, scope)
            case al.Sequence(first, second):
                middle = self._fresh("node")
                both = (self.plan(start, first, middle, scope), self.plan(middle, second, end, scope))
                return op.Project(op.Join(both), columns)
            case al.Alternative(first, second):
                return op.Union((self.plan(start, first, end, scope), self.plan(start, second, end, scope)))
            case al.NegatedSet(forward, inverse):
                branches = []
                if forward or not inverse:
                    branches.append(op.Scan(scope.graph, start, self._fresh("predicate"), end, forward))
                if inverse:
                    branches.append(op.Scan(scope.graph, end, self._fresh("predicate"), start, inverse))
                plans = tuple(op.Project(branch, columns) for branch in branches)
                return plans[0] if len(plans) == 1 else op.Union(plans)
            case al.ZeroOrOne(inner):
                once = op.Project(self.plan(start, inner, end, scope), columns)
                nothing = op.Project(self._zero_length(start, end, scope), columns)
                return op.Distinct(op.Union((nothing, once)))
            case al.ZeroOrMore(inner):
                return self._closure(start, inner, end, columns, scope, from_zero=True)
            case al.OneOrMore(inner):
                return self._closure(start, inner, end, columns, scope, from_zero=_may_be_empty(inner))

    def _closure(
        self,
        start: al.VarOrTerm,
        step: al.Path,
        end: al.VarOrTerm,
        columns: tuple[Var, ...],
        scope: Scope,
        from_zero: bool,
    ) -> op.Operator:
        """Translates `+`, or `*` if `from_zero`. A path of no steps is a step from a node to itself."""
        if start == end and isinstance(start, Var):
            if from_zero:  # every node reaches itself
                return scope.nodes(start, (start,))
            other = self._fresh("end")
            pairs = self._closure(start, step, other, (start, other, *scope.hidden), scope, from_zero)
            return op.Project(op.Filter(al.Call("SAMETERM", (start, other)), pairs), columns)
        at, to = self._fresh("from"), self._fresh("to")
        ends = (at, to, *scope.hidden)
        steps = _with_columns(self.plan(at, _single_step(step), to, scope), ends)
        if from_zero:
            terms = dict.fromkeys(term for term in (start, end) if not isinstance(term, Var))
            if terms:
                nowhere = scope.in_graph(op.Table((at, to), tuple((term, term) for term in terms)))
            else:
                nowhere = op.Extend(scope.nodes(at, (start, end)), to, at)
            steps = op.Union((_with_columns(nowhere, ends), steps))
        return op.Closure(steps, scope.hidden, start, end)

    def _zero_length(self, start: al.VarOrTerm, end: al.VarOrTerm, scope: Scope) -> op.Operator:
        """Translates zero steps: a term matches itself, even if the graph has no such node (§18.4)."""
        if isinstance(start, Var) and isinstance(end, Var):
            nodes = scope.nodes(start, (start, end))
            return nodes if start == end else op.Extend(nodes, end, start)
        if isinstance(start, Var):
            assert not isinstance(end, Var)
            return scope.in_graph(op.Table((start,), ((end,),)))
        if isinstance(end, Var):
            return scope.in_graph(op.Table((end,), ((start,),)))
        return scope.in_graph(op.Table((), ((),) if start == end else ()))


def _with_columns(plan: op.Operator, columns: tuple[Var, ...]) -> op.Operator:
    return plan if plan.variables == columns else op.Project(plan, columns)


def _may_be_empty(path: al.Path) -> bool:
    """Whether a path can have no steps, so that every term matches itself, even outside the graph."""
    match path:
        case al.ZeroOrMore() | al.ZeroOrOne():
            return True
        case al.Inverse(inner) | al.OneOrMore(inner):
            return _may_be_empty(inner)
        case al.Sequence(first, second):
            return _may_be_empty(first) and _may_be_empty(second)
        case al.Alternative(first, second):
            return _may_be_empty(first) or _may_be_empty(second)
        case _:
            return False


def _single_step(path: al.Path) -> al.Path:
    """Returns a path with the same closure, given zero steps count anyway: (p*)+ is p*, (p?|q)* is (p|q)*."""
    match path:
        case al.ZeroOrMore(inner) | al.OneOrMore(inner) | al.ZeroOrOne(inner):
            return _single_step(inner)
        case al.Inverse(inner):
            return al.Inverse(_single_step(inner))
        case al.Alternative(first, second):
            return al.Alternative(_single_step(first), _single_step(second))
        case _:
            return path
