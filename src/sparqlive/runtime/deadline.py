"""Time and memory limits: one thread watches all running work and stops what exceeds its limits.

There are two ways to stop work (`Work`). Work that owns everything it changes is stopped by an exception that
may be raised anywhere in it (`within`): between any two Python instructions, so the state it leaves must not
be read. Work on shared state is stopped at its own checkpoints (by its own `Work.stop`). A single long
instruction cannot be interrupted: regular expressions, which a query can make arbitrarily slow, check the
remaining time themselves.

Python runs one thread at a time. So long-running work takes turns, one at a time, and waits while urgent work
runs (`urgently`). It checks its flags (`flagged`) at points where it can wait (`give_way`). Urgent work
(`being_urgent`) waits for nothing, although it may be limited and long-running itself.

Memory is that of the process, as the system reports it. All running work together may let it grow by a share
of the available memory. Beyond that, the work with the most rows is stopped. Invariant: once `within` has
returned or raised, nothing of its work is stopped any more.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from sparqlive.errors import Error, Timeout, TooLarge
from sparqlive.runtime import memory
from sparqlive.runtime.interrupts import is_held_back, look_for_interrupt

T = TypeVar("T")

MEMORY_SHARE = 0.25
"""The share of the machine's memory that all running work may use in addition to what was used before."""
LOOK_SECONDS = 0.05
"""How often running work is checked."""
# Python drops an exception that is raised inside a weak reference callback or a finalizer (`_drop_silently`).
_AGAIN_SECONDS = 0.25

# Work that takes longer than this gives way to other work.
_HEAVY_SECONDS = 0.05
_WAIT_SECONDS = 0.01
# The longest time for which urgent work can pause other work at once.
_PATIENCE_SECONDS = 0.25

_current = threading.local()
Flag: TypeAlias = list[Exception | None]
"""None in it: the thread that checks it gives way. An exception in it: that thread raises it."""


class TimeIsUp(BaseException):
    """Raised inside the evaluating thread. Not an Exception, so that no handler on the way catches it."""


class Work:
    """Running work that can be stopped and then reports an error."""

    def __init__(
        self, what: str, seconds: float | None, began: float | None = None, most_rows: int | None = None
    ) -> None:
        self.what = what
        self.seconds = seconds
        self.began = time.monotonic() if began is None else began
        self.end = None if seconds is None else self.began + seconds
        self.most_rows = most_rows
        self.gathered: list[Sized] = []
        """Collections that grow while the work runs."""
        self.flags: list[Flag] = []
        """Raised to make the work give way."""
        self.cancelled: threading.Event | None = getattr(_current, "cancelled", None)
        """Set when the outcome is not needed any more."""
        self.outer: Work | None = getattr(_current, "work", None)
        """The work of the same thread that this is a part of."""
        self.is_waiting = False
        """Whether it only waits for others, and so takes no turns among long-running work."""
        self.stopped: Error | None = None
        self.resident_at_start: int | None = None

    def growth(self, resident: int) -> int:
        """Returns how much the memory of the process has grown since the first call."""
        if self.resident_at_start is None:
            self.resident_at_start = resident
        return resident - self.resident_at_start

    def rows(self) -> int:
        return sum(map(len, self.gathered))

    def is_part_of(self, work: Work) -> bool:
        """Whether this is the work, or was started by it."""
        part: Work | None = self
        while part is not None and part is not work:
            part = part.outer
        return part is work

    def stop(self, error: Error) -> None:
        """Makes the work end with an error. Called repeatedly while it is still running."""
        self.stopped = self.stopped or error

    def too_late(self) -> Timeout:
        return Timeout(
            f"{self.what} exceeded its time limit of {self.seconds:g} s and was stopped. Narrow it, or allow "
            f"more time."
        )


class _Interrupted(Work):
    """Work of one thread, stopped by an exception raised in it."""

    def __init__(self, what: str, seconds: float | None, began: float | None, most_rows: int | None) -> None:
        super().__init__(what, seconds, began, most_rows)
        self._thread = threading.get_ident()
        self._guard = threading.Lock()
        self._ended = False
        self._again = 0.0

    def stop(self, error: Error) -> None:
        now = time.monotonic()
        with self._guard:
            if not self._ended and now >= self._again:
                super().stop(error)
                self._again = now + _AGAIN_SECONDS
                _raise_there(self._thread)

    def ends(self) -> None:
        """Prevents the exception from now on, even if it was already requested."""
        with self._guard:
            self._ended = True
        if self.stopped is None:
            return
        # A request can only be replaced, and then met. Python would keep looking for a request that was
        # withdrawn: every call and every loop of the process would be slower, and profilers would hang.
        try:
            _raise_there(self._thread)
            while True:
                pass
        except TimeIsUp:
            pass


def _raise_there(thread: int) -> None:
    _drop_silently()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeIsUp))


def _drop_silently() -> None:
    """Keeps Python from reporting a TimeIsUp that it dropped: it is raised again."""
    report = sys.unraisablehook
    if getattr(report, "drops_time_is_up", False):
        return

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, TimeIsUp):
            report(dropped)

    hook.drops_time_is_up = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


class _Flagged(Work):
    """Work of one thread on shared state, stopped where it looks at its flag."""

    def __init__(self, what: str, seconds: float | None, began: float | None) -> None:
        super().__init__(what, seconds, began)
        self.flag: Flag = []

    def stop(self, error: Error) -> None:
        super().stop(error)
        if not self.flag:
            self.flag.append(self.stopped)


class _Watchdog:
    """The thread that checks running work. It starts with the first work, and sleeps while it has none."""

    def __init__(self) -> None:
        self._works: set[Work] = set()
        self._lookers: set[Callable[[float], Work | None]] = set()
        self._change = threading.Lock()
        self._has_work = threading.Event()
        self._thread: threading.Thread | None = None
        self._spared_until = 0.0
        self._heavy: list[Work] = []
        self._hurries: list[None] = []

    def add(self, work: Work) -> None:
        with self._change:
            self._works.add(work)
            self._begin()

    def remove(self, work: Work) -> None:
        with self._change:
            self._works.discard(work)
            if work in self._heavy:
                self._heavy.remove(work)

    def stop_all(self, error: Error) -> None:
        """Stops all running work, because the process ends."""
        with self._change:
            works = list(self._works)
        for work in works:
            work.stop(error)

    # Turns

    def _take_turns(self, works: set[Work], now: float) -> None:
        """Lets the next long-running work continue; the others give way at their next check."""
        with self._change:
            busy = {work for work in works if not work.is_waiting}
            heavy = [work for work in self._heavy if work in busy]
            late = (work for work in busy if work not in heavy and now - work.began > _HEAVY_SECONDS)
            heavy += sorted(late, key=lambda work: work.began)
            self._heavy = [*heavy[1:], *heavy[:1]]
        for work in heavy:
            self._hold(work)

    def _hold(self, work: Work) -> None:
        for flag in work.flags:
            if not flag:
                flag.append(None)

    def hurry(self) -> None:
        """Marks that urgent work is running; `ease` undoes this."""
        self._hurries.append(None)
        for work in self._heavy[:1]:
            self._hold(work)

    def ease(self) -> None:
        self._hurries.pop()

    def may_go_on(self, work: Work, patient: bool) -> bool:
        heavy = self._heavy
        return (not heavy or work.is_part_of(heavy[0])) and not (patient and self._hurries)

    def attend(self, looker: Callable[[float], Work | None]) -> None:
        """Registers a callback for work that starts and ends too fast to be added and removed."""
        with self._change:
            self._lookers.add(looker)
            self._begin()

    def leave(self, looker: Callable[[float], Work | None]) -> None:
        with self._change:
            self._lookers.discard(looker)

    def _begin(self) -> None:
        if not self._has_work.is_set():
            self._has_work.set()
        if self._thread is None or not self._thread.is_alive():  # a forked child has none
            self._thread = threading.Thread(target=self._watch, name="limits", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while True:
            self._has_work.wait()
            time.sleep(self._pause())
            now = time.monotonic()
            with self._change:
                works = set(self._works)
                works.update(work for look in self._lookers if (work := look(now)) is not None)
                if not self._works and not self._lookers:
                    self._has_work.clear()
            self._look(works, now)
            self._take_turns(works, now)

    def _pause(self) -> float:
        with self._change:
            ends = [work.end for work in self._works if work.end is not None]
        return max(0.001, min([LOOK_SECONDS, *(end - time.monotonic() for end in ends)]))

    def _look(self, works: set[Work], now: float) -> None:
        if not works:
            return
        resident, room, grown = memory.usage()[1], memory.room(MEMORY_SHARE), 0
        for work in works:
            grown = max(grown, work.growth(resident))
            if work.stopped is not None:
                work.stop(work.stopped)
            elif work.cancelled is not None and work.cancelled.is_set():
                work.stop(Timeout(f"{work.what} was cancelled: its client has left."))
            elif work.end is not None and now >= work.end:
                work.stop(work.too_late())
            elif work.most_rows is not None and work.rows() > work.most_rows:
                work.stop(too_many_rows(work.what, work.most_rows))
        if room is None or grown <= room or now < self._spared_until:
            return
        running = [work for work in works if work.stopped is None]
        if running:
            largest = max(running, key=lambda work: (work.rows(), work.began))
            largest.stop(too_much_memory(largest.what, grown))
            self._spared_until = now + 2 * _AGAIN_SECONDS  # its memory takes a moment to be freed


def too_many_rows(what: str, most: int) -> TooLarge:
    return TooLarge(
        f"{what} exceeded its limit of {most:,} rows and was stopped. Narrow it, or allow more rows."
    )


def too_much_memory(what: str, grown: int | None = None) -> TooLarge:
    used = "more memory than available" if grown is None else f"{grown / 2**20:,.0f} MB of memory"
    return TooLarge(
        f"{what} used {used} and was stopped. All running work may use {MEMORY_SHARE:.0%} of the machine's "
        f"memory, or half of what a memory limit leaves. Narrow it, or run it on a larger machine."
    )


_watchdog = _Watchdog()


def _after_fork() -> None:
    global _watchdog
    _watchdog = _Watchdog()


os.register_at_fork(after_in_child=_after_fork)


def watchdog() -> _Watchdog:
    return _watchdog


def seconds_left() -> float | None:
    """Returns how long the work of this thread may still take; None without a limit."""
    work: Work | None = getattr(_current, "work", None)
    return None if work is None or work.end is None else max(0.0, work.end - time.monotonic())


def flagged(flag: Flag) -> Flag:
    """Registers a flag for the work of this thread, which calls `give_way` when it contains None."""
    work: Work | None = getattr(_current, "work", None)
    if work is not None:
        work.flags.append(flag)
    return flag


@contextmanager
def stopped_by(flag: Flag) -> Iterator[None]:
    """Has `look_at_flag` raise an exception in the flag, while this thread runs the block."""
    before: Flag | None = getattr(_current, "flag", None)
    _current.flag = flag
    try:
        yield
    finally:
        _current.flag = before


@contextmanager
def limited(seconds: float | None, what: str, began: float | None = None) -> Iterator[None]:
    """Stops the block like `within`, but only where it looks at its flag: while it waits for a backend."""
    work = _Flagged(what, seconds, began)
    if seconds is None and work.cancelled is None:
        yield
        return
    _watchdog.add(work)
    try:
        with stopped_by(work.flag):
            yield
    finally:
        _watchdog.remove(work)


def can_be_stopped() -> bool:
    """Whether something may stop the work of this thread."""
    is_watched = getattr(_current, "flag", None) is not None or getattr(_current, "work", None) is not None
    return is_watched or is_held_back()


def look_at_flag() -> None:
    """Raises the exception that stops the work of this thread, if any; called while it waits for others."""
    look_for_interrupt()
    flag: Flag | None = getattr(_current, "flag", None)
    if flag and flag[0] is not None:
        raise flag[0]


def paced(items: Iterable[T]) -> Iterable[T]:
    """Yields the same items; between two of them, long-running work gives way."""
    return items if getattr(_current, "work", None) is None else _paced(items)


def _paced(items: Iterable[T]) -> Iterator[T]:
    flag = flagged([])
    for item in items:
        if flag:
            give_way(flag)
        yield item


def give_way(flag: Flag) -> None:
    """Waits until it is this thread's turn among long-running work, and no urgent work is running."""
    flag.clear()
    work: Work | None = getattr(_current, "work", None)
    if work is None or getattr(_current, "is_urgent", False):
        return
    until = time.monotonic() + _PATIENCE_SECONDS
    while not _watchdog.may_go_on(work, time.monotonic() < until):
        time.sleep(_WAIT_SECONDS)


@contextmanager
def urgently() -> Iterator[None]:
    """Makes long-running work wait for a moment while the block runs."""
    _watchdog.hurry()
    try:
        yield
    finally:
        _watchdog.ease()


@contextmanager
def being_urgent() -> Iterator[None]:
    """Marks the work of this thread in the block as the urgent one, for which other work waits."""
    before = getattr(_current, "is_urgent", False)
    _current.is_urgent = True
    try:
        yield
    finally:
        _current.is_urgent = before


@contextmanager
def waiting() -> Iterator[None]:
    """Marks that the work of this thread only waits in the block: no other work gives way to it."""
    works: list[Work] = []
    work: Work | None = getattr(_current, "work", None)
    while work is not None and not work.is_waiting:
        works.append(work)
        work = work.outer
    try:
        for one in works:
            one.is_waiting = True
        yield
    finally:
        for one in works:
            one.is_waiting = False


@contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Stops the limited work that this thread runs in the block once the event is set."""
    before = getattr(_current, "cancelled", None)
    _current.cancelled = event
    try:
        yield
    finally:
        _current.cancelled = before


def gathers(rows: Sized) -> None:
    """Registers a collection of rows of this thread's work.

    When memory runs out, the work with the most rows is stopped first.
    """
    work: Work | None = getattr(_current, "work", None)
    if work is not None:
        work.gathered.append(rows)


def within(
    seconds: float | None,
    work: Callable[[], T],
    what: str = "Query",
    began: float | None = None,
    most_rows: int | None = None,
) -> T:
    """Runs some work and returns its result.

    Raises Timeout if it takes longer than `seconds`, and TooLarge if it uses too much memory or collects more
    than `most_rows`. The seconds count from `began` (by `time.monotonic`), or from now.
    """
    return _run(_Interrupted(what, seconds, began, most_rows), work)


class Steps:
    """Work that is done in steps, maybe by several threads, with limits for all steps together.

    Only the time of the steps counts, not the time between them.
    """

    def __init__(self, seconds: float | None, what: str = "Query", spent: float = 0.0) -> None:
        self._seconds = seconds
        self._what = what
        self._spent = spent
        self._gathered: list[Sized] = []
        self._flags: list[Flag] = []
        self._resident_at_start: int | None = None

    def gathers(self, rows: Sized) -> None:
        """Registers a collection of rows that grows in the steps; see `gathers`."""
        self._gathered.append(rows)

    def run(self, step: Callable[[], T]) -> T:
        """Runs a step and returns its result; raises like `within`."""
        began = time.monotonic()
        work = _Interrupted(self._what, self._seconds, began - self._spent, None)
        work.gathered, work.flags = self._gathered, self._flags
        work.resident_at_start = self._resident_at_start
        try:
            return _run(work, step)
        finally:
            self._spent += time.monotonic() - began
            self._resident_at_start = work.resident_at_start


def _run(under_way: _Interrupted, work: Callable[[], T]) -> T:
    before = getattr(_current, "work", None)
    failure: Error
    try:
        try:
            _current.work = under_way
            _watchdog.add(under_way)
            outcome = work()
            if under_way.end is not None and time.monotonic() >= under_way.end:
                raise TimeIsUp  # on a busy machine, the watching thread may come later than the end
            return outcome
        finally:
            under_way.ends()
    except TimeIsUp:
        under_way.ends()  # it may have been raised while the work was ending
        failure = under_way.stopped or under_way.too_late()
    except MemoryError:
        failure = too_much_memory(under_way.what)
    finally:
        _current.work = before
        _watchdog.remove(under_way)
    raise failure  # not inside the handler: its traceback would keep everything that the work collected
