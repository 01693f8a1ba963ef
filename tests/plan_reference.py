"""Evaluates plans and delta rules by the definitions of their operators: simple and slow.

For tests of delta rules, rewrites and executors given a plan, and of the translation given a query.
The meaning of a query, and what `session.check()` compares with, is `sparql/reference/`, which does not use
plans. This module keeps no state and shares no code with the executors: it works on terms and zsets, directly
from the definitions on annotated sets. Invariant: a row is a tuple of terms in the order of the operator's
variables; None means unbound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from sparqlive.plan import delta as rules
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Expression, Term, Var
from sparqlive.sparql.expressions import ExpressionError, compile_condition, compile_expression
from sparqlive.sparql.ordering import order_key, rank_key
from sparqlive.sparql.reference.aggregates import aggregate_of
from sparqlive.sparql.values import value_of
from tests.zsets import ZSet

Row: TypeAlias = tuple[Term | None, ...]
Solutions: TypeAlias = ZSet[Row]


class Graphs:
    """A set of quads, indexed by graph and predicate."""

    def __init__(self, quads: Iterable[Quad]) -> None:
        self.quads = frozenset(quads)
        self._by_graph: dict[Any, set[tuple[Any, Any, Any]]] = {}
        for subject, predicate, object_, graph in self.quads:
            self._by_graph.setdefault(graph, set()).add((subject, predicate, object_))

    def of(self, choice: op.GraphChoice) -> Iterator[tuple[NamedNode | None, set[tuple[Any, Any, Any]]]]:
        """Yields the graphs that a leaf reads, each with the name that it binds."""
        match choice:
            case op.OneGraph(name):
                yield None, self._by_graph.get(DefaultGraph() if name is None else name, set())
            case op.MergedGraphs(names):
                members = self._by_graph if names is None else names
                yield None, set().union(*(self._by_graph.get(name, set()) for name in members))
            case op.NamedGraphs(_, names):
                for name, triples in self._by_graph.items():
                    if not isinstance(name, DefaultGraph) and (names is None or name in names):
                        yield name, triples

    def exists(self, name: NamedNode | None) -> bool:
        return name in self._by_graph


class Reference:
    """Contents before and after a change of the quads, and deltas computed by the rules."""

    def __init__(self, old: Iterable[Quad], new: Iterable[Quad] | None = None) -> None:
        before = Graphs(old)
        self._graphs = {State.OLD: before, State.NEW: before if new is None else Graphs(new)}
        self._known: dict[tuple[State, op.Operator], Solutions] = {}

    def content(self, plan: op.Operator, state: State = State.NEW) -> Solutions:
        key = (state, plan)
        if key not in self._known:
            self._known[key] = self._evaluate(plan, state)
        return self._known[key]

    def delta(self, plan: op.Operator) -> Solutions:
        """Computes ΔP by the delta rules, down to the leaves."""
        if not plan.children or isinstance(plan, op.Shared):
            return self.content(plan, State.NEW) - self.content(plan, State.OLD)
        return self._rule(plan.delta_rule(), plan)[1]

    def listed(self, plan: op.Listing) -> list[Row]:
        """Returns the solutions in the order of ORDER BY, one entry per multiplicity."""
        source = plan.source
        rows = _in_order(plan.order, source.variables, self.content(source))
        return [_arranged(row, source.variables, plan.columns) for row, weight in rows for _ in range(weight)]

    # Contents

    def _evaluate(self, plan: op.Operator, state: State) -> Solutions:
        def of(child: op.Operator) -> tuple[tuple[Var, ...], Solutions]:
            return child.variables, self.content(child, state)

        match plan:
            case op.Scan():
                return ZSet((row, 1) for row in _matches(plan, self._graphs[state]))
            case op.Names(graph):
                if isinstance(graph, op.OneGraph):
                    return ZSet([((), 1)] if self._graphs[state].exists(graph.name) else [])
                return ZSet(((name,), 1) for name, _ in self._graphs[state].of(graph))
            case op.Nodes(graph, _):
                return ZSet(
                    ((node, *([] if name is None else [name])), 1)
                    for name, triples in self._graphs[state].of(graph)
                    for node in {term for triple in triples for term in (triple[0], triple[2])}
                )
            case op.Table(_, rows):
                return ZSet((row, 1) for row in rows)
            case op.Join(parts):
                left = of(parts[0])
                for part in parts[1:]:
                    left = _join(left, of(part))
                return left[1]
            case op.Union(parts):
                return ZSet(
                    (_arranged(row, part.variables, plan.variables), weight)
                    for part in parts
                    for row, weight in self.content(part, state)
                )
            case op.LeftJoin(left_plan, right_plan, condition):
                return _outer(of(left_plan), of(right_plan), condition)
            case op.Semi(left_plan, right_plan, keep, domain):
                matched = _matcher(of(left_plan)[0], of(right_plan), None, domain)
                return of(left_plan)[1].filter(lambda row: matched(row) == keep)
            case op.Mark(left_plan, right_plan, _):
                matched = _matcher(of(left_plan)[0], of(right_plan), None, None)
                return of(left_plan)[1].map(lambda row: (*row, Literal(matched(row))))
            case op.Distinct(source):
                return self.content(source, state).distinct()
            case op.Group(source):
                return _groups(plan, self.content(source, state))
            case op.Closure():
                return ZSet((row, 1) for row in _paths(plan, self.content(plan.source, state)))
            case op.Window(source):
                return _window(plan, self.content(source, state))
            case op.Numbered(source, _, _):
                return ZSet(
                    ((*row, Literal(number)), 1)
                    for row, weight in self.content(source, state)
                    for number in range(weight)
                )
            case _:
                return _linear(plan, of(plan.children[0])[1], plan.children[0].variables)

    # Delta rules

    def _rule(self, rule: rules.Rule, plan: op.Operator) -> tuple[tuple[Var, ...], Solutions]:
        match rule:
            case rules.Of(State.DELTA, operator):
                return operator.variables, self.delta(operator)
            case rules.Of(state, operator):
                return operator.variables, self.content(operator, state)
            case rules.Plus(terms):
                total: Solutions = ZSet()
                for term in terms:
                    variables, solutions = self._rule(term, plan)
                    total += solutions.map(lambda row, own=variables: _arranged(row, own, plan.variables))  # type: ignore[misc]
                return plan.variables, total
            case rules.Times((left, rules.Plus((right, rules.Flips(operator))))):
                joined = _join_where(self._rule(left, plan), self._rule(right, plan), operator)
                return plan.variables, joined + self._flips(operator)
            case rules.Times((_, rules.Flips(operator))):
                return plan.variables, self._flips(operator)
            case rules.Times(factors):
                result = self._rule(factors[0], plan)
                for factor in factors[1:]:
                    result = _join(result, self._rule(factor, plan))
                return result
            case rules.Apply(operator, argument):
                variables, solutions = self._rule(argument, plan)
                return operator.variables, _linear(operator, solutions, variables)
            case rules.Outer(left, right, condition):
                return plan.variables, _outer(self._rule(left, plan), self._rule(right, plan), condition)
            case rules.Tested(operator, left, right):
                return plan.variables, self._tested(operator, self._rule(left, plan), self._rule(right, plan))
            case rules.Signs(operator, argument):
                counts = self.content(operator.source, State.OLD)
                new = counts + self._rule(argument, plan)[1]
                return plan.variables, new.distinct() - counts.distinct()
            case rules.Redone(operator, _):
                return plan.variables, self.content(operator, State.NEW) - self.content(operator, State.OLD)
        raise AssertionError(rule)

    def _tested(
        self, operator: op.Semi | op.Mark, left: tuple[tuple[Var, ...], Solutions], right: Any
    ) -> Solutions:
        domain = operator.domain if isinstance(operator, op.Semi) else None
        matched = _matcher(left[0], right, None, domain)
        if isinstance(operator, op.Mark):
            return left[1].map(lambda row: (*row, Literal(matched(row))))
        return left[1].filter(lambda row: matched(row) == operator.keep)

    def _flips(self, operator: op.TwoSided) -> Solutions:
        """Joins A' with the changes of whether a left solution has a match on the right side."""
        left = self.content(operator.left, State.NEW)
        condition = operator.condition if isinstance(operator, op.LeftJoin) else None
        domain = operator.domain if isinstance(operator, op.Semi) else None
        old, new = (
            _matcher(
                operator.left.variables,
                (operator.right.variables, self.content(operator.right, state)),
                condition,
                domain,
            )
            for state in (State.OLD, State.NEW)
        )
        result: list[tuple[Row, int]] = []
        for row, weight in left:
            was, now = old(row), new(row)
            if was == now:
                continue
            if isinstance(operator, op.Mark):
                result += [((*row, Literal(was)), -weight), ((*row, Literal(now)), weight)]
            elif isinstance(operator, op.Semi):
                result.append((row, weight if now == operator.keep else -weight))
            else:
                bare = _arranged(row, operator.left.variables, operator.variables)
                result.append((bare, weight if was else -weight))
        return ZSet(result)


def _matches(scan: op.Scan, graphs: Graphs) -> Iterator[Row]:
    pattern = scan.positions
    for name, triples in graphs.of(scan.graph):
        for triple in triples:
            if triple[1] in scan.excluded:
                continue
            found: dict[Var, Any] = {}
            if isinstance(scan.graph, op.NamedGraphs):
                found[scan.graph.variable] = name
            if all(
                found.setdefault(position, term) == term if isinstance(position, Var) else position == term
                for position, term in zip(pattern, triple, strict=True)
            ):
                yield tuple(found[v] for v in scan.variables)


def _paths(closure: op.Closure, steps: Solutions) -> set[Row]:
    """Computes paths by §18.4: from the end of each first step, all nodes that ALP visits."""
    following: dict[Row, dict[Term | None, set[Term | None]]] = {}
    for at, to, *keys in steps.weights:
        following.setdefault(tuple(keys), {}).setdefault(at, set()).add(to)
    found: set[Row] = set()
    for key, after in following.items():
        for start in after if isinstance(closure.start, Var) else {closure.start} & after.keys():
            visited: set[Term | None] = set()
            for first in after[start]:
                _add_all_reached(first, after, visited)
            for end in visited if isinstance(closure.end, Var) else {closure.end} & visited:
                ends = [t for t, v in ((start, closure.start), (end, closure.end)) if isinstance(v, Var)]
                found.add((*ends, *key))
    return found


def _add_all_reached(
    node: Term | None, after: dict[Term | None, set[Term | None]], visited: set[Term | None]
) -> None:
    """ALP of §18.4, without recursion."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node not in visited:
            visited.add(node)
            waiting.extend(after.get(node, ()))


def _arranged(row: Row, variables: tuple[Var, ...], columns: tuple[Var, ...]) -> Row:
    values = dict(zip(variables, row, strict=True))
    return tuple(values.get(variable) for variable in columns)


def _linear(operator: op.Operator, solutions: Solutions, variables: tuple[Var, ...]) -> Solutions:
    """Applies filter, extend, project, union or storing to a zset."""
    match operator:
        case op.Filter(condition, _):
            holds = compile_condition(condition, variables)
            return solutions.filter(lambda row: holds(_values(row)))
        case op.Extend(_, _, expression):
            evaluate = _evaluator(expression, variables)
            return solutions.map(lambda row: (*row, evaluate(row)))
        case op.Template(_, _, rows):
            return ZSet(
                (tuple(bound.get(term) if isinstance(term, Var) else term for term in template), weight)
                for row, weight in solutions
                for bound in [dict(zip(variables, row, strict=True))]
                for template in rows
            )
        case op.Project() | op.Union() | op.Stored() | op.Shared():
            return solutions.map(lambda row: _arranged(row, variables, operator.variables))
    raise AssertionError(type(operator).__name__)


def _groups(operator: op.Group, solutions: Solutions) -> Solutions:
    """Computes each aggregate over the bag of its argument's values, including errors (None) (§18.5.1)."""
    columns, width = operator.source.variables, len(operator.keys)
    groups: dict[Row, dict[Row, int]] = {}
    for row, weight in solutions:
        members = groups.setdefault(row[:width], {})
        if operator.member is None or row[columns.index(operator.member)] is not None:
            members[row] = weight
    return ZSet(
        ((*key, *(aggregate_of(aggregate, columns, rows) for _, aggregate in operator.aggregates)), 1)
        for key, rows in groups.items()
    )


def _in_order(order: op.Order, variables: tuple[Var, ...], rows: Iterable[tuple[Row, int]]) -> Any:
    """Sorts by each key in turn, the last one first: `sorted` is stable."""

    def value(row: Row, place: int) -> Any:
        term = row[place]
        return None if term is None else value_of(term)

    ranked = sorted(rows, key=lambda item: [order_key(value(item[0], n)) for n in range(len(variables))])
    for variable, descending in reversed(order):
        place = variables.index(variable)
        ranked.sort(key=lambda item: rank_key(value(item[0], place)), reverse=descending)
    return ranked


def _window(plan: op.Window, solutions: Solutions) -> Solutions:
    groups: dict[Row, list[tuple[Row, int]]] = {}
    for row, weight in solutions:
        groups.setdefault(_arranged(row, plan.variables, plan.keys), []).append((row, weight))
    kept: list[tuple[Row, int]] = []
    for members in groups.values():
        before = 0
        for row, weight in _in_order(plan.order, plan.variables, members):
            last = before + weight if plan.limit is None else min(before + weight, plan.offset + plan.limit)
            kept.append((row, max(0, last - max(before, plan.offset))))
            before += weight
    return ZSet(kept)


def _values(row: Row) -> list[Any]:
    return [None if term is None else value_of(term) for term in row]


def _evaluator(expression: Expression, variables: tuple[Var, ...]) -> Callable[[Row], Term | None]:
    compiled = compile_expression(expression, variables)

    def evaluate(row: Row) -> Term | None:
        try:
            return compiled(_values(row)).term
        except ExpressionError:
            return None

    return evaluate


class _Partners:
    """The rows of one side, indexed by the variables that both sides always bind."""

    def __init__(self, left: tuple[Var, ...], right: tuple[tuple[Var, ...], Solutions]) -> None:
        variables, solutions = right
        both = [v for v in left if v in variables]
        keys = [v for v in both if all(row[variables.index(v)] is not None for row in solutions.weights)]
        self._left = [left.index(v) for v in keys]
        self._all = [(left.index(v), variables.index(v)) for v in both]
        self._rows: dict[Row, list[tuple[Row, int]]] = {}
        for row, weight in solutions:
            self._rows.setdefault(tuple(row[variables.index(v)] for v in keys), []).append((row, weight))
        self._every = list(solutions)

    def of(self, row: Row) -> Iterator[tuple[Row, int]]:
        key = tuple(row[position] for position in self._left)
        candidates = self._every if None in key else self._rows.get(key, [])
        for other, weight in candidates:
            if all(row[i] is None or other[j] is None or row[i] == other[j] for i, j in self._all):
                yield other, weight


def _merged(row: Row, left: tuple[Var, ...], other: Row, right: tuple[Var, ...]) -> Row:
    values = dict(zip(right, other, strict=True))
    own = tuple(term if term is not None else values.get(v) for v, term in zip(left, row, strict=True))
    return (*own, *(values[v] for v in right if v not in left))


def _join(
    left: tuple[tuple[Var, ...], Solutions], right: tuple[tuple[Var, ...], Solutions]
) -> tuple[tuple[Var, ...], Solutions]:
    partners = _Partners(left[0], right)
    return op.ordered_union(left[0], right[0]), ZSet(
        (_merged(row, left[0], other, right[0]), weight * times)
        for row, weight in left[1]
        for other, times in partners.of(row)
    )


def _join_where(
    left: tuple[tuple[Var, ...], Solutions],
    right: tuple[tuple[Var, ...], Solutions],
    operator: op.TwoSided,
) -> Solutions:
    variables, joined = _join(left, right)
    if isinstance(operator, op.LeftJoin) and operator.condition is not None:
        holds = compile_condition(operator.condition, variables)
        return joined.filter(lambda row: holds(_values(row)))
    return joined


def _matcher(
    left: tuple[Var, ...],
    right: tuple[tuple[Var, ...], Solutions],
    condition: Expression | None,
    domain: tuple[Var, ...] | None,
) -> Callable[[Row], bool]:
    """Returns a test for left solutions: whether a right one matches.

    A match is compatible, satisfies the condition and has a common variable.
    """
    partners = _Partners(left, right)
    variables = op.ordered_union(left, right[0])
    holds = None if condition is None else compile_condition(condition, variables)
    common = [(left.index(v), right[0].index(v)) for v in domain or ()]

    def matched(row: Row) -> bool:
        for other, _ in partners.of(row):
            if domain is not None and not any(row[i] is not None and other[j] is not None for i, j in common):
                continue
            if holds is None or holds(_values(_merged(row, left, other, right[0]))):
                return True
        return False

    return matched


def _outer(
    left: tuple[tuple[Var, ...], Solutions],
    right: tuple[tuple[Var, ...], Solutions],
    condition: Expression | None,
) -> Solutions:
    variables, joined = _join(left, right)
    if condition is not None:
        holds = compile_condition(condition, variables)
        joined = joined.filter(lambda row: holds(_values(row)))
    matched = _matcher(left[0], right, condition, None)
    alone = left[1].filter(lambda row: not matched(row))
    return joined + alone.map(lambda row: _arranged(row, left[0], variables))
