"""Gives back the terms that nothing uses any more.

Otherwise a session in memory would keep every term forever: values that change are new terms in each epoch.
Owns when a sweep is due, and what uses terms: quads, rows and state of views, constants of their plans,
changes that were not carried yet, and deltas that callers hold. The dictionary itself keeps what a request
has captured (`rdf/leaving.py`). A store has its terms in files; there, only the terms of temporary
views are swept. Invariant: an id that can be read has its term.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.live.terms import Terms
from sparqlive.sparql.algebra import Term, parts_of
from sparqlive.zset.run import Column, RunRows

if TYPE_CHECKING:
    from sparqlive.engine.results import Delta
    from sparqlive.engine.writer import Writer

CHANGES_PER_COUNT = 256
"""Number of changed quads after which terms are counted; counting is too slow for each small change."""
_NO_IDS: Column = np.empty(0, dtype=np.int64)


class HeldDeltas:
    """Deltas in no history that callers may hold; their terms are decoded when a caller reads them."""

    def __init__(self, few: int) -> None:
        """`few`: number of deltas below which it is not worth looking for those that are gone."""
        self._deltas: list[ref[Delta]] = []
        self._few = self._look_at = few
        self._looking = threading.Lock()

    def add(self, delta: Delta) -> None:
        self._deltas.append(ref(delta))
        if len(self._deltas) > self._look_at:
            self._forget_gone()

    def _forget_gone(self) -> None:
        if self._looking.acquire(blocking=False):
            try:
                count = len(self._deltas)
                held = [one for one in self._deltas[:count] if one() is not None]
                self._deltas[:count] = held  # other threads may have added some
                self._look_at = max(self._few, 2 * len(held))
            finally:
                self._looking.release()

    def ids(self) -> Iterator[Column]:
        """The ids in the rows of all held deltas."""
        for one in list(self._deltas):
            if (delta := one()) is not None:
                yield from _ids_in(delta.rows)

    def __len__(self) -> int:
        return len(self._deltas)


class Sweeper:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.deltas = HeldDeltas(writer.tuning.swept_terms)
        self._thread: threading.Thread | None = None
        self._changes = 0

    def count(self, changes: int) -> None:
        """Counts the changed quads of an epoch, and starts a sweep if one is due; called under the lock."""
        self._changes += changes
        if self._changes >= CHANGES_PER_COUNT:
            self._changes = 0
            if any(map(self._is_due, self._swept())):
                self._start()

    def _is_due(self, terms: Terms) -> bool:
        quads = self._writer.quads.size if terms is self._writer.terms else 0
        used = terms.swept_terms
        return terms.dictionary.entered - used > max(self._writer.tuning.swept_terms, used, quads)

    def _swept(self) -> list[Terms]:
        """The terms of the session, unless they are in a store, and those of temporary views."""
        session = self._writer.terms
        return [session, *self._temporary_terms()] if session.dictionary.is_swept else self._temporary_terms()

    def _temporary_terms(self) -> list[Terms]:
        found = (view.terms for view in self._writer.views.by_name.values() if view.temporary)
        return list(dict.fromkeys(found))

    def _start(self) -> None:
        """Sweeps in a separate thread, once it has the lock: work in progress may hold ids that nothing else
        uses."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._in_background, name="sparqlive-sweep", daemon=True)
            self._thread.start()

    def _in_background(self) -> None:
        try:
            with self._writer.changing():
                if not self._writer.closed:
                    self.sweep()
        finally:
            self._thread = None

    def sweep(self) -> None:
        """Gives back what nothing uses; called under the lock, between epochs."""
        swept = self._swept()
        used = _distinct(chain(self._used(), *(terms.ids() for terms in swept)))
        self._writer.forget_terms()
        for terms in swept:
            terms.sweep(used)

    def used_bytes(self) -> int:
        """The memory of terms, and of the deltas that are held."""
        terms = sum(terms.dictionary.nbytes for terms in (self._writer.terms, *self._temporary_terms()))
        return terms + sum(view.history.nbytes for view in self._writer.views.by_name.values())

    def _used(self) -> Iterator[Column]:
        writer = self._writer
        if writer.terms.dictionary.is_swept:
            writer.quads.forget_empty()
            yield from writer.quads.ids()
            yield from writer.assertions.ids()
        for changes in (*writer.net_changes, *(one.gathered for one in writer.views.later.values())):
            yield from _ids_in(changes)
        yield from self.deltas.ids()
        for view in writer.views.by_name.values():
            for delta in view.history.deltas:
                yield from _ids_in(delta.rows)
        compiled, plans = dict[Any, None](), dict[int, Any]()
        for content, views in writer.views.readers.items():
            compiled.update(dict.fromkeys(content.carried_by()))
            for part in content.stored_parts():
                if part.rows is not None and part.is_held:
                    yield from part.rows.ids()
            for view in views:
                plans[id(view.plan)] = view.plan, view.terms
                plans[id(content.plan)] = content.plan, view.terms
        for one in compiled:
            yield from one.ids()
            plans[id(one.plan)] = one.plan, one.compiler.terms
        for plan, terms in plans.values():
            find = terms.dictionary.find
            found = [number for term in _constants(plan) if (number := find(term)) is not None]
            yield np.array(found, np.int64)


def _constants(item: Any) -> Iterator[Term]:
    """The terms in a plan."""
    if isinstance(item, NamedNode | BlankNode | Literal):
        yield item
    elif isinstance(item, frozenset | list):
        for part in item:
            yield from _constants(part)
    else:
        for part in parts_of(item):
            yield from _constants(part)


def _ids_in(rows: Mapping[Any, int]) -> Iterable[Column]:
    """The ids in rows."""
    if type(rows) is RunRows:
        return rows.run.columns
    return [np.fromiter(chain.from_iterable(rows), np.int64)]


def _distinct(parts: Iterable[Column]) -> Column:
    """All ids, sorted and distinct; merges some parts at a time."""
    found, waiting, size = _NO_IDS, list[Collection[int]](), 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size > max(1 << 16, len(found)):
            found, waiting, size = np.unique(np.concatenate([found, *waiting])), [], 0
    return np.unique(np.concatenate([found, *waiting]))
