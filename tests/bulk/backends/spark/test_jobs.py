"""What Spark does for a small epoch, counted in jobs: the number that does not depend on the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparqlive
from sparqlive.bulk.backends.spark.stages import running_stages
from tests.on_spark import CLASSIC_ONLY
from tests.waiting import happens, wait_until

pytestmark = [pytest.mark.spark, CLASSIC_ONLY]

STAR = "SELECT ?x ?a ?b ?c { ?x <urn:a> ?a ; <urn:b> ?b ; <urn:c> ?c }"
ABOVE = "SELECT ?x ?a { ?x <urn:a> ?a FILTER(?a > 3) }"


def jobs_of(spark: SparkSession, work: Callable[[], object]) -> int:
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    work()
    return int(scheduler.numTotalJobs() - before)


def lines(subject: int, *predicates: str) -> str:
    number = f'"{subject % 7}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return "".join(f"<urn:x{subject}> <urn:{predicate}> {number} .\n" for predicate in predicates)


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])
def test_a_tiny_epoch_runs_few_jobs(spark: SparkSession, tmp_path: Path, kept: bool) -> None:
    """A job for each join with the files, to broadcast what was found so far, and one for the result."""
    with sparqlive.open(tmp_path / "store" if kept else None, spark=spark) as session:
        session.apply(insert="".join(lines(subject, *"abc") for subject in range(30)))
        if kept:
            session.compact()
        session.view("star", STAR, strategy="live")
        session.apply(insert=lines(40, *"abc"))
        one = lines(41, *"bc")
        assert jobs_of(spark, lambda: session.apply(insert=one, strategy="spark")) <= 6
        assert jobs_of(spark, lambda: session.apply(insert=lines(41, "a"), strategy="spark")) <= 3
        assert jobs_of(spark, lambda: session.apply(insert=lines(41, "z"), strategy="spark")) == 0
        assert len(list(session.views["star"])) == 32
        session.check()


def test_terms_are_read_where_a_plan_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", spark=spark) as session:
        session.apply(insert="".join(lines(subject, "a") for subject in range(30)))
        session.compact()
        session.view("above", ABOVE, strategy="live")
        assert jobs_of(spark, lambda: session.apply(insert=lines(41, "a"), strategy="spark")) <= 3
        session.check()


def test_people_see_the_stages(spark: SparkSession, tmp_path: Path) -> None:
    go = tmp_path / "go"
    slow = spark.sparkContext.parallelize(range(3), 3).map(lambda _: happens(go.exists))
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(slow.count)
        wait_until(lambda: re.fullmatch(r"Spark: stage \d+, 0 of 3 tasks", running_stages()) is not None)
        go.touch()
        assert done.result() == 3
    wait_until(lambda: running_stages() == "")
