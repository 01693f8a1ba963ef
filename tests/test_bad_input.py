"""Bad input: an error that says where and what, and no state changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pyoxigraph as ox
import pytest
import rdflib

import sparqlive
from sparqlive.runtime.tuning import DEFAULT

EX = "http://example.org/"
P = ox.NamedNode(EX + "p")
A, B, C = (ox.NamedNode(EX + name) for name in "abc")
GOOD = ox.Quad(A, P, ox.Literal(1))
NEW = ox.Quad(B, P, ox.Literal(2))
QUERY = f"SELECT ?s ?o WHERE {{ ?s <{EX}p> ?o }}"
ROWS = {(A, ox.Literal(1)): 1}


@pytest.fixture
def session() -> Iterator[sparqlive.Session]:
    with sparqlive.open() as session:
        session.load([GOOD])
        session.view("view", QUERY)
        yield session
        unchanged(session)


def unchanged(session: sparqlive.Session) -> None:
    """After the error the session holds what it held, and still works."""
    assert list(session.quads()) == [GOOD]
    assert set(session.views) == {"view"}
    assert session.views["view"].weights() == ROWS
    session.check()
    assert session.apply(insert=[NEW]).deltas["view"].weights() == {(B, ox.Literal(2)): 1}
    assert session.apply(delete=[NEW]).deltas["view"].weights() == {(B, ox.Literal(2)): -1}


def sentence(caught: pytest.ExceptionInfo[sparqlive.Error], *parts: str) -> None:
    """An error is a sentence that a person can act on, with these parts in it."""
    text = str(caught.value)
    assert len(text.split()) >= 3, f"not a sentence: {text!r}"
    for part in parts:
        assert part.lower() in text.lower(), text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELECT",
        "SELECT ?s WHERE { ?s ?p ?o",
        "SELECT ?s WHERE { ?s ?p ?o }}",
        "SELECT ?s WHERE { ?s :p ?o }",  # no such prefix
        "SELECT ?s WHERE { ?s 'text' ?o }",
        "SELECT ?s WHERE { ?s _:b ?o }",
        "SELECT (1 AS ?s) (2 AS ?s) WHERE { ?s ?p ?o }",
        "SELECT ?s WHERE { ?s ?p ?o BIND(1 AS ?o) }",
        "SELECT ?s WHERE { VALUES (?s ?o) { (1) } }",
        "SELECT ?s WHERE { { _:a ?p ?o } UNION { _:a ?q ?o } }",  # one label in two patterns
        "SELECT ?s WHERE { ?s ?p ?o FILTER(STRLEN()) }",
        "INSERT DATA { <x:a> <x:b> <x:c> }",  # an update where a query belongs
        "SELECT ?s WHERE { ?s ?p '\x00' }}",
    ],
)
def test_malformed_queries(session: sparqlive.Session, query: str) -> None:
    with pytest.raises(sparqlive.SyntaxError) as caught:
        session.view("bad", query)
    sentence(caught)
    with pytest.raises(sparqlive.SyntaxError):
        session.query(query)


def test_a_literal_as_a_subject_is_allowed_and_matches_nothing(session: sparqlive.Session) -> None:
    assert session.query("SELECT ?p WHERE { 'text' ?p ?o }").weights() == {}


def test_a_syntax_error_says_where(session: sparqlive.Session) -> None:
    with pytest.raises(sparqlive.SyntaxError) as caught:
        session.view("bad", "SELECT ?s\nWHERE {\n  ?s ?p ;;; nonsense }")
    sentence(caught, "3")


def test_a_bad_query_does_not_replace_a_view(session: sparqlive.Session) -> None:
    for query in ("SELECT nonsense", "SELECT (RAND() AS ?n) WHERE { ?s ?p ?o }"):
        with pytest.raises(sparqlive.Error):
            session.view("view", query, replace=True)
        assert session.views["view"].weights() == ROWS


def test_another_query_under_a_taken_name(session: sparqlive.Session) -> None:
    with pytest.raises(sparqlive.Error) as caught:
        session.view("view", "SELECT ?o WHERE { ?s ?p ?o }")
    sentence(caught, "view")


@pytest.mark.parametrize(
    "bad",
    [
        "this is not a quad",
        42,
        None,
        (A, P),
        A,
        ox.Quad(A, P, ox.Triple(A, P, B)),  # RDF 1.2
    ],
    ids=["text", "number", "none", "pair", "term", "triple-term"],
)
@pytest.mark.parametrize("side", ["insert", "delete"])
def test_a_batch_is_applied_whole_or_not_at_all(session: sparqlive.Session, bad: object, side: str) -> None:
    with pytest.raises(sparqlive.Error) as caught:
        session.apply(**{side: [NEW, bad], "delete" if side == "insert" else "insert": [NEW]})  # type: ignore[arg-type]
    sentence(caught)


def test_an_iterable_that_fails_changes_nothing(session: sparqlive.Session) -> None:
    def failing() -> Iterator[ox.Quad]:
        yield NEW
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        session.apply(insert=failing())
    with pytest.raises(RuntimeError, match="the source broke"):
        session.load(failing())


@pytest.mark.parametrize(
    "text",
    [
        f"<{EX}b> <{EX}p> <{EX}c>",  # no full stop
        f"<{EX}b> <{EX}p> .",
        f'"literal" <{EX}p> <{EX}c> .',
        f'<{EX}b> "literal" <{EX}c> .',
        f"<{EX}b> <{EX}p> <{EX}c> _:g <{EX}h> .",
        f"<{EX}b> <relative path> <{EX}c> .",
        f"<{EX}b> <{EX}p> <<( <{EX}a> <{EX}p> <{EX}c> )>> .",
        f'<{EX}b> <{EX}p> "\ud800" .',
    ],
)
def test_malformed_changes_as_text(session: sparqlive.Session, text: str) -> None:
    good = f"<{EX}b> <{EX}p> <{EX}c> .\n"
    for read_by_columns in ("", good * (DEFAULT.column_bytes // len(good) + 1)):
        with pytest.raises(sparqlive.Error) as caught:
            session.apply(insert=read_by_columns + good + text)
        sentence(caught)


def test_half_of_a_surrogate_pair(session: sparqlive.Session) -> None:
    """Python's texts may have one; no RDF term has."""
    graph = rdflib.Graph()
    graph.add((rdflib.URIRef("x:s"), rdflib.URIRef("x:p"), rdflib.Literal("\ud800")))
    terms = pandas.DataFrame({"s": ["<x:s>"], "p": ["<x:p>"], "o": ['"\ud800"']})
    for data in (graph, terms):
        with pytest.raises(sparqlive.Error) as caught:
            session.load(data)
        sentence(caught, "half of a surrogate pair")


def test_malformed_text_says_which_line(session: sparqlive.Session) -> None:
    good = f"<{EX}b> <{EX}p> <{EX}c> .\n"
    with pytest.raises(sparqlive.Error) as caught:
        session.apply(insert=good + good + "nonsense\n")
    sentence(caught, "3")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bad.ttl", "@prefix : <http://example.org/> .\n:b :p :c .\n:b :p "),
        ("bad.nt", "<http://example.org/b> <http://example.org/p> <http://example.org/c> .\nnonsense\n"),
        ("bad.rdf", "<rdf:RDF>"),
        ("bad.nt.gz", "this is not gzip"),
        ("bad.unknown", ""),
    ],
)
def test_malformed_files(session: sparqlive.Session, tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(sparqlive.Error) as caught:
        session.load(path)
    sentence(caught, name)


def test_a_good_file_beside_a_bad_one_is_not_loaded(session: sparqlive.Session, tmp_path: Path) -> None:
    (tmp_path / "good.nt").write_text(f"<{EX}b> <{EX}p> <{EX}c> .\n")
    (tmp_path / "bad.nt").write_text("nonsense\n")
    with pytest.raises(sparqlive.Error) as caught:
        session.load([tmp_path / "good.nt", tmp_path / "bad.nt"])
    sentence(caught, "bad.nt")
    assert list(session.quads()) == [GOOD]


@pytest.mark.parametrize("missing", ["nothing.nt", "nothing-*.nt"], ids=["path", "glob"])
def test_missing_files(session: sparqlive.Session, tmp_path: Path, missing: str) -> None:
    with pytest.raises(sparqlive.Error) as caught:
        session.load(str(tmp_path / missing))
    sentence(caught, "nothing")


def test_unknown_views(session: sparqlive.Session) -> None:
    with pytest.raises(sparqlive.UnknownView) as caught:
        session.drop("veiw")
    sentence(caught, "veiw", "view")
    with pytest.raises(KeyError):
        session.views["veiw"]


def test_unknown_strategy(session: sparqlive.Session) -> None:
    with pytest.raises(sparqlive.Error) as caught:
        session.apply(insert=[NEW], strategy="magic")
    sentence(caught, "magic")


def test_unknown_default_graph() -> None:
    with pytest.raises(sparqlive.Error) as caught:
        sparqlive.open(default_graph="all")
    sentence(caught, "all")


def test_every_error_is_one_of_ours() -> None:
    for name in ("SyntaxError", "Unsupported", "CheckFailed", "UnknownView"):
        error = getattr(sparqlive, name)
        assert issubclass(error, sparqlive.Error), name
        assert error.__doc__, name


@pytest.mark.parametrize("text", [None, 5, b"ASK {}"])
def test_a_query_or_an_update_is_a_string(session: sparqlive.Session, text: Any) -> None:
    for call in (session.query, session.update, lambda given: session.view("new", given)):
        with pytest.raises(sparqlive.Error) as caught:
            call(text)
        sentence(caught, "is a string, not")


def test_an_unknown_strategy_of_a_view(session: sparqlive.Session) -> None:
    with pytest.raises(sparqlive.Error) as caught:
        session.view("new", QUERY, strategy="fast")  # type: ignore[arg-type]
    sentence(caught, "strategy must be one of", "'fast'")


def test_only_an_address_can_be_followed() -> None:
    with pytest.raises(sparqlive.Error) as caught:
        sparqlive.follow("cheap")
    sentence(caught, "'cheap' is not the address of a view")


def test_spark_that_is_not_installed(session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparqlive.engine.carry.find_spec", lambda name: None)
    for call in (session.quads_to_spark, session.views["view"].to_spark):
        with pytest.raises(sparqlive.Error) as caught:
            call()
        sentence(caught, "pip install 'sparqlive[spark]'")
    with pytest.raises(sparqlive.Error) as caught:
        sparqlive.open(spark="local[1]")
    sentence(caught, "pip install 'sparqlive[spark]'")


def test_a_view_in_the_store_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparqlive.engine.carry.find_spec", lambda name: None)
    with sparqlive.open(tmp_path / "store", memory=0, bulk="spark") as session:
        with pytest.raises(sparqlive.Error) as caught:
            session.view("view", QUERY)
        sentence(caught, "pip install 'sparqlive[spark]'", 'or set bulk to "duckdb"')


def test_spark_is_a_session_or_a_master() -> None:
    with pytest.raises(sparqlive.Error) as caught:
        sparqlive.open(spark=5)
    sentence(caught, "spark must be a Spark session or the URL of a master, not 5")


def test_replace_takes_a_graph_and_quads(session: sparqlive.Session) -> None:
    for graph, quads in (("urn:g", []), (A, "text"), (A, [(A, P, B)]), (A, [5]), (A, 5)):
        with pytest.raises(sparqlive.Error) as caught:
            session.replace(graph, quads)  # type: ignore[arg-type]
        sentence(caught, "replace takes")
