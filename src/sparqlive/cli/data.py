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
    graph: Annotated[str | None, typer.Option(metavar="IRI", help="The graph that triples go into.")] = None,
    default_graph: Default = None,
    runs: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Where a new store has its runs, if not in its directory."),
    ] = None,
) -> None:
    """Load RDF documents, plain or compressed, as one epoch."""
    progress = Progress()
    with writing_session(store, default_graph, runs=runs) as session, progress.step("loading") as step:
        epoch = session.load(files, graph=graph)
        step.result = f"epoch {epoch.number}, {epoch.inserted:,} new quads, {len(session):,} in all"


def apply(
    store: NewStore,
    files: ChangeFiles,
    strategy: Annotated[
        Strategy, typer.Option(help="How the changes are carried to the views.")
    ] = Strategy.auto,
    default_graph: Default = None,
) -> None:
    """Apply batches of changes, an epoch each, and say what they changed."""
    progress = Progress()
    with writing_session(store, default_graph) as session:
        for source, epoch, seconds in apply_files(session, files, strategy):
            progress.epoch(epoch, source, seconds)


def update(
    store: NewStore,
    text: Annotated[
        str | None, typer.Argument(metavar="UPDATE", help="SPARQL Update text, or - for standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file with it, in its place.")] = None,
    strategy: Annotated[
        Strategy, typer.Option(help="How the changes are carried to the views.")
    ] = Strategy.auto,
    default_graph: Default = None,
) -> None:
    """Carry out a SPARQL Update request as one epoch, and say what it changed."""
    if (text is None) == (file is None):
        raise sparqlive.Error(
            "Give the update as text (- for standard input) or with --file, one of the two."
        )
    progress = Progress()
    given = read_text(file) if file is not None else sys.stdin.read() if text == "-" else str(text)
    with writing_session(store, default_graph) as session:
        start = time.perf_counter()
        epoch = session.update(given, strategy=strategy.value)
        progress.epoch(epoch, "update" if file is None else str(file), time.perf_counter() - start)
