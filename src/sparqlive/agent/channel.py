"""A view that has readers: its last deltas, and the events made of them, each encoded once.

A reader holds its position, which is an epoch, and no queue: what it is behind is summed when it can take it.
Only the event loop touches a channel; what waits for the session's lock, or takes long, is done in a thread.
A channel is known to the hub before its first reader's position is read, so that no delta after it is missed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparqlive.agent import events
from sparqlive.agent.events import Ending, Format
from sparqlive.engine.results import Delta
from sparqlive.engine.view import View
from sparqlive.errors import ViewFailed
from sparqlive.sparql.deadline import within

if TYPE_CHECKING:
    from sparqlive.agent.agent import Agent

# What a channel has in memory; it shares the rows with the view's own history.
_RECENT_DELTAS = 256
_RECENT_ROWS = 100_000
# More rows than this are encoded in a thread, so that the event loop goes on.
_MANY_ROWS = 500
# Who has many readers does not tell them more often than they can be told beside everything else.
_READER_SECONDS = 0.0001
_LONGEST_SECONDS = 0.2
# How large a row is thought to be before one was encoded.
_ROW_BYTES = 150.0


class Outdated(Exception):  # noqa: N818 - nothing went wrong
    """The channel's view is no longer the one of its name."""


@dataclass(frozen=True)
class Sent:
    """What a reader is sent next, and the epoch that it stands for then."""

    data: bytes
    epoch: int


class Channel:
    def __init__(self, agent: Agent, view: View) -> None:
        self.view = view
        self.readers = 0
        self.unread_since = time.monotonic()
        """Since when nobody reads it, while nobody does."""
        self.head = -1
        """The last epoch that changed the view and that readers may be told of."""
        self.quiet_until = -1
        """Nothing changed it between that epoch and this one."""
        self.bytes = 0.0
        """About how many bytes of events there were."""
        self.ending: Ending | None = None
        self.moved = asyncio.Event()
        """Set when there is something for readers; there is a new one then."""
        self._agent = agent
        self._deltas: deque[Delta] = deque()
        self._rows = 0
        self._forgotten = -1
        """The deltas up to this epoch are no longer here."""
        self._row_bytes = _ROW_BYTES
        self._told = 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._encoded: dict[tuple[Format, int], bytes | asyncio.Task[bytes]] = {}
        self._snapshots: dict[Format, asyncio.Task[Sent]] = {}

    def join(self) -> None:
        """There is one more reader."""
        self.readers += 1

    def leave(self) -> None:
        """There is one reader less."""
        self.readers -= 1
        self.unread_since = time.monotonic()

    # What the hub brings

    def stay_quiet(self, epoch: int) -> None:
        """Nothing changed the view up to this epoch that was not brought."""
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
        """Readers are told of what was taken, at once or a moment later."""
        if self._telling is None:
            wait = self._told + min(self.readers * _READER_SECONDS, _LONGEST_SECONDS) - time.monotonic()
            if wait <= 0:
                self.tell()
            else:
                self._telling = asyncio.get_running_loop().call_later(wait, self.tell)

    def end(self, ending: Ending) -> None:
        self.ending = self.ending or ending
        self.tell()

    def tell(self) -> None:
        """Readers look what there is for them: all of them for the same, which is encoded once."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._deltas:
            self.head = self._deltas[-1].epoch
        self._encoded.clear()
        self._told = time.monotonic()
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()

    # What readers are sent first

    async def snapshot(self, format_: Format) -> Sent:
        """The content, taken once for all who ask at the same time."""
        task = self._snapshots.get(format_)
        if task is None:
            task = asyncio.ensure_future(self._agent.run_reading(self._content, format_))
            self._snapshots[format_] = task
            task.add_done_callback(lambda _: self._snapshots.pop(format_))
        return await asyncio.shield(task)

    def _content(self, format_: Format) -> Sent:
        with self._reading():
            rows = self.view.copied(self._agent.settings.query_rows)

        def written() -> Sent:
            content = rows().as_delta()
            return Sent(events.snapshot(self.view, format_, content), content.epoch)

        return within(self._agent.settings.query_seconds, written, f"Reading view {self.view.name!r}")

    async def present(self) -> Sent:
        """Not the content, but from when on changes will come."""

        def read() -> int:
            with self._reading():
                return self.view.epoch

        epoch = await self._agent.run(read)
        return Sent(events.progress(epoch), epoch)

    async def missed(self, since: int, format_: Format, known: bool = True) -> Sent:
        """What a reader that stands for an epoch misses; the whole content where that is not kept."""
        return await self._agent.run_reading(self._missed, since, format_, known)

    def _missed(self, since: int, format_: Format, known: bool) -> Sent:
        view = self.view
        with self._reading():
            epoch = view.epoch
            # At the epoch of its registration a view may have taken the place of another of its name.
            known = known and view.since < since <= epoch
            if known:
                deltas = list(view.changes(since))
            else:
                rows = view.copied(self._agent.settings.query_rows)
        if not known:
            deltas = [rows().as_delta()]
        if deltas and deltas[0].reset:
            told = events.reset(epoch, f"What changed view {view.name!r} after epoch {since} is not known.")
            return Sent(told + events.snapshot(view, format_, deltas[0]), epoch)
        if not deltas:
            return Sent(events.progress(epoch), epoch)
        return Sent(events.delta(view, format_, Delta.summed(deltas)), epoch)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Inside, the view is the one of its name, and stands for one epoch."""
        with self._agent.session.reading():
            if self.view.failure is not None:
                raise ViewFailed(self.view.failure)
            if self._agent.session.views[self.view.name] is not self.view:
                raise Outdated
            yield

    # What readers are sent then

    async def next(self, position: int, format_: Format) -> Sent:
        """What a reader at a position before the head misses, as one event, which all who miss it share."""
        if position < self._forgotten:
            return await self.missed(position, format_)
        deltas = self._between(position, self.head)
        key = (format_, deltas[0].epoch)
        encoded = self._encoded.get(key)
        if encoded is None:
            if sum(map(len, deltas)) > _MANY_ROWS:
                encoded = asyncio.ensure_future(self._agent.run_reading(self._event, deltas, format_))
            else:
                encoded = self._event(deltas, format_)
            self._encoded[key] = encoded
        data = encoded if isinstance(encoded, bytes) else await asyncio.shield(encoded)
        return Sent(data, deltas[-1].epoch)

    def _between(self, position: int, head: int) -> list[Delta]:
        """The deltas after a position that readers may be told of; few, mostly, and the last ones."""
        found = []
        for delta in reversed(self._deltas):
            if delta.epoch <= position:
                break
            if delta.epoch <= head:
                found.append(delta)
        return found[::-1]

    def _event(self, deltas: list[Delta], format_: Format) -> bytes:
        change = Delta.summed(deltas)
        data = events.delta(self.view, format_, change)
        if change:
            self._row_bytes = len(data) / len(change)
        return data
