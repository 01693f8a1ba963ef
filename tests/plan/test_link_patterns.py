"""Where following links starts, and which quads lead on, by query."""

from __future__ import annotations

import pytest

from sparqlive.plan.link_patterns import reads_named_graphs, starts_of, steps_of
from sparqlive.sparql.syntax import parse_query

PREFIX = "PREFIX : <http://x/>\n"


def starts(text: str) -> list[str]:
    return [iri.removeprefix("http://x/") for iri in starts_of(parse_query(PREFIX + text))]


def steps(text: str) -> list[str]:
    """Each pattern with the positions that lead on in brackets; `=` where both ends are one."""

    def shown(position: int, term: object, leads: tuple[int, ...]) -> str:
        name = "·" if term is None else str(term).replace("<http://x/", "").rstrip(">")
        return f"[{name}]" if position in leads else name

    return [
        " ".join(
            shown(n, term, step.leads) for n, term in enumerate((step.subject, step.predicate, step.object))
        )
        + (" =" if step.loop else "")
        + "".join(f" -{predicate.value.removeprefix('http://x/')}" for predicate in step.excluded)
        for step in steps_of(parse_query(PREFIX + text))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * { :a :p ?x . ?x :q :b ; a :Class }", ["a", "b"]),
        ("SELECT * { :a :p/:q* :b }", ["a", "b"]),
        ("SELECT * { VALUES (?x ?y) { (:a 1) (UNDEF :b) } ?x :p ?y }", ["a", "b"]),
        ("SELECT * { ?x :p ?y FILTER(?x = :a || ?y IN (:b, :c) || DATATYPE(?y) = :d) }", ["a", "b", "c"]),
        ("SELECT * { ?x :p ?y BIND(:a AS ?z) BIND(IRI(STR(:b)) AS ?w) }", ["a"]),
        ("SELECT * FROM :f FROM NAMED :n { GRAPH :g { ?x :p ?y } }", ["f", "n", "g"]),
        (
            "SELECT * { ?x :p ?y OPTIONAL { ?x :q :a } MINUS { :b :q ?x } FILTER EXISTS { :c :q ?x } }",
            ["a", "b", "c"],
        ),
        ("DESCRIBE :a ?x { ?x :p ?y }", ["a"]),
        ("CONSTRUCT { :made :p ?x } { ?x :p :a }", ["a"]),
        ("SELECT * { { SELECT ?x { ?x :p :a } } UNION { ?x :q :b } }", ["a", "b"]),
    ],
)
def test_starts(text: str, expected: list[str]) -> None:
    assert sorted(starts(text)) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT * { :a :p ?x . ?x :q 1 }",
            ["a p [·]", '[·] q "1"^^<http://www.w3.org/2001/XMLSchema#integer'],
        ),
        ("SELECT * { ?x :p ?x }", ["[·] p [·] ="]),
        ("SELECT * { ?x ?p ?o }", ["[·] · [·]"]),
        ("SELECT * { ?x ?p ?o . ?p :label ?l }", ["[·] [·] [·]", "[·] label [·]"]),
        ("SELECT * { :a :p/^:q ?x }", ["a p [·]", "[·] q [·]"]),
        ("SELECT * { :a :p* ?x }", ["[·] p [·]"]),
        ("SELECT * { :a (:p|:q)? ?x }", ["a p [·]", "a q [·]"]),
        ("SELECT * { :a !(:p|^:q) ?x }", ["a · [·] -p", "[·] · a -q"]),
        ("SELECT ?x { ?x :p ?y FILTER NOT EXISTS { ?x :q ?z } }", ["[·] p [·]", "[·] q [·]"]),
        ("SELECT ?x { ?x :p [ :q ?y ] }", ["[·] p [·]", "[·] q [·]"]),
        ("SELECT ?x { ?x :p ?y SERVICE SILENT :s { ?x :r ?z } }", ["[·] p [·]"]),
    ],
)
def test_steps(text: str, expected: list[str]) -> None:
    assert sorted(steps(text)) == sorted(expected)


def test_queries_that_read_named_graphs() -> None:
    for text, expected in (
        ("SELECT * { ?x :p ?y }", False),
        ("SELECT * { ?x :p ?y FILTER EXISTS { GRAPH ?g { ?x :q ?y } } }", True),
        ("SELECT * FROM :g { ?x :p ?y }", True),
    ):
        assert reads_named_graphs(parse_query(PREFIX + text)) == expected
