"""Sinks: where the changes of a view go. One file a kind.

A sink knows the last epoch it wrote, and writes an epoch whole or not at all. After a failure it is brought
up to date from the view, by the deltas it missed or by the whole content, so every epoch counts in it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sparqlive.engine.view import TermRow, View
from sparqlive.errors import Error
from sparqlive.pipeline.sinks.delta_lake import DeltaLakeSink
from sparqlive.pipeline.sinks.json_lines import JsonLinesSink
from sparqlive.pipeline.sinks.parquet import ParquetSink
from sparqlive.pipeline.sinks.rdf_patch import RdfPatchSink


class Sink(Protocol):
    """Takes the deltas of one view, in the order of their epochs."""

    def last_epoch(self) -> int | None:
        """The last epoch that is in the sink; None if it holds nothing yet."""

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        """Adds a delta; with `reset`, `weights` are the whole content, in place of all before."""

    def finish(self, epoch: int, content: Callable[[], Mapping[TermRow, int]]) -> None:
        """The job ends at an epoch."""


class SinkKind(Protocol):
    """The class of a sink: opened at a path, for the variables of a view."""

    @property
    def forms(self) -> Sequence[str]:
        """The query forms whose views it takes."""

    def __call__(self, path: Path, variables: Sequence[str]) -> Sink: ...


KINDS: Mapping[str, SinkKind] = {
    "delta-lake": DeltaLakeSink,
    "json-lines": JsonLinesSink,
    "parquet": ParquetSink,
    "rdf-patch": RdfPatchSink,
}


def catch_up(sink: Sink, view: View, name: str) -> None:
    """Writes what the sink misses of a view."""
    last = sink.last_epoch()
    if last is not None and last > view.epoch:
        raise Error(
            f"The sink {name!r} holds epoch {last}, and the view is at epoch {view.epoch}: it was written "
            f"from another store. Remove it, or give another path."
        )
    # Before all epochs there was nothing: what comes then is the whole content, and the epoch it belongs to.
    for delta in view.changes(since=-1 if last is None else last):
        sink.write(delta.epoch, delta.weights(), delta.reset)
