"""The channel of a view with subscribers: its last deltas, and the events of these, each encoded once.

A reader has a position, which is an epoch, and no queue: when it can accept data, it gets the sum of the
deltas it missed. Only the event loop touches a channel; work that waits for the session's lock or takes long
runs in a thread. The hub knows a channel before the position of its first reader is read, so no delta after
that position is missed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from sparqlive.agent import events
from sparqlive.agent.events import Ending, Format
from sparqlive.engine.results import Delta
from sparqlive.engine.view import View
from sparqlive.errors import ViewFailed
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.runtime.deadline import within

if TYPE_CHECKING:
    from sparqlive.agent.agent import Agent

# How much a channel keeps in memory; it shares the rows with the view's own history.
_RECENT_DELTAS = 256
_RECENT_ROWS = 100_000
# More rows than this are encoded in a thread, so that they do not block the event loop.
_MANY_ROWS = 500
# The more readers a channel has, the less often it wakes them: the event loop has other work, too.
_READER_SECONDS = 0.0001
_LONGEST_SECONDS = 0.2
# The assumed size of a row before the first one is encoded.
_ROW_BYTES = 150.0
_SAMPLE_ROWS = 20
# What an event has for each term besides its text.
_TERM_BYTES = 30


class Outdated(Exception):  # noqa: N818 - nothing went wrong
    """The channel's view was dropped or replaced."""


@dataclass(frozen=True)
class Chunk:
    """The next events for a reader, and its position after them.

    A large content or change is not held as a whole: each reader takes the events from `parts` one by one.
    """

    data: bytes
    epoch: int
    parts: Callable[[], Iterator[bytes]] | None = None

    @classmethod
    def of(cls, epoch: int, parts: Callable[[], Iterator[bytes]], before: bytes = b"") -> Chunk:
        """The events that `parts` lists, after some others; one event is shared by all readers."""
        first = next(parts())
        return cls(before, epoch, parts) if events.is_part(first) else cls(before + first, epoch)


class Channel:
    def __init__(self, agent: Agent, view: View) -> None:
        self.view = view
        self.readers = 0
        self.unread_since = time.monotonic()
        """When the last reader left; meaningful while the channel has no readers."""
        self.head = -1
        """The last epoch that changed the view and that readers may see."""
        self.quiet_until = -1
        """The view did not change between `head` and this epoch."""
        self.bytes = 0.0
        """The approximate number of event bytes so far."""
        self.ending: Ending | None = None
        self.moved = asyncio.Event()
        """Set when there is news for readers, and then replaced by a new event."""
        self._agent = agent
        self._deltas: deque[Delta] = deque()
        self._rows = 0
        self._forgotten = -1
        """The channel no longer holds the deltas up to this epoch."""
        self._row_bytes = _ROW_BYTES
        self._last_wake = 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._encoded: dict[tuple[Format, int], Chunk | asyncio.Task[Chunk]] = {}
        self._snapshots: dict[Format, asyncio.Task[Chunk]] = {}

    def join(self) -> None:
        """Adds a reader."""
        self.readers += 1

    def leave(self) -> None:
        """Removes a reader."""
        self.readers -= 1
        self.unread_since = time.monotonic()

    # Called by the hub

    def stay_quiet(self, epoch: int) -> None:
        """Records that the channel has received all changes of the view up to this epoch."""
        self.quiet_until = epoch

    def take(self, delta: Delta) -> None:
        if self.ending is not None:
            return
        self._deltas.append(delta)
        self._rows += len(delta)
        self.bytes += len(delta) * self._row_bytes
        while len(self._deltas) > _RECENT_DELTAS or (self._rows > _RECENT_ROWS and len(self._deltas) > 1):
            oldest = self._deltas.popleft()
            self._rows -= len(oldest)
            self._forgotten = oldest.epoch

    def tell_in_time(self) -> None:
        """Wakes the readers at once, or a moment later if they were woken just now."""
        if self._telling is None:
            wait = self._last_wake + min(self.readers * _READER_SECONDS, _LONGEST_SECONDS) - time.monotonic()
            if wait <= 0:
                self.tell()
            else:
                self._telling = asyncio.get_running_loop().call_later(wait, self.tell)

    def end(self, ending: Ending) -> None:
        self.ending = self.ending or ending
        self.tell()

    def tell(self) -> None:
        """Wakes all readers; those at the same position share one encoded event."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._deltas:
            self.head = self._deltas[-1].epoch
        self._encoded.clear()
        self._last_wake = time.monotonic()
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()

    # The first data of a reader

    async def snapshot(self, format_: Format) -> Chunk:
        """The content of the view, read once for concurrent requests."""
        task = self._snapshots.get(format_)
        if task is None:
            task = asyncio.ensure_future(self._agent.run_reading(self._content, format_))
            self._snapshots[format_] = task
            task.add_done_callback(lambda _: self._snapshots.pop(format_))
        return await asyncio.shield(task)

    def _content(self, format_: Format, before: bytes = b"") -> Chunk:
        answer = self.view.now(self._agent.settings.query_rows)
        self._ensure_current()

        def events_of() -> Iterator[bytes]:
            return events.content(self.view, format_, answer.epoch, answer.distinct_blocks())

        return within(
            self._agent.settings.query_seconds,
            lambda: Chunk.of(answer.epoch, events_of, before),
            f"Reading view {self.view.name!r}",
        )

    async def present(self) -> Chunk:
        """The current epoch without the content, for readers that want only later changes."""

        self._ensure_current()
        epoch = self.view.epoch
        return Chunk(events.progress(epoch), epoch)

    async def changes_since(self, since: int, format_: Format, known: bool = True) -> Chunk:
        """The changes after an epoch; the whole content if these are no longer kept."""
        return await self._agent.run_reading(self._changes_since, since, format_, known)

    def _changes_since(self, since: int, format_: Format, known: bool) -> Chunk:
        view = self.view
        epoch, deltas = view.changes_after(since)
        self._ensure_current()
        # At the epoch of its registration, a view may have replaced another one of the same name.
        if deltas is None or not (known and view.since < since <= epoch):
            reset = events.reset(
                epoch, f"The changes of view {view.name!r} after epoch {since} are not available."
            )
            return self._content(format_, reset)
        if not deltas:
            return Chunk(events.progress(epoch), epoch)
        change = Delta.summed(deltas)
        return Chunk.of(epoch, lambda: events.delta(view, format_, change))

    def _ensure_current(self) -> None:
        """Checks that the view is neither failed, dropped nor replaced."""
        if self.view.failure is not None:
            raise ViewFailed(self.view.failure)
        if self._agent.session.views[self.view.name] is not self.view:
            raise Outdated

    # Later data

    async def next(self, position: int, format_: Format) -> Chunk:
        """The changes from a position to the head, shared by all readers at that position."""
        if position < self._forgotten:
            return await self.changes_since(position, format_)
        deltas = self._between(position, self.head)
        key = (format_, deltas[0].epoch)
        encoded = self._encoded.get(key)
        if encoded is None:
            if sum(map(len, deltas)) > _MANY_ROWS:
                encoded = asyncio.ensure_future(self._agent.run_reading(self._change, deltas, format_))
            else:
                encoded = self._change(deltas, format_)
            self._encoded[key] = encoded
        return encoded if isinstance(encoded, Chunk) else await asyncio.shield(encoded)

    def _between(self, position: int, head: int) -> list[Delta]:
        """The deltas after a position, up to the head. Searched from the end: usually there are few."""
        found = []
        for delta in reversed(self._deltas):
            if delta.epoch <= position:
                break
            if delta.epoch <= head:
                found.append(delta)
        return found[::-1]

    def _change(self, deltas: list[Delta], format_: Format) -> Chunk:
        change = Delta.summed(deltas)
        if change:
            self._row_bytes = _size_of_a_row(self.view, change)
        return Chunk.of(deltas[-1].epoch, lambda: events.delta(self.view, format_, change))


def _size_of_a_row(view: View, change: Delta) -> float:
    """The approximate size of a row in an event, from a sample."""
    sample = list(islice(change.rows, _SAMPLE_ROWS))
    terms = [number for row in sample for number in row if number != UNDEF]
    return (_TERM_BYTES * len(terms) + sum(map(len, view.texts(terms)))) / len(sample)
