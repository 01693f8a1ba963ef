"""Deltas and snapshots as Parquet files, named by their epoch.

`deltas/<epoch>.parquet` holds the inserted and deleted rows: typed columns and `_weight`.
`snapshots/<epoch>.parquet` holds the whole content: typed columns, a row per solution in the order of ORDER
BY. Types are those of a file's values. With `weights`, both have one text column per variable (N-Triples
syntax, null where unbound) and `_weight`, so that the newest snapshot plus the deltas with a higher number is
the content. A snapshot is written at the start, after a gap, and when the job ends. Invariant: files are
complete: each is written under another name, synced, and then renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from sparqlive.engine.results import FORMS, Answer, TermRow
from sparqlive.sparql.arrow import table, typed_table
from sparqlive.sparql.column_names import WEIGHT, check_column_names
from sparqlive.store.place import sync


class ParquetSink:
    forms: ClassVar = FORMS
    takes_changes: ClassVar = True
    scheme: ClassVar[str | None] = None

    def __init__(self, path: str | Path, variables: Sequence[str], weights: bool = False) -> None:
        check_column_names(variables, WEIGHT)
        self._weights = weights
        path = Path(path)
        self._variables = variables
        self._deltas, self._snapshots = path / "deltas", path / "snapshots"
        for folder in (self._deltas, self._snapshots):
            folder.mkdir(parents=True, exist_ok=True)

    def last_epoch(self) -> int | None:
        return max((*_epochs(self._deltas), *_epochs(self._snapshots)), default=None)

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        rows = (table if self._weights else typed_table)(self._variables, weights)
        self._write(self._snapshots if reset else self._deltas, epoch, rows)

    def write_content(self, content: Answer) -> None:
        found = table(self._variables, content.weights()) if self._weights else content.to_arrow()
        self._write(self._snapshots, content.epoch, found)

    def finish(self, epoch: int, content: Callable[[], Answer]) -> None:
        if epoch not in _epochs(self._snapshots):
            self.write_content(content())

    def _write(self, folder: Path, epoch: int, rows: pa.Table) -> None:
        path = folder / f"{epoch:012d}.parquet"
        beside = path.with_suffix(".tmp")
        pq.write_table(rows, beside, compression="zstd")
        sync(beside)
        beside.rename(path)
        sync(path)


def _epochs(folder: Path) -> list[int]:
    return [int(file.stem) for file in folder.glob("*.parquet") if file.stem.isdecimal()]
