"""A time limit that stops the work: the evaluation runs in Python, so an exception can reach it anywhere."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sparqlive.errors import Timeout


class _TimeIsUp(BaseException):
    """Raised inside the evaluating thread; not an Exception, so that no handler on the way swallows it."""


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raises Timeout in the block if it takes longer than `seconds`."""
    if seconds is None:
        yield
        return
    thread = ctypes.c_ulong(threading.get_ident())
    guard = threading.Lock()
    finished = False

    def stop() -> None:
        with guard:
            if not finished:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_TimeIsUp))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
        with guard:
            finished = True
    except _TimeIsUp:
        raise Timeout(
            f"The query was stopped after {seconds} seconds: ask for less, or allow more."
        ) from None
    finally:
        finished = True
        timer.cancel()
