"""Graphs, and the matching of basic graph patterns and property paths in them (SPARQL 1.1 §18.3, §18.4).

Indexes the triples of a graph. Sequences and inverses become patterns of their own (§18.2.2.3); other paths
are followed from a term. Solutions are counted, not listed: a variable that nothing needs is dropped as soon
as no further pattern has it. Invariant: a graph is never modified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import count
from typing import Any, TypeAlias

from pyoxigraph import NamedNode

from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Term, Var, VarOrTerm
from sparqlive.sparql.reference.bags import Bag, Row

Triple: TypeAlias = tuple[Any, Any, Any]
Part: TypeAlias = al.Triple | al.PathPattern


class Graph:
    """A set of triples."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self.triples = frozenset(triples)
        self._by: dict[tuple[int, ...], dict[Any, list[Triple]]] = {}
        self._nodes: frozenset[Term] | None = None
        self._reached: dict[tuple[al.Path, bool], dict[Term, Mapping[Term, int]]] = {}

    @property
    def nodes(self) -> frozenset[Term]:
        if self._nodes is None:
            self._nodes = frozenset(term for s, _, o in self.triples for term in (s, o))
        return self._nodes

    def matching(self, subject: Any, predicate: Any, object_: Any) -> Collection[Triple]:
        """Returns the triples with the given terms; None matches any term."""
        terms = (subject, predicate, object_)
        places = tuple(n for n in range(3) if terms[n] is not None)
        if not places:
            return self.triples
        index = self._by.get(places)
        if index is None:
            index = self._by[places] = {}
            for triple in self.triples:
                index.setdefault(tuple(triple[n] for n in places), []).append(triple)
        return index.get(tuple(terms[n] for n in places), ())

    # Paths

    def reached(self, path: al.Path, start: Term, forward: bool) -> Mapping[Term, int]:
        """Returns where a path leads from a term, or backwards, and in how many ways if these count."""
        known = self._reached.setdefault((path, forward), {})
        if start not in known:
            known[start] = self._lead(path, start, forward)
        return known[start]

    def _lead(self, path: al.Path, start: Term, forward: bool) -> Mapping[Term, int]:
        match path:
            case NamedNode():
                return Counter(self._neighbours(start, forward, path))
            case al.Inverse(inner):
                return self.reached(inner, start, not forward)
            case al.Sequence(first, second):
                return self._sequence((first, second) if forward else (second, first), start, forward)
            case al.Alternative(first, second):
                return Counter(self.reached(first, start, forward)) + Counter(
                    self.reached(second, start, forward)
                )
            case al.NegatedSet(excluded, inverse):
                others: Counter[Term] = Counter()
                if excluded or not inverse:
                    others.update(self._others(start, forward, excluded))
                if inverse:
                    others.update(self._others(start, not forward, inverse))
                return others
            case al.ZeroOrOne(inner):
                return dict.fromkeys((start, *self.reached(inner, start, forward)), 1)
            case al.ZeroOrMore(inner):
                return dict.fromkeys(self._closure(inner, [start], forward), 1)
            case al.OneOrMore(inner):
                ends = self.reached(inner, start, forward)
                # Our choice: a repeated path that may have no steps leads from every term to itself.
                starts = (start, *ends) if _may_be_of_no_steps(inner) else ends
                return dict.fromkeys(self._closure(inner, starts, forward), 1)

    def _neighbours(self, node: Term, forward: bool, predicate: NamedNode | None) -> Iterator[Term]:
        found = self.matching(node, predicate, None) if forward else self.matching(None, predicate, node)
        return (triple[2] if forward else triple[0] for triple in found)

    def _others(self, node: Term, forward: bool, excluded: tuple[NamedNode, ...]) -> Iterator[Term]:
        found = self.matching(node, None, None) if forward else self.matching(None, None, node)
        return (triple[2] if forward else triple[0] for triple in found if triple[1] not in excluded)

    def _sequence(self, steps: tuple[al.Path, al.Path], start: Term, forward: bool) -> Counter[Term]:
        """Joins at a variable (§18.4), which binds only nodes of the graph."""
        ends: Counter[Term] = Counter()
        for middle, times in self.reached(steps[0], start, forward).items():
            if middle in self.nodes:
                for end, more in self.reached(steps[1], middle, forward).items():
                    ends[end] += times * more
        return ends

    def _closure(self, step: al.Path, starts: Iterable[Term], forward: bool) -> dict[Term, None]:
        """ALP of §18.4, without recursion."""
        visited: dict[Term, None] = {}
        waiting = list(starts)
        while waiting:
            node = waiting.pop()
            if node not in visited:
                visited[node] = None
                waiting.extend(self.reached(step, node, forward))
        return visited

    # Basic graph patterns

    def match(self, patterns: Iterable[Part], needed: Set[Var]) -> Bag:
        """Returns the solutions of a basic graph pattern: one pattern at a time, the most restricted next.

        Only the needed variables are in the result.
        """
        waiting = [(part, _variables(part), self._size(part)) for part in _simple(patterns, count())]
        awaited = Counter(v for _, names, _ in waiting for v in names)
        variables: tuple[Var, ...] = ()
        rows: dict[Row, int] = {(): 1}
        while waiting:
            known = frozenset(variables)
            freedom = [_freedom(part, names, size, known) for part, names, size in waiting]
            part, names, _ = waiting.pop(freedom.index(min(freedom)))
            awaited.subtract(names)
            wider = tuple(dict.fromkeys((*variables, *names)))
            places = [place for place, v in enumerate(wider) if v in needed or awaited[v]]
            added = [names.index(v) for v in wider[len(variables) :]]
            found: dict[Row, int] = {}
            for row, times in rows.items():
                for values, more in self._extensions(part, dict(zip(variables, row, strict=True))):
                    whole = (*row, *(values[n] for n in added))
                    new = tuple(whole[n] for n in places)
                    found[new] = found.get(new, 0) + times * more
            variables, rows = tuple(wider[n] for n in places), found
        return Bag(variables, rows.items())

    def _size(self, part: Part) -> int:
        """The number of triples that agree with the constants of a pattern; more than all for a path."""
        if not isinstance(part, al.Triple):
            return len(self.triples) + 1
        positions = (part.subject, part.predicate, part.object)
        return len(self.matching(*(None if isinstance(term, Var) else term for term in positions)))

    def _extensions(self, part: Part, known: Mapping[Var, Term | None]) -> Iterator[tuple[Row, int]]:
        """Yields the values of the variables of a pattern that agree with the known ones."""
        positions: tuple[VarOrTerm, ...]
        if isinstance(part, al.Triple):
            positions = (part.subject, part.predicate, part.object)
            terms = [known.get(term) if isinstance(term, Var) else term for term in positions]
            found: Iterable[tuple[Row, int]] = ((triple, 1) for triple in self.matching(*terms))
        else:
            positions = (part.subject, part.object)
            found = self._ends(part, known)
        names = _variables(part)
        for values, times in found:
            bound: dict[Var, Term | None] = {}
            if all(
                bound.setdefault(term, value) == value
                for term, value in zip(positions, values, strict=True)
                if isinstance(term, Var)
            ):
                yield tuple(bound[v] for v in names), times

    def _ends(self, part: al.PathPattern, known: Mapping[Var, Term | None]) -> Iterator[tuple[Row, int]]:
        """Yields both ends of a path. A constant may be any term; variables bind only nodes of the graph."""
        start, end = part.subject, part.object
        if not isinstance(start, Var):
            target = known.get(end) if isinstance(end, Var) else end
            for found, times in self.reached(part.path, start, True).items():
                if target is None or found == target:
                    yield (start, found), times
        elif not isinstance(end, Var):
            target = known.get(start)
            for found, times in self.reached(part.path, end, False).items():
                if target is None or found == target:
                    yield (found, end), times
        else:
            yield from self._between(part.path, known.get(start), known.get(end))

    def _between(self, path: al.Path, start: Term | None, end: Term | None) -> Iterator[tuple[Row, int]]:
        if start is None and end is not None:
            if end in self.nodes:
                for found, times in self.reached(path, end, False).items():
                    yield (found, end), times
            return
        for node in self.nodes if start is None else self.nodes & {start}:
            for found, times in self.reached(path, node, True).items():
                if end is None or found == end:
                    yield (node, found), times


def _simple(patterns: Iterable[Part], numbers: Iterator[int]) -> Iterator[Part]:
    """Splits a sequence into two patterns with a new variable, and reverses an inverse path (§18.2.2.3)."""
    for part in patterns:
        if isinstance(part, al.Triple):
            yield part
            continue
        match part.path:
            case NamedNode() as predicate:
                yield al.Triple(part.subject, predicate, part.object)
            case al.Inverse(inner):
                yield from _simple([al.PathPattern(part.object, inner, part.subject)], numbers)
            case al.Sequence(first, second):
                middle = Var(f".step{next(numbers)}")
                halves = (
                    al.PathPattern(part.subject, first, middle),
                    al.PathPattern(middle, second, part.object),
                )
                yield from _simple(halves, numbers)
            case _:
                yield part


def _freedom(part: Part, names: Collection[Var], size: int, bound: Set[Var]) -> tuple[bool, int, int]:
    """Orders patterns: first those that share variables, then those with few open ends or few triples."""
    apart = bool(bound) and bool(names) and bound.isdisjoint(names)
    free = sum(isinstance(term, Var) and term not in bound for term in (part.subject, part.object))
    return apart, free, size


def _may_be_of_no_steps(path: al.Path) -> bool:
    match path:
        case al.ZeroOrOne() | al.ZeroOrMore():
            return True
        case al.OneOrMore(inner) | al.Inverse(inner):
            return _may_be_of_no_steps(inner)
        case al.Sequence(first, second):
            return _may_be_of_no_steps(first) and _may_be_of_no_steps(second)
        case al.Alternative(first, second):
            return _may_be_of_no_steps(first) or _may_be_of_no_steps(second)
    return False


def _variables(part: Part) -> tuple[Var, ...]:
    terms: tuple[VarOrTerm, ...] = (part.subject, part.object)
    if isinstance(part, al.Triple):
        terms = (part.subject, part.predicate, part.object)
    return tuple(dict.fromkeys(term for term in terms if isinstance(term, Var)))
