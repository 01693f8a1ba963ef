"""Splits a stream of changes into batches, for files, standard input and the Web.

Each batch is reported with the place where it ends, so that it becomes an epoch exactly once. After a crash,
a file continues from that place, and so does a URL whose responses begin with the stream's first byte. The
bytes before the place show whether it is still the same stream; a different one is not continued from there.

A batch ends with its transaction (TC), before a line that begins another one (`@`, TX), or when the stream is
quiet for a moment. A batch without a mark also ends after a second, or after many lines. A line counts once
it is complete. Invariants: a transaction is reported whole or not at all; a malformed line stops the stream
before its batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Literal

from sparqlive.errors import Error
from sparqlive.numbers import seconds
from sparqlive.rdf.changes import Batch, Reader
from sparqlive.sources.polling import first_of
from sparqlive.sources.watcher import Changes, Report, Unchanged, Version

PIECE_BYTES = 1 << 18
TAIL_BYTES = 1024  # before a place, to recognise the stream
_MOST_UNMARKED_LINES = 10_000
_MOST_UNMARKED_SECONDS = 1.0

WhenReplaced = Literal["stop", "begin"]


@dataclass(frozen=True)
class Place:
    """A position in a stream: the number of bytes and lines before it, and a digest of the last bytes."""

    offset: int = 0
    line: int = 0
    tail: str = ""

    @classmethod
    def of(cls, version: Version | None) -> Place:
        return cls(**version) if version else cls()

    @property
    def overlap(self) -> int:
        """How many bytes before the place the digest covers."""
        return min(self.offset, TAIL_BYTES)

    def follows(self, before: bytes) -> bool:
        """Whether these are the bytes before the place."""
        return len(before) == self.overlap and (not before or _digest(before) == self.tail)


class Replaced(Exception):  # noqa: N818 - handled as `when_replaced` says
    """The address no longer has the stream that was read."""


class Batches:
    """Splits bytes into lines and lines into batches; reports each batch with the place where it ends."""

    def __init__(self, name: str, place: Place, tail: bytes, report: Report, max_bytes: int) -> None:
        self.place = place
        """Where the last reported batch ends."""
        self._report = report
        self._max_bytes = max_bytes
        self._reader = Reader(name, line=place.line)
        self._buffer = bytearray()  # unread lines, and the beginning of the next one
        self._searched = 0  # this many bytes of the buffer contain no line end
        self._tail = bytearray(tail)
        self._offset = self._begin = place.offset  # of the next line; of the current batch
        self._begin_line = self._timed_line = place.line
        self._began = 0.0  # when the first line of the batch arrived

    async def take(self, piece: bytes) -> None:
        """Reports the batches that end in these bytes."""
        self._buffer += piece
        while True:
            changes = await asyncio.to_thread(self._next)
            if changes is None:
                break
            await self._hand_over(changes)
        now = asyncio.get_running_loop().time()
        if self._begin_line != self._timed_line or not self._reader.started:
            self._timed_line, self._began = self._begin_line, now
        elif not self._reader.marked and now - self._began >= _MOST_UNMARKED_SECONDS:
            await self.pause()

    async def pause(self) -> None:
        """Ends the current batch here, unless a transaction or a line is incomplete."""
        if self._reader.started and not self._reader.transaction and not self._buffer:
            batch = await asyncio.to_thread(self._reader.finish)
            await self._hand_over(self._changes(batch, self._reader.line))

    async def end(self) -> None:
        """Ends the last batch; the stream is complete."""
        if self._buffer:
            await self.take(b"\n")
        if self._reader.transaction:
            raise Error(
                f"{self._reader.name}, line {self._reader.transaction}: the transaction that begins here has "
                f"no end (TC). The stream is truncated."
            )
        await self.pause()

    async def _hand_over(self, changes: Changes) -> None:
        await self._report(changes)
        self.place = Place.of(changes.version)

    def _next(self) -> Changes | None:
        """Returns the next complete batch of the buffer; None if it has none."""
        reader, position = self._reader, 0
        changes = None
        while changes is None:
            end = self._buffer.find(b"\n", max(position, self._searched)) + 1
            if not end:
                break
            line = bytes(self._buffer[position:end])
            batch = reader.take(line)
            if batch is not None and reader.started:  # it ended before this line
                changes = self._changes(batch, reader.line - 1)
            position = end
            self._offset += len(line)
            self._check_size(self._offset)
            self._tail += line
            if len(self._tail) > PIECE_BYTES:
                del self._tail[:-TAIL_BYTES]
            if batch is not None and changes is None:
                changes = self._changes(batch, reader.line)
            elif reader.started and not reader.marked:
                if changes is None and reader.line - self._begin_line >= _MOST_UNMARKED_LINES:
                    changes = self._changes(reader.finish(), reader.line)
            elif not reader.started:
                self._begin, self._begin_line = self._offset, reader.line
        del self._buffer[:position]
        self._searched = 0 if changes else len(self._buffer)
        if changes is None:
            self._check_size(self._offset + len(self._buffer))
        return changes

    def _check_size(self, end: int) -> None:
        if end - self._begin > self._max_bytes:
            raise Error(
                f"{self._reader.name}, line {self._begin_line + 1}: the batch or line that begins here "
                f"exceeds max_bytes ({self._max_bytes:,})."
            )

    def _changes(self, batch: Batch, line: int) -> Changes:
        """Returns a batch that ends here, with this place as the version."""
        self._begin, self._begin_line = self._offset, line
        place = Place(self._offset, line, _digest(bytes(self._tail[-TAIL_BYTES:])) if self._offset else "")
        return Changes(batch.insert, batch.delete, asdict(place), more=True)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]


async def follow(
    pieces: AsyncGenerator[bytes, None],
    batches: Batches,
    report: Report,
    wake: asyncio.Event,
    *,
    quiet_seconds: float,
    looking: asyncio.Event | None = None,
    at_end: asyncio.Event | None = None,
    first_seconds: float = 0.0,
) -> None:
    """Reads until the pieces end; a quiet moment completes a requested refresh.

    Sets `looking` when a refresh is requested. `at_end` means that the last look found no more data: before
    that, the stream is not quiet, however long a look takes.
    """
    coming = asyncio.ensure_future(anext(pieces, b""))
    seconds = max(quiet_seconds, first_seconds)
    try:
        while True:
            if wake.is_set():
                wake.clear()
                if looking is not None:
                    looking.set()
                if at_end is not None:
                    at_end.clear()
            await asyncio.wait({coming}, timeout=seconds)
            seconds = quiet_seconds
            if not coming.done() and at_end is not None and not at_end.is_set():
                await first_of(coming, at_end)
                continue
            if not coming.done():
                await batches.pause()
                await report(Unchanged())
                await first_of(coming, wake)
                continue
            piece = coming.result()
            if not piece:
                return
            coming = asyncio.ensure_future(anext(pieces, b""))
            await batches.take(piece)
    finally:
        coming.cancel()
        await asyncio.wait({coming})
        if not coming.cancelled():
            coming.exception()  # marks it as retrieved
        await pieces.aclose()


def check_options(quiet_seconds: float, when_replaced: str = "stop") -> None:
    seconds("quiet_seconds", quiet_seconds, 0.01, 3600)
    if when_replaced not in ("stop", "begin"):
        raise Error(f'when_replaced must be "stop" or "begin", not {when_replaced!r}.')


def another_stream(name: str, place: Place, hint: str = "") -> Error:
    return Error(
        f"{name} was truncated or replaced after it was read up to line {place.line:,} (byte "
        f"{place.offset:,}), so later changes may be missing. Restore it; or add the source with "
        f'when_replaced="begin" to read the new stream from its beginning{hint}.'
    )
