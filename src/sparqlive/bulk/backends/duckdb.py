"""Implements the backend on DuckDB: registers Arrow tables and Python functions under names for SQL."""

from __future__ import annotations

import gc
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.request import url2pathname
from uuid import uuid4

import duckdb
import pyarrow as pa
from pyarrow import dataset

from sparqlive.bulk.backend import Function, Later
from sparqlive.bulk.dialect import Dialect, DuckDbSql
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.new_terms import NewTerms, TermSaving
from sparqlive.bulk.stored_rows import StoredRelation
from sparqlive.rdf.dictionary import hash_of
from sparqlive.runtime.deadline import look_at_flag
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.sparql.columns import TERM_SCHEMA
from sparqlive.store.compaction import Target
from sparqlive.store.place import file_system
from sparqlive.store.runs import RunFile
from sparqlive.store.saving import Saved, combined, save
from sparqlive.store.streaming import difference, pieces_of_saved

_NUMBERS = count()
_LOOK_SECONDS = 0.05
"""How often a running query checks whether its caller wants to stop."""
_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
}


Result = TypeVar("Result")
_MORE_MEMORY = 2
"""Factor by which a query that ran out of memory gets more."""
_RANGES = 8
"""Number of ranges of the first column that a result is split into when memory runs out."""
_ALL_IDS = (1 << 64) - 1
_SMALLEST_RANGE = _ALL_IDS // _RANGES**2
"""Smaller ranges are not split: many of their rows have the same id."""
_GLOB = re.compile(r"[*?\[\\]")
"""Characters that make a path a pattern, for which DuckDB reads all matching files."""


_idle: list[duckdb.DuckDBPyConnection] = []
"""Idle connections: opening one takes as long as a small query."""
_of_parent: list[duckdb.DuckDBPyConnection] = []
"""Connections of the process that forked this one. Without its threads they cannot be closed."""


def _forget_connections() -> None:
    _of_parent.extend(_idle)
    _idle.clear()


os.register_at_fork(after_in_child=_forget_connections)


class DuckDb:
    """A connection to DuckDB for the duration of a `with` block, with its tables and functions."""

    shares = True
    joins_after_sum = 2

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        memory: int | None = None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        """`memory`: the number of bytes that queries may use before they spill to disk."""
        self._memory = memory
        self._tuning = tuning
        self.dialect: Dialect = DuckDbSql()
        self._given = connection
        self._connection: duckdb.DuckDBPyConnection
        self._tables: list[str] = []
        self._views: list[str] = []
        self._made: list[str] = []
        self._waiting: dict[str, Later] = {}
        self._functions: list[str] = []
        self._held: dict[int, tuple[Frame, Frame, pa.Table | None]] = {}
        """Computed frames by their nodes: the frame itself, the table for it, and its rows."""
        self._steps: list[Callable[[duckdb.DuckDBPyConnection], object]] = []
        """The steps that set up the connection and its tables, to be repeated in another database."""
        self._is_spent = False
        """Whether the connection is not reused: a stopped query keeps it busy, or its database failed."""

    def frame(self, data: Any, columns: Sequence[str]) -> Frame:
        """Registers an Arrow table, a relation of DuckDB, or a table that is created later."""
        name = f"table_{next(_NUMBERS)}"
        if isinstance(data, Later):
            self._waiting[name] = data
        else:
            self._register(name, data)
        return Frame.table(name, columns)

    def _register(self, name: str, data: Any) -> None:
        self._do(lambda connection: connection.register(name, data))
        self._tables.append(name)

    def _do(self, step: Callable[[duckdb.DuckDBPyConnection], object]) -> None:
        step(self._connection)
        self._steps.append(step)

    def columns(self, data: Any) -> Sequence[str]:
        names: Sequence[str] = data.column_names if isinstance(data, pa.Table) else data.columns
        return names

    def share(self, frame: Frame) -> tuple[Frame, bool]:
        """Returns the same frame: DuckDB computes a common table expression once, and broadcasts nothing."""
        return frame, True

    def measured(self, frame: Frame) -> tuple[Frame, bool]:
        return frame, True

    def are_few(self, frame: Frame) -> bool:
        return True

    def repeats(self, frame: Frame) -> bool:
        return True

    def materialize(self, frame: Frame) -> Frame:
        """Creates a table of DuckDB if memory is limited; a large one goes to disk."""
        if self._memory is None:
            return self.frame(self.query(frame), frame.columns)
        name = f"made_{next(_NUMBERS)}"
        text = f"CREATE TEMP TABLE {name} AS {self._text(frame)}"
        self._run(text, lambda _: None)
        self._steps.append(lambda connection: connection.execute(text))
        self._made.append(name)
        return Frame.table(name, frame.columns)

    def held(self, frame: Frame) -> tuple[Frame, pa.Table | None]:
        known = self._held.get(id(frame.node))
        if known is None:
            most = self._tuning.few_changes
            table = self.query(frame.limited(most + 1))
            is_few = table.num_rows <= most
            held = (self.local(table), table) if is_few else (frame, None)
            known = self._held[id(frame.node)] = (frame, *held)
        return known[1:]

    def function(self, function: Function, kind: pa.DataType) -> str:
        name = f"function_{next(_NUMBERS)}"
        self._add(name, function, kind)
        return name

    def files(self, paths: Sequence[str], columns: Sequence[str]) -> Frame:
        local = [_local_path(path) for path in paths if path.startswith("file://")]
        if len(local) < len(paths) or any(_GLOB.search(path) for path in local):
            return self.frame(_dataset(paths, columns), columns)
        listed = ", ".join(map(self.dialect.text, local))
        # A folder above the store may be named `s=1`, which is not a column.
        found = f"read_parquet([{listed}], hive_partitioning = false)"
        return self._view(f"SELECT {', '.join(columns)} FROM {found}", columns)

    def local(self, table: pa.Table) -> Frame:
        frame = replace(self.frame(table, table.column_names), is_empty=table.num_rows == 0)
        self._held[id(frame.node)] = frame, frame, table
        return frame

    def view(self, frame: Frame) -> Frame:
        return self._view(frame.sql(self.dialect), frame.columns)

    def _view(self, text: str, columns: Sequence[str]) -> Frame:
        name = f"view_{next(_NUMBERS)}"
        self._do(lambda connection: connection.execute(f"CREATE TEMP VIEW {name} AS {text}"))
        self._views.append(name)
        return Frame.table(name, columns)

    def rows(self, frame: Frame) -> pa.Table:
        return self.query(frame)

    def save(self, frame: Frame, relation: str, target: Target) -> Saved:
        parts = list(self._saved(frame, relation, target, -(1 << 63), (1 << 63) - 1))
        return parts[0] if len(parts) == 1 else combined(parts, len(frame.columns) - 1, target, relation)

    def _saved(self, frame: Frame, relation: str, target: Target, low: int, high: int) -> Iterator[Saved]:
        """Saves the rows of a range of the first column; if memory runs out, in smaller ranges.

        Ids are hashes, so ranges of equal size have about equally many rows.
        """
        width = len(frame.columns) - 1
        is_whole = high - low == _ALL_IDS
        part = frame if is_whole else frame.where(f"{frame.columns[0]} BETWEEN {low} AND {high}")
        text = self._text(part.sorted(frame.columns[:-1]))

        def kept(found: duckdb.DuckDBPyRelation) -> Saved:
            batches = found.to_arrow_reader(DEFAULT.largest_piece_rows)
            pieces = ([column.to_numpy() for column in batch.columns] for batch in batches)
            return save(target, relation, width, pieces, ending="" if is_whole else f"-{uuid4().hex}")

        if self._memory is None or not width or high - low < _SMALLEST_RANGE:
            yield self._run(text, kept)
            return
        try:
            yield self._run_once(text, kept)
            return
        except duckdb.OutOfMemoryException:
            pass
        gc.collect()  # an error and its query reference each other, and the query holds memory
        step = (high - low) // _RANGES + 1
        for start in range(low, high + 1, step):
            yield from self._saved(frame, relation, target, start, min(start + step - 1, high))

    def save_difference(self, frame: Frame, stored: StoredRelation, relation: str, target: Target) -> Saved:
        """Sorts the rows into files, and compares them with the stored ones piece by piece.

        One query that sums both would need much more memory in DuckDB.
        """
        scratch = replace(target, folder=f"{target.folder}/{uuid4().hex}")
        scratch.place.make(scratch.folder)
        try:
            made = self.save(frame, relation, scratch)
            pieces = difference(pieces_of_saved(scratch.place, made), stored.pieces(), made.width)
            return save(target, relation, made.width, ((*columns, weights) for columns, weights in pieces))
        finally:
            scratch.place.remove_folder(scratch.folder)

    def save_terms(self, frame: Frame, known: Sequence[RunFile], target: Target) -> NewTerms:
        text = self._text(frame.sorted(["id", "term"]))

        def kept(found: duckdb.DuckDBPyRelation) -> NewTerms:
            saving = TermSaving(target, known, f"-{uuid4().hex}")
            for batch in found.to_arrow_reader(DEFAULT.largest_piece_rows):
                saving.add(batch.column("id").to_numpy(), batch.column("term"))
            return saving.finish()

        return self._run(text, kept)

    def query(self, frame: Frame) -> pa.Table:
        """Runs the query at once, because the tables that it reads exist only inside the `with` block."""
        return self._run(self._text(frame), lambda found: found.to_arrow_table())

    def _text(self, frame: Frame) -> str:
        """Returns the text of a query, after creating the tables that it reads."""
        text = frame.sql(self.dialect)
        for name in [name for name in self._waiting if re.search(rf"\b{name}\b", text)]:
            self._register(name, self._waiting.pop(name).make())
        return text

    def _run(self, text: str, take: Callable[[duckdb.DuckDBPyRelation], Result]) -> Result:
        """Runs a query; if memory runs out, runs it again with one thread and more memory.

        Each thread of a sort or a join holds data that DuckDB cannot spill to disk.
        """
        try:
            return self._run_once(text, take)
        except duckdb.OutOfMemoryException:
            if self._memory is None:
                raise
        [(threads,)] = self._connection.execute("SELECT current_setting('threads')").fetchall()
        try:
            gc.collect()  # an error and its query reference each other, and the query holds memory
            self._connection.execute(f"SET threads = 1; SET memory_limit = '{_MORE_MEMORY * self._memory}B'")
            return self._run_once(text, take)
        finally:
            if not self._is_spent:
                self._connection.execute(f"SET threads = {threads}; SET memory_limit = '{self._memory}B'")

    def _run_once(self, text: str, take: Callable[[duckdb.DuckDBPyRelation], Result]) -> Result:
        """Runs a query. If a fault in DuckDB ends the database, uses a new one and one thread.

        DuckDB 2.0 has such faults where several threads of a join meet ("dict-surviving cache").
        """
        try:
            return self._run_in_thread(text, take)
        except duckdb.InternalException:
            self._is_spent = True
            self._connection = _opened(threads=1)
            for step in self._steps:
                step(self._connection)
        return self._run_in_thread(text, take)

    def _run_in_thread(self, text: str, take: Callable[[duckdb.DuckDBPyRelation], Result]) -> Result:
        """Runs a query in a thread of its own. An exception set in this thread, or in its flag, stops it."""
        outcome: Future[Result] = Future()

        def run() -> None:
            try:
                outcome.set_result(take(self._connection.sql(text)))
            except BaseException as error:
                outcome.set_exception(error)

        thread = Thread(target=run, name="sparqlive DuckDB")
        thread.start()
        try:
            while thread.is_alive():
                look_at_flag()
                thread.join(_LOOK_SECONDS)
        except BaseException:
            self._is_spent = True
            self._connection.interrupt()
            raise
        return outcome.result()

    def __enter__(self) -> Self:
        self._connection = _connected() if self._given is None else self._given
        if self._memory is not None:
            limited = f"SET memory_limit = '{self._memory}B'; SET preserve_insertion_order = false"
            self._do(lambda connection: connection.execute(limited))
        self._add("xxhash64", _hashes, pa.int64())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.clear()
        self._held.clear()
        if self._is_spent:
            return
        while self._views:
            self._connection.execute(f"DROP VIEW {self._views.pop()}")
        while self._made:
            self._connection.execute(f"DROP TABLE {self._made.pop()}")
        while self._tables:
            self._connection.unregister(self._tables.pop())
        while self._functions:
            self._connection.remove_function(self._functions.pop())
        if self._memory is not None:
            self._connection.execute("RESET memory_limit; RESET preserve_insertion_order")
        if self._given is None:
            _idle.append(self._connection)

    def _add(self, name: str, function: Function, kind: pa.DataType) -> None:
        def call(*columns: pa.ChunkedArray) -> pa.Array:
            return function(*(column.combine_chunks() for column in columns))

        def create(connection: Any) -> None:  # the stub leaves out the names of the options
            connection.create_function(
                name, call, None, _duckdb_type(kind), type="arrow", null_handling="special"
            )

        self._do(create)
        self._functions.append(name)


def _connected() -> duckdb.DuckDBPyConnection:
    """Opens a database in memory; data that does not fit goes to the folder for temporary files."""
    try:
        return _idle.pop()
    except IndexError:
        return _opened(len(os.sched_getaffinity(0)))


def _opened(threads: int) -> duckdb.DuckDBPyConnection:
    folder = Path(tempfile.gettempdir()) / f"sparqlive-duckdb-{os.getpid()}"
    return duckdb.connect(config={"temp_directory": str(folder), "threads": threads})


def _local_path(address: str) -> str:
    return url2pathname(address.removeprefix("file://"))


def _dataset(addresses: Sequence[str], columns: Sequence[str]) -> dataset.Dataset:
    """Opens files whose names DuckDB cannot take; pyarrow reads the columns and rows that it needs."""
    files, _ = file_system(addresses[0])
    paths = [file_system(address)[1] for address in addresses]
    known = {field.name: field for field in TERM_SCHEMA}
    schema = pa.schema([known.get(name) or pa.field(name, pa.int64()) for name in columns])
    return dataset.dataset(paths, schema, "parquet", files)


def _hashes(texts: pa.Array) -> pa.Array:
    return pa.array([None if text is None else hash_of(text) for text in texts.to_pylist()], pa.int64())


def _duckdb_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return duckdb.list_type(_duckdb_type(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return duckdb.struct_type({field.name: _duckdb_type(field.type) for field in fields})
    return _TYPES[kind]
