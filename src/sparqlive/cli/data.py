"""Commands that change the quads of a store: load, apply, update."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

import sparqlive
from sparqlive.cli.arguments import ChangeFiles, Default, NewStore, Strategy, read_text
from sparqlive.cli.sessions import apply_files, writing_session
from sparqlive.pipeline.progress import Progress


def load(
    store: NewStore,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="RDF documents, folders and globs.")],
    graph: Annotated[str | None, typer.Option(metavar="IRI", help="Graph to load triples into.")] = None,
    default_graph: Default = None,
    runs: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Where a new store keeps its runs, if not in its directory."),
    ] = None,
) -> None:
    """Load RDF documents, plain or compressed, in one epoch."""
    progress = Progress()
    with writing_session(store, default_graph, runs=runs) as session, progress.step("loading") as step:
        epoch = session.load(files, graph=graph)
        step.end_with(f"epoch {epoch.number}, {epoch.inserted:,} new quads, {len(session):,} in all")


def apply(
    store: NewStore,
    files: ChangeFiles,
    strategy: Annotated[Strategy, typer.Option(help="How to update the views.")] = Strategy.auto,
    default_graph: Default = None,
) -> None:
    """Apply change files, one epoch per batch, and print what each epoch changed."""
    progress = Progress()
    with writing_session(store, default_graph) as session:
        for source, epoch, seconds in apply_files(session, files, strategy):
            progress.epoch(epoch, source, seconds)


def update(
    store: NewStore,
    text: Annotated[
        str | None, typer.Argument(metavar="UPDATE", help="SPARQL Update request, or - for standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the request from this file instead.")
    ] = None,
    strategy: Annotated[Strategy, typer.Option(help="How to update the views.")] = Strategy.auto,
    default_graph: Default = None,
) -> None:
    """Run a SPARQL Update request in one epoch, and print what it changed."""
    if (text is None) == (file is None):
        raise sparqlive.Error(
            "Pass the update either as UPDATE (- for standard input) or with --file, not both."
        )
    progress = Progress()
    request = read_text(file) if file is not None else sys.stdin.read() if text == "-" else str(text)
    with writing_session(store, default_graph) as session:
        start = time.perf_counter()
        epoch = session.update(request, strategy=strategy.value)
        progress.epoch(epoch, "update" if file is None else str(file), time.perf_counter() - start)
