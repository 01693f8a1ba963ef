"""Commands that maintain a store: `check` and `compact`."""

from __future__ import annotations

from typing import Annotated

import typer

from sparqlive.cli import remote
from sparqlive.cli.arguments import (
    Agent,
    Default,
    Json,
    NoAgent,
    Store,
    StoreOrAgent,
    Token,
    store_or_agent,
)
from sparqlive.cli.output import print_json
from sparqlive.cli.sessions import reading_session, writing_session
from sparqlive.pipeline.progress import Progress


def check(
    store: Store,
    repair: Annotated[
        bool, typer.Option("--repair", help="First recompute views that are damaged or wrong.")
    ] = False,
    default_graph: Default = None,
    json: Json = False,
    agent: NoAgent = None,
) -> None:
    """Recompute every view from scratch and compare.

    Example: sparqlive check --store my.store
    """
    opening = (
        writing_session(store, default_graph, creates=False)
        if repair
        else reading_session(store, default_graph)
    )
    with opening as session:
        with Progress.on_standard_error().waiting("checking"):
            repaired = session.repair() if repair else []
            session.check()
        if json:
            print_json({"views": len(session.views), "repaired": repaired})
            return
        for name in repaired:
            print(f"check: recomputed view {name}")
        count = len(session.views)
        equal = "view equals its" if count == 1 else "views equal their"
        print(f"check: {count} {equal} recomputation")


def compact(
    store: StoreOrAgent = None,
    default_graph: Default = None,
    maps: Annotated[
        bool,
        typer.Option("--maps", help="Only remove the mapped files, which are created again when needed."),
    ] = False,
    json: Json = False,
    agent: Agent = None,
    token: Token = None,
) -> None:
    """Merge the store's log and deltas into new runs.

    Not needed in daily work: writers compact in the background.

    Example: sparqlive compact --store my.store
    """
    store_or_agent(store, agent)
    if maps and agent is not None:
        raise typer.BadParameter("--maps works on a store, not through an agent. Use --store.")
    if agent is not None:
        if json:
            with Progress.on_standard_error().waiting("compacting"):
                print_json({"epoch": remote.compact(agent, token)})
        else:
            with Progress().step("compacting"):
                remote.compact(agent, token)
        return
    assert store is not None
    with writing_session(store, default_graph, creates=False) as session:
        if json:
            with Progress.on_standard_error().waiting("compacting"):
                session.compact(maps=maps)
            print_json({"epoch": session.epoch})
            return
        with Progress().step("compacting"):
            session.compact(maps=maps)
