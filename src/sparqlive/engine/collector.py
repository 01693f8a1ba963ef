"""Python's garbage collector, kept out of the way of epochs.

Owns when it runs: not during an epoch, and not over what a large load or view has left to stay. Invariant:
what `settle` does, `unsettle` takes back.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

SETTLE_ROWS = 50_000


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection inside: one over large views would stop an epoch for milliseconds."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Settled:
    """What one session has left out of garbage collections."""

    def __init__(self) -> None:
        self._rows = 0

    def settle(self, rows: int) -> None:
        """After a large load or view: what is there now is left out of later garbage collections.

        A full collection looks at every object of the process, and would stop a stream of changes for tens
        of milliseconds.
        """
        if rows > SETTLE_ROWS:
            doubled = rows > 2 * self._rows
            gc.collect(2 if doubled else 1)
            gc.freeze()
            atexit.register(gc.unfreeze)  # what a session that was not closed left is freed in order
            if doubled:
                self._rows = rows

    def unsettle(self) -> None:
        if self._rows:
            gc.unfreeze()
            self._rows = 0
