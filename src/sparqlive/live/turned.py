"""Runs of pairs in the other direction: object, subject.

Owns the turned runs that queries made, within a bound on their memory, and marks that tell which runs need no
scan. A run never changes, so what was made from it stays right; a run that an epoch replaces takes its turned
run with it.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from threading import Lock
from typing import TypeAlias
from weakref import ref

import numpy as np
import numpy.typing as npt

from sparqlive.sparql import memory
from sparqlive.zset.run import Column, Run

Marks: TypeAlias = npt.NDArray[np.uint8]

_MOST_BYTES = 1 << 30
# At most this share of the machine's memory.
_SHARE = 1 / 16
_SAMPLE = 10_000
_MOST_REPAIRED = 1_000
_MOST_ESTIMATES = 10_000
_MOST_MARK_BITS = 1 << 25
_MOST_MARK_BYTES = 1 << 26


def turned(run: Run) -> Run:
    """The run with its two columns exchanged. It is sorted by the second already, so one sort is enough."""
    firsts, seconds = run.columns
    order = _order_of(seconds)
    return Run([seconds[order], firsts[order]])


def _order_of(values: Column) -> Column:
    """The places of the values in their order, equal ones as they come.

    Plain numbers are sorted several times faster than places. So the top bits of each value are sorted
    together with its place. Ids are hashes: hardly ever do two of them differ only in their other bits, and
    these are put in order afterwards.
    """
    place_bits = max(1, (len(values) - 1).bit_length())
    below = np.uint64((1 << place_bits) - 1)
    tops = (values.view(np.uint64) ^ np.uint64(1 << 63)) & ~below
    tops |= np.arange(len(values), dtype=np.uint64)
    tops.sort()
    order = (tops & below).view(np.int64)
    ordered = values[order]
    wrong = np.flatnonzero(ordered[1:] < ordered[:-1])
    if len(wrong) > _MOST_REPAIRED:
        return np.argsort(values, kind="stable")
    for top in np.unique(tops[wrong] & ~below):
        part = slice(np.searchsorted(tops, top), np.searchsorted(tops, top | below, "right"))
        order[part] = order[part][np.argsort(values[order[part]], kind="stable")]
    return order


def _fan_out(run: Run) -> float:
    """Ids are hashes, so a range of them is a sample of the values."""
    values, size = run.columns[1], run.length
    if size <= _SAMPLE:
        return size / len(np.unique(values))
    among = len(np.unique(values[:: size // _SAMPLE]))
    part = size // _SAMPLE + 1
    below = np.int64(-(1 << 63) + (1 << 64) // part)
    return size / max(among, part * len(np.unique(values[values < below])))


def _marks(run: Run) -> Marks:
    """A bit for each value of some low bits of the ids in the second column: whether some id has it."""
    size = min(_MOST_MARK_BITS, 1 << (8 * run.length).bit_length())
    is_there = np.zeros(size, dtype=bool)
    is_there[run.columns[1] & (size - 1)] = True
    return np.packbits(is_there, bitorder="little")


def _is_marked(marks: memoryview, value: int) -> bool:
    place = value & (8 * len(marks) - 1)
    return bool(marks[place >> 3] >> (place & 7) & 1)


class TurnedRuns:
    """Turned runs by the run they were made from; those that were not used for longest are dropped first."""

    def __init__(self) -> None:
        self._made: OrderedDict[int, tuple[ref[Run], Run]] = OrderedDict()
        self._bytes = 0
        self._fan_outs: dict[int, tuple[ref[Run], float]] = {}
        self._scanned: dict[int, tuple[ref[Run], int]] = {}
        self._counts: dict[tuple[int, int], tuple[ref[Run], int]] = {}
        self._marks: dict[int, tuple[ref[Run], memoryview]] = {}
        self._mark_bytes = 0
        self._guard = Lock()

    def find(self, run: Run | None) -> Run | None:
        """The turned run, if there is one."""
        entry = self._made.get(id(run))
        if entry is None or entry[0]() is not run:
            return None
        with suppress(KeyError):  # it was dropped by another thread just now
            self._made.move_to_end(id(run))
        return entry[1]

    def of(self, run: Run) -> Run:
        """The turned run; makes it if there is none, and keeps it as long as there is room."""
        found = self.find(run)
        if found is None:
            found = turned(run)
            with self._guard:
                self._drop_dead()
                self._add(run, found)
        return found

    def is_wanted(self, run: Run) -> bool:
        """Whether queries have scanned so much of a run that it should be turned now.

        A sort takes as long as some 100 scans. But whoever finds an object of a predicate looks for others.
        """
        known = self._scanned.get(id(run))
        return known is not None and known[0]() is run and known[1] >= run.length

    def note_scan(self, run: Run, rows: int) -> None:
        """Notes that a query scans some rows, and that it finds what it looks for."""
        known = self._scanned.get(id(run))
        before = known[1] if known is not None and known[0]() is run else 0
        if len(self._scanned) > _MOST_ESTIMATES:
            self._scanned = {}
        self._scanned[id(run)] = (ref(run), before + rows)

    def lacks(self, run: Run, value: int) -> bool:
        """Whether it is known that the second column of a run has no such value."""
        marks = self._marks.get(id(run))
        if marks is None or marks[0]() is not run:
            return False
        return not _is_marked(marks[1], value) or self._counted(run, value) == 0

    def note_absence(self, run: Run, value: int) -> None:
        """Notes that a scan has not found a value, and marks the values that the run has."""
        self._note_count(run, value, 0)
        known = self._marks.get(id(run))
        if known is not None and known[0]() is run:
            return
        marks = _marks(run).data
        with self._guard:
            if self._mark_bytes > _MOST_MARK_BYTES:
                self._marks, self._mark_bytes = {}, 0
            self._marks[id(run)] = (ref(run), marks)
            self._mark_bytes += marks.nbytes

    def count(self, run: Run, value: int) -> int:
        """How many rows of a run that is not turned have a value in the second column."""
        found = self._counted(run, value)
        if found is None:
            found = 0 if self.lacks(run, value) else int(np.count_nonzero(run.columns[1] == value))
            if found:
                self.note_scan(run, run.length // 2)  # the query that counts is about to scan, too
                self._note_count(run, value, found)
            else:
                self.note_absence(run, value)
        return found

    def _counted(self, run: Run, value: int) -> int | None:
        known = self._counts.get((id(run), value))
        return known[1] if known is not None and known[0]() is run else None

    def _note_count(self, run: Run, value: int, count: int) -> None:
        if len(self._counts) > _MOST_ESTIMATES:
            self._counts = {}
        self._counts[(id(run), value)] = (ref(run), count)

    def fan_out(self, run: Run) -> float:
        """The mean number of rows per value of the second column, estimated."""
        known = self._fan_outs.get(id(run))
        if known is not None and known[0]() is run:
            return known[1]
        found = _fan_out(run)
        if len(self._fan_outs) > _MOST_ESTIMATES:
            self._fan_outs = {}
        self._fan_outs[id(run)] = (ref(run), found)
        return found

    def _add(self, run: Run, made: Run) -> None:
        self._remove(id(run))
        self._made[id(run)] = (ref(run), made)
        self._bytes += made.nbytes
        room = memory.room(_SHARE)
        most = _MOST_BYTES if room is None else min(_MOST_BYTES, room)
        while self._made and self._bytes > most:
            self._remove(next(iter(self._made)))

    def _drop_dead(self) -> None:
        for number in [number for number, (of, _) in self._made.items() if of() is None]:
            self._remove(number)

    def _remove(self, number: int) -> None:
        entry = self._made.pop(number, None)
        if entry is not None:
            self._bytes -= entry[1].nbytes

    @property
    def nbytes(self) -> int:
        return self._bytes
