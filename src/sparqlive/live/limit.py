"""Limits the processor time that one plan may spend on an epoch.

Owns the currently evaluated plan, for the thread that watches it. A plan works on shared quads and terms, so
it is stopped only where its loops check (`Program.stop`), and between two of its steps. If a backend works in
threads of its own, the thread that waits for the backend stops it. Invariant: a plan is stopped only while it
is being evaluated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from sparqlive.errors import Error, Timeout
from sparqlive.live.compiled_plan import CompiledPlan
from sparqlive.runtime.deadline import Work, watchdog

_Now: TypeAlias = tuple[CompiledPlan, int, bool]
"""The evaluated plan, the thread that evaluates it, and whether threads of a backend work for it."""


class _Carried(Work):
    """A plan that is being evaluated for an epoch."""

    def __init__(self, limit: Limit, compiled: CompiledPlan, thread: int, by_others: bool) -> None:
        super().__init__("Carrying an epoch to the view", None)
        self.compiled = compiled
        self._limit = limit
        self._spent = _spent_by_process() if by_others else _spent_by_thread(thread)

    def rows(self) -> int:
        return len(self.compiled.gathering)

    def stop(self, error: Error) -> None:
        super().stop(error)
        self._limit.stop(self, error)

    def look(self, seconds: float) -> None:
        if self._spent() >= seconds:
            self.stop(Timeout(f"an epoch exceeded its limit of {seconds:g} s of processor time"))


def _spent_by_thread(thread: int) -> Callable[[], float]:
    """Returns a clock of a thread's processor time from now on."""
    clock = time.pthread_getcpuclockid(thread)
    before = time.clock_gettime(clock)
    return lambda: time.clock_gettime(clock) - before


def _spent_by_process() -> Callable[[], float]:
    """Returns a clock for work in many threads: elapsed time, or processor time if that is less.

    Neither the use of several cores nor other work on the machine counts against a plan.
    """
    before, process_before = time.monotonic(), time.process_time()
    return lambda: min(time.monotonic() - before, time.process_time() - process_before)


class Limit:
    """The time limit of the plans of one registry; `close` ends the watching thread."""

    def __init__(self, seconds: float, measures: bool = False) -> None:
        self._seconds = seconds
        self._spent: dict[CompiledPlan, float] = {}
        self._measures = measures
        self._guard = threading.Lock()
        self._now: _Now | None = None
        self._seen: tuple[_Now, _Carried] | None = None
        self._began = 0.0
        watchdog().attend(self._look)

    def allow(self, seconds: float) -> None:
        """Sets the limit per plan."""
        self._seconds = seconds

    def take_spent(self) -> dict[CompiledPlan, float]:
        """Returns the processor time of each plan since the last call, if it is measured."""
        spent, self._spent = self._spent, {}
        return spent

    def begin(self, compiled: CompiledPlan) -> None:
        self._now = (compiled, threading.get_ident(), False)
        if self._measures:
            self._began = time.thread_time()

    def end(self, compiled: CompiledPlan) -> None:
        with self._guard:
            self._now = None
            compiled.go_on()
        if self._measures:
            self._spent[compiled] = time.thread_time() - self._began

    @contextmanager
    def carrying(self, compiled: CompiledPlan) -> Iterator[None]:
        self.begin(compiled)
        try:
            yield
        finally:
            self.end(compiled)
            self._spent.clear()

    @contextmanager
    def by_others(self) -> Iterator[None]:
        """Counts the time of all threads inside the block: threads of a backend work for the plan."""
        now = self._now
        assert now is not None, "no plan is being evaluated"
        self._now = (*now[:2], True)
        try:
            yield
        finally:
            self._now = now

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
                carried.compiled.halt(error)
