"""Work under limits leaves the interpreter as it was."""

from __future__ import annotations

import subprocess
import sys
import time
import weakref

import pytest

from sparqlive.errors import Timeout
from sparqlive.runtime import deadline

PROFILED = """
import cProfile
from sparqlive.errors import Timeout
from sparqlive.runtime.deadline import within

def long():
    while True:
        pass

for seconds, work in {runs}:
    try:
        within(seconds, work)
    except Timeout:
        print("stopped")
cProfile.runctx("sorted([2, 1])", {{}}, {{}})
"""


@pytest.mark.parametrize(
    ("runs", "stopped"),
    [("[(60, int)]", 0), ("[(0.1, long)]", 1), ("[(0.1, long), (60, int), (0.1, long)]", 2)],
)
def test_profilers_work_after_limited_work(runs: str, stopped: int) -> None:
    """An exception that is requested for a thread and never raised would make the profiler wait for ever."""
    program = [sys.executable, "-c", PROFILED.format(runs=runs)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("stopped") == stopped
    assert "function calls" in done.stdout


def test_work_that_ends_late_is_refused_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline._watchdog, "_look", lambda works, now: None)
    with pytest.raises(Timeout):
        deadline.within(0.001, lambda: time.sleep(0.01))
    assert deadline.within(60, lambda: 1) == 1


def test_an_exception_that_a_finalizer_swallows_is_raised_again_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    class Thing:
        pass

    def long_callback(_: object) -> None:
        while not deadline._current.work.stopped:
            pass
        for _ in range(1_000_000):  # by now the exception was raised here
            pass

    def work() -> None:
        thing = Thing()
        reference = weakref.ref(thing, long_callback)
        del thing
        while reference() is None:
            pass

    with pytest.raises(Timeout):
        deadline.within(0.1, work)
    assert not reported


def test_urgent_work_does_not_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent reads a long update within limits, while everything else waits for it."""
    asked: list[deadline.Work] = []

    def may_go_on(work: deadline.Work, patient: bool) -> bool:
        asked.append(work)
        return True

    monkeypatch.setattr(deadline._watchdog, "may_go_on", may_go_on)
    with deadline.urgently():
        deadline.within(60, lambda: deadline.give_way([None]))
        assert len(asked) == 1
        with deadline.being_urgent():
            deadline.within(60, lambda: deadline.give_way([None]))
        assert len(asked) == 1
        deadline.within(60, lambda: deadline.give_way([None]))
        assert len(asked) == 2
