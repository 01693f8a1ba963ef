"""Deltas and snapshots as Parquet files, named by their epoch.

`deltas/<epoch>.parquet` holds the inserted and deleted rows, `snapshots/<epoch>.parquet` the whole content;
both have one text column per variable (N-Triples syntax, null where unbound) and `_weight`. The content is
the newest snapshot plus the deltas with a higher number. A snapshot is written at the start, after a gap, and
when the job ends. Invariant: files are complete: each is written under another name, synced, and then
renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq

from sparqlive.engine.view import FORMS, TermRow
from sparqlive.sparql.arrow import table
from sparqlive.store.place import sync


class ParquetSink:
    forms: ClassVar = FORMS
    scheme: ClassVar[str | None] = None

    def __init__(self, path: str | Path, variables: Sequence[str]) -> None:
        path = Path(path)
        self._variables = variables
        self._deltas, self._snapshots = path / "deltas", path / "snapshots"
        for folder in (self._deltas, self._snapshots):
            folder.mkdir(parents=True, exist_ok=True)

    def last_epoch(self) -> int | None:
        return max((*_epochs(self._deltas), *_epochs(self._snapshots)), default=None)

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        self._write(self._snapshots if reset else self._deltas, epoch, weights)

    def finish(self, epoch: int, content: Callable[[], Mapping[TermRow, int]]) -> None:
        if epoch not in _epochs(self._snapshots):
            self._write(self._snapshots, epoch, content())

    def _write(self, folder: Path, epoch: int, weights: Mapping[TermRow, int]) -> None:
        path = folder / f"{epoch:012d}.parquet"
        beside = path.with_suffix(".tmp")
        pq.write_table(table(self._variables, weights), beside, compression="zstd")
        sync(beside)
        beside.rename(path)
        sync(path)


def _epochs(folder: Path) -> list[int]:
    return [int(file.stem) for file in folder.glob("*.parquet") if file.stem.isdecimal()]
