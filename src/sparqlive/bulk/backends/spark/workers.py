"""Runs the tasks of an ingest on Spark, which places, retries and counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

Given = TypeVar("Given")
Result = TypeVar("Result")


class SparkWorkers:
    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    @property
    def cores(self) -> int:
        return self._context.defaultParallelism

    def each(self, tasks: Sequence[Given], work: Callable[[Given], Result], name: str) -> list[Result]:
        self._context.setJobDescription(f"sparqlive ingest: {name}")
        try:
            return self._context.parallelize(tasks, len(tasks)).map(work).collect()
        finally:
            self._context.setJobDescription(None)  # type: ignore[arg-type]
