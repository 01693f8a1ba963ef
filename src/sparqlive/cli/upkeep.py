"""Commands that maintain a store: `check` and `compact`."""

from __future__ import annotations

from typing import Annotated

import typer

from sparqlive.cli.arguments import Default, Store
from sparqlive.cli.sessions import reading_session, writing_session
from sparqlive.pipeline.progress import Progress


def check(
    store: Store,
    repair: Annotated[
        bool, typer.Option("--repair", help="First recompute views whose files are damaged or missing.")
    ] = False,
    default_graph: Default = None,
) -> None:
    """Recompute every view from scratch and compare."""
    opening = (
        writing_session(store, default_graph, creates=False)
        if repair
        else reading_session(store, default_graph)
    )
    with opening as session:
        for name in session.repair() if repair else ():
            print(f"check: recomputed view {name}")
        session.check()
        print(f"check: {len(session.views)} views equal their recomputation")


def compact(store: Store, default_graph: Default = None) -> None:
    """Merge the store's log and deltas into new runs."""
    progress = Progress()
    with writing_session(store, default_graph, creates=False) as session, progress.step("compacting"):
        session.compact()
