"""Looking again and again: the part that all sources share that nobody notifies us of.

Owns when to look next: after the interval, later where the source asks for it, and after failures ever later.
At most so many looks are under way at once, whatever the number of sources.
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

# How long a source may ask not to be looked at.
_LONGEST_REST_SECONDS = 3600.0
_MOST_LOOKS = 128

_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@dataclass(frozen=True)
class Look:
    """What a look gave, and for how long the source asks not to be looked at again."""

    outcome: Outcome
    rest_seconds: float = 0.0


def checked_interval(given: float | None) -> float | None:
    """Of `poll_interval_seconds`; None: looks on request only."""
    return None if given is None else seconds("poll_interval_seconds", given, 0.01, 604_800)


async def poll(
    look: Callable[[Version | None], Awaitable[Look]],
    interval_seconds: float | None,
    version: Version | None,
    report: Report,
    wake: asyncio.Event,
) -> None:
    """Looks and reports until it is cancelled; without an interval only when somebody asks."""
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
        await wait(wake, _seconds(interval_seconds, seen.rest_seconds, failures))


def _seconds(interval: float | None, rest: float, failures: int) -> float | None:
    """How long to wait: not all sources at once, and not at the moment that everybody is told."""
    if interval is None:
        return None
    rest = min(rest, max(interval, _LONGEST_REST_SECONDS))
    if failures:
        return max(rest, retry_seconds(failures))
    return max(interval, rest) * CHANCE.uniform(1.0, 1.1)


async def first_of(*awaited: asyncio.Future[Any] | asyncio.Event, seconds: float | None = None) -> None:
    """Until one of them is there, or so many seconds have passed."""
    own = [asyncio.ensure_future(one.wait()) for one in awaited if isinstance(one, asyncio.Event)]
    given = [one for one in awaited if isinstance(one, asyncio.Future)]
    try:
        await asyncio.wait([*given, *own], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()


async def wait(wake: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(
            seconds
        ):  # wait_for loses a cancellation that comes together with the event
            await wake.wait()
