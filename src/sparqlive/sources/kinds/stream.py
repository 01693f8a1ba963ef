"""A stream of changes, `.changes` or RDF Patch: a file that grows, standard input, or the body of an answer.

`stream_batches.py` says what a batch is, and how a stream is read on from a place.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from sparqlive.errors import Error
from sparqlive.sources.hints import Hints
from sparqlive.sources.kinds.stream_batches import (
    PIECE_BYTES,
    TAIL_BYTES,
    Batches,
    Place,
    Replaced,
    WhenReplaced,
    another_stream,
    check_options,
    follow,
)
from sparqlive.sources.kinds.stream_web import Body
from sparqlive.sources.polling import wait
from sparqlive.sources.watcher import Failed, Report, Unchanged, Version, Watcher
from sparqlive.web.network import Reach
from sparqlive.web.retry import retry_seconds

# A file is looked at so often, also when nothing says that it has changed.
_LOOK_SECONDS = 1.0


def stream(address: str, **options: Any) -> Watcher:
    """The stream at an address: `-` is standard input, http and https are the Web, the rest are files."""
    if address == "-":
        return StandardInput(**options)
    if urlsplit(address).scheme in ("http", "https"):
        return Body(address, **options)
    return GrowingFile(address, **options)


class GrowingFile:
    """A file that others append to.

    When another file is put in its place, and has something in it, the old one has got all that it gets: it
    is read to its end, and then the new one from its beginning. A file that was cut, or replaced while nobody
    watched, is handled as `when_replaced` says.
    """

    def __init__(
        self,
        address: str,
        *,
        quiet_seconds: float = 0.2,
        when_replaced: WhenReplaced = "stop",
        max_bytes: int = 64 << 20,
    ) -> None:
        check_options(quiet_seconds, when_replaced)
        self._max_bytes = Reach(max_bytes=max_bytes).max_bytes
        local = urlsplit(address)
        self._path = Path(url2pathname(local.path) if local.scheme == "file" else address)
        self._quiet_seconds = quiet_seconds
        self._begins = when_replaced == "begin"
        self._seen: tuple[int, ...] | None = None  # what the system said of the file when it was last read
        self._checked = 0  # its change time when it last had the bytes that were read

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        place, failures = Place.of(version), 0
        hints = Hints(step_milliseconds=10)
        grown, at_end = hints.noticed, asyncio.Event()
        try:
            while True:
                batches = None
                try:
                    await hints.follow("", [str(self._path)])
                    file, tail = await asyncio.to_thread(self._opened, place)
                    with file:
                        batches = Batches(str(self._path), place, tail, report, self._max_bytes)
                        at_end.clear()
                        pieces = self._pieces(file, tail, grown, at_end)
                        await follow(
                            pieces,
                            batches,
                            report,
                            wake,
                            quiet_seconds=self._quiet_seconds,
                            looking=grown,
                            at_end=at_end,
                        )
                    await batches.end()
                    place, failures = await self._anew(report), 0
                    continue
                except Replaced:
                    place = batches.place if batches else place
                    if self._begins:
                        place, failures = await self._anew(report), 0
                        continue
                    reason = str(another_stream(str(self._path), place))
                except (Error, OSError) as error:
                    reason = self._reason(error)
                if batches is not None and batches.place != place:
                    place, failures = batches.place, 0
                failures += 1
                wake.clear()
                await report(Failed(reason))
                await self._until_changed(wake, retry_seconds(failures))
        finally:
            hints.stop()

    async def _anew(self, report: Report) -> Place:
        """The beginning of another file: noted, because what was read of the old one says nothing of it."""
        await report(Unchanged(asdict(Place())))
        return Place()

    async def _until_changed(self, wake: asyncio.Event, seconds: float) -> None:
        """Until the file is another or has changed, somebody asks, or so many seconds are over."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            await wait(wake, _LOOK_SECONDS)
            if wake.is_set() or asyncio.get_running_loop().time() >= end:
                return
            if await asyncio.to_thread(self._state) != self._seen:
                return

    def _state(self) -> tuple[int, ...] | None:
        """What the system says of the file; None where it says nothing."""
        try:
            there = self._path.stat()
        except OSError:
            return None
        return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns

    def _reason(self, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return f"There is no file at {self._path}; what was read from it before is kept."
        return f"{self._path}: cannot be read: {error}." if isinstance(error, OSError) else str(error)

    def _opened(self, place: Place) -> tuple[BinaryIO, bytes]:
        """The file at a place, and the bytes before it."""
        self._seen, self._checked = self._state(), 0
        file = self._path.open("rb", buffering=0)
        try:
            file.seek(place.offset - place.overlap)
            before = file.read(place.overlap) if place.overlap else b""
            if not place.follows(before):
                raise Replaced
        except BaseException:
            file.close()
            raise
        return file, before

    async def _pieces(
        self, file: BinaryIO, before: bytes, grown: asyncio.Event, at_end: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        """What the file has from here on, until another one is in its place.

        A look that began before somebody asked for one (`grown` is set again) does not tell that it is all.
        """
        while True:
            grown.clear()
            replaced = await asyncio.to_thread(self._is_replaced, file)
            piece = await asyncio.to_thread(self._read, file, before)
            if piece:
                before = (before + piece)[-TAIL_BYTES:]
                yield piece
            elif replaced:
                return
            else:
                if not grown.is_set():
                    at_end.set()
                await wait(grown, _LOOK_SECONDS)

    def _read(self, file: BinaryIO, before: bytes) -> bytes:
        """What comes next, if what came before is still there."""
        self._seen = self._state()
        at, there = file.tell(), os.fstat(file.fileno())
        if there.st_size == at and there.st_ctime_ns == self._checked:
            return b""
        if there.st_size < at or os.pread(file.fileno(), len(before), at - len(before)) != before:
            raise Replaced
        self._checked = there.st_ctime_ns
        return file.read(PIECE_BYTES)

    def _is_replaced(self, file: BinaryIO) -> bool:
        """Whether others write to another file at the path; one that was moved away may still grow."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return there.st_size > 0 and not os.path.samestat(there, os.fstat(file.fileno()))


# Standard input


class StandardInput:
    """What is written to this process. It cannot be read twice: where it stops, it has ended."""

    def __init__(self, *, quiet_seconds: float = 0.2, max_bytes: int = 64 << 20) -> None:
        check_options(quiet_seconds)
        self._max_bytes = Reach(max_bytes=max_bytes).max_bytes
        self._quiet_seconds = quiet_seconds
        self._batches: Batches | None = None

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        if self._batches is not None:  # what it brought was refused
            line = self._batches.place.line
            await report(Failed(f"standard input: is not read on after its line {line:,}, where it failed."))
            return

        async def report_batches(outcome: Any) -> None:
            if not isinstance(outcome, Unchanged):  # whoever asks for a look waits for its end
                await report(outcome)

        self._batches = Batches("standard input", Place(), b"", report, self._max_bytes)
        try:
            await follow(
                _input(sys.stdin.fileno()),
                self._batches,
                report_batches,
                asyncio.Event(),
                quiet_seconds=self._quiet_seconds,
            )
            await self._batches.end()
        except (Error, OSError) as error:
            await report(Failed(f"{error} Standard input is not read on."))


async def _input(descriptor: int) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    while True:
        ready = asyncio.Event()
        try:
            loop.add_reader(descriptor, ready.set)
        except PermissionError:  # a file on disk is always ready
            piece = os.read(descriptor, PIECE_BYTES)
        else:
            try:
                await ready.wait()
            finally:
                loop.remove_reader(descriptor)
            piece = os.read(descriptor, PIECE_BYTES)
        if not piece:
            return
        yield piece


# An answer over HTTP
