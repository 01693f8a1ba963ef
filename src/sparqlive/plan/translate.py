"""Translates SPARQL algebra into a plan: graphs, paths and EXISTS become operators.

Defines the meaning of GRAPH, FROM, groups and EXISTS. Constructs without a delta rule are rejected here with
an explanation. Invariant: below `GRAPH ?g`, every operator has the hidden graph variable and always binds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.errors import Unsupported
from sparqlive.plan import operators as op
from sparqlive.plan.description import TRIPLE, description
from sparqlive.plan.expressions import (
    conjuncts,
    contains_exists,
    mentioned,
    replace_exists,
    variables_in,
)
from sparqlive.plan.modifiers import Select, follows, modifiers, window
from sparqlive.plan.paths import Paths
from sparqlive.plan.renaming import all_variables, rename
from sparqlive.plan.scope import Scope
from sparqlive.plan.substitution import is_join, may_have_no_steps
from sparqlive.rdf.dictionary import hash_of
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.syntax.patterns import visible


def translate(query: al.Query, union_default: bool) -> op.Operator:
    """Returns the plan of a query.

    Its variables are those of SELECT in order, none for ASK, and TRIPLE for CONSTRUCT and DESCRIBE.
    """
    return _Translator(query.dataset, union_default).query(query)


class _Translator:
    def __init__(self, dataset: al.Dataset | None, union_default: bool) -> None:
        self._dataset = dataset
        self._union_default = union_default
        self._numbers: Iterator[int] = count()
        self._paths = Paths(self._fresh)

    def query(self, query: al.Query) -> op.Operator:
        scope = Scope(self._default_graph())
        match query.form:
            case "SELECT":
                plan, _, order = self._solutions(modifiers(query.pattern), scope)
                if order:
                    plan = op.Listing(plan, query.variables, order)
                assert plan.variables == query.variables
                return plan
            case "ASK":
                return op.Distinct(op.Project(self._sub_select(query.pattern, scope), ()))
            case "CONSTRUCT":
                return self._construct(query, self._sub_select(query.pattern, scope))
            case "DESCRIBE":
                return self._describe(query, scope)

    def _construct(self, query: al.Query, plan: op.Operator) -> op.Operator:
        """Instantiates the template for each solution (§16.2): the set of its triples that are valid RDF."""
        labels = dict.fromkeys(
            term
            for triple in query.template
            for term in (triple.subject, triple.object)
            if isinstance(term, BlankNode)
        )
        nodes = {label: self._fresh("node") for label in labels}
        if nodes:
            plan = self._with_nodes(query, plan, nodes)
        else:
            read = variables_in(al.BasicPattern(query.template))
            plan = op.Project(plan, tuple(v for v in plan.variables if v in read))
        rows = tuple(
            tuple(nodes[term] if isinstance(term, BlankNode) else term for term in positions)
            for triple in query.template
            for positions in [(triple.subject, triple.predicate, triple.object)]
            if not isinstance(triple.subject, Literal)
        )
        if not rows:
            return op.Table(TRIPLE, ())
        triples: op.Operator = op.Template(plan, TRIPLE, rows)
        subject, predicate, object_ = TRIPLE
        if any(isinstance(row[0], Var) and row[0] not in nodes.values() for row in rows):
            triples = op.Filter(al.Call("!", (al.Call("ISLITERAL", (subject,)),)), triples)
        if any(isinstance(row[1], Var) for row in rows):
            triples = op.Filter(al.Call("ISIRI", (predicate,)), triples)
        if object_ not in triples.always:
            triples = op.Filter(al.Call("BOUND", (object_,)), triples)
        return op.Distinct(triples)

    def _describe(self, query: al.Query, scope: Scope) -> op.Operator:
        """Computes the concise bounded description of the resources in the solutions."""
        if not query.describe:
            return op.Table(TRIPLE, ())
        start, end = self._fresh("from"), self._fresh("to")
        solutions = self._sub_select(query.pattern, scope)
        resources = op.Template(solutions, (end,), tuple((term,) for term in query.describe))
        return description(resources, scope.graph, start, self._fresh("predicate"), end)

    def _with_nodes(self, query: al.Query, plan: op.Operator, nodes: Mapping[BlankNode, Var]) -> op.Operator:
        """Binds the blank nodes of a template: new ones for each occurrence of each solution.

        A blank node is a hash of the query, its label, the solution and the number of the occurrence, so it
        stays the same from epoch to epoch.
        """
        solution = tuple(v for v in plan.variables if not v.hidden)
        number = self._fresh("occurrence")
        plan = op.Numbered(op.Project(plan, solution), solution, number)
        for label, variable in nodes.items():
            name = al.Constant(Literal(f"{hash_of(repr(query))} {label.value}"))
            plan = op.Extend(plan, variable, al.Call(".NODE", (name, *solution, number)))
        return plan

    def _fresh(self, hint: str) -> Var:
        return Var(f".{hint}_{next(self._numbers)}")

    def _default_graph(self) -> op.GraphChoice:
        if self._dataset is None:
            return op.MergedGraphs(None) if self._union_default else op.OneGraph(None)
        names = tuple(dict.fromkeys(self._dataset.default))
        return op.OneGraph(names[0]) if len(names) == 1 else op.MergedGraphs(names)

    def _pattern(self, pattern: al.Pattern, scope: Scope) -> op.Operator:
        match pattern:
            case al.BasicPattern(patterns):
                return self._leaf(self._basic(patterns, scope), scope)
            case al.Join(left, right):
                return op.Join((self._pattern(left, scope), self._pattern(right, scope)))
            case al.LeftJoin(left, right, condition):
                return self._left_join(
                    self._pattern(left, scope), self._pattern(right, scope), condition, scope
                )
            case al.Filter(condition, source):
                return self._filter(condition, self._pattern(source, scope), scope)
            case al.Union(left, right):
                return op.Union((self._pattern(left, scope), self._pattern(right, scope)))
            case al.Minus(left, right):
                return self._minus(self._pattern(left, scope), self._pattern(right, scope), scope)
            case al.Extend(source, variable, expression):
                return self._bound_to(variable, expression, self._pattern(source, scope), scope)
            case al.Values(variables, rows):
                return self._leaf(scope.in_graph(op.Table(variables, rows)), scope)
            case al.Graph(name, source):
                return scope.in_graph(self._graph(name, source, scope))
            case al.Project() | al.Distinct() | al.Reduced() | al.Slice():
                return self._sub_select(pattern, scope)
            case al.OrderBy(source):
                return self._pattern(source, scope)  # without a window, the order of a bag has no effect
            case al.Service(name):
                raise Unsupported(
                    f"SERVICE {name} is not supported in a view, because the endpoint does not report its "
                    f"changes. Add it as a source, and the view reads the source's graph: "
                    f'session.source("endpoint", "{_address(name)}", query="CONSTRUCT …").'
                )
            case al.Group(source, keys, aggregates):
                return self._group(self._pattern(source, scope), keys, aggregates, scope)

    def _leaf(self, plan: op.Operator, scope: Scope) -> op.Operator:
        """Inside EXISTS, joins a leaf with the distinct bindings that are passed into it."""
        if not scope.passed:
            return plan
        keys = tuple(
            v for v in op.shared(scope.outer, plan) if v in scope.outer.always and v not in scope.passed
        )
        return op.Join((plan, op.Distinct(op.Project(scope.outer, (*keys, *scope.passed)))))

    # Graphs

    def _graph(self, name: Var | NamedNode, source: al.Pattern, scope: Scope) -> op.Operator:
        named = None if self._dataset is None else self._dataset.named
        if named is not None:
            named = tuple(dict.fromkeys(named))
        if not isinstance(name, Var):
            absent = named is not None and name not in named
            graph = op.MergedGraphs(()) if absent else op.OneGraph(name)
            return self._pattern(source, replace(scope, graph=graph, named=True))
        hidden = self._fresh("graph")
        inner = self._pattern(source, replace(scope, graph=op.NamedGraphs(hidden, named), named=True))
        if name in inner.variables:
            # The pattern binds the variable too: both values must agree, and the graph name is always bound.
            unbound = al.Call("!", (al.Call("BOUND", (name,)),))
            agrees = al.Call("||", (unbound, al.Call("SAMETERM", (name, hidden))))
            inner = op.Filter(agrees, inner)
            inner = op.Project(inner, tuple(v for v in inner.variables if v != name))
        return op.Extend(inner, name, hidden)

    # Basic patterns

    def _basic(self, patterns: tuple[al.Triple | al.PathPattern, ...], scope: Scope) -> op.Operator:
        parts: list[op.Operator] = []
        for pattern in patterns:
            if isinstance(pattern, al.Triple):
                parts.append(op.Scan(scope.graph, pattern.subject, pattern.predicate, pattern.object))
            else:
                parts.append(self._path(pattern, scope))
        if not parts:
            return scope.in_graph(op.UNIT)
        return parts[0] if len(parts) == 1 else op.Join(tuple(parts))

    def _path(self, pattern: al.PathPattern, scope: Scope) -> op.Operator:
        """Translates a path.

        Inside EXISTS, an end that is bound in some of the outer solutions is a term for these and a variable
        for the others. This decides where zero-length paths match, so each case gets its own plan.
        """
        start, path, end = pattern.subject, pattern.path, pattern.object
        maybe = [v for v in dict.fromkeys((start, end)) if isinstance(v, Var) and v in scope.tags]
        if not maybe or not may_have_no_steps(path):
            return self._paths.plan(start, path, end, scope)
        scopes = [scope]
        for variable in maybe:
            scopes = [part for one in scopes for part in one.apart(variable)]
        return op.Union(tuple(self._leaf(self._paths.plan(start, path, end, one), one) for one in scopes))

    # Filters, EXISTS, OPTIONAL, MINUS

    def _filter(self, condition: al.Expression, source: op.Operator, scope: Scope) -> op.Operator:
        plain: list[al.Expression] = []
        for part in conjuncts(condition):
            match part:
                case al.Exists(body):
                    source = op.Semi(*self._exists(body, source, scope), keep=True)
                case al.Call("!", (al.Exists(body),)):
                    source = op.Semi(*self._exists(body, source, scope), keep=False)
                case _:
                    plain.append(part)
        for part in plain:
            source, part = self._marks(source, part, scope)
            source = op.Filter(part, source)
        return source

    def _marks(
        self, source: op.Operator, expression: al.Expression, scope: Scope
    ) -> tuple[op.Operator, al.Expression]:
        """Replaces each EXISTS inside an expression by a hidden boolean that a Mark computes."""
        marks: list[tuple[Var, al.Pattern]] = []

        def mark(body: al.Pattern) -> Var:
            marks.append((self._fresh("exists"), body))
            return marks[-1][0]

        expression = replace_exists(expression, mark)
        for variable, body in marks:
            source = op.Mark(*self._exists(body, source, scope), variable)
        return source, expression

    def _exists(self, body: al.Pattern, left: op.Operator, scope: Scope) -> tuple[op.Operator, op.Operator]:
        """Returns the two sides of EXISTS, the right one reduced to the shared variables.

        §18.6 substitutes the left solution into the body. This is a join on the shared variables, unless the
        body reads a variable where it does not bind it (`plan/substitution.py`). Such variables are passed
        into every leaf, with their distinct values.
        """
        read, around = variables_in(body), frozenset(left.variables)
        lost = [v for v in left.variables if v in read and not is_join(body, v, around, v in left.always)]
        left, tags = self._tagged(left, [v for v in lost if v not in left.always])
        left = _shared(left) if lost else left
        passed = tuple(column for v in lost for column in (v, *tags.get(v, ())))
        right = self._pattern(body, replace(scope, passed=passed, outer=left))
        return left, op.Project(right, tuple(v for v in op.shared(left, right) if v not in tags))

    def _tagged(
        self, plan: op.Operator, variables: Sequence[Var]
    ) -> tuple[op.Operator, dict[Var, tuple[Var, Var]]]:
        """Adds two columns for each variable that may be unbound: whether it is bound, and its value.

        Both are always bound. They distinguish solutions with and without a value, which are compatible in a
        join.
        """
        tags = {}
        for variable in variables:
            is_bound, value = self._fresh("bound"), self._fresh("value")
            nothing = al.Constant(Literal(False))
            plan = op.Extend(plan, is_bound, al.Call("BOUND", (variable,)))
            plan = op.Extend(plan, value, al.Call("COALESCE", (variable, nothing)))
            tags[variable] = (is_bound, value)
        return plan, tags

    def _left_join(
        self, left: op.Operator, right: op.Operator, condition: al.Expression | None, scope: Scope
    ) -> op.Operator:
        """Translates OPTIONAL.

        An EXISTS that reads only variables of the right side becomes a filter of the right side. Any other
        EXISTS is evaluated on joined solutions: J + (A ⊖ π(J)), with whole left solutions as keys, which are
        tagged where a variable may be unbound. Parts that occur twice are shared.
        """
        parts = [] if condition is None else list(conjuncts(condition))
        alone = [
            part
            for part in parts
            if contains_exists(part)
            and all(v in right.always or v not in left.variables for v in mentioned(part))
        ]
        for part in alone:
            right = self._filter(part, right, scope)
        rest = [part for part in parts if part not in alone]
        condition = al.combined(lambda a, b: al.Call("&&", (a, b)), rest) if rest else None
        if condition is None or not contains_exists(condition):
            return op.LeftJoin(left, right, condition)
        columns = op.ordered_union(left.variables, right.variables)
        left, tags = self._tagged(left, [v for v in left.variables if v not in left.always])
        left = _shared(left)
        joined = _shared(self._filter(condition, op.Join((left, right)), scope))
        keys = tuple(v for v in left.variables if v not in tags)
        without = op.Semi(left, op.Project(joined, keys), keep=False)
        return op.Union((op.Project(joined, columns), op.Project(without, columns)))

    def _minus(self, left: op.Operator, right: op.Operator, scope: Scope) -> op.Operator:
        # A variable passed into EXISTS is a constant there, and the graph name is not a variable of the
        # pattern.
        columns, domain = left.variables, []
        for v in op.shared(left, right):
            if v in scope.tags:  # a constant in the solutions that bind it, a variable in the others
                own = self._fresh("own")
                test = al.Call("IF", (scope.tags[v][0], self._fresh("nothing"), v))
                left, right, v = op.Extend(left, own, test), op.Extend(right, own, test), own
            elif v in scope.hidden or v in scope.passed:
                continue
            domain.append(v)
        if not domain:
            return left
        shared = op.Project(right, op.shared(left, right))
        kept = op.Semi(left, shared, keep=False, domain=tuple(domain))
        return kept if kept.variables == columns else op.Project(kept, columns)

    # Groups

    def _group(
        self,
        source: op.Operator,
        keys: tuple[tuple[Var, al.Expression], ...],
        aggregates: tuple[tuple[Var, al.Aggregate], ...],
        scope: Scope,
    ) -> op.Operator:
        """Groups per graph, and inside EXISTS per outer solution.

        Without GROUP BY, each of these has one group, even if it is empty: for each solution that an empty
        pattern would have here, the group gets a row that does not count as a solution.
        """
        visible = tuple(v for v in source.variables if not v.hidden)
        for variable, expression in keys:
            if variable != expression:
                source = self._bound_to(variable, expression, source, scope)
        arguments = []
        for variable, aggregate in aggregates:
            source, aggregate = self._argument(aggregate, source, scope)
            arguments.append((variable, aggregate))
        by = op.ordered_union(tuple(variable for variable, _ in keys), scope.hidden, scope.passed)
        read = [a.argument for _, a in arguments if isinstance(a.argument, Var)]
        if any(a.argument is None and a.distinct for _, a in arguments):
            read += visible
        columns = op.ordered_union(by, tuple(read))
        if keys:
            return op.Group(op.Project(source, columns), by, tuple(arguments))
        member = self._fresh("member")
        source = op.Project(op.Extend(source, member, al.Constant(Literal(True))), (*columns, member))
        nothing = self._leaf(scope.in_graph(op.UNIT), scope)
        both = op.Project(op.Union((source, nothing)), source.columns)
        return op.Group(both, by, tuple(arguments), member)

    def _bound_to(
        self, variable: Var, expression: al.Expression, source: op.Operator, scope: Scope
    ) -> op.Operator:
        source, expression = self._marks(source, expression, scope)
        if variable not in source.variables:
            return op.Extend(source, variable, expression)
        # Inside EXISTS, for a variable that is passed in: if both values are bound, they must agree.
        value, either = self._fresh("value"), self._fresh("either")
        lacking = [al.Call("!", (al.Call("BOUND", (v,)),)) for v in (variable, value)]
        agrees = al.combined(
            lambda left, right: al.Call("||", (left, right)),
            [*lacking, al.Call("SAMETERM", (variable, value))],
        )
        plan: op.Operator = op.Filter(agrees, op.Extend(source, value, expression))
        plan = op.Extend(plan, either, al.Call("COALESCE", (value, variable)))
        others = tuple(v for v in source.variables if v != variable)
        return op.Extend(op.Project(plan, (*others, either)), variable, either)

    def _argument(
        self, aggregate: al.Aggregate, source: op.Operator, scope: Scope
    ) -> tuple[op.Operator, al.Aggregate]:
        """Returns the aggregate over a variable. COUNT only needs to know whether there is a value."""
        argument = aggregate.argument
        if argument is None:
            return source, aggregate
        if not isinstance(argument, Var):
            variable = self._fresh("argument")
            source, argument = self._bound_to(variable, argument, source, scope), variable
        if aggregate.name == "COUNT" and not aggregate.distinct:
            if argument in source.always:
                return source, replace(aggregate, argument=None)
            there, nothing = self._fresh("bound"), self._fresh("nothing")
            is_bound = al.Call("BOUND", (argument,))
            test = al.Call("IF", (is_bound, al.Constant(Literal(True)), nothing))
            source, argument = op.Extend(source, there, test), there
        return source, replace(aggregate, argument=argument)

    # SELECT and its modifiers

    def _sub_select(self, pattern: al.Pattern, scope: Scope) -> op.Operator:
        """Translates a SELECT inside a pattern.

        Its order matters only to a window, and its sort keys are not visible.
        """
        select = modifiers(pattern)
        if select.slice is None:
            select = replace(select, keys=())
        plan, columns, _ = self._solutions(select, scope)
        return self._leaf(plan if columns == plan.variables else op.Project(plan, columns), scope)

    def _solutions(self, select: Select, scope: Scope) -> tuple[op.Operator, tuple[Var, ...], op.Order]:
        """Applies OrderBy, Project, Distinct and Slice (§18.2.5). Returns the plan, its columns and its
        order.

        The plan has extra columns for sort keys that are not selected. With DISTINCT and such keys, a
        solution takes the position of the first of its duplicates.
        """
        inside = scope.within(select.variables)
        source = self._pattern(select.source, inside)
        variables = select.variables
        if variables is None:
            variables = tuple(v for v in visible(select.source) if not v.hidden)
        columns = op.ordered_union(variables, scope.hidden, inside.passed)
        order: list[tuple[Var, bool]] = []
        for expression, descending in select.keys:
            source, variable = self._order_key(source, expression, inside)
            if variable in source.variables:
                order.append((variable, descending))
        hidden = dict.fromkeys(v for v, _ in order if v not in columns)
        # The other variables of a SELECT are local to it: they get unique names.
        own = {v: self._fresh(v.name.lstrip(".")) for v in all_variables(source) if v not in columns}
        renamed = tuple((own.get(v, v), descending) for v, descending in order)
        plan = rename(source, own)
        # A closure at the top of a plan produces the view's rows directly, each of them once.
        if not isinstance(plan, op.Closure) or hidden or plan.variables != columns:
            plan = op.Project(plan, (*columns, *(own[v] for v in hidden)))
        if select.distinct and not isinstance(plan, op.Closure):
            decided = all(follows(v, source, frozenset(columns)) for v in hidden)
            plan = op.Distinct(plan) if decided else op.Window(plan, columns, renamed, 0, 1)
        if select.slice is not None:
            keys = op.ordered_union(scope.hidden, inside.passed)
            plan = window(plan, keys, renamed, select.slice)
        return plan, columns, renamed

    def _order_key(
        self, source: op.Operator, expression: al.Expression, scope: Scope
    ) -> tuple[op.Operator, Var]:
        """Adds a column for an ORDER BY key to the source."""
        if isinstance(expression, Var):
            return source, expression
        source, expression = self._marks(source, expression, scope)
        variable = self._fresh("order")
        return op.Extend(source, variable, expression), variable


def _shared(plan: op.Operator) -> op.Operator:
    """Shares a plan that is used in several places. A single pattern is read in each of them instead."""
    return plan if isinstance(plan, op.Shared) or not plan.children else op.Shared(plan)


def _address(name: Var | NamedNode) -> str:
    return "http://…" if isinstance(name, Var) else name.value
