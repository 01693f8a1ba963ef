"""Commands that change the quads of a store or an agent: load, apply, update."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sparqlive.cli import remote
from sparqlive.cli.arguments import (
    Agent,
    ChangeFiles,
    Default,
    Json,
    NewStoreOrAgent,
    Strategy,
    Syntax,
    Token,
    WrongUsage,
    read_text,
    refuse_private,
    store_or_agent,
    update_text,
)
from sparqlive.cli.output import epoch_report, new_quads, print_json
from sparqlive.cli.sessions import apply_files, documents, writing_session
from sparqlive.opening import say
from sparqlive.pipeline.progress import Progress
from sparqlive.rdf.changes import is_changes_name
from sparqlive.rdf.files import has_syntax


def load(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="RDF documents, folders and globs, or - for standard input."),
    ],
    store: NewStoreOrAgent = None,
    graph: Annotated[str | None, typer.Option(metavar="IRI", help="Graph to load triples into.")] = None,
    syntax: Annotated[Syntax, typer.Option(help="Syntax of standard input.")] = Syntax.nq,
    default_graph: Default = None,
    runs: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Where a new store keeps its runs, if not in its directory."),
    ] = None,
    agent: Agent = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Load RDF documents, plain or compressed, in one epoch.

    Example: sparqlive load --store my.store data.ttl
    """
    store_or_agent(store, agent)
    _reject_empty(files)
    for name in filter(is_changes_name, files):
        raise WrongUsage(f"{name} is a file of changes. To apply it, use sparqlive apply.")
    with documents(files, syntax) as paths:
        if agent is not None:
            remote.load(agent, token, paths, graph, json)
            return
        assert store is not None
        with writing_session(store, default_graph, runs=runs) as session:
            if json:
                with Progress.on_standard_error().waiting("loading"):
                    epoch = session.load(paths, graph=graph)
                print_json({**epoch_report(epoch), "quads": len(session)})
                return
            with Progress().step("loading") as step:
                epoch = session.load(paths, graph=graph)
                step.end_with(f"epoch {epoch.number}, {new_quads(epoch.inserted)}, {len(session):,} in all")


def apply(
    files: ChangeFiles,
    store: NewStoreOrAgent = None,
    strategy: Annotated[Strategy, typer.Option(help="How to update the views.")] = Strategy.auto,
    default_graph: Default = None,
    agent: Agent = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Apply change files, one epoch per batch; print what changed.

    Example: sparqlive apply --store my.store monday.changes
    """
    store_or_agent(store, agent)
    _reject_empty(files)
    for name in filter(has_syntax, files):
        raise WrongUsage(f"{name} is an RDF document. To load it, use sparqlive load.")
    if agent is not None:
        remote.apply(agent, token, files, json)
        return
    assert store is not None
    progress = Progress()
    changed = False
    with writing_session(store, default_graph) as session:
        for source, epoch, seconds in apply_files(session, files, strategy):
            changed = True
            if json:
                print_json(epoch_report(epoch, source, seconds))
            else:
                progress.epoch(epoch, source, seconds)
    if not changed:
        say("Nothing changed.")


def _reject_empty(files: Sequence[str]) -> None:
    """Rejects an empty name, often that of an unset variable: it would stand for the current folder."""
    if "" in files:
        raise WrongUsage("The name of a file is empty.")


def update(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="UPDATE", help="SPARQL Update request, file with one, or - for standard input."
        ),
    ] = None,
    store: NewStoreOrAgent = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the request from this file instead.")
    ] = None,
    strategy: Annotated[Strategy, typer.Option(help="How to update the views.")] = Strategy.auto,
    default_graph: Default = None,
    agent: Agent = None,
    token: Token = None,
    json: Json = False,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Let LOAD reach non-public addresses.")
    ] = False,
) -> None:
    """Run a SPARQL Update request in one epoch; print what changed.

    Example: sparqlive update --store my.store 'INSERT DATA { <urn:tea> <urn:price> 4 }'
    """
    store_or_agent(store, agent)
    if (text is None) == (file is None):
        raise WrongUsage(
            "Pass the update either as UPDATE (a request, a file, or - for standard input) or with --file."
        )
    request = read_text(file) if file is not None else update_text(str(text))
    source = "update" if file is None else str(file)
    if agent is not None:
        refuse_private(allow_private)
        remote.update(agent, token, request, source, json)
        return
    assert store is not None
    with writing_session(store, default_graph) as session:
        start = time.perf_counter()
        epoch = session.update(request, strategy=strategy.value, allow_private=allow_private)
        seconds = time.perf_counter() - start
        if json:
            print_json(epoch_report(epoch, source, seconds))
        else:
            Progress().epoch(epoch, source, seconds)
