"""Commits with files: large logs, deltas and lists of terms, and files that others wrote."""

from __future__ import annotations

import gc
import random
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparqlive
from sparqlive.rdf import dictionary as dictionary_module
from sparqlive.rdf.columns import Encoder, Ids
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, hash_of
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.columns import NAMES, has_types, term_table, typed
from sparqlive.store import runs
from sparqlive.store.commits import Commit
from sparqlive.store.locks import Lease
from sparqlive.store.place import LocalPlace
from sparqlive.store.seeking import Readers
from sparqlive.store.store import Store
from sparqlive.store.term_maps import TermMaps
from tests.store.test_history import Weights, change, contents
from tests.store.test_store import QUERIES, quad, query
from tests.tuned import tune


def files(path: Path, name: str = "*") -> set[str]:
    return {file.name for file in (path / "runs").rglob(f"{name}.parquet")}


def test_small_epochs_write_no_files(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.view("optional", query("optional"))
        for seed in range(5):
            change(session, random.Random(seed))
    assert not files(tmp_path / "store")


def test_history_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, catalog_rows=2, file_rows=3)
    rng = random.Random(5)
    seen: dict[int, dict[str, Weights]] = {}
    path = tmp_path / "store"
    for round_ in range(4):
        with sparqlive.open(path) as session:
            for name in QUERIES:
                session.view(name, query(name))
            session.apply(insert=[quad(rng) for _ in range(12)])
            for _ in range(2):
                seen[session.epoch] = contents(session)
                change(session, rng)
            if round_ % 2:
                session.compact()
        with sparqlive.open(path, read_only=True) as session:
            assert all(contents_at(session, epoch) == expected for epoch, expected in seen.items())
            session.check()
    assert len(files(path, "quads-delta-*")) > 3
    assert len(files(path, "*-rows-delta-*")) > 3
    assert files(path, "terms-*")


def test_closed_files_leave_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """It rests during an epoch, and a footer of a large file takes a megabyte."""
    place = LocalPlace(tmp_path, ".")
    numbers = np.arange(10)
    runs.write_rows(place, "rows.parquet", {"c0": numbers, "w": numbers})
    run = runs.described(place, "rows.parquet", "rows")
    gc.collect()
    gc.disable()
    try:
        before = footers_in_memory()
        with runs.verified(place, run) as file:
            assert file.read_groups([0], ["c0"]).num_rows == 10
            assert file.bounds("c0") == [(0, 0, 9)]
        low, high = Readers(place).of(run).find("c0", numbers[3:5])
        assert (low.tolist(), high.tolist()) == ([3, 4], [4, 5])
        del file
        assert footers_in_memory() == before
    finally:
        gc.enable()


def footers_in_memory() -> int:
    return sum(isinstance(found, pq.FileMetaData) for found in gc.get_objects())


def contents_at(session: sparqlive.Session, epoch: int) -> dict[str, Weights]:
    return {name: view.weights(at=epoch) for name, view in session.views.items() if view.since <= epoch}


def test_files_of_expired_history_stay_while_a_reader_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, catalog_rows=1)
    path, rng = tmp_path / "store", random.Random(7)
    with sparqlive.open(path, history_epochs=2) as session:
        session.view("distinct", query("distinct"))
        for _ in range(6):
            change(session, rng)
        lease = Lease(path, session.epoch)
        before = set((path / "runs").rglob("*-delta-*"))
        session.compact()
        assert all(file.exists() for file in before)
        lease.release()
        change(session, rng)
        session.compact()
        assert not all(file.exists() for file in before)
        named = {run.path for run in session._writer.persistence.store.catalog.all_runs()}  # type: ignore[union-attr]
        left = {str(file.relative_to(path)) for file in (path / "runs").rglob("*-delta-*")}
        assert left <= named
        session.check()


KILLED = """
import os, random, sys
import sparqlive
from dataclasses import replace
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import store
from tests.store.test_store import quad
def killed(*_):
    os._exit(9)
with sparqlive.Session(sys.argv[1], tuning=replace(DEFAULT, catalog_rows=2)) as session:
    store.Store._register = killed
    session.apply(insert=[quad(random.Random(seed)) for seed in range(50, 90)])
"""


def test_files_of_a_commit_that_never_happened_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, catalog_rows=2)
    path = tmp_path / "store"
    with sparqlive.open(path) as session:
        session.view("optional", query("optional"))
        session.load([quad(random.Random(seed)) for seed in range(20)])
        expected, data = contents(session), set(session.quads())
    before = set((path / "runs").rglob("*"))
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == 9
    assert set((path / "runs").rglob("*")) > before
    with sparqlive.open(path) as session:
        assert set((path / "runs").rglob("*")) == before
        assert (contents(session), set(session.quads())) == (expected, data)
        session.check()


def test_a_failed_commit_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, catalog_rows=2)
    path = tmp_path / "store"
    with sparqlive.open(path) as session:
        session.view("optional", query("optional"))
        session.load([quad(random.Random(seed)) for seed in range(20)])
        expected, data = contents(session), set(session.quads())
        batch = [quad(random.Random(seed)) for seed in range(50, 90)]
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_register", _full)
            with pytest.raises(sparqlive.StoreFailed, match="No space left"):
                session.apply(insert=batch)
        assert (contents(session), set(session.quads())) == (expected, data)
        session.apply(insert=batch)
        session.check()


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


# Files that others wrote


def write(store: Store, folder: str, name: str, select: str, order: str) -> str:
    """Has DuckDB write a file, whose rows do not pass through Python."""
    target = store.place.path(f"{folder}/{name}.parquet")
    duckdb.sql(f"COPY (SELECT * FROM ({select}) ORDER BY {order}) TO '{target}' (FORMAT parquet)")
    return f"{name}.parquet"


def test_a_commit_of_files_that_others_wrote(tmp_path: Path) -> None:
    """An epoch whose log, delta of a view and new terms are files."""
    path = tmp_path / "store"
    with sparqlive.open(path) as session:
        view = session.view("all", "SELECT ?s ?o { ?s <urn:p> ?o }")
        session.apply(insert='<urn:s> <urn:p> "first" .')
        relation = view._state.content.name
    texts = ["<urn:p>", *(f"<urn:x{number}>" for number in range(1000))]
    p, *ids = map(hash_of, texts)
    pairs = ", ".join(f"({s}, {o})" for s, o in pairwise(ids))
    rows = f"SELECT * FROM (VALUES {pairs}) AS t(s, o)"
    store = Store(path)
    log = f"SELECT s, {p} AS p, o, {DEFAULT_GRAPH}::BIGINT AS g, 1::BIGINT AS w FROM ({rows})"
    view_rows = f"SELECT s AS c0, o AS c1, 1::BIGINT AS w FROM ({rows})"
    terms = ", ".join(f"({hash_of(text)}, '{text}')" for text in texts[1:])
    try:
        with store.attempt() as folder:
            made = [
                (write(store, folder, "log", log, "p, g, s, o"), runs.QUADS, 2),
                (write(store, folder, "view", view_rows, "c0, c1"), relation, 2),
                (
                    write(store, folder, "terms", f"FROM (VALUES {terms}) AS t(id, term)", "id"),
                    runs.TERMS,
                    None,
                ),
            ]
            described = store.describe(folder, made)
            assert [run.rows for run in described] == [999, 999, 1000]
            store.write(Commit(2, (999, 0), "duckdb", runs=described))
        assert store.parts(relation).row_count() == 1000
    finally:
        store.close()
    for _ in range(2):
        with sparqlive.open(path) as session:
            view = session.views["all"]
            assert (session.epoch, len(session), len(view)) == (2, 1000, 1000)
            (delta,) = view.changes(since=1)
            assert len(delta.weights()) == 999
            assert len(view.weights(at=1)) == 1
            session.check()
            session.compact()


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT 1::INTEGER AS c0, 2::BIGINT AS c1, 1::BIGINT AS w", "lacks the 64-bit column c0"),
        ("SELECT 1::BIGINT AS c0, 2::BIGINT AS c1", "lacks the 64-bit column w"),
        ("SELECT 1::BIGINT AS c0, 1::BIGINT AS w LIMIT 0", "has no rows"),
    ],
)
def test_a_file_that_cannot_be_a_run(tmp_path: Path, select: str, reason: str) -> None:
    store = Store(tmp_path / "store")
    try:
        with store.attempt() as folder:
            name = write(store, folder, "x", select, "c0")
            with pytest.raises(sparqlive.StoreFailed, match=reason):
                store.describe(folder, [(name, "some/rows", 1)])
    finally:
        store.close()


def test_a_run_that_the_catalog_lost_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta in files has no other row in the catalog."""
    tune(monkeypatch, catalog_rows=2)
    path = tmp_path / "store"
    with sparqlive.open(path) as session:
        session.view("optional", query("optional"))
        session.load([quad(random.Random(seed)) for seed in range(20)])
    shutil.copytree(path, tmp_path / "copy")
    with sqlite3.connect(path / "catalog.sqlite") as database:
        database.execute("DELETE FROM runs WHERE epoch = 1 AND relation LIKE '%/rows'")
    database.close()
    with pytest.raises(sparqlive.StoreFailed, match="rows of the table runs are missing"):
        sparqlive.open(path)


# Terms by columns


def few_bits(text: str) -> int:
    return hash_of(text) % 64 + 10


def few_ids(encoder: Encoder, texts: pa.StringArray) -> Ids:
    return np.array([encoder.exceptions.get(text, few_bits(text)) for text in texts.to_pylist()], np.int64)


@pytest.mark.parametrize("small", [3, 10_000])
def test_terms_of_texts_whose_ids_collide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """In term files or in the catalog, in memory or on disk: no two terms ever share an id."""
    monkeypatch.setattr(Encoder, "ids", few_ids)
    monkeypatch.setattr(
        "sparqlive.session.Dictionary",
        lambda tuning: dictionary_module.Dictionary(few_bits, tuning=replace(tuning, column_rows=1)),
    )
    monkeypatch.setattr("sparqlive.store.tables.hash_of", few_bits)
    path, rng = tmp_path / "store", random.Random(small)
    data: set[str] = set()
    for round_ in range(6):
        with sparqlive.Session(path, tuning=replace(DEFAULT, column_bytes=0, catalog_rows=small)) as session:
            session.view("all", "SELECT ?s ?o { ?s <urn:p> ?o }")
            for _ in range(3):
                lines = {f"<urn:{rng.randrange(60)}> <urn:p> <urn:{rng.randrange(60)}> .\n" for _ in range(8)}
                session.apply(insert="".join(sorted(lines)))
                data |= lines
            if round_ == 3:
                session.compact()
            assert {f"{quad} .\n" for quad in session.quads()} == data
            assert len(session.views["all"]) == len(data)
            numbers = dict(session.dictionary.exceptions)
            assert len(numbers) == len(set(numbers.values()))
            session.check()
    with sparqlive.open(path, read_only=True) as session:
        assert {f"{quad} .\n" for quad in session.quads()} == data
        session.check()


def test_terms_that_came_by_columns_leave_memory_with_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, catalog_rows=300)
    with sparqlive.open(tmp_path / "store") as session:
        terms = session.dictionary
        for start in range(0, 4_000, 1_000):
            text = "".join(f'<urn:s{start + n}> <urn:p> "{start + n} {"x" * 200}" .\n' for n in range(1_000))
            session.apply(insert=text)
            assert len(terms) < 10
        session.apply(insert="<urn:few> <urn:p> <urn:s1> .")
        assert len(files(tmp_path / "store", "terms-*")) == 1  # one name, in each attempt's folder
        found = session.query("SELECT ?o { <urn:s2999> <urn:p> ?o }").weights()
        assert [str(row[0])[:6] for row in found] == ['"2999 ']
        session.compact()
        session.apply(delete="<urn:few> <urn:p> <urn:s1> .")
        assert len(session) == 4_000
        session.check()


# Typed columns of terms


def typed_files(path: Path) -> list[pa.Table]:
    """The tables of all term files, whose typed columns are compared with their definition."""
    found = [pq.read_table(file) for file in sorted((path / "runs").rglob("terms*/*.parquet"))]
    found += [pq.read_table(file) for file in sorted((path / "runs").rglob("terms-*.parquet"))]
    for table in found:
        assert has_types(table.schema)
        texts = table.column("term").combine_chunks()
        assert table.select(NAMES).to_pylist() == pa.Table.from_struct_array(typed(texts)).to_pylist()
    return found


def test_term_files_have_typed_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a load, an epoch and a compaction write."""
    path = tmp_path / "store"
    lines = [f'<urn:s{n}> <urn:p> "{n}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n' for n in range(90)]
    (tmp_path / "data.nt").write_text("".join(lines[:30]))
    with sparqlive.Session(
        path, tuning=replace(DEFAULT, worker_bytes=0, column_bytes=0, catalog_rows=20)
    ) as session:
        session.load(tmp_path / "data.nt")
        sums = session.view("sums", "SELECT (SUM(?v) AS ?sum) { ?s <urn:p> ?v FILTER(?v > 10) }")
        session.apply(insert="".join(lines[30:60]), strategy="duckdb")
        session.apply(insert="".join(lines[60:]), strategy="duckdb")
        assert len(typed_files(path)) >= 2
        session.compact()
        assert typed_files(path)
        assert [row[0].value for row in sums.weights()] == [str(sum(range(11, 90)))]


@pytest.mark.parametrize("version", ["0", None])
def test_typed_columns_of_another_version_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    table = term_table(
        pa.array([7]), pa.array(['"1"^^<http://www.w3.org/2001/XMLSchema#integer>'], pa.large_string())
    )
    other = table.set_column(table.schema.get_field_index("whole"), "whole", pa.array([5], pa.int64()))
    metadata = None if version is None else {b"sparqlive.typed": version.encode()}
    place = LocalPlace(tmp_path, ".")

    def read(name: str, written: pa.Table) -> pa.Table:
        pq.write_table(written, tmp_path / name)
        return TermMaps(place, tmp_path).file(runs.described(place, f"./{name}", runs.TERMS)).table()

    assert read("other.parquet", other.replace_schema_metadata(metadata)).equals(table)
    assert read("this.parquet", other).column("whole").to_pylist() == [5]
