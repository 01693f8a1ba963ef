"""A plan, and the code that is made of it, is as large as its query: nothing is copied, whatever the nesting.

The size of a query is the number of words in its text, that of a plan the number of its operators, those
that are shared counted once.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from sparqlive.plan.operators import LeftJoin, Operator, kept_of
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.plan.translate import translate
from sparqlive.sparql.syntax import parse_query
from tests.random_queries import PROLOGUE, RandomQuery, queries

pytestmark = pytest.mark.slow

P = "PREFIX : <http://x/> "


def kept_plan(text: str) -> Operator:
    return store_unreachable(rewrite(kept_of(translate(parse_query(text, None), union_default=False))))


def size(plan: Operator) -> int:
    return sum(1 for _ in operators_of(plan))


def words(text: str) -> int:
    return len(text.replace("{", " { ").replace("(", " ( ").split())


def bound(text: str) -> int:
    """A filter is handed to each part of a UNION, and a variable to each leaf of EXISTS: thus the square."""
    return 30 + 10 * words(text) + words(text) ** 2 // 4


@given(queries(depth=3))
def test_random_queries(query: RandomQuery) -> None:
    assert size(kept_plan(query.text)) <= bound(query.text.removeprefix(PROLOGUE))


def nested(chance: random.Random, depth: int, width: int) -> str:
    """A group of all constructs inside each other."""
    names = [f"?v{n}" for n in range(4)]

    def pattern() -> str:
        return f"{chance.choice(names)} :{chance.choice('pq')} {chance.choice(names)} . "

    text = pattern()
    for _ in range(width):
        if not depth:
            return text
        inner = nested(chance, depth - 1, width)
        test = f"{chance.choice(names)} != {chance.choice(names)}"
        text += chance.choice(
            (
                f"OPTIONAL {{ {inner} }} ",
                f"OPTIONAL {{ {inner} FILTER({test} && NOT EXISTS {{ {pattern()} FILTER({test}) }}) }} ",
                f"OPTIONAL {{ {pattern()} FILTER NOT EXISTS {{ {inner} }} }} ",
                f"FILTER EXISTS {{ {inner} FILTER({test}) }} ",
                f"FILTER NOT EXISTS {{ {inner} FILTER({test}) }} ",
                f"FILTER({test} || EXISTS {{ {inner} }}) ",
                f"{{ {inner} }} UNION {{ {pattern()} FILTER({test}) }} ",
                f"MINUS {{ {inner} }} ",
                f"{{ SELECT ?v0 (COUNT(?v1) AS ?n{chance.randrange(10**6)}) {{ {inner} }} GROUP BY ?v0 }} ",
                f"GRAPH ?v3 {{ {inner} }} ",
                pattern(),
            )
        )
    return text


@pytest.mark.parametrize(("depth", "width"), [(6, 1), (3, 2), (1, 12), (2, 3)])
def test_nested_queries(depth: int, width: int) -> None:
    for seed in range(8):
        text = f"{P}SELECT * {{ {nested(random.Random(seed), depth, width)} }}"
        assert size(kept_plan(text)) <= bound(text), text


def latest(count: int, test: str = "?n{i} > ?y{i}") -> str:
    """The latest value of each property."""
    optional = "OPTIONAL {{ ?s :q{i} ?y{i} FILTER NOT EXISTS {{ ?s :q{i} ?n{i} FILTER(" + test + ") }} }} "
    return f"{P}SELECT * {{ ?s :p ?o {' '.join(optional.format(i=i) for i in range(count))} }}"


def within(depth: int, template: str) -> str:
    text = "?a :p ?b "
    for number in range(depth):
        text = template.format(n=number, inner=text)
    return f"{P}SELECT * {{ ?s :p ?o . ?a :p ?o {text} }}"


DEEP = {
    "latest of each": latest,
    "latest of each, by a condition on both sides": lambda n: latest(n, "?n{i} > ?y{i} && ?n{i} != ?o"),
    "exists that reads": lambda n: within(n, "FILTER EXISTS {{ ?x{n} :p ?y FILTER(?o != ?y) {inner} }}"),
    "in optionals": lambda n: within(
        n, "OPTIONAL {{ ?x{n} :p ?y{n} FILTER(EXISTS {{ ?x{n} :q ?o }} || ?o = 1) {inner} }}"
    ),
    "exists of two leaves": lambda n: within(
        n, "FILTER NOT EXISTS {{ ?x{n} :p ?y {{ ?y :q ?z }} UNION {{ ?s :q ?w }} FILTER(?o != ?y) {inner} }}"
    ),
    "alternatives in sequence": lambda n: f"{P}SELECT * {{ ?s {'/'.join(['(:p|^:q)'] * n)} ?o }}",
    "optionals joined": lambda n: P
    + "SELECT * { "
    + " ".join(f"{{ ?s :p ?o OPTIONAL {{ ?s :q ?v{i} }} OPTIONAL {{ ?s :q ?v{i + 1} }} }}" for i in range(n))
    + " }",
    "undefined values": lambda n: P
    + "SELECT * { "
    + " ".join(f"VALUES (?v{i} ?v{i + 1} ?v{i + 2}) {{ (1 UNDEF 2) (UNDEF 2 3) }}" for i in range(n))
    + " }",
    "filters over unions": lambda n: P
    + "SELECT * { "
    + " UNION ".join(f"{{ ?s :p{i} ?o }}" for i in range(n))
    + " ".join(f"FILTER(?o != {i})" for i in range(n))
    + " }",
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_plans_and_code_grow_with_the_query(name: str) -> None:
    """Four times as deep: a square is sixteen times as much, an exponential thousands."""
    few, many = DEEP[name](3), DEEP[name](12)
    assert size(kept_plan(many)) <= 20 * size(kept_plan(few))
    assert _lines(many) <= 25 * _lines(few)


def growth_of_calls(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[int], None]
) -> float:
    """How many times as often a function is called for twice as many parts: a square is four times."""
    called = 0
    function = getattr(owner, name)

    def counted(argument: Any) -> Any:
        nonlocal called
        called += 1
        return function(argument)

    monkeypatch.setattr(owner, name, counted)
    work(10)
    few, called = called, 0
    work(20)
    return called / few


JOINED = {
    "graphs": "GRAPH ?g{i} {{ ?s :p ?o{i} }}",
    "groups": "{{ SELECT ?s (MAX(?o) AS ?m{i}) {{ ?s :p{i} ?o }} GROUP BY ?s }}",
    "queries": "{{ SELECT ?s ?o{i} {{ ?s :p{i} ?o{i} . ?o{i} :q ?x }} }}",
}


@pytest.mark.parametrize("name", JOINED)
def test_what_is_joined_is_not_lifted_again_and_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = importlib.import_module("sparqlive.plan.rewrites.flatten_joins")

    def work(count: int) -> None:
        kept_plan(f"{P}SELECT * {{ {' '.join(JOINED[name].format(i=i) for i in range(count))} }}")

    assert growth_of_calls(monkeypatch, rule, "_flatten", work) < 4


def test_a_plan_is_not_hashed_at_each_of_its_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of an operator is that of the whole plan below it."""

    def work(count: int) -> None:
        optionals = " ".join(f"OPTIONAL {{ ?s :q{i} ?y{i} }}" for i in range(count))
        with sparqlive.open() as session:
            session.view("v", f"{P}SELECT * {{ ?s :p ?o {optionals} }}")

    assert growth_of_calls(monkeypatch, LeftJoin, "__hash__", work) < 2.5


def _lines(query: str) -> int:
    with sparqlive.open() as session:
        return sum(source.count("\n") for source in session.view("v", query)._state.content.sources)


def test_views_over_views_are_read_once() -> None:
    lines = []
    with sparqlive.open() as session:
        session.view("v0", P + "CONSTRUCT { ?s :link ?o } { ?s :p ?o }")
        for number in range(1, 9):
            graph = f"GRAPH <view:v{number - 1}> {{ ?s :link ?x . ?x :link ?y . ?y :link ?o }}"
            view = session.view(f"v{number}", f"{P}CONSTRUCT {{ ?s :link ?o }} {{ {graph} }}")
            lines.append(sum(source.count("\n") for source in view._state.content.sources))
        node = [NamedNode(f"http://x/n{i}") for i in range(3)]
        link = NamedNode("http://x/p")
        session.apply(insert=[Quad(node[i], link, node[(i + 1) % 3]) for i in range(3)])
        session.check()
        assert len(view) == 3
        session.apply(delete=[Quad(node[0], link, node[1])], insert=[Quad(node[0], link, node[0])])
        session.check()
    assert lines[-1] - lines[-2] == lines[-2] - lines[-3]


@pytest.mark.parametrize("test", ["?n{i} > ?y{i}", "?n{i} > ?y{i} && ?n{i} != ?o", "?n{i} != ?o"])
def test_what_is_shared_is_kept_right(test: str) -> None:
    chance = random.Random(5)
    node = [NamedNode(f"http://x/n{i}") for i in range(4)]
    with sparqlive.open() as session:
        query = latest(3, test)
        view = session.view("v", query)
        for _ in range(30):
            quads = [
                Quad(chance.choice(node), NamedNode(f"http://x/{p}"), Literal(chance.randrange(3)))
                for p in chance.choices(("p", "q0", "q1", "q2"), k=4)
            ]
            session.apply(insert=quads[:3], delete=quads[3:])
            session.check()
        assert view.weights() == session.query(query).weights()
        assert "shared" in view.explain() or test == "?n{i} > ?y{i}"
