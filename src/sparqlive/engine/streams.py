"""Streaming DataFrames that a session follows, with the folders that record their progress."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyoxigraph import NamedNode

from sparqlive.engine.carry import failure_of
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.frames import column_names
from sparqlive.errors import Error
from sparqlive.numbers import short_repr
from sparqlive.rdf.frames import FrameColumns, frame_columns, is_spark_frame, operation_column
from sparqlive.rdf.table_mapping import TableMapping

if TYPE_CHECKING:
    from sparqlive.bulk.backends.spark.follow import RunningStream

ApplyFrame = Callable[[Any, FrameColumns, tuple[str, int]], Epoch]


class Streams:
    """The streams of a session; `store` is the folder of its store, None for a session in memory."""

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._running: dict[str, RunningStream] = {}
        self._scratch = ExitStack()

    def follow(
        self,
        frame: Any,
        apply: ApplyFrame,
        *,
        name: str,
        checkpoint: str | os.PathLike[str] | None,
        once: bool,
        interval_seconds: float | None,
        op: str | None,
        order: str | None,
        mapping: TableMapping | None,
        graph: str | NamedNode | None,
        on_epoch: Callable[[Epoch], None] | None,
    ) -> RunningStream:
        """Starts to apply the micro-batches of a frame; see `Session.follow`."""
        if not is_spark_frame(frame):
            raise Error(f"follow needs a Spark streaming DataFrame, not {short_repr(frame)}.")
        from sparqlive.bulk.backends.spark.follow import follow_frame

        def apply_and_tell(rows: Any, meaning: FrameColumns, batch: tuple[str, int]) -> None:
            epoch = apply(rows, meaning, batch)
            if on_epoch is not None and (epoch.inserted or epoch.deleted):
                on_epoch(epoch)

        weight = None if op or operation_column(frame.columns, mapping) else 1
        names = column_names(frame, mapping, op, order)
        meaning = frame_columns(names, weight=weight, op=op, order=order, mapping=mapping, graph=graph)
        place = None if checkpoint is None else os.fspath(checkpoint)
        folder = self._folder(name)
        try:
            running = follow_frame(
                frame,
                meaning,
                apply_and_tell,
                folder,
                checkpoint=place,
                once=once,
                interval_seconds=interval_seconds,
            )
        except Error:
            raise
        except Exception as error:
            raise failure_of("spark", error) from error
        self._running[folder] = running
        return running

    def _folder(self, name: str) -> str:
        """The folder of a stream: in the store, where it lasts; for a session in memory, a temporary one."""
        if self._store is None:
            return self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="sparqlive-"))
        from sparqlive.store.names import ensure_folder
        from sparqlive.store.private import make_folder

        make_folder(self._store / "streams", self._store)
        if not name or name in (".", ".."):
            raise Error(f"Invalid stream name {name!r}. Pass another name.")
        folder = str(self._store.absolute() / "streams" / quote(name, safe=""))
        ensure_folder(Path(folder))
        running = self._running.get(folder)
        if running is not None:
            if running.query.isActive:
                raise Error(f"Stream {name!r} is already being followed. Stop it, or pass another name.")
            running.stop()  # what it still has open
        return folder

    def stop(self) -> None:
        for stream in self._running.values():
            stream.stop()
        self._running.clear()
        self._scratch.close()
