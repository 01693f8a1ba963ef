"""Runs on disk: immutable sorted Parquet files, which Spark, DuckDB, pandas or Polars read as they are.

Owns the files. A quads file has columns s, p, o, g, sorted by p, g, s, o; a terms file id, term; any other
relation c0 … and w. Refuses to change a file. Invariant: a file is complete and synced before its name is
given to anybody; pages carry checksums, so that damage is an error and never other rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparqlive.errors import StoreFailed
from sparqlive.zset.run import Column

ROWS_A_FILE = 1_000_000
# What is read at once when a part of a file is wanted.
ROWS_A_GROUP = 131_072


def write_rows(path: Path, columns: dict[str, Column]) -> int:
    """Writes a sorted relation of integers; the bytes it takes."""
    table = pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})
    return _write(path, table)


def write_terms(path: Path, ids: Column, texts: Any) -> int:
    """Writes terms sorted by id."""
    order = np.argsort(ids, kind="stable")
    table = pa.table({"id": pa.array(ids[order], pa.int64()), "term": texts.take(pa.array(order))})
    return _write(path, table)


def _write(path: Path, table: pa.Table) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", row_group_size=ROWS_A_GROUP, write_page_checksum=True)
    sync(path)
    return path.stat().st_size


def read_columns(path: Path, names: Sequence[str], start: int = 0, stop: int | None = None) -> list[Column]:
    """The columns of a file as arrays, or a part of their rows."""
    with _Told(path):
        file = pq.ParquetFile(path, page_checksum_verification=True)
        try:
            if stop is None:
                table = file.read(columns=list(names))
                return [table.column(name).to_numpy() for name in names]
            groups, skipped = _groups(file, start, stop)
            table = file.read_row_groups(groups, columns=list(names)).slice(start - skipped, stop - start)
            return [table.column(name).to_numpy() for name in names]
        finally:
            file.close()


def _groups(file: Any, start: int, stop: int) -> tuple[list[int], int]:
    """The row groups that hold a range of rows, and how many rows are before them."""
    groups, row, skipped = [], 0, 0
    for number in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(number).num_rows
        if row + size <= start:
            skipped = row + size
        elif row < stop:
            groups.append(number)
        row += size
    return groups, skipped


def read_terms(path: Path) -> tuple[Column, Any]:
    """The ids of a terms file, sorted, and the texts as an Arrow array."""
    with _Told(path):
        table = pq.read_table(path, columns=["id", "term"], page_checksum_verification=True)
        return table.column("id").to_numpy(), _one(table.column("term"))


def _one(column: Any) -> Any:
    """A column's pieces as one array; of texts, beyond two gigabytes too."""
    return (
        pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in column.chunks])
        if column.num_chunks != 1
        else column.chunk(0)
    )


def check_file(path: Path, rows: int, size: int) -> None:
    """Reads a file, and raises if it is not there, or has not the size or the rows it was written with."""
    with _Told(path):
        if path.stat().st_size != size:
            raise OSError(f"it has {path.stat().st_size} bytes and was written with {size}")
        if rows != (found := len(pq.read_table(path, page_checksum_verification=True))):
            raise OSError(f"it has {found} rows and was written with {rows}")


class DamagedRun(StoreFailed):
    """A run is missing or damaged; `path` says which."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(
            f"The run {path} of the store is missing or damaged: {error}. `sparqlive check --repair` "
            f"computes views again from the quads; quads and terms must come from a copy of the store."
        )
        self.path = path


class _Told:
    """Errors of reading a file name it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException):
            raise DamagedRun(self._path, error) from error


def sync(path: Path) -> None:
    """Brings a file, and then the directory that names it, to the disk."""
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
