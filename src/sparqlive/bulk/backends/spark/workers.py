"""Runs the tasks of an ingest on Spark, which places, retries and counts them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from sparqlive.bulk.backends.spark.failure import root_cause
from sparqlive.bulk.backends.spark.start import cores_of
from sparqlive.errors import SparkFailed

Given = TypeVar("Given")
Result = TypeVar("Result")


class SparkWorkers:
    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @property
    def cores(self) -> int:
        return cores_of(self._session)

    def each(self, tasks: Sequence[Given], work: Callable[[Given], Result], name: str) -> list[Result]:
        """Runs one partition per task, as DataFrames: Spark Connect has no other way to its workers."""
        numbers = self._session.range(0, len(tasks), 1, len(tasks))
        try:
            done = numbers.mapInArrow(_Work(list(tasks), work), "id BIGINT, result BINARY").collect()
        except Exception as error:
            raise SparkFailed(f"Spark failed to {name}: {root_cause(str(error))}") from error
        return [pickle.loads(row["result"]) for row in sorted(done, key=lambda row: row["id"])]


@dataclass(frozen=True)
class _Work:
    tasks: list[Any]
    work: Callable[[Any], Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(self.work(self.tasks[number]))
                yield pa.RecordBatch.from_pydict({"id": [number], "result": [result]})
