"""Commands for the sources of a store: `source add`, `list` and `remove`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from json import dumps, loads
from typing import Annotated, Any

import typer

import sparqlive
from sparqlive.cli import remote
from sparqlive.cli.arguments import (
    Agent,
    Default,
    Json,
    NewStoreOrAgent,
    StoreOrAgent,
    Token,
    query_text,
    store_or_agent,
)
from sparqlive.cli.output import print_json, say_empty
from sparqlive.cli.sessions import writing_session
from sparqlive.opening import ensure_store, say
from sparqlive.pipeline.progress import duration
from sparqlive.rdf.files import is_address, matching_files

commands = typer.Typer(
    help="Add, list and remove sources. sparqlive run and sparqlive serve watch them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("add")
def add_source(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind of source, such as file, web, endpoint or ldes.")
    ],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Path or URL.")],
    store: NewStoreOrAgent = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the source; by default its address.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Option of the kind, with a JSON value; see docs/reference/sources.md."
        ),
    ] = None,
    default_graph: Default = None,
    agent: Agent = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Add a source.

    Example: sparqlive source add --store my.store file data.ttl
    """
    store_or_agent(store, agent)
    options = dict(_source_option(text) for text in option or ())
    if agent is not None:
        given = {"kind": kind, "address": address, "options": options} | ({"name": name} if name else {})
        status = remote.add_source(agent, token, given)
        then = "The agent watches it."
    else:
        assert store is not None
        with writing_session(store, default_graph) as session:
            status = session.add_source(kind, address, name, options).status()
        then = f"To watch it, run: sparqlive serve --store {store}"
    if kind == "file" and agent is None and not is_address(address) and not matching_files(address):
        say(f"File {address} does not exist yet. It is read as soon as it does.")
    if json:
        print_json(status)
    else:
        print(f"Added source {status['name']} of kind {status['kind']}. {then}")


@commands.command("list")
def list_sources(
    store: StoreOrAgent = None, agent: Agent = None, token: Token = None, json: Json = False
) -> None:
    """List the sources and their status.

    A line has the name, kind, number of quads, last check, version, notifications and error. Works while
    another process has the store open.
    """
    store_or_agent(store, agent)
    if agent is not None:
        found = remote.sources(agent, token)
    else:
        assert store is not None
        ensure_store(store)
        with sparqlive.open(store, read_only=True) as session:
            found = [source.status() for source in session.sources.values()]
    if not found:
        say_empty("sources", "add one", "source add KIND ADDRESS", store, agent)
    for status in found:
        if json:
            print_json(status)
        else:
            print(_status_line(status))


def _status_line(status: Mapping[str, Any]) -> str:
    lag = status["lag_seconds"]
    seen = "not seen yet" if lag is None else f"seen {duration(lag)} ago"
    version = dumps(status["version"]) if status["version"] else "no version"
    columns = [status["name"], status["kind"], f"{status['quads']:,} quads", seen, version]
    if status["notifications"] is not None:
        columns.append(f"notifications: {status['notifications']}")
    if status["error"] is not None:
        since = datetime.fromtimestamp(status["stale_since"]).astimezone().isoformat(" ", "seconds")
        columns.append(f"stale since {since}: {status['error']}")
    return "\t".join(columns)


@commands.command("remove")
def remove_source(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the source.")],
    store: StoreOrAgent = None,
    default_graph: Default = None,
    agent: Agent = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Remove a source, and the quads that no other source asserts."""
    store_or_agent(store, agent)
    if agent is not None:
        remote.remove_source(agent, token, name)
    else:
        assert store is not None
        with writing_session(store, default_graph, creates=False) as session:
            source = session.sources.get(name)
            if source is None:
                known = ", ".join(session.sources) or "none"
                raise sparqlive.Error(f"There is no source named {name!r}. Known sources: {known}.")
            source.remove()
    if json:
        print_json({"removed": name})
    else:
        print(f"Removed source {name}.")


def _source_option(text: str) -> tuple[str, Any]:
    """Parses NAME=VALUE: the value is JSON, or else plain text; a query may be in a file."""
    name, sign, value = text.partition("=")
    if not sign:
        raise sparqlive.Error(f"--option takes NAME=VALUE, not {text!r}.")
    if name == "query":
        return name, query_text(value)
    try:
        return name, loads(value)
    except (ValueError, RecursionError):
        return name, value
