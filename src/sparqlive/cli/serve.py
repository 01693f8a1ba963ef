"""The command serve: a store over HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import sparqlive
from sparqlive.cli.arguments import DefaultGraph, NewStore, check_count, check_port, check_seconds
from sparqlive.cli.sessions import default_graph_value
from sparqlive.opening import is_store, say_created
from sparqlive.store.locks import describe_writer


def serve(
    store: NewStore,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(callback=check_port, help="The port to listen at; 0: any that is free.")
    ] = 8080,
    default_graph: Annotated[
        DefaultGraph | None,
        typer.Option(help="A new store's default graph: the union of all graphs, or the unnamed one alone."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Speak TLS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key (PEM).")] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Sources and LOAD may fetch from non-public addresses.")
    ] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web pages of this origin may use the agent (CORS)."),
    ] = None,
    query_seconds: Annotated[
        float | None,
        typer.Option(callback=check_seconds, metavar="SECONDS", help="How long a one-off query may take."),
    ] = None,
    query_rows: Annotated[
        int | None,
        typer.Option(callback=check_count, metavar="ROWS", help="How many rows a one-off query may give."),
    ] = None,
    body_bytes: Annotated[
        int | None,
        typer.Option(callback=check_count, metavar="BYTES", help="How large a request's body may be."),
    ] = None,
    history_bytes: Annotated[
        int | None,
        typer.Option(callback=check_count, metavar="BYTES", help="How far behind a subscriber may be."),
    ] = None,
    progress_seconds: Annotated[
        float | None,
        typer.Option(
            callback=check_seconds, metavar="SECONDS", help="How often subscribers hear of quiet views."
        ),
    ] = None,
    temporary_seconds: Annotated[
        float | None,
        typer.Option(
            callback=check_seconds, metavar="SECONDS", help="How long an ad-hoc view is kept unread."
        ),
    ] = None,
    stop_seconds: Annotated[
        float | None,
        typer.Option(callback=check_seconds, metavar="SECONDS", help="How long stopping may take."),
    ] = None,
) -> None:
    """Serve a store over HTTP: SPARQL, views that are kept, subscriptions to them, sources.

    Its sources are watched. Listens on this machine alone unless tokens exist (sparqlive token create).
    """
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise sparqlive.Error(
            "Serving needs the extra packages of the agent: pip install 'sparqlive[agent]'."
        )
    from sparqlive.agent.logs import start_logging
    from sparqlive.agent.routes.health import Opening
    from sparqlive.agent.serve import Listening
    from sparqlive.agent.serve import serve as serve_store
    from sparqlive.agent.settings import Settings

    limits = {
        "query_seconds": query_seconds,
        "query_rows": query_rows,
        "body_bytes": body_bytes,
        "history_bytes": history_bytes,
        "progress_seconds": progress_seconds,
        "temporary_seconds": temporary_seconds,
        "stop_seconds": stop_seconds,
    }
    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    settings = Settings(allow_private=allow_private, origins=tuple(origin or ()), **given)
    at: list[str] = []

    def opened(opening: Opening) -> sparqlive.Session:
        is_new = not is_store(store)
        graph = DefaultGraph.union if default_graph is None and is_new else default_graph
        session = sparqlive.open(store, default_graph=default_graph_value(graph), progress=opening)
        if is_new:
            say_created(store)
        describe_writer(store, f"the agent at {at[0]}")
        return session

    def started(address: str) -> None:
        at.append(address)
        print(f"{store} is served at {address}", flush=True)

    start_logging()
    serve_store(store, opened, settings, Listening(host, port, tls_certificate, tls_key), started)
