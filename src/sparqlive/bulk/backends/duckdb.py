"""DuckDB as a backend of the bulk executor: names Arrow tables and functions for use in SQL."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa

from sparqlive.bulk.backend import Function, Later
from sparqlive.bulk.dialect import Dialect, DuckDbSql
from sparqlive.bulk.frame import Frame
from sparqlive.rdf.dictionary import hash_of
from sparqlive.sparql.deadline import look_at_flag

_NUMBERS = count()
_LOOK_SECONDS = 0.05
"""How often a query that is running is looked at: whether its caller is to stop."""
_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
}


_idle: list[duckdb.DuckDBPyConnection] = []
"""Connections that are not in use: opening one takes as long as a small query."""
_of_parent: list[duckdb.DuckDBPyConnection] = []
"""Connections of the process that this one was forked from. Without its threads they cannot be closed."""


def _forget_connections() -> None:
    _of_parent.extend(_idle)
    _idle.clear()


os.register_at_fork(after_in_child=_forget_connections)


class DuckDb:
    """A connection to DuckDB for the time of a `with` block, and its tables and functions."""

    shares = True
    joins_after_sum = 2

    def __init__(self, connection: duckdb.DuckDBPyConnection | None = None) -> None:
        self.dialect: Dialect = DuckDbSql()
        self._given = connection
        self._connection: duckdb.DuckDBPyConnection
        self._tables: list[str] = []
        self._waiting: dict[str, Later] = {}
        self._functions: list[str] = []
        self._is_stopped = False
        """Whether a query was stopped: its thread may be busy with the connection for another moment."""

    def frame(self, data: Any, columns: Sequence[str]) -> Frame:
        """An Arrow table, a relation of DuckDB, or a table that is made later."""
        name = f"table_{next(_NUMBERS)}"
        if isinstance(data, Later):
            self._waiting[name] = data
        else:
            self._register(name, data)
        return Frame.table(name, columns)

    def _register(self, name: str, data: Any) -> None:
        self._connection.register(name, data)
        self._tables.append(name)

    def columns(self, data: Any) -> Sequence[str]:
        names: Sequence[str] = data.column_names if isinstance(data, pa.Table) else data.columns
        return names

    def share(self, frame: Frame) -> Frame:
        """The same frame: DuckDB computes a common table expression once."""
        return frame

    def repeats(self, frame: Frame) -> bool:
        return True

    def materialize(self, frame: Frame) -> Frame:
        return self.frame(self.query(frame), frame.columns)

    def function(self, function: Function, kind: pa.DataType) -> str:
        name = f"function_{next(_NUMBERS)}"
        self._add(name, function, kind)
        return name

    def query(self, frame: Frame) -> pa.Table:
        """The rows; a query runs at once, because what it reads goes with the `with` block."""
        text = frame.sql(self.dialect)
        for name in [name for name in self._waiting if re.search(rf"\b{name}\b", text)]:
            self._register(name, self._waiting.pop(name).make())
        return self._run(text)

    def _run(self, text: str) -> pa.Table:
        """Runs a query in a thread of its own. An exception set in this one, or in its flag, stops it."""
        outcome: Future[pa.Table] = Future()

        def run() -> None:
            try:
                outcome.set_result(self._connection.sql(text).to_arrow_table())
            except BaseException as error:
                outcome.set_exception(error)

        thread = Thread(target=run, name="sparqlive DuckDB")
        thread.start()
        try:
            while thread.is_alive():
                look_at_flag()
                thread.join(_LOOK_SECONDS)
        except BaseException:
            self._is_stopped = True
            self._connection.interrupt()
            raise
        return outcome.result()

    def is_broadcast(self, data: Any) -> bool:
        return False

    def __enter__(self) -> Self:
        self._connection = _connected() if self._given is None else self._given
        self._add("xxhash64", _hashes, pa.int64())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.clear()
        if self._is_stopped:
            return
        while self._tables:
            self._connection.unregister(self._tables.pop())
        while self._functions:
            self._connection.remove_function(self._functions.pop())
        if self._given is None:
            _idle.append(self._connection)

    def _add(self, name: str, function: Function, kind: pa.DataType) -> None:
        def call(*columns: pa.ChunkedArray) -> pa.Array:
            return function(*(column.combine_chunks() for column in columns))

        create: Any = self._connection.create_function  # its stub leaves out the names of the options
        create(name, call, None, _duckdb_type(kind), type="arrow", null_handling="special")
        self._functions.append(name)


def _connected() -> duckdb.DuckDBPyConnection:
    """A database in memory; what does not fit goes to the folder for temporary files."""
    try:
        return _idle.pop()
    except IndexError:
        pass
    folder = Path(tempfile.gettempdir()) / f"sparqlive-duckdb-{os.getpid()}"
    return duckdb.connect(config={"temp_directory": str(folder), "threads": len(os.sched_getaffinity(0))})


def _hashes(texts: pa.Array) -> pa.Array:
    return pa.array([None if text is None else hash_of(text) for text in texts.to_pylist()], pa.int64())


def _duckdb_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return duckdb.list_type(_duckdb_type(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return duckdb.struct_type({field.name: _duckdb_type(field.type) for field in fields})
    return _TYPES[kind]
