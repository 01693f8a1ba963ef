"""Generates data that is cut in many ways (graphs, predicates, one busy node), and the queries about it.

A shape writes N-Quads, and names what the benchmark asks about them: lookups, a join of two patterns to
register, changes that each give the join one row, and the graphs to replace and to drop. Queries list their
variables in the order of the alphabet, because pyoxigraph's solutions do not name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from pyoxigraph import NamedNode, Quad

PREFIX = "http://example.org/"
PREFIXES = f"PREFIX : <{PREFIX}> "
TRIPLES_PER_GRAPH = 20
CHANGES = 200
"""So many nodes are there for changes to connect."""
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
_SUBJECTS_PER_GRAPH = 4
_INSTANCES = 1_000
_FROM = 500
_LINES_AT_ONCE = 50_000


class Lookup(NamedTuple):
    """A query. `merged`: it reads several graphs as one, where pyoxigraph repeats a triple."""

    text: str
    merged: bool = False


@dataclass(frozen=True)
class Shape:
    key: str
    title: str
    lines: Callable[[int], Iterator[str]]
    lookups: Callable[[int], dict[str, Lookup]]
    join: str
    change: Callable[[int, int], Quad]
    """From the size and a number to a quad that adds a row to the join."""
    busy: bool = False
    """One busy node: the size is its number of triples, not a number of graphs or predicates."""
    default_graph: Literal["strict", "union"] = "strict"
    has_graphs: bool = False
    has_sources: bool = False

    def write(self, path: Path, size: int) -> int:
        """Writes N-Quads; returns their number."""
        lines, count = self.lines(size), 0
        with path.open("w", encoding="utf-8") as file:
            while some := list(islice(lines, _LINES_AT_ONCE)):
                file.write("".join(some))
                count += len(some)
        return count


def node(name: str) -> NamedNode:
    return NamedNode(PREFIX + name)


def graph(number: int) -> NamedNode:
    return node(f"g{number}")


def _n(name: str) -> str:
    return f"<{PREFIX}{name}>"


# Graphs with terms of their own; the same triples without graphs


def own_lines(number: int, graph: str) -> Iterator[str]:
    """The triples of one graph: four subjects in a ring, five predicates."""
    for place in range(_SUBJECTS_PER_GRAPH):
        subject = _n(f"s{number}-{place}")
        following = _n(f"s{number}-{(place + 1) % _SUBJECTS_PER_GRAPH}")
        value = number * _SUBJECTS_PER_GRAPH + place
        yield f"{subject} {_TYPE} {_n(f'Class{number}')} {graph}.\n"
        yield f"{subject} {_n('next')} {following} {graph}.\n"
        yield f'{subject} {_n("name")} "name {number} {place}" {graph}.\n'
        yield f'{subject} {_n("value")} "{value}"^^{_INTEGER} {graph}.\n'
        yield f"{subject} {_n('about')} {_n(f'o{number}-{place}')} {graph}.\n"


def _own_graphs(size: int) -> Iterator[str]:
    for number in range(size):
        yield from own_lines(number, f"{_n(f'g{number}')} ")


def _plain(size: int) -> Iterator[str]:
    for number in range(size):
        yield from own_lines(number, "")


def _own_change(size: int, number: int) -> Quad:
    """One more way into the ring of a graph."""
    place = number * 37 % size
    return Quad(node(f"new{number}"), node("next"), node(f"s{place}-0"), graph(place))


def _plain_change(size: int, number: int) -> Quad:
    return Quad(*_own_change(size, number).triple)


_OWN_JOIN = "SELECT ?a ?c { ?a :next ?b . ?b :next ?c }"


def _plain_lookups(size: int) -> dict[str, Lookup]:
    at = size // 2
    return {
        "triples of a subject": Lookup(f"SELECT ?o ?p {{ :s{at}-1 ?p ?o }}"),
        "triples of an object": Lookup(f"SELECT ?p ?s {{ ?s ?p :o{at}-1 }}"),
        "a class": Lookup(f"SELECT ?s {{ ?s a :Class{at} }}"),
        "a join from a subject": Lookup(f"SELECT ?a ?b {{ :s{at}-1 :next ?a . ?a :next ?b }}"),
        "DESCRIBE": Lookup(f"DESCRIBE :s{at}-1"),
    }


def _own_lookups(size: int) -> dict[str, Lookup]:
    at = size // 2
    plain = {name: Lookup(lookup.text, merged=True) for name, lookup in _plain_lookups(size).items()}
    return {
        "graphs of a subject": Lookup(f"SELECT ?g {{ GRAPH ?g {{ :s{at}-1 ?p ?o }} }}"),
        **plain,
        "classes in a graph": Lookup(f"SELECT ?c ?s {{ GRAPH :g{at} {{ ?s a ?c }} }}"),
        "FROM of 500 graphs": Lookup(_from(size, "SELECT ?o ?s", "{ ?s :next ?o }"), merged=True),
        "GRAPH ?g with a join": Lookup(
            f"SELECT ?a ?b ?g {{ GRAPH ?g {{ :s{at}-1 :next ?a . ?a :next ?b }} }}"
        ),
    }


def _from(size: int, head: str, pattern: str) -> str:
    graphs = range(0, size, max(1, size // _FROM))[:_FROM]
    return f"{head} {' '.join(f'FROM :g{number}' for number in graphs)} {pattern}"


# Graphs that share a class and its instances


def _shared_graphs(size: int) -> Iterator[str]:
    """Each instance is in the unnamed graph and in many others, which say the same and add a value."""
    for place in range(_INSTANCES):
        yield from _shared_lines(place, "")
    for number in range(size):
        graph = f"{_n(f'g{number}')} "
        for step in range(5):
            yield from _shared_lines((number * 7 + step) % _INSTANCES, graph)
            member = _n(f"x{(number * 7 + step + 300) % _INSTANCES}")
            yield f"{member} {_TYPE} {_n('Class')} {graph}.\n"
            yield f'{member} {_n("value")} "{number}"^^{_INTEGER} {graph}.\n'


def _shared_lines(place: int, graph: str) -> Iterator[str]:
    yield f"{_n(f'x{place}')} {_TYPE} {_n('Class')} {graph}.\n"
    yield f"{_n(f'x{place}')} {_n('next')} {_n(f'x{(place + 1) % _INSTANCES}')} {graph}.\n"


def _shared_change(size: int, number: int) -> Quad:
    """In the unnamed graph, which a strict default graph and a union both read."""
    return Quad(node(f"new{number}"), node("next"), node(f"x{number * 37 % _INSTANCES}"))


def _shared_lookups(size: int) -> dict[str, Lookup]:
    at = 7 * (size // 2) % _INSTANCES
    return {
        "graphs of a subject": Lookup(f"SELECT ?g {{ GRAPH ?g {{ :x{at} ?p ?o }} }}"),
        "triples of a subject": Lookup(f"SELECT ?o ?p {{ :x{at} ?p ?o }}", merged=True),
        "triples of an object": Lookup(f"SELECT ?p ?s {{ ?s ?p :x{at} }}", merged=True),
        "the class": Lookup("SELECT ?s { ?s a :Class }", merged=True),
        "classes in a graph": Lookup(f"SELECT ?c ?s {{ GRAPH :g{size // 2} {{ ?s a ?c }} }}"),
        "FROM of 500 graphs": Lookup(_from(size, "SELECT ?s", "{ ?s a :Class }"), merged=True),
        "GRAPH ?g with a join": Lookup(f"SELECT ?a ?b ?g {{ GRAPH ?g {{ :x{at} :next ?a . ?a :next ?b }} }}"),
        "GRAPH <g> with a join": Lookup(
            f"SELECT ?a ?b ?s {{ GRAPH :g{size // 2} {{ ?s :next ?a . ?a :next ?b }} }}"
        ),
        "DESCRIBE": Lookup(f"DESCRIBE :x{at}", merged=True),
    }


# Predicates


def _predicates(size: int) -> Iterator[str]:
    """A subject has five predicates; what a predicate leads to has the next one."""
    subjects = size * TRIPLES_PER_GRAPH // 5
    for number in range(size):
        predicate = _n(f"p{number}")
        for step in range(TRIPLES_PER_GRAPH):
            place = (number * TRIPLES_PER_GRAPH + step) % subjects
            yield f"{_n(f's{place}')} {predicate} {_n(f's{(place + TRIPLES_PER_GRAPH) % subjects}')} .\n"


def _predicate_change(size: int, number: int) -> Quad:
    place = (4 * TRIPLES_PER_GRAPH + number % TRIPLES_PER_GRAPH) % (size * TRIPLES_PER_GRAPH // 5)
    return Quad(node(f"new{number}"), node("p3"), node(f"s{place}"))


def _predicate_lookups(size: int) -> dict[str, Lookup]:
    at = size * 2 + 1
    return {
        "triples of a subject": Lookup(f"SELECT ?o ?p {{ :s{at} ?p ?o }}"),
        "triples of an object": Lookup(f"SELECT ?p ?s {{ ?s ?p :s{at} }}"),
        "a predicate": Lookup(f"SELECT ?o ?s {{ ?s :p{size // 2} ?o }}"),
        "a predicate of a subject": Lookup(f"SELECT ?o {{ :s{at} :p{at // TRIPLES_PER_GRAPH} ?o }}"),
        "any two steps from a subject": Lookup(f"SELECT ?a ?b ?p ?q {{ :s{at} ?p ?a . ?a ?q ?b }}"),
        "DESCRIBE": Lookup(f"DESCRIBE :s{at}"),
    }


# One busy node


def _busy_subject(size: int) -> Iterator[str]:
    for number in range(size):
        yield f"{_n('hub')} {_n('has')} {_n(f'o{number}')} .\n"
    yield from _kinds(size)


def _busy_object(size: int) -> Iterator[str]:
    for number in range(size):
        yield f"{_n(f'o{number}')} {_n('in')} {_n('hub')} .\n"
    yield from _kinds(size)


def _kinds(size: int) -> Iterator[str]:
    """Of every fifth neighbour, and of nodes that changes connect."""
    for number in range(0, size, 5):
        yield f"{_n(f'o{number}')} {_n('kind')} {_n(f'kind{number % 1000}')} .\n"
    for number in range(CHANGES):
        yield f"{_n(f'later{number}')} {_n('kind')} {_n(f'kind{number}')} .\n"


def _busy_subject_change(size: int, number: int) -> Quad:
    return Quad(node("hub"), node("has"), node(f"later{number % CHANGES}"))


def _busy_object_change(size: int, number: int) -> Quad:
    return Quad(node(f"later{number % CHANGES}"), node("in"), node("hub"))


def _busy_lookups(size: int, has: str) -> dict[str, Lookup]:
    """`has` is the pattern from the hub to ?o."""
    near = f"o{size // 2 // 5 * 5}"
    ends = "SELECT ?o ?p { :hub ?p ?o }" if has.startswith(":hub") else "SELECT ?p ?s { ?s ?p :hub }"
    return {
        "all triples of the busy node": Lookup(ends),
        "one of them": Lookup(f"ASK {{ {has.replace('?o', f':{near}')} }}"),
        "a kind among them": Lookup(f"SELECT ?o {{ {has} . ?o :kind :kind50 }}"),
        "triples of a neighbour": Lookup(f"SELECT ?o ?p {{ :{near} ?p ?o }}"),
        "triples with a neighbour as object": Lookup(f"SELECT ?p ?s {{ ?s ?p :{near} }}"),
        "DESCRIBE of a neighbour": Lookup(f"DESCRIBE :{near}"),
        "DESCRIBE of the busy node": Lookup("DESCRIBE :hub"),
    }


SHAPES = (
    Shape("plain", "one graph, five predicates", _plain, _plain_lookups, _OWN_JOIN, _plain_change),
    Shape(
        "own",
        "graphs with terms of their own",
        _own_graphs,
        _own_lookups,
        _OWN_JOIN,
        _own_change,
        default_graph="union",
        has_graphs=True,
    ),
    Shape(
        "shared",
        "graphs that share a class and its instances",
        _shared_graphs,
        _shared_lookups,
        _OWN_JOIN,
        _shared_change,
        default_graph="union",
        has_graphs=True,
    ),
    Shape(
        "strict",
        "the same beside a strict default graph",
        _shared_graphs,
        _shared_lookups,
        _OWN_JOIN,
        _shared_change,
        has_graphs=True,
    ),
    Shape(
        "sources",
        "sources, each with a graph of its own",
        _own_graphs,
        _own_lookups,
        _OWN_JOIN,
        _own_change,
        default_graph="union",
        has_graphs=True,
        has_sources=True,
    ),
    Shape(
        "predicates",
        "predicates",
        _predicates,
        _predicate_lookups,
        "SELECT ?a ?c { ?a :p3 ?b . ?b :p4 ?c }",
        _predicate_change,
    ),
    Shape(
        "subject",
        "a subject with many objects",
        _busy_subject,
        lambda size: _busy_lookups(size, ":hub :has ?o"),
        "SELECT ?a ?c { ?a :has ?b . ?b :kind ?c }",
        _busy_subject_change,
        busy=True,
    ),
    Shape(
        "object",
        "an object with many subjects",
        _busy_object,
        lambda size: _busy_lookups(size, "?o :in :hub"),
        "SELECT ?a ?c { ?b :in ?a . ?b :kind ?c }",
        _busy_object_change,
        busy=True,
    ),
)
BY_KEY = {shape.key: shape for shape in SHAPES}
