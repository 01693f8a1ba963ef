"""Queries of many parts: more loops than Python nests, and more than can be compiled at all."""

from __future__ import annotations

import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.live.search import Search

pytestmark = pytest.mark.slow


def node(name: str) -> NamedNode:
    return NamedNode(f"http://x/{name}")


def chain(length: int, start: int = 0) -> str:
    return " . ".join(f"?v{i} <http://x/p{i}> ?v{i + 1}" for i in range(start, start + length))


def edges(length: int) -> list[Quad]:
    """Two ways at every tenth step."""
    quads = []
    for i in range(length):
        for way in ("a", "b") if i % 10 == 0 else ("a",):
            quads.append(Quad(node(f"n{i}"), node(f"p{i}"), node(f"n{i + 1}")))
            quads.append(Quad(node(f"n{i}{way}"), node(f"p{i}"), node(f"n{i + 1}{way}")))
    return quads


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * {{ {chain(45)} }}",
        f"SELECT ?v0 {{ {chain(45)} }}",
        f"SELECT (COUNT(*) AS ?n) {{ {chain(45)} }}",
        f"ASK {{ {chain(45)} }}",
        f"SELECT ?v0 {{ {chain(1)} FILTER EXISTS {{ {chain(40, 1)} }} }}",
        f"SELECT * {{ {chain(1)} OPTIONAL {{ {chain(40, 1)} }} }}",
        f"SELECT * {{ {chain(1)} MINUS {{ {chain(40, 1)} }} }}",
        "SELECT * { " + chain(1) + "".join(f" OPTIONAL {{ {chain(1, i)} }}" for i in range(1, 30)) + " }",
        "SELECT * { ?s ?p ?o " + " ".join(f"FILTER(?o != <http://x/n{i}>)" for i in range(9, 300)) + " }",
        "SELECT * { ?s ?p ?o FILTER(" + " || ".join(f"?o = <http://x/n{i}>" for i in range(9, 2000)) + ") }",
        "SELECT * { " + " UNION ".join(f"{{ ?s <http://x/p{i}> ?o }}" for i in range(200)) + " }",
        "SELECT * { ?s (" + "|".join(f"<http://x/p{i}>" for i in range(300)) + ")+ ?o }",
        "SELECT * { " + " . ".join(f"<http://x/n3> <http://x/p3> ?o{i}" for i in range(40)) + " }",
    ],
)
def test_more_parts_than_python_nests(query: str) -> None:
    quads = edges(45)
    with sparqlive.open() as session:
        view = session.view("v", query)
        session.load(quads[:60])
        session.apply(insert=quads[60:])
        session.check()
        full = view.weights()
        assert full == session.query(query).weights()
        for quad in (quads[0], quads[44], quads[-1]):
            session.apply(delete=[quad])
            session.check()
            session.apply(insert=[quad])
        session.check()
        assert view.weights() == full


@pytest.mark.parametrize("patterns", ["?s :p{i} ?o{i}", "?s :p{i} {i}", "?v{i} :p{i} ?v{j}"])
def test_some_hundred_patterns_work(patterns: str) -> None:
    """Evaluated once: a view writes as many functions as there are patterns."""
    body = " . ".join(patterns.format(i=i, j=i + 1) for i in range(400))
    subject = "?v0" if "?v" in patterns else "?s"
    with sparqlive.open() as session:
        query = f"PREFIX : <http://x/> SELECT {subject} {{ {body} }}"
        assert len(session.query(query)) == 0
        assert len(session.query(query.replace(subject, "*", 1))) == 0


def _lines(count: int) -> int:
    """How many lines of code a view of so many patterns is."""
    with sparqlive.open() as session:
        body = " . ".join(f"?s <http://x/p{i}> ?o{i}" for i in range(count))
        view = session.view("v", f"SELECT * {{ {body} }}")
        return sum(source.count("\n") for source in view.content.sources)


def test_code_grows_with_the_square_of_the_patterns() -> None:
    assert _lines(80) < 5 * _lines(40) < 25 * _lines(20)


def test_steps_grow_with_the_square_of_the_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at while loops are written: each part of a join a few times for each of the others."""
    rated = 0
    rate = Search._rate

    def counted(self: Search, number: int) -> None:
        nonlocal rated
        rated += 1
        rate(self, number)

    monkeypatch.setattr(Search, "_rate", counted)
    for count in (20, 40):
        rated = 0
        _lines(count)
        assert rated < 4 * count * count


def test_too_many_patterns_are_refused_with_a_sentence() -> None:
    query = f"SELECT * {{ {chain(1500)} }}"
    with sparqlive.open() as session:
        kept = session.view("kept", "SELECT * { ?s <http://x/p0> ?o }")
        with pytest.raises(sparqlive.Unsupported, match="Split it"):
            session.view("v", query)
        with pytest.raises(sparqlive.Unsupported, match="Split it"):
            session.query(query)
        session.load(edges(2))
        assert len(kept) == 3
        assert list(session.views) == ["kept"]
        session.check()


def test_more_patterns_than_are_planned_are_refused_before_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(*_: object) -> None:
        raise AssertionError("nothing is planned")

    monkeypatch.setattr("sparqlive.engine.planning.translate", planned)
    patterns = " . ".join(f"?s <a:p{number}> ?o{number}" for number in range(1500))
    with sparqlive.open() as session, pytest.raises(sparqlive.Unsupported, match="more than 600 patterns"):
        session.view("star", f"SELECT * {{ {patterns} }}")
