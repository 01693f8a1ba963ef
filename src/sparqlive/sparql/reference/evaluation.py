"""Evaluates the algebra by its definitions (SPARQL 1.1 §18.4 to §18.6), from scratch, on terms.

Defines the meaning of a query over a set of quads: datasets, groups, modifiers and query forms. EXISTS is
evaluated once per solution, with its terms substituted into the pattern. SERVICE is rejected. The solutions
of a part are counted by the variables that are needed around it (read, returned, or shared with another
part): the values of other variables affect only the counts. Invariant: quads and queries are
never modified; parts that do not depend on an outer solution are evaluated once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import unquote

import xxhash
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad

from sparqlive.errors import Unsupported
from sparqlive.rdf.dictionary import hash_of
from sparqlive.rdf.reserved import VIEW_SCHEME
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Term, Var
from sparqlive.sparql.expressions import (
    ExpressionError,
    compile_condition,
    compile_expression,
    variables_of,
)
from sparqlive.sparql.ordering import OrderKey, order_key, rank_key
from sparqlive.sparql.reference.aggregates import aggregate_of
from sparqlive.sparql.reference.bags import NOTHING, Bag, Row, Test, join, left_join, minus, union
from sparqlive.sparql.reference.graphs import Graph
from sparqlive.sparql.reference.substitution import mentioned, substituted
from sparqlive.sparql.syntax.patterns import visible
from sparqlive.sparql.values import Value, value_of

QueryOf: TypeAlias = Callable[[str], al.Query]
"""Returns the query of a view by its name."""


class Reference:
    """A set of quads, and queries over it.

    `union`: the default graph is the union of all graphs. `query_of` returns the query for `<view:name>`.
    """

    def __init__(
        self, quads: Iterable[Quad], *, union: bool = False, query_of: QueryOf | None = None
    ) -> None:
        self._triples: dict[Any, list[tuple[Any, Any, Any]]] = {}
        for subject, predicate, object_, graph in quads:
            self._triples.setdefault(graph, []).append((subject, predicate, object_))
        self.union = union
        self._query_of = query_of
        self._graphs: dict[Any, Graph] = {}
        self._values: dict[Term, Value] = {}

    # Results

    def weights(self, query: al.Query) -> dict[Row, int]:
        """Returns the rows of a result with their multiplicities.

        An ASK has one row without columns, or none.
        """
        evaluation = _Evaluation(self, query)
        match query.form:
            case "SELECT":
                return evaluation.solutions(query.variables).projected(query.variables).rows
            case "ASK":
                return {(): 1} if evaluation.solutions(()) else {}
            case "CONSTRUCT" | "DESCRIBE":
                return dict.fromkeys(self.triples(query), 1)

    def listed(self, query: al.Query) -> list[Row]:
        """Returns the solutions of a SELECT in order, each as often as it occurs."""
        evaluation = _Evaluation(self, query)
        items = evaluation.listed(query.pattern, evaluation.default)[1]
        return [row for row, times in items for _ in range(times)]

    def triples(self, query: al.Query) -> set[Row]:
        """Returns the graph of a CONSTRUCT or DESCRIBE."""
        evaluation = _Evaluation(self, query)
        if query.form == "DESCRIBE":
            named = [term for term in query.describe if isinstance(term, Var)]
            return _described(query, evaluation.solutions(named), evaluation.default)
        read = _read_by_template(query)
        return set(_constructed(query, evaluation.solutions(read).projected(read)))

    # Graphs

    def named(self) -> list[NamedNode]:
        """Returns the names of the graphs that have a quad."""
        return [name for name in self._triples if not isinstance(name, DefaultGraph)]

    def graph(self, name: NamedNode | None) -> Graph:
        """Returns a graph by its name; without a name, the unnamed one. The graph of a view is computed."""
        if name not in self._graphs:
            if name is not None and name.value.startswith(VIEW_SCHEME) and self._query_of is not None:
                query = self._query_of(unquote(name.value.removeprefix(VIEW_SCHEME)))
                self._graphs[name] = Graph(self.triples(query))  # type: ignore[arg-type]
            else:
                self._graphs[name] = Graph(self._triples.get(DefaultGraph() if name is None else name, ()))
        return self._graphs[name]

    def merged(self, names: Sequence[NamedNode] | None) -> Graph:
        """Returns the set union of graphs; without names, of all graphs, including the unnamed one."""
        key = None if names is None else tuple(names)
        if ("merged", key) not in self._graphs:
            members = [None, *self.named()] if names is None else names
            self._graphs["merged", key] = Graph(t for name in members for t in self.graph(name).triples)
        return self._graphs["merged", key]

    def value(self, term: Term | None) -> Value | None:
        if term is None:
            return None
        known = self._values.get(term)
        if known is None:
            known = self._values[term] = value_of(term)
        return known


@dataclass(frozen=True)
class _Place:
    """The key of a cached evaluation: a part of the query as written, in a graph."""

    pattern: int
    graph: int
    needed: frozenset[Var]


class _Evaluation:
    """One query over the quads of a reference."""

    def __init__(self, reference: Reference, query: al.Query) -> None:
        self._reference = reference
        self._query = query
        self._known: dict[_Place, Bag] = {}
        self._tests: dict[tuple[int, tuple[Var, ...]], Test] = {}
        parts = list(_parts(query.pattern))
        self._parts_as_written = {id(part) for part in parts}
        self._names_written = {part.name for part in parts if isinstance(part, al.Graph)}
        dataset = query.dataset
        if dataset is not None:
            self.default = reference.merged(tuple(dict.fromkeys(dataset.default)))
        else:
            self.default = reference.merged(None) if reference.union else reference.graph(None)
        named = None if dataset is None else dataset.named
        self._named = reference.named() if named is None else list(dict.fromkeys(named))
        self._any_named = named is None

    def solutions(self, variables: Iterable[Var]) -> Bag:
        """Returns the solutions of the query, as far as the variables tell them apart."""
        return self.pattern(self._query.pattern, self.default, frozenset(variables))

    def pattern(self, pattern: al.Pattern, graph: Graph, needed: frozenset[Var]) -> Bag:
        """Returns the solutions of a pattern in a graph, with the needed variables only."""
        if id(pattern) not in self._parts_as_written:
            return self._evaluate(pattern, graph, needed)
        place = _Place(id(pattern), id(graph), needed)
        if place not in self._known:
            self._known[place] = self._evaluate(pattern, graph, needed)
        return self._known[place]

    def _evaluate(self, pattern: al.Pattern, graph: Graph, needed: frozenset[Var]) -> Bag:
        found = self._operator(pattern, graph, needed)
        return found.projected(tuple(v for v in found.variables if v in needed))

    def _sides(
        self, left: al.Pattern, right: al.Pattern, graph: Graph, needed: frozenset[Var]
    ) -> tuple[Bag, Bag]:
        """Returns the solutions of two patterns that may share variables."""
        return (
            self.pattern(left, graph, needed | mentioned(right)),
            self.pattern(right, graph, needed | mentioned(left)),
        )

    def _operator(self, pattern: al.Pattern, graph: Graph, needed: frozenset[Var]) -> Bag:
        match pattern:
            case al.BasicPattern(patterns):
                return graph.match(patterns, needed)
            case al.Join(left, right):
                return join(*self._sides(left, right, graph, needed))
            case al.LeftJoin(left, right, condition):
                if condition is None:
                    return left_join(*self._sides(left, right, graph, needed), None)
                sides = self._sides(left, right, graph, needed | mentioned(condition))
                return left_join(*sides, self._condition(condition, graph))
            case al.Filter(condition, source):
                found = self.pattern(source, graph, needed | mentioned(condition))
                return found.filtered(self._condition(condition, graph)(found.variables))
            case al.Union(left, right):
                return union((self.pattern(left, graph, needed), self.pattern(right, graph, needed)))
            case al.Minus(left, right):
                return minus(*self._sides(left, right, graph, needed))
            case al.Extend(source, variable, expression):
                found = self.pattern(source, graph, needed | mentioned(expression))
                return self._extended(found, variable, expression, graph)
            case al.Values(variables, rows):
                return Bag(variables, ((row, 1) for row in rows))
            case al.Graph(name, source):
                return self._graph(name, source, needed)
            case al.Group():
                return self._grouped(pattern, graph)
            case al.Project() | al.Distinct() | al.Reduced() | al.Slice() | al.OrderBy():
                variables, items = self.listed(pattern, graph)
                return Bag(variables, items)
            case al.Service(name):
                raise Unsupported(f"SERVICE {name} is not supported by the reference evaluation.")

    def _graph(self, name: Var | NamedNode, source: al.Pattern, needed: frozenset[Var]) -> Bag:
        """Evaluates GRAPH (§18.6): a union over the existing graphs, each with its name."""
        if not isinstance(name, Var):
            # A variable does not match the graphs of views unless the dataset names them.
            known = name in self._named or (self._any_named and name in self._names_written)
            return self._in_graph(source, name, needed) if known else NOTHING
        needed |= {name}
        return union(
            join(self._in_graph(source, each, needed), Bag((name,), [((each,), 1)])) for each in self._named
        )

    def _in_graph(self, source: al.Pattern, name: NamedNode, needed: frozenset[Var]) -> Bag:
        graph = self._reference.graph(name)
        return self.pattern(source, graph, needed) if graph.triples else NOTHING

    # Expressions

    def _condition(self, condition: al.Expression, graph: Graph) -> Callable[[tuple[Var, ...]], Test]:
        """Returns the test of a condition on solutions with given variables.

        Parts without EXISTS are tested first.
        """

        def tests(variables: tuple[Var, ...]) -> Test:
            parts = sorted(_conjuncts(condition), key=_has_exists)
            each = [self._test(part, variables, graph) for part in parts]
            return lambda row: all(test(row) for test in each)

        return tests

    def _test(self, condition: al.Expression, variables: tuple[Var, ...], graph: Graph) -> Test:
        if id(condition) not in self._parts_as_written or _has_exists(condition):
            return self._compiled(condition, variables, graph, compile_condition)
        known = self._tests.get((id(condition), variables))
        if known is None:
            known = self._compiled(condition, variables, graph, compile_condition)
            self._tests[id(condition), variables] = known
        return known

    def _extended(self, source: Bag, variable: Var, expression: al.Expression, graph: Graph) -> Bag:
        evaluate = self._compiled(expression, source.variables, graph, compile_expression)

        def value(row: Row) -> Term | None:
            try:
                term: Term = evaluate(row).term
                return term
            except ExpressionError:
                return None

        return Bag(
            (*source.variables, variable), (((*row, value(row)), times) for row, times in source.rows.items())
        )

    def _compiled(
        self, expression: al.Expression, variables: tuple[Var, ...], graph: Graph, compiler: Any
    ) -> Callable[[Row], Any]:
        """Returns an expression as a function of a row. Each EXISTS becomes a boolean added to the row."""
        marks: list[tuple[Var, Test]] = []

        def mark(part: al.Expression) -> al.Expression:
            match part:
                case al.Exists(body):
                    marks.append((Var(f".exists{len(marks)}"), self._exists(body, variables, graph)))
                    return marks[-1][0]
                case al.Call(name, arguments):
                    return al.Call(name, tuple(mark(argument) for argument in arguments))
            return part

        plain = mark(expression)
        read = [v for v in variables if v in variables_of(plain)]
        places = [variables.index(v) for v in read]
        evaluate = compiler(plain, (*read, *(v for v, _ in marks)))
        value = self._reference.value

        def on_row(row: Row) -> Any:
            values = [value(row[n]) for n in places]
            return evaluate([*values, *(value(Literal(test(row))) for _, test in marks)])

        return on_row

    def _exists(self, body: al.Pattern, variables: tuple[Var, ...], graph: Graph) -> Test:
        """Whether the pattern has a solution after substituting the terms of a row (§18.6)."""
        places = [n for n, v in enumerate(variables) if v in mentioned(body)]
        known: dict[Row, bool] = {}

        def test(row: Row) -> bool:
            key = tuple(row[n] for n in places)
            if key not in known:
                solution = {
                    variables[n]: term for n, term in zip(places, key, strict=True) if term is not None
                }
                known[key] = bool(self.pattern(substituted(body, solution), graph, frozenset()))
            return known[key]

        return test

    # Groups

    def _grouped(self, group: al.Group, graph: Graph) -> Bag:
        """Groups solutions (§18.5.1). Without keys there is one group, even if it is empty."""
        needed = frozenset(v for item in (*group.keys, *group.aggregates) for v in mentioned(item[1]))
        if any(aggregate.argument is None and aggregate.distinct for _, aggregate in group.aggregates):
            needed |= frozenset(visible(group.pattern))
        source = self.pattern(group.pattern, graph, needed)
        named = tuple(v for v in source.variables if not v.hidden)
        for variable, key in group.keys:
            if variable != key:
                source = self._extended(source, variable, key, graph)
        aggregates = []
        for number, (variable, aggregate) in enumerate(group.aggregates):
            if aggregate.argument is not None:
                argument = Var(f".argument{number}")
                source = self._extended(source, argument, aggregate.argument, graph)
                aggregate = replace(aggregate, argument=argument)
            aggregates.append((variable, aggregate))
        keys = tuple(variable for variable, _ in group.keys)
        columns = tuple(dict.fromkeys((*keys, *named, *(v for v in source.variables if v not in keys))))
        groups: dict[Row, dict[Row, int]] = {} if keys else {(): {}}
        for row, times in source.projected(columns).rows.items():
            groups.setdefault(row[: len(keys)], {})[row] = times
        return Bag(
            (*keys, *(variable for variable, _ in aggregates)),
            (
                ((*key, *(_aggregated(aggregate, columns, rows, named) for _, aggregate in aggregates)), 1)
                for key, rows in groups.items()
            ),
        )

    # Modifiers

    def listed(self, pattern: al.Pattern, graph: Graph) -> tuple[tuple[Var, ...], list[tuple[Row, int]]]:
        """Applies OrderBy, Project, Distinct and Slice (§18.5); returns solutions in order.

        Where the specification leaves a choice, ties are broken by all columns, in the order of terms. A
        solution of DISTINCT takes the position of the first of its duplicates.
        """
        select = _Select.of(pattern)
        variables = select.variables
        if variables is None:
            variables = tuple(v for v in visible(select.source) if not v.hidden)
        needed = frozenset(variables).union(*(mentioned(key) for key, _ in select.keys))
        source = self.pattern(select.source, graph, needed)
        ranks = [self._compiled(key, source.variables, graph, _rank) for key, _ in select.keys]
        places: Counter[tuple[Row, tuple[OrderKey, ...]]] = Counter()
        positions = [source.variables.index(v) if v in source.variables else None for v in variables]
        for row, times in source.rows.items():
            columns = tuple(None if n is None else row[n] for n in positions)
            places[columns, tuple(rank(row) for rank in ranks)] += times
        items = list(places.items())
        if select.keys or select.slice is not None:
            items.sort(key=lambda item: [order_key(self._reference.value(term)) for term in item[0][0]])
            for number, (_, descending) in reversed(list(enumerate(select.keys))):
                items.sort(key=lambda item, at=number: item[0][1][at], reverse=descending)  # type: ignore[misc]
        found = [(row, times) for (row, _), times in items]
        if select.distinct:
            found = [(row, 1) for row in dict.fromkeys(row for row, _ in found)]
        if select.slice is not None:
            found = list(_cut(found, select.slice))
        return variables, found


@dataclass(frozen=True)
class _Select:
    """The layers around the source of a SELECT, from the outside in."""

    slice: al.Slice | None
    distinct: bool
    variables: tuple[Var, ...] | None
    keys: tuple[tuple[al.Expression, bool], ...]
    source: al.Pattern

    @classmethod
    def of(cls, pattern: al.Pattern) -> _Select:
        cut: al.Slice | None = None
        distinct, variables = False, None
        keys: tuple[tuple[al.Expression, bool], ...] = ()
        if isinstance(pattern, al.Slice):
            cut, pattern = pattern, pattern.pattern
        if isinstance(pattern, al.Distinct | al.Reduced):
            distinct, pattern = isinstance(pattern, al.Distinct), pattern.pattern
        if isinstance(pattern, al.Project):
            variables, pattern = pattern.variables, pattern.pattern
        if isinstance(pattern, al.OrderBy):
            keys, pattern = pattern.keys, pattern.pattern
        return cls(cut, distinct, variables, keys, pattern)


def _rank(expression: al.Expression, variables: Sequence[Var]) -> Callable[[list[Any]], OrderKey]:
    evaluate = compile_expression(expression, variables)

    def rank(values: list[Any]) -> OrderKey:
        try:
            return rank_key(evaluate(values))
        except ExpressionError:
            return rank_key(None)

    return rank


def _cut(items: Iterable[tuple[Row, int]], cut: al.Slice) -> Iterator[tuple[Row, int]]:
    before = 0
    for row, times in items:
        last = before + times if cut.limit is None else min(before + times, cut.offset + cut.limit)
        if last > max(before, cut.offset):
            yield row, last - max(before, cut.offset)
        before += times


def _aggregated(
    aggregate: al.Aggregate, columns: tuple[Var, ...], rows: dict[Row, int], named: tuple[Var, ...]
) -> Term | None:
    if aggregate.argument is None:  # `*` is the solution, without computed keys
        rows = Bag(columns, rows.items()).projected(named).rows
    return aggregate_of(aggregate, columns, rows)


def _conjuncts(condition: al.Expression) -> Iterator[al.Expression]:
    match condition:
        case al.Call("&&", (left, right)):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield condition


def _has_exists(expression: al.Expression) -> bool:
    if isinstance(expression, al.Call):
        return any(_has_exists(argument) for argument in expression.arguments)
    return isinstance(expression, al.Exists)


def _parts(item: Any) -> Iterator[Any]:
    """Yields all parts of a query as written."""
    if isinstance(item, tuple):
        for part in item:
            yield from _parts(part)
    elif is_dataclass(item):
        yield item
        for field in fields(item):
            yield from _parts(getattr(item, field.name))


# Query forms


def _constructed(query: al.Query, solutions: Bag) -> Iterator[Row]:
    """Instantiates the template for each solution, leaving out triples that are not valid RDF (§16.2).

    Blank nodes are a hash of the query, the label, the solution and the number of the occurrence.
    """
    terms = {t for triple in query.template for t in (triple.subject, triple.object)}
    labels = [term for term in terms if isinstance(term, BlankNode)]
    name = hash_of(repr(query)) if labels else 0
    for row, times in solutions.rows.items():
        values: dict[Any, Term | None] = dict(zip(solutions.variables, row, strict=True))
        for number in range(times if labels else 1):
            for label in labels:
                values[label] = _node([Literal(f"{name} {label.value}"), *row, Literal(number)])
            for triple in query.template:
                positions = (triple.subject, triple.predicate, triple.object)
                found = tuple(
                    values.get(term) if isinstance(term, Var | BlankNode) else term for term in positions
                )
                if (
                    isinstance(found[0], NamedNode | BlankNode)
                    and isinstance(found[1], NamedNode)
                    and found[2] is not None
                ):
                    yield found


def _read_by_template(query: al.Query) -> tuple[Var, ...]:
    """The variables that tell two solutions of a CONSTRUCT apart; with blank nodes, all of the text."""
    terms = {t for triple in query.template for t in (triple.subject, triple.predicate, triple.object)}
    has_blank_nodes = any(isinstance(term, BlankNode) for term in terms)
    return tuple(v for v in visible(query.pattern) if not v.hidden and (has_blank_nodes or v in terms))


def _node(parts: list[Term | None]) -> BlankNode:
    text = "\n".join("" if part is None else str(part) for part in parts)
    return BlankNode(f"t{xxhash.xxh3_128_hexdigest(text.encode())}")


def _described(query: al.Query, solutions: Bag, graph: Graph) -> set[Row]:
    """Returns the triples of the described resources, and of the blank nodes that these lead to."""
    found: set[Row] = set()
    waiting: list[Any] = []
    for row in solutions.rows:
        values: Mapping[Any, Any] = dict(zip(solutions.variables, row, strict=True))
        waiting += [values.get(term) if isinstance(term, Var) else term for term in query.describe]
    seen: set[Any] = {None}
    while waiting:
        term = waiting.pop()
        if term in seen:
            continue
        seen.add(term)
        for triple in graph.matching(term, None, None):
            found.add(triple)
            if isinstance(triple[2], BlankNode):
                waiting.append(triple[2])
    return found
