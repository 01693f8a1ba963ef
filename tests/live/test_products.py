"""Products of parts that share no variable: a change costs what it changes, not what is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.zset.relation import Relation
from tests.oracle import Oracle


def node(name: str) -> NamedNode:
    return NamedNode(f"http://x/{name}")


def quad(subject: str, predicate: str, object_: str = "o") -> Quad:
    return Quad(node(subject), node(predicate), node(object_))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?s :p ?o FILTER NOT EXISTS { ?x :q ?y } }",
        "SELECT * { ?s :p ?o FILTER EXISTS { ?x :r ?y } }",
        "SELECT * { ?s :p ?o OPTIONAL { ?x :q ?y } }",
        "SELECT * { ?s :p ?o . ?x :r ?y }",
        "SELECT * { ?s :p ?o . :n :r ?y FILTER NOT EXISTS { ?x :q ?y } }",
    ],
)
def test_a_change_does_not_read_the_part_that_changes(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    items = Relation.items

    def counted(self: Relation) -> Iterator[Any]:
        nonlocal read
        for item in items(self):
            read += 1
            yield item

    with sparqlive.open() as session:
        view = session.view("v", "PREFIX : <http://x/> " + query)
        session.apply(insert=[quad("n", "r"), *(quad(f"s{i}", "p") for i in range(1000))])
        assert len(view) == 1000
        monkeypatch.setattr(Relation, "items", counted)
        session.apply(insert=[quad("new", "p")])
        session.apply(delete=[quad("s5", "p")])
        session.apply(insert=[quad("n", "unread")])
        assert read < 20
        monkeypatch.undo()
        assert len(view) == 1000
        session.check()
        session.apply(insert=[quad("a", "q"), quad("b", "q"), quad("n", "r", "b")], delete=[quad("s6", "p")])
        session.check()
        session.apply(delete=[quad("a", "q"), quad("b", "q"), *(quad(f"s{i}", "p") for i in range(1000))])
        session.check()
        session.apply(delete=[quad("new", "p")], insert=[quad("c", "q")])
        session.check()
        session.apply(insert=[quad("new", "p")], delete=[quad("n", "r"), quad("n", "r", "b")])
        session.check()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?s :p ?o . ?x :q ?y . ?z :r :o }",
        "SELECT ?y ?none ?s { ?s :p ?o . ?x :q ?y . ?z :r :o }",
        "SELECT ?y { :s1 :p :o . ?x :q ?y }",
        "SELECT (1 AS ?one) { ?s :p ?o . ?x :q ?y }",
        "SELECT * { ?s :p ?o OPTIONAL { ?x :q ?y } OPTIONAL { ?z :r ?w } }",
    ],
)
def test_the_parts_of_a_product_may_have_any_sizes(query: str) -> None:
    """The largest part may be any of them, and changes while parts become empty."""
    text, data = "PREFIX : <http://x/> " + query, set()
    with sparqlive.open() as session:
        view = session.view("v", text)
        for sizes in ({"p": 3, "q": 1, "r": 1}, {"p": 1, "q": 4, "r": 2}, {"p": 2, "r": 5}, {"q": 2}, {}):
            wanted = {quad(f"s{i}", name, "o") for name, size in sizes.items() for i in range(size)}
            session.apply(insert=wanted - data, delete=data - wanted)
            data = wanted
            assert view.weights() == Oracle(data).weights(text, view.variables)
            session.check()
