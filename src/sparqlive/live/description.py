"""Describes resources for a query that is asked once, by following them: see `plan/description.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pyoxigraph import BlankNode

from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.deadline import gathers
from sparqlive.zset.relation import Row


def described(
    resources: Iterable[tuple[Row, int]],
    triples_of: Callable[[int], Iterable[tuple[int, int]]],
    dictionary: Dictionary,
    check: Callable[[], None],
) -> Iterator[tuple[Row, int]]:
    """Yields the triples of the resources, and of the blank nodes that they lead to, each once.

    `triples_of` lists the predicates and objects of a subject. `check` is called for each subject.
    """
    term = dictionary.reader()  # an answer reads it next, so nothing is decoded twice
    seen: set[int] = set()
    gathers(seen)
    for (resource,), _ in resources:
        border = [] if resource in seen else [resource]
        seen.add(resource)
        while border:
            check()
            subject = border.pop()
            for predicate, object_ in triples_of(subject):
                yield (subject, predicate, object_), 1
                if object_ not in seen and type(term(object_)) is BlankNode:
                    seen.add(object_)
                    border.append(object_)
