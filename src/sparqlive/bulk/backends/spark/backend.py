"""Spark as a backend of the bulk executor: names DataFrames and Arrow functions for use in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from sparqlive.bulk.backend import Function
from sparqlive.bulk.dialect import Dialect, SparkSql
from sparqlive.bulk.frame import Frame

_ARROW_FUNCTION: Any = arrow_udf  # its stub leaves out the form with only a return type
_NUMBERS = count()
_LONGEST = 4000
"""Characters of a frame that is repeated as it is: about as long to analyse once more as to run it."""
_MOST_READS = 12
"""Tables that a frame reads which is repeated: each reading of a reading would double them."""
_BROADCAST_BYTES = 10 << 20
"""Spark's own default bound."""


class SparkBackend:
    shares = False
    joins_after_sum = 1

    def __init__(self, session: SparkSession, longest: int = _LONGEST) -> None:
        self.dialect: Dialect = SparkSql()
        self._session = session
        self._longest = longest
        self._views: list[str] = []
        self._functions: list[str] = []

    def frame(self, data: DataFrame, columns: Sequence[str]) -> Frame:
        name = f"sparqlive_view_{next(_NUMBERS)}"
        data.createOrReplaceTempView(name)
        self._views.append(name)
        return Frame.table(name, columns)

    def columns(self, data: DataFrame) -> Sequence[str]:
        return data.columns

    def share(self, frame: Frame) -> Frame:
        """The same rows, for several uses in one query. A long frame runs now, and its rows are held.

        Only for what is broadcast, which the driver holds anyway. Repeated uses of uses would make a
        query's text grow exponentially with the depth of its plan.
        """
        if len(frame.sql(self.dialect)) <= self._longest:
            return frame
        rows = self.query(frame).toArrow()
        local = self.frame(self._session.createDataFrame(rows), frame.columns)
        return replace(local, is_empty=rows.num_rows == 0)

    def repeats(self, frame: Frame) -> bool:
        """Spark computes a common table expression for each of its readers."""
        return frame.reads() <= _MOST_READS

    def materialize(self, frame: Frame) -> Frame:
        """The same frame: its rows may be too many for the driver."""
        return frame

    def function(self, function: Function, kind: pa.DataType) -> str:
        name = f"sparqlive_function_{next(_NUMBERS)}"
        self._session.udf.register(name, _ARROW_FUNCTION(function, returnType=from_arrow_type(kind)))
        self._functions.append(name)
        return name

    def query(self, frame: Frame) -> DataFrame:
        return self._session.sql(frame.sql(self.dialect))

    def is_broadcast(self, data: DataFrame) -> bool:
        """Whether Spark expects so few bytes that it broadcasts them where they are joined."""
        expected: Any = data._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        return int(expected) < _BROADCAST_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._views:
            self._session.catalog.dropTempView(self._views.pop())
        while self._functions:
            self._session.sql(f"DROP TEMPORARY FUNCTION {self._functions.pop()}")
