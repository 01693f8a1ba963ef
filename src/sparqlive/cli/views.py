"""Commands for views and queries: `view`, `query`, `explain` and `watch`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import sparqlive
from sparqlive.cli import remote
from sparqlive.cli.arguments import (
    Agent,
    Default,
    DefaultGraph,
    Json,
    Output,
    QueryArgument,
    StoreOrAgent,
    Strategy,
    Token,
    WatchedStore,
    WrongUsage,
    check_epoch,
    query_text,
    refuse_private,
    store_or_agent,
)
from sparqlive.cli.output import asked_format, print_delta, print_json, say_empty, say_hint, write_result
from sparqlive.cli.sessions import apply_files, default_graph_value, reading_session, writing_session
from sparqlive.engine.deferred import Refresh, parse_refresh
from sparqlive.engine.register import check_view_name
from sparqlive.engine.results import Delta
from sparqlive.engine.view import View
from sparqlive.opening import reading, say
from sparqlive.pipeline.progress import Progress, solution_count


def view(
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
    store: StoreOrAgent = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing view that has a different query.")
    ] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the view.")] = False,
    refresh: Annotated[
        str,
        typer.Option(
            metavar="WHEN", help="When to update: immediate, manual, or a maximum delay in seconds."
        ),
    ] = "immediate",
    output: Output = None,
    default_graph: Default = None,
    agent: Agent = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """List views, or show, register or drop one.

    Registering a view creates the store if it is missing.

    Example: sparqlive view --store my.store cheap cheap.rq
    """
    store_or_agent(store, agent)
    if drop and (name is None or query is not None):
        raise WrongUsage("With --drop, name the view to drop, and no query.")
    if name is not None and query is None and "{" in name:
        raise WrongUsage("Give the view a name before its query: sparqlive view NAME QUERY")
    if query is None and (replace or refresh != "immediate"):
        flag = "--replace" if replace else "--refresh"
        raise WrongUsage(f"With {flag}, add the query: sparqlive view NAME QUERY {flag}.")
    if name is not None and drop:
        _drop(name, store, default_graph, agent, token)
        if json:
            print_json({"dropped": name})
        else:
            print(f"Dropped view {name}.")
    elif name is not None and query is not None:
        with _name_comes_first(name):
            text = query_text(query)
        lag = parse_refresh(refresh, "--refresh")
        check_view_name(name)
        waiting = Progress.on_standard_error().waiting(f"computing {name}")
        if agent is not None:
            with waiting:
                statistics = remote.register(agent, token, name, text, replace, refresh)
            _print_registered(name, statistics, json)
            return
        assert store is not None
        with writing_session(store, default_graph) as session:
            if json:
                with waiting:
                    registered = _register(session, name, text, replace, lag)
                _print_registered(name, registered.stats(), json)
            else:
                with Progress().step(f"computing {name}") as step:
                    registered = _register(session, name, text, replace, lag)
                    step.end_with(solution_count(len(registered)))
            say_hint(registered.hint)
    elif name is None:
        _list_views(store, default_graph, agent, token, json)
    elif agent is not None:
        remote.show_view(agent, token, name, asked_format(json, output))
    else:
        assert store is not None
        with reading_session(store, default_graph) as session:
            with _name_comes_first(name):
                shown = session.views[name]
            write_result(shown, asked_format(json, output))


@contextmanager
def _name_comes_first(name: str) -> Iterator[None]:
    """Adds a hint to an error where the name of a view is that of a file."""
    try:
        yield
    except sparqlive.Error as error:
        if not Path(name).is_file():
            raise
        raise sparqlive.Error(
            f"{error} {name} is a file. To register the query in it, give the view a name: "
            f"sparqlive view NAME {name}"
        ) from error


def _drop(
    name: str, store: Path | None, default_graph: DefaultGraph | None, agent: str | None, token: str | None
) -> None:
    if agent is not None:
        remote.drop(agent, token, name)
        return
    assert store is not None
    with writing_session(store, default_graph, creates=False) as session:
        session.drop(name)


def _print_registered(name: str, statistics: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"name": name, **statistics})
    else:
        print(f"computing {name}: {_rows(statistics)}")


def _register(session: sparqlive.Session, name: str, text: str, replace: bool, refresh: Refresh) -> View:
    try:
        return session.view(name, text, replace=replace, refresh=refresh)
    except sparqlive.ViewExists as error:
        raise sparqlive.ViewExists(
            f"View {name!r} already exists with a different query or refresh setting. Use --replace to "
            f"replace it, or choose another name."
        ) from error


def query(
    query: QueryArgument,
    store: StoreOrAgent = None,
    output: Output = None,
    default_graph: Default = None,
    agent: Agent = None,
    token: Token = None,
    json: Annotated[bool, typer.Option("--json", help="Same as --format json; a graph is JSON-LD.")] = False,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Let SERVICE reach non-public addresses.")
    ] = False,
) -> None:
    """Run a query once and print its result.

    Example: sparqlive query --store my.store 'SELECT * { ?s ?p ?o } LIMIT 10'
    """
    store_or_agent(store, agent)
    if query.isidentifier() and not Path(query).exists():
        raise WrongUsage(
            f"{query} is not a query. To show the view of that name, use sparqlive view {query}."
        )
    text, chosen = query_text(query), asked_format(json, output)
    if agent is not None:
        refuse_private(allow_private)
        remote.query(agent, token, text, chosen)
        return
    assert store is not None
    with reading_session(store, default_graph) as session:
        with Progress.on_standard_error().waiting("querying"):
            answer = session.query(text, allow_private=allow_private)
        write_result(answer, chosen)


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the view.")],
    store: StoreOrAgent = None,
    default_graph: Default = None,
    agent: Agent = None,
    token: Token = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as a tree in JSON.")] = False,
) -> None:
    """Print a view's plan, its delta rules, and what it stores.

    Example: sparqlive explain --store my.store cheap
    """
    store_or_agent(store, agent)
    if agent is not None:
        print(remote.explain(agent, token, name, json))
        return
    assert store is not None
    with reading_session(store, default_graph) as session:
        explained = session.views[name]
        if json:
            print_json({"epoch": explained.epoch, **asdict(explained.explained())})
        else:
            print(explained.explain())


def watch(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the view, or its address at an agent: http://…/views/NAME."
        ),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Change files to apply while watching, or - for standard input."),
    ] = None,
    store: WatchedStore = None,
    agent: Agent = None,
    token: Token = None,
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

    Example: sparqlive watch http://127.0.0.1:8080/views/cheap
    """
    if agent is not None:
        name = remote.view_address(agent, name)
    if name.startswith(("http://", "https://")):
        reader = sparqlive.follow(name, since=since, token=token)
        reader.on_failure = lambda reason: say(f"{reader.url}: {reason} Trying again until you press Ctrl-C.")
        for followed in reader:
            print_delta(followed.variables, followed, json)
        return
    if store is None:
        raise sparqlive.Error(
            f"{name} is not an address. Use --store to name the view's store, or --agent to name an agent."
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
        say_hint(watched.hint)
        for _, epoch, _ in apply_files(session, files or (), Strategy.auto):
            changed: Delta = epoch.deltas[name]
            if changed:
                print_delta(watched.variables, changed, json)


def _list_views(
    store: Path | None,
    default_graph: DefaultGraph | None,
    agent: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    found: Iterable[Mapping[str, Any]]
    if agent is not None:
        found = remote.views(agent, token)
    else:
        assert store is not None
        with reading_session(store, default_graph) as session:
            found = [
                {"name": name, "query": kept.text, **kept.stats()} for name, kept in session.views.items()
            ]
    if not found:
        say_empty("views", "register one", "view NAME QUERY", store, agent)
    for one in found:
        if as_json:
            print_json(one)
        else:
            print("\t".join([one["name"], _rows(one), f"epoch {one['epoch']}", _state(one)]))


def _rows(statistics: Mapping[str, Any]) -> str:
    rows: int = statistics["rows"]
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _state(statistics: Mapping[str, Any]) -> str:
    """Why a view failed, or how far it is behind with a delayed refresh."""
    unseen: int = statistics["unseen_changes"]
    behind = f"kept, {unseen:,} change{'' if unseen == 1 else 's'} not seen yet" if unseen else "kept"
    return str(statistics["failure"] or behind)
