"""The reference by hand, and against pyoxigraph; `tests/test_w3c.py` and the fixtures compare with it too."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import given

import sparqlive
from sparqlive.plan import translate
from sparqlive.sparql.reference import Reference
from sparqlive.sparql.syntax import parse_query
from tests.conftest import examples
from tests.oracle import assert_same
from tests.random_queries import PROLOGUE, RandomQuery, graphs, queries

EX = "http://example.org/"


def quads_of(turtle: str, graph: str | None = None) -> list[ox.Quad]:
    name = ox.DefaultGraph() if graph is None else ox.NamedNode(EX + graph)
    text = f"@prefix : <{EX}> . {turtle}"
    return [
        ox.Quad(quad.subject, quad.predicate, quad.object, name)
        for quad in ox.parse(text, format=ox.RdfFormat.TURTLE)
    ]


def names(data: list[ox.Quad], query: str) -> list[str]:
    """The local names of the first column, in order."""
    rows = Reference(data).weights(parse_query(PROLOGUE + query))
    return sorted(str(row[0]).removeprefix(f"<{EX}").removesuffix(">") for row in rows)


@pytest.mark.laws
@examples(50)
@given(queries(), graphs)
def test_random_queries_as_pyoxigraph_answers_them(query: RandomQuery, data: list[ox.Quad]) -> None:
    parsed = parse_query(query.text)
    if parsed.form == "CONSTRUCT" and "_:" in query.head:
        return  # its blank nodes are ours
    assert_same(Reference(data).weights(parsed), query.expected(set(data)), query.text)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{ ?c :r ?b } UNION { ?c :r :x FILTER(?b = :a) }", ["a"]),
        ("?b :p ?y MINUS { ?b :q ?z }", ["a", "b"]),
        ("?b :p ?y MINUS { ?y :q ?z }", ["b"]),
        ("BIND(:a AS ?b)", ["a"]),
        ("BIND(1/0 AS ?b)", ["a", "b"]),
        ("VALUES (?b ?y) { (:a 1) (UNDEF 2) } FILTER(?y = 1)", ["a"]),
        ("{ SELECT ?y { ?y :q ?b } }", ["a", "b"]),
        ("{ SELECT ?b { ?b :q ?y } }", ["a"]),
        ("{ SELECT (COUNT(*) AS ?n) { ?b :q ?y } } FILTER(?n = 0)", []),
        ("{ SELECT ?b (COUNT(*) AS ?n) { ?b :q ?y } GROUP BY ?b } FILTER(?n = 1)", ["a"]),
        ("FILTER(BOUND(?b))", ["a", "b"]),
        ("?y :none* ?b FILTER(?y = :b)", ["b"]),
        ("?d :none* ?y FILTER(ISLITERAL(?y))", ["b"]),
        ("GRAPH ?b { ?s ?p ?o FILTER(?o = ?b) }", ["b"]),
        ("OPTIONAL { ?b :q ?y } FILTER(!BOUND(?y))", ["b"]),
        ("?b :p ?y FILTER NOT EXISTS { ?y :q ?z FILTER(?b = :a) }", ["b"]),
    ],
)
def test_exists_is_substitution(body: str, expected: list[str]) -> None:
    data = [*quads_of(":a :p :y ; :q :z . :b :p 7 . :y :q :z . :c :r :x ."), *quads_of(":s :t :b .", "b")]
    outer = "SELECT ?b { ?b :p ?d FILTER(?b != :c)"
    assert names(data, f"{outer} FILTER EXISTS {{ {body} }} }}") == expected
    rest = [name for name in ("a", "b") if name not in expected]
    assert names(data, f"{outer} FILTER NOT EXISTS {{ {body} }} }}") == rest
    marked = f"SELECT ?b {{ ?b :p ?d BIND(EXISTS {{ {body} }} AS ?e) FILTER(?e) }}"
    assert names(data, marked) == expected


def test_solutions_in_order() -> None:
    data = quads_of(":a :p 2 . :b :p 1 . :c :p 1.0 .")
    query = parse_query(f"{PROLOGUE}SELECT ?s {{ ?s :p ?v }} ORDER BY ?v DESC(?s)")
    assert [row[0] for row in Reference(data).listed(query)] == [ox.NamedNode(EX + n) for n in "cba"]


def test_describe_leads_through_blank_nodes() -> None:
    data = quads_of(":a :p [ :q [ :r 1 ] ] . :b :p :a . :c :p 1 .")
    found = Reference(data).triples(parse_query(f"{PROLOGUE}DESCRIBE :a"))
    assert sorted(str(row[1]) for row in found) == [f"<{EX}{name}>" for name in "pqr"]


def test_check_does_not_share_the_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A translation that takes every EXISTS for a join is found out."""
    monkeypatch.setattr(translate, "is_join", lambda *_: True)
    with sparqlive.open() as session:
        session.load(quads_of(":n3 :p :d . :n2 :r :n1 ."))
        body = "{ ?c :r ?b } UNION { ?c :r :n1 FILTER(?b != ?c) }"
        session.view("view", f"{PROLOGUE}SELECT ?b {{ ?b :p ?d FILTER NOT EXISTS {{ {body} }} }}")
        with pytest.raises(sparqlive.CheckFailed, match="instead of 0"):
            session.check()


STEPS = 40
COMPLETE = [
    ox.Quad(ox.NamedNode(f"{EX}n{start}"), ox.NamedNode(f"{EX}{p}"), ox.NamedNode(f"{EX}n{end}"))
    for start in range(4)
    for end in range(4)
    for p in "pq"
]
"""Four nodes, with `:p` and `:q` from each to each: a path of n steps has 4 ** (n + 1) solutions."""


def chain(form: str) -> str:
    """A step of a pattern, as often as a path has steps."""
    return " ".join(form.replace("#1", f"?x{n + 1}").replace("#", f"?x{n}") for n in range(STEPS))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT * {{ ?a {'/'.join([':p'] * STEPS)} ?b }}", 4 ** (STEPS - 1)),
        (f"SELECT * {{ ?a {'/'.join(['(:p|:q)'] * STEPS)} ?b }}", 2**STEPS * 4 ** (STEPS - 1)),
        (f"SELECT * {{ ?a {'/'.join(['(:p|^:q)'] * STEPS)} ?b }}", 2**STEPS * 4 ** (STEPS - 1)),
        (f"SELECT * {{ ?a {'/'.join([':p?'] * STEPS)} ?b }}", 4 ** (STEPS - 1)),
        (f"SELECT * {{ ?a {'/'.join(['!:q'] * STEPS)} ?b }}", 4 ** (STEPS - 1)),
        (f"SELECT ?x0 {{ {chain('# :p #1 .')} }}", 4**STEPS),
        (f"SELECT ?x0 {{ {chain('?x0 :p #1 .')} }}", 4**STEPS),
        (f"SELECT ?x0 {{ {chain('# :p ?y#1 .').replace('?y?', '?y')} }}", 4 ** (2 * STEPS - 1)),
        (f"SELECT ?x0 {{ {chain('{ # :p #1 }')} }}", 4**STEPS),
        (f"SELECT ?x0 {{ {chain('{ # :p #1 } UNION { # :q #1 }')} }}", 8**STEPS),
        (f"SELECT ?x0 {{ ?x0 :q ?y {chain('OPTIONAL { # :p #1 }')} }}", 4 * 4**STEPS),
        (f"SELECT ?x0 {{ {chain('# :p #1 .')} FILTER(?x0 != ?x1) }}", 3 * 4 ** (STEPS - 1)),
        (f"SELECT ?x0 ?z {{ {chain('# :p #1 .')} BIND(1 AS ?z) }}", 4**STEPS),
        (f"SELECT ?x0 {{ ?x0 :p ?y MINUS {{ {chain('# :none #1 .')} }} }}", 4),
        (f"SELECT ?x0 {{ ?x0 :p ?y FILTER EXISTS {{ {chain('# :p #1 .')} }} }}", 4),
        (f"SELECT ?x0 {{ {{ SELECT ?x0 {{ {chain('# :p #1 .')} }} ORDER BY ?x1 }} }}", 4**STEPS),
        (f"SELECT DISTINCT ?x0 {{ {chain('# :p #1 .')} }}", 1),
        (f"CONSTRUCT {{ ?x0 :r ?x1 }} {{ {chain('# :p #1 .')} }}", 1),
    ],
)
def test_solutions_are_counted_and_not_multiplied_out(query: str, expected: int) -> None:
    """All of them have more solutions than a machine can list."""
    weights = Reference(COMPLETE).weights(parse_query(PROLOGUE + query))
    assert len(weights) in (4, 16)
    assert set(weights.values()) == {expected}


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("COUNT(*)", 4**STEPS),
        ("COUNT(?x1)", 4**STEPS),
        ("COUNT(DISTINCT ?x1)", 4),
        ("SUM(2)", 2 * 4**STEPS),
        ("AVG(2)", 2),
        ("MIN(3)", 3),
        ("GROUP_CONCAT(?x1)", None),
    ],
)
def test_aggregates_of_counted_solutions(aggregate: str, expected: int | None) -> None:
    """GROUP_CONCAT would be longer than a computed string may be."""
    body = f"{{ {chain('# :p #1 .')} }} GROUP BY ?x0"
    query = parse_query(f"{PROLOGUE}SELECT ?x0 ({aggregate} AS ?n) {body}")
    found = {row[1] for row in Reference(COMPLETE).weights(query)}
    assert {None if term is None else int(float(term.value)) for term in found} == {expected}
