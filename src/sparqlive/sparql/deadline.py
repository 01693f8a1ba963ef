"""A time limit that stops the work: the evaluation runs in Python, so an exception can reach it anywhere.

Anywhere is between two instructions of Python. So what is stopped must own all that it changes, and nobody
may look at that again. A single instruction that takes long is waited for: regular expressions, which a query
can make as long as it likes, ask how much time there is left.
Invariant: when `within` has returned or raised, nothing of its work is stopped any more.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sparqlive.errors import Timeout

T = TypeVar("T")

_current = threading.local()
# Python drops an exception that comes inside the callback of a weak reference or a finalizer.
_AGAIN_SECONDS = 0.25


class TimeIsUp(BaseException):
    """Raised inside the evaluating thread; not an Exception, so that no handler on the way swallows it."""


def seconds_left() -> float | None:
    """How long what this thread does may still take; None without a limit."""
    end: float | None = getattr(_current, "end", None)
    return None if end is None else max(0.0, end - time.monotonic())


def within(seconds: float | None, work: Callable[[], T]) -> T:
    """What some work gives; Timeout if it takes longer than `seconds`, and then it is stopped."""
    if seconds is None:
        return work()
    thread = ctypes.c_ulong(threading.get_ident())
    raise_there = ctypes.pythonapi.PyThreadState_SetAsyncExc
    guard, ended = threading.Lock(), threading.Event()

    def watch() -> None:
        pause = seconds
        while not ended.wait(pause):
            with guard:
                if not ended.is_set():
                    raise_there(thread, ctypes.py_object(TimeIsUp))
            pause = _AGAIN_SECONDS

    def end() -> None:
        """From here on the exception does not come, also if it was on its way."""
        with guard:
            ended.set()
        raise_there(thread, None)

    watching = threading.Thread(target=watch, name="deadline", daemon=True)
    try:
        try:
            _current.end = time.monotonic() + seconds
            watching.start()
            return work()
        finally:
            end()
    except TimeIsUp:
        end()  # it may have come while the work was being ended
        raise Timeout(
            "The query took longer than it may, and was stopped: ask for less, or allow more."
        ) from None
    finally:
        _current.end = None
