"""The base of a store's quads in whole sorted orders, mapped from files that are derived from its runs.

Owns the names of these files, and which of them exist. An order is created when it is first needed, and
created again if its file is missing, damaged or derived from something else. Invariants: nothing is kept per
graph or predicate; readers create files, and only the writer of a store removes them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import RLock

import numpy as np
from xxhash import xxh3_128_hexdigest

from sparqlive.store import bounds
from sparqlive.store.map_folder import MapFolders
from sparqlive.store.maps import Map, UnusableMap
from sparqlive.store.place import Place
from sparqlive.store.quad_map_building import (
    COLUMNS,
    MADE_OF,
    Order,
    Parts,
    Progress,
    Target,
    build_by_object,
    build_from_runs,
    build_whole,
)
from sparqlive.store.runs import RunFile
from sparqlive.zset.run import Column, Run

DIRECTORY_ROWS = 4096
"""Parts of fewer rows have no directory: bisecting them takes 0.3 µs longer."""
_VERSION = 1
_NAME = re.compile(rf"({'|'.join(COLUMNS)})-[0-9a-f]{{32}}\.map")
_NONE = np.empty(0, dtype=np.int64)


class QuadMaps:
    """The base of a store's quads in several orders."""

    is_mapped = True

    def __init__(
        self,
        directory: Path,
        place: Place,
        runs: Sequence[RunFile],
        *,
        memory: int = bounds.SORT_BYTES,
        directory_rows: int = DIRECTORY_ROWS,
        progress: Progress | None = None,
    ) -> None:
        """Opens the order by predicate and subject, or creates it.

        `directory`: of the store. `runs`: the files of its base. `memory`: about how many bytes may be used
        to sort. `progress` is called while an order is created; what it raises ends this.
        """
        assert all(run.epoch is None for run in runs), "changes after the base are not in its maps"
        self._folders = MapFolders(directory)
        self._place = place
        self._runs = sorted(runs, key=lambda run: run.path)
        self._memory = memory
        self._directory_rows = directory_rows
        self._progress = progress
        self._maps: dict[Order, Map] = {}
        self._parts: dict[Order, _Places] = {}
        self._wholes: dict[Order, Run] = {}
        self._guard = RLock()
        self.size = sum(run.rows for run in runs)
        self.paths = {run.path for run in runs}
        """The files that the maps are derived from."""
        if self.size:
            self._map("pso")

    # Reading

    def predicates(self) -> Column:
        """All predicates, in order."""
        return self._table("pso").parts.predicates if self.size else _NONE

    def sizes(self) -> Column:
        """The number of quads of each predicate."""
        return np.diff(self._table("pso").parts.starts) if self.size else _NONE

    def graph_of(self, predicate: int) -> int | None:
        """The graph of all quads of a predicate; None if there are several, or no quads."""
        if not self.size:
            return None
        table = self._table("pso")
        place = table.find(predicate)
        return None if place is None or table.several[place] else table.graphs[place]

    def part(self, order: Order, predicate: int) -> Run | None:
        """The rows of a predicate, in order "pso" or "pos": s and o, or o and s, and g if it varies.

        None if there are none.
        """
        if not self.size:
            return None
        table = self._table(order)
        place = table.find(predicate)
        if place is None:
            return None
        names = COLUMNS[order] if table.several[place] else COLUMNS[order][:2]
        start, stop = table.starts[place], table.starts[place + 1]
        first, last = table.directory_starts[place], table.directory_starts[place + 1]
        if first == last:
            return self._maps[order].run(names, start=start, stop=stop)
        return self._maps[order].run(
            names, directory="directories", start=start, stop=stop, directory_range=(first, last)
        )

    def whole(self, order: Order) -> Run:
        """All quads, in order "spo", "osp", "gpso" or "gpos", in columns of this order and g at the end."""
        names = COLUMNS[order]
        assert len(names) == 4, "orders by predicate are read by predicate"
        run = self._wholes.get(order)
        if run is None:
            if self.size:
                run = self._map(order).run(names, directory="directory")
            else:
                run = Run([_NONE] * len(names))
            self._wholes[order] = run
        return run

    @property
    def orders(self) -> list[Order]:
        """The orders that are in use."""
        return [*self._maps]

    # Creating

    def prepare(self, orders: Iterable[Order]) -> None:
        """Creates orders, unless they exist."""
        if self.size:
            for order in orders:
                self._map(order)

    def replace(self, order: Order) -> None:
        """Creates an order again, because its file turned out to be damaged: reading raised UnusableMap."""
        if not self.size:
            return
        with self._guard:
            self._create(order)
            self._forget(order)

    def _forget(self, order: Order) -> None:
        for kept in (self._maps, self._parts, self._wholes):
            kept.pop(order, None)

    def _table(self, order: Order) -> _Places:
        found = self._parts.get(order)
        if found is None:
            self._map(order)
            found = self._parts[order]
        return found

    def _map(self, order: Order) -> Map:
        found = self._maps.get(order)
        if found is not None:
            return found
        with self._guard:
            if order not in self._maps:
                try:
                    self._open(order)
                except UnusableMap:
                    self._create(order)
                    self._open(order)
            return self._maps[order]

    def _open(self, order: Order) -> None:
        found = self._folders.open(*self._named(order))
        if len(COLUMNS[order]) == 3:
            self._parts[order] = _Places(Parts.in_map(found))
        self._maps[order] = found

    def _create(self, order: Order) -> None:
        folder = self._folders.for_writing()
        target = Target(
            order, folder, *self._named(order), self._memory, self._directory_rows, self._progress
        )
        source = MADE_OF.get(order)
        if source is None:
            build_from_runs(target, self._place, self._runs)
            return
        build = build_by_object if order == "pos" else build_whole
        try:
            build(target, self._map(source))
        except UnusableMap:  # raised by reading the source
            self.replace(source)
            build(target, self._map(source))

    def _named(self, order: Order) -> tuple[str, list[str]]:
        """The name of the file of an order, and what it is derived from."""
        inputs = [f"{run.path} {run.digests[:8].hex()}" for run in self._runs]
        sources = [f"quads {order} {_VERSION}", *inputs]
        digest = xxh3_128_hexdigest("\n".join(sources).encode())
        return f"{order}-{digest}.map", sources

    # Removing

    def remove_others(self) -> None:
        """Removes the maps of other bases, and what killed processes left; only the writer may do so."""
        own = {self._named(order)[0] for order in COLUMNS}
        for folder in self._folders.existing():
            folder.remove_unfinished()
            for name in folder.names():
                if _NAME.fullmatch(name) and name not in own:
                    folder.remove(name)


class _Places:
    """A table of predicates, in a form in which single values are read quickly."""

    __slots__ = ("directory_starts", "graphs", "parts", "predicates", "several", "starts")

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.predicates = parts.predicates.data
        self.starts = parts.starts.data
        self.graphs = parts.graphs.data
        self.several = parts.several.data
        self.directory_starts = parts.directory_starts.data

    def find(self, predicate: int) -> int | None:
        """The place of a predicate in the table."""
        place = bisect_left(self.predicates, predicate)
        if place == len(self.predicates) or self.predicates[place] != predicate:
            return None
        return place
