"""Stops Spark's jobs when the work that waits for them is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar
from uuid import uuid4

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from sparqlive.bulk.backends.spark.start import is_connect
from sparqlive.runtime.deadline import can_be_stopped, look_at_flag

Result = TypeVar("Result")

_LOOK_SECONDS = 0.05
# How long to wait for stopped jobs to end: they use tables that are dropped afterwards.
_END_SECONDS = 10.0


def stoppable(session: SparkSession, action: Callable[[], Result]) -> Result:
    """Runs an action that waits for jobs. An exception set in this thread, or in its flag, stops them."""
    if not can_be_stopped():
        return action()
    outcome: Future[Result] = Future()
    tag = f"sparqlive-{uuid4().hex}"

    def run() -> None:
        try:
            _add_tag(session, tag)
            outcome.set_result(action())
        except BaseException as error:
            outcome.set_exception(error)

    thread = InheritableThread(target=run, session=session)
    thread.start()
    try:
        while thread.is_alive():
            look_at_flag()
            thread.join(_LOOK_SECONDS)
    except BaseException:
        _stop(session, tag, thread)
        raise
    return outcome.result()


def _stop(session: SparkSession, tag: str, thread: InheritableThread) -> None:
    """Repeats the interrupt, because between two jobs of an action there is none to stop."""
    until = time.monotonic() + _END_SECONDS
    while thread.is_alive() and time.monotonic() < until:
        with suppress(Exception):  # the reason for stopping is raised elsewhere
            _interrupt(session, tag)
        thread.join(_LOOK_SECONDS)


# Each thread has its own tags. The jobs of a classic session do not carry those of its actions.


def _add_tag(session: SparkSession, tag: str) -> None:
    if is_connect(session):
        session.addTag(tag)
    else:
        session.sparkContext.addJobTag(tag)


def _interrupt(session: SparkSession, tag: str) -> None:
    if is_connect(session):
        session.interruptTag(tag)
    else:
        session.sparkContext.cancelJobsWithTag(tag)
