"""The table at the end of the run: how many batches each strategy carried, and how long they took."""

from __future__ import annotations

from collections import defaultdict

from rich.console import Console
from rich.table import Table

import sparqlive
from sparqlive.pipeline.progress import duration


class Summary:
    """Collects epochs by strategy."""

    def __init__(self) -> None:
        self._epochs: dict[str, list[tuple[int, float]]] = defaultdict(list)

    def add(self, epoch: sparqlive.Epoch) -> None:
        self._epochs[epoch.strategy].append((epoch.inserted + epoch.deleted, epoch.seconds))

    def print(self, session: sparqlive.Session) -> None:
        console = Console(highlight=False)
        batches = Table("strategy", title="batches", title_justify="left")
        for heading in ("batches", "changes", "median", "longest", "changes per second"):
            batches.add_column(heading, justify="right")
        for strategy, epochs in sorted(self._epochs.items()):
            seconds = sorted(lasted for _, lasted in epochs)
            changes = sum(count for count, _ in epochs)
            middle, rate = seconds[len(seconds) // 2], changes / max(sum(seconds), 1e-9)
            batches.add_row(
                strategy,
                f"{len(epochs):,}",
                f"{changes:,}",
                duration(middle),
                duration(seconds[-1]),
                f"{rate:,.0f}",
            )
        views = Table("view", title=f"views over {len(session):,} quads", title_justify="left")
        for heading in ("rows", "stored bytes", "epoch"):
            views.add_column(heading, justify="right")
        for name, view in session.views.items():
            numbers = view.stats()
            views.add_row(name, f"{numbers['rows']:,}", f"{numbers['state_bytes']:,}", str(view.epoch))
        for table in (batches, views):
            console.print()
            console.print(table)
