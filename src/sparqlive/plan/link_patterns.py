"""What a query mentions: the IRIs it starts from, and the quads it can match.

This defines where link traversal starts and which links it follows. A quad is followed if it matches one of
the query's triple patterns, even if the rest of the solution is missing: the missing part may be in the
document that the link leads to. The links are the IRIs that variables match. So the documents reached depend
only on the data, not on the order of arrival. Predicates and classes are vocabulary terms, and traversal does
not start from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Var, parts_of

_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_EQUAL = ("=", "IN", "SAMETERM")


@dataclass(frozen=True)
class LinkStep:
    """A triple pattern: its constants, the positions whose IRIs are followed, and whether ends are equal."""

    subject: NamedNode | BlankNode | Literal | None
    predicate: NamedNode | None
    object: NamedNode | BlankNode | Literal | None
    leads: tuple[int, ...]
    loop: bool
    excluded: tuple[NamedNode, ...] = ()


def starts_of(query: al.Query) -> tuple[str, ...]:
    """Returns the IRIs of subjects, objects, inline data, comparisons and graphs, in order."""
    parts = (query.dataset, query.describe, query.pattern)
    return tuple(dict.fromkeys(term.value for term in _starts(parts) if isinstance(term, NamedNode)))


def _starts(item: Any) -> Iterator[Any]:
    match item:
        case al.Triple(subject, predicate, object_):
            yield subject
            if predicate != _TYPE:
                yield object_
        case al.PathPattern(subject, _, object_):
            yield from (subject, object_)
        case al.Graph(name, pattern):
            yield name
            yield from _starts(pattern)
        case al.Dataset(default, named):
            yield from (*default, *(named or ()))
        case al.Values(_, rows):
            yield from (term for row in rows for term in row)
        case al.Call(name, arguments) if name in _EQUAL and isinstance(arguments[0], Var):
            yield from (argument.term for argument in arguments if isinstance(argument, al.Constant))
        case al.Extend(pattern, _, expression):
            yield from _starts(pattern)
            yield expression.term if isinstance(expression, al.Constant) else None
            yield from _starts(expression)
        case al.Service():
            return
        case NamedNode():
            yield item
        case al.Constant():
            return
        case _:
            for part in parts_of(item):
                yield from _starts(part)


def steps_of(query: al.Query) -> tuple[LinkStep, ...]:
    """Returns the triple patterns of a query, including those inside its paths."""
    fresh = (Var(f".step{number}") for number in count())
    triples = [triple for pattern in _patterns(query.pattern) for triple in _triples(pattern, fresh)]
    ends = {term for subject, _, object_, _ in triples for term in (subject, object_)}
    steps = (
        LinkStep(
            None if isinstance(subject, Var) else subject,
            predicate if isinstance(predicate, NamedNode) else None,
            None if isinstance(object_, Var) else object_,
            tuple(
                position
                for position, term in enumerate((subject, predicate, object_))
                if isinstance(term, Var) and term in ends
            ),
            isinstance(subject, Var) and subject == object_,
            excluded,
        )
        for subject, predicate, object_, excluded in triples
    )
    return tuple(dict.fromkeys(steps))


def reads_named_graphs(query: al.Query) -> bool:
    """Whether a query reads graphs other than the unnamed one, which holds the documents."""
    return query.dataset is not None or any(_graphs(query.pattern))


def _graphs(item: Any) -> Iterator[al.Graph]:
    if isinstance(item, al.Graph):
        yield item
    for part in parts_of(item):
        yield from _graphs(part)


def _patterns(item: Any) -> Iterator[al.Triple | al.PathPattern]:
    if isinstance(item, al.Triple | al.PathPattern):
        yield item
    elif not isinstance(item, al.Service):
        for part in parts_of(item):
            yield from _patterns(part)


def _triples(
    pattern: al.Triple | al.PathPattern, fresh: Iterator[Var]
) -> Iterator[tuple[Any, Any, Any, tuple[NamedNode, ...]]]:
    """Yields a pattern as triples with their excluded predicates. Inside a path, ends become variables."""
    if isinstance(pattern, al.Triple):
        yield pattern.subject, pattern.predicate, pattern.object, ()
        return

    def along(subject: Any, path: al.Path, object_: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
        match path:
            case NamedNode():
                yield subject, path, object_, ()
            case al.Inverse(inner):
                yield from along(object_, inner, subject)
            case al.Sequence(first, second):
                middle = next(fresh)
                yield from along(subject, first, middle)
                yield from along(middle, second, object_)
            case al.Alternative(first, second):
                yield from along(subject, first, object_)
                yield from along(subject, second, object_)
            case al.ZeroOrOne(inner):
                yield from along(subject, inner, object_)
            case al.ZeroOrMore(inner) | al.OneOrMore(inner):
                yield from along(next(fresh), inner, next(fresh))
            case al.NegatedSet(forward, inverse):
                if forward or not inverse:
                    yield subject, next(fresh), object_, forward
                if inverse:
                    yield object_, next(fresh), subject, inverse

    yield from along(pattern.subject, pattern.path, pattern.object)
