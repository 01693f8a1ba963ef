"""Deferred views, which are refreshed later than their data changes: manually, or within some seconds.

Owns the changes that such a view has not seen yet (the net change of the quads since the view's epoch), and
the timer of its next refresh. Its content is separate from those of other views. Invariant: the current quads
minus the gathered changes are the quads of the content's epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from sparqlive.engine.carry import CarryResult, Strategies
from sparqlive.errors import Error
from sparqlive.live.compiled_plan import Saved
from sparqlive.live.materialization import Materialization
from sparqlive.live.plan_registry import PlanRegistry
from sparqlive.live.terms import Terms
from sparqlive.numbers import MOST_SECONDS, parse_seconds, seconds, short_repr
from sparqlive.plan.operators import Operator
from sparqlive.quads.current import Change, Quad, Quads
from sparqlive.runtime.collector import collector_paused
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into

if TYPE_CHECKING:
    from sparqlive.engine.results import Delta
    from sparqlive.engine.view_state import ViewState
    from sparqlive.engine.writer import Writer

Refresh: TypeAlias = Literal["immediate", "manual"] | float
_WORDS: Mapping[str, Refresh] = {"immediate": "immediate", "manual": "manual"}


def gathered_name(view: str) -> str:
    """The name of the stored relation of changes that a view has not seen yet."""
    return f"gathered/{view}"


def check_refresh(refresh: object, name: str = "refresh") -> None:
    """Rejects an invalid refresh setting; `name` is the surface's name for it."""
    if isinstance(refresh, str) and refresh in _WORDS:
        return
    try:
        seconds(name, refresh)
    except Error:
        raise _invalid(name, refresh) from None


def parse_refresh(text: str, name: str = "refresh") -> Refresh:
    """Parses a refresh setting that a user wrote; `name` is the surface's name for it."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return parse_seconds(name, text)
    except Error:
        raise _invalid(name, text) from None


def stored_refresh(text: str) -> Refresh:
    """Parses a refresh setting from a store; older stores may have one beyond today's limit."""
    if text in _WORDS:
        return _WORDS[text]
    lag = float(text)
    return min(lag, MOST_SECONDS) if lag > 0 else MOST_SECONDS


def _invalid(name: str, refresh: object) -> Error:
    return Error(
        f'{name} must be "immediate", "manual" or a number of seconds above 0 and up to {MOST_SECONDS:,}, '
        f"not {short_repr(refresh)}."
    )


class Deferred:
    """The content of one view, as of an epoch, and the changes since then."""

    def __init__(self, name: str, refresh: Refresh, epoch: int, quads: Quads, terms: Terms) -> None:
        self.refresh = refresh
        self.epoch = epoch
        self.gathered: dict[Quad, int] = {}
        self.registry = PlanRegistry(quads, terms, scope=name)
        self._quads = quads
        self._name = name
        self._timer: threading.Timer | None = None

    @property
    def relation(self) -> str:
        """The name of the stored relation of gathered changes."""
        return gathered_name(self._name)

    def keep(self, plan: Operator, saved: Saved | None) -> Materialization:
        """The content as of the view's epoch; unsaved parts are computed from the quads of that epoch."""
        self._quads.add(self.undone())
        try:
            return self.registry.keep(plan, saved)
        finally:
            self._quads.add(self.changes())

    def changes(self) -> list[Change]:
        return [(*quad, weight) for quad, weight in self.gathered.items()]

    def undone(self) -> list[Change]:
        """The changes that lead from the current quads back to those of the view's epoch."""
        return [(*quad, -weight) for quad, weight in self.gathered.items()]

    def agrees(self) -> bool:
        """Whether the quads have what the gathered changes inserted, and lack what they deleted."""
        present = self._quads.present(self.gathered)
        return all(weight == (1 if quad in present else -1) for quad, weight in self.gathered.items())

    def load(self, gathered: Mapping[Row, int], epoch: int) -> None:
        """Sets the view's epoch, and the changes that it has not seen."""
        self.gathered = {(s, p, o, g): weight for (s, p, o, g), weight in gathered.items()}
        self.epoch = epoch

    def gather(self, changes: Sequence[Change], epoch: int) -> None:
        """Adds the changes of a committed epoch; changes that cancel each other disappear."""
        add_into(self.gathered, {(s, p, o, g): weight for s, p, o, g, weight in changes})
        if not self.gathered:
            self.epoch = epoch

    @contextmanager
    def carried(self, epoch: int, strategies: Strategies) -> Iterator[CarryResult]:
        """Computes the deltas that bring the content up to date; commits them when the block succeeds."""
        changes, undone = self.changes(), self.undone()
        self._quads.add(undone)
        try:
            self._quads.stage(changes)
            yield strategies.carry(self.registry, changes, "auto", undone)
        except BaseException:
            self.registry.rollback()
            self._quads.rollback()
            self._quads.add(changes)
            raise
        self.registry.commit()
        self._quads.commit()
        self.gathered = {}
        self.epoch = epoch

    # The clock

    def start(self, refresh: Callable[[], object]) -> None:
        """Schedules a refresh, the view's number of seconds after the oldest change that it has not seen."""
        if self.gathered and self._timer is None and self.refresh != "manual":
            self._timer = threading.Timer(float(self.refresh), refresh)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Refresher:
    """Refreshes the deferred views of a session: when their timers end, or when asked to."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def gather(self, changes: Sequence[Change], epoch: int) -> None:
        """Gathers the changes of a committed epoch, and starts the timers. Called under the lock."""
        for view, deferred in self._writer.views.later.items():
            deferred.gather(changes, epoch)
            self._start_timer(view)

    def refresh(self, view: ViewState) -> Delta:
        """Brings a view to the current epoch; see `View.refresh`."""
        writer = self._writer
        with writer.changing(), collector_paused():
            deferred, epoch = view.deferred, writer.epoch
            # A timer may end while its view is being dropped or replaced: the new view has the same name.
            if deferred is None or view not in writer.views.later or writer.closed:
                return view.history.no_change(view.epoch)
            deferred.stop()
            if not deferred.gathered:
                return view.history.no_change(view.epoch)
            begun = time.perf_counter()
            with deferred.carried(epoch, writer.strategies) as carried:
                if writer.persistence is not None:
                    writer.persistence.refresh(view.name, deferred, epoch, carried.failed)
            for choice in carried.choices.values():
                view.chose(epoch, choice)
            rows = carried.deltas.get(view.content)
            delta = view.history.record(epoch, rows) if rows else view.history.no_change(epoch)
            writer.refreshed(view, delta, carried, time.perf_counter() - begun)
            return delta

    def start(self) -> None:
        """Starts the timers of all deferred views, once the session is open. Called under the lock."""
        for view in self._writer.views.later:
            self._start_timer(view)

    def stop(self) -> None:
        """Stops the timers of all deferred views. Called under the lock."""
        for deferred in self._writer.views.later.values():
            deferred.stop()

    def _start_timer(self, view: ViewState) -> None:
        if view.deferred is not None:
            view.deferred.start(partial(self._refresh_due, view))

    def _refresh_due(self, view: ViewState) -> None:
        """Refreshes a view when its timer ends; after a failure, starts the timer again."""
        try:
            self.refresh(view)
        except Exception:
            if not self._writer.closed:
                self._start_timer(view)
            raise
