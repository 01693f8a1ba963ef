"""From the SPARQL algebra to a plan: graphs, paths and EXISTS are resolved into operators.

Owns the meaning of GRAPH, FROM, property paths and EXISTS. Refuses, with a sentence, what no delta rule
carries yet. Invariant: below `GRAPH ?g` every operator has the hidden graph variable and always binds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from pyoxigraph import NamedNode

from sparqlive.errors import Unsupported
from sparqlive.plan import operators as op
from sparqlive.plan.expressions import conjuncts, contains_exists, mentioned, rename, replace_exists
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var

_LATER = "{} is not kept fresh yet: leave it out of the query for now."


def translate(query: al.Query, union_default: bool) -> op.Operator:
    """The plan of a SELECT query; its variables are the query's, in order."""
    if query.form != "SELECT":
        raise Unsupported(_LATER.format(f"{query.form} as a query form"))
    return _Translator(query.dataset, union_default).query(query)


@dataclass(frozen=True)
class _Scope:
    """Where a pattern is evaluated: the active graph, and inside EXISTS the solutions around it."""

    graph: op.GraphChoice
    outer: op.Operator | None = None

    @property
    def hidden(self) -> tuple[Var, ...]:
        return (self.graph.variable,) if isinstance(self.graph, op.NamedGraphs) else ()


class _Translator:
    def __init__(self, dataset: al.Dataset | None, union_default: bool) -> None:
        self._dataset = dataset
        self._union_default = union_default
        self._numbers: Iterator[int] = count()

    def query(self, query: al.Query) -> op.Operator:
        plan = self._pattern(query.pattern, _Scope(self._default_graph()))
        assert plan.variables == query.variables
        return plan

    def _fresh(self, hint: str) -> Var:
        return Var(f".{hint}{next(self._numbers)}")

    def _default_graph(self) -> op.GraphChoice:
        if self._dataset is None:
            return op.MergedGraphs(None) if self._union_default else op.OneGraph(None)
        names = tuple(dict.fromkeys(self._dataset.default))
        return op.OneGraph(names[0]) if len(names) == 1 else op.MergedGraphs(names)

    def _pattern(self, pattern: al.Pattern, scope: _Scope) -> op.Operator:
        match pattern:
            case al.BasicPattern(patterns):
                return self._basic(patterns, scope)
            case al.Join(left, right):
                return op.Join((self._pattern(left, scope), self._pattern(right, scope)))
            case al.LeftJoin(left, right, condition):
                return self._left_join(self._pattern(left, scope), right, condition, scope)
            case al.Filter(condition, source):
                return self._filter(condition, self._pattern(source, scope), scope)
            case al.Union(left, right):
                return op.Union((self._pattern(left, scope), self._pattern(right, scope)))
            case al.Minus(left, right):
                return self._minus(self._pattern(left, scope), self._pattern(right, scope), scope)
            case al.Extend(source, variable, expression):
                inner = self._with_outer(self._pattern(source, scope), expression, scope)
                inner, expression = self._marks(inner, expression, scope)
                return op.Extend(inner, variable, expression)
            case al.Values(variables, rows):
                return self._in_graph(op.Table(variables, rows), scope)
            case al.Graph(name, source):
                return self._in_graph(self._graph(name, source, scope), scope)
            case al.Project(source, variables):
                return self._project(self._pattern(source, scope), variables, scope)
            case al.Distinct(source):
                return op.Distinct(self._pattern(source, scope))
            case al.Reduced(source):
                # §18.5: any multiplicity between one and the count; the counts as they are cost no state.
                return self._pattern(source, scope)
            case al.Service(name):
                raise Unsupported(f"SERVICE {name} cannot be kept fresh: nothing tells when its data changes.")
            case al.Group():
                raise Unsupported(_LATER.format("Grouping and aggregation"))
            case al.OrderBy():
                raise Unsupported(_LATER.format("ORDER BY"))
            case al.Slice():
                raise Unsupported(_LATER.format("LIMIT or OFFSET"))

    # Graphs

    def _in_graph(self, plan: op.Operator, scope: _Scope) -> op.Operator:
        """What has no quad pattern of its own is there once a graph, and only if the graph exists."""
        names = self._names(scope)
        return plan if names is None else op.Join((names, plan))

    def _names(self, scope: _Scope) -> op.Operator | None:
        match scope.graph:
            case op.NamedGraphs() as graphs:
                return op.Names(graphs)
            case op.OneGraph(name) as graph if name is not None and graph != self._default_graph():
                return op.Names(graph)
            case op.MergedGraphs(()) if self._default_graph() != scope.graph:
                return op.Table((), ())
        return None

    def _graph(self, name: Var | NamedNode, source: al.Pattern, scope: _Scope) -> op.Operator:
        named = None if self._dataset is None else tuple(dict.fromkeys(self._dataset.named))
        if not isinstance(name, Var):
            absent = named is not None and name not in named
            return self._pattern(source, replace(scope, graph=op.MergedGraphs(()) if absent else op.OneGraph(name)))
        hidden = self._fresh("graph")
        inner = self._pattern(source, replace(scope, graph=op.NamedGraphs(hidden, named)))
        if name in inner.variables:
            # The pattern binds the variable too: the two must agree, and the graph's name is always there.
            unbound = al.Call("!", (al.Call("BOUND", (name,)),))
            agrees = al.Call("||", (unbound, al.Call("SAMETERM", (name, hidden))))
            inner = op.Filter(agrees, inner)
            inner = op.Project(inner, tuple(v for v in inner.variables if v != name))
        return op.Extend(inner, name, hidden)

    # Basic patterns and paths

    def _basic(self, patterns: tuple[al.Triple | al.PathPattern, ...], scope: _Scope) -> op.Operator:
        parts: list[op.Operator] = []
        for pattern in patterns:
            if isinstance(pattern, al.Triple):
                parts.append(op.Scan(scope.graph, pattern.subject, pattern.predicate, pattern.object))
            else:
                parts.append(self._path(pattern.subject, pattern.path, pattern.object, scope))
        if not parts:
            return self._in_graph(op.UNIT, scope)
        return parts[0] if len(parts) == 1 else op.Join(tuple(parts))

    def _path(self, start: al.VarOrTerm, path: al.Path, end: al.VarOrTerm, scope: _Scope) -> op.Operator:
        columns = op.ordered_union(tuple(v for v in (start, end) if isinstance(v, Var)), scope.hidden)
        match path:
            case NamedNode():
                return op.Scan(scope.graph, start, path, end)
            case al.Inverse(inner):
                return self._path(end, inner, start, scope)
            case al.Sequence(first, second):
                middle = self._fresh("node")
                both = (self._path(start, first, middle, scope), self._path(middle, second, end, scope))
                return op.Project(op.Join(both), columns)
            case al.Alternative(first, second):
                return op.Union((self._path(start, first, end, scope), self._path(start, second, end, scope)))
            case al.NegatedSet(forward, inverse):
                branches = []
                if forward or not inverse:
                    branches.append(op.Scan(scope.graph, start, self._fresh("predicate"), end, forward))
                if inverse:
                    branches.append(op.Scan(scope.graph, end, self._fresh("predicate"), start, inverse))
                plans = tuple(op.Project(branch, columns) for branch in branches)
                return plans[0] if len(plans) == 1 else op.Union(plans)
            case al.ZeroOrOne(inner):
                once = op.Project(self._path(start, inner, end, scope), columns)
                nothing = op.Project(self._zero_length(start, end, scope), columns)
                return op.Distinct(op.Union((nothing, once)))
            case al.ZeroOrMore() | al.OneOrMore():
                raise Unsupported(_LATER.format("A path of any length (* or +)"))

    def _zero_length(self, start: al.VarOrTerm, end: al.VarOrTerm, scope: _Scope) -> op.Operator:
        """§18.4: a term matches itself, also where the graph has no such node."""
        if isinstance(start, Var) and isinstance(end, Var):
            nodes = op.Nodes(scope.graph, start)
            return nodes if start == end else op.Extend(nodes, end, start)
        if isinstance(start, Var):
            assert not isinstance(end, Var)
            return self._in_graph(op.Table((start,), ((end,),)), scope)
        if isinstance(end, Var):
            return self._in_graph(op.Table((end,), ((start,),)), scope)
        return self._in_graph(op.Table((), ((),) if start == end else ()), scope)

    # Filters, EXISTS, OPTIONAL, MINUS

    def _filter(self, condition: al.Expression, source: op.Operator, scope: _Scope) -> op.Operator:
        plain: list[al.Expression] = []
        source = self._with_outer(source, condition, scope)
        for part in conjuncts(condition):
            match part:
                case al.Exists(body):
                    source = op.Semi(source, self._body(body, source, scope), keep=True)
                case al.Call("!", (al.Exists(body),)):
                    source = op.Semi(source, self._body(body, source, scope), keep=False)
                case _:
                    plain.append(part)
        for part in plain:
            source, part = self._marks(source, part, scope)
            source = op.Filter(part, source)
        return source

    def _marks(
        self, source: op.Operator, expression: al.Expression, scope: _Scope
    ) -> tuple[op.Operator, al.Expression]:
        """Each EXISTS inside an expression becomes a hidden boolean that a Mark computes."""
        marks: list[tuple[Var, al.Pattern]] = []

        def mark(body: al.Pattern) -> Var:
            marks.append((self._fresh("exists"), body))
            return marks[-1][0]

        expression = replace_exists(expression, mark)
        for variable, body in marks:
            source = op.Mark(source, self._body(body, source, scope), variable)
        return source, expression

    def _body(self, body: al.Pattern, left: op.Operator, scope: _Scope) -> op.Operator:
        """The body of EXISTS, reduced to what decides: the variables it shares with the left side."""
        right = self._pattern(body, replace(scope, outer=left))
        return op.Project(right, op.shared(left, right))

    def _with_outer(self, source: op.Operator, expression: al.Expression, scope: _Scope) -> op.Operator:
        """Inside EXISTS, an expression may read variables of the solution around it (§18.6, substitute).

        Their distinct bindings are joined in where the expression is evaluated.
        """
        if scope.outer is None:
            return source
        outer = scope.outer
        missing = tuple(v for v in outer.variables if v in mentioned(expression) and v not in source.variables)
        if not missing:
            return source
        for variable in missing:
            if variable not in outer.always:
                raise Unsupported(
                    f"EXISTS reads {variable} of the pattern around it, where it may be unbound; "
                    f"bind it there in all solutions, or move the condition out of EXISTS."
                )
        keys = tuple(v for v in op.shared(outer, source) if v in outer.always)
        bindings = op.Distinct(op.Project(outer, (*keys, *missing)))
        return op.Join((source, bindings))

    def _left_join(
        self, left: op.Operator, body: al.Pattern, condition: al.Expression | None, scope: _Scope
    ) -> op.Operator:
        right = self._pattern(body, scope)
        if condition is None:
            return op.LeftJoin(left, right, None)
        if contains_exists(condition):
            return self._left_join_exists(left, right, condition, scope)
        read_here = al.Call("COALESCE", tuple(v for v in mentioned(condition) if v not in right.variables))
        return op.LeftJoin(self._with_outer(left, read_here, scope), right, condition)

    def _left_join_exists(
        self, left: op.Operator, right: op.Operator, condition: al.Expression, scope: _Scope
    ) -> op.Operator:
        """EXISTS in a condition of OPTIONAL is evaluated on the joined solution.

        The left side's distinct bindings of what the condition reads are joined into the right side,
        which then decides alone.
        """
        read = mentioned(condition)
        columns = tuple(v for v in left.variables if v in read or v in right.variables)
        for variable in columns:
            if variable not in left.always:
                raise Unsupported(
                    f"EXISTS in a filter of OPTIONAL reads {variable}, which may be unbound on the left side; "
                    f"move the filter out of the OPTIONAL."
                )
        if columns:
            bindings = op.Distinct(op.Project(left, columns))
            right = op.Join((right, bindings))
        return op.LeftJoin(left, self._filter(condition, right, scope), None)

    def _minus(self, left: op.Operator, right: op.Operator, scope: _Scope) -> op.Operator:
        domain = tuple(v for v in op.shared(left, right) if v not in scope.hidden)
        if not domain:
            return left
        return op.Semi(left, op.Project(right, op.shared(left, right)), keep=False, domain=domain)

    def _project(self, source: op.Operator, variables: tuple[Var, ...], scope: _Scope) -> op.Operator:
        """A sub-SELECT's other variables are its own: they get names that nobody else has."""
        columns = (*variables, *(v for v in scope.hidden if v not in variables))
        own = {v: self._fresh(v.name.lstrip(".")) for v in _all_variables(source) if v not in columns}
        return op.Project(rename(source, own), columns)


def _all_variables(plan: op.Operator) -> dict[Var, None]:
    found = dict.fromkeys(plan.variables)
    for child in plan.children:
        found.update(_all_variables(child))
    return found
