"""The views of a session: by name, by the content that they read, and those that are refreshed later.

Owns who reads what: contents by views, and graphs of views by other views. Invariant: a content is kept for
as long as a view reads it, and no view reads its own graph, by whatever way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sparqlive.engine.deferred import Deferred
from sparqlive.engine.results import GRAPH_FORMS
from sparqlive.engine.view import View
from sparqlive.errors import Error, UnknownView, Unsupported
from sparqlive.live.content import PlanContent
from sparqlive.live.keeper import Keeper
from sparqlive.plan.operators import Operator
from sparqlive.plan.spelling import Spelt
from sparqlive.plan.unfold import views_read
from sparqlive.sparql.syntax import parse_query

Entry: TypeAlias = tuple[str, str, str | None, int, str]
"""A view as a store lists it: name, text, base, since when it is kept, refresh setting."""


class Views(Mapping[str, View]):
    """The views by name."""

    def __init__(self, keeper: Keeper, temporary: Keeper) -> None:
        self.keeper = keeper
        """Of the contents that follow every epoch."""
        self.temporary = temporary
        """Of those of temporary views, which share nothing with others."""
        self.by_name: dict[str, View] = {}
        self.readers: dict[PlanContent, list[View]] = {}
        self.later: dict[View, Deferred] = {}
        self._observers: list[Callable[[View], None]] = []

    def __getitem__(self, name: str) -> View:
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
        """Has an observer hear of each view that is kept no longer, under the lock."""
        self._observers.append(observer)

    # Contents

    def add(self, view: View) -> None:
        self.by_name[view.name] = view
        self.readers.setdefault(view.content, []).append(view)
        if view.deferred is not None:
            self.later[view] = view.deferred

    def give(self, view: View, content: PlanContent) -> None:
        """A view whose content was released reads another one."""
        view.read(content)
        self.readers.setdefault(content, []).append(view)

    def remove(self, name: str) -> View:
        """There is no view of that name any more."""
        view = self.by_name.pop(name)
        self.release(view)
        return view

    def release(self, view: View) -> None:
        """A view reads nothing any more."""
        if not self.release_content(view):
            return
        if view.deferred is not None:
            self.later.pop(view).stop()
        for observer in self._observers:
            observer(view)

    def release_content(self, view: View) -> bool:
        """Gives back what a view reads; whether that was not done before."""
        readers = self.readers.get(view.content, [])
        if view not in readers:
            return False
        readers.remove(view)
        if not readers:
            del self.readers[view.content]
        self.keeper_of(view).release(view.content)
        return True

    def keeper_of(self, view: View) -> Keeper:
        if view.temporary:
            return self.temporary
        return self.keeper if view.deferred is None else view.deferred.keeper

    def standing(self, form: str, wanted: Spelt, epoch: int) -> View | None:
        """A view that has the result of a query, given by its form and plan, at an epoch."""
        for view in self.by_name.values():
            if view.form == form and view.failure is None and view.epoch == epoch and view.spelt == wanted:
                return view
        return None

    # Views that read views

    def graph_of(self, name: str) -> Operator:
        """The plan of the graph of a view, for a query that reads `GRAPH <view:name>`."""
        view = self[name]
        if view.form not in GRAPH_FORMS:
            raise Error(
                f"View {name!r} is no graph: only views of CONSTRUCT and DESCRIBE can be read as "
                f"<view:{name}>, and it is one of {view.form}."
            )
        return view.plan

    def check_no_cycle(self, name: str, read: Sequence[str]) -> None:
        """Refuses a view that reads others if one of them comes to read it."""
        ways: dict[str, tuple[str, ...]] = dict.fromkeys(read, ())
        waiting = list(ways)
        while waiting:
            other = waiting.pop()
            if other == name:
                through = f", by way of {', '.join(map(repr, ways[other]))}" if ways[other] else ""
                raise Unsupported(
                    f"View {name!r} would read its own graph{through}: a view that depends on itself cannot "
                    f"be kept."
                )
            for further in views_read(self[other].query) if other in self.by_name else ():
                if further not in ways:  # each view is looked at once, however many ways lead to it
                    ways[further] = (*ways[other], other)
                    waiting.append(further)

    def check_not_read(self, name: str) -> None:
        """Refuses to let go of a view whose graph others read."""
        readers = [view.name for view in self.values() if name in views_read(view.query)]
        if readers:
            raise Error(
                f"View {name!r} is read by view {readers[0]!r} as <view:{name}>: drop that one first, and "
                f"register it again afterwards."
            )


def readable(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The views of a store, those that others read before their readers."""
    waiting = {entry[0]: (entry, views_read(parse_query(entry[1], entry[2]))) for entry in entries}
    while waiting:
        ready = [name for name, (_, read) in waiting.items() if not any(other in waiting for other in read)]
        yield from (waiting.pop(name)[0] for name in ready)
