"""Maps: runs over them equal runs over arrays, and damage is noticed before a wrong row is returned."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sparqlive.errors import StoreFailed
from sparqlive.store import map_folder, maps
from sparqlive.store.map_folder import MapFolder, is_local
from sparqlive.store.maps import Array, Map, UnusableMap, writing
from sparqlive.zset.run import Run, directory_of
from tests.conftest import examples
from tests.zset.test_run import EXTREMES, HUB, Row, columns, lookups, runs, spread_rows

SOURCES = ("4f1c", "ff00")


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Small files have many blocks, and directories are checked in many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "BLOCK", 512)
        patch.setattr(maps, "_BUCKET_BITS", 4)
        yield


def write_map(path: Path, sources: Sequence[str], arrays: Mapping[str, Array]) -> None:
    sections = {name: (array.dtype.str, len(array)) for name, array in arrays.items()}
    with writing(path, sources, sections) as writer:
        for name, array in arrays.items():
            writer.append(name, array)


def sections_of(rows: Sequence[Row], arity: int, padding: int = 0) -> dict[str, maps.Array]:
    """Sections of rows with weights, between numbers that would change every result."""
    own = {str(number): column for number, column in enumerate(columns(list(rows), arity))}
    own["weights"] = np.arange(1, len(rows) + 1)
    least, greatest = np.full(padding, EXTREMES[0]), np.full(padding, EXTREMES[-1])
    padded: dict[str, maps.Array] = {
        name: np.concatenate((least, column, greatest)) for name, column in own.items()
    }
    return padded | {"directory": directory_of(own["0"])}


def run_of(found: Map, arity: int, weighted: bool, directory: bool, padding: int = 0) -> Run:
    return found.run(
        [str(number) for number in range(arity)],
        "weights" if weighted else None,
        "directory" if directory else None,
        padding,
        found.length("0") - padding,
    )


@examples(40)
@given(case=runs())
def test_mapped_runs_are_looked_up_alike(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[list[Row], bool, list[Row]]
) -> None:
    rows, weighted, probes = case
    arity, backwards = len(probes[0]), probes[::-1]
    own = Run(columns(rows, arity), np.arange(1, len(rows) + 1) if weighted else None)
    expected = list(lookups(own, probes)), list(lookups(own, backwards))
    path = tmp_path_factory.mktemp("maps") / "law.map"
    for padding, directory in ((0, True), (0, False), (11, True), (11, False)):
        write_map(path, SOURCES, sections_of(rows, arity, padding))
        run = run_of(Map(path, SOURCES), arity, weighted, directory, padding)
        assert (list(lookups(run, probes)), list(lookups(run, backwards))) == expected
        unread = run_of(Map(path, SOURCES), arity, weighted, directory, padding)
        assert [column.tolist() for column in unread.columns] == [column.tolist() for column in own.columns]
        unread = run_of(Map(path, SOURCES), arity, weighted, directory, padding)
        assert unread.total() == own.total()
        unread = run_of(Map(path, SOURCES), arity, weighted, directory, padding)
        sought = columns([*probes, *rows], arity)
        assert [found.tolist() for found in unread.places(sought)] == [
            found.tolist() for found in own.places(sought)
        ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directory", [False, True])
def test_every_flipped_byte_is_noticed_before_a_wrong_row(
    tmp_path: Path, weighted: bool, directory: bool
) -> None:
    rows = spread_rows(700, 300, seed=1)
    probes = sorted({*rows[::60], (HUB, 0), *((key, 0) for key in EXTREMES)})
    weights = np.arange(1, len(rows) + 1) if weighted else None
    expected = list(lookups(Run(columns(rows, 2), weights), probes))
    path = tmp_path / "a.map"
    names = ["0", "1"] + ["weights"] * weighted + ["directory"] * directory
    write_map(path, SOURCES, {name: part for name, part in sections_of(rows, 2).items() if name in names})
    whole = path.read_bytes()
    layout = Map(path, SOURCES)._layout
    first = min(section.offset for section in layout.sections.values())
    header = maps._PREFIX.size + len(layout.description) + 8 * layout.blocks
    used = {*range(header)}.union(
        *(range(section.offset, section.offset + section.nbytes) for section in layout.sections.values())
    )
    sample = random.Random(2)
    for place in [*range(maps._PREFIX.size), *sample.sample(range(len(whole)), 150), first, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << sample.randrange(8)
        path.write_bytes(damaged)
        try:
            run = run_of(Map(path, SOURCES), 2, weighted, directory)
            for found, right in zip(lookups(run, probes), expected, strict=True):
                assert found == right, f"byte {place}"
        except UnusableMap:
            assert place in used
        else:
            assert place not in used, f"byte {place} was not checked"


def test_lookups_notice_damage_where_they_read_and_nowhere_else(tmp_path: Path) -> None:
    rows = [(number << 52, number) for number in range(-2000, 2000)]
    path = tmp_path / "a.map"
    write_map(path, SOURCES, sections_of(rows, 2))
    section = Map(path, SOURCES)._layout.sections["1"]
    damaged = bytearray(path.read_bytes())
    damaged[section.offset + 8 * 1000] ^= 1
    path.write_bytes(damaged)
    run = run_of(Map(path, SOURCES), 2, weighted=False, directory=True)
    assert run.seconds(rows[3000][0]) == [rows[3000][1]]
    assert next(run.rows()) == rows[0]
    assert [found.tolist() for found in run.places(columns(rows[3000:3002], 2))] == [
        [3000, 3001],
        [True, True],
    ]
    for lookup in (
        lambda: run.seconds(rows[1000][0]),
        lambda: run.range_one(rows[1000][0]),
        lambda: run.has_pair(*rows[1000]),
        lambda: run.position(rows[1000]),
        lambda: run.places(columns([rows[1000], rows[3000]], 2)),
        lambda: list(run.rows()),
        lambda: run.columns,
    ):
        for _ in range(2):
            with pytest.raises(UnusableMap, match="block 15 of its section 1 is damaged"):
                lookup()
    assert run.has_pair(*rows[3000])


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("name", ["0", "1", "weights"])
def test_what_reads_a_run_first_notices_damage(tmp_path: Path, size: int, name: str) -> None:
    """Each time in a map that nobody has read: small runs, large ones, and each section."""
    rows = [(number << 50, number) for number in range(size)]
    path = tmp_path / "a.map"
    write_map(path, SOURCES, sections_of(rows, 2))
    damaged = bytearray(path.read_bytes())
    damaged[Map(path, SOURCES)._layout.sections[name].offset + 8 * 2 + 1] ^= 1
    path.write_bytes(damaged)
    for directory in (True, False):
        for read in (
            lambda run: next(run.rows()),
            lambda run: run.total(),
            lambda run: run.columns,
            lambda run: run.seconds(rows[2][0]),
            lambda run: run.range(rows[2]),
            lambda run: run.places(columns(rows[2:3], 2)),
            lambda run: run.with_changes([rows[2]], [1]),
        ):
            with pytest.raises(UnusableMap, match=f"block 0 of its section {name} is damaged"):
                read(run_of(Map(path, SOURCES), 2, weighted=True, directory=directory))


def test_every_row_is_compared_before_a_lookup_returns_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those next to the edges of blocks, and of the parts in which a directory is checked."""
    monkeypatch.setattr(maps, "BLOCK", 16)
    keys = random.Random(5)
    rows = sorted((keys.randint(EXTREMES[0], EXTREMES[-1]), 0) for _ in range(1000))
    path = tmp_path / "a.map"
    write_map(path, SOURCES, sections_of(rows, 2))
    for place, row in enumerate(rows):
        found = Map(path, SOURCES)
        assert run_of(found, 2, weighted=False, directory=True).seconds(row[0]) == [0]
        blocks = [found._layout.sections[name].first_block + place * 8 // 16 for name in ("0", "1")]
        assert all(found._is_checked[block] for block in blocks), place


def test_opening_and_single_lookups_read_little(tmp_path: Path) -> None:
    rows = [(number << 52, number) for number in range(-2048, 2048)]
    path = tmp_path / "a.map"
    write_map(path, SOURCES, sections_of(rows, 2))
    found = Map(path, SOURCES)
    run = run_of(found, 2, weighted=False, directory=True)
    assert sum(found._is_checked) == 0
    assert run.seconds(rows[1500][0]) == [rows[1500][1]]
    assert 3 <= sum(found._is_checked) <= 10 < len(found._is_checked) / 10
    assert not isinstance(run._directory, memoryview)
    assert all(run.has_pair(*row) for row in rows)
    assert isinstance(run._directory, memoryview), "after all rows were read, nothing checks any more"


def unusable(path: Path, why: str, sources: Sequence[str] = SOURCES) -> None:
    with pytest.raises(UnusableMap, match=why):
        Map(path, sources)


def test_runs_that_share_their_sections(tmp_path: Path) -> None:
    """As the parts of predicates, of which small ones have no directory, and are checked when made."""
    parts = [spread_rows(size, 0, seed) for seed, size in enumerate((500, 3, 40, 1000, 300))]
    lengths, directories = (
        [len(part) for part in parts],
        [directory_of(columns(part, 2)[0]) for part in parts],
    )
    path = tmp_path / "a.map"
    first, second = columns([row for part in parts for row in part], 2)
    write_map(path, SOURCES, {"0": first, "1": second, "directories": np.concatenate(directories)})
    found, start, begin = Map(path, SOURCES), 0, 0
    for part, length, directory in zip(parts, lengths, directories, strict=True):
        where, of = (start, start + length), (begin, begin + len(directory))
        own = Run(columns(part, 2))
        probes = [*part[::17], (HUB, 0), *((key, 0) for key in EXTREMES)]
        for more in ({"directory": "directories", "directory_range": of}, {}):
            run = found.run(["0", "1"], start=where[0], stop=where[1], **more)  # type: ignore[arg-type]
            assert list(lookups(run, probes)) == list(lookups(own, probes))
            unread = Map(path, SOURCES).run(["0", "1"], start=where[0], stop=where[1], **more)  # type: ignore[arg-type]
            assert all(unread.has_pair(*row) for row in part)
        start, begin = where[1], of[1]
    damaged = bytearray(path.read_bytes())
    damaged[found._layout.sections["1"].offset + 8 * 501] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(UnusableMap, match="of its section 1 is damaged"):
        Map(path, SOURCES).run(["0", "1"], start=500, stop=503)


def test_each_entry_of_a_shared_directory_is_compared(tmp_path: Path) -> None:
    parts = [spread_rows(400, 0, seed) for seed in (1, 2)]
    directories = [directory_of(columns(part, 2)[0]) for part in parts]
    path, edge = tmp_path / "a.map", len(directories[0])
    first, second = columns([row for part in parts for row in part], 2)
    write_map(path, SOURCES, {"0": first, "1": second, "directories": np.concatenate(directories)})
    section, whole = Map(path, SOURCES)._layout.sections["directories"], path.read_bytes()
    for place in (edge, edge + 60, edge + len(directories[1]) - 1):
        damaged = bytearray(whole)
        damaged[section.offset + 4 * place] ^= 1
        path.write_bytes(damaged)
        run = Map(path, SOURCES).run(
            ["0", "1"], None, "directories", 400, 800, directory_range=(edge, section.length)
        )
        with pytest.raises(UnusableMap, match="of its section directories is damaged"):
            [run.has_pair(*row) for row in parts[1]]


def test_files_that_are_no_maps(tmp_path: Path) -> None:
    path, other = tmp_path / "a.map", tmp_path / "b.map"
    unusable(path, "No such file")
    write_map(path, SOURCES, {"numbers": np.arange(1000)})
    whole = path.read_bytes()
    assert Map(path, SOURCES).array("numbers").tolist() == [*range(1000)]
    unusable(path, "derived from something else", ("4f1c",))
    for size in (0, 10, maps._PREFIX.size, 100, len(whole) // 2, len(whole) - 1, len(whole) + 1):
        other.write_bytes((whole + b"\0")[:size])
        unusable(other, "too short|bytes instead of")
    other.write_bytes(b"PAR1" * 1000)
    unusable(other, "not a map of this version")
    other.write_bytes(bytes(len(whole)))
    unusable(other, "not a map of this version")
    other.unlink()
    other.symlink_to(path)
    unusable(other, "symbolic links")
    other.unlink()
    os.mkfifo(other)
    unusable(other, "not a file")
    unusable(tmp_path, "not a file")


def test_a_map_with_blocks_of_another_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_map(tmp_path / "a.map", SOURCES, {"numbers": np.arange(1000)})
    monkeypatch.setattr(maps, "BLOCK", 1024)
    unusable(tmp_path / "a.map", "blocks have a different size")


def test_scratch_files_have_no_name(tmp_path: Path) -> None:
    folder = MapFolder(tmp_path / "maps")
    with folder.scratch() as descriptor:
        assert [*(tmp_path / "maps").iterdir()] == []
        os.write(descriptor, b"rows")
        assert os.pread(descriptor, 10, 0) == b"rows"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_that_shrinks_is_noticed_where_it_is_first_read(tmp_path: Path) -> None:
    path = tmp_path / "a.map"
    write_map(path, SOURCES, {"0": np.arange(1000), "1": np.arange(1000)})
    found = Map(path, SOURCES)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(UnusableMap, match="too short"):
        found.array("1")


def test_a_deleted_map_can_still_be_read(tmp_path: Path) -> None:
    folder, rows = MapFolder(tmp_path / "maps"), spread_rows(2000, 0, seed=4)
    with folder.writing("a.map", SOURCES, types_of(sections_of(rows, 2))) as writer:
        for name, section in sections_of(rows, 2).items():
            writer.append(name, section)
    run = run_of(folder.open("a.map", SOURCES), 2, weighted=False, directory=True)
    folder.remove("a.map")
    folder.remove("a.map")
    assert folder.names() == []
    assert list(run.rows()) == rows
    assert all(run.has_pair(*row) for row in rows)


def types_of(sections: dict[str, maps.Array]) -> dict[str, tuple[str, int]]:
    return {name: (section.dtype.str, len(section)) for name, section in sections.items()}


def test_sections_are_written_in_pieces(tmp_path: Path) -> None:
    """As a sort does that holds a part of each column at a time."""
    sections = sections_of(spread_rows(1000, 0, seed=5, arity=3), 3) | {"none": np.arange(0, dtype=np.uint32)}
    whole, pieces = tmp_path / "whole.map", tmp_path / "pieces.map"
    write_map(whole, SOURCES, sections)
    with writing(pieces, SOURCES, types_of(sections)) as writer:
        for start in range(0, 2000, 77):
            for name, section in sections.items():
                writer.append(name, section[start : start + 77])
    assert pieces.read_bytes() == whole.read_bytes()
    assert pieces.stat().st_blocks * 512 >= pieces.stat().st_size, "no holes"
    assert pieces.stat().st_mode & 0o777 == 0o600
    found = Map(pieces, SOURCES)
    assert all(found.array(name).tolist() == section.tolist() for name, section in sections.items())
    assert "none" in found
    assert "other" not in found


def test_a_map_gets_its_name_after_it_was_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    path, sync, rename = tmp_path / "a.map", os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    def renamed(old: Path, new: Path) -> Path:
        unusable(path, "No such file")
        Map(old, SOURCES)
        done.append("rename")
        return rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    write_map(path, SOURCES, {"numbers": np.arange(1000)})
    assert done == ["file", "rename", "folder"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sections = tmp_path / "a.map", {"numbers": np.arange(10_000)}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(StoreFailed, match=r"a\.map could not be written: .*too large"):
            write_map(path, SOURCES, sections)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    pwrite, writes = os.pwrite, iter(range(10))

    def fill(descriptor: int, data: memoryview, offset: int) -> int:
        """Writes a part at a time, until the disk is full."""
        if next(writes) == 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, data[:100], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fill)
        with pytest.raises(StoreFailed, match="No space left"):
            write_map(path, SOURCES, sections)
    assert list(tmp_path.iterdir()) == []
    write_map(path, SOURCES, sections)
    assert Map(path, SOURCES).array("numbers").tolist() == [*range(10_000)]


_KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from sparqlive.store.maps import writing
Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with writing(Path(sys.argv[1]), ["4f1c", "ff00"], {"numbers": ("<i8", 1000)}) as writer:
    writer.append("numbers", np.arange(1000))
"""


def test_killed_before_the_rename(tmp_path: Path) -> None:
    folder = MapFolder(tmp_path)
    script = [sys.executable, "-c", _KILLED, str(tmp_path / "a.map")]
    assert subprocess.run(script, check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert folder.names() == []
    unusable(tmp_path / "a.map", "No such file")
    with pytest.raises(StoreFailed, match="not the name of a map"):
        folder.open(left.name, SOURCES)
    with folder.writing("b.map", SOURCES, {"numbers": ("<i8", 10)}) as writer:
        folder.remove_unfinished()
        assert not left.exists()
        writer.append("numbers", np.arange(10))
    assert folder.names() == ["b.map"]
    folder.remove_unfinished()
    assert folder.open("b.map", SOURCES).array("numbers").tolist() == [*range(10)]


def test_names_and_links_do_not_leave_the_folder(tmp_path: Path) -> None:
    folder = MapFolder(tmp_path / "maps")
    for name in ("../a.map", "/tmp/a.map", "b/a.map", ".a.map", "a", "", "a.map\n", "ä.map"):
        for use in (
            lambda name=name: folder.open(name, SOURCES),
            lambda name=name: folder.writing(name, SOURCES, {}),
            lambda name=name: folder.remove(name),
        ):
            with pytest.raises(StoreFailed, match="not the name of a map"):
                use()
    assert folder.names() == []
    assert not (tmp_path / "maps").exists()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "maps").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreFailed, match="is a link"):
        MapFolder(tmp_path / "maps")


def test_two_threads_read_a_map_that_nobody_has_checked(tmp_path: Path) -> None:
    rows = spread_rows(3000, 1000, seed=6)
    path = tmp_path / "a.map"
    write_map(path, SOURCES, sections_of(rows, 2))
    run = run_of(Map(path, SOURCES), 2, weighted=True, directory=True)
    missed: list[Row] = []

    def read(step: int) -> None:
        missed.extend(row for row in rows[::step] if not run.has_pair(*row))

    threads = [threading.Thread(target=read, args=(step,)) for step in (1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:5 / /proc rw - proc proc rw
30 22 0:40 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw
31 30 8:2 / /home/own rw - xfs /dev/sdb rw
32 22 0:41 / /mnt/with\\040space rw - fuse.sshfs host: rw
33 22 0:42 / /mnt/share rw - cifs //server/share rw
34 22 0:43 / /run/covered rw - tmpfs tmpfs rw
35 34 0:44 / /run/covered rw - fuse portal rw
36 22 0:45 / /layers rw - overlay overlay rw
"""


def test_where_maps_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_local(tmp_path)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(map_folder, "_MOUNTS", mounts)
    for local in ("/store", "/home/own/store", "/homes", "/layers/x", "/mnt", "/mnt/shared"):
        assert is_local(Path(local)), local
        assert map_folder.map_folder(Path(local)) == Path(local, "maps")
    for remote in ("/home/store", "/home/other/own", "/mnt/with space/x", "/mnt/share", "/run/covered/x"):
        assert not is_local(Path(remote)), remote
        monkeypatch.setenv("XDG_CACHE_HOME", "/layers/cache")
        assert map_folder.map_folder(Path(remote)).parent == Path("/layers/cache/sparqlive")
        monkeypatch.setenv("XDG_CACHE_HOME", "/home/me/.cache")
        with pytest.raises(StoreFailed, match="Set XDG_CACHE_HOME"):
            map_folder.map_folder(Path(remote))
    (tmp_path / "link").symlink_to("/mnt/share")
    assert not is_local(tmp_path / "link" / "store")
    monkeypatch.setattr(map_folder, "_MOUNTS", tmp_path / "none")
    assert is_local(Path("/mnt/share"))
