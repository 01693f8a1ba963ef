"""The command `serve`: serves a store over HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import sparqlive
from sparqlive.cli.arguments import Default, NewStore, check_count, check_port, check_seconds
from sparqlive.cli.sessions import default_graph_value
from sparqlive.engine.budget import memory_limit
from sparqlive.opening import default_graph_of, is_store, say_created
from sparqlive.store.locks import describe_writer


def serve(
    store: NewStore,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(callback=check_port, metavar="PORT", help="Port to listen on; 0 picks a free port."),
    ] = 8080,
    default_graph: Default = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve over TLS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the certificate (PEM).")
    ] = None,
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private",
            help="Let LOAD and SERVICE reach non-public addresses, and let clients add sources there.",
        ),
    ] = False,
    no_service: Annotated[
        bool, typer.Option("--no-service", help="Reject queries that ask other endpoints (SERVICE).")
    ] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Allow web pages of this origin to use the agent (CORS)."),
    ] = None,
    query_seconds: Annotated[
        float | None,
        typer.Option(callback=check_seconds, metavar="SECONDS", help="Time limit of a one-off query."),
    ] = None,
    query_rows: Annotated[
        int | None,
        typer.Option(callback=check_count, metavar="ROWS", help="Row limit of a one-off query."),
    ] = None,
    body_bytes: Annotated[
        int | None,
        typer.Option(callback=check_count, metavar="BYTES", help="Size limit of a request body."),
    ] = None,
    upload_bytes: Annotated[
        int | None,
        typer.Option(callback=check_count, metavar="BYTES", help="Size limit of an uploaded file of quads."),
    ] = None,
    history_bytes: Annotated[
        int | None,
        typer.Option(callback=check_count, metavar="BYTES", help="How far a subscriber may fall behind."),
    ] = None,
    progress_seconds: Annotated[
        float | None,
        typer.Option(
            callback=check_seconds,
            metavar="SECONDS",
            help="How often subscribers get a progress event while a view does not change.",
        ),
    ] = None,
    temporary_seconds: Annotated[
        float | None,
        typer.Option(
            callback=check_seconds,
            metavar="SECONDS",
            help="How long a temporary view is kept without a subscriber.",
        ),
    ] = None,
    stop_seconds: Annotated[
        float | None,
        typer.Option(callback=check_seconds, metavar="SECONDS", help="Time limit for stopping."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for computing views, such as 4GB; half of the machine's by default. "
            "Larger views are computed from files.",
        ),
    ] = None,
) -> None:
    """Serve a store over HTTP: SPARQL, views, subscriptions, a page.

    The agent watches the store's sources. It listens only on this machine unless the store has tokens
    (sparqlive token create). Ctrl-C ends it.

    Example: sparqlive serve --store my.store --port 8081
    """
    ensure_agent_installed("serve")
    from sparqlive.agent.logs import start_logging
    from sparqlive.agent.routes.health import Opening
    from sparqlive.agent.serve import Listening
    from sparqlive.agent.serve import serve as serve_store
    from sparqlive.agent.settings import Settings

    limits = {
        "query_seconds": query_seconds,
        "query_rows": query_rows,
        "body_bytes": body_bytes,
        "upload_bytes": upload_bytes,
        "history_bytes": history_bytes,
        "progress_seconds": progress_seconds,
        "temporary_seconds": temporary_seconds,
        "stop_seconds": stop_seconds,
    }
    overrides: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    most_bytes = None if memory is None else memory_limit(memory, "--memory")
    settings = Settings(
        allow_private=allow_private, service=not no_service, origins=tuple(origin or ()), **overrides
    )
    addresses: list[str] = []

    def open_session(opening: Opening) -> sparqlive.Session:
        is_new = not is_store(store)
        graph = default_graph_of(store, default_graph_value(default_graph))
        session = sparqlive.open(store, default_graph=graph, progress=opening, memory=most_bytes)
        if is_new:
            say_created(store)
        describe_writer(store, f"the agent at {addresses[0]}")
        print(f"{store} is served at {addresses[0]}", flush=True)
        return session

    start_logging()
    serve_store(
        store, open_session, settings, Listening(host, port, tls_certificate, tls_key), addresses.append
    )


def ensure_agent_installed(command: str) -> None:
    """Rejects a command that needs the packages of the extra `agent`, where they are missing."""
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise sparqlive.Error(
            f"sparqlive {command} needs the packages of the extra 'agent': pip install 'sparqlive[agent]'."
        )
