"""Moves views that have become too large for the memory limit into the store, between epochs.

A held view has its rows and its state in the store anyway, so moving it is a change of hands: a bulk backend
carries its next epoch. Owns when memory is measured, and which views go. Invariant: contents that share a
relation move together, so that a relation has one writer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from sparqlive.engine.stored_names import all_names
from sparqlive.engine.view import Epoch, View
from sparqlive.engine.writer import Epochs
from sparqlive.live.content import PlanContent

_log = logging.getLogger("sparqlive.engine")
_BYTES_PER_CHANGE = 100
_PART = 100
"""Memory is measured when changes may have added this part of the limit."""
_LONG_SECONDS = 0.5
"""An epoch of so many seconds may have added more than its changes tell."""


class Outgrown:
    """Observes the epochs of a session. `move` gives views contents that are not held, and says why."""

    def __init__(self, epochs: Epochs, move: Callable[[Sequence[View], str], None]) -> None:
        self._epochs = epochs
        self._move = move
        self._changed = 0
        self._least = epochs.budget.limit // (_PART * _BYTES_PER_CHANGE)

    def __call__(self, epoch: Epoch) -> None:
        """Called under the lock, after an epoch."""
        self._changed += epoch.inserted + epoch.deleted
        if self._changed > self._least or epoch.seconds > _LONG_SECONDS:
            self._changed = 0
            self._make_room()

    def _make_room(self) -> None:
        epochs, limit = self._epochs, self._epochs.budget.limit
        if epochs.persistence is None:  # there is nowhere to go
            return
        while (used := epochs.used_bytes()) > limit:
            movable = list(self._movable())
            if not movable:
                return
            largest = max(movable, key=lambda content: content.held_bytes())
            why = (
                f"quads and views used {_size(used)}, the memory limit is {_size(limit)}, "
                f"and it had about {_size(largest.held_bytes())}"
            )
            readers = (epochs.views.readers[content] for content in _sharing(largest, movable))
            try:
                self._move(list(chain.from_iterable(readers)), why)
            except Exception as error:  # the epoch is committed: the views stay as they are
                _log.warning("Views could not be moved to the store, and stay in memory: %s", error)
                return
            epochs.release_quads()

    def _movable(self) -> Iterator[PlanContent]:
        """The held contents of stored views that follow every epoch."""
        views = self._epochs.views
        for content, readers in views.readers.items():
            if content.is_held and all(views.keeper_of(view) is views.keeper for view in readers):
                yield content


def _sharing(content: PlanContent, others: list[PlanContent]) -> list[PlanContent]:
    """A content, and those that share relations with it, or with such ones."""
    found, names = [content], all_names(content)
    while more := [one for one in others if one not in found and not names.isdisjoint(all_names(one))]:
        found += more
        names = names.union(*map(all_names, more))
    return found


def _size(count: int) -> str:
    """Bytes for people."""
    return f"{count >> 20:,} MiB" if count >> 20 else f"{count >> 10:,} KiB"
