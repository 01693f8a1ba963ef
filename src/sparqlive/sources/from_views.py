"""Sources from views: one source per IRI that a variable of a view is bound to.

Owns which view gives which sources, and stores it, so that it continues when the store is opened again. It
neither creates nor removes sources that were added by name. Invariant: such a source exists while at least
one view gives it, and is removed with the last one.

A separate thread, woken by epochs, reads the values of the views.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode

from sparqlive.engine.batches import Batch
from sparqlive.engine.view import View
from sparqlive.engine.writer import Writer
from sparqlive.errors import Error
from sparqlive.sources.background import BackgroundThread
from sparqlive.sources.manager import Source, SourceManager
from sparqlive.sources.watcher import address_of, check_options, watcher

if TYPE_CHECKING:
    from sparqlive.store.store import Store

_NOTE = "sources_from/"


class SourcesFromView:
    """The sources that a variable of a view gives."""

    def __init__(
        self, links: AllSourcesFromViews, view: str, variable: str, kind: str, options: Mapping[str, Any]
    ) -> None:
        self.view = view
        self.variable = variable
        self.kind = kind
        self.options = dict(options)
        self.refused: dict[str, str] = {}
        """IRIs that cannot be a source, with the reason."""
        self.error: str | None = None
        self._links = links
        self._followed: View | None = None
        self._at = -1
        self._counts: Counter[str] = Counter()
        self._present: set[str] = set()

    @property
    def key(self) -> str:
        """The key of its settings in the store."""
        return f"{_NOTE}{self.kind}/{self.variable}/{self.view}"

    def note(self) -> str:
        settings = {"view": self.view, "variable": self.variable, "kind": self.kind, "options": self.options}
        return json.dumps(settings)

    def remove(self) -> None:
        """Stops giving sources, and removes those that no other view gives."""
        self._links.remove(self)

    def values(self) -> set[str]:
        """Returns the current addresses of the variable. The caller holds the lock."""
        view = self._links.writer.views.get(self.view)
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

    def give(self, manager: SourceManager) -> None:
        """Adds and removes sources to match the values. Releases the lock after each, for other writers."""
        changing = self._links.writer.changing
        with changing():
            values = self.values()
            given = [one for one in manager.by_name.values() if self.key in one.given_by]
            leaving = [source for source in given if source.address not in values]
            coming = sorted(values - self._present)
            self._present &= values
            for address in self.refused.keys() - values:
                del self.refused[address]
        for source in leaving:
            with changing():
                if not source.removed and self._links.is_there(self):
                    manager.release(source, self.key)
        for address in coming:
            with changing():
                if not self._links.is_there(self):
                    return
                self._present.add(address)
                try:
                    source = Source(manager, address, self.kind, address, self.options, given_by=(self.key,))
                    manager.add(source, watcher(self.kind, address, self.options))
                except Error as error:
                    self.refused[address] = str(error)
        self.error = None

    def fail(self, error: Exception) -> None:
        """Records why the sources could not be updated."""
        self.error = f"{type(error).__name__}: {error}"

    def __repr__(self) -> str:
        return f"SourcesFromView({self.view!r}, {self.variable!r}, kind={self.kind!r})"


class AllSourcesFromViews:
    """All sources from views of one session."""

    def __init__(self, writer: Writer, manager: SourceManager) -> None:
        self.writer = writer
        self._manager = manager
        self._linked: dict[str, SourcesFromView] = {}
        self._thread = BackgroundThread("sparqlive-sources-from", self._give)

    # From any thread

    def add(self, view: str, variable: str, kind: str, options: Mapping[str, Any]) -> SourcesFromView:
        """Adds sources from a variable of a view; returns the existing entry if it has the same options."""
        with self.writer.changing():
            self.writer.ensure_open()
            if variable not in self.writer.views[view].variables:
                raise Error(f"View {view!r} has no variable {variable!r}.")
            check_options(kind, options)
            linked = SourcesFromView(self, view, variable, kind, options)
            known = self._linked.get(linked.key)
            if known is not None and known.options == linked.options:
                return known
            if known is not None:
                raise Error(
                    f"Variable {variable!r} of view {view!r} already gives sources of kind {kind!r} with "
                    f"different options. Call remove() on the result of the first sources_from() call."
                )
            self.writer.commit(Batch(notes={linked.key: linked.note()}))
            self._begin(linked)
            return linked

    def load(self, store: Store) -> None:
        """Continues the entries of a store."""
        for note in store.catalog.metas(_NOTE):
            self._begin(SourcesFromView(self, **json.loads(note)))

    def remove(self, linked: SourcesFromView) -> None:
        with self.writer.changing():
            if self._linked.pop(linked.key, None) is not linked:
                raise Error(f"The sources from view {linked.view!r} have already been removed.")
            for source in [one for one in self._manager.by_name.values() if linked.key in one.given_by]:
                self._manager.release(source, linked.key)
            self.writer.commit(Batch(notes={linked.key: ""}))

    def is_there(self, linked: SourcesFromView) -> bool:
        """The caller holds the lock."""
        return not self.writer.closed and self._linked.get(linked.key) is linked

    def wake(self, _: object = None) -> None:
        """Wakes the thread, because an epoch or the drop of a view may have changed the values."""
        self._thread.wake()

    def stop(self) -> None:
        self._thread.stop()

    # In the background thread

    def _begin(self, linked: SourcesFromView) -> None:
        self._linked[linked.key] = linked
        if not self._manager.watching:
            return
        if self._thread.start():
            self.writer.observe(self.wake)
        self.wake()

    def _give(self) -> None:
        for linked in list(self._linked.values()):
            try:
                linked.give(self._manager)
            except Exception as error:  # for example a full disk: the next epoch tries again
                linked.fail(error)
