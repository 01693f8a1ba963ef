"""A result without rows says why, if the data says it, and blames nothing wrongly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparqlive
from sparqlive.engine import empty

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
DATA = f"""
<urn:a> <urn:q> <urn:b> .
<urn:a> {TYPE} <urn:C> .
<urn:a> <urn:v> <urn:low> .
<urn:a> <urn:p> <urn:x> <urn:g> .
<urn:a> {TYPE} <urn:D> <urn:g> .
<urn:a> <urn:v> <urn:high> <urn:g> .
"""
ONLY = "Only named graphs have"
BEYOND = "The query would have rows over all graphs together"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, trying a small query may take long."""
    monkeypatch.setattr(empty, "_SECONDS", 600.0)


@pytest.fixture
def session() -> Iterator[sparqlive.Session]:
    with sparqlive.open() as opened:
        opened.apply(insert=DATA)
        yield opened


EXPLAINED = [
    ("SELECT * { ?s <urn:zz> ?o }", "No triple has the predicate <urn:zz>. Check its prefix and spelling."),
    ("SELECT * { ?s <urn:p> ?o }", f"{ONLY} the predicate <urn:p>, and the query reads the default graph"),
    ("SELECT * { ?s a <urn:Typo> }", "No triple has the class <urn:Typo>."),
    ("SELECT * { ?s a <urn:D> }", f"{ONLY} the class <urn:D>"),
    ("SELECT * { ?s ?p <urn:x> }", f"{ONLY} a triple that matches ?s ?p <urn:x>"),
    ("SELECT * { <urn:a> <urn:v> <urn:high> }", f"{ONLY} a triple that matches <urn:a> <urn:v> <urn:high>"),
    # Parts without which there are no rows
    ("SELECT * { ?s <urn:q> ?o . ?s <urn:zz> ?x }", "No triple has the predicate <urn:zz>"),
    ("SELECT * { ?s <urn:zz> ?o OPTIONAL { ?s <urn:q> ?x } }", "No triple has the predicate <urn:zz>"),
    ("SELECT * { ?s <urn:q> ?o FILTER EXISTS { ?s <urn:zz> ?x } }", "No triple has the predicate <urn:zz>"),
    (
        "SELECT * { { ?s <urn:zz> ?o } UNION { ?s <urn:yy> ?o } }",
        "No triple has the predicate <urn:zz>. No triple has the predicate <urn:yy>. Check",
    ),
    ("SELECT * { ?s <urn:q> ?o { SELECT ?s (MAX(?v) AS ?m) { ?s <urn:p> ?v } GROUP BY ?s } }", ONLY),
    # Paths
    ("SELECT * { ?s <urn:q>/<urn:zz> ?o }", "No triple has the predicate <urn:zz>"),
    ("SELECT * { ?s ^<urn:zz> ?o }", "No triple has the predicate <urn:zz>"),
    ("SELECT * { ?s <urn:zz>|<urn:p> ?o }", "No triple has the predicate <urn:zz>. Only named graphs"),
    ("SELECT * { ?s <urn:p>+ ?o }", ONLY),
    ("SELECT * { ?s <urn:p>* ?o FILTER(?s != ?o) }", BEYOND),
    # Patterns that match in the default graph, but not together, or not with the filter
    ("SELECT * { ?s <urn:v> ?o FILTER(?o = <urn:high>) }", BEYOND),
    ("SELECT * { VALUES ?c { <urn:D> } ?s a ?c }", BEYOND),
    # Totals have a row, of nothing
    ("SELECT (COUNT(*) AS ?n) { ?s <urn:zz> ?o }", "No triple has the predicate <urn:zz>"),
    ("SELECT (SUM(?o) AS ?n) (MAX(?o) AS ?m) { ?s <urn:p> ?o }", ONLY),
    ("SELECT (COUNT(*) AS ?n) { ?s <urn:v> ?o FILTER(?o = <urn:high>) }", BEYOND),
    ("SELECT (COUNT(*) AS ?n) { ?s <urn:zz> ?o } HAVING (COUNT(*) > 1)", "No triple has the predicate"),
    # Other forms
    ("ASK { ?s <urn:p> ?o }", ONLY),
    ("CONSTRUCT { ?s <urn:r> ?o } WHERE { ?s <urn:p> ?o }", ONLY),
    ("DESCRIBE ?s { ?s <urn:zz> ?o }", "No triple has the predicate <urn:zz>"),
    # Other graphs
    ("SELECT * { GRAPH ?g { ?s <urn:q> ?o } }", "Only the unnamed graph has the predicate <urn:q>"),
    ("SELECT * { GRAPH <urn:typo> { ?s <urn:q> ?o } }", "Graph <urn:typo> has no triples. Check its name."),
    ("SELECT * FROM <urn:typo> { ?s <urn:q> ?o }", "Graph <urn:typo> has no triples."),
    ("SELECT * { GRAPH <urn:g> { ?s <urn:zz> ?o } }", "No triple has the predicate <urn:zz>"),
]
UNEXPLAINED = [
    "SELECT * { ?s <urn:q> ?o }",
    "SELECT * { ?s <urn:q> <urn:other> }",
    "SELECT * { ?s <urn:q> ?o OPTIONAL { ?s <urn:zz> ?x } FILTER(?o = <urn:no>) }",
    "SELECT * { { ?s <urn:q> ?o } UNION { ?s <urn:zz> ?o } FILTER(?o = <urn:no>) }",
    "SELECT * { ?s <urn:q> ?o MINUS { ?s <urn:q> ?o } MINUS { ?s <urn:zz> ?x } }",
    "SELECT * { ?s <urn:q> ?o FILTER NOT EXISTS { ?s <urn:q> ?o } FILTER NOT EXISTS { ?s <urn:zz> ?x } }",
    "SELECT * { ?s <urn:q> ?o FILTER(EXISTS { ?s <urn:zz> ?x } && ?o = <urn:no> || false) }",
    "SELECT * { ?s <urn:q>|<urn:zz> ?o FILTER(?o = <urn:no>) }",
    "SELECT * { ?s <urn:zz>* <urn:no> FILTER(?s != <urn:no>) }",
    "SELECT * { ?s !<urn:zz> <urn:no> }",
    "SELECT * { VALUES ?s { } ?s <urn:q> ?o }",
    "SELECT * { VALUES ?s { <urn:no> } ?s <urn:q> ?o }",
    "SELECT * { ?s <urn:q> ?o } LIMIT 0",
    "SELECT (COUNT(*) AS ?n) { ?s <urn:q> ?o }",
    "SELECT (COUNT(*) AS ?n) { ?s <urn:q> <urn:no> }",
    "SELECT * { { SELECT (COUNT(*) AS ?n) { ?s <urn:zz> ?o } } ?s <urn:q> <urn:no> }",
    "SELECT * { GRAPH <urn:g> { ?s <urn:q> ?o } }",
    "SELECT * FROM NAMED <urn:g> { ?s <urn:q> ?o }",
    "ASK { ?s <urn:q> ?o }",
    "ASK { ?s <urn:q> <urn:no> }",
    "DESCRIBE <urn:no>",
    "CONSTRUCT { } WHERE { ?s <urn:q> ?o }",
]


@pytest.mark.parametrize(("query", "said"), EXPLAINED)
def test_an_empty_result_says_why(session: sparqlive.Session, query: str, said: str) -> None:
    answer = session.query(query)
    assert (answer.hint or "").startswith(said)
    assert session.query(query, timeout_seconds=60, row_limit=10).hint == answer.hint
    assert session.query(query, stream=True).hint == answer.hint
    assert session.view("empty", query).hint == answer.hint
    assert session.views["empty"].now().hint == answer.hint
    assert session.query(query, from_views=True).hint == answer.hint


@pytest.mark.parametrize("query", UNEXPLAINED)
def test_nothing_is_blamed_wrongly(session: sparqlive.Session, query: str) -> None:
    assert session.query(query).hint is None
    assert session.view("fine", query).hint is None


def test_a_store_says_the_same(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        session.apply(insert=DATA)
    with sparqlive.open(tmp_path / "s", read_only=True) as session:
        for query, said in EXPLAINED:
            assert (session.query(query).hint or "").startswith(said), query


def test_over_the_union_only_missing_names_are_a_reason() -> None:
    with sparqlive.open(default_graph="union") as session:
        session.apply(insert=DATA)
        assert session.query("SELECT * { ?s <urn:p> <urn:no> }").hint is None
        said = session.query("SELECT * { ?s <urn:zz> ?o }").hint
        assert said == "No triple has the predicate <urn:zz>. Check its prefix and spelling."


def test_data_that_is_still_to_come_is_no_reason() -> None:
    with sparqlive.open() as session, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert session.view("early", "SELECT * { ?s <urn:p> ?o }").hint is None
        assert session.query("SELECT * { ?s <urn:p> ?o }").hint is None
    assert caught == []


def test_a_view_over_a_view_says_what_the_inner_one_lacks(session: sparqlive.Session) -> None:
    session.view("inner", "CONSTRUCT { ?s <urn:r> ?o } WHERE { ?s <urn:zz> ?o }")
    outer = "SELECT * { GRAPH <view:inner> { ?s <urn:r> ?o } }"
    assert "No triple has the predicate <urn:zz>." in (session.view("outer", outer).hint or "")


def test_python_warns_once_per_view_and_line(session: sparqlive.Session) -> None:
    query = "SELECT * { ?s <urn:p> ?o }"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        view = session.view("late", query)
        assert (view.weights(), list(view), view.to_arrow().num_rows) == ({}, [], 0)
        for _ in range(3):
            session.query(query)
    assert [one.category for one in caught] == [sparqlive.EmptyResultWarning] * 2
    assert [str(one.message).partition(".")[0] for one in caught] == [
        "View 'late' has no rows",
        "The query has no rows",
    ]
    assert {one.filename for one in caught} == {__file__}


def test_a_view_that_was_registered_before_its_data_warns_when_it_is_read() -> None:
    with sparqlive.open() as session:
        view = session.view("early", "SELECT * { ?s <urn:p> ?o }")
        session.apply(insert=DATA)
        with pytest.warns(sparqlive.EmptyResultWarning, match="Only named graphs have the predicate <urn:p>"):
            assert view.weights() == {}
        session.apply(insert="<urn:a> <urn:p> <urn:b> .")
        assert view.hint is None


def test_where_warnings_are_errors_an_empty_result_is_none(session: sparqlive.Session) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(session.query("SELECT * { ?s <urn:zz> ?o }")) == []
        assert session.view("fine", "SELECT * { ?s <urn:zz> ?o }").hint is not None


def test_the_search_reads_no_more_than_it_may(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patterns are looked up; whole queries are tried only within the bound."""
    whole = "SELECT * { ?s <urn:v> ?o FILTER(?o = <urn:high>) }"
    assert session.query(whole).hint is not None
    monkeypatch.setattr(empty, "_MOST_ROWS", 0)
    assert session.query("SELECT * { ?s <urn:p> ?o }").hint is not None
    assert session.query("SELECT * { <urn:a> <urn:v> <urn:high> }").hint is not None
    assert session.query(whole).hint is None
    assert session.query("SELECT * { ?s <urn:v> ?o FILTER(?o = <urn:high>) }").hint is None


def test_a_query_that_takes_long_on_all_graphs_is_not_tried_to_its_end(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(empty, "_SECONDS", 1e-9)
    assert session.query("SELECT * { ?s <urn:v> ?o FILTER(?o = <urn:high>) }").hint is None
    assert session.query("SELECT * { ?s <urn:zz> ?o }").hint is not None


def test_long_terms_are_shortened(session: sparqlive.Session) -> None:
    hint = session.query(f"SELECT * {{ ?s <urn:{'z' * 10_000}> ?o }}").hint
    assert hint is not None
    assert len(hint) < 400
