"""Describes resources for a one-off query, by following their blank nodes: see `plan/description.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from sparqlive.rdf.dictionary import Dictionary
from sparqlive.runtime.deadline import gathers
from sparqlive.zset.relation import Row


def described(
    resources: Iterable[tuple[Row, int]],
    triples_of: Callable[[int], Iterable[tuple[int, int]]],
    dictionary: Dictionary,
    check: Callable[[], None],
) -> Iterator[tuple[Row, int]]:
    """Yields the triples of the resources, and of the blank nodes that they lead to, each once.

    `triples_of` lists the predicates and objects of a subject. `check` is called once per subject.
    """
    seen: set[int] = set()
    gathers(seen)
    for (resource,), _ in resources:
        border = [] if resource in seen else [resource]
        seen.add(resource)
        while border:
            check()
            subject = border.pop()
            triples = iter(triples_of(subject))
            while some := list(islice(triples, dictionary.tuning.block_rows)):
                yield from (((subject, *pair), 1) for pair in some)
                found = list({object_ for _, object_ in some} - seen)
                nodes = zip(found, dictionary.texts(found), strict=True)
                border += [node for node, text in nodes if text[0] == "_"]
                seen.update(border)
