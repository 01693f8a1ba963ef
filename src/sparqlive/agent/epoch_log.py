"""A bounded log of the last epochs: size, rows changed per view, strategy, reason and time.

Holds counts, not the deltas themselves. The session's writer adds an entry after each epoch.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from sparqlive.engine.epoch import Epoch

EPOCHS = 500
_COUNTS = 50_000  # changed views, summed over all epochs of the log


class EpochLog:
    """Collects epochs as an observer of the session, and returns the last of them, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[dict[str, Any]] = deque()
        self._counts = 0

    def hear(self, epoch: Epoch) -> None:
        rows = {name: len(epoch.deltas[name]) for name in epoch.deltas.changed()}
        choices = {
            name: {"strategy": choice.strategy, "reason": choice.reason, "seconds": choice.seconds}
            for name, choice in epoch.choices.items()
        }
        entry = {
            "epoch": epoch.number,
            "time": time.time(),
            "inserted": epoch.inserted,
            "deleted": epoch.deleted,
            "ignored": epoch.ignored,
            "rows": rows,
            "strategy": epoch.strategy,
            "choices": choices,
            "seconds": epoch.seconds,
        }
        self._entries.append(entry)
        self._counts += len(rows)
        while len(self._entries) > EPOCHS or (self._counts > _COUNTS and len(self._entries) > 1):
            self._counts -= len(self._entries.popleft()["rows"])

    def after(self, epoch: int) -> list[dict[str, Any]]:
        """Returns the entries after an epoch that are still held. The caller holds the session's lock."""
        return [entry for entry in self._entries if entry["epoch"] > epoch]
