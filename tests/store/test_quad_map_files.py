"""Files of quads in sorted orders: damage, kills, full disks, several processes, directories to read only."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import sparqlive
from sparqlive.errors import StoreFailed
from sparqlive.store import map_folder, maps
from sparqlive.store.maps import Map, UnusableMap
from sparqlive.store.quad_map_building import COLUMNS, Order
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.runs import QUADS
from sparqlive.store.store import Store
from tests.conftest import times
from tests.store.test_quad_maps import (
    ORDERS,
    TABLE,
    WHOLE,
    Row,
    check,
    check_run,
    files,
    fill,
    ids,
    in_order,
    opened,
    small_parts,
    some_quads,
)


@pytest.fixture(autouse=True, scope="module")
def _small_parts() -> Iterator[None]:
    with small_parts():
        yield


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# Damage


@pytest.mark.parametrize("order", ORDERS)
def test_damage_anywhere_is_mended(tmp_path: Path, order: Order) -> None:
    """Of the header and of tables when it is opened, of other sections when they are read."""
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    opened(path, directory_rows=20).prepare(ORDERS)
    (file,) = (path / "maps").glob(f"{order}-*")
    whole = file.read_bytes()
    sections = Map(file, [f"quads {order} 1", *inputs(path)])._layout.sections
    assert {"directories", "several", *COLUMNS[order]} <= sections.keys() or order in WHOLE
    for name, section in sections.items():
        damaged = bytearray(whole)
        damaged[section.offset + section.nbytes // 2] ^= 4
        file.write_bytes(damaged)
        found = opened(path, directory_rows=20)
        error = damage_in(found, rows)
        assert (error is None) == (name in TABLE)
        if error is not None:
            assert found.replace(error)
            assert found.replace(error), "as it is for the second of two threads that read it"
            check(found, rows)
        assert file.read_bytes() == whole, name
    for broken in (b"", b"x", whole[:-1], whole + b"x", bytes(len(whole))):
        file.write_bytes(broken)
        check(opened(path, directory_rows=20), rows)
        assert file.read_bytes() == whole
    other = next(file for file in (path / "maps").iterdir() if not file.name.startswith(order))
    file.write_bytes(other.read_bytes())  # of another order, with the same sources
    check(opened(path, directory_rows=20), rows)
    assert file.read_bytes() == whole


def damage_in(found: QuadMaps, rows: Collection[Row]) -> UnusableMap | None:
    try:
        check(found, rows)
    except UnusableMap as error:
        return error
    return None


def inputs(path: Path) -> list[str]:
    store = Store(path, read_only=True)
    try:
        return sorted(f"{run.path} {run.digests[:8].hex()}" for run in store.catalog.runs(QUADS))
    finally:
        store.close()


def test_damage_of_the_order_that_another_one_is_made_of(tmp_path: Path) -> None:
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    opened(path)
    (file,) = (path / "maps").iterdir()
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[-9] ^= 1  # the last number of a column
    for memory in (3_000, 10_000_000):
        for other in path.glob("maps/spo-*"):
            other.unlink()
        file.write_bytes(damaged)
        check_run(opened(path, memory=memory).whole("spo"), in_order(rows, "spo"))
        assert file.read_bytes() == whole


def test_a_damaged_run_makes_no_map(tmp_path: Path) -> None:
    path = tmp_path / "store"
    fill(path, some_quads())
    run = next((path / "runs").rglob("quads-*.parquet"))
    content = bytearray(run.read_bytes())
    content[len(content) // 2] ^= 1
    run.write_bytes(content)
    with pytest.raises(StoreFailed, match="missing or damaged"):
        opened(path)
    assert files(path) == {}


def test_a_map_in_the_cache_that_is_damaged(tmp_path: Path) -> None:
    """It would be opened again before the new one, which is in the directory of the store."""
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    opened(path)
    (own,) = (path / "maps").iterdir()
    whole = own.read_bytes()
    cached = map_folder.cache_folder(path) / own.name
    cached.parent.mkdir(parents=True)
    cached.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    own.unlink()
    found = opened(path)
    assert not own.exists(), "the one in the cache is open"
    error = damage_in(found, rows)
    assert error is not None
    assert found.replace(error)
    assert not cached.exists()
    assert own.read_bytes() == whole
    check(opened(path), rows)


def test_errors_of_other_maps_replace_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "store", some_quads())
    found = opened(tmp_path / "store")
    assert not found.replace(UnusableMap(tmp_path / "other.map", "it is damaged"))


# Files


def test_only_the_files_of_other_bases_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first, second = some_quads(seed=1), some_quads(seed=2)
    rows = fill(path, first)
    before = opened(path)
    before.prepare(["pso", "spo"])
    old = set(files(path))
    (path / "maps" / "other-1.map").write_bytes(b"of something else")
    (path / "maps" / f"pso-1.map-{'0' * 32}{maps.UNFINISHED}").write_bytes(b"of a process that was killed")
    with sparqlive.open(path) as session:
        session.load(second)
        session.compact()
    left = {name.partition("-")[0] for name in files(path)} & {*COLUMNS, "other"}
    assert {"pso", "other"} <= left
    assert not old & set(files(path))
    assert not list((path / "maps").glob(f"*{maps.UNFINISHED}"))
    # A reader of the old base reads on. Only what it has not opened yet is missing, and created again.
    check_run(before.whole("spo"), in_order(rows, "spo"))
    check(opened(path), rows | ids(second))
    emptied = QuadMaps(path, before._place, ())
    emptied.remove_others()
    assert {name.partition("-")[0] for name in files(path)} & {*COLUMNS, "other"} == {"other"}


def test_progress_is_reported_and_can_end_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    reports: dict[Order, list[tuple[int, int]]] = {}

    def report(order: Order, done: int, of: int) -> None:
        reports.setdefault(order, []).append((done, of))

    store = Store(path, read_only=True)
    base = store.catalog.runs(QUADS)
    store.close()
    QuadMaps(path, store.place, base, memory=3_000, progress=report).prepare(["pos", "spo"])
    assert [*reports] == ["pso", "pos", "spo"]
    for found in reports.values():
        assert len(found) > 3
        assert found == sorted(found)
        assert found[-1] == (len(rows), len(rows))

    def stop(order: Order, done: int, of: int) -> None:
        if order == "osp" and done > of // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        QuadMaps(path, store.place, base, memory=3_000, progress=stop).prepare(["osp"])
    assert sorted(name.partition("-")[0] for name in files(path)) == ["pos", "pso", "spo"]


@pytest.mark.parametrize("memory", [3_000, 10_000_000])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    allocate, write, left, said = os.posix_fallocate, os.pwrite, [0], list[str]()

    def fallocate(descriptor: int, offset: int, length: int) -> None:
        take()
        allocate(descriptor, offset, length)

    def pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        take()
        return write(descriptor, data, offset)

    def take() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fallocate)
        patch.setattr(os, "pwrite", pwrite)
        for allowed in (0, 1, 2, 5, 9, 14, 20, 30, 50, 80, 130, 200):
            left[0] = allowed
            have = files(path) if (path / "maps").exists() else {}
            try:
                opened(path, memory=memory).prepare(ORDERS)
            except StoreFailed as error:
                said.append(str(error))
            left[0] = 1_000_000
            assert not [name for name in files(path) if not name.endswith(".map")]
            assert files(path).items() >= have.items()
    assert len(said) > 3
    assert all("could not be written" in each and "No space left" in each for each in said)
    check(opened(path), rows)


_KILLED = """
import os, signal, sys
from pathlib import Path
from sparqlive.store import maps
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.store import Store

maps.BLOCK = 512  # as in the process that reads them
path, steps = Path(sys.argv[1]), int(sys.argv[2])
store = Store(path, read_only=True)

def killing(call):
    def called(*given):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given)
    return called

for name in ("pwrite", "preadv", "posix_fallocate", "fsync", "close", "unlink"):
    setattr(os, name, killing(getattr(os, name)))
QuadMaps(path, store.place, store.catalog.runs("quads"), memory=3_000).prepare(
    ["pso", "pos", "spo", "osp", "gpso", "gpos"]
)
"""


def test_kills_leave_nothing_that_is_read(tmp_path: Path) -> None:
    path, chance = tmp_path / "store", random.Random(4)
    rows = fill(path, some_quads())
    for _ in range(times(5, 40)):
        for name in files(path) if (path / "maps").exists() else ():
            if chance.random() < 0.7:
                (path / "maps" / name).unlink()
        script = [sys.executable, "-c", _KILLED, str(path), str(int(2000 ** chance.random()))]
        assert subprocess.run(script, check=False).returncode in (0, -signal.SIGKILL)
        found = opened(path)
        check(found, rows)
        found.remove_others()
        assert len(files(path)) == 6, "nothing unfinished is left"


_TOGETHER = """
import sys
from pathlib import Path
from sparqlive.store import maps
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.store import Store

maps.BLOCK = 512
path = Path(sys.argv[1])
store = Store(path, read_only=True)
print("ready", flush=True)
sys.stdin.readline()
quads = QuadMaps(path, store.place, store.catalog.runs("quads"), memory=3_000)
quads.prepare(["pos", "spo", "osp"])
print(quads.size, [*quads.whole("osp").rows()][-1][1])
"""


def test_two_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    script = [sys.executable, "-c", _TOGETHER, str(path)]
    both = [
        subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = []
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in both:
        answers.append(process.communicate()[0])
        assert process.returncode == 0
    assert answers == [f"{len(rows)} {in_order(rows, 'osp')[-1][1]}\n"] * 2
    assert sorted(name.partition("-")[0] for name in files(path)) == ["osp", "pos", "pso", "spo"]
    check(opened(path), rows)


def test_two_threads_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    found, lengths = opened(path, memory=3_000), list[int]()

    def read() -> None:
        lengths.extend(found.whole(order).length for order in WHOLE)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [len(rows)] * 16
    assert len(files(path)) == len(ORDERS)


def test_a_file_that_is_removed_before_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the writer of the store, whose base is a later one."""
    path = tmp_path / "store"
    rows = fill(path, some_quads())
    rename, times_removed = Path.rename, [0]

    def renamed(old: Path, new: Path) -> Path:
        rename(old, new)
        if times_removed[0] < 1:
            times_removed[0] += 1
            new.unlink()
        return new

    monkeypatch.setattr(Path, "rename", renamed)
    check(opened(path), rows)


_AS_NOBODY = """
import os, sys
from pathlib import Path
os.environ["XDG_CACHE_HOME"] = sys.argv[2]
import numpy, pyarrow.parquet
from sparqlive.errors import StoreFailed
from sparqlive.store import maps
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.store import Store
maps.BLOCK = 512
path = Path(sys.argv[1])
store = Store(path, read_only=True)
base = store.catalog.runs("quads")
QuadMaps(path, store.place, ())
os.setgid(65534); os.setuid(65534)
try:
    quads = QuadMaps(path, store.place, base)
    print(quads.size, quads.whole("spo").length, len([*quads.whole("spo").rows()]))
except StoreFailed as error:
    print(error)
"""


def as_nobody(path: Path, cache: Path) -> str:
    command = [sys.executable, "-c", _AS_NOBODY, str(path), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")
def test_a_store_that_may_only_be_read(tmp_path: Path) -> None:
    path, cache = tmp_path / "store", tmp_path / "nobody"
    rows = fill(path, some_quads())
    opened(path)  # one order is there
    for made in (path, *path.rglob("*")):  # its owner lets others read what is there
        made.chmod(0o755 if made.is_dir() else 0o644)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005 and folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    before = files(path)
    assert "neither there nor in the cache directory" in (said := as_nobody(path, cache))
    assert "Set XDG_CACHE_HOME" in said
    cache.mkdir()
    os.chown(cache, 65534, 65534)
    expected = f"{len(rows)} {len(rows)} {len(rows)}\n"
    assert as_nobody(path, cache) == as_nobody(path, cache) == expected
    (created,) = cache.rglob("*.map")
    assert created.name.startswith("spo-")
    # What is in the cache is read, also where the store's own file is there, but damaged.
    (own,) = (path / "maps").iterdir()
    own.write_bytes(own.read_bytes()[:-1])
    assert as_nobody(path, cache) == expected
    assert sorted(file.name.partition("-")[0] for file in cache.rglob("*.map")) == ["pso", "spo"]
    own.write_bytes(before[own.name])
    assert files(path) == before
