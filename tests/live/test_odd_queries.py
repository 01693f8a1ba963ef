"""Queries that nobody would write on purpose: all of them are answered, or refused by an error of ours."""

from __future__ import annotations

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from tests.conftest import times

pytestmark = pytest.mark.slow

EX = "http://x/"
DATA = [
    Quad(NamedNode(f"{EX}s{i}"), NamedNode(f"{EX}{p}"), object_)
    for i in range(3)
    for p, object_ in (("p", Literal(i)), ("p", Literal("x")), ("q", NamedNode(f"{EX}s{(i + 1) % 3}")))
]

NOWHERE_BOUND = [
    "SELECT * { ?s :p ?o BIND(?typo AS ?n) }",
    "SELECT ?s ?n { ?s :p ?o BIND(?typo AS ?n) }",
    "SELECT DISTINCT ?n { ?s :p ?o BIND(?typo AS ?n) }",
    "SELECT (COUNT(*) AS ?c) { ?s :p ?o BIND(?typo AS ?n) }",
    "SELECT (COUNT(?n) AS ?c) { ?s :p ?o BIND(?typo AS ?n) }",
    "SELECT (COUNT(DISTINCT ?n) AS ?c) (MAX(?n) AS ?m) { ?s :p ?o BIND(?typo AS ?n) }",
    "SELECT ?n (COUNT(?o) AS ?c) { ?s :p ?o BIND(?typo AS ?n) } GROUP BY ?n",
    "SELECT ?s (COUNT(?o) AS ?c) { ?s :p ?o BIND(?typo AS ?n) } GROUP BY ?s HAVING(MAX(?n) > 1)",
    "SELECT ?s { ?s :p ?o BIND(?typo AS ?n) } ORDER BY ?n ?s LIMIT 2",
    "ASK { ?s :p ?o BIND(?typo AS ?n) }",
    "ASK { BIND(?typo AS ?n) }",
    "ASK { BIND(?typo AS ?n) FILTER(BOUND(?n)) }",
    "CONSTRUCT { ?s :n ?n . ?s :o ?o } { ?s :p ?o BIND(?typo AS ?n) }",
    "CONSTRUCT { ?n :n _:b } { ?s :p ?o BIND(?typo AS ?n) }",
    "DESCRIBE ?n { ?s :p ?o BIND(?typo AS ?n) }",
    "SELECT * { ?s :p ?o BIND(?typo AS ?n) . ?n :p ?m }",
    "SELECT * { ?s :p ?o BIND(?typo AS ?n) BIND(?n AS ?m) FILTER(?m = ?o || !BOUND(?m)) }",
    "SELECT * { { BIND(?typo AS ?n) } ?s :p ?n }",
    "SELECT * { { ?s :p ?o BIND(?typo AS ?n) } { ?t :q ?n } }",
    "SELECT * { { ?s :p ?o BIND(?typo AS ?n) } { ?t :p ?o BIND(?other AS ?n) } }",
    "SELECT ?s { { ?s :p ?o BIND(?typo AS ?n) } { ?t :p ?o BIND(?other AS ?n) } }",
    "SELECT * { ?s :q ?n MINUS { ?s :p ?o BIND(?typo AS ?n) } }",
    "SELECT * { ?s :p ?o BIND(?typo AS ?n) MINUS { ?n :p ?x } }",
    "SELECT * { ?s :p ?o BIND(?typo AS ?n) FILTER EXISTS { ?s :q ?n } }",
    "SELECT ?s { ?s :p ?o BIND(?typo AS ?n) FILTER NOT EXISTS { ?s :q ?m FILTER(?m = ?n) } }",
    "SELECT * { ?s :q ?n FILTER EXISTS { ?s :p ?o BIND(?typo AS ?n) } }",
    "SELECT * { ?s :p ?o BIND(?typo AS ?n) OPTIONAL { ?s :q ?n } }",
    "SELECT * { ?s :q ?n OPTIONAL { ?s :p ?o BIND(?typo AS ?n) } }",
    "SELECT * { ?s :q ?n OPTIONAL { ?s :p ?o FILTER(?typo > ?n || ?n != ?s) } }",
    "SELECT * { { ?s :p ?o BIND(?typo AS ?n) } UNION { ?s :q ?n } }",
    "SELECT * { { ?s :p ?o BIND(?typo AS ?n) } UNION { ?s :q ?n } ?t :q ?n }",
    "SELECT ?typo { ?s :p ?o }",
    "SELECT ?typo ?other { }",
    "SELECT (?typo AS ?n) { ?s :p ?o }",
    "SELECT (?typo AS ?n) (?n AS ?m) { ?s :p ?o } GROUP BY ?typo",
    "SELECT (SUM(?typo) AS ?n) { ?s :p ?o }",
    "SELECT * { ?s :p ?o FILTER(?typo) }",
    "SELECT * { ?s :p ?o FILTER(!BOUND(?typo) && EXISTS { ?s :q ?typo }) }",
    "SELECT * { GRAPH ?g { ?s :p ?o BIND(?typo AS ?n) } }",
    "SELECT * { VALUES (?n ?s) { (UNDEF :s0) (UNDEF UNDEF) } ?s :p ?o BIND(?n AS ?m) }",
    "SELECT * { ?s :p ?o { SELECT ?n { BIND(?typo AS ?n) } } }",
    "SELECT ?n { ?s :p ?o { SELECT (COUNT(?typo) AS ?n) { ?x :q ?y } } }",
]
BRANCHES = [
    "CONSTRUCT { ?a :p ?b } { { ?s :p ?b } UNION { ?a :q ?b } }",
    "CONSTRUCT { ?a :p ?b . ?b :q ?a } { ?x :p ?b OPTIONAL { ?a :q ?x FILTER NOT EXISTS { ?a :p ?b } } }",
    "SELECT * { ?v1 :q ?v2 OPTIONAL { ?v1 :p ?v3 } FILTER NOT EXISTS { ?v3 :p ?v4 . FILTER(?v4 != ?v1) } }",
]
ODD = [
    "SELECT * { }",
    "SELECT * { { } { } }",
    "SELECT * { OPTIONAL { } MINUS { } FILTER EXISTS { } }",
    "ASK { FILTER NOT EXISTS { } }",
    "SELECT ?s ?s { ?s :p ?o }",
    "SELECT * { VALUES () { } }",
    "SELECT * { VALUES () { () () } ?s :p ?o }",
    "SELECT * { VALUES ?s { } }",
    "SELECT * { ?s :p ?o } VALUES (?s ?s2) { (UNDEF UNDEF) (:s0 UNDEF) }",
    "SELECT * { VALUES ?s { " + " ".join(f":s{i}" for i in range(5000)) + " } ?s :p ?o }",
    "SELECT * { ?s :p ?o FILTER(?o IN (" + ", ".join(map(str, range(5000))) + ")) }",
    "SELECT * { ?s :p ?o FILTER(?o NOT IN ()) }",
    "SELECT * { ?s :p ?o FILTER(" + "(" * 90 + "?o > 0" + ")" * 90 + ") }",
    "SELECT * { ?s :p ?o FILTER(" + "!" * 90 + "(?o > 0)) }",
    "SELECT * { ?s :p ?o FILTER(" + " + ".join(["?o"] * 300) + " > 0) }",
    "SELECT * { ?s :p ?o FILTER(" + " - ".join(["?o"] * 90) + " < 0) }",
    "SELECT * { ?s :p ?o FILTER(" + " && ".join(["?o > 0"] * 2000) + ") }",
    "SELECT * " + "{ " * 60 + "?s :p ?o" + " }" * 60,
    "SELECT ?s { ?s " + "/".join([":q"] * 120) + " ?o }",
    "SELECT ?s { ?s " + "/".join(["(:q|^:q)"] * 8) + " :s0 }",
    "SELECT ?s { ?s " + "(" * 40 + ":q" + ")*" * 40 + " ?o }",
    "SELECT ?s { ?s " + "(" * 40 + ":q" + ")?" * 40 + " ?o }",
    "SELECT ?s { ?s " + "^" * 1 + "(" + "|".join([":q", "^:q", "!:p", "!(^:q|:p)"] * 10) + ")+ ?o }",
    "SELECT ?s { ?s " + "/".join([":q?"] * 12) + " ?o }",
]


def several(count: int) -> list[str]:
    numbers = range(count)
    return [
        "SELECT * { " + " . ".join(f"?s :p{i} ?o{i}" for i in numbers) + " }",
        "SELECT ?s { " + " . ".join(f"?s :p{i} ?o{i}" for i in numbers) + " }",
        "ASK { " + " . ".join(f"?s :p{i} {i}" for i in numbers) + " }",
        "SELECT (COUNT(*) AS ?n) { " + " . ".join(f"?s :p{i} {i}" for i in numbers) + " }",
        "SELECT * { " + " . ".join(f"?v{i} :p{i} ?v{i + 1}" for i in numbers) + " }",
        f"SELECT ?v0 ?v{count} {{ " + " . ".join(f"?v{i} :p{i} ?v{i + 1}" for i in numbers) + " }",
        "SELECT DISTINCT ?v3 { " + " . ".join(f"?v{i % 7} :p{i} ?v{i + 1}" for i in numbers) + " }",
        "SELECT * { ?s :p ?o " + " ".join(f"OPTIONAL {{ ?s :p{i} ?o{i} }}" for i in numbers) + " }",
        "SELECT * { ?s :p ?o " + " ".join(f"MINUS {{ ?s :p{i} ?x }}" for i in numbers) + " }",
        "SELECT * { ?s :p ?o " + " ".join(f"FILTER NOT EXISTS {{ ?s :p{i} ?x }}" for i in numbers) + " }",
        "SELECT * { ?s :p ?o " + " ".join(f"FILTER(?o != {i})" for i in numbers) + " }",
        "SELECT * { ?s :p ?o " + " ".join(f"BIND(?o + {i} AS ?b{i})" for i in numbers) + " }",
        "SELECT * { " + " UNION ".join(f"{{ ?s :p{i} ?o }}" for i in numbers) + " ?s :p ?x }",
        "SELECT ?s { ?s :p ?o . ?s " + "/".join([":q"] * count) + " ?x }",
        "SELECT ?s { " + " . ".join(f"?s :q/:q ?o{i}" for i in numbers) + " }",
        "CONSTRUCT { " + " . ".join(f"?s :p{i} ?o" for i in numbers) + " } { ?s :p ?o }",
        "SELECT " + " ".join(f"(COUNT(?o{i}) AS ?c{i})" for i in numbers) + " { ?s :p ?o0 }",
    ]


def answered_or_refused(query: str) -> bool:
    """Whether a query is answered, as a view under changes and once, with the same rows."""
    with sparqlive.open() as session:
        try:
            view = session.view("v", f"PREFIX : <{EX}> {query}")
        except sparqlive.Error:
            return False
        session.apply(insert=DATA)
        session.apply(delete=DATA[:2])
        assert view.failure is None
        assert view.weights() == session.query(f"PREFIX : <{EX}> {query}").weights()
        session.check()
    return True


@pytest.mark.parametrize("query", NOWHERE_BOUND + BRANCHES)
def test_a_variable_that_is_bound_nowhere(query: str) -> None:
    assert answered_or_refused(query)


@pytest.mark.parametrize("query", ODD, ids=[query[:60] for query in ODD])
def test_odd_queries(query: str) -> None:
    answered_or_refused(query)


@pytest.mark.parametrize("number", range(0, len(several(1)), times(2, 1)))
def test_many_parts_of_each_kind(number: int) -> None:
    assert answered_or_refused(several(50)[number])
