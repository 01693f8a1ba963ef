"""Views come and go: from the text of a query to a content that is kept.

Owns how a content is got: computed in process or on Spark, loaded from a store, or computed anew. Refuses
what cannot be kept. Invariant: a view is in the store before it is in the session, and its content belongs to
the epoch that it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sparqlive.deferred import Deferred, Refresh, check_refresh
from sparqlive.epochs import Epochs
from sparqlive.errors import Error, ViewExists
from sparqlive.live.keeper import Content
from sparqlive.live.maintained import Saved
from sparqlive.numbers import MOST_SECONDS, shown
from sparqlive.plan.checks import check_functions
from sparqlive.plan.explain import Explained, explained
from sparqlive.plan.once import fixed
from sparqlive.plan.operators import Operator, kept_of
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.translate import translate
from sparqlive.plan.unfold import unfold, views_read
from sparqlive.registry import readable
from sparqlive.sparql.algebra import Dataset, Query
from sparqlive.sparql.syntax import parse_query
from sparqlive.strategies import Strategy
from sparqlive.views import View

if TYPE_CHECKING:
    from sparqlive.persistence import Persistence

# Spark computes views of graphs from this size on if it is running.
SPARK_QUADS = 2_000_000
# Stands in URLs, in rights of tokens and on command lines without quoting.
VIEW_NAME = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}"
# An agent's own, of ad-hoc subscriptions: it drops all such views when it starts, so nobody else has them.
_TEMPORARY_NAME = re.compile(r"~[A-Za-z0-9_-]{16}")


def check_view_name(name: object) -> None:
    """Refuses what cannot be the name of a new view, by one rule for Python, the command line and HTTP.

    Views of stores that were made before the rule keep their names.
    """
    if not isinstance(name, str) or not re.fullmatch(VIEW_NAME, name):
        raise Error(
            f"A view cannot be named {shown(name)}: a name has up to 128 letters (A to Z), digits and the "
            f"characters '.', '_', '~' and '-', and begins with a letter or a digit."
        )


class Registration:
    """`union`: whether a query's default graph is the union of all graphs."""

    def __init__(self, epochs: Epochs, union: bool) -> None:
        self._epochs = epochs
        self._views = epochs.views
        self._union = union

    # Plans

    def plan(
        self,
        text: str,
        base: str | None,
        volatile: bool,
        name: str | None = None,
        dataset: Dataset | None = None,
    ) -> tuple[Query, Operator]:
        """The plan of a query, which is to be the view `name`; a dataset stands in place of its own."""
        parsed = parse_query(text, base)
        if dataset is not None:
            parsed = replace(parsed, dataset=dataset)
        check_functions(parsed, volatile)
        if name is not None:
            self._views.check_no_cycle(name, views_read(parsed))
        if volatile:
            parsed = fixed(parsed)
        return parsed, self.translated(parsed)

    def translated(self, query: Query) -> Operator:
        plan = translate(query, self._union)
        return unfold(plan, self._views.graph_of) if views_read(query) else plan

    def explained(self, text: str, base: str | None) -> Explained:
        """The plan that a query would be kept by; see `Session.explained`."""
        with self._epochs.lock:
            self._epochs.ensure_open()
            _, plan = self.plan(text, base, volatile=False)
            return explained(store_unreachable(rewrite(kept_of(plan))), {})

    # Views

    def check_name(self, name: object) -> None:
        """Refuses what is neither the name of a view that is there nor one for a new view."""
        if not isinstance(name, str) or not (name in self._views.by_name or _TEMPORARY_NAME.fullmatch(name)):
            check_view_name(name)

    def register(
        self,
        name: str,
        text: str,
        base: str | None,
        replace: bool,
        refresh: Refresh,
        strategy: Strategy,
        notes: Mapping[str, str],
    ) -> View:
        """The view of that name and query, computed if it is not there; see `Session.view`.

        `notes` are kept in the store with a view that is new.
        """
        check_refresh(refresh)
        epochs = self._epochs
        with epochs.lock:
            epochs.ensure_open()
            parsed, plan = self.plan(text, base, volatile=False, name=name)
            known = self._views.by_name.get(name)
            same = known is not None and known.query == parsed and known.refresh_setting == refresh
            if known is not None and same and known.failure is None:
                return known
            if known is not None and not same and not replace:
                raise ViewExists(
                    f"A view named {name!r} is there with another query, or another refresh setting. "
                    f"Choose another name, drop it first, or pass replace=True."
                )
            if known is not None and not same:
                self._views.check_not_read(name)
            deferred = self._deferred(name, refresh, epochs.epoch)
            keeper = self._views.keeper if deferred is None else deferred.keeper
            kept = rewrite(kept_of(plan))
            content = keeper.keep(kept, self._first(strategy))
            try:
                if epochs.persistence is not None:
                    before = known if known is not None and known.failure is None else None
                    replaced = None if before is None else before.content
                    epochs.persistence.keep(name, text, base, refresh, content, epochs.epoch, replaced, notes)
            except BaseException:
                keeper.release(content)
                raise
            if known is not None:
                self._views.release(known)
            view = self._add(name, text, parsed, plan, content, deferred)
            epochs.settle()
            return view

    def _first(self, strategy: Strategy) -> Saved | None:
        """How a view is computed for the first time: on Spark, or (None) in process."""
        strategies = self._epochs.strategies
        large = self._epochs.quads.size > SPARK_QUADS and strategies.spark_started
        if strategy == "spark" or (strategy == "auto" and large):
            self._epochs.spark.ensure_installed()
            assert strategies.carrier is not None
            carrier = strategies.carrier()
            return lambda _, plan: carrier.contents([plan], (), ())[0]
        return None

    def _deferred(self, name: str, refresh: Refresh, epoch: int) -> Deferred | None:
        """What a view needs that is refreshed later than at once."""
        if refresh == "immediate":
            return None
        epochs = self._epochs
        deferred = Deferred(name, refresh, epoch, epochs.carried_quads, epochs.terms)
        if epochs.spark.installed:
            deferred.strategies.carrier = lambda: epochs.spark.carrier(deferred.undone())
        return deferred

    def _add(
        self, name: str, text: str, query: Query, plan: Operator, content: Content, deferred: Deferred | None
    ) -> View:
        view = View(self._epochs, name, text, query, plan, content, deferred)
        self._views.add(view)
        if not self._epochs.read_only:
            self._epochs.start_clock(view)
        return view

    def drop(self, name: str) -> None:
        """Forgets a view."""
        epochs = self._epochs
        with epochs.lock:
            epochs.ensure_open()
            view = self._views[name]
            self._views.check_not_read(name)
            if epochs.persistence is not None:
                epochs.persistence.drop(name, view.content, epochs.epoch)
            del self._views.by_name[name]
            self._views.release(view)

    def repair(self) -> list[str]:
        """Computes anew the views whose files are damaged or missing; see `Session.repair`."""
        with self._epochs.lock:
            self._epochs.ensure_open()
            store = self._epochs.persistence
            if store is None:
                return []
            damaged = store.damaged()
            stale = [
                view
                for view in self._views.by_name.values()
                if view.failure is None and store.reads(view.content, damaged)
            ]
            for view in stale:
                self._views.release_content(view)
            for view in stale:
                keep = self._views.keeper.keep if view.deferred is None else view.deferred.keep
                self._views.give(view, keep(rewrite(kept_of(view.plan)), None))
            for view in stale:
                view.since = store.save(view.name, view.content, view.epoch, damaged)
            return [view.name for view in stale]

    # Views of a store

    def load(self, store: Persistence, progress: Callable[[int, int], None]) -> None:
        """The views of a store with their rows, which are not computed again."""
        entries = list(readable(store.views()))
        for number, entry in enumerate(entries):
            progress(number, len(entries))
            self._load_view(store, *entry)

    def _load_view(
        self, store: Persistence, name: str, text: str, base: str | None, since: int, refresh: str
    ) -> None:
        read_only = self._epochs.read_only
        parsed, plan = self.plan(text, base, volatile=False)
        deferred = self._deferred(name, _refresh_of(refresh), since)
        if deferred is not None:
            store.deferred(name, deferred)
        keep = self._views.keeper.keep if deferred is None else deferred.keep
        if deferred is not None and read_only:
            keep = deferred.keeper.keep
        content = keep(rewrite(kept_of(plan)), store.saved)
        view = self._add(name, text, parsed, plan, content, deferred)
        view.since = since
        if not store.has(content):
            if read_only:
                view.failure = f"View {name!r} is not kept at present: the store's writer computes it anew."
            else:
                view.since = store.save(name, content, view.epoch)

    def follow(self, store: Persistence) -> None:
        """The store's writer has committed something: a reader goes on to the store's last epoch."""
        epochs, views = self._epochs, self._views
        with epochs.lock:
            if epochs.closed:
                return
            at = {view: view.epoch for view in views.by_name.values()}
            listed = {entry[0]: entry for entry in store.views()}
            epochs.moved_to(store.advance())
            now = {entry[0]: entry for entry in store.views()}
            for name in [name for name, entry in listed.items() if now.get(name) != entry]:
                gone = views.by_name.pop(name)
                views.release(gone)
                gone.failure = f"View {name!r} was dropped or replaced by the store's writer."
            stale = [view for view in views.by_name.values() if store.changed(view.content, at[view])]
            for view in stale:
                views.release_content(view)
            for view in stale:
                keeper = views.keeper if view.deferred is None else view.deferred.keeper
                views.give(view, keeper.keep(rewrite(kept_of(view.plan)), store.saved))
            for entry in readable(now.values()):
                if entry[0] not in views.by_name:
                    self._load_view(store, *entry)
            for view, deferred in views.later.items():
                store.deferred(view.name, deferred)
            for view in views.by_name.values():
                view.moved()


def _refresh_of(text: str) -> Refresh:
    """A refresh setting as a store keeps it; older stores may have one beyond what is taken today."""
    if text in ("immediate", "manual"):
        return text  # type: ignore[return-value]
    seconds = float(text)
    return min(seconds, MOST_SECONDS) if seconds > 0 else MOST_SECONDS
