"""Commands on views and queries: view, query, explain, watch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import sparqlive
from sparqlive.cli.arguments import Default, Output, QueryArgument, Store, Strategy, check_epoch, query_text
from sparqlive.cli.output import print_delta, write_result
from sparqlive.cli.sessions import apply_files, default_graph_value, reading_session, writing_session
from sparqlive.engine.deferred import check_refresh
from sparqlive.engine.register import check_view_name
from sparqlive.engine.view import Delta, View
from sparqlive.opening import reading
from sparqlive.pipeline.progress import Progress


def view(
    store: Store,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The view; none: lists them.")] = None,
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="Registers it: SPARQL text, a file with it, or -."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a view with another query.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Forget the view.")] = False,
    refresh: Annotated[
        str, typer.Option(help="immediate, manual, or seconds within which changes may be gathered.")
    ] = "immediate",
    output: Output = None,
    default_graph: Default = None,
) -> None:
    """List views, show one, register one or drop one.

    Registering creates the store if it is missing.
    """
    if name is not None and drop:
        with writing_session(store, default_graph, creates=False) as session:
            session.drop(name)
    elif name is not None and query is not None:
        text, lag = query_text(query), _lag(refresh)
        check_view_name(name)
        with writing_session(store, default_graph) as session, Progress().step(f"computing {name}") as step:
            made = session.view(name, text, replace=replace, refresh=lag)
            step.result = f"{len(made):,} solutions"
    else:
        with reading_session(store, default_graph) as session:
            if name is None:
                _list_views(session.views)
            else:
                write_result(session.views[name], output)


def query(store: Store, query: QueryArgument, output: Output = None, default_graph: Default = None) -> None:
    """Evaluate a query once."""
    with reading_session(store, default_graph) as session:
        write_result(session.query(query_text(query)), output)


def explain(
    store: Store,
    name: Annotated[str, typer.Argument(help="The view.")],
    default_graph: Default = None,
) -> None:
    """Show a view's plan, its delta rules, and what it stores."""
    with reading_session(store, default_graph) as session:
        print(session.views[name].explain())


def watch(
    name: Annotated[
        str, typer.Argument(help="The view; of a running agent its address, http://…/views/NAME.")
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Changes to apply while watching; - for standard input."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="The store's directory, for a view's name.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="SPARQLIVE_TOKEN", help="The token for an agent that asks for one.")
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            callback=check_epoch, metavar="EPOCH", help="Start after this epoch, not with the content."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON an epoch.")] = False,
    default_graph: Default = None,
) -> None:
    """Print a view's content, then its changes while changes are applied.

    A view of an agent is followed until it is interrupted. One process at a time writes a store: for its
    views, changes come from files or standard input. To watch a running pipeline, use run --show.
    """
    if name.startswith(("http://", "https://")):
        for followed in sparqlive.follow(name, since=since, token=token):
            print_delta(followed.variables, followed, json)
        return
    if store is None:
        raise sparqlive.Error("Give the store of the view with --store, or the view's address at an agent.")
    opened = (
        writing_session(store, default_graph, creates=False)
        if files
        else reading(store, watched=name, default_graph=default_graph_value(default_graph))
    )
    with opened as session:
        watched = session.views[name]
        for delta in watched.changes(since=-1 if since is None else since):
            print_delta(watched.variables, delta, json)
        for _, epoch, _ in apply_files(session, files or (), Strategy.auto):
            changed: Delta = epoch.deltas[name]
            if changed:
                print_delta(watched.variables, changed, json)


def _lag(given: str) -> Any:
    """The refresh setting that a flag gives."""
    refresh: str | float = given
    with suppress(ValueError):
        refresh = float(given)
    check_refresh(refresh, "--refresh")
    return refresh


def _list_views(views: Mapping[str, View]) -> None:
    for name, kept in views.items():
        stats = kept.stats()
        print(f"{name}\t{stats['rows']:,} rows\tepoch {stats['last_epoch']}\t{stats['failure'] or 'kept'}")
