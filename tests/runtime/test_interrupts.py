"""Ctrl-C is held back while shared state changes, and raised where that is safe."""

# ruff: noqa: PT012 - what happens around an interrupt is what is tested

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sparqlive.runtime.deadline import look_at_flag
from sparqlive.runtime.interrupts import interruptible, interrupting, is_held_back, uninterrupted


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Python's own handler, whichever the tests run with; each test must leave it as it was."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_raised_at_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        with uninterrupted:
            interrupt()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_without_one_nothing_is_raised() -> None:
    with uninterrupted:
        assert is_held_back()
    assert not is_held_back()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_an_error_does_not_hide_it() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, uninterrupted:
        interrupt()
        raise ValueError("the work failed too")
    assert isinstance(raised.value.__context__, ValueError)


def test_work_can_be_stopped_where_it_waits() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        look_at_flag()
        interrupt()
        done.append("before")
        look_at_flag()
        done.append("after")
    assert done == ["before"]


def test_work_of_its_own_is_interrupted() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        try:
            with interruptible():
                interrupt()
                done.append("inside")
        finally:
            assert is_held_back()
            interrupt()
            done.append("put back")
    assert done == ["put back"]


def test_an_earlier_interrupt_stops_work_of_its_own() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        interrupt()
        with interruptible():
            done.append("inside")
    assert not done


def test_a_flag_gets_it() -> None:
    flag: list[Any] = []
    with pytest.raises(KeyboardInterrupt), uninterrupted:
        with interrupting(flag):
            assert not flag
            interrupt()
            assert isinstance(flag[0], KeyboardInterrupt)
        assert not flag


def test_another_handler_is_called() -> None:
    called: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    flag: list[Any] = []
    with uninterrupted:
        with interrupting(flag):
            interrupt()
        assert called == flag == []
    assert called == [signal.SIGINT]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ignored_signals_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted, interruptible():
        interrupt()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN


def test_other_threads_hold_nothing_back() -> None:
    seen: list[Any] = []

    def work() -> None:
        with uninterrupted:
            seen.append((signal.getsignal(signal.SIGINT), is_held_back()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(signal.default_int_handler, False)]
