"""The last epochs: how large each was, what it changed in which view, how it was carried, why, and how fast.

Owns a bounded memory of them; deltas themselves are not held. The session's writer adds to it, between two
epochs.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from sparqlive.engine.view import Epoch

EPOCHS = 500
_COUNTS = 50_000  # changed views, of all epochs that are held together


class EpochLog:
    """Hears of epochs (`session.observe`), and tells the last of them, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[dict[str, Any]] = deque()
        self._counts = 0

    def hear(self, epoch: Epoch) -> None:
        rows = {name: len(epoch.deltas[name]) for name in epoch.deltas.changed()}
        choices = {
            name: {
                "strategy": choice.strategy,
                "reason": choice.reason,
                "seconds": choice.seconds,
                "estimates": dict(choice.estimates),
            }
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
        """The entries after an epoch, as far as they are held. The caller keeps the writer from adding."""
        return [entry for entry in self._entries if entry["epoch"] > epoch]
