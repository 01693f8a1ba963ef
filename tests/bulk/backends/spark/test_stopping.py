"""Limits stop the jobs of Spark, and not only the wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import sparqlive
from sparqlive.bulk.backends.spark.backend import SparkBackend
from sparqlive.bulk.backends.spark.start import is_connect
from sparqlive.bulk.backends.spark.stopping import stoppable
from sparqlive.runtime.deadline import cancelled_by, limited
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_files")]

QUERY = "SELECT ?y (COUNT(*) AS ?n) { ?x <urn:p> ?y } GROUP BY ?y"


def endless(spark: SparkSession, columns: Sequence[str] = ("c0", "w")) -> Any:
    """Rows that no test waits for."""
    return spark.range(10**15).selectExpr(*(f"sum(id % 7) AS {name}" for name in columns))


def active_jobs() -> list[int]:
    context = SparkContext._active_spark_context  # on Spark Connect, that of the server
    assert context is not None
    return list(context.statusTracker().getActiveJobsIds())


def wait_until_idle() -> None:
    wait_until(lambda: not active_jobs())


def leave(left: Event, spark: SparkSession) -> None:
    """Leaves at once. A server of Spark Connect may overlook an interruption before the job has begun."""
    if is_connect(spark):
        wait_until(lambda: bool(active_jobs()))
    left.set()


def test_a_time_limit_and_a_client_that_leaves(spark: SparkSession) -> None:
    with pytest.raises(sparqlive.Timeout, match="exceeded its time limit"), limited(0.3, "Work"):
        stoppable(spark, endless(spark).toArrow)
    wait_until_idle()
    left = Event()
    timer = Timer(0.3, left.set)
    timer.start()
    with cancelled_by(left), limited(None, "Work"), pytest.raises(sparqlive.Timeout, match="was cancelled"):
        stoppable(spark, endless(spark).collect)
    timer.join()
    wait_until_idle()
    with limited(600, "Work"):
        assert stoppable(spark, spark.range(3).count) == 3


@pytest.mark.parametrize("memory", [0, "1GB"])
def test_a_view_whose_client_leaves_is_not_registered(
    memory: int | str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Event()

    def slow(self: SparkBackend, frame: Any) -> Any:
        Thread(target=leave, args=(left, spark)).start()
        return endless(spark, frame.columns)

    with sparqlive.open(tmp_path, spark=spark, memory=memory) as session:
        session.apply(insert="<urn:a> <urn:p> <urn:b> .\n")
        with monkeypatch.context() as patch:
            patch.setattr(SparkBackend, "query", slow)
            with cancelled_by(left), pytest.raises(sparqlive.Timeout, match="view 'view' was cancelled"):
                session.view("view", QUERY, strategy="spark")
        wait_until_idle()
        assert "view" not in session.views
        session.view("view", QUERY, timeout_seconds=600)
        session.apply(insert="<urn:c> <urn:p> <urn:b> .\n")
        session.check()
