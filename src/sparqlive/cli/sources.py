"""Commands on the sources of a store: source add, list, remove."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import typer

import sparqlive
from sparqlive.cli.arguments import Default, NewStore, Store, query_text
from sparqlive.cli.sessions import writing_session
from sparqlive.opening import ensure_store
from sparqlive.pipeline.progress import duration

commands = typer.Typer(
    help="Add, list and remove sources, which are watched while a pipeline runs on the store.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("add")
def add_source(
    store: NewStore,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Such as file, web, endpoint, ldes.")],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="A path, or an address on the Web.")],
    name: Annotated[str | None, typer.Option(help="Its name; else the address.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="An option of the kind, see docs/SOURCES.md; values as JSON."
        ),
    ] = None,
    default_graph: Default = None,
) -> None:
    """Add a source."""
    options = dict(_source_option(given) for given in option or ())
    with writing_session(store, default_graph) as session:
        session.source(kind, address, name=name, **options)


@commands.command("list")
def list_sources(store: Store) -> None:
    """List the sources: kind, number of quads, when each was seen, version, notifications, what went wrong.

    Also while another process runs on the store.
    """
    ensure_store(store)
    with sparqlive.open(store, read_only=True) as session:
        for source in session.sources.values():
            status = source.status()
            lag = status["lag_seconds"]
            seen = "not seen yet" if lag is None else f"seen {duration(lag)} ago"
            version = json.dumps(status["version"]) if status["version"] else "no version"
            words = [source.name, source.kind, f"{status['quads']:,} quads", seen, version]
            if status["notifications"] is not None:
                words.append(f"notifications: {status['notifications']}")
            if status["error"] is not None:
                since = datetime.fromtimestamp(status["stale_since"]).astimezone().isoformat(" ", "seconds")
                words.append(f"stale since {since}: {status['error']}")
            print("\t".join(words))


@commands.command("remove")
def remove_source(
    store: Store, name: Annotated[str, typer.Argument(help="The source.")], default_graph: Default = None
) -> None:
    """Remove a source; what no other source asserts leaves with it."""
    with writing_session(store, default_graph, creates=False) as session:
        source = session.sources.get(name)
        if source is None:
            known = ", ".join(session.sources) or "none"
            raise sparqlive.Error(f"There is no source {name!r}. The sources are: {known}.")
        source.remove()


def _source_option(given: str) -> tuple[str, Any]:
    """NAME=VALUE: a value of JSON, or text as it is; a query may stand in a file."""
    name, sign, value = given.partition("=")
    if not sign:
        raise sparqlive.Error(f"An option is NAME=VALUE, not {given!r}.")
    if name == "query":
        return name, query_text(value)
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
