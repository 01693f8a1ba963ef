"""Runs on disk: immutable sorted Parquet files, which Spark, DuckDB, pandas or Polars read as they are.

Owns the files. A quads file has columns s, p, o, g; a terms file id, term; any other relation c0 … and w.
Refuses to change a file. Invariant: a file is complete and synced before its name is given to anybody.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparqlive.errors import Error
from sparqlive.zset.run import Column

ROWS_A_FILE = 1_000_000


def write_rows(path: Path, columns: dict[str, Column]) -> int:
    """Writes a sorted relation of integers; the bytes it takes."""
    table = pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})
    return _write(path, table)


def write_terms(path: Path, ids: Column, texts: Sequence[str]) -> int:
    """Writes terms sorted by id."""
    order = np.argsort(ids, kind="stable")
    sorted_texts = pa.array([texts[index] for index in order.tolist()], pa.string())
    return _write(path, pa.table({"id": pa.array(ids[order], pa.int64()), "term": sorted_texts}))


def _write(path: Path, table: pa.Table) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", row_group_size=ROWS_A_FILE)
    sync(path)
    return path.stat().st_size


def read_columns(path: Path, names: Sequence[str]) -> list[Column]:
    """The columns of a file as arrays."""
    table = _read(path, names)
    return [table.column(name).to_numpy() for name in names]


def read_terms(path: Path) -> tuple[Column, Any]:
    """The ids of a terms file, sorted, and the texts as an Arrow array."""
    table = _read(path, ("id", "term"))
    return table.column("id").to_numpy(), table.column("term").combine_chunks()


def _read(path: Path, names: Sequence[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=list(names), memory_map=True)
    except (OSError, pa.ArrowException) as error:
        raise Error(
            f"The run {path} of the store is missing or damaged: {error}. "
            f"Views can be computed again from the quads; quads must come from a copy."
        ) from error


def sync(path: Path) -> None:
    """Brings a file, and then the directory that names it, to the disk."""
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
