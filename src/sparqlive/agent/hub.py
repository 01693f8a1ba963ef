"""Delivers changes of views from the session to their subscribers.

One observer receives the session's epochs in the writer's thread, and passes the deltas of views with readers
to the event loop; views without readers cost nothing. The hub also ends the streams of dropped views and of a
stopping agent, and drops temporary views without readers.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from sparqlive.agent.channel import Channel
from sparqlive.agent.events import Ending
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.results import Delta
from sparqlive.engine.view import View
from sparqlive.errors import Error

if TYPE_CHECKING:
    from sparqlive.agent.agent import Agent

TEMPORARY = "~"
"""The prefix of the names of temporary views; clients cannot register such a name."""


class Unsent:
    """The bytes that wait to be sent to subscribers, all together at most `most`.

    Beyond that, those that have accepted no data for the longest time are given up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[Callable[[], None], int] = {}
        """By how to give the subscriber up; those that wait longest come first."""
        self.bytes = 0

    def add(self, give_up: Callable[[], None], size: int) -> None:
        """Adds the bytes that a subscriber is sent now."""
        self._waiting[give_up] = size
        self.bytes += size
        while self.bytes > self._most:
            slowest = next(iter(self._waiting))
            self.remove(slowest)
            slowest()

    def remove(self, give_up: Callable[[], None]) -> None:
        self.bytes -= self._waiting.pop(give_up, 0)


class Hub:
    def __init__(self, agent: Agent) -> None:
        self.stopped = False
        self.unsent = Unsent(agent.settings.unsent_bytes)
        self._agent = agent
        self._channels: dict[str, Channel] = {}
        self._owners: dict[str, str] = {}
        """The caller that created each temporary view."""
        self._inbox: deque[tuple[Channel, Delta | Ending]] = deque()
        self._waking = False
        self._received = 0
        """All changes up to this epoch have been put into the inbox."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def readers(self) -> dict[str, int]:
        """The number of readers per view."""
        return {name: channel.readers for name, channel in self._channels.items()}

    # In the writer's thread, under the session's lock: these only pass news on

    def _receive(self, epoch: Epoch) -> None:
        for name in epoch.deltas.changed() if self._channels else ():
            channel = self._channels.get(name)
            if channel is not None:
                self._hand_on(channel, epoch.deltas[name])
        self._received = epoch.number

    def _view_released(self, view: View) -> None:
        channel = self._channels.get(view.name)
        if channel is not None and channel.view is view:
            dropped = view.name not in self._agent.session.views
            self._hand_on(channel, "failed" if view.failure else "dropped" if dropped else "replaced")

    def _hand_on(self, channel: Channel, news: Delta | Ending) -> None:
        if self.stopped:
            return
        self._inbox.append((channel, news))
        if not self._waking:
            self._waking = True
            assert self._loop is not None
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._drain)

    # In the event loop

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._agent.run(self._attach)
        self._tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._until_stopping())]

    def _attach(self) -> None:
        session = self._agent.session
        with session.reading():
            session.observe(self._receive)
            session.observe_views(self._view_released)
            self._received = session.epoch
            for name in [name for name in session.views if name.startswith(TEMPORARY)]:
                session.drop(name)  # left by an agent that was killed

    def stop(self) -> None:
        """Ends every stream with a last event, and starts no new one."""
        if self.stopped:
            return
        self.stopped = True
        self._drain()
        for channel in self._channels.values():
            channel.end("stopping")
        for task in self._tasks:
            task.cancel()

    async def _until_stopping(self) -> None:
        await self._agent.stopping.wait()
        self.stop()

    def channel(self, view: View) -> Channel:
        """The channel of a view, created if missing."""
        channel = self._channels.get(view.name)
        if channel is None or channel.view is not view:
            channel = self._channels[view.name] = Channel(self._agent, view)
        return channel

    def leave(self, channel: Channel) -> None:
        """Removes a reader of a channel."""
        channel.leave()
        if not channel.readers and not channel.view.name.startswith(TEMPORARY):
            self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        if self._channels.get(channel.view.name) is channel:
            del self._channels[channel.view.name]
            self._owners.pop(channel.view.name, None)

    def _drain(self) -> None:
        """Moves the inbox to the channels, and lets each channel wake its readers once."""
        self._waking = False
        moved = set()
        while self._inbox:
            channel, news = self._inbox.popleft()
            if isinstance(news, Delta):
                channel.take(news)
                moved.add(channel)
            else:
                channel.end(news)
                self._forget(channel)
        for channel in moved:
            channel.tell_in_time()

    async def _tick(self) -> None:
        settings = self._agent.settings
        pause = min(settings.progress_seconds, settings.temporary_seconds) / 2
        while True:
            await asyncio.sleep(pause)
            received = self._received  # read before the inbox is emptied, so that the channels have all of it
            self._drain()
            for channel in list(self._channels.values()):
                if channel.view.refresh_setting == "immediate":
                    channel.stay_quiet(received)
                channel.tell()
                if not channel.readers:
                    await self._expire(channel)
            await self._drop_failed()

    # Temporary views

    @property
    def temporary_views(self) -> int:
        """The number of temporary views, including those being computed."""
        return len(self._owners)

    def temporary_views_of(self, owner: str) -> int:
        return sum(one == owner for one in self._owners.values())

    async def temporary(self, query: str, base: str | None, seconds: float, owner: str) -> View:
        """Registers a temporary view, which is dropped when it has had no reader for a while."""
        name = TEMPORARY + secrets.token_urlsafe(12)
        register = partial(
            self._agent.session.view, name, query, base=base, timeout_seconds=seconds, temporary=True
        )
        self._owners[name] = owner
        try:
            view = await self._agent.run_long(register)
        except BaseException:
            del self._owners[name]
            raise
        self.channel(view)
        return view

    async def _expire(self, channel: Channel) -> None:
        unread = time.monotonic() - channel.unread_since
        name = channel.view.name
        if name.startswith(TEMPORARY) and unread > self._agent.settings.temporary_seconds:
            with suppress(Error):  # another view reads it: try again later
                await self._agent.run(self._agent.session.drop, name)

    async def _drop_failed(self) -> None:
        """Drops temporary views without a channel: these have failed, and cannot be read any more."""
        known = self._channels.keys() | self._owners.keys()
        for name in [name for name in self._agent.session.views if name.startswith(TEMPORARY)]:
            if name not in known:
                with suppress(Error):
                    await self._agent.run(self._agent.session.drop, name)
