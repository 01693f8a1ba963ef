"""Where a store is created, and what it removes: only what is its own."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparqlive
from sparqlive.store import head, place, runs, seals
from sparqlive.store import store as store_module
from tests.store.test_store import quad, query
from tests.tuned import tune


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with runs of all kinds, closed."""
    tune(monkeypatch, catalog_rows=2)
    with sparqlive.open(tmp_path / "store") as session:
        session.view("optional", query("optional"))
        session.load({quad(random.Random(seed)) for seed in range(30)})
        session.compact()
        session.apply(insert=[quad(random.Random(99))])
    return tmp_path / "store"


def everything_below(path: Path) -> dict[str, bytes | None]:
    return {
        str(file.relative_to(path)): file.read_bytes() if file.is_file() else None
        for file in path.rglob("*")
        if file.name not in ("writer.lock", "head")
    }


# Where a store may be created


@pytest.mark.parametrize(
    "foreign",
    [
        "runs/exp1/metrics.csv",
        "runs/model.bin",
        "notes.txt",
        "data.nt",
        "leases.txt",
        "src/main.py",
        "Catalog.db",
        "writer.lock",
        "writer.lock/mine",
        "catalog.new",
    ],
)
def test_a_directory_with_something_else_in_it_is_refused_and_left(tmp_path: Path, foreign: str) -> None:
    (tmp_path / "p" / foreign).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "p" / foreign).write_text("mine")
    before = everything_below(tmp_path)
    with pytest.raises(sparqlive.StoreFailed, match="is not a store, and it is not empty") as told:
        sparqlive.open(tmp_path / "p")
    assert foreign.split("/")[0] in str(told.value)
    assert everything_below(tmp_path) == before
    assert {path.name for path in (tmp_path / "p").iterdir()} == {foreign.split("/")[0]}


def test_an_empty_folder_in_runs_is_somebodys(tmp_path: Path) -> None:
    (tmp_path / "p" / "runs" / "exp1").mkdir(parents=True)
    with pytest.raises(sparqlive.StoreFailed, match="runs/exp1"):
        sparqlive.open(tmp_path / "p")
    assert (tmp_path / "p" / "runs" / "exp1").is_dir()


def test_a_link_named_runs_is_somebodys(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "exp1").mkdir(parents=True)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(sparqlive.StoreFailed, match="runs/exp1"):
        sparqlive.open(tmp_path / "p")


@pytest.mark.parametrize(
    "left", [".DS_Store", "lost+found/", ".git/", "notes.txt~", "Thumbs.db", ".x.swp", "runs/"]
)
def test_what_systems_and_editors_leave_is_no_reason_to_refuse(tmp_path: Path, left: str) -> None:
    path = tmp_path / "p" / left
    path.mkdir(parents=True) if left.endswith("/") else (path.parent.mkdir(), path.write_bytes(b"x"))
    with sparqlive.open(tmp_path / "p") as session:
        session.load([quad(random.Random(1))])
        session.compact()
    with sparqlive.open(tmp_path / "p") as session:
        assert len(session) == 1
    assert path.exists()


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("mine")
    for read_only in (False, True):
        with pytest.raises(sparqlive.StoreFailed, match="is a file"):
            sparqlive.open(tmp_path / "p", read_only=read_only)
    assert (tmp_path / "p").read_text() == "mine"


@pytest.mark.parametrize(
    ("new", "lock"),
    [
        (b"SQLite format 3\0half", b"process 12 on host"),
        (b"", b""),
        (bytes(4096), bytes(20)),
        (b"SQL", b"pro"),
    ],
)
def test_creating_that_was_interrupted_is_taken_up(tmp_path: Path, new: bytes, lock: bytes) -> None:
    path = tmp_path / "p"
    path.mkdir()
    for name in ("catalog.new-wal", "catalog.new-journal", "tokens.json", "audit.jsonl"):
        (path / name).write_bytes(b"half")
    (path / "catalog.new").write_bytes(new)
    (path / "writer.lock").write_bytes(lock)
    with sparqlive.open(path) as session:
        session.check()
    assert not list(path.glob("catalog.new*"))
    assert (path / "tokens.json").read_bytes() == b"half"


# A store without its catalog


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
@pytest.mark.parametrize("harm", [Path.unlink, emptied])
@pytest.mark.parametrize("kept", [("runs", "head"), ("runs",), ("head",)], ids="+".join)
def test_runs_without_their_catalog(
    made: Path, harm: Callable[[Path], None], kept: tuple[str, ...], read_only: bool
) -> None:
    harm(made / "catalog.sqlite")
    for name in {"runs", "head"} - {*kept}:
        shutil.rmtree(made / name) if (made / name).is_dir() else (made / name).unlink()
    before = everything_below(made)
    for _ in range(2):
        with pytest.raises(
            sparqlive.StoreFailed, match=r"The catalog of the store .* is (missing|empty)"
        ) as told:
            sparqlive.open(made, read_only=read_only)
        assert "Restore catalog.sqlite" in str(told.value)
        assert everything_below(made) == before


def test_the_log_of_a_catalog_that_is_missing(made: Path) -> None:
    for path in made.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (made / "catalog.sqlite-wal").write_bytes(b"frames")
    with pytest.raises(sparqlive.StoreFailed, match=r"its log catalog\.sqlite-wal exists"):
        sparqlive.open(made)


@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
def test_runs_beside_a_catalog_that_is_as_new(tmp_path: Path, read_only: bool) -> None:
    """A copy of a store that was open, without the log and the head."""
    path, copy = tmp_path / "store", tmp_path / "copy"
    with sparqlive.open(path) as session:
        session.load({quad(random.Random(seed)) for seed in range(30)})
        session.compact()
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("*-shm", "*-wal", "head", "leases"))
    before = everything_below(copy)
    for _ in range(2):
        with pytest.raises(sparqlive.StoreFailed, match=r"catalog\.sqlite-wal and head are missing"):
            sparqlive.open(copy, read_only=read_only)
        assert {name for name in everything_below(copy) if name.endswith(".parquet")} == {
            name for name in before if name.endswith(".parquet")
        }
    shutil.rmtree(copy / "runs")
    with sparqlive.open(copy) as session:
        assert len(session) == 0


@pytest.mark.parametrize(
    "content",
    [b"some text", bytes(5000), b"SQLite format 3\0", None],
    ids=["text", "zeros", "cut", "another database"],
)
@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
def test_beside_a_catalog_that_is_none_nothing_is_put(
    tmp_path: Path, content: bytes | None, read_only: bool
) -> None:
    if content is None:
        with sqlite3.connect(tmp_path / "catalog.sqlite") as database:
            database.execute("CREATE TABLE mine (x)")
        database.close()
    else:
        (tmp_path / "catalog.sqlite").write_bytes(content)
    before = (tmp_path / "catalog.sqlite").read_bytes()
    with pytest.raises(sparqlive.StoreFailed, match=r"catalog.* is damaged"):
        sparqlive.open(tmp_path, read_only=read_only)
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.sqlite"]
    assert (tmp_path / "catalog.sqlite").read_bytes() == before


@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
def test_a_catalog_behind_a_link_is_another_stores(made: Path, tmp_path: Path, read_only: bool) -> None:
    """Two processes could write it, each with a lock of its own."""
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "catalog.sqlite").symlink_to(made / "catalog.sqlite")
    with pytest.raises(sparqlive.StoreFailed, match=r"is a link to .*Use the directory"):
        sparqlive.open(tmp_path / "linked", read_only=read_only)
    assert len([*(tmp_path / "linked").iterdir()]) == 1


def test_a_store_behind_a_link_is_that_store(made: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(made)
    with sparqlive.open(tmp_path / "linked") as session:
        assert len(session)
        with pytest.raises(sparqlive.StoreFailed, match="open for writing"):
            sparqlive.open(made)


def test_another_database_in_the_catalogs_place(made: Path) -> None:
    (made / "catalog.sqlite").unlink()
    with sqlite3.connect(made / "catalog.sqlite") as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    before = everything_below(made)
    with pytest.raises(sparqlive.StoreFailed, match="does not state its format"):
        sparqlive.open(made)
    assert everything_below(made) == before


# What is removed


@pytest.mark.parametrize("where", ["local", "address", "remote"])
def test_only_what_carries_the_mark_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "remote":
        monkeypatch.setattr(store_module, "place_at", place.RemotePlace)
    path, runs = tmp_path / "store", None if where == "local" else (tmp_path / "far").as_uri()
    with sparqlive.open(path, runs=runs) as session:
        session.load([quad(random.Random(seed)) for seed in range(5)])
        session.compact()
    (file,) = tmp_path.rglob("quads*.parquet")
    folder = file.parent.parent
    mark = file.parent.name.partition("-")[0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.parquet").write_bytes(b"mine")
    foreign = [
        folder / "exp1" / "a.parquet",
        folder / "18e898f732a6cd2d-77-1" / "quads-00000.parquet",
        folder / f"{mark}.txt",
        folder / f"x{mark}-1-1-1" / "a",
        folder / f"{mark}-1-1-1.bak" / "quads-00000.parquet",
        folder / f"{mark}-1-1-1 (copy)" / "quads-00000.parquet",
        folder / mark / "quads-00000.parquet",
        folder / ".DS_Store",
        folder / "notes.txt",
        file.parent / ".DS_Store",
        path / "leases" / "notes.txt",
        path / "leases" / "folder" / "x",
    ]
    for other in foreign:
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(b"mine")
    (folder / "link").symlink_to(tmp_path / "mine")
    (folder / f"{mark}-link").symlink_to(tmp_path / "mine")
    (folder / "broken").symlink_to(tmp_path / "nowhere")
    orphan = folder / f"{mark}-1-1-1" / "quads-00000.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"half written")
    (orphan.parent / "link").symlink_to(tmp_path / "mine")
    for _ in range(2):
        with sparqlive.open(path) as session:
            session.apply(insert=[quad(random.Random(session.epoch + 100))])
            session.compact()
            session.check()
    assert not orphan.exists()
    assert all(other.read_bytes() == b"mine" for other in foreign)
    assert (tmp_path / "mine" / "a.parquet").read_bytes() == b"mine"
    assert (folder / "link").is_symlink()
    assert (folder / "broken").is_symlink()
    with sparqlive.open(path, read_only=True) as reader:
        reader.check()


def test_a_store_does_not_remove_the_runs_of_another(made: Path, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "other") as session:
        session.load([quad(random.Random(7))])
        session.compact()
    shutil.copytree(tmp_path / "other" / "runs", made / "runs", dirs_exist_ok=True)
    others = {path.name for path in (tmp_path / "other" / "runs").iterdir()}
    with sparqlive.open(made) as session:
        session.compact()
        session.check()
    assert others <= {path.name for path in (made / "runs").iterdir()}


# Stores of the formats before


def _state_format(path: Path, number: int) -> None:
    """Writes another format into a catalog, with its seal."""
    seal = seals.seal_of("meta", ("format", str(number)))
    with sqlite3.connect(path / "catalog.sqlite") as database:
        database.execute("UPDATE meta SET value = ?, seal = ? WHERE key = 'format'", (str(number), seal))
        total = "(SELECT sum(seal & 4294967295) FROM meta)"
        database.execute(f"UPDATE totals SET total = {total} WHERE name = 'meta'")
        totals = database.execute("SELECT name, rows, total FROM totals WHERE name <> ''").fetchall()
        root = sum(seals._part(*total) for total in totals) & 0xFFFFFFFF
        database.execute("UPDATE totals SET total = ? WHERE name = ''", (root,))
        (rows,) = database.execute("SELECT rows FROM totals WHERE name = ''").fetchone()
        (store,) = database.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()
    database.close()
    (path / "head").write_text(head.Head(store, rows, root).line)


@pytest.fixture
def of_format_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed store as format 4 was: files of another layout, no totals of groups."""

    def write(table: pa.Table, where: str, plain: Any, repeating: Any, rows: int, **more: Any) -> None:
        pq.write_table(table, where, row_group_size=rows, compression="zstd", **more)

    path = tmp_path / "store"
    tune(monkeypatch, catalog_rows=2)
    with monkeypatch.context() as patch, sparqlive.open(path) as session:
        patch.setattr(runs, "write_run", write)
        session.load({quad(random.Random(seed)) for seed in range(60)})
        session.view("group", "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p")
        session.compact()
        session.apply(insert=[quad(random.Random(99))])
    _state_format(path, 4)
    return path


@pytest.mark.usefixtures("in_files")
def test_a_store_of_format_4_is_brought_to_this_one(of_format_4: Path) -> None:
    with pytest.raises(sparqlive.StoreFailed, match=r"has format 4.*Open it once for writing"):
        sparqlive.open(of_format_4, read_only=True)
    with sparqlive.open(of_format_4, memory=0) as session:
        view, data = session.views["group"], set(session.quads())
        assert not view._state.content.is_held
        assert [delta.epoch for delta in view.changes(since=1)] == [2], "the history is still there"
        session.apply(insert=[quad(random.Random(123))], delete=list(data)[:20])
        session.check()
        session.compact()
        session.apply(insert=[quad(random.Random(124))])
        session.check()
        expected = view.weights()
    with sparqlive.open(of_format_4, memory=0, read_only=True) as session:
        assert session.views["group"].weights() == expected


def test_a_damaged_catalog_of_format_4_is_refused_and_left(of_format_4: Path) -> None:
    with sqlite3.connect(of_format_4 / "catalog.sqlite") as database:
        database.execute("UPDATE runs SET rows = 7")
    database.close()
    for _ in range(2):  # nothing was written by the first attempt
        with pytest.raises(sparqlive.StoreFailed, match="damaged"):
            sparqlive.open(of_format_4)
        with pytest.raises(sparqlive.StoreFailed, match="has format 4"):
            sparqlive.open(of_format_4, read_only=True)


@pytest.mark.parametrize("number", [2, 3])
def test_a_store_of_a_format_that_is_not_read_any_more_is_refused_and_left(
    of_format_4: Path, number: int
) -> None:
    _state_format(of_format_4, number)
    before = everything_below(of_format_4)
    for read_only in (False, True):
        with pytest.raises(sparqlive.StoreFailed, match=f"has format {number}, from an older version"):
            sparqlive.open(of_format_4, read_only=read_only)
    after = everything_below(of_format_4)
    assert after.keys() - before.keys() <= {"catalog.sqlite-wal", "catalog.sqlite-shm"}
    assert after["catalog.sqlite"] == before["catalog.sqlite"]


def test_a_catalog_without_totals_is_damaged(of_format_4: Path) -> None:
    with sqlite3.connect(of_format_4 / "catalog.sqlite") as database:
        database.execute("DROP TABLE totals")
    database.close()
    for read_only in (False, True):
        with pytest.raises(sparqlive.StoreFailed, match="damaged: it does not state its format"):
            sparqlive.open(of_format_4, read_only=read_only)
