"""Polling, shared by all kinds of sources that send no notifications.

Owns when to look next: after the interval, later if the source requests it, and with growing pauses after
failures. The number of concurrent looks is bounded, whatever the number of sources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sparqlive.errors import Error
from sparqlive.numbers import seconds
from sparqlive.sources.watcher import Content, Failed, Outcome, Report, Unchanged, Version
from sparqlive.web.retry import CHANCE, retry_seconds

# The longest pause that a source may request.
_LONGEST_REST_SECONDS = 3600.0
_MOST_LOOKS = 128

_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@dataclass(frozen=True)
class Look:
    """The outcome of a look, and the pause that the source requests before the next one."""

    outcome: Outcome
    rest_seconds: float = 0.0


def checked_interval(interval: float | None) -> float | None:
    """Checks `poll_interval_seconds`; None means to look only on request."""
    return None if interval is None else seconds("poll_interval_seconds", interval, 0.01, 604_800)


async def poll(
    look: Callable[[Version | None], Awaitable[Look]],
    interval_seconds: float | None,
    version: Version | None,
    report: Report,
    wake: asyncio.Event,
) -> None:
    """Looks and reports until it is cancelled; without an interval, only on request."""
    failures = 0
    while True:
        wake.clear()
        async with _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_MOST_LOOKS)):
            try:
                seen = await look(version)
            except Error as error:
                seen = Look(Failed(str(error)))
        match seen.outcome:
            case Failed():
                failures += 1
            case Content(version=found) | Unchanged(version=found):
                failures = 0
                version = version if found is None else found
        await report(seen.outcome)
        await wait(wake, pause_seconds(interval_seconds, seen.rest_seconds, failures))


def pause_seconds(interval: float | None, rest: float, failures: int) -> float | None:
    """How long to wait. Random, so that sources and clients do not all look at the same moment."""
    if interval is None:
        return None
    rest = min(rest, max(interval, _LONGEST_REST_SECONDS))
    if failures:
        return max(rest, retry_seconds(failures))
    return max(interval, rest) * CHANCE.uniform(1.0, 1.1)


async def first_of(*awaited: asyncio.Future[Any] | asyncio.Event, seconds: float | None = None) -> None:
    """Waits until one of them is done or set, or the time is over."""
    own = [asyncio.ensure_future(one.wait()) for one in awaited if isinstance(one, asyncio.Event)]
    futures = [one for one in awaited if isinstance(one, asyncio.Future)]
    try:
        await asyncio.wait([*futures, *own], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()


async def wait(wake: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(
            seconds
        ):  # wait_for loses a cancellation that comes together with the event
            await wake.wait()
