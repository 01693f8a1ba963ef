"""Measurements in a child process, each within limits of time and memory.

Owns the child: it is killed with everything that it started when a measurement exceeds a limit, and started
again to go on with the next one. So a benchmark of code that does not get through still ends, and says where
it was stopped. Memory is what no file backs (RssAnon): a limit on the address space would count mapped files.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import psutil

from bench.measure import anonymous_bytes
from bench.text import duration

_LOOK_SECONDS = 0.02
_START_SECONDS = 600.0
_PREPARING_TIMES = 10
"""Loading and opening may take so many times as long as a cell."""


@dataclass(frozen=True)
class Limits:
    seconds: float
    bytes: int


@dataclass(frozen=True)
class Stopped:
    """In place of a value: the limit that was exceeded, or the error."""

    reason: str


@dataclass
class Outcomes:
    """What the child measured, by the names of the cells."""

    values: dict[str, Any] = field(default_factory=dict)
    most_bytes: int = 0
    """The most anonymous memory of a child and what it started, at one time."""


class Cells:
    """The child's side: each measurement is announced, so that the parent can watch it."""

    def __init__(self, connection: Connection, known: dict[str, bool]) -> None:
        self._connection, self._known = connection, known

    def prepare(self, name: str, action: Callable[[], tuple[Any, Any]]) -> Any:
        """Does what later cells need, again in each child; the action returns that, and a value to record.

        If it is stopped, the rest is not measured.
        """
        self._connection.send(("prepare", name, None))
        try:
            needed, value = action()
        except Exception as error:
            self._connection.send(("value", name, _failed(error)))
            raise _NotPreparedError from error
        self._connection.send(("value", name, value))
        return needed

    def cell(self, name: str, action: Callable[[], Any], *, again: bool = False) -> None:
        """Measures a cell, unless an earlier child did; an error is its outcome.

        `again`: later cells need what it does, so a later child does it too, unless it was stopped.
        """
        if name in self._known and not (again and self._known[name]):
            return
        self._connection.send(("prepare" if name in self._known else "cell", name, None))
        try:
            value = action()
        except Exception as error:
            value = _failed(error)
        self._connection.send(("value", name, value))


class _NotPreparedError(Exception):
    """Recorded already."""


def _failed(error: Exception) -> Stopped:
    return Stopped(f"failed: {type(error).__name__}: {error}"[:200])


Work = Callable[..., None]


def measured(work: Work, arguments: tuple[Any, ...], limits: Limits) -> Outcomes:
    """Calls `work(cells, *arguments)` in a child, and in another one after each stop."""
    found = Outcomes()
    while _attempt(work, arguments, limits, found):
        pass
    return found


def _attempt(work: Work, arguments: tuple[Any, ...], limits: Limits, found: Outcomes) -> bool:
    """Returns whether there is more to measure in another child."""
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe(duplex=False)
    known = {name: not isinstance(value, Stopped) for name, value in found.values.items()}
    process = context.Process(target=_serve, args=(theirs, work, arguments, known))
    process.start()
    theirs.close()
    try:
        return _watch(connection, process, limits, found)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join()
        connection.close()


def _watch(connection: Connection, process: Any, limits: Limits, found: Outcomes) -> bool:
    step, name, deadline = "prepare", "start", time.monotonic() + _START_SECONDS
    while True:
        reason = ""
        try:
            if connection.poll(_LOOK_SECONDS):
                kind, name, value = connection.recv()
                if kind == "done":
                    return False
                if kind == "wrong":
                    raise SystemExit(value)
                if kind == "value":
                    found.values.setdefault(name, value)
                    step, name = "prepare", f"after {name}"
                    deadline = time.monotonic() + limits.seconds * _PREPARING_TIMES
                else:
                    times = _PREPARING_TIMES if kind == "prepare" else 1
                    step, deadline = kind, time.monotonic() + limits.seconds * times
                continue
        except EOFError:
            process.join()
            reason = f"ended with exit code {process.exitcode}"
        used = family_bytes(process.pid)
        found.most_bytes = max(found.most_bytes, used)
        if used > limits.bytes:
            reason = f"stopped at {limits.bytes / 1e9:.3g} GB"
        elif time.monotonic() > deadline:
            times = _PREPARING_TIMES if step == "prepare" else 1
            seconds = _START_SECONDS if name == "start" else limits.seconds * times
            reason = f"stopped at {duration(seconds)}"
        if reason:
            found.values[name] = Stopped(reason)
            print(f"  {name}: {reason}", file=sys.stderr, flush=True)
            return step == "cell"


def family_bytes(process: int) -> int:
    """The anonymous memory of a process and of those that it started."""
    total = 0
    with suppress(psutil.Error, OSError):
        total += anonymous_bytes(process)
        for child in psutil.Process(process).children(recursive=True):
            total += anonymous_bytes(child.pid)
    return total


def _serve(connection: Connection, work: Work, arguments: tuple[Any, ...], known: dict[str, bool]) -> None:
    os.setsid()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        with suppress(_NotPreparedError):
            work(Cells(connection, known), *arguments)
    except (Exception, SystemExit) as error:
        trace = "" if isinstance(error, SystemExit) else traceback.format_exc()
        connection.send(("wrong", "", f"{error}\n{trace}"))
    else:
        connection.send(("done", "", None))


def _end_with(parent: int) -> None:
    """Ends this process soon after its parent, which cannot end it when it is killed itself."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)
