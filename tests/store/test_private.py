"""Whose a store is: modes of files, stores that root opens, processes that fork, names of files."""

from __future__ import annotations

import multiprocessing
import os
import random
import stat
import subprocess
import sys
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.agent.audit import Audit
from sparqlive.agent.tokens import Tokens
from sparqlive.store.compaction import file_stem
from tests.store.test_store import quad, query
from tests.tuned import tune

NEEDS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def used(path: Path, **options: str) -> dict[str, tuple[int, int]]:
    """Everything that is there while a store is written, read and served; its mode and owner."""
    with sparqlive.open(path, **options) as session:  # type: ignore[arg-type]
        session.view("optional", query("optional"))
        session.load({quad(random.Random(seed)) for seed in range(30)})
        session.compact()
        session.apply(insert=[quad(random.Random(99))])
        Tokens(path).create(["read"], "reader")
        Audit(path).note("somebody", "did something", "well")
        with sparqlive.open(path, read_only=True) as reader:
            reader.check()
            files = [path, *path.rglob("*")]
            return {str(file.relative_to(path)): (file.stat().st_mode, file.stat().st_uid) for file in files}


def test_only_the_owner_reads(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, catalog_rows=2)
    found = used(tmp_path / "store")
    names = " ".join(found)
    for wanted in (
        "catalog.sqlite-wal",
        "catalog.sqlite-shm",
        "writer.lock",
        "head",
        "tokens.json",
        "tokens.lock",
    ):
        assert wanted in found
    assert "audit.jsonl" in found
    assert "-rows-" in names
    assert "leases/" in names
    for name, (mode, _) in found.items():
        assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), name


def test_runs_elsewhere_are_private_too(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        used(tmp_path / "store", runs=str(tmp_path / "far" / "runs"))
    finally:
        os.umask(before)
    found = [*(tmp_path / "far" / "runs").rglob("*")]
    assert any(file.suffix == ".parquet" for file in found)
    for file in found:
        assert file.stat().st_mode & 0o077 == 0, file


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    for mode in (0o755, 0o777, 0o750):
        path = tmp_path / oct(mode)
        path.mkdir()
        path.chmod(mode)
        found = used(path)
        assert stat.S_IMODE(found.pop(".")[0]) == mode
        assert all(mode & 0o077 == 0 for mode, _ in found.values())


def test_a_directory_that_a_group_shares(tmp_path: Path) -> None:
    """It is group-writable and has the setgid bit."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o2770)
    before = os.umask(0o077)
    try:
        found = used(path)
    finally:
        os.umask(before)
    for name, (mode, _) in found.items():
        assert stat.S_IMODE(mode) == (0o2770 if stat.S_ISDIR(mode) else 0o660), name


def test_shared_storage_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2770)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "runs").symlink_to(tmp_path / "shared")
    found = used(tmp_path / "store")
    assert stat.S_IMODE(found["catalog.sqlite"][0]) == 0o600
    (attempt, *_) = (tmp_path / "shared").iterdir()
    assert stat.S_IMODE(attempt.stat().st_mode) == 0o2770
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o660 for file in attempt.iterdir())


AS_NOBODY = """
import os, sys, tempfile
import sparqlive

def work(path):
    with sparqlive.open(path) as session:
        session.view("all", "SELECT ?s ?o { ?s ?p ?o }")
        session.apply(insert=f'<urn:{session.epoch}> <urn:p> "nobody" .')
        session.compact()
        session.check()
        print("epoch", session.epoch)
        if len(sys.argv) > 2 and os.getuid():
            os.kill(os.getpid(), 9)

with tempfile.TemporaryDirectory() as folder:  # imports all that nobody may not be able to read
    work(folder + "/store")
os.setgid(65534); os.setuid(65534)
work(sys.argv[1])
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody reaches: pytest closes its own whenever it starts."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@NEEDS_ROOT
@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "killed"])
def test_what_root_opens_stays_its_owners(open_folder: Path, crashed: bool) -> None:
    path = open_folder / "store"
    path.mkdir()
    os.chown(path, 65534, 65534)
    command = [sys.executable, "-c", AS_NOBODY, str(path), *(["killed"] if crashed else [])]
    for epoch in (1, 3, 5):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines()[1:] == [f"epoch {epoch}"], done.stderr
        with sparqlive.open(path) as session:
            session.apply(insert=f'<urn:{session.epoch}> <urn:p> "root" .')
            session.compact()
            Tokens(path).create(["read"])
            Audit(path).note("root", "did something", "well")
            with sparqlive.open(path, read_only=True):
                assert {file.stat().st_uid for file in (path, *path.rglob("*"))} == {65534}


# Forks


def in_child(action: Callable[[], object]) -> str:
    """What a forked process says."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = f"done: {action()}"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told(tmp_path: Path) -> None:
    one, two = quad(random.Random(1)), quad(random.Random(2))
    with sparqlive.open(tmp_path / "store") as session:
        session.view("optional", query("optional"))
        session.apply(insert=[one])

        def write_and_close() -> None:
            with session:
                session.apply(insert=[two])

        steps: list[Callable[[], object]] = [
            lambda: session.apply(insert=[two]),
            lambda: session.view("distinct", query("distinct")),
            lambda: session.drop("optional"),
            session.compact,
            session.check,
            session.repair,
            write_and_close,
        ]
        for step in steps:
            said = in_child(step)
            assert said.startswith("StoreFailed: "), said
            assert f"opened by process {os.getpid()}" in said
            assert "after the fork" in said
        assert in_child(session.close) == "done: None"
        with pytest.raises(sparqlive.StoreFailed, match="is open for writing"):
            sparqlive.open(tmp_path / "store")
        session.apply(insert=[two])
        session.compact()
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        assert set(session.quads()) == {one, two}
        session.check()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_is_told_also_while_another_thread_writes(tmp_path: Path) -> None:
    """Sources are watched by a thread, which is not in the child, and may hold the lock."""
    (tmp_path / "data.nt").write_text("<urn:a> <urn:p> <urn:b> .")
    with sparqlive.open(tmp_path / "store") as session:
        session.source("file", str(tmp_path / "data.nt")).refresh()
        held, forked = threading.Event(), threading.Event()

        def hold() -> None:
            with session.reading():
                held.set()
                forked.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        said = in_child(lambda: session.apply(insert=[quad(random.Random(1))]))
        closed = in_child(session.close)
        forked.set()
        thread.join()
        assert "after the fork" in said
        assert closed == "done: None"
        session.check()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("in_memory", [False, True], ids=["store", "memory"])
def test_a_child_does_not_wait_for_sources_that_its_parent_watches(tmp_path: Path, in_memory: bool) -> None:
    (tmp_path / "data.nt").write_text("<urn:a> <urn:p> <urn:b> .")
    with sparqlive.open(None if in_memory else tmp_path / "store") as session:
        source = session.source("file", str(tmp_path / "data.nt"))
        source.refresh()
        steps: list[Callable[[], object]] = [
            source.refresh,
            source.remove,
            lambda: session.source("file", str(tmp_path / "data.nt"), name="again"),
        ]
        for step in steps:
            said = in_child(step)
            assert said.startswith("Error: " if in_memory else "StoreFailed: "), said
            assert "after the fork" in said
        assert in_child(session.close) == "done: None"
        (tmp_path / "data.nt").write_text("<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p> <urn:c> .")
        source.refresh()
        assert len(session) == 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_reader_leaves_the_lease_alone(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.load([quad(random.Random(1))])
        with sparqlive.open(tmp_path / "store", read_only=True) as reader:
            assert "after the fork" in in_child(reader.check)
            assert in_child(reader.close) == "done: None"
            assert list((tmp_path / "store" / "leases").iterdir())
            session.apply(insert=[quad(random.Random(2))])
            session.compact()
            reader.check()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_may_open_the_store_itself(tmp_path: Path) -> None:
    def read() -> int:
        with sparqlive.open(tmp_path / "store", read_only=True) as reader:
            return len(reader)

    with sparqlive.open(tmp_path / "store") as session:
        session.load([quad(random.Random(1))])
        assert in_child(read) == "done: 1"
        assert in_child(lambda: len(sparqlive.open())) == "done: 0"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_of_multiprocessing_that_ends_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.load([quad(random.Random(1))])
        process = multiprocessing.get_context("fork").Process(target=len, args=(session,))
        process.start()
        process.join()
        session.apply(insert=[quad(random.Random(2))])
        session.check()
    with sparqlive.open(tmp_path / "store") as session:
        assert len(session) == 2


# Names of files

NAMES = [
    "http://x/a/b",
    "http://x/a-b",
    "http://x/A-b",
    "http://x/a--b",
    "http://x/a/b/",
    "x" * 300,
    "x" * 299 + "y",
    "http://x/" + "é/" * 4000,
    unicodedata.normalize("NFC", "http://x/é"),
    unicodedata.normalize("NFD", "http://x/é"),
    "..",
    "../../etc/passwd",
    "a\nb",
    "a\\b",
    "CON",
    "-",
    "名前",
    "a:b*?<>|\"'",
]


def test_names_of_files_are_short_and_differ_also_without_case() -> None:
    names = [
        *(f"source/{name}" for name in NAMES),
        "quads",
        "terms",
        "quads/",
        "q/rows",
        "source/\0",
        "source/",
    ]
    stems = [file_stem(name) for name in names]
    assert len({stem.lower() for stem in stems}) == len(stems)
    assert all(len(stem) < 110 and stem.isascii() and "/" not in stem for stem in stems)
    assert all(not stem.startswith(".") for stem in stems)


def test_sources_of_any_name_are_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, catalog_rows=0)
    document = tmp_path / "data.nt"
    document.write_text("<urn:s> <urn:p> <urn:o> .\n<urn:s> <urn:p> <urn:q> .\n")
    # Others make no IRI, or could not be named in a URL.
    given = [name for name in NAMES if not {*name} & {*'\n\\<>|"'} and name not in (".", "..")]
    with sparqlive.open(tmp_path / "store") as session:
        for number, name in enumerate(given):
            session.source("file", str(document), name=name).refresh()
            session.view(f"view {number}", f"SELECT ?s {{ ?s ?p ?o FILTER(?o != <urn:{number}>) }}")
        session.compact()
        session.check()
        session.apply(insert=[ox.Quad(ox.NamedNode("urn:a"), ox.NamedNode("urn:b"), ox.NamedNode("urn:c"))])
        session.compact()
        graphs = set(session.graphs())
    with sparqlive.open(tmp_path / "store", watch=False) as session:
        assert set(session.sources) == set(given)
        assert set(session.graphs()) == graphs
        session.check()
        for name in given:
            session.sources[name].remove()
        session.compact()
        session.check()
        assert len(session) == 1
