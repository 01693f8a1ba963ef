"""Sinks, which receive the changes of a view. One file per kind.

A sink knows the last epoch it wrote, and writes an epoch whole or not at all. After a failure it gets the
deltas it missed from the view, or the whole content, so every epoch counts exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from sparqlive.engine.results import Answer, Delta, TermRow
from sparqlive.engine.view import View
from sparqlive.errors import Error
from sparqlive.pipeline.sinks.delta_lake import DeltaLakeSink
from sparqlive.pipeline.sinks.json_lines import JsonLinesSink
from sparqlive.pipeline.sinks.kafka import KafkaSink
from sparqlive.pipeline.sinks.parquet import ParquetSink
from sparqlive.pipeline.sinks.rdf_patch import RdfPatchSink


class Sink(Protocol):
    """Receives the deltas of one view, in the order of their epochs."""

    def last_epoch(self) -> int | None:
        """Returns the last epoch in the sink; None if it is empty."""

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        """Writes a delta; with `reset`, `weights` is the whole content and replaces everything before."""

    def finish(self, epoch: int, content: Callable[[], Answer]) -> None:
        """Called when the job ends, at an epoch."""


@runtime_checkable
class ContentSink(Sink, Protocol):
    """A sink that also takes whole contents."""

    @property
    def takes_changes(self) -> bool:
        """Whether it gets the content only in place of a reset, and changes otherwise."""

    def write_content(self, content: Answer) -> None:
        """Writes the content of an epoch, which replaces everything before."""


class SinkKind(Protocol):
    """The class of a sink: opened at a path or an address, for the variables of a view."""

    @property
    def forms(self) -> Sequence[str]:
        """The query forms of the views that it accepts."""

    @property
    def scheme(self) -> str | None:
        """The scheme of its addresses, if it is not written to a local path."""

    def __call__(self, path: str | Path, variables: Sequence[str]) -> Sink: ...


KINDS: Mapping[str, SinkKind] = {
    "delta-lake": DeltaLakeSink,
    "json-lines": JsonLinesSink,
    "kafka": KafkaSink,
    "parquet": ParquetSink,
    "rdf-patch": RdfPatchSink,
}


TABLES: Mapping[str, Callable[..., Sink]] = {"delta-lake": DeltaLakeSink, "parquet": ParquetSink}
"""The kinds that write tables, and have the option `weights`."""


def opened(kind: str, path: str | Path, variables: Sequence[str], weights: bool = False) -> Sink:
    """Opens a sink."""
    try:
        return _opened(kind, path, variables, weights)
    except OSError as error:
        raise Error(
            f"A sink of kind {kind!r} cannot be written to {path}: {error.strerror}. Set another path."
        ) from error


def _opened(kind: str, path: str | Path, variables: Sequence[str], weights: bool) -> Sink:
    return TABLES[kind](path, variables, weights) if kind in TABLES else KINDS[kind](path, variables)


def catch_up(sink: Sink, view: View, name: str) -> None:
    """Writes the epochs of a view that the sink misses."""
    last = sink.last_epoch()
    if last is not None and last > view.epoch:
        raise Error(
            f"Sink {name!r} holds epoch {last}, but the view is only at epoch {view.epoch}: the sink was "
            f"written from another store. Remove the sink's files, or set another path."
        )
    # Changes since epoch -1 are the whole content, as a reset at its epoch.
    for delta in view.changes(since=-1 if last is None else last):
        hand_on(sink, view, delta)


def hand_on(sink: Sink, view: View, delta: Delta) -> None:
    """Writes one change of a view, or its content, which may be that of a later epoch."""
    if not isinstance(sink, ContentSink):
        sink.write(delta.epoch, delta.weights(), delta.reset)
        return
    last = sink.last_epoch()
    if last is not None and delta.epoch <= last:
        return
    if sink.takes_changes and not delta.reset:
        sink.write(delta.epoch, delta.weights(), reset=False)
    else:
        sink.write_content(view.now())
