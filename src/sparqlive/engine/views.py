"""The views of a session: by name, by content, and the deferred ones.

Owns which views read which contents, which views read the graphs of others, and the limits on views.
Invariant: a content exists while a view reads it, and no view reads its own graph, directly or indirectly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sparqlive.engine.carry import Choice
from sparqlive.engine.deferred import Deferred
from sparqlive.engine.limits import Limits
from sparqlive.engine.results import GRAPH_FORMS, Delta
from sparqlive.engine.temporary import TemporaryViews
from sparqlive.engine.view import View
from sparqlive.engine.view_state import ViewState
from sparqlive.errors import Error, StoreFailed, UnknownView, Unsupported
from sparqlive.live.compiled_plan import CompiledPlan
from sparqlive.live.limit import Limit
from sparqlive.live.materialization import Materialization
from sparqlive.live.plan_registry import PlanRegistry
from sparqlive.live.terms import Terms
from sparqlive.plan.normal_form import Spelling
from sparqlive.plan.operators import Operator
from sparqlive.plan.unfold import views_read
from sparqlive.quads.current import Quads
from sparqlive.sparql.syntax import parse_query
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.engine.file_views import FileViews

Entry: TypeAlias = tuple[str, str, str | None, int, str]
"""A view as a store lists it: name, text, base, first epoch of its history, refresh setting."""


class Views(Mapping[str, View]):
    """The views by name."""

    def __init__(self, quads: Quads, terms: Terms) -> None:
        self.registry = PlanRegistry(quads, terms)
        """Keeps the contents that follow every epoch."""
        self.temporary = TemporaryViews(quads, terms)
        self.limits = Limits()
        self.file_views: FileViews | None = None
        """Keeps the contents that stay in the store, if there is one."""
        self.by_name: dict[str, ViewState] = {}
        self.readers: dict[Materialization, list[ViewState]] = {}
        self.later: dict[ViewState, Deferred] = {}
        self._observers: list[Callable[[View], None]] = []

    def __getitem__(self, name: str) -> View:
        return self.state(name).public

    def state(self, name: str) -> ViewState:
        """A view as the engine keeps it."""
        try:
            return self.by_name[name]
        except KeyError:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise UnknownView(f"There is no view named {name!r}. Registered views: {known}.", name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.by_name))

    def __len__(self) -> int:
        return len(self.by_name)

    def observe(self, observer: Callable[[View], None]) -> None:
        """Calls an observer, under the lock, with each view that is dropped, is replaced or fails."""
        self._observers.append(observer)

    def limit(self, limits: Limits) -> None:
        """Sets the limits on views. Called under the lock."""
        self.unlimit()
        self.limits = limits
        if limits.epoch_seconds is not None:
            self.registry.set_limit(Limit(limits.epoch_seconds))

    def unlimit(self) -> None:
        """Removes the limits on the time for an epoch."""
        self.registry.remove_limit()
        self.temporary.registry.remove_limit()

    # Contents

    def attach(self, file_views: FileViews) -> None:
        """Sets what keeps the contents that stay in the store."""
        self.file_views = file_views

    def add(self, view: ViewState) -> None:
        if (known := self.by_name.get(view.name)) is not None:
            known.history.end()
        self.by_name[view.name] = view
        self.readers.setdefault(view.content, []).append(view)
        if view.deferred is not None:
            self.later[view] = view.deferred

    def give(self, view: ViewState, content: Materialization) -> None:
        """Gives a view, whose content was released, another content."""
        view.read(content)
        self.readers.setdefault(content, []).append(view)

    def remove(self, name: str) -> ViewState:
        """Removes a view."""
        view = self.by_name.pop(name)
        view.history.end()
        self.release(view)
        return view

    def release(self, view: ViewState) -> None:
        """Releases a view's content, stops its timer and notifies the observers."""
        if not self.release_content(view):
            return
        if view.deferred is not None:
            self.later.pop(view).stop()
        for observer in self._observers:
            observer(view.public)

    def release_content(self, view: ViewState) -> bool:
        """Releases a view's content; returns False if that was done before."""
        readers = self.readers.get(view.content, [])
        if view not in readers:
            return False
        readers.remove(view)
        if not readers:
            del self.readers[view.content]
        self.keeper_of(view).release(view.content)
        return True

    def keeper_of(self, view: ViewState) -> PlanRegistry | FileViews:
        if view.temporary:
            return self.temporary.registry
        if not view.content.is_held:
            assert self.file_views is not None
            return self.file_views
        return self.registry if view.deferred is None else view.deferred.registry

    def standing(self, form: str, wanted: Spelling, epoch: int) -> ViewState | None:
        """Returns a view whose content at an epoch is the result of a query of this form and spelling."""
        for view in self.by_name.values():
            if view.form == form and view.failure is None and view.epoch == epoch and view.spelling == wanted:
                return view
        return None

    def held_bytes(self) -> int:
        """The memory of held contents."""
        return sum(content.held_bytes() for content in self.readers)

    def reserved_bytes(self) -> int:
        """The memory that held contents, with the quads that they read, were estimated to need."""
        return sum(content.reserved_bytes for content in self.readers)

    # Epochs

    def record(self, epoch: int, results: Mapping[Materialization, Mapping[Row, int]]) -> dict[str, Delta]:
        """Records the changes of contents in the history of each view; returns the views' deltas."""
        return {
            view.name: delta
            for content, rows in results.items()
            if rows
            for view in self.readers.get(content, ())
            if (delta := view.history.record(epoch, rows))
        }

    def fail(self, failed: Mapping[Materialization, Exception], epoch: int) -> None:
        """Marks the views of failed contents as failed; they do not block the epoch."""
        for content, error in failed.items():
            for view in list(self.readers.get(content, ())):
                view.fail(
                    f"View {view.name!r} failed in epoch {epoch}: {type(error).__name__}: {error}. "
                    f"Register it again to recompute it."
                )
                self.release(view)

    def note_choices(self, epoch: int, carried: Mapping[CompiledPlan, Choice]) -> dict[str, Choice]:
        """Records how each view was carried, if it had a choice of strategies; returns these choices."""
        choices: dict[str, Choice] = {}
        if not carried:
            return choices
        for content, views in self.readers.items():
            for compiled in content.carried_by():
                if compiled in carried:
                    choices.update({view.name: carried[compiled] for view in views})
        for name, choice in choices.items():
            self.by_name[name].chose(epoch, choice)
        return choices

    # Views that read views

    def graph_of(self, name: str) -> Operator:
        """Returns the plan of a view's graph, for a query that reads `GRAPH <view:name>`."""
        view = self.state(name)
        if view.form not in GRAPH_FORMS:
            raise Error(
                f"View {name!r} has no graph: only CONSTRUCT and DESCRIBE views can be read as "
                f"<view:{name}>, and its query form is {view.form}."
            )
        return view.plan

    def check_no_cycle(self, name: str, read: Sequence[str]) -> None:
        """Rejects a view that would read its own graph through the views that it reads."""
        ways: dict[str, tuple[str, ...]] = dict.fromkeys(read, ())
        waiting = list(ways)
        while waiting:
            other = waiting.pop()
            if other == name:
                through = f" through {', '.join(map(repr, ways[other]))}" if ways[other] else ""
                raise Unsupported(
                    f"View {name!r} would read its own graph{through}. Views that depend on themselves are "
                    f"not supported."
                )
            for further in views_read(self.by_name[other].query) if other in self.by_name else ():
                if further not in ways:  # visit each view once, however many ways lead to it
                    ways[further] = (*ways[other], other)
                    waiting.append(further)

    def check_not_read(self, name: str) -> None:
        """Rejects dropping or replacing a view whose graph other views read."""
        readers = [view.name for view in self.by_name.values() if name in views_read(view.query)]
        if readers:
            raise Error(
                f"View {name!r} is read by view {readers[0]!r} as <view:{name}>. Drop {readers[0]!r} first, "
                f"and register it again afterwards."
            )


def readable(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Sorts the views of a store so that each comes after the views that it reads."""
    waiting = {entry[0]: (entry, views_read(parse_query(entry[1], entry[2]))) for entry in entries}
    while waiting:
        ready = [name for name, (_, read) in waiting.items() if not any(other in waiting for other in read)]
        if not ready:  # registration rejects this
            raise StoreFailed(
                f"The stored views {', '.join(map(repr, list(waiting)[:5]))} read each other's graphs, so "
                f"none can be loaded. The catalog is damaged: restore the store from a backup."
            )
        yield from (waiting.pop(name)[0] for name in ready)
