"""The sessions that commands open, and the changes that several of them apply."""

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
from sparqlive.rdf.changes import Batch, parse_changes, read_changes


def reading_session(store: Path, default_graph: DefaultGraph | None) -> sparqlive.Session:
    """A session for one command that changes nothing."""
    return reading(store, default_graph=default_graph_value(default_graph))


def writing_session(
    store: Path, default_graph: DefaultGraph | None, *, creates: bool = True, runs: str | None = None
) -> AbstractContextManager[sparqlive.Session]:
    """A session for one command that changes something: the store's sources are watched by run and serve."""
    graph = default_graph_value(default_graph)
    opened = partial(sparqlive.open, store, default_graph=graph, watch=False, runs=runs)
    return writing(store, opened, creates=creates)


def default_graph_value(default_graph: DefaultGraph | None) -> Any:
    return None if default_graph is None else default_graph.value


def apply_files(
    session: sparqlive.Session, files: Iterable[str], strategy: Strategy
) -> Iterator[tuple[str, Epoch, float]]:
    """Applies the batches of files; those that change nothing are left out."""
    for file in files:
        for batch in _batches(file):
            start = time.perf_counter()
            epoch = session.apply(insert=batch.insert, delete=batch.delete, strategy=strategy.value)
            if epoch.inserted or epoch.deleted:
                yield file, epoch, time.perf_counter() - start


def _batches(file: str) -> Iterator[Batch]:
    if file == "-":
        return parse_changes(sys.stdin.buffer, "standard-input.changes")
    return read_changes(file)
