"""Two processes that write one store although only one may: the later one notices, and nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.agent.tokens import Tokens
from tests.tuned import tune

EX = "http://example.org/"
QUERY = f"SELECT ?x ?y {{ ?x <{EX}p> ?y }}"


def quads(*names: str) -> list[ox.Quad]:
    return [ox.Quad(ox.NamedNode(EX + name), ox.NamedNode(EX + "p"), ox.Literal("1")) for name in names]


def subjects(session: sparqlive.Session) -> set[str]:
    return {quad.subject.value.removeprefix(EX) for quad in session.quads()}


def filled(path: Path) -> sparqlive.Session:
    session = sparqlive.open(path)
    session.view("all", QUERY)
    session.apply(quads("first"))
    return session


Writing = Callable[[sparqlive.Session], object]
WRITES: dict[str, Writing] = {
    "an epoch": lambda session: session.apply(quads("second")),
    "a view": lambda session: session.view("other", f"SELECT DISTINCT ?x {{ ?x <{EX}p> ?y }}"),
    "a deferred view": lambda session: session.view("later", QUERY, refresh="manual"),
    "a dropped view": lambda session: session.drop("all"),
    "a source": lambda session: session.source("file", "/nowhere/data.ttl", name="file"),
    "a batch": lambda session: session.apply(quads("second"), batch=("stream", 1)),
    "compaction": lambda session: session.compact(),
    "files": lambda session: session.apply(quads(*(f"n{number}" for number in range(20)))),
}


@pytest.mark.parametrize("first", [False, True], ids=["the second", "the first"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("lock", ["removed", "replaced"])
def test_the_later_writer_sees_the_other_commit(
    tmp_path: Path, first: bool, write: str, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, catalog_rows=10)
    a = filled(tmp_path / "s")
    (tmp_path / "s" / "writer.lock").unlink()
    if lock == "replaced":
        (tmp_path / "s" / "writer.lock").touch()
    b = sparqlive.open(tmp_path / "s", watch=False)
    early, late = (b, a) if first else (a, b)
    early.apply(quads("acknowledged"))
    before = subjects(early)
    with pytest.raises(sparqlive.StoreFailed, match="Another process has written the store"):
        WRITES[write](late)
    early.apply(quads("more"))
    for session in (late, early):
        session.close()
    with sparqlive.open(tmp_path / "s") as session:
        assert subjects(session) == {*before, "more"}
        assert {*session.views} == {"all"}
        assert len(session.views["all"]) == 3
        session.check()
        session.apply(quads("afterwards"))


def test_both_write_views_and_compact_in_turns(tmp_path: Path) -> None:
    a = filled(tmp_path / "s")
    for name in ("x", "y", "z"):
        (tmp_path / "s" / "writer.lock").unlink()
        b = sparqlive.open(tmp_path / "s")
        b.apply(quads(name))
        b.compact()
        b.view(name, QUERY, refresh="manual")
        with pytest.raises(sparqlive.StoreFailed, match="Another process"):
            a.apply(quads("lost"))
        with pytest.raises(sparqlive.StoreFailed, match="Another process"):
            a.compact()
        a.close()
        a = b
    a.close()
    with sparqlive.open(tmp_path / "s") as session:
        assert subjects(session) == {"first", "x", "y", "z"}
        session.check()


def test_a_removed_lock_is_taken_again(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as session:
        (tmp_path / "s" / "writer.lock").unlink()
        session.apply(quads("second"))
        with pytest.raises(sparqlive.StoreLocked, match="process"):
            sparqlive.open(tmp_path / "s")


def test_a_second_writer_does_not_remove_files_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the files of a commit that has not been made yet for leftovers."""
    tune(monkeypatch, catalog_rows=10)
    a = filled(tmp_path / "s")
    (tmp_path / "s" / "writer.lock").unlink()
    assert a.store is not None
    named = a.store._name

    def opened_meanwhile(commit: object) -> None:
        a.store.catalog._database.execute("ROLLBACK")  # type: ignore[union-attr]
        sparqlive.open(tmp_path / "s").close()
        a.store.catalog._database.execute("BEGIN IMMEDIATE")  # type: ignore[union-attr]
        named(commit)  # type: ignore[arg-type]

    monkeypatch.setattr(a.store, "_name", opened_meanwhile)
    with pytest.raises(sparqlive.StoreFailed):
        a.apply(quads(*(f"n{number}" for number in range(20))))
    a.close()
    with sparqlive.open(tmp_path / "s") as session:
        assert subjects(session) == {"first"}
        session.check()


def moved(store: Path) -> Path:
    return store.rename(store.with_name("moved"))


def replaced(store: Path) -> Path:
    moved(store)
    shutil.copytree(store.with_name("backup"), store)
    return store


def restored(store: Path) -> Path:
    """Files are replaced one by one, as rsync does."""
    for path in store.with_name("backup").iterdir():
        if path.is_file():
            shutil.copy(path, store / "new")
            (store / "new").rename(store / path.name)
    for name in ("catalog.sqlite-wal", "catalog.sqlite-shm"):
        (store / name).unlink(missing_ok=True)
    return store


def without_log(store: Path) -> Path:
    (store / "catalog.sqlite-wal").unlink()
    return store


def overwritten(store: Path) -> Path:
    """Files are written over in place, as cp does."""
    for name in ("catalog.sqlite", "head"):
        (store / name).write_bytes((store.with_name("backup") / name).read_bytes())
    (store / "catalog.sqlite-wal").write_bytes(b"")
    return store


@pytest.mark.parametrize("harm", [moved, replaced, restored, without_log, overwritten])
def test_files_that_are_exchanged_under_a_writer(tmp_path: Path, harm: Callable[[Path], Path]) -> None:
    filled(tmp_path / "s").close()
    shutil.copytree(tmp_path / "s", tmp_path / "backup")
    session = sparqlive.open(tmp_path / "s")
    session.apply(quads("second"))
    found = harm(tmp_path / "s")
    with pytest.raises(sparqlive.StoreFailed):
        session.apply(quads("third"))
    with pytest.raises(sparqlive.StoreFailed):
        session.view("other", QUERY)
    session.close()
    if harm in (without_log, overwritten):
        return  # what was lost was lost by the harm
    with sparqlive.open(found) as opened:
        assert subjects(opened) == ({"first", "second"} if harm is moved else {"first"})
        opened.check()


def test_a_copy_is_another_store(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as session:
        shutil.copytree(tmp_path / "s", tmp_path / "copy")
        session.apply(quads("second"))
        with sparqlive.open(tmp_path / "copy") as copy:
            copy.apply(quads("third"))
            assert subjects(copy) == {"first", "third"}
        session.apply(quads("fourth"))
        assert subjects(session) == {"first", "second", "fourth"}
        session.check()


def test_tokens_that_two_processes_change(tmp_path: Path) -> None:
    """Both hold a lock after it was removed: the second one is refused, and no token comes back."""
    tokens = Tokens(tmp_path)
    name, _ = tokens.create(["read"])

    def change_beside_another() -> None:
        with tokens._change() as held:
            held.clear()
            (tmp_path / "tokens.lock").unlink()
            Tokens(tmp_path).create(["read"], "other")

    with pytest.raises(sparqlive.StoreFailed, match="Another process has changed"):
        change_beside_another()
    assert {*Tokens(tmp_path).all()} == {name, "other"}
