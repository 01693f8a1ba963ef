"""Stores from someone else: whatever they contain, opening them touches nothing outside, and never hangs."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sparqlive
from sparqlive.agent.audit import Audit
from sparqlive.agent.tokens import Tokens
from sparqlive.cli.main import app
from sparqlive.errors import Error
from sparqlive.spark.stored import Planner
from sparqlive.store.catalog import Catalog
from sparqlive.store.locks import describe_writer, lend
from sparqlive.store.names import stored_name, stored_run
from tests.conftest import FULL
from tests.tuned import tune

EX = "http://example.org/"
DATA = "\n".join(f"<{EX}{number}> <{EX}p> <{EX}{number % 7}> ." for number in range(40))
QUERY = f"SELECT ?x ?y {{ ?x <{EX}p> ?y }}"
ATTEMPT = "0123456789abcdef-18e8b4fbb671d408-4419-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with runs of quads, terms and a view."""
    path = tmp_path_factory.mktemp("made") / "store"
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, catalog_rows=10)
        with sparqlive.open(path) as session:
            session.view("all", QUERY)
            session.view("late", f"SELECT ?x {{ ?x <{EX}p> ?y }}", refresh="manual")
            session.apply(DATA)
            session.compact()
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    outside = tmp_path / "outside"
    (outside / ATTEMPT).mkdir(parents=True)
    for name in ("notes.txt", "data.parquet", f"{ATTEMPT}/run.parquet", "123-abcdef01", "until-1-abcdef01"):
        (outside / name).write_text(f"mine: {name}")
    (outside / "empty").mkdir()
    return tmp_path / "store"


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All files below a folder: their modes, times and contents."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, content)
    return found


def catalog(store: Path, change: Callable[[Catalog], object]) -> None:
    """Changes a catalog as someone would who can compute its seals."""
    opened = Catalog(store)
    with opened.transaction():
        change(opened)
    opened.close()
    (store / "head").unlink(missing_ok=True)


def in_sql(store: Path, *statements: str) -> None:
    database = sqlite3.connect(store / "catalog.sqlite", isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


def meta(key: str, value: str) -> Callable[[Path], None]:
    return lambda store: catalog(store, lambda tables: tables.set_meta(key, value))


def place(address: str, folder: str) -> Callable[[Path], None]:
    """Records another place of the runs."""

    def harm(store: Path) -> None:
        meta("runs", address.format(above=store.parent))(store)
        meta("runs_folder", folder)(store)

    return harm


def replaced(name: str) -> Callable[[Path], None]:
    return lambda store: catalog(
        store, lambda tables: tables._sealed.add("replaced", (_named(name, store), 0))
    )


def run(name: str) -> Callable[[Path], None]:
    """Names another file in place of each run, which is replaced."""

    def change(tables: Catalog) -> None:
        for one in tables.all_runs():
            tables.forget_runs([one], 0)
            tables.add_run(replace(one, path=_named(name, tables.directory)))

    return lambda store: catalog(store, change)


def _named(name: str, store: Path) -> str:
    return name.replace("OUTSIDE", str(store.with_name("outside").absolute()))


def instead(name: str, make: Callable[[Path, Path], object]) -> Callable[[Path], None]:
    """Puts something else where the store has a file or folder."""

    def harm(store: Path) -> None:
        path = store / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path, store.with_name("outside"))

    return harm


def link(to: str) -> Callable[[Path, Path], object]:
    return lambda path, outside: path.symlink_to(outside / to)


def linked_attempt(store: Path) -> None:
    """The folder of an attempt that the catalog names, moved away behind a link; a replaced file in it."""
    (attempt, *_) = (path for path in (store / "runs").iterdir() if any(path.iterdir()))
    moved = store.with_name("outside") / attempt.name
    attempt.rename(moved)
    (moved / "mine.parquet").write_text("mine")
    attempt.symlink_to(moved)
    replaced(f"runs/{attempt.name}/mine.parquet")(store)


def journal(store: Path) -> None:
    """A journal that SQLite would roll back, and that names a file which it would then remove."""
    name = str(store.with_name("outside") / "notes.txt").encode()
    content = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504) + name + len(name).to_bytes(4, "big")
    content += sum(name).to_bytes(4, "big") + b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    (store / "catalog.sqlite-journal").write_bytes(content)


def older(store: Path) -> None:
    """A store that says it is of format 2, with links among its files."""
    in_sql(store, "UPDATE meta SET value = '2' WHERE key = 'format'", "DROP TABLE totals")
    (store / "catalog.sqlite-x").symlink_to(store.with_name("outside") / "notes.txt")


def views_in_a_circle(store: Path) -> None:
    def change(tables: Catalog) -> None:
        for one, other in (("a", "b"), ("b", "a")):
            text = f"CONSTRUCT {{ ?s ?p ?o }} {{ GRAPH <view:{other}> {{ ?s ?p ?o }} }}"
            tables.add_view(one, text, None, 0, "immediate")

    catalog(store, change)


NAMES = {
    "up": "../outside/notes.txt",
    "up from runs": "runs/../../outside/notes.txt",
    "up from an attempt": f"runs/{ATTEMPT}/../../../outside/notes.txt",
    "absolute": "OUTSIDE/notes.txt",
    "absolute in runs": "runs//OUTSIDE/notes.txt",
    "not in runs": "writer.lock",
    "not in an attempt": "runs/notes.txt",
    "null": "runs/\0/notes.txt",
    "backslash": f"runs/{ATTEMPT}\\..\\notes.txt",
    "address": "file://OUTSIDE/notes.txt",
    "pattern": f"runs/{ATTEMPT}/*.parquet",
    "quote": f"runs/{ATTEMPT}/x'.parquet",
    "empty": "",
    "the folder": "runs",
    "long": f"runs/{ATTEMPT}/{'x' * 5000}",
    "deep": f"runs/{ATTEMPT}/{'x/' * 5000}x",
}
TRIED = NAMES if FULL else ("up", "up from an attempt", "absolute", "not in an attempt", "null", "the folder")
FILES = (
    "head", "writer.lock", "leases", "runs", "catalog.sqlite-wal", "catalog.sqlite-shm",
    "catalog.sqlite-journal", "audit.jsonl", "tokens.json", "tokens.lock", "tokens.new", "streams",
)  # fmt: skip
INSTEAD: dict[str, Callable[[Path, Path], object]] = {
    "a link to a file": link("notes.txt"),
    "a link to a folder": link("."),
    "a link to nothing": link("nothing"),
    "a pipe": lambda path, outside: os.mkfifo(path),
    "another name": lambda path, outside: os.link(outside / "notes.txt", path),
}
CODE = {
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON epochs BEGIN DELETE FROM meta; END"],
    "a view": ["CREATE VIEW x AS SELECT 1"],
    "an endless view": [
        "ALTER TABLE meta RENAME TO old",
        "CREATE VIEW meta AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT x AS key, x AS value, x AS seal FROM n",
    ],
    "an index over code": ["CREATE INDEX i ON meta (abs(value))"],
    "a table of its own": ["CREATE TABLE mine (x)"],
    "a virtual table": ["CREATE VIRTUAL TABLE v USING fts5(x)"],
    "a default": ["DROP TABLE batches", "CREATE TABLE batches (x TEXT DEFAULT (hex(randomblob(9))))"],
}
HARMS: dict[str, Callable[[Path], None]] = {
    **{f"replaced: {kind}": replaced(NAMES[kind]) for kind in TRIED},
    **{f"run: {kind}": run(NAMES[kind]) for kind in TRIED},
    **{f"{name}: {kind}": instead(name, make) for name in FILES for kind, make in INSTEAD.items()},
    **{kind: (lambda store, code=code: in_sql(store, *code)) for kind, code in CODE.items()},  # type: ignore[misc]
    "mark: a pattern": meta("store", ".*|" + "a" * 29),
    "mark: up": meta("store", "../../outside/aa"),
    "runs elsewhere": place("file://{above}", "outside"),
    "runs above": place("file://{above}/store", "../outside"),
    "runs above, by the address": place("file://{above}/store/..", "outside"),
    "runs without a folder": place("file://{above}/outside", ""),
    "runs at the root": place("file:///", ""),
    "runs by an unknown scheme": place("gopher://example.org/x", "sparqlive-" + "0" * 32),
    "a linked attempt": linked_attempt,
    "a journal": journal,
    "an older store": older,
    "views in a circle": views_in_a_circle,
}


def written(store: Path) -> None:
    with sparqlive.open(store) as session:
        session.apply(f"<{EX}a> <{EX}p> <{EX}b> .")
        session.compact()
        describe_writer(store, "words")


def read(store: Path) -> None:
    with sparqlive.open(store, read_only=True) as session:
        list(session.quads())
        session.views["all"].weights()


def commanded(*words: str) -> Callable[[Path], None]:
    def command(store: Path) -> None:
        result = CliRunner().invoke(app, [*words, "--store", str(store)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception

    return command


def served(store: Path) -> None:
    """What an agent writes beside the session."""
    Audit(store).note("someone", "something", "done")
    assert not Tokens(store).required or Tokens(store).all() is not None
    Tokens(store).create(["read"])


def lent(store: Path) -> None:
    lend(store, 0, 10.0)


def planned(store: Path) -> None:
    """What Spark's data source does on the driver, and what a worker does."""
    with Planner(str(store), 10.0) as planner:
        plan = planner.quads()
    for piece in plan.pieces:
        list(plan.batches(piece, None, weights=True, epochs=False))


WAYS: dict[str, Callable[[Path], None]] = {
    "written": written,
    "read": read,
    "checked": commanded("check"),
    "repaired": commanded("check", "--repair"),
    "compacted": commanded("compact"),
    "served": served,
    "lent": lent,
    "read by Spark": planned,
}


def ways_for(harm: str) -> list[Callable[[Path], None]]:
    """One way of all, another for each harm; the files of an agent are opened by it alone."""
    if harm.startswith(("audit", "tokens")):
        return [served]
    number, ways = list(HARMS).index(harm), list(WAYS.values())
    return ways if FULL else [ways[number % len(ways)]]


@pytest.mark.parametrize("harm", HARMS)
def test_a_store_touches_nothing_outside(store: Path, harm: str) -> None:
    outside = store.with_name("outside")
    HARMS[harm](store)
    before = everything(outside)
    for way in ways_for(harm):
        with suppress(Error):
            way(store)
        assert everything(outside) == before


@pytest.mark.parametrize("kind", NAMES)
def test_a_name_that_is_not_a_run_is_refused(kind: str) -> None:
    with pytest.raises(sparqlive.StoreFailed, match="is not a run of its store"):
        stored_run("runs", NAMES[kind])


def test_a_store_that_is_refused_says_why_and_what_to_do(store: Path) -> None:
    replaced("../outside/notes.txt")(store)
    with pytest.raises(sparqlive.StoreFailed, match=r"'\.\./outside/notes\.txt'.*restore the store"):
        sparqlive.open(store)


def test_a_link_to_shared_storage_is_followed_if_nothing_else_is_there(store: Path) -> None:
    shared = store.with_name("shared")
    (store / "runs").rename(shared)
    (store / "runs").symlink_to(shared)
    written(store)
    (shared / "notes.txt").write_text("mine")
    for way in (written, read):
        with pytest.raises(sparqlive.StoreFailed, match=r"contains notes\.txt"):
            way(store)


def test_a_stream_stays_in_its_folder(store: Path) -> None:
    from sparqlive.engine.streams import Streams

    (store / "streams").mkdir()
    (store / "streams" / "linked").symlink_to(store.with_name("outside"))
    for name in ("..", ".", "", "linked"):
        with pytest.raises(Error):
            Streams(store)._folder(name)
    assert Path(Streams(store)._folder("../x")).parent == (store / "streams").absolute()


def test_a_place_of_its_own_has_no_folder_of_runs() -> None:
    for name in (".", "rows.parquet", "./rows.parquet", "folder/rows.parquet"):
        assert stored_name(".", name) == name
    for name in ("..", "../rows.parquet", "./../rows.parquet", "/rows.parquet", ""):
        with pytest.raises(sparqlive.StoreFailed, match="is not a run"):
            stored_name(".", name)
