"""Opens sessions for commands, and applies change files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import sparqlive
from sparqlive.cli.arguments import DefaultGraph, Strategy
from sparqlive.engine.view import Epoch
from sparqlive.opening import reading, writing
from sparqlive.rdf.change_columns import EncodedBatch, read_batches
from sparqlive.rdf.changes import Batch, parse_changes


def reading_session(store: Path, default_graph: DefaultGraph | None) -> sparqlive.Session:
    """Returns a session for a command that only reads."""
    return reading(store, default_graph=default_graph_value(default_graph))


def writing_session(
    store: Path, default_graph: DefaultGraph | None, *, creates: bool = True, runs: str | None = None
) -> AbstractContextManager[sparqlive.Session]:
    """Returns a session for a command that writes. It watches no sources: `run` and `serve` do that."""
    graph = default_graph_value(default_graph)
    open_session = partial(sparqlive.open, store, default_graph=graph, watch=False, runs=runs)
    return writing(store, open_session, creates=creates)


def default_graph_value(default_graph: DefaultGraph | None) -> Any:
    return None if default_graph is None else default_graph.value


def apply_files(
    session: sparqlive.Session, files: Iterable[str], strategy: Strategy
) -> Iterator[tuple[str, Epoch, float]]:
    """Applies the batches of files, and yields the epochs that changed something."""
    for file in files:
        for batch in _batches(session, file):
            start = time.perf_counter()
            epoch = session.apply_batch(batch, strategy=strategy.value)
            if epoch.inserted or epoch.deleted:
                yield file, epoch, time.perf_counter() - start


def _batches(session: sparqlive.Session, file: str) -> Iterator[Batch | EncodedBatch]:
    if file == "-":
        return parse_changes(sys.stdin.buffer, "standard-input.changes")
    return read_batches(file, session.dictionary.exceptions)
