"""Generates a listing as N-Triples: items of 40 classes, each with a name and a value; and pages of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.explore_data import Query

PREFIX = "http://example.org/"
PREFIXES = f"PREFIX : <{PREFIX}> "
CLASSES = 40
TRIPLES_PER_ITEM = 3
VIEWS = {"classes": "SELECT ?c (COUNT(*) AS ?n) { ?s :type ?c } GROUP BY ?c"}
_INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
_LINES_AT_ONCE = 50_000


def write(path: Path, triples: int) -> None:
    lines = _lines(triples // TRIPLES_PER_ITEM)
    with path.open("w", encoding="utf-8") as file:
        while some := list(islice(lines, _LINES_AT_ONCE)):
            file.write("".join(some))


def _lines(items: int) -> Iterator[str]:
    for number in range(items):
        item = f"<{PREFIX}item{number}>"
        yield f"{item} <{PREFIX}type> <{PREFIX}C{number % CLASSES}> .\n"
        yield f'{item} <{PREFIX}name> "name {number}" .\n'
        yield f'{item} <{PREFIX}value> "{number * 7919 % 1000}"^^{_INTEGER} .\n'


def pages(triples: int) -> list[Query]:
    """What a page of a site asks for, each with a LIMIT."""
    texts = {
        "a class": "SELECT ?s { ?s :type :C7 } LIMIT 100",
        "names in a class": "SELECT ?n ?s { ?s :type :C7 ; :name ?n } LIMIT 100",
        "a filter in a class": "SELECT ?s ?v { ?s :type :C7 ; :value ?v FILTER(?v > 500) } LIMIT 100",
        "a literal": f'SELECT ?s {{ ?s :name "name {triples // TRIPLES_PER_ITEM // 2}" }} LIMIT 100',
        "CONSTRUCT": "CONSTRUCT { ?s :name ?n } { ?s :type :C7 ; :name ?n } LIMIT 100",
    }
    return [Query(name, PREFIXES + text, "some") for name, text in texts.items()]


def new_terms(triples: int, count: int) -> Iterator[str]:
    """Queries about a subject and about a literal, in turns, of which no two have a term in common."""
    items = triples // TRIPLES_PER_ITEM
    for place in range(count // 2):
        number = (place * 7907 + 1) % items
        yield f"{PREFIXES} SELECT ?n {{ :item{number} :name ?n }}"
        yield f'{PREFIXES} SELECT ?s {{ ?s :name "name {(number + items // 2) % items}" }}'
