"""Files that are watched are noticed however they change, with notifications of the system and without."""

from __future__ import annotations

import asyncio
import glob
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import sparqlive
from sparqlive.sources import listing as listing_module
from sparqlive.sources.hints import Hints, folders_to_watch
from sparqlive.sources.kinds import file as file_module
from sparqlive.sources.kinds.file import File
from sparqlive.sources.listing import Listing, is_glob, listing_of
from sparqlive.sources.watcher import Content, Failed, Unchanged
from tests.waiting import wait_until


def write(path: Path, *values: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"<a:s> <a:p> {value} .\n" for value in values))
    return path


def listed(address: str) -> Listing:
    return listing_of(address, is_glob(address))


def link(path: Path, target: Path | str) -> None:
    """Makes a link, in the place of another one if there is one, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.new")
    made.symlink_to(target)
    made.rename(path)


def replace_folder(folder: Path, name: str, *values: int) -> None:
    """Another folder in its place, by rename."""
    write(folder.with_name("next") / name, *values)
    folder.rename(folder.with_name("last"))
    folder.with_name("next").rename(folder)


def rewrite_alike(path: Path, *values: int) -> None:
    """In place, with the size and the time that it had."""
    before = path.stat()
    write(path, *values)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def rename_alike(path: Path, *values: int) -> None:
    """Another file in its place, of the same size and time."""
    other = write(path.with_name("other"), *values)
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.rename(path)


def make_again(folder: Path, name: str, *values: int) -> None:
    shutil.rmtree(folder)
    write(folder / name, *values)


Step = Callable[[Path], Any]
CASES: dict[str, tuple[str, Sequence[Step], Step, set[int]]] = {
    "a glob over folders, and a new folder": (
        "data/*/x.ttl",
        [lambda top: write(top / "data/a/x.ttl", 1)],
        lambda top: write(top / "data/b/x.ttl", 2),
        {1, 2},
    ),
    "a glob over folders, and a file in the second": (
        "data/*/x.ttl",
        [lambda top: write(top / "data/a/x.ttl", 1), lambda top: write(top / "data/b/y.ttl", 9)],
        lambda top: write(top / "data/b/x.ttl", 2),
        {1, 2},
    ),
    "a change in a folder of a glob": (
        "data/*/x.ttl",
        [lambda top: write(top / "data/a/x.ttl", 1)],
        lambda top: write(top / "data/a/x.ttl", 2),
        {2},
    ),
    "folders in folders": (
        "data/**/*.ttl",
        [lambda top: write(top / "data/x.ttl", 1)],
        lambda top: write(top / "data/b/c/d/x.ttl", 2),
        {1, 2},
    ),
    "a change deep in folders": (
        "data/**/*.ttl",
        [lambda top: write(top / "data/b/c/d/x.ttl", 1)],
        lambda top: write(top / "data/b/c/d/x.ttl", 2),
        {2},
    ),
    "a folder that appears": ("later/on/x.ttl", [], lambda top: write(top / "later/on/x.ttl", 2), {2}),
    "a folder of a glob that appears": ("later/*.ttl", [], lambda top: write(top / "later/x.ttl", 2), {2}),
    "a folder that is made again": (
        "data/x.ttl",
        [lambda top: write(top / "data/x.ttl", 1)],
        lambda top: make_again(top / "data", "x.ttl", 2),
        {2},
    ),
    "a folder that is replaced by rename": (
        "data/*.ttl",
        [lambda top: write(top / "data/x.ttl", 1)],
        lambda top: replace_folder(top / "data", "x.ttl", 2),
        {2},
    ),
    "a file that is replaced by rename": (
        "x.ttl",
        [lambda top: write(top / "x.ttl", 1)],
        lambda top: write(top / "other", 2).rename(top / "x.ttl"),
        {2},
    ),
    "a file behind a link that changes": (
        "x.ttl",
        [lambda top: write(top / "far/y.ttl", 1), lambda top: link(top / "x.ttl", top / "far/y.ttl")],
        lambda top: write(top / "far/y.ttl", 2),
        {2},
    ),
    "a link to another file": (
        "x.ttl",
        [
            lambda top: write(top / "far/1.ttl", 1),
            lambda top: write(top / "far/2.ttl", 2),
            lambda top: link(top / "x.ttl", top / "far/1.ttl"),
        ],
        lambda top: link(top / "x.ttl", top / "far/2.ttl"),
        {2},
    ),
    "a link to another folder": (
        "data/*.ttl",
        [
            lambda top: write(top / "far/1/x.ttl", 1),
            lambda top: write(top / "far/2/x.ttl", 2),
            lambda top: link(top / "data", top / "far/1"),
        ],
        lambda top: link(top / "data", top / "far/2"),
        {2},
    ),
    "a link further up": (
        "srv/current/data/x.ttl",
        [
            lambda top: write(top / "srv/releases/1/data/x.ttl", 1),
            lambda top: write(top / "srv/releases/2/data/x.ttl", 2),
            lambda top: link(top / "srv/current", "releases/1"),
        ],
        lambda top: link(top / "srv/current", "releases/2"),
        {2},
    ),
    "a folder behind a link that is replaced": (
        "data/x.ttl",
        [lambda top: write(top / "far/now/x.ttl", 1), lambda top: link(top / "data", top / "far/now")],
        lambda top: replace_folder(top / "far/now", "x.ttl", 2),
        {2},
    ),
    "a mounted ConfigMap": (
        "config/x.ttl",
        [
            lambda top: write(top / "config/..1/x.ttl", 1),
            lambda top: link(top / "config/..data", "..1"),
            lambda top: link(top / "config/x.ttl", "..data/x.ttl"),
        ],
        lambda top: (write(top / "config/..2/x.ttl", 2), link(top / "config/..data", "..2")),
        {2},
    ),
    "the same size and time, in place": (
        "x.ttl",
        [lambda top: write(top / "x.ttl", 1)],
        lambda top: rewrite_alike(top / "x.ttl", 2),
        {2},
    ),
    "the same size and time, by rename": (
        "x.ttl",
        [lambda top: write(top / "x.ttl", 1)],
        lambda top: rename_alike(top / "x.ttl", 2),
        {2},
    ),
    "a file of a glob that is removed": (
        "data/*.ttl",
        [lambda top: write(top / "data/x.ttl", 1), lambda top: write(top / "data/y.ttl", 2)],
        lambda top: (top / "data/x.ttl").unlink(),
        {2},
    ),
    "the last file of a glob": (
        "data/*.ttl",
        [lambda top: write(top / "data/x.ttl", 1)],
        lambda top: (top / "data/x.ttl").unlink(),
        set(),
    ),
    "a folder of a glob that is removed": (
        "data/*/x.ttl",
        [lambda top: write(top / "data/a/x.ttl", 1), lambda top: write(top / "data/b/x.ttl", 2)],
        lambda top: shutil.rmtree(top / "data/a"),
        {2},
    ),
    "a folder that tools pass over": (
        "node_modules/.git/x.ttl",
        [lambda top: write(top / "node_modules/.git/x.ttl", 1)],
        lambda top: write(top / "node_modules/.git/x.ttl", 2),
        {2},
    ),
}


def values(session: sparqlive.Session) -> set[int]:
    return {int(quad.object.value) for quad in session.quads()}  # type: ignore[union-attr]


async def _no_hints(self: Hints, key: str, paths: Sequence[str]) -> None:
    pass


@pytest.mark.parametrize("hinted", [True, False], ids=["hints", "no hints"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_noticed(case: str, hinted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, before, change, expected = CASES[case]
    for step in before:
        step(tmp_path)
    if not hinted:
        monkeypatch.setattr(Hints, "follow", _no_hints)
    with sparqlive.open() as session:
        source = session.source("file", str(tmp_path / address), name="d", poll_interval_seconds=0.2)
        if before:
            source.refresh()
            assert 1 in values(session)
        change(tmp_path)
        wait_until(lambda: values(session) == expected)
        wait_until(lambda: source.status()["error"] is None)


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][1]])
def test_a_refresh_sees_it(case: str, tmp_path: Path) -> None:
    address, before, change, expected = CASES[case]
    for step in before:
        step(tmp_path)
    with sparqlive.open() as session:
        source = session.source("file", str(tmp_path / address), name="d", poll_interval_seconds=None)
        source.refresh()
        change(tmp_path)
        source.refresh()
        assert values(session) == expected
        assert source.status()["quads"] == len(expected)


@pytest.mark.parametrize(
    "case", ["a file that is replaced by rename", "a glob over folders, and a new folder"]
)
def test_a_store_that_is_opened_again_sees_it(case: str, tmp_path: Path) -> None:
    address, before, change, expected = CASES[case]
    for step in before:
        step(tmp_path)
    with sparqlive.open(tmp_path / "store") as session:
        session.source("file", str(tmp_path / address), name="d").refresh()
    change(tmp_path)
    with sparqlive.open(tmp_path / "store") as session:
        wait_until(lambda: values(session) == expected)


@pytest.mark.parametrize(
    ("case", "where"),
    [
        ("a folder that appears", "later/on/x.ttl"),
        ("a folder that is made again", "data/x.ttl"),
        ("a folder that is replaced by rename", "data/x.ttl"),
        ("a folder behind a link that is replaced", "far/now/x.ttl"),
        ("a link further up", "srv/releases/2/data/x.ttl"),
        ("the last file of a glob", "data/x.ttl"),
    ],
)
def test_what_comes_after_it_is_noticed_too(case: str, where: str, tmp_path: Path) -> None:
    address, before, change, expected = CASES[case]
    for step in before:
        step(tmp_path)
    with sparqlive.open() as session:
        session.source("file", str(tmp_path / address), name="d")
        if before:
            wait_until(lambda: values(session) == {1})
        change(tmp_path)
        wait_until(lambda: values(session) == expected)
        for value in (3, 4):
            write(tmp_path / where, value)
            wait_until(lambda value=value: values(session) == {value})  # type: ignore[misc]


# Outcomes


class Looks:
    """A source by itself: what it reports, look by look."""

    def __init__(self, address: Path | str, **options: Any) -> None:
        self.file = File(str(address), **options)
        self.version: Any = None

    def look(self, asked: bool = True) -> Any:
        outcome = asyncio.run(self.file._look(self.version, asked, asyncio.Event()))
        if isinstance(outcome, Content | Unchanged):
            self.version = outcome.version or self.version
        return outcome


def test_what_is_out_of_sight_is_not_deleted(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "data/*/x.ttl")
    write(tmp_path / "far/x.ttl", 1)
    link(tmp_path / "data/a", tmp_path / "far")
    assert len(looks.look().quads) == 1
    (tmp_path / "far").rename(tmp_path / "away")
    assert "is a broken link to" in looks.look().reason
    (tmp_path / "data").rename(tmp_path / "away/data")
    assert "There is no folder for" in looks.look().reason
    (tmp_path / "away/data").rename(tmp_path / "data")
    (tmp_path / "away").rename(tmp_path / "far")
    assert isinstance(looks.look(), Unchanged)


@pytest.mark.parametrize("name", ["listdir", "stat", "open"])
def test_permissions_that_are_lost_for_a_while(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "data/a/x.ttl", 1)
    looks = Looks(tmp_path / "data/*/x.ttl")
    assert len(looks.look().quads) == 1

    real = open if name == "open" else getattr(os, name)

    def refused(path: Any, *given: Any) -> Any:
        if str(path).startswith(str(tmp_path / "data/a")):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *given)

    with monkeypatch.context() as patch:
        if name == "open":
            patch.setattr(listing_module, "open", refused, raising=False)
        else:
            patch.setattr(listing_module.os, name, refused)
        if name == "listdir":
            looks.file._address = str(tmp_path / "data/*/*.ttl")
        outcome = looks.look()
    assert isinstance(outcome, Failed)
    assert "Permission denied" in outcome.reason
    assert isinstance(looks.look(), Unchanged)


def test_a_missing_folder_may_mean_that_all_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "data/x.ttl", 1)
    for address in ("data/*.ttl", "data/x.ttl"):
        looks = Looks(tmp_path / address, when_missing="clear")
        assert len(looks.look().quads) == 1
        (tmp_path / "data").rename(tmp_path / "away")
        assert looks.look().quads == []
        (tmp_path / "away").rename(tmp_path / "data")


def test_a_glob_without_matches_is_empty(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "*.ttl")
    assert looks.look().quads == []
    assert isinstance(looks.look(), Unchanged)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "Use a glob for its files" in Looks(tmp_path).look().reason


@pytest.mark.parametrize("other", ["pipe", "device"])
def test_what_is_no_file_is_a_failure_and_no_deletion(tmp_path: Path, other: str) -> None:
    looks = Looks(write(tmp_path / "x.ttl", 1))
    assert len(looks.look().quads) == 1
    (tmp_path / "x.ttl").unlink()
    if other == "pipe":
        os.mkfifo(tmp_path / "x.ttl")
    else:
        (tmp_path / "x.ttl").symlink_to(os.devnull)
    assert "is a pipe, a socket or a device" in looks.look().reason
    (tmp_path / "x.ttl").unlink()
    write(tmp_path / "x.ttl", 1)
    assert isinstance(looks.look(), Unchanged)


def test_two_versions_within_one_tick_of_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says the same of both: only their bytes differ."""
    write(tmp_path / "x.ttl", 1)
    same = listed(str(tmp_path / "x.ttl"))
    monkeypatch.setattr(file_module, "listing_of", lambda *_: same)
    looks = Looks(tmp_path / "x.ttl")
    assert len(looks.look(asked=False).quads) == 1
    write(tmp_path / "x.ttl", 2)
    assert len(looks.look(asked=False).quads) == 1  # the listing is young, so that it is not believed
    monkeypatch.setattr(file_module, "_TICK_SECONDS", 0.0)
    assert looks.look(asked=False).version["files"] == same.digest
    monkeypatch.setattr(listing_module, "file_digest", None)  # from now on no byte is read
    assert looks.look(asked=False) == Unchanged()


def test_a_file_that_is_written_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.ttl", 1)
    real, reads = File._read, []

    def read(self: File, *given: Any) -> Any:
        found = real(self, *given)
        reads.append(found)
        if len(reads) < 3:
            write(path, *range(len(reads) + 1))
        return found

    monkeypatch.setattr(File, "_read", read)
    monkeypatch.setattr(file_module, "_PATIENCE_SECONDS", 600)
    outcome = Looks(path).look()
    assert (len(reads), len(outcome.quads)) == (3, 3)


def test_a_file_that_never_rests_is_read_at_the_end_of_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.ttl", 1)
    real = File._read

    def read(self: File, *given: Any) -> Any:
        found = real(self, *given)
        write(path, *range(time.monotonic_ns() % 5))
        with path.open("a") as stream:
            stream.write("#\n")
        return found

    monkeypatch.setattr(File, "_read", read)
    monkeypatch.setattr(file_module, "_PATIENCE_SECONDS", 0.2)
    outcome = Looks(path).look()
    assert isinstance(outcome, Content)
    assert outcome.version["files"] is None


def test_a_file_that_failed_is_not_read_again_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.ttl"
    path.write_text("<a:s> <a:p>")
    monkeypatch.setattr(file_module, "retry_seconds", lambda _: 600)
    looks = Looks(path)
    failed = looks.look(asked=False)
    assert isinstance(failed, Failed)
    with monkeypatch.context() as patch:
        patch.setattr(File, "_read", None)
        assert looks.look(asked=False) is failed
    path.write_text("<a:s> <a:p> 1 .")
    assert len(looks.look(asked=False).quads) == 1


# What is listed


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.ttl", "b/a.ttl", "b/.h.ttl", ".d/a.ttl", "b/c/a.ttl", "b/c/a.nt", "[x].ttl", "é ü/a.ttl"):
        write(tmp_path / name, 1)
    link(tmp_path / "b/up", tmp_path)
    link(tmp_path / "to b", "b")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    ["*.ttl", "*/*.ttl", "b/*.ttl", "b/.*.ttl", ".*/*.ttl", "?.ttl", "[ab]/a.ttl", "[[]x].ttl", "*/c/*"],
)
def test_globs_match_what_python_matches(pattern: str, tree: Path) -> None:
    for address in (pattern, str(tree / pattern)):
        expected = sorted(found for found in glob.glob(address, recursive=True) if Path(found).is_file())
        assert list(listed(address).files) == expected
        assert expected


def test_globs_of_any_depth(tree: Path) -> None:
    assert set(listed("**/a.ttl").files) >= {"a.ttl", "b/a.ttl", "b/c/a.ttl", "to b/c/a.ttl"}
    assert set(listed("b/**").files) >= {"b/a.ttl", "b/c/a.ttl", "b/c/a.nt"}
    assert "b/.h.ttl" not in listed("b/**").files
    assert listed("**/c/**/*.nt").files == ("b/c/a.nt", "to b/c/a.nt")
    assert listed("[x].ttl").files == ("[x].ttl",)  # a name is a name, if there is such a file


def test_the_folders_of_links_are_watched(tree: Path) -> None:
    link(tree / "far/one/link", tree / "b/c/a.ttl")
    link(tree / "near", tree / "far")
    found = folders_to_watch([str(tree / "near/one/link")])
    assert {str(tree / name) for name in ("near/one", "b/c")} | {str(tree)} <= set(found)
    assert str(tree) in folders_to_watch([str(tree / "not/there/x.ttl")])


def test_options_are_checked() -> None:
    with pytest.raises(sparqlive.Error, match="poll_interval_seconds"):
        File("x", poll_interval_seconds=float("nan"))
