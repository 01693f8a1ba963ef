"""Waiting for the network in a thread that can be stopped.

Owns the thread that runs the event loop of one request. Invariant: the caller ends within a moment of being
stopped, whatever the network does: name resolution and parsing may go on in the other thread for a while.
The two threads share no lock: the exception that stops the caller may be raised anywhere, and could leave it
locked.
"""

from __future__ import annotations

import _thread
import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from sparqlive.runtime.deadline import waiting

T = TypeVar("T")

# Between two looks for the outcome.
_LEAST_SECONDS, _MOST_SECONDS = 0.001, 0.05


def run_apart(work: Callable[[], Awaitable[T]]) -> T:
    """Runs a coroutine in another thread, so that an exception can stop this one while it waits."""
    outcomes: list[Future[T]] = []
    cancels: list[Callable[[], object]] = []
    is_abandoned: list[bool] = []

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancels.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if is_abandoned:
            raise asyncio.CancelledError
        return await work()

    def fulfil() -> None:
        outcome: Future[T] = Future()
        try:
            outcome.set_result(asyncio.run(run()))
        except BaseException as error:
            outcome.set_exception(error)
        outcomes.append(outcome)

    def start() -> None:
        threading.Thread(target=fulfil, name="waiting", daemon=True).start()

    try:
        # Not `Thread.start` here: until it runs, Python takes a new thread for the one that starts it. The
        # exception that stops this thread would end the other one, and `start` would wait for it for ever.
        _thread.start_new_thread(start, ())
        with waiting():
            pause = _LEAST_SECONDS
            while not outcomes:
                time.sleep(pause)
                pause = min(2 * pause, _MOST_SECONDS)
        return outcomes[0].result()
    finally:
        if not outcomes:
            is_abandoned.append(True)
            for cancel in cancels:
                with suppress(RuntimeError):  # the loop has just ended
                    cancel()
