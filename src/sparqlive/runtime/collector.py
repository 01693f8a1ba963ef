"""Keeps Python's garbage collector from delaying epochs.

It does not run during an epoch, and does not scan the long-lived objects of a large load or view; what a load
no longer needs goes back to the system. Invariant: `unsettle` reverts `settle`.
"""

from __future__ import annotations

import atexit
import gc

from sparqlive.runtime.memory import give_back

SETTLE_ROWS = 50_000


class collector_paused:  # noqa: N801 (used like a function; a generator would cost each epoch a microsecond)
    """Pauses garbage collection, which would delay an epoch by milliseconds if views are large."""

    __slots__ = ("_collecting",)

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._collecting:
            gc.enable()


class SettledObjects:
    """The objects that a session has excluded from garbage collection."""

    def __init__(self) -> None:
        self._rows = 0

    def settle(self, rows: int) -> None:
        """Excludes all present objects from later garbage collections, after a large load or view.

        A full collection visits every object of the process, and would delay a stream of changes by tens of
        milliseconds.
        """
        if rows > SETTLE_ROWS:
            doubled = rows > 2 * self._rows
            gc.collect(2 if doubled else 1)
            gc.freeze()
            atexit.register(gc.unfreeze)  # frees the objects of an unclosed session in order
            if doubled:
                self._rows = rows
                give_back()

    def unsettle(self) -> None:
        if self._rows:
            gc.unfreeze()
            self._rows = 0
