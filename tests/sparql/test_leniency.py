"""What is accepted beyond the standard, as other engines do where no W3C test forbids it; and what is not."""

from __future__ import annotations

import pytest

import sparqlive
from sparqlive import errors
from sparqlive.sparql.syntax import parse_query, parse_update

ALIKE = [
    ("SELECT * { ?s ?p ?o FILTERsameTerm(?s,?o) }", "SELECT * { ?s ?p ?o FILTER sameTerm(?s, ?o) }"),
    (
        "SELECT * { ?s ?p ?o FILTERNOTEXISTS{?o ?p ?s} }",
        "SELECT * { ?s ?p ?o FILTER NOT EXISTS { ?o ?p ?s } }",
    ),
    ("SELECTDISTINCT ?s {?s ?p ?o}ORDERBYDESC(?s)", "SELECT DISTINCT ?s {?s ?p ?o} ORDER BY DESC(?s)"),
    ("SELECT ?s{?s ?p ?o}LIMIT10OFFSET5", "SELECT ?s { ?s ?p ?o } LIMIT 10 OFFSET 5"),
    ("SELECT ?s{?s ?p ?o FILTER(?s NOTIN(1))}", "SELECT ?s { ?s ?p ?o FILTER(?s NOT IN (1)) }"),
    ("\ufeffASK {}", "ASK {}"),
    ("ASK { FILTER(!!true) FILTER(- -1 = 1) }", "ASK { FILTER(!(!true)) FILTER(-(-1) = 1) }"),
    ("ASK {\r\n?s ?p 1 .\r\n}\r\n", "ASK { ?s ?p 1 }"),
    ("SELECT ?s { ?s ?p ?o ; ; . }", "SELECT ?s { ?s ?p ?o }"),
]


@pytest.mark.parametrize(("lenient", "strict"), ALIKE)
def test_lenient_text_means_what_it_says(lenient: str, strict: str) -> None:
    assert parse_query(lenient) == parse_query(strict)


DATA = """
<x:a> <x:p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .
<x:a> <x:p> "2"^^<http://www.w3.org/2001/XMLSchema#integer> .
<x:b> <x:p> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .
"""


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING (?n > 1)", []),
        ("SELECT ?s (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?s HAVING (?n > 1)", ["x:a"]),
        ("SELECT ?s (SUM(?o) AS ?n) (?n * 2 AS ?m) { ?s ?p ?o } GROUP BY ?s HAVING (?m > 5) (?n < 4)"
         " ORDER BY ?n ?s", ["x:a", "x:b"]),
        ("SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING (?o > 1)", ["x:b"]),
        ("SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING (BOUND(?o) && ?o + COUNT(*) = 3)", ["x:a"]),
        ("SELECT ?s { ?s ?p ?o } GROUP BY ?s ORDER BY DESC(?o)", ["x:b", "x:a"]),
        ("SELECT ?s { ?s ?p ?o } GROUP BY ?s ORDER BY ?o LIMIT 1", ["x:a"]),
        ("SELECT ?s { ?s ?p ?o } GROUP BY ?s ORDER BY DESC(STR(?o)) COUNT(*) LIMIT 1", ["x:b"]),
        ("SELECT ?s { { SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING (?o < 3) } }", ["x:a"]),
        ("SELECT ?s (?o AS ?n) { ?s ?p ?o } HAVING (?n > 2)", ["x:b"]),
    ],
)  # fmt: skip
def test_having_and_order_by_read_names_of_select_and_samples(text: str, rows: list[str]) -> None:
    with sparqlive.open() as session:
        view = session.view("v", text)
        session.apply(insert=DATA)
        for answer in (view, session.query(text)):
            assert [solution["s"].value for solution in answer.solutions()] == rows
        session.check()


@pytest.mark.parametrize(
    "data",
    [
        '"a" <x:p> 1', "1 <x:p> 1", "-1.5 <x:p> 1", "true <x:p> 1", '<x:s> <x:p> 1 . "a"@en <x:p> 1',
        'GRAPH <x:g> { <x:s> <x:p> 1 . "a" <x:p> 1 }', '"a"^^<x:t> <x:p> [ <x:p> 1 ]',
    ],
)  # fmt: skip
@pytest.mark.parametrize("operation", ["INSERT", "DELETE"])
def test_data_with_a_literal_subject_is_refused(operation: str, data: str) -> None:
    with sparqlive.open() as session:
        session.apply(insert="<x:s> <x:p> <x:o> .")
        with pytest.raises(errors.SyntaxError, match=f"{operation} DATA cannot contain a (literal as|blank)"):
            session.update(f"INSERT DATA {{ <x:t> <x:p> 1 }} ; {operation} DATA {{ {data} }}")
        assert len(list(session.quads())) == 1


@pytest.mark.parametrize(
    "data",
    ['<x:s> "a" 1', "<x:s> 1 1", "<x:s> _:b 1", "<x:s> [] 1", 'GRAPH "g" { <x:s> <x:p> 1 }',
     "GRAPH _:g { <x:s> <x:p> 1 }", "GRAPH ?g { <x:s> <x:p> 1 }", "<x:s> ?p 1"],
)  # fmt: skip
@pytest.mark.parametrize("operation", ["INSERT DATA", "DELETE DATA"])
def test_data_that_is_no_quad_is_refused(operation: str, data: str) -> None:
    with pytest.raises(errors.SyntaxError):
        parse_update(f"{operation} {{ {data} }}")


def test_templates_that_give_no_quad_for_a_solution_skip_it() -> None:
    with sparqlive.open() as session:
        session.apply(insert='<x:s> <x:p> "a" .\n<x:s> <x:p> <x:o> .')
        session.update(
            'INSERT { ?o <x:q> ?s . ?s ?o ?s . "b" <x:q> ?s . GRAPH ?o { ?s <x:r> 1 } } WHERE { ?s <x:p> ?o }'
        )
        assert len(list(session.quads())) == 5
