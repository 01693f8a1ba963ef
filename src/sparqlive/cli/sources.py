"""Commands for the sources of a store: `source add`, `list` and `remove`."""

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
    help="Add, list and remove sources. sparqlive run and sparqlive serve watch them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("add")
def add_source(
    store: NewStore,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind of source, such as file, web, endpoint or ldes.")
    ],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Path or URL.")],
    name: Annotated[str | None, typer.Option(help="Name of the source; by default its address.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Option of the kind, with a JSON value; see docs/SOURCES.md."
        ),
    ] = None,
    default_graph: Default = None,
) -> None:
    """Add a source."""
    options = dict(_source_option(text) for text in option or ())
    with writing_session(store, default_graph) as session:
        session.source(kind, address, name=name, **options)


@commands.command("list")
def list_sources(store: Store) -> None:
    """List the sources: kind, number of quads, last check, version, notifications and error.

    Works while another process has the store open.
    """
    ensure_store(store)
    with sparqlive.open(store, read_only=True) as session:
        for source in session.sources.values():
            status = source.status()
            lag = status["lag_seconds"]
            seen = "not seen yet" if lag is None else f"seen {duration(lag)} ago"
            version = json.dumps(status["version"]) if status["version"] else "no version"
            columns = [source.name, source.kind, f"{status['quads']:,} quads", seen, version]
            if status["notifications"] is not None:
                columns.append(f"notifications: {status['notifications']}")
            if status["error"] is not None:
                since = datetime.fromtimestamp(status["stale_since"]).astimezone().isoformat(" ", "seconds")
                columns.append(f"stale since {since}: {status['error']}")
            print("\t".join(columns))


@commands.command("remove")
def remove_source(
    store: Store,
    name: Annotated[str, typer.Argument(help="Name of the source.")],
    default_graph: Default = None,
) -> None:
    """Remove a source, and the quads that no other source asserts."""
    with writing_session(store, default_graph, creates=False) as session:
        source = session.sources.get(name)
        if source is None:
            known = ", ".join(session.sources) or "none"
            raise sparqlive.Error(f"There is no source named {name!r}. Known sources: {known}.")
        source.remove()


def _source_option(text: str) -> tuple[str, Any]:
    """Parses NAME=VALUE: the value is JSON, or else plain text; a query may be in a file."""
    name, sign, value = text.partition("=")
    if not sign:
        raise sparqlive.Error(f"--option takes NAME=VALUE, not {text!r}.")
    if name == "query":
        return name, query_text(value)
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
