"""A disk that is full or may not be written: a clear error, the last epoch intact, and work goes on."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.store import runs
from tests.store.test_history import change, contents
from tests.store.test_store import QUERIES, quad, query
from tests.tuned import tune


def filled(path: Path) -> sparqlive.Session:
    session = sparqlive.open(path)
    for name in QUERIES:
        session.view(name, query(name))
    session.load({quad(random.Random(seed)) for seed in range(30)})
    return session


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """As on a full disk, writes fail; Python does not let the signal end the process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def large(rng: random.Random) -> list[ox.Quad]:
    nodes = [ox.NamedNode(f"http://example.org/{rng.random()}") for _ in range(4000)]
    return [ox.Quad(node, ox.NamedNode("http://example.org/p"), node) for node in nodes]


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with filled(path) as session:
        data, epoch, before = set(session.quads()), session.epoch, contents(session)
        wal = path / "catalog.sqlite-wal"
        batch = large(random.Random(1))
        with (
            no_file_larger_than(wal.stat().st_size + 4096),
            pytest.raises(sparqlive.StoreFailed, match="written"),
        ):
            session.apply(insert=batch)
        assert (session.epoch, set(session.quads()), contents(session)) == (epoch, data, before)
        session.check()
        assert session.apply(insert=batch).number == epoch + 1  # there is room again
        session.check()
    with sparqlive.open(path) as session:
        assert set(session.quads()) == data | set(batch)
        session.check()


@pytest.mark.parametrize("call", ["compact", "view"])
def test_a_full_disk_under_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    tune(monkeypatch, catalog_rows=3)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "store"
    with filled(path) as session:
        steps: dict[str, Callable[[], object]] = {
            "compact": session.compact,
            "view": lambda: session.view("more", "SELECT ?s ?o { ?s ?p ?o }"),
        }
        before = contents(session)
        with monkeypatch.context() as patch:
            patch.setattr(runs.pq, "write_table", full)
            with pytest.raises(sparqlive.StoreFailed, match="No space left"):
                steps[call]()
        assert contents(session) == before
        change(session, random.Random(2))
        steps[call]()
        session.check()
        expected = contents(session)
    with sparqlive.open(path) as session:
        assert contents(session) == expected
        session.check()


AS_NOBODY = """
import os, sys
import sparqlive
with sparqlive.open(sys.argv[1], read_only=True) as reader:
    reader.check()  # whatever is imported on the way may be out of reach for nobody
os.setgid(65534); os.setuid(65534)
try:
    sparqlive.open(sys.argv[1])
except sparqlive.StoreFailed as error:
    print(error)
with sparqlive.open(sys.argv[1], read_only=True) as reader:
    reader.check()
    print(len(reader), "quads")
"""


@pytest.fixture
def for_others() -> Iterator[Path]:
    """A folder that other users may enter. A start of pytest closes what is above `tmp_path` to them."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")
def test_a_directory_that_may_only_be_read(for_others: Path) -> None:
    path = for_others / "store"
    with filled(path) as session:
        session.compact()
        count = len(session)
    for made in (path, *path.rglob("*")):  # its owner lets others read what is there
        made.chmod(0o755 if made.is_dir() else 0o644)
    command = [sys.executable, "-c", AS_NOBODY, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stdout, done.stdout + done.stderr
    assert "open it read-only" in done.stdout
    assert f"{count} quads" in done.stdout, done.stderr


def test_relaxed_durability_keeps_what_was_closed(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", durability="relaxed", sync_milliseconds=5) as session:
        session.view("optional", query("optional"))
        for seed in range(20):
            change(session, random.Random(seed))
        expected = contents(session)
    with sparqlive.open(tmp_path / "store") as session:
        assert contents(session) == expected
        session.check()
    with pytest.raises(sparqlive.Error, match="durability"):
        sparqlive.open(tmp_path / "other", durability="never")  # type: ignore[arg-type]


# Damage


def damage(file: Path) -> None:
    """Other bytes in the middle, the size as it was."""
    content = bytearray(file.read_bytes())
    place = pq.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset + 40
    content[place : place + 8] = bytes(255 - byte for byte in content[place : place + 8])
    file.write_bytes(content)


@pytest.fixture
def with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tune(monkeypatch, catalog_rows=2)
    with filled(tmp_path / "store") as session:
        session.compact()
        change(session, random.Random(5))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    return tmp_path / "store"


@pytest.mark.parametrize("which", ["rows-0", "rows-delta-0"])
@pytest.mark.parametrize("harm", [damage, Path.unlink, lambda file: os.truncate(file, 100)])
def test_a_damaged_run_of_a_view_is_named_and_repaired(
    with_files: Path, harm: Callable[[Path], None], which: str
) -> None:
    """A run of its content, or of its delta in an epoch."""
    files = [file for file in (with_files / "runs").rglob("*.parquet") if f"-{which}" in file.name]
    assert files
    for file in files:
        harm(file)
    with (
        sparqlive.open(with_files) as session,
        pytest.raises(sparqlive.StoreFailed, match=f"-{which}") as told,
    ):
        session.check()
    assert "--repair" in str(told.value)
    with sparqlive.open(with_files.parent / "copy") as session:
        expected = contents(session)
    with sparqlive.open(with_files) as session:
        assert session.repair()
        assert contents(session) == expected
        session.check()
    with sparqlive.open(with_files) as session:
        assert not session.repair()
        assert contents(session) == expected
        session.check()


@pytest.mark.parametrize("harm", [damage, Path.unlink])
@pytest.mark.parametrize("which", ["quads-0", "quads-delta-0"])
def test_damaged_quads_are_named_and_not_invented(
    with_files: Path, harm: Callable[[Path], None], which: str
) -> None:
    """Also those of the change log, at the latest when everything is compared."""
    file = max((with_files / "runs").rglob(f"{which}*.parquet"))
    harm(file)

    def open_and_check() -> None:
        with sparqlive.open(with_files) as session:
            session.check()

    with pytest.raises(sparqlive.StoreFailed, match=rf"{which}0000\.parquet"):
        open_and_check()
