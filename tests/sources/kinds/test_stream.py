"""Streams of changes: each batch is an epoch once, whatever is cut, replaced or broken when."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode

import sparqlive
from sparqlive.sources.hints import Hints
from sparqlive.sources.kinds import stream, stream_batches
from sparqlive.sources.manager import Source
from sparqlive.sources.watcher import Changes, Outcome
from tests.conftest import examples
from tests.sources.server import Handler, Site
from tests.waiting import wait_until

GRAPH = "GRAPH <source:feed>"
QUERY = f"SELECT ?o WHERE {{ {GRAPH} {{ <a:s> <a:p> ?o }} }}"


def add(session: sparqlive.Session, address: str | Path, **options: Any) -> Source:
    return session.source("stream", str(address), name="feed", **{"quiet_seconds": 0.1, **options})


def line(sign: str, number: int | str) -> str:
    return f"{sign} <a:s> <a:p> <a:{number}> .\n"


def transaction(*rows: str, end: str = "TC") -> str:
    return "TX .\n" + "".join(rows) + f"{end} .\n"


def objects(session: sparqlive.Session) -> set[str]:
    return {quad.object.value.removeprefix("a:") for quad in session.quads()}


def append(file: Path, text: str) -> None:
    with file.open("a") as stream_:
        stream_.write(text)


# A file that grows


@pytest.mark.parametrize("ending", ["changes", "rdfp", "log"])
def test_a_file_is_followed(tmp_path: Path, ending: str) -> None:
    """Both syntaxes, whatever the file's name: the first line tells."""
    file = tmp_path / f"feed.{ending}"
    patch = ending != "changes"
    file.write_text("H id <uuid:1> .\n" + transaction(line("A", 1)) if patch else "@\n" + line("+", 1))
    with sparqlive.open() as session:
        view = session.view("all", QUERY)
        source = add(session, file)
        wait_until(lambda: len(view) == 1)
        assert {quad.graph_name for quad in session.quads()} == {NamedNode("source:feed")}
        append(
            file,
            transaction(line("A", 2), line("D", 1)) if patch else "@\n" + line("+", 2) + line("-", 1),
        )
        wait_until(lambda: objects(session) == {"2"})
        session.check()
        assert (session.epoch, source.status()["quads"]) == (2, 1)
        source.remove()
        assert len(view) == 0


def test_each_batch_is_an_epoch(tmp_path: Path) -> None:
    file = tmp_path / "feed.changes"
    file.write_text("".join("@\n" + line("+", number) for number in range(20)))
    with sparqlive.open() as session:
        add(session, file).refresh()
        assert (session.epoch, len(session)) == (20, 20)


def test_a_refresh_waits_for_all_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "feed.changes"
    file.write_text("")
    with sparqlive.open() as session:
        source = add(session, file)
        for number in range(10):
            append(file, "".join("@\n" + line("+", f"{number}.{batch}") for batch in range(5)))
            source.refresh()
            assert len(session) == 5 * (number + 1)


def test_a_refresh_waits_also_where_reading_takes_longer_than_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine."""
    read = stream.GrowingFile._read

    def slowly(self: stream.GrowingFile, file: Any, before: bytes) -> bytes:
        time.sleep(0.1)
        return read(self, file, before)

    monkeypatch.setattr(stream.GrowingFile, "_read", slowly)
    file = tmp_path / "x.changes"
    file.write_text("")
    with sparqlive.open() as session:
        source = add(session, file, quiet_seconds=0.01)
        for number in range(4):
            with file.open("a") as writing:
                writing.write(f"@\n+ <a:{number}> <a:p> <a:o> .\n@\n")
            source.refresh()
            assert len(session) == number + 1


def test_lines_without_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are cut where it is quiet, and where they are many."""
    file = tmp_path / "feed.changes"
    file.write_text("".join(line("+", number) for number in range(5)))
    with sparqlive.open() as session:
        source = add(session, file)
        source.refresh()
        assert (session.epoch, len(session)) == (1, 5)
        monkeypatch.setattr(stream_batches, "_MOST_UNMARKED_LINES", 3)
        append(file, "".join(line("+", number) for number in range(5, 12)))
        source.refresh()
        assert (session.epoch, len(session)) == (4, 12)


def test_lines_without_marks_that_never_stop(tmp_path: Path) -> None:
    file = tmp_path / "feed.changes"
    file.write_text("")
    ending = threading.Event()

    def write() -> None:
        number = 0
        while not ending.wait(0.02):
            append(file, line("+", number := number + 1))

    writer = threading.Thread(target=write)
    with sparqlive.open() as session:
        add(session, file, quiet_seconds=5)
        writer.start()
        try:
            wait_until(lambda: session.epoch >= 2)
        finally:
            ending.set()
            writer.join()


def test_a_line_counts_when_it_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "feed.changes"
    whole = line("+", 1)
    file.write_text(whole[:9])
    with sparqlive.open() as session:
        source = add(session, file)
        source.refresh()
        assert len(session) == 0
        append(file, whole[9:-1])
        source.refresh()
        assert len(session) == 0
        append(file, "\n")
        source.refresh()
        assert objects(session) == {"1"}


def test_transactions(tmp_path: Path) -> None:
    """One is whole or not there, an aborted one is nothing, and rows outside are a batch of their own."""
    file = tmp_path / "feed.rdfp"
    prefix = 'H id <uuid:1> .\nPA "x" "http://x/" .\n'
    file.write_text(prefix + line("A", "outside") + "TX .\n" + line("A", 1))
    with sparqlive.open() as session:
        source = add(session, file)
        source.refresh()
        assert objects(session) == {"outside"}
        append(file, line("A", 2))
        source.refresh()
        assert objects(session) == {"outside"}, "a transaction is not cut where it is quiet"
        append(file, 'PD "x" .\nTC .\n' + transaction(line("D", "outside"), line("A", 3), end="TA"))
        source.refresh()
        assert objects(session) == {"outside", "1", "2"}
        assert session.epoch == 2


def test_a_malformed_line_stops_the_stream_before_its_batch(tmp_path: Path) -> None:
    file = tmp_path / "feed.changes"
    wrong = "+ <a:s> <a:p> .\n"
    file.write_text("@\n" + line("+", 1) + "@\n" + line("+", 2) + wrong + "@\n" + line("+", 3))
    with sparqlive.open() as session:
        source = add(session, file)
        with pytest.raises(sparqlive.Error, match=r"feed\.changes, line 5: "):
            source.refresh()
        assert objects(session) == {"1"}, "nothing is skipped"
        with pytest.raises(sparqlive.Error, match="line 5"):
            source.refresh()
        file.write_text(file.read_text().replace(wrong, ""))
        source.refresh()
        assert objects(session) == {"1", "2", "3"}
        assert source.status()["error"] is None


def test_what_is_no_stream_of_changes(tmp_path: Path) -> None:
    file = tmp_path / "feed.html"
    file.write_text("<html>\n")
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match="line 1: expected a line of"):
        add(session, file).refresh()


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    file = tmp_path / "later" / "feed.changes"
    with sparqlive.open() as session:
        source = add(session, file)
        with pytest.raises(sparqlive.Error, match="There is no file"):
            source.refresh()
        file.parent.mkdir()
        file.write_text(line("+", 1))
        wait_until(lambda: len(session) == 1)
        assert source.status()["error"] is None


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "feed.rdfp"
    rows = [line("A", number) for number in range(100)]
    file.write_text("".join(transaction(row) for row in rows))
    with sparqlive.open() as session:
        source = add(session, file, max_bytes=200)
        source.refresh()
        assert len(session) == 100, "the bound is one batch's, not the stream's"
        append(file, transaction(*rows))
        with pytest.raises(sparqlive.Error, match=r"line 301: the batch or line .* exceeds max_bytes"):
            source.refresh()
        assert len(session) == 100


# Going on


@pytest.mark.laws
@given(st.data(), st.booleans())
@examples(30)
def test_in_whatever_pieces_it_comes(data: st.DataObject, patch: bool) -> None:
    """Cut anywhere, quiet anywhere, begun again anywhere: the same changes, and transactions whole."""
    rows = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=4)
    text, expected = "", []
    for number, batch in enumerate(data.draw(st.lists(rows, max_size=6))):
        signs = ("A", "D") if patch else ("+", "-")
        lines_ = [line(signs[0 if adds else 1], value) for adds, value in batch]
        aborted = patch and data.draw(st.booleans())
        text += transaction(*lines_, end="TA" if aborted else "TC") if patch else "@\n" + "".join(lines_)
        text += data.draw(st.sampled_from(["", "\n", "# said\n"]))
        if not aborted:
            expected.append((number, batch))
    body = text.encode()

    async def read() -> list[Changes]:
        reported: list[Changes] = []

        async def report(outcome: Outcome) -> None:
            assert isinstance(outcome, Changes)
            reported.append(outcome)

        place, at = stream_batches.Place(), 0
        tail = b""
        while True:
            batches = stream_batches.Batches("x", place, tail, report, 10_000)
            while at < len(body):
                end = data.draw(st.integers(at + 1, len(body)))
                await batches.take(body[at:end])
                at = end
                happens = data.draw(st.sampled_from(["more", "quiet", "crash"]))
                if happens == "quiet":
                    await batches.pause()
                elif happens == "crash":
                    break
            else:
                await batches.end()
                return reported
            place = batches.place
            at, tail = place.offset, body[place.offset - place.overlap : place.offset]
            assert place.follows(tail)
            assert place.line == body[: place.offset].count(b"\n")

    reported = asyncio.run(read())
    found: dict[str, bool] = {}
    for changes in reported:
        for quads, adds in ((changes.delete, False), (changes.insert, True)):
            found.update((quad.object.value, adds) for quad in quads)
    assert found == {f"a:{value}": adds for _, batch in expected for adds, value in batch}
    if patch:
        assert len(reported) == len(expected)


def test_a_store_goes_on_from_the_batch_that_it_has(tmp_path: Path) -> None:
    """A batch that adds what an earlier one took away shows whether something is read twice."""
    file = tmp_path / "feed.changes"
    file.write_text("@\n" + line("+", 1) + "@\n" + line("-", 1))
    with sparqlive.open(tmp_path / "s") as session:
        add(session, file).refresh()
        assert (session.epoch, len(session)) == (2, 0)
    append(file, "@\n" + line("+", 2))
    with sparqlive.open(tmp_path / "s") as session:
        session.sources["feed"].refresh()
        assert (session.epoch, objects(session)) == (3, {"2"})
        append(file, "+ oops\n")
        with pytest.raises(sparqlive.Error, match=r"line 7: "):
            session.sources["feed"].refresh()


WRITER = """
import sys, time
import sparqlive
with sparqlive.open(sys.argv[1]) as session:
    session.source("stream", sys.argv[2], name="feed", quiet_seconds=0.05)
    print("ready", flush=True)
    time.sleep(60)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Each batch moves a token one further: were one lost or applied twice, a token would be left behind."""
    file = tmp_path / "feed.rdfp"
    file.write_text(transaction(line("A", 0)))
    written = 0
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "s"), str(file)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                append(file, transaction(line("D", written), line("A", written + 1)))
                written += 1
                time.sleep(0.005)
        finally:
            process.kill()
            process.communicate()
    with sparqlive.open(tmp_path / "s") as session:
        before = session.epoch
        session.sources["feed"].refresh()
        assert before > 1, "the processes did something"
        assert (session.epoch, objects(session)) == (written + 1, {str(written)})


def test_a_file_that_is_rotated_while_it_is_watched(tmp_path: Path) -> None:
    file = tmp_path / "feed.changes"
    file.write_text("@\n" + line("+", 1))
    with sparqlive.open(tmp_path / "s") as session:
        source = add(session, file)
        source.refresh()
        with file.open("a") as old:
            file.rename(tmp_path / "feed.changes.1")
            source.refresh()
            old.write("@\n" + line("+", 2))
            old.flush()
            source.refresh()
            assert objects(session) == {"1", "2"}, "one that was moved away may still grow"
            file.touch()
            source.refresh()
            old.write("@\n" + line("+", 3))
        file.write_text("@\n" + line("+", 4))
        wait_until(lambda: objects(session) == {"1", "2", "3", "4"})
        source.refresh()
        assert source.status()["version"]["line"] == 2
    append(file, "@\n" + line("+", 5))
    with sparqlive.open(tmp_path / "s") as session:
        session.sources["feed"].refresh()
        assert (session.epoch, len(session)) == (5, 5)


@pytest.mark.parametrize("choice", ["stop", "begin"])
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("longer", [True, False])
def test_a_file_that_was_cut(tmp_path: Path, choice: str, watched: bool, longer: bool) -> None:
    """Whether all of it had been read nobody knows: it is not read on, unless that is what is wanted."""
    text = "@\n" + line("+", 2) + (("@\n" + line("+", 3)) * 200 if longer else "")
    expected = {"1", "1a"} if choice == "stop" else {"1", "1a", "2"} | ({"3"} if longer else set())
    file = tmp_path / "feed.changes"
    file.write_text("@\n" + line("+", 1) + line("+", "1a"))

    def cut() -> None:
        with file.open("r+") as opened:
            opened.truncate()
            opened.write(text)

    def look(session: sparqlive.Session) -> None:
        source = session.sources["feed"]
        if choice == "stop":
            with pytest.raises(sparqlive.Error, match=r"read up to line 3 .*when_replaced"):
                source.refresh()
        else:
            wait_until(lambda: objects(session) == expected)
            source.refresh()
        assert objects(session) == expected

    with sparqlive.open(tmp_path / "s") as session:
        add(session, file, when_replaced=choice).refresh()
        if watched:
            cut()
            look(session)
    if not watched:
        cut()
    with sparqlive.open(tmp_path / "s") as session:
        look(session)


async def _no_hints(self: Hints, key: str, paths: Sequence[str]) -> None:
    pass


@pytest.fixture(params=[True, False], ids=["hints", "no hints"])
def hinted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With notifications of the file system, and without; what failed is not tried again by itself."""
    monkeypatch.setattr(stream, "retry_seconds", lambda _: 600.0)
    if not request.param:
        monkeypatch.setattr(Hints, "follow", _no_hints)
    return bool(request.param)


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_to_another_file(tmp_path: Path, hinted: bool, linked: str) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/feed.changes").write_text("@\n" + line("+", number))
    link = tmp_path / ("now.changes" if linked == "file" else "now")
    file = link if linked == "file" else link / "feed.changes"
    end = "/feed.changes" if linked == "file" else ""
    link.symlink_to(f"1{end}")
    with sparqlive.open() as session:
        source = add(session, file)
        source.refresh()
        append(tmp_path / "1/feed.changes", "@\n" + line("+", "1a"))
        wait_until(lambda: objects(session) == {"1", "1a"})
        (tmp_path / "new").symlink_to(f"2{end}")
        (tmp_path / "new").rename(link)
        wait_until(lambda: objects(session) == {"1", "1a", "2"})
        append(file, "@\n" + line("+", 3))
        wait_until(lambda: objects(session) == {"1", "1a", "2", "3"})
        source.refresh()


def test_a_folder_that_is_replaced(tmp_path: Path, hinted: bool) -> None:
    file = tmp_path / "feeds" / "feed.changes"
    with sparqlive.open() as session:
        source = add(session, file)
        with pytest.raises(sparqlive.Error, match="There is no file"):
            source.refresh()
        for number in (1, 2):
            made = tmp_path / f"{number}"
            made.mkdir()
            (made / file.name).write_text("@\n" + line("+", number))
            if file.parent.exists():
                file.parent.rename(tmp_path / "old")
            made.rename(file.parent)
            wait_until(lambda number=number: str(number) in objects(session))  # type: ignore[misc]
        append(file, "@\n" + line("+", 3))
        wait_until(lambda: objects(session) == {"1", "2", "3"})


def test_a_file_that_is_written_anew_in_the_same_size(tmp_path: Path, hinted: bool) -> None:
    file = tmp_path / "feed.changes"
    file.write_text("@\n" + line("+", 1))
    with sparqlive.open() as session:
        source = add(session, file)
        source.refresh()
        file.write_text("@\n" + line("+", 2))
        wait_until(lambda: "when_replaced" in (source.status()["error"] or ""))
        with pytest.raises(sparqlive.Error, match="was truncated or replaced"):
            source.refresh()
        file.write_text("@\n" + line("+", 1))
        wait_until(lambda: source.status()["error"] is None)
        append(file, "@\n" + line("+", 3))
        wait_until(lambda: objects(session) == {"1", "3"})


def test_a_malformed_line_that_is_repaired(tmp_path: Path, hinted: bool) -> None:
    file = tmp_path / "feed.changes"
    file.write_text("@\n" + line("+", 1) + "@\n+ <a:s> <a:p> .\n")
    with sparqlive.open() as session:
        source = add(session, file)
        with pytest.raises(sparqlive.Error, match="line 4"):
            source.refresh()
        file.write_text("@\n" + line("+", 1) + "@\n" + line("+", 2))
        wait_until(lambda: objects(session) == {"1", "2"})


# Standard input


@contextmanager
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w") as writer:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writer


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with standard_input(monkeypatch) as writer, sparqlive.open() as session:
        source = add(session, "-")
        writer.write("@\n" + line("+", 1))
        writer.flush()
        wait_until(lambda: objects(session) == {"1"})
        writer.write("@\n" + line("+", 2) + "@\n" + line("+", 3).rstrip("\n"))
        writer.close()
        source.refresh()
        assert (objects(session), session.epoch) == ({"1", "2", "3"}, 3)
        source.refresh()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (transaction(line("A", 1)) + "TX .\n" + line("A", 2), "line 4: the transaction .* truncated"),
        (
            transaction(line("A", 1)) + "A oops .\n" + transaction(line("A", 2)),
            "line 4: .*Reading of standard input stopped",
        ),
    ],
)
def test_standard_input_that_is_wrong(monkeypatch: pytest.MonkeyPatch, text: str, reason: str) -> None:
    with standard_input(monkeypatch) as writer, sparqlive.open() as session:
        source = add(session, "-")
        writer.write(text)
        writer.close()
        with pytest.raises(sparqlive.Error, match=reason):
            source.refresh()
        assert objects(session) == {"1"}


# Over HTTP


class Feed:
    """A stream in pieces: every answer begins with its first byte, or brings what comes from now on."""

    def __init__(self, replays: bool = True, ranges: bool = False) -> None:
        self.data = b""
        self.replays, self.ranges = replays, ranges
        self.breaking = self.ending = False
        self.answers = 0
        self.changed = threading.Condition()

    def add(self, text: str) -> None:
        with self.changed:
            self.data += text.encode()
            self.changed.notify_all()

    def stop(self, *, breaking: bool) -> None:
        """Ends the answers under way, properly or not."""
        with self.changed:
            self.breaking, self.ending = breaking, not breaking
            self.changed.notify_all()
        wait_until(lambda: self.answers == 0)
        self.breaking = self.ending = False

    def __call__(self, handler: Handler) -> None:
        at, status, headers = 0, 200, {"Transfer-Encoding": "chunked", "Content-Type": "text/plain"}
        asked = handler.headers.get("Range")
        if asked and self.ranges:
            at, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
            headers["Content-Range"] = f"bytes {at}-{len(self.data)}/*"
        if not self.replays:
            at = len(self.data)
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.close_connection = True
        with self.changed:
            self.answers += 1
            try:
                while not (self.breaking or self.ending):
                    piece, at = self.data[at:], len(self.data)
                    if piece:
                        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                        handler.wfile.flush()
                    self.changed.wait(0.5)
                if self.ending:
                    handler.wfile.write(b"0\r\n\r\n")
            finally:
                self.answers -= 1


@pytest.fixture
def feed(site: Site) -> Feed:
    made = Feed()
    site.pages["/feed"] = made
    return made


def add_web(session: sparqlive.Session, site: Site, **options: Any) -> Source:
    return add(
        session, site.address + "/feed", **{"allow_private": True, "poll_interval_seconds": 0.05, **options}
    )


def test_a_body_is_followed(site: Site, feed: Feed) -> None:
    with sparqlive.open() as session:
        view = session.view("all", QUERY)
        source = add_web(session, site)
        feed.add("@\n" + line("+", 1))
        source.refresh()
        assert objects(session) == {"1"}
        text = "@\n" + line("+", 2)
        for sign in text:
            feed.add(sign)
        wait_until(lambda: objects(session) == {"1", "2"})
        feed.add("# still there\n")
        source.refresh()
        assert (session.epoch, len(view)) == (2, 2)
        session.check()


@pytest.mark.parametrize("ranges", [True, False])
def test_connections_that_break_and_end(site: Site, feed: Feed, ranges: bool) -> None:
    feed.ranges = ranges
    with sparqlive.open() as session:
        source = add_web(session, site)
        for number in range(40):
            feed.add(transaction(line("D", number), line("A", number + 1)))
            if number % 4 == 3:
                wait_until(lambda at=number: objects(session) == {str(at + 1)})  # type: ignore[misc]
            if number % 8 == 3:
                feed.add("TX .\n" + line("A", "half"))
                feed.stop(breaking=True)
                feed.add("TA .\n")
            elif number % 8 == 7:
                feed.stop(breaking=False)
        wait_until(lambda: objects(session) == {"40"})
        source.refresh()
        assert session.epoch == 40
        asked = [handler.headers["Range"] for handler in site.asked if handler.headers["Range"]]
        assert asked


def test_a_store_goes_on_with_a_body(tmp_path: Path, site: Site, feed: Feed) -> None:
    feed.add("".join("@\n" + line("+", number) + "@\n" + line("-", number) for number in range(100)))
    with sparqlive.open(tmp_path / "s") as session:
        add_web(session, site).refresh()
        assert session.epoch == 200
    feed.add("@\n" + line("+", 1))
    with sparqlive.open(tmp_path / "s") as session:
        session.sources["feed"].refresh()
        assert (session.epoch, objects(session)) == (201, {"1"})


@pytest.mark.parametrize("ranges", [True, False])
def test_a_body_of_another_stream(tmp_path: Path, site: Site, feed: Feed, ranges: bool) -> None:
    feed.ranges = ranges
    feed.add("@\n" + line("+", 1))
    for choice in ("stop", "begin"):
        with sparqlive.open(tmp_path / choice) as session:
            add_web(session, site, when_replaced=choice).refresh()
    site.pages["/feed"] = other = Feed(ranges=ranges)
    other.add("@\n" + line("+", 22) + line("+", 23))
    with sparqlive.open(tmp_path / "stop") as session:
        with pytest.raises(sparqlive.Error, match="was truncated or replaced"):
            session.sources["feed"].refresh()
        assert objects(session) == {"1"}
    with sparqlive.open(tmp_path / "begin") as session:
        session.sources["feed"].refresh()
        assert objects(session) == {"1", "22", "23"}


def test_a_body_of_what_comes_from_now_on(tmp_path: Path, site: Site, feed: Feed) -> None:
    feed.replays = False
    with sparqlive.open() as session:
        source = add_web(session, site, replays=False)
        source.refresh()
        feed.add("@\n" + line("+", 1))
        wait_until(lambda: objects(session) == {"1"})
        feed.add("TX .\n")
        feed.stop(breaking=False)
        wait_until(lambda: feed.answers == 1)
        feed.add("@\n" + line("+", 2))
        wait_until(lambda: objects(session) == {"1", "2"})


def test_a_body_that_does_not_replay(site: Site, feed: Feed) -> None:
    """That what comes is not what came before is found out, and not passed over."""
    feed.replays = False
    with sparqlive.open() as session:
        source = add_web(session, site, timeout_seconds=1)
        source.refresh()
        feed.add("@\n" + line("+", 1))
        wait_until(lambda: objects(session) == {"1"})
        feed.stop(breaking=False)
        wait_until(lambda: feed.answers == 1)
        wait_until(
            lambda: (
                "did not send the part that was read before again within 1 s. Use replays=False"
                in (source.error or "")
            )
        )

        def is_another() -> bool:
            feed.add("@\n" + line("+", 22))
            return "or with replays=False" in (source.error or "")

        wait_until(is_another)
        assert objects(session) == {"1"}


def test_a_malformed_line_of_a_body(site: Site, feed: Feed) -> None:
    feed.add("@\n" + line("+", 1) + "@\noops\n")
    with sparqlive.open() as session:
        source = add_web(session, site)
        with pytest.raises(sparqlive.Error, match=r"/feed, line 4: "):
            source.refresh()
        assert objects(session) == {"1"}
        feed.data = feed.data.replace(b"oops\n", line("+", 2).encode())
        source.refresh()
        assert objects(session) == {"1", "2"}


def test_what_is_kept_of_a_body_is_bounded(site: Site, feed: Feed) -> None:
    feed.add("".join("@\n" + line("+", number) for number in range(300)))
    with sparqlive.open() as session:
        source = add_web(session, site, max_bytes=2000)
        source.refresh()
        assert len(session) == 300
        feed.add("+" * 3000)
        with pytest.raises(sparqlive.Error, match="exceeds max_bytes"):
            source.refresh()


def test_answers_that_are_no_stream(site: Site) -> None:
    with sparqlive.open() as session:
        source = add_web(session, site)
        with pytest.raises(sparqlive.Error, match=r"does not exist"):
            source.refresh()
        site.pages["/feed"] = lambda handler: handler.send(503, {"Retry-After": "100"})
        with pytest.raises(sparqlive.Error, match=r"is busy"):
            source.refresh()


def test_private_addresses_are_refused(site: Site, feed: Feed) -> None:
    feed.add("@\n" + line("+", 1))
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.Error, match="not a public address"):
            add_web(session, site, allow_private=False).refresh()
        assert not site.asked


def test_options_are_checked() -> None:
    with sparqlive.open() as session:
        for address, options in (
            ("x.changes", {"quiet_seconds": 0}),
            ("x.changes", {"when_replaced": "perhaps"}),
            ("x.changes", {"allow_private": True}),
            ("-", {"when_replaced": "begin"}),
            ("http://x/", {"replays": 1}),
            ("http://u:p@x/", {}),
        ):
            with pytest.raises(sparqlive.Error):
                add(session, address, **options)
        assert not session.sources
