"""The reason in one sentence, from texts as Spark and py4j write them."""

from __future__ import annotations

import sys

import pytest

from sparqlive.bulk.backends.spark.failure import root_cause

STACK = "\tat org.apache.spark.Some.thing(Some.scala:1)\n"
ABORTED = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times"
)
LOST = "most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (localhost executor driver)"
MISSING = "FileNotFoundException: File file:/runs/a.parquet does not exist"
TEXTS = {
    "heap": (
        f"An error occurred while calling o1.collectToPython.\n: {ABORTED}, {LOST}: "
        f"java.lang.OutOfMemoryError: Java heap space\n{STACK}\nDriver stacktrace:\n{STACK}",
        "OutOfMemoryError: Java heap space",
    ),
    "chain": (
        f"o1.x failed\n: org.apache.spark.SparkException: whatever\n{STACK}"
        f"Caused by: java.lang.RuntimeException: between\n{STACK}"
        f"Caused by: java.io.{MISSING}\n{STACK}\t... 3 more",
        MISSING,
    ),
    "python": (
        f"{ABORTED}, {LOST}: org.apache.spark.api.python.PythonException: "
        f"Traceback (most recent call last):\n"
        f'  File "worker.py", line 1, in main\n    process()\nOSError: No space left on device\n\n{STACK}',
        "OSError: No space left on device",
    ),
    "no package": (
        f"{ABORTED}, {LOST}: org.apache.spark.api.python.PythonException: "
        f"Traceback (most recent call last):\nModuleNotFoundError: No module named 'sparqlive'\n{STACK}",
        "sparqlive is not installed in the Python of Spark's workers. Install it there; for a local "
        f"Spark, set the environment variable PYSPARK_PYTHON to {sys.executable} before Spark starts.",
    ),
    "plain": ("[TABLE_OR_VIEW_NOT_FOUND] no such table\nmore", "[TABLE_OR_VIEW_NOT_FOUND] no such table"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_the_last_cause_is_the_reason(kind: str) -> None:
    text, reason = TEXTS[kind]
    assert root_cause(text) == reason
