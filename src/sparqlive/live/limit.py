"""Limits the processor time for carrying an epoch to one plan.

Owns the plan that is being carried, for the thread that watches it. A plan works on shared quads and terms,
so it is stopped only where its loops check (`Program.stop`), and between two of its steps. Invariant: a plan
is stopped only while it is being carried.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sparqlive.errors import Error, Timeout
from sparqlive.live.maintained import Maintained
from sparqlive.sparql.deadline import Work, watchdog


class _Carried(Work):
    """A plan that is being carried."""

    def __init__(self, limit: Limit, maintained: Maintained, thread: int) -> None:
        super().__init__("Carrying an epoch to the view", None)
        self.maintained = maintained
        self._limit = limit
        self._clock = time.pthread_getcpuclockid(thread)
        self._spent_before = time.clock_gettime(self._clock)

    def rows(self) -> int:
        return len(self.maintained.gathering)

    def stop(self, error: Error) -> None:
        super().stop(error)
        self._limit.stop(self, error)

    def look(self, seconds: float) -> None:
        if time.clock_gettime(self._clock) - self._spent_before >= seconds:
            self.stop(
                Timeout(f"carrying one epoch to it took more than {seconds:g} s of processor time, its limit")
            )


class Limit:
    """The limit of the plans of one keeper; `close` ends the watching thread."""

    def __init__(self, seconds: float, measures: bool = False) -> None:
        self._seconds = seconds
        self._spent: dict[Maintained, float] = {}
        self._measures = measures
        self._guard = threading.Lock()
        self._now: tuple[Maintained, int] | None = None
        self._seen: tuple[tuple[Maintained, int], _Carried] | None = None
        self._began = 0.0
        watchdog().attend(self._look)

    def allow(self, seconds: float) -> None:
        """Sets the limit per plan."""
        self._seconds = seconds

    def take_spent(self) -> dict[Maintained, float]:
        """Processor time of each plan since the last call, if it is measured."""
        spent, self._spent = self._spent, {}
        return spent

    def begin(self, maintained: Maintained) -> None:
        self._now = (maintained, threading.get_ident())
        if self._measures:
            self._began = time.thread_time()

    def end(self, maintained: Maintained) -> None:
        with self._guard:
            self._now = None
            maintained.go_on()
        if self._measures:
            self._spent[maintained] = time.thread_time() - self._began

    @contextmanager
    def carrying(self, maintained: Maintained) -> Iterator[None]:
        self.begin(maintained)
        try:
            yield
        finally:
            self.end(maintained)
            self._spent.clear()

    def close(self) -> None:
        watchdog().leave(self._look)

    # In the watching thread

    def _look(self, _: float) -> Work | None:
        now = self._now
        if now is None:
            self._seen = None
            return None
        if self._seen is None or self._seen[0] is not now:
            self._seen = now, _Carried(self, *now)
        carried = self._seen[1]
        carried.look(self._seconds)
        return carried

    def stop(self, carried: _Carried, error: Error) -> None:
        with self._guard:
            if self._now is not None and self._seen is not None and self._now is self._seen[0]:
                carried.maintained.halt(error)
