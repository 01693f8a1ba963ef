"""Sources given by views: one for each IRI that a variable of a view has, for as long as it has it.

Owns what is given by which view, and remembers it in the store, so that it goes on when the store is opened
again. A source that somebody named stays theirs: it is neither made nor removed here. Invariant: a source
that was given is there while a view gives it; when the last one no longer does, it is removed.

Which values a view has is followed in a thread of its own, which epochs wake.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode

from sparqlive.engine.view import View
from sparqlive.engine.writer import Epochs
from sparqlive.errors import Error
from sparqlive.sources.background import Woken
from sparqlive.sources.watcher import address_of, check_options, watcher
from sparqlive.sources.watching import Feeds, Source

if TYPE_CHECKING:
    from sparqlive.engine.persistence import Persistence

_NOTE = "sources_from/"


class Linked:
    """The sources that a variable of a view gives."""

    def __init__(self, links: Links, view: str, variable: str, kind: str, options: Mapping[str, Any]) -> None:
        self.view = view
        self.variable = variable
        self.kind = kind
        self.options = dict(options)
        self.refused: dict[str, str] = {}
        """IRIs that cannot be a source, and why."""
        self.error: str | None = None
        self._links = links
        self._followed: View | None = None
        self._at = -1
        self._counts: Counter[str] = Counter()
        self._given: set[str] = set()

    @property
    def key(self) -> str:
        """The name of what a store keeps of it."""
        return f"{_NOTE}{self.kind}/{self.variable}/{self.view}"

    def note(self) -> str:
        settings = {"view": self.view, "variable": self.variable, "kind": self.kind, "options": self.options}
        return json.dumps(settings)

    def remove(self) -> None:
        """The view gives no sources any more; those that it gave, and no other view gives, leave."""
        self._links.remove(self)

    def values(self) -> set[str]:
        """The addresses that the variable has now. The caller holds the lock."""
        view = self._links.epochs.views.by_name.get(self.view)
        if view is not self._followed:  # dropped, replaced, or seen for the first time
            self._followed, self._at = view, -1
            self._counts.clear()
        if view is None or self.variable not in view.variables:
            return set()
        if view.failure is None:
            column = view.variables.index(self.variable)
            for delta in view.changes(since=self._at):
                if delta.reset:
                    self._counts.clear()
                for row, weight in delta.weights().items():
                    value = row[column]
                    if isinstance(value, NamedNode):
                        self._counts[address_of(self.kind, value.value)] += weight
            self._at = view.epoch
            self._counts = +self._counts
        return set(self._counts)

    def give(self, feeds: Feeds) -> None:
        """The sources become those of the values, one after the other, so that others may write between."""
        lock = self._links.epochs.lock
        with lock:
            values = self.values()
            given = [one for one in feeds.by_name.values() if self.key in one.given_by]
            leaving = [source for source in given if source.address not in values]
            coming = sorted(values - self._given)
            self._given &= values
            for address in self.refused.keys() - values:
                del self.refused[address]
        for source in leaving:
            with lock:
                if not source.removed and self._links.is_there(self):
                    feeds.release(source, self.key)
        for address in coming:
            with lock:
                if not self._links.is_there(self):
                    return
                self._given.add(address)
                try:
                    made = Source(feeds, address, self.kind, address, self.options, given_by=(self.key,))
                    feeds.add(made, watcher(self.kind, address, self.options))
                except Error as error:
                    self.refused[address] = str(error)
        self.error = None

    def fail(self, error: Exception) -> None:
        """The sources could not be made those of the values."""
        self.error = f"{type(error).__name__}: {error}"

    def __repr__(self) -> str:
        return f"Linked({self.view!r}, {self.variable!r}, kind={self.kind!r})"


class Links:
    """What views of one session give as sources."""

    def __init__(self, epochs: Epochs, feeds: Feeds) -> None:
        self.epochs = epochs
        self._feeds = feeds
        self._linked: dict[str, Linked] = {}
        self._woken = Woken("sparqlive-sources-from", self._give)

    # From any thread

    def add(self, view: str, variable: str, kind: str, options: Mapping[str, Any]) -> Linked:
        """The same again gives the one that is there."""
        with self.epochs.lock:
            self.epochs.ensure_open()
            if variable not in self.epochs.views[view].variables:
                raise Error(f"The view {view!r} has no variable {variable!r}.")
            check_options(kind, options)
            made = Linked(self, view, variable, kind, options)
            known = self._linked.get(made.key)
            if known is not None and known.options == made.options:
                return known
            if known is not None:
                raise Error(
                    f"The variable {variable!r} of the view {view!r} gives sources of the kind {kind!r} with "
                    f"other options: remove() what sources_from gave first."
                )
            self.epochs.record(None, {made.key: made.note()})
            self._begin(made)
            return made

    def load(self, store: Persistence) -> None:
        """What a store remembers goes on."""
        for note in store.notes(_NOTE):
            self._begin(Linked(self, **json.loads(note)))

    def remove(self, linked: Linked) -> None:
        with self.epochs.lock:
            if self._linked.pop(linked.key, None) is not linked:
                raise Error(f"What the view {linked.view!r} gives has been removed already.")
            for source in [one for one in self._feeds.by_name.values() if linked.key in one.given_by]:
                self._feeds.release(source, linked.key)
            self.epochs.record(None, {linked.key: ""})

    def is_there(self, linked: Linked) -> bool:
        """The caller holds the lock."""
        return not self.epochs.closed and self._linked.get(linked.key) is linked

    def heard(self, _: object = None) -> None:
        """A view may have other values: an epoch has come, or the view has gone."""
        self._woken.wake()

    def stop(self) -> None:
        self._woken.stop()

    # In a thread of its own

    def _begin(self, linked: Linked) -> None:
        self._linked[linked.key] = linked
        if not self._feeds.watching:
            return
        if self._woken.start():
            self.epochs.observe(self.heard)
        self.heard()

    def _give(self) -> None:
        for linked in list(self._linked.values()):
            try:
                linked.give(self._feeds)
            except Exception as error:  # the store's disk is full, say: the next epoch tries again
                linked.fail(error)
