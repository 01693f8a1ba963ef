"""Views that share their work: families of one shape, equal plans, products kept apart."""

from __future__ import annotations

import random

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.engine.carry import Strategy
from sparqlive.live.compiled_plan import key_of
from sparqlive.live.plan_registry import Product
from sparqlive.plan import operators as op
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.algebra import Var
from tests.oracle import Oracle

EX = "http://example.org/"
PREFIX = f"PREFIX : <{EX}> "

SHAPES = {
    "member": "SELECT ?x ?y {{ ?x :member :n{0} . ?x :name ?y }}",
    "bag": "SELECT ?y {{ ?x :member :n{0} . ?x :name ?y }}",
    "lone": "SELECT ?x {{ ?x :member :n{0} }}",
    "subject": "SELECT ?x ?y {{ :n{0} :member ?x . ?x :name ?y }}",
    "two": "SELECT ?x {{ ?x :member :n{0} . ?x :name :n{1} }}",
    "filter": "SELECT ?x ?y {{ ?x :age ?y FILTER(?y > {0}) }}",
    "both": "SELECT ?x {{ ?x :member :n{1} . ?x :age ?y FILTER(?y > {0} && ?y < 9) }}",
    "expression": "SELECT ?x (?y + 1 AS ?z) {{ ?x :member :n{0} . ?x :age ?y }}",
}


def quad(rng: random.Random) -> ox.Quad:
    subject = ox.NamedNode(f"{EX}n{rng.randrange(6)}")
    predicate = rng.choice(("member", "name", "age"))
    value = ox.Literal(rng.randrange(12)) if predicate == "age" else ox.NamedNode(f"{EX}n{rng.randrange(6)}")
    return ox.Quad(subject, ox.NamedNode(EX + predicate), value)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_family_keeps_each_member(shape: str) -> None:
    rng = random.Random(shape)
    queries = {f"v{a}-{b}": PREFIX + SHAPES[shape].format(a, b) for a in range(6) for b in range(2)}
    with sparqlive.open() as session:
        data: set[ox.Quad] = {quad(rng) for _ in range(30)}
        session.load(data)
        names = list(queries)
        for step in range(60):
            if step < len(names):
                session.view(names[step], queries[names[step]])
            elif step % 7 == 0:
                name = rng.choice(names)
                session.drop(name)
                session.view(name, queries[name])
            gone, come = set(rng.sample(sorted(data, key=str), 3)), {quad(rng) for _ in range(3)}
            data = (data - gone) | come
            epoch = session.apply(insert=come, delete=gone)
            session.check()
            for name, view in session.views.items():
                assert view.weights() == Oracle(data).weights(queries[name], view.variables), (name, epoch)


@pytest.mark.parametrize("strategy", ["live", "duckdb"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_large_batch_reaches_each_member_of_a_family(shape: str, strategy: Strategy) -> None:
    """A batch that is carried as columns has rows of several members."""
    queries = {f"v{a}": PREFIX + SHAPES[shape].format(a, a % 2) for a in range(DEFAULT.family_views + 2)}
    people = [ox.NamedNode(f"{EX}n{number}") for number in range(DEFAULT.column_rows)]
    data = []
    for number, person in enumerate(people):
        group, name = (ox.NamedNode(f"{EX}n{number // n % len(queries)}") for n in (1, len(queries)))
        data += [
            ox.Quad(person, ox.NamedNode(EX + "member"), group),
            ox.Quad(person, ox.NamedNode(EX + "name"), name),
            ox.Quad(person, ox.NamedNode(EX + "age"), ox.Literal(number % 12)),
        ]
    with sparqlive.open() as session:
        for name, query in queries.items():
            session.view(name, query)
        for kept, change in ((data, {"insert": data}), (data[::3], {"delete": data[1::3] + data[2::3]})):
            session.apply(**change, strategy=strategy)
            session.check()
            for name, view in session.views.items():
                assert view.weights() == Oracle(kept).weights(queries[name], view.variables), name


def test_views_of_one_shape_are_carried_by_one_plan() -> None:
    with sparqlive.open() as session:
        views = [
            session.view(f"v{i}", PREFIX + SHAPES["member"].format(i))
            for i in range(DEFAULT.family_views + 5)
        ]
        assert len({id(view._state.content.compiled) for view in views}) == 1
        session.apply(insert=f"<{EX}a> <{EX}member> <{EX}n3> .\n<{EX}a> <{EX}name> <{EX}b> .")
        assert [view.name for view in views if view.weights()] == ["v3"]
        for view in views[:-1]:
            session.drop(view.name)
        epoch = session.apply(insert=f"<{EX}a> <{EX}member> <{EX}n{DEFAULT.family_views + 4}> .")
        assert list(epoch.deltas.changed()) == [views[-1].name]


def test_equal_queries_are_one_content() -> None:
    with sparqlive.open() as session:
        one = session.view("one", PREFIX + "SELECT ?x { ?x :p ?y }")
        two = session.view("two", PREFIX + "SELECT  ?x  WHERE { ?x :p ?y . }")
        assert one._state.content is two._state.content
        epoch = session.apply(insert=f"<{EX}a> <{EX}p> <{EX}b> .")
        assert epoch.deltas["one"].weights() == epoch.deltas["two"].weights() != {}
        session.drop("one")
        session.apply(delete=f"<{EX}a> <{EX}p> <{EX}b> .")
        assert two.weights() == {}


def test_a_product_is_never_stored() -> None:
    query = PREFIX + "SELECT ?x ?y { ?x :p ?a . ?y :q ?b . :on :is :on }"
    quads = [
        ox.Quad(ox.NamedNode(f"{EX}{k}{i}"), ox.NamedNode(EX + k), ox.Literal(i))
        for k in "pq"
        for i in range(50)
    ]
    with sparqlive.open() as session:
        view = session.view("v", query)
        session.load(quads)
        assert len(view) == 0
        epoch = session.apply(insert=f"<{EX}on> <{EX}is> <{EX}on> .")
        assert len(epoch.deltas["v"]) == 2500 == len(view)
        assert isinstance(view._state.content, Product)
        assert sum(rows for rows, _ in view._state.content.sizes().values()) == 101
        session.check()
        epoch = session.apply(delete=quads[:1])
        assert len(epoch.deltas["v"]) == 50
        session.check()


def test_plans_have_names_that_no_text_can_imitate() -> None:
    """Terms are written unmistakably: a literal that looks like two is another plan."""
    variable = (Var("x"),)
    two = op.Table(variable, ((ox.Literal("a"),), (ox.Literal("b"),)))
    names = {key_of(two)}
    for separator in ('"),(Literal("', '",),("', '"),("', "),(", '", "'):
        names.add(key_of(op.Table(variable, ((ox.Literal(f"a{separator}b"),),))))
    assert len(names) == 6
