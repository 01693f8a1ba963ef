"""Replaces each SERVICE of a query by a table of its solutions (SPARQL 1.1 Federated Query).

Decides in which order endpoints are asked, and which known solutions may restrict a request. An endpoint is
asked before the query is planned, so plans have no SERVICE. Rejects `SERVICE ?variable`, and a SERVICE inside
EXISTS whose solutions depend on more than a join. Invariant: a restriction changes nothing in the query's
result: every solution of the SERVICE binds its variables, and one with other values could not be part of a
solution of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, TypeAlias, TypeVar

from sparqlive.errors import Unsupported
from sparqlive.plan.checks import calls_in
from sparqlive.plan.expressions import variables_in
from sparqlive.plan.once import with_parts
from sparqlive.plan.substitution import always_bound, is_join
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var, parts_of
from sparqlive.sparql.expressions import volatile_function
from sparqlive.sparql.syntax.patterns import visible

T = TypeVar("T")
Ask: TypeAlias = Callable[[al.Service, al.Pattern | None, Sequence[Var]], al.Values]
"""Asks an endpoint for its solutions. If there is a pattern, only solutions that agree with one of the
pattern's solutions are needed; they must agree on those of the variables that every solution of the pattern
binds. The pattern is evaluated over the query's dataset, outside of any GRAPH."""

_NO_RESTRICTION: frozenset[Var] = frozenset()


def services_in(item: Any) -> Iterator[al.Service]:
    """Yields the SERVICEs that a query or pattern asks itself, without those that an endpoint will ask."""
    return al.found_in(item, (al.Service,), except_in=(al.Service, al.Values))  # tables may be long


def columns_of(service: al.Service) -> tuple[Var, ...]:
    """The variables that a SERVICE can bind."""
    return tuple(v for v in visible(service.pattern) if not v.hidden)


def with_unknown_tables(query: al.Query) -> al.Query:
    """Replaces each SERVICE by a table without information, to find out what else the query reads."""

    def unknown(item: Any) -> Any:
        if isinstance(item, al.Service):
            columns = columns_of(item)
            return al.Values(columns, ((None,) * len(columns),))
        return with_parts(item, unknown)

    if not any(services_in(query)):
        return query
    return replace(query, pattern=unknown(query.pattern))


def with_answers(query: al.Query, ask: Ask) -> al.Query:
    """Asks the endpoints of a query, and replaces each SERVICE by the table of its solutions."""
    return replace(query, pattern=_Answers(ask).pattern(query.pattern, _NOTHING))


@dataclass(frozen=True)
class _Around:
    """The known parts of the query that are joined with a given part.

    Only the `variables` of the `solutions` may restrict the part. `graphs` are the GRAPHs around the part,
    the innermost last. In EXISTS (`within`: the variables that are substituted there), what is joined does
    not restrict, because it depends on the substitution.
    """

    solutions: al.Pattern | None = None
    variables: frozenset[Var] = _NO_RESTRICTION
    graphs: tuple[al.Graph, ...] = ()
    within: frozenset[Var] | None = None

    def and_also(self, pattern: al.Pattern) -> _Around:
        """Adds a pattern that is joined with the part, and has no SERVICE."""
        if self.within is not None or _is_volatile(pattern):
            return self
        pattern = reduce(lambda inner, graph: replace(graph, pattern=inner), self.graphs[::-1], pattern)
        both = pattern if self.solutions is None else al.Join(self.solutions, pattern)
        return replace(self, solutions=both, variables=self.variables | frozenset(visible(pattern)))

    def only(self, pattern: al.Pattern) -> _Around:
        """Replaces the joined parts by one pattern, whose solutions need no match in the part."""
        if self.within is not None:
            return replace(self, variables=self.variables & always_bound(pattern))
        return self.unrestricted().and_also(pattern)

    def limited(self, variables: Sequence[Var]) -> _Around:
        return replace(self, variables=self.variables & frozenset(variables))

    def unrestricted(self) -> _Around:
        return replace(self, solutions=None, variables=_NO_RESTRICTION)


_NOTHING = _Around()


class _Answers:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def pattern(self, pattern: al.Pattern, around: _Around) -> al.Pattern:
        """Returns a pattern without SERVICE."""
        if not any(services_in(pattern)):
            return pattern
        match pattern:
            case al.Service():
                return self._answer(pattern, around)
            case al.Join():
                return self._join(pattern, around)
            case al.LeftJoin(left, right, condition):
                known = self.pattern(left, around)
                optional = self.pattern(right, around.only(known))
                both = al.Join(known, optional)
                return al.LeftJoin(known, optional, condition and self._expression(condition, both, around))
            case al.Minus(left, right):
                known = self.pattern(left, around)
                return al.Minus(known, self.pattern(right, around.only(known)))
            case al.Union(left, right):
                return al.Union(self.pattern(left, around), self.pattern(right, around))
            case al.Filter(condition, inner):
                known = self.pattern(inner, around)
                return al.Filter(self._expression(condition, known, around), known)
            case al.Extend(inner, variable, expression):
                others = around.variables - {variable}
                known = self.pattern(inner, replace(around, variables=others))
                return al.Extend(known, variable, self._expression(expression, known, around))
            case al.Graph(_, inner):
                inside = replace(around, graphs=(*around.graphs, pattern))
                return replace(pattern, pattern=self.pattern(inner, inside))
            case al.Project(inner, variables):
                # Inside, a variable that is not selected is another one.
                return replace(pattern, pattern=self.pattern(inner, around.limited(variables)))
            case al.Distinct(inner) | al.Reduced(inner):
                return replace(pattern, pattern=self.pattern(inner, around))
            case al.Group(inner) | al.OrderBy(inner) | al.Slice(inner):
                # What a window or a group contains depends on all solutions.
                known = self.pattern(inner, around.unrestricted())
                names = [field.name for field in fields(pattern) if field.name != "pattern"]
                values = (self._expression(getattr(pattern, name), known, around) for name in names)
                return replace(pattern, pattern=known, **dict(zip(names, values, strict=True)))
            case al.BasicPattern() | al.Values():
                return pattern

    def _join(self, join: al.Join, around: _Around) -> al.Pattern:
        """Local parts restrict the requests to endpoints, and so do the answers of other endpoints."""
        parts = list(_joined(join))
        asked = [place for place, part in enumerate(parts) if any(services_in(part))]
        for place, part in enumerate(parts):
            if place not in asked:
                around = around.and_also(part)
        for place in asked:
            parts[place] = self.pattern(parts[place], around)
            around = around.and_also(parts[place])
        return al.combined(al.Join, parts)

    def _answer(self, service: al.Service, around: _Around) -> al.Pattern:
        if isinstance(service.name, Var):
            raise Unsupported(
                f"SERVICE {service.name} is not supported: write the address of the endpoint as an IRI."
            )
        if around.within is not None:
            _check_is_join(service, around.within)
        keys = sorted(around.variables & _binds(service.pattern))
        return self._ask(service, around.solutions if keys else None, keys)

    # Expressions

    def _expression(self, expression: T, solutions: al.Pattern, around: _Around) -> T:
        """Replaces the SERVICEs in the EXISTS of expressions, which are evaluated for the solutions."""
        if not any(services_in(expression)):
            return expression
        inside = around.unrestricted().and_also(solutions)
        inside = replace(inside, graphs=around.graphs, within=frozenset(visible(solutions)))

        def answered(item: Any) -> Any:
            if isinstance(item, al.Exists):
                return al.Exists(self.pattern(item.pattern, inside))
            return with_parts(item, answered)

        replaced: T = answered(expression)
        return replaced


def _binds(pattern: al.Pattern) -> frozenset[Var]:
    """The variables that may restrict what an endpoint is asked for.

    A window is requested whole: it is small, and some endpoints apply the restriction before the window.
    """
    return frozenset() if any(_windows_in(pattern)) else always_bound(pattern)


def _windows_in(item: Any) -> Iterator[al.Slice]:
    if isinstance(item, al.Slice):
        yield item
    for part in parts_of(item):
        yield from _windows_in(part)


def _joined(pattern: al.Pattern) -> Iterator[al.Pattern]:
    if isinstance(pattern, al.Join):
        yield from _joined(pattern.left)
        yield from _joined(pattern.right)
    else:
        yield pattern


def _is_volatile(pattern: al.Pattern) -> bool:
    """Whether a pattern has other solutions each time it is evaluated."""
    return any(volatile_function(call) is not None for call in calls_in(pattern))


def _check_is_join(service: al.Service, around: frozenset[Var]) -> None:
    for variable in sorted(around & variables_in(service.pattern)):
        if not is_join(service.pattern, variable, around, always=False):
            raise Unsupported(
                f"SERVICE {service.name} inside EXISTS reads {variable} of the outer solution without always "
                f"binding it, which is not supported. Move it out of EXISTS, to OPTIONAL or a sub-SELECT."
            )
