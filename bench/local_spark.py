"""Spark on this machine for a benchmark: it and its Python workers have started before the clock does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from sparqlive.bulk.backends.spark.start import start_session


@contextmanager
def local_spark(memory: str) -> Iterator[SparkSession]:
    """A session on two cores, stopped at the end; `memory`: of Java, such as "4g"."""
    cores = min(2, os.cpu_count() or 1)
    spark = start_session(f"local[{cores}]", {"spark.driver.memory": memory, "spark.log.level": "ERROR"})
    try:
        spark.sparkContext.parallelize(range(cores), cores).map(_ready).collect()
        yield spark
    finally:
        spark.stop()


def _ready(number: int) -> int:
    """Run once by each worker."""
    return number
