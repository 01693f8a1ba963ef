"""Terms that a dictionary gives back, while requests may still read them.

A request reads what it captured at one moment, for as long as it likes, without blocking the writer. So a
term that a sweep finds unused leaves only when no request remains that began while the dictionary had the
term, or that has found it since. Owns the requests, and how many sweeps came before each term. Invariant:
a request that is never finished keeps no term that came after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from weakref import WeakSet

import numpy as np

from sparqlive.rdf.term_columns import Ids

_NONE: Ids = np.empty(0, np.int64)


class Request:
    """Keeps the terms of one moment until it is gone, and those that it has found since."""

    __slots__ = ("__weakref__", "_older", "begun", "found", "lock")

    def __init__(self, begun: int, lock: Lock, older: Request | None) -> None:
        """`begun`: how many sweeps came before it. `older`: the same in the dictionary that is extended."""
        self.begun = begun
        self.lock = lock
        """Held while a term is found, so that no sweep decides about it meanwhile."""
        self._older = older
        self.found: set[int] = set() if older is None else older.found


class Leaving:
    def __init__(self, lock: Lock | None = None) -> None:
        """`lock`: that of the dictionary which is extended, if it is swept too."""
        self.lock = lock or Lock()
        self.texts: dict[int, str] = {}
        """Terms that only requests may still read. Replaced by each sweep, never changed."""
        self.sweeps = 0
        self._spans: dict[int, tuple[int, int]] = {}
        """Of these terms: how many sweeps came before each was entered, and before it left."""
        self._entered: tuple[Ids, Ids] = _NONE, _NONE
        """The ids that the last sweep left, sorted, and how many sweeps came before each was entered."""
        self._requests: WeakSet[Request] = WeakSet()

    def request(self, older: Request | None) -> Request:
        """Begins a request; called when it captures what it reads, so that no sweep comes in between."""
        made = Request(self.sweeps, self.lock, older)
        with self.lock:
            self._requests.add(made)
        return made

    def returned(self, used: Ids) -> dict[int, str]:
        """Those of the leaving terms that are used again."""
        wanted = set(used[np.isin(used, np.array(list(self.texts), np.int64))].tolist()) if self.texts else ()
        return {number: self.texts[number] for number in wanted}

    def take(self, gone: Mapping[int, str]) -> None:
        """Takes terms that are unused now, before they leave their place."""
        entered = self._sweeps_before(np.fromiter(gone, np.int64, len(gone))).tolist()
        self._spans.update(
            (number, (since, self.sweeps)) for number, since in zip(gone, entered, strict=True)
        )
        self.texts = {**self.texts, **gone}

    def settle(self, ids: Ids) -> None:
        """Drops what no request can read; `ids`, sorted, are those that the sweep has left."""
        with self.lock:
            requests = list(self._requests)
            begun = sorted({request.begun for request in requests})
            found = set[int]().union(*(request.found for request in requests))
            here = set(ids[np.isin(ids, np.array(list(self.texts), np.int64))].tolist()) if self.texts else ()
            since = self._sweeps_before(ids)
            for number in here:  # used again: a request from before may still read it
                since[np.searchsorted(ids, number)] = self._spans[number][0]
            self.texts = {
                number: text
                for number, text in self.texts.items()
                if number not in here and (number in found or _is_between(begun, *self._spans[number]))
            }
        self._spans = {number: self._spans[number] for number in self.texts}
        self._entered = ids, since
        self.sweeps += 1

    def _sweeps_before(self, ids: Ids) -> Ids:
        """How many sweeps came before each of the ids was entered."""
        known, sweeps = self._entered
        if not len(known):
            return np.full(len(ids), self.sweeps)
        places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[places] == ids, sweeps[places], self.sweeps)


def _is_between(begun: list[int], entered: int, left: int) -> bool:
    return any(entered <= one <= left for one in begun)
