"""Terms are found in maps as in a dict; maps are written again whenever they cannot be used."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from sparqlive.errors import StoreFailed
from sparqlive.rdf.term_columns import OTHER, SAME, UNKNOWN, Gathered, TermColumns
from sparqlive.sparql.columns import TERM_SCHEMA
from sparqlive.store import map_folder, maps, runs, term_maps
from sparqlive.store.map_folder import MapFolder
from sparqlive.store.maps import Map, UnusableMap
from sparqlive.store.place import LocalPlace
from sparqlive.store.runs import DamagedRun, RunFile
from sparqlive.store.term_maps import TermMaps, name_of
from sparqlive.store.term_runs import TermRuns, texts_in, write_term_run
from tests.conftest import examples
from tests.store.test_maps import write_map
from tests.tuned import tune

EX, XSD = "http://example.org/", "http://www.w3.org/2001/XMLSchema#"
ODD = (
    '""',
    '"\\""',
    '"a"@en',
    '"a"@ar--rtl',
    '"𝄞\U0010ffff"',
    '"\0\\n"',
    "_:b",
    "<a:>",
    f"<<( <{EX}s> <{EX}p> <<( <{EX}s> <{EX}p> _:b )>> )>>",
    f'"1"^^<{EX}type>',
    f'"{"x" * 1_000_000}"',
    f'"{"é" * 3_000}"',
)
EXTREMES = (-(1 << 63), -1, 2, (1 << 63) - 1)


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Small files have many blocks and row groups, and directories are checked in many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "BLOCK", 512)
        patch.setattr(maps, "_BUCKET_BITS", 4)
        patch.setattr(term_maps, "_CHECKED_BITS", 3)
        patch.setattr(term_maps, "_MOST_CHECKED", 600)
        patch.setattr(runs, "TERMS_PER_GROUP", 16)
        yield


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("caches")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def write(folder: Path, entries: Mapping[int, str], ending: str = "") -> RunFile:
    return write_term_run(LocalPlace(folder, "."), ".", TermColumns.of(list(entries.items())), ending)


def opened(folder: Path, *files: RunFile) -> TermRuns:
    """The terms of files, for somebody who has opened nothing yet."""
    return TermRuns(TermMaps(LocalPlace(folder, "."), folder), files)


def check(found: TermRuns, entries: Mapping[int, str], others: Sequence[int]) -> None:
    """Every way to look up gives what a dict gives."""
    for number in [*entries, *others, *entries]:
        assert found.text_of(number) == entries.get(number)
    numbers = np.unique(np.array([*entries, *others], np.int64))
    found.gather(wanted := Gathered(numbers))
    assert dict(wanted.known().pairs()) == dict(entries)
    found.gather(wanted := Gathered(np.array(sorted(entries), np.int64)))
    assert wanted.texts().to_pylist() == [entries[number] for number in sorted(entries)]
    given = [entries.get(number, "a:b") if number % 3 else "<a:other>" for number in numbers.tolist()]
    marks = np.full(len(numbers), UNKNOWN, np.int8)
    found.match(numbers, pa.array(given, pa.large_string()), marks)
    for number, text, mark in zip(numbers.tolist(), given, marks.tolist(), strict=True):
        known = entries.get(number)
        assert mark == (UNKNOWN if known is None else SAME if known == text else OTHER)


numbers = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from(EXTREMES), st.integers(0, 400))
texts = st.one_of(st.text(max_size=90).map(lambda text: str(ox.Literal(text))), st.sampled_from(ODD[:-2]))


@examples(40)
@given(
    entries=st.dictionaries(numbers, texts, min_size=1, max_size=300),
    others=st.lists(numbers, max_size=30),
    parts=st.integers(1, 4),
    overlapping=st.booleans(),
    is_written=st.booleans(),
)
def test_as_in_a_dict(
    tmp_path_factory: pytest.TempPathFactory,
    entries: dict[int, str],
    others: list[int],
    parts: int,
    overlapping: bool,
    is_written: bool,
) -> None:
    """`is_written`: the maps are written with their files, not when a term is looked for."""
    folder, others = tmp_path_factory.mktemp("terms"), [number for number in others if number not in entries]
    ids = sorted(entries)
    size = -(-len(ids) // parts)
    chosen = [ids[part::parts] if overlapping else ids[part * size :][:size] for part in range(parts)]
    files = []
    for part, some in enumerate(some for some in chosen if some):
        content = {number: entries[number] for number in some}
        files.append(write(folder, content, f"-{part}"))
        if is_written:
            columns = TermColumns.of(list(content.items()))
            TermMaps(LocalPlace(folder, "."), folder).written(files[-1], columns)
    assert texts_in(LocalPlace(folder, "."), files, [*ids[::7], *others]) == {n: entries[n] for n in ids[::7]}
    check(opened(folder, *files), entries, others)
    check(opened(folder, *files), entries, others)


def spread(count: int, seed: int = 1) -> dict[int, str]:
    chance = random.Random(seed)
    return {chance.randrange(-(1 << 63), 1 << 63): f"<{EX}{seed}/{n}>" for n in range(count)}


def test_odd_terms(tmp_path: Path) -> None:
    entries = dict(zip(spread(len(ODD)), ODD, strict=True))
    check(opened(tmp_path, write(tmp_path, entries)), entries, [5])
    (name,) = MapFolder(tmp_path / "maps").names()
    assert name.startswith(term_maps.PREFIX)


def test_a_lookup_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = spread(2_000)
    file = write(tmp_path, entries)
    opened(tmp_path, file).text_of(0)
    monkeypatch.setattr(term_maps, "term_groups", None)  # no file of terms is read
    monkeypatch.setattr(term_maps, "group_bounds", None)
    found = opened(tmp_path, file)
    checked = found._files[0].open()._map._is_checked
    assert sum(checked) == 1, "the first and the last id"
    number = next(iter(entries))
    assert found.text_of(number) == entries[number]
    assert found.text_of(number + 1) is None
    assert sum(checked) < 20 < len(checked) / 5
    few = Gathered(np.array(sorted(entries)[1_000:1_003]))
    found.gather(few)
    assert len(few.known()) == 3
    assert sum(checked) < 40


@pytest.mark.parametrize("way", ["one", "many"])
def test_every_flipped_byte(tmp_path: Path, way: str) -> None:
    """A damaged map is written again, when it is opened or when the damage is met."""
    entries = spread(300)
    file = write(tmp_path, entries)
    opened(tmp_path, file).text_of(0)
    path = tmp_path / "maps" / name_of(file)
    whole, chance = path.read_bytes(), random.Random(4)
    for place in [*range(0, 60, 2), *chance.sample(range(len(whole)), 60)]:
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
        found = opened(tmp_path, file)
        if way == "one":
            assert {number: found.text_of(number) for number in entries} == entries
        else:
            found.gather(wanted := Gathered(np.array(sorted(entries))))
            assert dict(wanted.known().pairs()) == entries
    for unusable in (b"", whole[:100], whole[:-1], whole + b"x", b"PAR1" * 500, bytes(len(whole))):
        path.write_bytes(unusable)
        assert {number: opened(tmp_path, file).text_of(number) for number in [*entries][:3]}
        assert path.read_bytes() == whole


@pytest.mark.parametrize("way", ["one", "many"])
def test_maps_that_were_made_to_mislead(tmp_path: Path, way: str) -> None:
    """All checksums fit, and the numbers lead outside of the map; or a section is missing or too short."""
    entries = spread(300)
    file = write(tmp_path, entries)
    opened(tmp_path, file).text_of(0)
    path = tmp_path / "maps" / name_of(file)
    whole = path.read_bytes()
    source = Map(path, ["terms 1", path.name])
    names = ["ids", "directory", "ends", "characters", "bounds"]
    sections = {name: source.array(name).copy() for name in names}
    chance = np.random.default_rng(3)
    for name in names:
        right = sections[name]
        whole_range = np.iinfo(right.dtype)
        wrong = chance.integers(whole_range.min, whole_range.max, len(right), right.dtype, endpoint=True)
        for changed in (wrong, np.sort(wrong), right[:-1], right[:0], np.append(right, right), None):
            path.unlink()
            others = {key: array for key, array in sections.items() if key != name}
            write_map(path, ["terms 1", path.name], others if changed is None else others | {name: changed})
            found = opened(tmp_path, file)
            if name in ("characters", "bounds", "ids") and changed is not None and len(changed) == len(right):
                # Then it is the map of other terms, which nobody can notice.
                found.text_of(next(iter(entries)))
            elif way == "one":
                assert {number: found.text_of(number) for number in entries}.keys() == entries.keys()
            else:
                found.gather(Gathered(np.array(sorted(entries))))
            path.unlink()
            path.write_bytes(whole)


def test_tables(tmp_path: Path) -> None:
    """All terms with their typed columns, as DuckDB gets them; damage is met before any of it is read."""
    entries = dict(
        zip(spread(len(ODD) + 300), [*ODD, *(f'"{n}"^^<{XSD}integer>' for n in range(300))], strict=True)
    )
    file = write(tmp_path, entries)
    expected = pq.read_table(tmp_path / file.path).cast(TERM_SCHEMA)
    arrow = pa.total_allocated_bytes()
    table = opened(tmp_path, file)._files[0].table()
    assert pa.total_allocated_bytes() - arrow < 100_000, "texts of a megabyte are not copied"
    assert table.equals(expected)
    path = tmp_path / "maps" / name_of(file, "-typed")
    whole, chance = path.read_bytes(), random.Random(4)
    for place in chance.sample(range(len(whole)), 40):
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
        assert opened(tmp_path, file)._files[0].table().equals(expected)
    held = TermMaps(LocalPlace(tmp_path, "."), tmp_path)
    held.keep([file], is_writer=True)
    assert len(MapFolder(tmp_path / "maps").names()) == 2
    held.keep([], is_writer=True)
    assert not MapFolder(tmp_path / "maps").names()


def test_the_map_of_another_file(tmp_path: Path) -> None:
    mine, theirs = spread(100), spread(100, seed=2)
    files = write(tmp_path, mine), write(tmp_path, theirs, "-2")
    check(opened(tmp_path, *files), mine | theirs, [])
    first, second = (tmp_path / "maps" / name_of(file) for file in files)
    second.unlink()
    first.rename(second)
    check(opened(tmp_path, *files), mine | theirs, [])


def test_a_map_that_stays_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = spread(200)
    file = write(tmp_path, entries)
    number = next(iter(entries))
    opened(tmp_path, file).text_of(number)

    def fail(*_: object) -> Any:
        raise UnusableMap(tmp_path / "maps", "a page cannot be read")

    written: list[int] = []
    real = term_maps._written

    def counted(*given: Any) -> maps.Map:
        written.append(1)
        return real(*given)

    monkeypatch.setattr(maps.Map, "check", fail)
    monkeypatch.setattr(term_maps, "_written", counted)
    with pytest.raises(StoreFailed, match="a page cannot be read"):
        opened(tmp_path, file).text_of(number)
    assert len(written) <= 2


def test_neither_the_map_nor_the_file_can_be_used(tmp_path: Path) -> None:
    file = write(tmp_path, spread(200))
    path = tmp_path / file.path
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(len(content) - 200) + content[-100:])
    with pytest.raises(DamagedRun, match="terms-00000"):
        [opened(tmp_path, file).text_of(number) for number in spread(200)]
    assert not (tmp_path / "maps").exists() or [*(tmp_path / "maps").iterdir()] == []


def test_reading_goes_on_after_maps_and_files_were_removed(tmp_path: Path) -> None:
    first, second = spread(500), spread(500, seed=2)
    files = write(tmp_path, first), write(tmp_path, second, "-2")
    held = TermMaps(LocalPlace(tmp_path, "."), tmp_path)
    found = TermRuns(held, files)
    assert found.text_of(0) is None
    held.keep(files[1:], is_writer=False)
    assert len(MapFolder(tmp_path / "maps").names()) == 2, "only the writer removes what others may read"
    held.keep(files[1:], is_writer=True)
    assert MapFolder(tmp_path / "maps").names() == [name_of(files[1])]
    (tmp_path / files[0].path).unlink()
    check(found, first | second, [1])
    removed = name_of(files[0])
    assert removed in Path("/proc/self/maps").read_text()
    del found
    assert removed not in Path("/proc/self/maps").read_text(), "its space on the disk is free at once"


# Where maps are written


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path, error: int) -> None:
    """As on a full disk, or in a folder that may not be written."""
    real = maps.open_private

    def refused(path: Path, *more: Any) -> Any:
        if path.is_relative_to(folder):
            raise OSError(error, os.strerror(error))
        return real(path, *more)

    monkeypatch.setattr(maps, "open_private", refused)
    monkeypatch.setattr(map_folder, "open_private", refused)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS])
def test_maps_among_the_caches(
    tmp_path: Path, caches: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    entries = spread(200)
    file = write(tmp_path, entries)
    refuse(monkeypatch, tmp_path, error)
    check(opened(tmp_path, file), entries, [])
    assert not MapFolder(tmp_path / "maps").names()
    (cached,) = caches.rglob("*.map")
    before = cached.stat().st_ino
    check(opened(tmp_path, file), entries, [])
    assert cached.stat().st_ino == before
    other = write(tmp_path, spread(10, seed=2), "-2")
    later = TermMaps(LocalPlace(tmp_path, "."), tmp_path)
    later.keep([other], is_writer=False)
    assert not [*caches.rglob("*.map")], "readers keep their caches clean"
    refuse(monkeypatch, caches, error)
    with pytest.raises(StoreFailed, match=r"neither there nor in the cache.*XDG_CACHE_HOME"):
        opened(tmp_path, file).text_of(0)


# Stores


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of a few terms write files."""
    tune(monkeypatch, catalog_rows=20)


def named(start: int, stop: int) -> list[ox.Quad]:
    return [
        ox.Quad(ox.NamedNode(f"{EX}s{n}"), ox.NamedNode(f"{EX}p"), ox.Literal(f"name {n}"))
        for n in range(start, stop)
    ]


def names(session: sparqlive.Session) -> set[str]:
    return {one["n"].value for one in session.query(f"SELECT ?n {{ ?s <{EX}p> ?n }}")}


def expected(stop: int) -> set[str]:
    return {f"name {n}" for n in range(stop)}


def maps_of(path: Path) -> set[str]:
    return {name for name in MapFolder(path / "maps").names() if name.startswith(term_maps.PREFIX)}


@pytest.mark.usefixtures("small")
def test_maps_follow_commits_and_compactions(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path) as session:
        store = session._writer.persistence.store  # type: ignore[union-attr]
        session.apply(insert=named(0, 5))
        assert maps_of(tmp_path) == set(), "a few terms are in the catalog"
        for part in range(9):
            session.apply(insert=named(100 * part, 100 * part + 100))
        assert maps_of(tmp_path) == {name_of(run) for run in store.term_runs()}
        readers = [sparqlive.open(tmp_path, read_only=True) for _ in range(2)]
        assert [names(reader) for reader in readers] == [expected(900)] * 2
        session.apply(insert=named(900, 950))
        session.compact()
        assert maps_of(tmp_path) == {name_of(run) for run in store.term_runs()}
        assert len(maps_of(tmp_path)) < 9
        for reader in readers:
            assert expected(900) <= names(reader) <= expected(950)
            reader.close()
        session.check()
    with sparqlive.open(tmp_path, read_only=True) as session:
        assert names(session) == expected(950)


@pytest.mark.usefixtures("small")
def test_stores_without_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As older versions wrote them, or after somebody has deleted the maps, also while they are open."""
    with sparqlive.open(tmp_path) as session:
        session.apply(insert=named(0, 100))
        session.compact()
        for name in maps_of(tmp_path):
            (tmp_path / "maps" / name).unlink()
        assert names(session) == expected(100)
    shutil.rmtree(tmp_path / "maps")
    with sparqlive.open(tmp_path) as session:
        assert names(session) == expected(100)
        assert session.apply(insert=named(0, 100)).ignored == 100
        session.check()
    assert len(maps_of(tmp_path)) == 1


@pytest.mark.usefixtures("small")
def test_a_full_disk_refuses_the_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sparqlive.open(tmp_path) as session:
        session.apply(insert=named(0, 100))
        with monkeypatch.context() as patch:
            refuse(patch, tmp_path, errno.ENOSPC)
            with pytest.raises(StoreFailed, match="No space left"):
                session.apply(insert=named(100, 200))
        assert names(session) == expected(100)
        session.apply(insert=named(100, 200))
        assert names(session) == expected(200)
        session.check()


_KILLED = """
import os, signal, sys
from pathlib import Path
import sparqlive
from sparqlive.store import maps
steps = {"full": (maps.MapWriter, "append"), "named": (Path, "rename"), "done": (maps, "_sync_folder")}
where, step = steps[sys.argv[2]]
setattr(where, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
with sparqlive.open(sys.argv[1]) as session:
    print(len(session.query("SELECT * { ?s ?p ?o }").solutions()))
"""


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("step", ["full", "named", "done"])
def test_killed_while_a_map_is_written(tmp_path: Path, step: str) -> None:
    with sparqlive.open(tmp_path) as session:
        session.apply(insert=named(0, 100))
    for name in maps_of(tmp_path):
        (tmp_path / "maps" / name).unlink()
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), step], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len([*(tmp_path / "maps").iterdir()]) == 1
    with sparqlive.open(tmp_path, read_only=True) as session:
        assert names(session) == expected(100)
    with sparqlive.open(tmp_path) as session:
        assert names(session) == expected(100)
        session.compact()
        assert all(path.suffix == ".map" for path in (tmp_path / "maps").iterdir()), "nothing unfinished"
        session.check()


_READS = """
import sys, sparqlive
with sparqlive.open(sys.argv[1], read_only=True) as session:
    print(len({one["n"] for one in session.query("SELECT ?n { ?s ?p ?n }")}))
"""


@pytest.mark.usefixtures("small")
def test_several_processes_write_the_same_maps(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path) as session:
        for part in range(4):
            session.apply(insert=named(100 * part, 100 * part + 100))
        for name in maps_of(tmp_path):
            (tmp_path / "maps" / name).unlink()
        command = [sys.executable, "-c", _READS, str(tmp_path)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        assert [process.communicate()[0].strip() for process in processes] == ["400"] * 3
        assert len(maps_of(tmp_path)) == 4
        session.compact()
        assert names(session) == expected(400)


@pytest.mark.usefixtures("small")
def test_every_way_to_read_terms(tmp_path: Path) -> None:
    """Answers, exports, and the terms that DuckDB gets."""
    with sparqlive.open(tmp_path) as session:
        session.apply(insert=named(0, 1_000))
        session.compact()
    with sparqlive.open(tmp_path) as session:
        answer = session.query(f"SELECT ?n {{ ?s <{EX}p> ?n }}")
        ways: dict[str, Callable[[], Any]] = {
            "solutions": lambda: {one["n"].value for one in answer.solutions()},
            "csv": lambda: {*"".join(answer.pieces("csv")).split("\r\n")[1:-1]},
            "arrow": lambda: {*answer.to_arrow().column("n").to_pylist()},
            "quads": lambda: {quad.object.value for quad in session.quads()},
        }
        for way, read in ways.items():
            assert read() == expected(1_000), way
        view = session.view(
            "v", f"SELECT (COUNT(*) AS ?k) {{ ?s <{EX}p> ?n FILTER(?n < 'name 5') }}", strategy="duckdb"
        )
        count = sum(name < "name 5" for name in expected(1_000))
        assert [one["k"].value for one in view.solutions()] == [str(count)]
        assert not session.dictionary.columns(), "no term of the files is in memory"
