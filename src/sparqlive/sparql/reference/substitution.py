"""Substitution (SPARQL 1.1 §18.6): a pattern with the terms of a solution in place of its variables.

Defines what EXISTS means, in particular where the specification does not. A variable that the pattern itself
binds (BIND, AS, VALUES) must have its outer value, or none. The variables that a sub-SELECT does not project
are local to it. BOUND of a substituted variable is true. A substituted variable is a constant, so it is not
common to the two sides of a MINUS. Invariant: a part without variables of the solution is returned as the
same object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from pyoxigraph import Literal, NamedNode

from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Term, Var

Solution = Mapping[Var, Term]
Item = TypeVar("Item")

_TRUE = al.Constant(Literal(True))
_NO_SOLUTION = al.Values((), ())


@lru_cache(maxsize=4096)
def mentioned(item: al.Expression | al.Pattern) -> frozenset[Var]:
    """Returns the variables of an expression or pattern that an outer solution can replace."""
    found: set[Var] = set()
    waiting: list[Any] = [item]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Var):
            found.add(part)
        elif isinstance(part, al.Project):
            found.update(part.variables)
        else:
            waiting.extend(al.parts_of(part))
    return frozenset(found)


def substituted(pattern: al.Pattern, solution: Solution) -> al.Pattern:
    """Returns the pattern for one outer solution."""
    if not any(v in solution for v in mentioned(pattern)):
        return pattern

    def new(inner: al.Pattern) -> al.Pattern:
        return substituted(inner, solution)

    match pattern:
        case al.BasicPattern(patterns):
            return al.BasicPattern(tuple(_part(part, solution) for part in patterns))
        case al.Join(left, right) | al.Union(left, right) | al.Minus(left, right):
            return type(pattern)(new(left), new(right))
        case al.LeftJoin(left, right, condition):
            return al.LeftJoin(
                new(left), new(right), None if condition is None else expression(condition, solution)
            )
        case al.Filter(condition, inner):
            return al.Filter(expression(condition, solution), new(inner))
        case al.Extend(inner, variable, value):
            return _bound(new(inner), variable, expression(value, solution), solution)
        case al.Values():
            return _values(pattern, solution)
        case al.Graph(name, inner) | al.Service(name, inner, _):
            graph = _term(name, solution)
            # A name that is not an IRI matches no graph.
            return replace(pattern, name=graph, pattern=new(inner)) if _is_name(graph) else _NO_SOLUTION
        case al.Group():
            return _group(pattern, solution)
        case al.OrderBy(inner, keys):
            return al.OrderBy(new(inner), tuple((expression(key, solution), down) for key, down in keys))
        case al.Project(inner, variables):
            seen = {v: term for v, term in solution.items() if v in variables}
            return al.Project(substituted(inner, seen), tuple(v for v in variables if v not in seen))
        case al.Distinct(inner) | al.Reduced(inner) | al.Slice(inner):
            return cast(al.Pattern, replace(pattern, pattern=new(inner)))


def expression(item: al.Expression, solution: Solution) -> al.Expression:
    """Returns the expression for one outer solution."""
    if not any(v in solution for v in mentioned(item)):
        return item
    match item:
        case Var():
            return al.Constant(solution[item]) if item in solution else item
        case al.Call("BOUND", (Var() as variable,)) if variable in solution:
            return _TRUE
        case al.Call(name, arguments):
            return al.Call(name, tuple(expression(argument, solution) for argument in arguments))
        case al.Exists(pattern):
            return al.Exists(substituted(pattern, solution))
        case al.Aggregate(_, argument) if argument is not None:
            return replace(item, argument=expression(argument, solution))
    return item


def _is_name(term: object) -> bool:
    return isinstance(term, Var | NamedNode)


def _term(term: Any, solution: Solution) -> Any:
    return solution.get(term, term) if isinstance(term, Var) else term


def _part(part: al.Triple | al.PathPattern, solution: Solution) -> al.Triple | al.PathPattern:
    new = {name: _term(getattr(part, name), solution) for name in ("subject", "object")}
    if isinstance(part, al.Triple):
        new["predicate"] = _term(part.predicate, solution)
    return replace(part, **new)


def _agrees(value: al.Expression, term: Term) -> al.Expression:
    """Whether a value is the term, or an error."""
    return al.Call("COALESCE", (al.Call("SAMETERM", (value, al.Constant(term))), _TRUE))


def _bound(inner: al.Pattern, variable: Var, value: al.Expression, solution: Solution) -> al.Pattern:
    if variable not in solution:
        return al.Extend(inner, variable, value)
    return al.Filter(_agrees(value, solution[variable]), inner)


def _values(pattern: al.Values, solution: Solution) -> al.Values:
    kept = [n for n, v in enumerate(pattern.variables) if v not in solution]
    rows = [
        row
        for row in pattern.rows
        if all(
            term is None or v not in solution or solution[v] == term
            for v, term in zip(pattern.variables, row, strict=True)
        )
    ]
    return al.Values(
        tuple(pattern.variables[n] for n in kept), tuple(tuple(row[n] for n in kept) for row in rows)
    )


def _group(group: al.Group, solution: Solution) -> al.Group:
    """A key with an outer value becomes a constant; it does not create a group over nothing."""
    inner = substituted(group.pattern, solution)
    keys = []
    for variable, key in group.keys:
        value = expression(key, solution)
        if variable in solution:
            if variable != key:
                inner = al.Filter(_agrees(value, solution[variable]), inner)
            variable, value = Var(f".key_{variable.name}"), al.Constant(solution[variable])
        keys.append((variable, value))
    aggregates = []
    for variable, aggregate in group.aggregates:
        new = expression(aggregate, solution)
        assert isinstance(new, al.Aggregate)
        aggregates.append((variable, new))
    return al.Group(inner, tuple(keys), tuple(aggregates))
