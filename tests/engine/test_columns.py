"""Large batches as columns: texts, files and lists give what they give row by row."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.engine import batches
from sparqlive.rdf import dictionary
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.session import Session
from tests import nasty_terms

EX = "http://example.org/"
VIEWS = {
    "join": "SELECT ?s ?o { ?s <http://example.org/p0> ?m . ?m <http://example.org/p1> ?o }",
    "groups": "SELECT ?o (COUNT(*) AS ?n) (SUM(?v) AS ?t) "
    "{ ?s <http://example.org/p0> ?o ; <http://example.org/p2> ?v } GROUP BY ?o",
    "distinct": "SELECT DISTINCT ?s { ?s ?p ?o }",
    "optional": "SELECT * { ?s <http://example.org/p0> ?o OPTIONAL { ?o <http://example.org/p2> ?v } }",
    "paths": "SELECT ?s ?o { ?s <http://example.org/p1>+ ?o }",
    "graphs": "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
}


def random_quad(rng: random.Random) -> ox.Quad:
    node = lambda: ox.NamedNode(f"{EX}n{rng.randrange(12)}")  # noqa: E731
    subject = ox.BlankNode(f"b{rng.randrange(3)}") if rng.random() < 0.1 else node()
    predicate = rng.randrange(3)
    value = rng.choice(
        (
            ox.Literal(rng.randrange(20)),
            ox.Literal(
                f"{rng.randrange(9)}.5", datatype=ox.NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
            ),
            ox.Literal('a "quoted"\n\ttext', language="en"),
            ox.Literal("ä\\ü"),
        )
    )
    graph = rng.choice((ox.DefaultGraph(), ox.DefaultGraph(), ox.NamedNode(f"{EX}g{rng.randrange(2)}")))
    return ox.Quad(subject, ox.NamedNode(f"{EX}p{predicate}"), value if predicate == 2 else node(), graph)


def text_of(quads: list[ox.Quad]) -> str:
    return "".join(f"{quad} .\n" for quad in quads)


@pytest.mark.parametrize("default_graph", ["strict", "union"])
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])
def test_columns_and_rows_in_any_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept: bool,
    default_graph: sparqlive.session.DefaultGraphs,
) -> None:
    """Random batches, as texts or lists, by columns or rows, by any strategy; reopened in between."""
    rng = random.Random(3)
    tuning = replace(DEFAULT, column_rows=6, column_bytes=500, text_quads=10)
    path = tmp_path / "store" if kept else None
    data: set[ox.Quad] = set()
    session = sparqlive.Session(path, default_graph=default_graph, tuning=tuning)
    try:
        for number, (name, text) in enumerate(VIEWS.items()):
            session.view(name, text, strategy=("duckdb", "auto")[number % 2])
        for step in range(24):
            inserts = [random_quad(rng) for _ in range(rng.choice((1, 5, 30)))]
            deletes = rng.sample(sorted(data, key=str), min(len(data), rng.choice((0, 3, 15))))
            strategy = rng.choice(("auto", "live", "duckdb", "rebuild"))
            as_text = rng.random() < 0.6
            epoch = session.apply(
                insert=text_of(inserts) if as_text else inserts,
                delete=text_of(deletes) if as_text else deletes,
                strategy=strategy,
            )
            expected = (data - set(deletes)) | set(inserts)
            assert epoch.inserted == len(expected - data)
            assert epoch.deleted == len(data - expected)
            data = expected
            assert set(session.quads()) == data
            if kept and step % 6 == 5:
                if rng.random() < 0.5:
                    session.compact()
                session.close()
                session = sparqlive.Session(path, tuning=tuning)
            session.check()
    finally:
        session.close()


ALL_BY_COLUMNS = replace(DEFAULT, column_bytes=0)
MANY_QUADS = replace(DEFAULT, text_quads=1, largest_piece_rows=7)
"""Any list of quads is written as text, in several pieces, and read by columns."""


def test_many_quads_keep_their_terms() -> None:
    control = "".join(map(chr, (*range(32), 127, 0x85, 0x2028, 0xFEFF, 0xFFFE, 0x1F600)))
    terms = [
        *nasty_terms.TERMS,
        ox.Literal(control),
        ox.Literal("<<( a )>>"),
        ox.Literal("a", language="EN-GB"),
    ]
    quads = [ox.Quad(ox.BlankNode("b"), ox.NamedNode(f"{EX}p"), term) for term in terms]
    quads += [ox.Quad(quad.subject, quad.predicate, quad.object, ox.NamedNode(f"{EX}é")) for quad in quads]
    for given in (quads, [quad for quad in quads if "<<(" not in str(quad)]):
        with Session(tuning=MANY_QUADS) as session:
            assert session.apply(insert=[*given, *given]).inserted == len(given)
            assert set(session.quads()) == set(given)
            session.apply(insert="<urn:a> <urn:p> <urn:o> .")
            epoch = session.apply(delete=given)
            assert (epoch.deleted, len(session)) == (len(given), 1)


def test_many_quads_are_checked_like_few() -> None:
    good = ox.Triple(ox.NamedNode("urn:s"), ox.NamedNode("urn:p"), ox.Literal("o"))
    quads = [ox.Quad(*good, ox.NamedNode(f"urn:g{number}")) for number in range(20)]
    with Session(tuning=MANY_QUADS) as session:
        for bad in (ox.Quad(good.subject, good.predicate, good), "text", None):
            with pytest.raises(sparqlive.Error, match="triple term" if isinstance(bad, ox.Quad) else "quad"):
                session.apply(insert=[*quads, bad])  # type: ignore[list-item]
        with pytest.raises(sparqlive.Error, match="reserved"):
            session.apply(insert=[*quads, ox.Quad(*good, ox.NamedNode("view:v"))])
        assert len(session) == 0
        assert session.apply(insert=[*quads, good]).inserted == 21, "a triple may be among quads"
        epoch = session.apply(delete=quads, insert=quads[:5])
        assert (epoch.deleted, epoch.inserted, epoch.ignored) == (15, 0, 10)


def test_a_large_file_is_read_by_columns(tmp_path: Path) -> None:
    rng = random.Random(4)
    quads = [random_quad(rng) for _ in range(60)]
    named = [quad for quad in quads if not isinstance(quad.subject, ox.BlankNode)]
    (tmp_path / "a.nq").write_text(text_of(named))
    (tmp_path / "b.ttl").write_text("<urn:a> <urn:p> 1, 2 .")
    with Session(tuning=ALL_BY_COLUMNS) as session:
        view = session.view("distinct", VIEWS["distinct"])
        epoch = session.load([tmp_path / "a.nq", tmp_path / "b.ttl"])
        assert epoch.inserted == len(set(named)) + 2
        assert {str(quad) for quad in session.quads()} >= {str(quad) for quad in named}
        assert len(view) > 0
        session.check()
        (tmp_path / "c.nt").write_text("<urn:a> <urn:p> 1 .\nnonsense\n")
        with pytest.raises(sparqlive.SyntaxError, match=r"c\.nt"):
            session.load(tmp_path / "c.nt")
        assert session.epoch == epoch.number


@pytest.mark.parametrize("ingests", [False, True])
def test_sums_over_terms_in_files_and_in_memory(ingests: bool, tmp_path: Path) -> None:
    def order(number: int) -> list[ox.Quad]:
        subject = ox.NamedNode(f"urn:s{number}")
        value = ox.Quad(subject, ox.NamedNode("urn:value"), ox.Literal(number))
        return [value, ox.Quad(subject, ox.NamedNode("urn:in"), ox.NamedNode("urn:g"))]

    query = "SELECT ?g (SUM(?v) AS ?total) { ?s <urn:in> ?g ; <urn:value> ?v } GROUP BY ?g"
    with Session(tmp_path / "store", tuning=replace(DEFAULT, worker_bytes=0)) as session:
        quads = [quad for number in range(9) for quad in order(number)]
        if ingests:
            (tmp_path / "data.nq").write_text(text_of(quads))
            session.load(tmp_path / "data.nq")
        else:
            session.apply(insert=quads)
            session.compact()
        session.apply(insert=order(9))
        view = session.view("sums", query, strategy="duckdb")
        assert [total for _, total in view.weights()] == [ox.Literal(45)]
        session.apply(insert=order(10), strategy="duckdb")
        assert [total for _, total in view.weights()] == [ox.Literal(55)]
        session.check()


@pytest.mark.parametrize("nothing", ["", (), []])
def test_one_large_text_is_read_by_columns(
    monkeypatch: pytest.MonkeyPatch, nothing: str | list[ox.Quad]
) -> None:
    """Whatever stands for no changes on the other side."""
    monkeypatch.setattr(batches, "encode_changes", None)  # rows are not read one by one
    text = text_of([random_quad(random.Random(number)) for number in range(20)])
    with Session(tuning=ALL_BY_COLUMNS) as session:
        inserted = session.apply(insert=text, delete=nothing)
        deleted = session.apply(delete=text, insert=nothing)
        assert inserted.inserted == deleted.deleted > 10


def test_malformed_text_changes_nothing() -> None:
    with Session(tuning=ALL_BY_COLUMNS) as session:
        for text in ("<urn:a> <urn:p> nonsense .", "<urn:a> <urn:p> <urn:o>", '"a" <urn:p> <urn:o> .'):
            with pytest.raises(sparqlive.SyntaxError, match="malformed"):
                session.apply(insert=f"<urn:s> <urn:p> <urn:o> .\n{text}\n")
        with pytest.raises(sparqlive.InvalidChange):
            session.apply(insert="<urn:a> <urn:p> <<( <urn:a> <urn:b> <urn:c> )>> .\n")
        with pytest.raises(sparqlive.InvalidChange, match="view"):
            session.apply(insert="<urn:s> <urn:p> <urn:o> <view:v> .\n<urn:s> <urn:p> <urn:o> .\n")
        assert list(session.quads()) == []
        assert session.epoch == 0


def test_texts_whose_hash_is_taken_give_way() -> None:
    """With hashes of two bits nearly all terms are exceptions, by columns as row by row."""
    few = lambda text: dictionary.hash_of(text) % 4 + 10  # noqa: E731
    terms = dictionary.Dictionary(few)
    texts = [f"<urn:{number}>" for number in range(30)]
    hashes = np.array([few(text) for text in texts], dtype=np.int64)
    first = terms.enter_columns(hashes, pa.array(texts))
    assert len(set(first.tolist())) == 30
    assert [terms.text(number) for number in first.tolist()] == texts
    assert (
        terms.enter_columns(hashes, pa.array(texts)).tolist()
        == first.tolist()
        == [terms.enter(text) for text in texts]
    )


@pytest.mark.parametrize("name", ["empty.ttl", "empty.trig", "empty.nt", "empty.nq"])
@pytest.mark.parametrize("least", [DEFAULT.worker_bytes, 1], ids=["here", "by workers"])
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])
def test_a_large_file_without_statements(tmp_path: Path, kept: bool, least: int, name: str) -> None:
    tuning = replace(DEFAULT, worker_bytes=least)
    file = tmp_path / name
    file.write_text("# nothing yet\n" * (DEFAULT.column_bytes // 10))
    with Session(tmp_path / "store" if kept else None, tuning=tuning) as session:
        assert session.load(file).inserted == 0
        session.apply(insert=f"<{EX}s> <{EX}p> <{EX}o> .")
        assert session.load(file).inserted == 0
        assert len(session) == 1
