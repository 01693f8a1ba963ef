"""Compaction: only what changed is written anew, in the background, and nothing that is read changes."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import compactor, runs, term_runs
from sparqlive.store.place import Place
from tests.oracle import Oracle
from tests.store.test_store import EX, QUERIES, quad, query
from tests.tuned import tune


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of few rows, so that relations have many."""
    monkeypatch.setattr(runs, "ROWS_PER_GROUP", 3)
    tune(monkeypatch, catalog_rows=3, file_rows=7)


def many(rng: random.Random) -> ox.Quad:
    subject, object_ = (ox.NamedNode(f"{EX}n{rng.randrange(40)}") for _ in range(2))
    graph = rng.choice((ox.DefaultGraph(), ox.NamedNode(f"{EX}g")))
    predicate = rng.choice("ppppqr")
    return ox.Quad(subject, ox.NamedNode(EX + predicate), object_, graph)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(("seed", "by_ranges"), [(0, False), (1, False), (2, True), (3, True)])
def test_any_sequence_of_changes_and_compactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, by_ranges: bool
) -> None:
    rng = random.Random(seed)
    if by_ranges:
        tune(monkeypatch, range_rows=10)
    data: set[ox.Quad] = set()
    session = sparqlive.open(tmp_path / "store")
    for name in ("optional", "distinct", "product"):
        session.view(name, query(name))
    for step in range(12):
        for _ in range(rng.randrange(3)):
            come = {many(rng) for _ in range(rng.choice((1, 5, 60)))} - data
            there = sorted(data, key=str)
            gone = set(rng.sample(there, min(rng.choice((0, 2, 80)), len(there))))
            session.apply(insert=come, delete=gone)
            data = (data - gone) | come
        session.compact()
        if step % 3 == 2:
            session.close()
            session = sparqlive.open(tmp_path / "store")
        assert set(session.quads()) == data
        assert len(session) == len(data)
        for name, view in session.views.items():
            assert view.weights() == Oracle(data).weights(query(name), view.variables)
        answer = session.query(query("path"))  # reads what is left on disk
        assert answer.weights() == Oracle(data).weights(query("path"), answer.variables)
    session.check()
    session.close()
    assert all(
        pq.read_metadata(file).num_rows <= 7 for file in (tmp_path / "store" / "runs").rglob("quads-0*")
    )


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("by_ranges", [False, True])
def test_files_that_no_change_falls_into_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_ranges: bool
) -> None:
    if by_ranges:
        tune(monkeypatch, range_rows=7)
    with sparqlive.open(tmp_path / "store") as session:
        session.load(
            [ox.Quad(ox.NamedNode(f"{EX}n{n}"), ox.NamedNode(f"{EX}p"), ox.Literal(n)) for n in range(70)]
        )
        session.compact()
        before = {(file, file.stat().st_ino) for file in (tmp_path / "store" / "runs").rglob("quads-0*")}
        assert len(before) == 10
        session.apply(insert=[ox.Quad(ox.NamedNode(f"{EX}new"), ox.NamedNode(f"{EX}p"), ox.Literal(1))])
        session.compact()
        after = {(file, file.stat().st_ino) for file in (tmp_path / "store" / "runs").rglob("quads-0*")}
        assert len(after & before) == 9
        assert len(session) == 71
        session.check()


def test_in_the_background_while_changes_go_on(tmp_path: Path) -> None:
    rng = random.Random(11)
    data: set[ox.Quad] = set()
    begun = 0
    tuning = replace(DEFAULT, compacted_rows=40, catalog_rows=3, file_rows=7)
    with sparqlive.Session(tmp_path / "store", history_epochs=20, tuning=tuning) as session:
        for name in QUERIES:
            session.view(name, query(name))
        for _ in range(150):
            come = {quad(rng) for _ in range(3)} - data
            gone = set(rng.sample(sorted(data, key=str), min(2, len(data))))
            session.apply(insert=come, delete=gone)
            data = (data - gone) | come
            begun += any(thread.name == "sparqlive-compact" for thread in threading.enumerate())
        assert begun
        assert set(session.quads()) == data
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        assert set(session.quads()) == data
        session.check()
        assert session.views["optional"].changes(since=0).__next__().reset


@pytest.mark.parametrize(("memory", "folds"), [("4GB", False), (30_000, True)])
def test_changes_that_would_fill_the_memory_are_folded(tmp_path: Path, memory: Any, folds: bool) -> None:
    """They are far less than an eighth of the quads, which are in files."""
    with sparqlive.open(tmp_path / "store") as session:
        session.load(
            [ox.Quad(ox.NamedNode(f"{EX}n{n}"), ox.NamedNode(f"{EX}p"), ox.Literal(n)) for n in range(2_000)]
        )
        session.compact()
    tuning = replace(DEFAULT, compacted_rows=40)
    with sparqlive.Session(tmp_path / "store", memory=memory, tuning=tuning) as session:
        for n in range(60):
            session.apply(
                insert=[ox.Quad(ox.NamedNode(f"{EX}n{n}"), ox.NamedNode(f"{EX}p"), ox.Literal("new"))]
            )
        store = session._writer.persistence.store  # type: ignore[union-attr]
        session._writer.persistence.compactor.wait()  # type: ignore[union-attr]
        assert (store.catalog.change_rows(store.quads_epoch()) < 60) == folds
        session.check()


def test_a_relation_that_is_dropped_meanwhile_stays_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the folding and the transaction that names the result, the view goes and comes again."""
    tune(monkeypatch, catalog_rows=0)
    rng = random.Random(12)
    with sparqlive.open(tmp_path / "store") as session:
        session.load({quad(rng) for _ in range(20)})
        session.view("optional", query("optional"))
        session.apply(insert={quad(rng) for _ in range(10)})
        install = compactor.Compactor._install

        def late(*given: Any) -> None:
            session.drop("optional")
            session.view("distinct", query("distinct"))
            session.apply(insert={quad(rng) for _ in range(10)})
            session.view("optional", query("optional"))
            install(*given)

        monkeypatch.setattr(compactor.Compactor, "_install", late)
        session.compact()
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        session.check()
        assert set(session.views) == {"optional", "distinct"}


def test_merging_terms_reads_no_more_of_them_than_a_file_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, file_rows=600)
    read: list[int] = []

    def counted(place: Place, run: runs.RunFile) -> TermColumns:
        read.append(run.rows)
        return runs.read_terms(place, run)

    monkeypatch.setattr(term_runs, "read_terms", counted)
    with sparqlive.open(tmp_path / "store") as session:
        for batch in range(12):
            names = (ox.NamedNode(f"{EX}{batch}-{n}") for n in range(100))
            session.apply(insert=[ox.Quad(name, ox.NamedNode(f"{EX}p"), name) for name in names])
            read.clear()
            session.compact()
            assert sum(read) <= 300
        assert len(session) == 1_200
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        assert len({quad.subject for quad in session.quads()}) == 1_200
