"""Opens sessions for commands, and applies change files."""

from __future__ import annotations

import glob
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sparqlive
from sparqlive.cli.arguments import DefaultGraph, Strategy, Syntax
from sparqlive.engine.epoch import Epoch
from sparqlive.opening import default_graph_of, reading, writing
from sparqlive.rdf.change_columns import EncodedBatch, TextBatch, read_batches
from sparqlive.rdf.changes import Batch, is_changes_name, parse_changes
from sparqlive.rdf.files import matching_files


def reading_session(store: Path, default_graph: DefaultGraph | None) -> sparqlive.Session:
    """Returns a session for a command that only reads."""
    return reading(store, default_graph=default_graph_value(default_graph))


def writing_session(
    store: Path, default_graph: DefaultGraph | None, *, creates: bool = True, runs: str | None = None
) -> AbstractContextManager[sparqlive.Session]:
    """Returns a session for a command that writes. It watches no sources: `run` and `serve` do that."""
    graph = default_graph_of(store, default_graph_value(default_graph))
    open_session = partial(sparqlive.open, store, default_graph=graph, watch=False, runs=runs)
    return writing(store, open_session, creates=creates)


def default_graph_value(default_graph: DefaultGraph | None) -> Any:
    return None if default_graph is None else default_graph.value


def apply_files(
    session: sparqlive.Session, files: Iterable[str], strategy: Strategy
) -> Iterator[tuple[str, Epoch, float]]:
    """Applies the batches of files, and yields the epochs that changed something."""
    for file in change_files(files):
        for batch in _batches(session, file):
            start = time.perf_counter()
            epoch = session.apply_batch(batch, strategy=strategy.value)
            if epoch.inserted or epoch.deleted:
                yield file, epoch, time.perf_counter() - start


def _batches(session: sparqlive.Session, file: str) -> Iterator[Batch | EncodedBatch | TextBatch]:
    if file == "-":
        return parse_changes(sys.stdin.buffer, "standard-input.changes")
    exceptions, tuning = session.dictionary.exceptions, session.tuning
    return read_batches(file, exceptions, text_bytes=session.text_bytes, tuning=tuning)


def change_files(names: Iterable[str]) -> Iterator[str]:
    """Yields the files that names stand for: files, the change files of folders, and globs, in order."""
    for name in names:
        path = Path(name)
        if path.is_dir():
            found = sorted(str(file) for file in path.iterdir() if is_changes_name(file.name))
        else:
            found = [name] if name == "-" or path.exists() else sorted(glob.glob(name, recursive=True))
        if not found and path.is_dir():
            raise sparqlive.Error(f"The folder {name} has no change files (.changes, .rdfp).")
        if not found:
            raise sparqlive.Error(f"There is no file {name}, and no file matches it as a pattern.")
        yield from found


@contextmanager
def documents(names: Sequence[str], syntax: Syntax) -> Iterator[list[str]]:
    """The paths to load; standard input is copied to a temporary file, so that it is read like any other."""
    for name in names:
        if Path(name).is_dir() and not matching_files(name):
            raise sparqlive.Error(f"The folder {name} has no RDF documents.")
    if "-" not in names:
        yield list(names)
        return
    with tempfile.TemporaryDirectory(prefix="sparqlive-") as folder:
        copy = Path(folder) / f"standard-input.{syntax.value}"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield [str(copy) if name == "-" else name for name in names]
        except sparqlive.Error as error:
            raise type(error)(str(error).replace(str(copy), "standard input")) from error
