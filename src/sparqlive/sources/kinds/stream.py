"""Streams of changes (`.changes` or RDF Patch): a growing file, standard input, or a Web response.

`stream_batches.py` defines batches, and how to continue a stream from a place.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

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
from sparqlive.sources.paths import local_path, scheme_of
from sparqlive.sources.polling import wait
from sparqlive.sources.watcher import Failed, Report, Unchanged, Version, Watcher
from sparqlive.web.network import Reach
from sparqlive.web.retry import retry_seconds

# How often a file is checked, even without a notification.
_LOOK_SECONDS = 1.0


def stream(address: str, **options: Any) -> Watcher:
    """Returns the stream at an address: `-` is standard input, http(s) is the Web, others are files."""
    if address == "-":
        return StandardInput(**options)
    if scheme_of(address) in ("http", "https"):
        return Body(address, **options)
    return GrowingFile(address, **options)


class GrowingFile:
    """A file that other programs append to.

    When a new, non-empty file takes its place, the old one is complete: it is read to its end, and then the
    new one from its beginning. `when_replaced` says what to do with a file that was truncated, or replaced
    while it was not watched.
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
        self._path = Path(local_path(address))
        self._quiet_seconds = quiet_seconds
        self._begins = when_replaced == "begin"
        self._seen: tuple[int, ...] | None = None  # the file's status when it was last read
        self._checked = 0  # the file's change time when its last bytes were last compared

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        place, failures = Place.of(version), 0
        hints = Hints(step_milliseconds=10)
        grown, at_end = hints.noticed, asyncio.Event()
        try:
            while True:
                batches = None
                try:
                    await hints.follow("", [str(self._path)])
                    file, tail = await asyncio.to_thread(self._open, place)
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
                    place, failures = await self._restart(report), 0
                    continue
                except Replaced:
                    place = batches.place if batches else place
                    if self._begins:
                        place, failures = await self._restart(report), 0
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

    async def _restart(self, report: Report) -> Place:
        """Reports the beginning of a new file as the place, since the old place does not apply to it."""
        await report(Unchanged(asdict(Place())))
        return Place()

    async def _until_changed(self, wake: asyncio.Event, seconds: float) -> None:
        """Waits until the file has changed, a refresh is requested, or the time is over."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            await wait(wake, _LOOK_SECONDS)
            if wake.is_set() or asyncio.get_running_loop().time() >= end:
                return
            if await asyncio.to_thread(self._state) != self._seen:
                return

    def _state(self) -> tuple[int, ...] | None:
        """The status of the file; None if it does not exist."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _reason(self, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return f"There is no file at {self._path}. The quads read from it before are kept."
        return f"Cannot read {self._path}: {error}." if isinstance(error, OSError) else str(error)

    def _open(self, place: Place) -> tuple[BinaryIO, bytes]:
        """Opens the file at a place; returns it, and the bytes before the place."""
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
        """Yields the bytes of the file from here on, until a new file takes its place.

        A look that began before a refresh was requested (`grown` is set again) does not count as the end.
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
        """Reads the next bytes, after checking that the bytes before them are unchanged."""
        self._seen = self._state()
        at, status = file.tell(), os.fstat(file.fileno())
        if status.st_size == at and status.st_ctime_ns == self._checked:
            return b""
        if status.st_size < at or os.pread(file.fileno(), len(before), at - len(before)) != before:
            raise Replaced
        self._checked = status.st_ctime_ns
        return file.read(PIECE_BYTES)

    def _is_replaced(self, file: BinaryIO) -> bool:
        """Whether the path has a new, non-empty file. A file that was only moved away may still grow."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return False
        return status.st_size > 0 and not os.path.samestat(status, os.fstat(file.fileno()))


# Standard input


class StandardInput:
    """The standard input of this process. It cannot be read twice: after a failure it has ended."""

    def __init__(self, *, quiet_seconds: float = 0.2, max_bytes: int = 64 << 20) -> None:
        check_options(quiet_seconds)
        self._max_bytes = Reach(max_bytes=max_bytes).max_bytes
        self._quiet_seconds = quiet_seconds
        self._batches: Batches | None = None

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        if self._batches is not None:  # a batch was rejected
            line = self._batches.place.line
            await report(Failed(f"standard input: reading stopped after line {line:,}, where it failed."))
            return

        async def report_batches(outcome: Any) -> None:
            if not isinstance(outcome, Unchanged):  # a refresh waits for the end of the input
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
            await report(Failed(f"{error} Reading of standard input stopped."))


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
