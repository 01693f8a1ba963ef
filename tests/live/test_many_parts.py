"""Queries of many parts: more loops than Python nests, and more than can be compiled at all."""

from __future__ import annotations

import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.live.search import Search
from tests.tuned import tune

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
    ids=lambda query: query[:40],  # whole ones take pages of a report
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


FORMS = [
    "?s :p{i} ?o{i} .",
    "?v{i} :p{i} ?v{j} .",
    "OPTIONAL {{ ?s :p{i} ?o{i} }}",
    "FILTER NOT EXISTS {{ ?s :p{i} ?o }}",
]


def _lines(form: str, count: int) -> int:
    """How many lines of code a view of so many parts is when it is registered."""
    with sparqlive.open() as session:
        body = " ".join(form.format(i=i, j=i + 1) for i in range(count))
        view = session.view("v", f"PREFIX : <http://x/> SELECT * {{ ?s :p ?v0 . {body} }}")
        return sum(source.count("\n") for source in view._state.content.sources)


@pytest.mark.parametrize("form", FORMS)
def test_code_written_at_registration_grows_with_the_parts(form: str) -> None:
    assert _lines(form, 160) < 2.5 * _lines(form, 80)


LATE = [
    "SELECT * { ?a :p ?b . ?b :q ?c . ?d :p ?c }",
    "SELECT * { ?a ?p ?b . ?b ?p ?c }",
    "SELECT * { GRAPH ?g { ?a :p ?b . ?c :q ?b } }",
    "SELECT * { GRAPH ?g { ?a ?p ?b } ?b ?p ?c }",
    "SELECT * FROM :g FROM :h { ?a :p ?b . ?c :q ?b }",
    "SELECT ?a (COUNT(*) AS ?n) { ?a :p ?b OPTIONAL { ?c :q ?b } } GROUP BY ?a",
    "SELECT * { ?a :p+ ?b . ?c :q ?b }",
    "SELECT * { ?a :p ?b FILTER NOT EXISTS { ?c :q ?b } }",
    "SELECT * { ?a :p ?b MINUS { ?b :q ?c } } ORDER BY ?b LIMIT 2",
]


@pytest.mark.parametrize("query", LATE)
@pytest.mark.parametrize("union", [False, True])
def test_what_is_written_while_changes_are_staged(
    query: str, union: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first change of each pattern writes its function, and creates the indexes that it reads."""
    tune(monkeypatch, written_characters=0)
    graphs = [None, node("g"), node("h")]
    quads = [
        Quad(node(f"n{i % 3}"), node("pq"[i % 2]), node(f"n{i % 4}"), *([graph] if graph else []))
        for i in range(12)
        for graph in graphs
    ]
    with sparqlive.open(default_graph="union" if union else "strict") as session:
        session.load(quads[:12])
        session.view("v", f"PREFIX : <http://x/> {query}")
        for quad in quads[12:]:
            session.apply(insert=[quad])
            session.check()
        for quad in quads[:18]:
            session.apply(delete=[quad])
            session.check()


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
        _lines(FORMS[0], count)
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
