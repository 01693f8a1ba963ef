"""The base of a store's quads in whole sorted orders, mapped from files derived from its runs.

Owns the names of these files, and which of them exist. An order is created when it is first needed, and
created again if its file is missing, damaged or derived from something else. Invariants: nothing is kept per
graph or predicate; readers create files, and only the writer of a store removes them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
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

        `directory`: the store's. `runs`: the files of its base. `memory`: approximate bytes for sorting.
        `progress` is called while an order is created; an exception from it ends the creation.
        """
        assert all(run.epoch is None for run in runs), "changes after the base are not in its maps"
        self._folders = MapFolders(directory)
        self._place = place
        self._runs = sorted(runs, key=lambda run: run.path)
        self._memory = memory
        self._directory_rows = directory_rows
        self._progress = progress
        self._open: dict[Order, _Open] = {}
        self._guard = RLock()
        self.size = sum(run.rows for run in runs)
        self.paths = {run.path for run in runs}
        """The files that the maps are derived from."""
        self.prepare(["pso"])
        self.is_mixed = bool(self.size and self._parts("pso").parts.several.any())
        """Whether some predicate has quads in several graphs."""

    # Reading

    def predicates(self) -> Column:
        """All predicates, in order."""
        return self._parts("pso").parts.predicates if self.size else _NONE

    def has(self, predicate: int) -> bool:
        """Whether a predicate has quads."""
        return bool(self.size) and self._parts("pso").find(predicate) is not None

    def graph_of(self, predicate: int) -> int | None:
        """The graph of all quads of a predicate; None if it has quads in several graphs, or none."""
        if not self.size:
            return None
        parts = self._parts("pso")
        place = parts.find(predicate)
        return None if place is None or parts.several[place] else parts.graphs[place]

    def part(self, order: Order, predicate: int) -> Run | None:
        """The rows of a predicate, in order "pso" or "pos": s and o, or o and s, and g if it varies.

        None if there are none.
        """
        if not self.size:
            return None
        parts = self._parts(order)
        place = parts.find(predicate)
        if place is None:
            return None
        names = COLUMNS[order] if parts.several[place] else COLUMNS[order][:2]
        start, stop = parts.starts[place], parts.starts[place + 1]
        directory = parts.directory_starts[place], parts.directory_starts[place + 1]
        if directory[0] == directory[1]:
            return parts.map.run(names, start=start, stop=stop)
        return parts.map.run(
            names, directory="directories", start=start, stop=stop, directory_range=directory
        )

    def whole(self, order: Order) -> Run:
        """All quads, in order "spo", "osp", "gpso" or "gpos", in columns of this order and g at the end."""
        if not self.size:
            return Run([_NONE] * len(COLUMNS[order]))
        found = self._of(order)
        assert isinstance(found, _OpenWhole), "orders by predicate are read by predicate"
        return found.run

    def _parts(self, order: Order) -> _OpenParts:
        found = self._open.get(order) or self._of(order)
        assert isinstance(found, _OpenParts), "only orders by predicate have parts"
        return found

    @property
    def orders(self) -> list[Order]:
        """The orders that are in use."""
        return [*self._open]

    # Creating

    def prepare(self, orders: Iterable[Order]) -> None:
        """Creates orders, unless they exist."""
        if self.size:
            for order in orders:
                self._of(order)

    def replace(self, error: UnusableMap) -> bool:
        """Recreates the order whose file turned out to be damaged while it was read.

        Existing runs still read the old file. Returns False if the file does not belong to this base.
        """
        with self._guard:
            for order, found in self._open.items():
                if found.map is error.source:
                    self._open[order] = self._created_for(order, error)
                    return True
        return error.source is not None and error.source.path.name in self._own_names()

    def _of(self, order: Order) -> _Open:
        """An order, opened or created."""
        found = self._open.get(order)
        if found is None:
            with self._guard:
                found = self._open.get(order)
                if found is None:
                    try:
                        found = _opened(order, self._folders.open(*self._named(order)))
                    except UnusableMap as error:
                        found = self._created_for(order, error)
                    self._open[order] = found
        return found

    def _created_for(self, order: Order, error: UnusableMap) -> _Open:
        """Creates an order whose file is missing or damaged."""
        found = self._created(order)
        if error.source is not None and error.source.path != found.map.path:
            # Its file is in the other folder, where it would be opened again.
            with suppress(OSError):
                error.source.path.unlink()
        return found

    def _created(self, order: Order) -> _Open:
        folder, (name, sources) = self._folders.for_writing(), self._named(order)
        target = Target(order, folder, name, sources, self._memory, self._directory_rows, self._progress)
        self._build(target)
        try:
            return _opened(order, folder.open(name, sources))
        except UnusableMap:  # the store's writer, which has a newer base, has removed it
            self._build(target)
            return _opened(order, folder.open(name, sources))

    def _build(self, target: Target) -> None:
        source = MADE_OF.get(target.order)
        if source is None:
            build_from_runs(target, self._place, self._runs)
            return
        build = build_by_object if target.order == "pos" else build_whole
        try:
            build(target, self._of(source).map)
        except UnusableMap as error:  # raised by reading the source
            self.replace(error)
            build(target, self._of(source).map)

    def _named(self, order: Order) -> tuple[str, list[str]]:
        """The file name of an order, and its sources."""
        inputs = [f"{run.path} {run.digests[:8].hex()}" for run in self._runs]
        sources = [f"quads {order} {_VERSION}", *inputs]
        digest = xxh3_128_hexdigest("\n".join(sources).encode())
        return f"{order}-{digest}.map", sources

    # Removing

    def remove_others(self) -> None:
        """Removes the maps of other bases, and leftovers of killed processes; only for the writer."""
        own = self._own_names()
        for folder in self._folders.existing():
            folder.remove_unfinished()
            for name in folder.names():
                if _NAME.fullmatch(name) and name not in own:
                    folder.remove(name)

    def _own_names(self) -> set[str]:
        return {self._named(order)[0] for order in COLUMNS}


class _OpenParts:
    """An open order by predicate, with its table as memoryviews for fast lookups."""

    __slots__ = ("directory_starts", "graphs", "map", "parts", "predicates", "several", "starts")

    def __init__(self, quad_map: Map) -> None:
        self.map = quad_map
        self.parts = parts = Parts.in_map(quad_map)
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


class _OpenWhole:
    """An open order of all quads."""

    __slots__ = ("map", "run")

    def __init__(self, quad_map: Map, names: Sequence[str]) -> None:
        self.map = quad_map
        self.run = quad_map.run(names, directory="directory")


_Open = _OpenParts | _OpenWhole


def _opened(order: Order, quad_map: Map) -> _Open:
    names = COLUMNS[order]
    return _OpenParts(quad_map) if len(names) == 3 else _OpenWhole(quad_map, names)
