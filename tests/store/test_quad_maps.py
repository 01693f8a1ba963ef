"""Quads in whole sorted orders: the same as sets of tuples, whatever happens to their files."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from sparqlive.errors import StoreFailed
from sparqlive.rdf.dictionary import Dictionary, hash_of
from sparqlive.store import compaction, maps, runs
from sparqlive.store.maps import Map, UnusableMap
from sparqlive.store.quad_map_building import COLUMNS, Order
from sparqlive.store.quad_maps import QuadMaps
from sparqlive.store.runs import QUADS
from sparqlive.store.store import Store
from sparqlive.zset.run import Run, directory_of
from tests.conftest import examples, times
from tests.store.test_store import EX
from tests.zset.test_run import columns, lookups

Row = tuple[int, ...]
WHOLE: list[Order] = ["spo", "osp", "gpso", "gpos"]
BY_PREDICATE: list[Order] = ["pso", "pos"]
TABLE = ("predicates", "starts", "graphs", "several", "directory_starts")
ORDERS: tuple[Order, ...] = get_args(Order)
DEFAULT = Dictionary().id_of(ox.DefaultGraph())


@pytest.fixture(autouse=True, scope="module")
def _small_parts() -> Iterator[None]:
    """Bases have many files, files many row groups, maps many blocks, and small runs have directories."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (runs, compaction):
            patch.setattr(module, "ROWS_A_FILE", 40)
        patch.setattr(runs, "ROWS_PER_GROUP", 16)
        patch.setattr(maps, "BLOCK", 512)
        patch.setattr(maps, "_BUCKET_BITS", 3)
        patch.setattr(maps, "FEWEST_FOR_DIRECTORY", 8)
        yield


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def node(name: str) -> ox.NamedNode:
    return ox.NamedNode(EX + name)


def quad(s: int, p: int, o: int, g: int) -> ox.Quad:
    """Graph 0 is the unnamed one."""
    return ox.Quad(node(f"n{s}"), node(f"p{p}"), node(f"n{o}"), node(f"g{g}") if g else ox.DefaultGraph())


def ids(quads: Iterable[ox.Quad]) -> set[Row]:
    """The ids of quads, as s, p, o, g."""
    return {
        (
            *(hash_of(str(term)) for term in (quad.subject, quad.predicate, quad.object)),
            DEFAULT if quad.graph_name == ox.DefaultGraph() else hash_of(str(quad.graph_name)),
        )
        for quad in quads
    }


def fill(path: Path, *batches: Collection[ox.Quad]) -> set[Row]:
    """A store with a base; each batch after the first is folded into the files of those before it."""
    with sparqlive.open(path) as session:
        for batch in batches:
            session.load(batch)
            session.compact()
    return ids(quad for batch in batches for quad in batch)


def opened(path: Path, **more: int) -> QuadMaps:
    store = Store(path, read_only=True)
    try:
        base = store.catalog.runs(QUADS)
        assert store.catalog.change_rows(store.quads_epoch()) == 0
        return QuadMaps(path, store.place, base, **more)
    finally:
        store.close()


def in_order(rows: Iterable[Row], order: Order) -> list[Row]:
    return sorted(tuple(row["spog".index(name)] for name in COLUMNS[order]) for row in rows)


def part_of(rows: Collection[Row], order: Order, predicate: int) -> list[Row]:
    own = [row for row in rows if row[1] == predicate]
    found = in_order(own, order)
    return found if len({row[3] for row in own}) > 1 else [row[:2] for row in found]


def check_run(found: Run, expected: Sequence[Row]) -> None:
    """All lookups, those of rows that are not there included."""
    width = len(found.views)
    probes = [*expected[:: max(1, len(expected) // 6)], expected[-1]]
    probes += [(*row[:-1], row[-1] + 1) for row in probes] + [(7,) * width]
    right = Run(columns([*expected], width))
    assert list(lookups(found, probes)) == list(lookups(right, probes))


def check(found: QuadMaps, rows: Collection[Row]) -> None:
    """Everything that can be read."""
    assert found.size == len(rows)
    predicates = sorted({row[1] for row in rows})
    assert found.predicates().tolist() == predicates
    assert found.sizes().tolist() == [sum(row[1] == each for row in rows) for each in predicates]
    for order in BY_PREDICATE:
        for predicate in predicates:
            graphs = {row[3] for row in rows if row[1] == predicate}
            assert found.graph_of(predicate) == (graphs.pop() if len(graphs) == 1 else None)
            run = found.part(order, predicate)
            assert run is not None
            check_run(run, part_of(rows, order, predicate))
        assert found.part(order, 5) is None
    assert found.graph_of(5) is None
    for order in WHOLE:
        check_run(found.whole(order), in_order(rows, order))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "maps").iterdir())}


@st.composite
def bases(draw: st.DrawFn) -> list[set[ox.Quad]]:
    """Batches of quads: with few or many graphs and predicates, and hubs."""
    chance = random.Random(draw(st.integers(0, 999)))
    predicates, graphs, hub = (draw(st.sampled_from(each)) for each in ((1, 3, 60), (0, 2, 60), (0, 0.9)))
    sizes = draw(st.lists(st.sampled_from((1, 8, 150)), min_size=1, max_size=3))
    at_subject = draw(st.booleans())

    def one() -> ox.Quad:
        busy = 3 if chance.random() < hub else chance.randrange(80)
        ends = (busy, chance.randrange(80)) if at_subject else (chance.randrange(80), busy)
        # A predicate of half of the quads, and one that is in the unnamed graph only.
        predicate = 0 if chance.random() < 0.5 else chance.randrange(predicates)
        return quad(ends[0], predicate, ends[1], 0 if predicate == 1 else chance.randint(0, graphs))

    return [{one() for _ in range(size)} for size in sizes]


@examples(24)
@given(batches=bases(), directory_rows=st.sampled_from((1, 9, 4096)))
def test_the_same_as_sets(
    tmp_path_factory: pytest.TempPathFactory, batches: list[set[ox.Quad]], directory_rows: int
) -> None:
    path = tmp_path_factory.mktemp("law") / "store"
    rows = fill(path, *batches)
    found = opened(path, directory_rows=directory_rows)
    check(found, rows)
    check(opened(path), rows)  # of what is there now
    whole = files(path)
    assert sorted(name.partition("-")[0] for name in whole) == sorted(ORDERS)
    # A row at a time, some, and about half of them.
    for memory in (0, 10_000) if len(rows) < 50 else (1_000, 20_000):
        for name in whole:
            (path / "maps" / name).unlink()
        opened(path, memory=memory, directory_rows=directory_rows).prepare(ORDERS)
        assert files(path) == whole


def test_an_empty_base(tmp_path: Path) -> None:
    sparqlive.open(tmp_path / "store").close()
    found = opened(tmp_path / "store")
    found.prepare(ORDERS)
    assert (found.size, found.predicates().tolist(), found.sizes().tolist()) == (0, [], [])
    assert found.graph_of(1) is found.part("pso", 1) is found.part("pos", 1) is None
    for order in WHOLE:
        assert found.whole(order).range((1,)) == (0, 0)
        assert [*found.whole(order).rows()] == []
    assert not (tmp_path / "store" / "maps").exists()
    found.remove_others()


def some_quads(size: int = 400, seed: int = 1) -> set[ox.Quad]:
    """Quads of a few predicates, of which some are in several graphs, with a hub."""
    chance = random.Random(seed)
    found = set[ox.Quad]()
    while len(found) < size:
        object_ = 0 if chance.random() < 0.3 else chance.randrange(100)
        predicate = chance.choice((0, 0, 0, 1, 2, 3))
        found.add(quad(chance.randrange(200), predicate, object_, chance.randrange(3) * (predicate < 2)))
    return found


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


def test_errors_of_other_maps_replace_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "store", some_quads())
    found = opened(tmp_path / "store")
    assert not found.replace(UnusableMap(tmp_path / "other.map", "it is damaged"))


# Files


def test_only_the_files_of_other_bases_are_removed(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "store"
    first, second = some_quads(seed=1), some_quads(seed=2)
    rows = fill(path, first)
    before = opened(path)
    before.prepare(["pso", "spo"])
    (path / "maps" / "terms-1.map").write_bytes(b"of something else")
    (path / "maps" / f"pso-1.map-{'0' * 32}{maps.UNFINISHED}").write_bytes(b"of a process that was killed")
    fill(path, second)
    after = opened(path)
    after.prepare(["pso", "spo"])
    assert len(files(path)) == 6
    after.remove_others()
    assert sorted(name.partition("-")[0] for name in files(path)) == ["pso", "spo", "terms"]
    # A reader of the old base reads on. Only what it has not opened yet is missing, and created again.
    check_run(before.whole("spo"), in_order(rows, "spo"))
    check(opened(path), rows | ids(second))
    emptied = QuadMaps(path, after._place, ())
    emptied.remove_others()
    assert [*files(path)] == ["terms-1.map"]


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


# Many predicates and graphs


def test_a_part_among_many_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening reads the header and the tables, and a part the blocks that it is in."""
    monkeypatch.undo()
    for name, value in (("BLOCK", 1 << 18), ("_BUCKET_BITS", 13), ("FEWEST_FOR_DIRECTORY", 256)):
        monkeypatch.setattr(maps, name, value)
    for module in (runs, compaction):
        monkeypatch.setattr(module, "ROWS_A_FILE", 1_000_000)
    monkeypatch.setattr(runs, "ROWS_PER_GROUP", 131_072)
    path, count = tmp_path / "store", 20_000
    lines = [
        f"<{EX}n{n % 999}> <{EX}p{n % count}> <{EX}n{n % 1001}> <{EX}g{n % (count + 1)}> ."
        for n in range(5 * count)
    ]
    (tmp_path / "many.nq").write_text("\n".join(lines))
    with sparqlive.open(path) as session:
        session.load(tmp_path / "many.nq")
        session.compact()
    opened(path).prepare(["pso", "pos", "gpso"])
    reads, read = list[int](), Map._read
    monkeypatch.setattr(
        Map, "_read", lambda self, size, offset: reads.append(size) or read(self, size, offset)
    )
    found = opened(path)
    assert len(found.predicates()) == count
    # Of one file: 20 bytes for each of its 400 blocks and less, and 36 bytes per predicate.
    assert sum(reads) < 1_000_000
    for order in BY_PREDICATE:
        found.prepare([order])
        reads.clear()
        run = found.part(order, hash_of(f"<{EX}p77>"))
        assert run is not None
        assert run.length == 5
        assert len(reads) <= 4
        assert sum(view.nbytes for view in run.views) == 5 * 24
    whole = found.whole("gpso")
    reads.clear()
    assert whole.count_one(hash_of(f"<{EX}g77>")) == 5
    assert len(reads) <= 10
    del found._open["pos"]
    assert not [name for name, kept in vars(found).items() if hasattr(kept, "__len__") and len(kept) > 20]


def test_directories_are_those_of_runs_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "store"
    rows = fill(path, some_quads(2000))
    found = opened(path, directory_rows=10, memory=5_000)
    for predicate in found.predicates().tolist():
        run = found.part("pos", predicate)
        assert run is not None
        directory = directory_of(run.columns[0]).tolist()
        assert [run._directory[bucket] for bucket in range(len(run._directory))] == directory
    assert found.size == len(rows)
