"""The store's directory: what is there after closing and opening again, and what is refused."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

import sparqlive
from tests.fixture_format import Fixture, last_words
from tests.oracle import Oracle, add
from tests.test_fixtures import KEPT
from tests.tuned import tune

EX = "http://example.org/"
QUERIES = {
    "optional": "SELECT ?x ?y { ?x :p ?y OPTIONAL { ?y :q ?z } }",
    "distinct": "SELECT DISTINCT ?x { ?x :p/:p ?y }",
    "stored": "SELECT ?x ?z { ?x :p ?y OPTIONAL { ?y :q ?z } ?z :p ?x }",
    "product": "SELECT ?x ?y { ?x :q :n1 . ?y :p :n2 }",
    "path": "SELECT ?x ?y { ?x :p? ?y }",
    "computed": "SELECT ?x (STRLEN(STR(?y)) AS ?n) { ?x :p ?y FILTER NOT EXISTS { ?y :q ?x } }",
}


def query(name: str) -> str:
    return f"PREFIX : <{EX}> {QUERIES[name]}"


def quad(rng: random.Random) -> ox.Quad:
    node = [ox.NamedNode(f"{EX}n{rng.randrange(7)}") for _ in range(2)]
    graph = rng.choice((ox.DefaultGraph(), ox.DefaultGraph(), ox.NamedNode(f"{EX}g")))
    return ox.Quad(node[0], ox.NamedNode(EX + rng.choice("pq")), node[1], graph)


@pytest.mark.parametrize("small", [0, 10_000], ids=["files", "catalog"])
def test_everything_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    tune(monkeypatch, catalog_rows=small)
    rng = random.Random(3)
    data: set[ox.Quad] = set()
    for round_ in range(10):
        with sparqlive.open(tmp_path / "store") as session:
            assert set(session.quads()) == data
            assert session.epoch == round_ * 4
            session.check()
            for name in list(QUERIES)[: round_ + 1]:
                session.view(name, query(name))
            for _ in range(4):
                come = {quad(rng) for _ in range(5)} - data
                gone = set(rng.sample(sorted(data, key=str), min(3, len(data))))
                session.apply(insert=come, delete=gone)
                data = (data - gone) | come
            session.check()
            for name, view in session.views.items():
                assert view.weights() == Oracle(data).weights(query(name), view.variables)
            if round_ % 3 == 2:
                session.compact()
            if round_ == 6:
                session.drop("stored")


@pytest.mark.parametrize("fixture", KEPT, ids=lambda f: f.name)
def test_fixtures_with_the_store_reopened_between_epochs(fixture: Fixture, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sparqlive.open(path, default_graph=fixture.default_graph) as session:
        session.load(fixture.data)
        total = session.view("view", fixture.text).weights()
    for epoch in fixture.epochs:
        with sparqlive.open(path, default_graph=fixture.default_graph) as session:
            assert session.views["view"].weights() == total
            insert, delete = last_words(epoch.changes)
            total = add(total, session.apply(insert=insert, delete=delete).deltas["view"].weights())
            session.check()


def test_views_are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.load([ox.Quad(ox.NamedNode(EX + "a"), ox.NamedNode(EX + "p"), ox.Literal(1))])
        session.view("optional", query("optional"))
        session.view("distinct", query("distinct"))
    monkeypatch.setattr("sparqlive.live.compiled_plan.CompiledPlan.compute", None)
    with sparqlive.open(tmp_path / "store") as session:
        assert len(session.views["optional"]) == 1


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store"):
        code = f"import sparqlive; sparqlive.open({str(tmp_path / 'store')!r})"
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert second.returncode != 0
        assert "is open for writing in process" in second.stderr


def test_a_store_of_another_format_is_refused(tmp_path: Path) -> None:
    sparqlive.open(tmp_path / "store").close()
    with sqlite3.connect(tmp_path / "store" / "catalog.sqlite") as database:
        database.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    database.close()
    with pytest.raises(sparqlive.Error, match="format 99"):
        sparqlive.open(tmp_path / "store")


def test_a_store_keeps_to_its_default_graph(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", default_graph="union") as session:
        session.view("all", "SELECT ?s { ?s ?p ?o }")
        session.apply(insert="<urn:a> <urn:p> <urn:b> <urn:g> .")
    with pytest.raises(sparqlive.Error, match="default graph 'union'"):
        sparqlive.open(tmp_path / "store", default_graph="strict")
    with sparqlive.open(tmp_path / "store") as session:
        assert session.default_graph == "union"
        session.apply(insert="<urn:c> <urn:p> <urn:b> <urn:g> .")
        assert len(session.views["all"]) == 2
        session.check()


def test_files_that_the_catalog_does_not_name_are_removed(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.load([quad(random.Random(1)) for _ in range(5)])
        session.compact()
    (attempt,) = (tmp_path / "store" / "runs").iterdir()
    mark = attempt.name.partition("-")[0]
    orphan = attempt.with_name(f"{mark}-18a2-4-1") / "quads-0.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"half written")
    with sparqlive.open(tmp_path / "store") as session:
        assert not orphan.exists()
        session.check()


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.load([quad(random.Random(1)) for _ in range(5)])
        session.compact()
    for file in (tmp_path / "store" / "runs").rglob("quads*.parquet"):
        file.unlink()
    with pytest.raises(sparqlive.Error, match=r"quads-00000\.parquet"):
        sparqlive.open(tmp_path / "store")


def test_runs_are_parquet_that_others_read(tmp_path: Path) -> None:
    data = {quad(random.Random(seed)) for seed in range(20)}
    with sparqlive.open(tmp_path / "store") as session:
        session.load(data)
        session.compact()
        ids = {str(term): session.dictionary.id_of(term) for q in data for term in (q.subject, q.object)}
    (quads_file,) = (tmp_path / "store" / "runs").rglob("quads*.parquet")
    (terms_file,) = (tmp_path / "store" / "runs").rglob("terms*.parquet")
    table = pq.read_table(quads_file)
    assert table.column_names == ["s", "p", "o", "g"]
    assert table.num_rows == len(data)
    terms = pq.read_table(terms_file).to_pydict()
    known = dict(zip(terms["term"], terms["id"], strict=True))
    assert {text: known[text] for text in ids} == ids


def test_a_batch_of_a_stream_is_applied_once(tmp_path: Path) -> None:
    first, second = quad(random.Random(1)), quad(random.Random(2))
    with sparqlive.open(tmp_path / "store") as session:
        assert session.apply(insert=[first], batch=("orders", 0)).number == 1
        assert session.apply(delete=[second], batch=("orders", 1)).number == 1
    with sparqlive.open(tmp_path / "store") as session:
        assert session.apply(delete=[first], batch=("orders", 0)).inserted == 0
        assert session.apply(insert=[second], batch=("orders", 1)).number == 1
        assert set(session.quads()) == {first}
        assert session.apply(insert=[second], batch=("orders", 2)).number == 2


@pytest.mark.parametrize("again", [False, True], ids=["reopened", "registered"])
def test_a_failed_view_is_computed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    one, two = quad(random.Random(1)), quad(random.Random(2))
    with sparqlive.open(tmp_path / "store") as session:
        session.view("all", "SELECT ?s ?o { ?s ?p ?o }")
        session.apply(insert=[one])

        def fails(*_: object) -> None:
            raise ArithmeticError("out of luck")

        with monkeypatch.context() as patch:
            patch.setattr("sparqlive.live.compiled_plan.CompiledPlan.delta", fails)
            session.apply(insert=[two])
        with pytest.raises(sparqlive.ViewFailed, match="out of luck"):
            session.views["all"].weights()
        if again:  # as its message says
            session.view("all", "SELECT ?s ?o { ?s ?p ?o }")
            session.check()
            assert len(session.views["all"]) == 2
    with sparqlive.open(tmp_path / "store") as session:
        assert set(session.quads()) == {one, two}
        session.check()
        assert session.views["all"].weights()


@pytest.mark.parametrize("number", [0, 1, 2**31, 2**32 + 7, 2**62, 2**63 - 1])
def test_numbers_of_batches_may_be_as_large_as_the_catalog_holds(tmp_path: Path, number: int) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.apply(insert="<a:a> <a:p> <a:b> .", batch=("stream", number))
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        session.apply(insert="<a:c> <a:p> <a:b> .", batch=("stream", number))
        assert len(session) == 1, "the batch was committed before"
        session.check()
