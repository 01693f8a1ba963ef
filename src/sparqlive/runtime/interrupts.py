"""Delays Ctrl-C while the main thread changes shared state, until the state is consistent again.

Python raises KeyboardInterrupt between any two instructions of the main thread. In the middle of an epoch, it
would leave half of the epoch in memory, or an epoch on disk that memory does not have. So changes to
shared state hold SIGINT back, and check for it where it is safe to stop. Owns the handler of SIGINT
meanwhile. Invariant: the handler from before is restored, and called if a signal came. Other threads are
never interrupted: nothing here affects them.
"""

from __future__ import annotations

# What `signal` calls itself, after a look for the handler among its constants that takes 20 times as long.
import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FrameType
from typing import Any

_handler_of, _set_handler = _signal.getsignal, _signal.signal
SIGINT = int(signal.SIGINT)
Handler = Callable[[int, FrameType | None], Any]


class _Held:
    """What the main thread holds back. `depth`: how many blocks around it do so."""

    __slots__ = ("depth", "flag", "handler", "is_noted", "thread")

    def __init__(self) -> None:
        self.thread = threading.main_thread().ident
        self.depth = 0
        self.is_noted = False
        self.handler: Handler | None = None
        self.flag: list[Any] | None = None


_held = _Held()


def _after_fork() -> None:
    _held.thread = get_ident()


os.register_at_fork(after_in_child=_after_fork)


def _note(number: int, frame: FrameType | None) -> None:
    _held.is_noted = True
    if _held.flag is not None and _held.handler is signal.default_int_handler:
        _held.flag.insert(0, KeyboardInterrupt())


class _Uninterrupted:
    def __enter__(self) -> None:
        held = _held
        if get_ident() != held.thread:
            return
        if held.depth == 0:
            handler = _handler_of(SIGINT)
            if handler is not _note:
                # Anything else is no function: signals are ignored, or end the process.
                held.handler = handler if callable(handler) else None
            held.is_noted = False
            if held.handler is not None:
                _set_handler(SIGINT, _note)
        held.depth += 1

    def __exit__(self, *_: object) -> None:
        held = _held
        if get_ident() != held.thread:
            return
        held.depth -= 1
        if held.depth == 0 and held.handler is not None:
            _set_handler(SIGINT, held.handler)
            if held.is_noted:
                _deliver()


uninterrupted = _Uninterrupted()
"""Context in which interrupts are held back, and raised when the outermost one ends."""


def is_held_back() -> bool:
    """Whether this thread is the main one, and an interrupt would be held back."""
    return _held.depth > 0 and get_ident() == _held.thread


def look_for_interrupt() -> None:
    """Raises what is held back, where the work can be stopped."""
    if _held.is_noted and get_ident() == _held.thread:
        _deliver()


def _deliver() -> None:
    """Calls the handler that would have been called."""
    handler = _held.handler
    _held.is_noted = False
    if handler is not None:
        handler(SIGINT, None)


@contextmanager
def interruptible() -> Iterator[None]:
    """Context in which interrupts are not held back: for work that owns everything that it changes."""
    depth, handler = _held.depth, _held.handler
    if get_ident() != _held.thread or depth == 0 or handler is None:
        yield
        return
    if _held.is_noted:
        _deliver()
    try:
        _held.depth = 0
        _set_handler(SIGINT, handler)
        yield
    finally:
        _set_handler(SIGINT, _note)
        _held.depth, _held.handler = depth, handler


@contextmanager
def interrupting(flag: list[Any]) -> Iterator[None]:
    """Context in which an interrupt that is held back is put into a flag, which loops look at."""
    if get_ident() != _held.thread:
        yield
        return
    _held.flag = flag
    try:
        yield
    finally:
        _held.flag = None
        if any(isinstance(stop, KeyboardInterrupt) for stop in flag):
            flag.clear()
