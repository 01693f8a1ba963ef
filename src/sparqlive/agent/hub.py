"""Who follows which view: the changes of views, on their way from the session to those who read them.

One observer hears of the session's epochs, in the thread that writes, and hands what concerns a view that has
readers to the event loop; views that nobody follows cost nothing. Also ends what has to end: the streams of
views that are gone and of an agent that stops, and temporary views that nobody reads any more.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from sparqlive.agent.channel import Channel
from sparqlive.agent.events import Ending
from sparqlive.engine.results import Delta
from sparqlive.engine.view import Epoch, View
from sparqlive.errors import Error

if TYPE_CHECKING:
    from sparqlive.agent.agent import Agent

TEMPORARY = "~"
"""The names of temporary views begin so; nobody can register a name that does."""


class Hub:
    def __init__(self, agent: Agent) -> None:
        self.stopped = False
        self._agent = agent
        self._channels: dict[str, Channel] = {}
        self._owners: dict[str, str] = {}
        """Who asked for which temporary view."""
        self._inbox: deque[tuple[Channel, Delta | Ending]] = deque()
        self._waking = False
        self._told = 0
        """Whatever changed a view up to this epoch is in the inbox, or out of it again."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def readers(self) -> dict[str, int]:
        """How many follow which view."""
        return {name: channel.readers for name, channel in self._channels.items()}

    # In the thread that writes, under the session's lock: it hands on, and returns

    def _heard(self, epoch: Epoch) -> None:
        for name in epoch.deltas.changed() if self._channels else ():
            channel = self._channels.get(name)
            if channel is not None:
                self._hand_on(channel, epoch.deltas[name])
        self._told = epoch.number

    def _released(self, view: View) -> None:
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
            session.observe(self._heard)
            session.observe_views(self._released)
            self._told = session.epoch
            for name in [name for name in session.views if name.startswith(TEMPORARY)]:
                session.drop(name)  # of an agent that did not come to it

    def stop(self) -> None:
        """Every stream ends, with a last event; no new one begins."""
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
        """The channel of a view, made if there is none."""
        channel = self._channels.get(view.name)
        if channel is None or channel.view is not view:
            channel = self._channels[view.name] = Channel(self._agent, view)
        return channel

    def left(self, channel: Channel) -> None:
        """A reader has gone."""
        channel.leave()
        if not channel.readers and not channel.view.name.startswith(TEMPORARY):
            self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        if self._channels.get(channel.view.name) is channel:
            del self._channels[channel.view.name]
            self._owners.pop(channel.view.name, None)

    def _drain(self) -> None:
        """Hands what was heard to the channels, and has them tell their readers of all of it together."""
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
            told = self._told  # before the inbox is emptied: whatever changed a view until then is out of it
            self._drain()
            for channel in list(self._channels.values()):
                if channel.view.deferred is None:
                    channel.stay_quiet(told)
                channel.tell()
                if not channel.readers:
                    await self._expire(channel)
            await self._drop_failed()

    # Temporary views

    @property
    def temporary_views(self) -> int:
        """Those that are being made included."""
        return len(self._owners)

    def temporary_views_of(self, owner: str) -> int:
        return sum(one == owner for one in self._owners.values())

    async def temporary(self, query: str, base: str | None, seconds: float, owner: str) -> View:
        """A view for a query, which goes away when nobody has read it for a while."""
        name = TEMPORARY + secrets.token_urlsafe(12)
        make = partial(
            self._agent.session.view, name, query, base=base, timeout_seconds=seconds, temporary=True
        )
        self._owners[name] = owner
        try:
            view = await self._agent.run_long(make)
        except BaseException:
            del self._owners[name]
            raise
        self.channel(view)
        return view

    async def _expire(self, channel: Channel) -> None:
        unread = time.monotonic() - channel.unread_since
        name = channel.view.name
        if name.startswith(TEMPORARY) and unread > self._agent.settings.temporary_seconds:
            with suppress(Error):  # another view reads it: later, then
                await self._agent.run(self._agent.session.drop, name)

    async def _drop_failed(self) -> None:
        """Temporary views without a channel are those that have failed: nobody can read them any more."""
        known = self._channels.keys() | self._owners.keys()
        for name in [name for name in self._agent.session.views if name.startswith(TEMPORARY)]:
            if name not in known:
                with suppress(Error):
                    await self._agent.run(self._agent.session.drop, name)
