"""Commands for views and queries: `view`, `query`, `explain` and `watch`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

import sparqlive
from sparqlive.cli.arguments import Default, Output, QueryArgument, Store, Strategy, check_epoch, query_text
from sparqlive.cli.output import print_delta, write_result
from sparqlive.cli.sessions import apply_files, default_graph_value, reading_session, writing_session
from sparqlive.engine.deferred import Refresh, parse_refresh
from sparqlive.engine.register import check_view_name
from sparqlive.engine.view import Delta, View
from sparqlive.opening import reading
from sparqlive.pipeline.progress import Progress


def view(
    store: Store,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the view; omit it to list all.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY",
            help="Register this query: SPARQL query, file with a query, or - for standard input.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing view that has a different query.")
    ] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the view.")] = False,
    refresh: Annotated[
        str, typer.Option(help="When to update: immediate, manual, or a maximum delay in seconds.")
    ] = "immediate",
    output: Output = None,
    default_graph: Default = None,
) -> None:
    """List views, or show, register or drop one.

    Registering a view creates the store if it is missing.
    """
    if name is not None and drop:
        with writing_session(store, default_graph, creates=False) as session:
            session.drop(name)
    elif name is not None and query is not None:
        text, lag = query_text(query), parse_refresh(refresh, "--refresh")
        check_view_name(name)
        with writing_session(store, default_graph) as session, Progress().step(f"computing {name}") as step:
            step.end_with(f"{len(_register(session, name, text, replace, lag)):,} solutions")
    else:
        with reading_session(store, default_graph) as session:
            if name is None:
                _list_views(session.views)
            else:
                write_result(session.views[name], output)


def _register(session: sparqlive.Session, name: str, text: str, replace: bool, refresh: Refresh) -> View:
    try:
        return session.view(name, text, replace=replace, refresh=refresh)
    except sparqlive.ViewExists as error:
        raise sparqlive.ViewExists(
            f"View {name!r} already exists with a different query or refresh setting. Use --replace to "
            f"replace it, or choose another name."
        ) from error


def query(store: Store, query: QueryArgument, output: Output = None, default_graph: Default = None) -> None:
    """Run a query once and print its result."""
    with reading_session(store, default_graph) as session:
        write_result(session.query(query_text(query)), output)


def explain(
    store: Store,
    name: Annotated[str, typer.Argument(help="Name of the view.")],
    default_graph: Default = None,
) -> None:
    """Print a view's plan, its delta rules, and what it stores."""
    with reading_session(store, default_graph) as session:
        print(session.views[name].explain())


def watch(
    name: Annotated[
        str, typer.Argument(help="Name of the view, or its address at an agent: http://…/views/NAME.")
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Change files to apply while watching, or - for standard input."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="DIR", help="Store directory, if NAME is not an address."),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="SPARQLIVE_TOKEN", help="Token, if the agent requires one.")
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            callback=check_epoch,
            metavar="EPOCH",
            help="Print only changes after this epoch, not the content first.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per epoch.")] = False,
    default_graph: Default = None,
) -> None:
    """Print a view's content, then its changes.

    With the address of a view at an agent, watches until you interrupt it. With a store, applies the change
    files and prints what they change in the view, because only one process at a time can write to a store.
    To watch a running pipeline, use sparqlive run --show.
    """
    if name.startswith(("http://", "https://")):
        for followed in sparqlive.follow(name, since=since, token=token):
            print_delta(followed.variables, followed, json)
        return
    if store is None:
        raise sparqlive.Error(
            f"{name} is not an address. Use --store to name the view's store, or pass the view's address at "
            f"an agent (http://…/views/{name})."
        )
    opening = (
        writing_session(store, default_graph, creates=False)
        if files
        else reading(store, watched=name, default_graph=default_graph_value(default_graph))
    )
    with opening as session:
        watched = session.views[name]
        for delta in watched.changes(since=-1 if since is None else since):
            print_delta(watched.variables, delta, json)
        for _, epoch, _ in apply_files(session, files or (), Strategy.auto):
            changed: Delta = epoch.deltas[name]
            if changed:
                print_delta(watched.variables, changed, json)


def _list_views(views: Mapping[str, View]) -> None:
    for name, kept in views.items():
        stats = kept.stats()
        print(f"{name}\t{stats['rows']:,} rows\tepoch {stats['last_epoch']}\t{stats['failure'] or 'kept'}")
