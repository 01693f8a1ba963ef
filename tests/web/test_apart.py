"""Waiting in a thread that can be stopped at any moment."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from sparqlive.errors import Timeout
from sparqlive.runtime.deadline import watchdog, within
from sparqlive.web.apart import run_apart
from tests.waiting import wait_until


def test_the_outcome_is_returned_or_raised() -> None:
    async def fails() -> None:
        raise ValueError("no")

    assert run_apart(lambda: asyncio.sleep(0, "here")) == "here"
    with pytest.raises(ValueError, match="no"):
        run_apart(fails)


def test_a_wait_that_is_stopped_while_it_begins_ends() -> None:
    """The exception may come while the other thread is started, when Python could take one for the other."""

    def many() -> None:
        for number in range(30):
            began = time.monotonic() - 0.001 * number
            with pytest.raises(Timeout):
                within(0.0005 * number, lambda: run_apart(lambda: asyncio.sleep(60)), "It", began)

    threads = [threading.Thread(target=many, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: not any(thread.is_alive() for thread in threads))
    wait_until(lambda: not any(thread.name == "waiting" for thread in threading.enumerate()))


def test_work_that_waits_takes_no_turns() -> None:
    seen: list[bool] = []

    async def look() -> None:
        works = watchdog()._works
        seen.append(any(work.is_waiting for work in works if work.what == "It"))
        await asyncio.sleep(0.2)
        seen.append(any(work.what == "It" for work in watchdog()._heavy))

    within(60, lambda: run_apart(look), "It")
    assert seen == [True, False]
