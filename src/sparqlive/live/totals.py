"""The state of groups that follow from totals: one row of totals per group, and the rows they leave out.

A change reads the row of each group that it touches, and no rows of the source. `others` has the rows of the
source with a number that totals leave out (`sparql/aggregates.py`): a group that has some adds them when it
first changes. Large changes, and first contents, are summed by columns. Beyond a number of groups, those in
memory are given up, and read again when they change. Invariants: `totals` and `others` are as before the
epoch until `commit`; a group without an entry here has all of its rows in runs, and none in an overlay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparqlive.live.group import BYTES_PER_GROUP, MOST_GROUPS, Grouped, Groups, beginning
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.totals import follows_from_totals, places_of_others, places_of_wide, width
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.sparql.aggregates import HALF, SUMS, Group
from sparqlive.sparql.columns import typed
from sparqlive.sparql.values import DECIMAL, DOUBLE
from sparqlive.zset.columns import COLUMN_ROWS
from sparqlive.zset.kept import Kept
from sparqlive.zset.order import lexicographic
from sparqlive.zset.relation import Relation, Row, change_between
from sparqlive.zset.run import Column, Run, RunRows, search

Rows = Mapping[Row, int] | Run

_PIECE_ROWS = 1 << 20
"""So many rows are summed at a time."""
_WORD = 32
_MASK = (1 << _WORD) - 1
_LARGEST_WEIGHTS = 1 << 31
"""Sums of words with such weights fit in 64 bits."""


def state(operator: op.Group, terms: Terms) -> Grouped:
    """The state of a Group."""
    return (TotalGroups if follows_from_totals(operator) else Groups)(operator, terms)


class _Known:
    """A group in memory, its row and its totals, or None; and the totals after the epoch."""

    __slots__ = ("group", "next", "row", "totals")

    def __init__(self, group: Group, row: Row | None, totals: Row | None) -> None:
        self.group = group
        self.row = row
        self.totals = totals
        self.next: Row | None = None


class TotalGroups(Grouped):
    """The state of a Group that follows from totals."""

    def __init__(self, operator: op.Group, terms: Terms) -> None:
        super().__init__(operator, terms)
        self._terms = terms
        self._columns = _Columns(operator, terms)
        self._others_at = places_of_others(operator)
        self.totals = Relation(width(operator))
        self.others = Relation(len(operator.source.variables))
        self._groups: dict[Row, _Known] = {}
        self._touched: dict[Row, _Known] = {}
        self._change: Mapping[Row, int] = {}
        self._carried = False
        self._staged: tuple[Mapping[Row, int], Mapping[Row, int]] | None = None
        """The changes of the two relations in the current epoch, once they are known."""

    def load(self, rows: Rows) -> None:
        """Takes the content of the source."""
        self.take(*map(Relation, (self.totals.arity, self.others.arity), self._relations_of(rows)))

    def take(self, totals: Relation, others: Relation) -> None:
        """Takes stored rows, and forgets those that it had."""
        self.totals, self.others = totals, others
        self.begin()

    def begin(self) -> None:
        """Begins with the stored rows, and without groups in memory; between epochs."""
        self._groups = {}
        self.totals.merge()
        self.others.merge()

    def _relations_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """The totals of a content of the source, and its rows that they leave out."""
        if isinstance(rows, RunRows):
            rows = rows.run
        if isinstance(rows, Run):
            return self._columns.relations_of(rows)
        totals: dict[Row, int] = {}
        with_others: set[Row] = set()
        for key, group in self._group_rows(rows.items()).items():
            if group.weight:
                own = (*key, *group.totals())
                totals[own] = 1
                if any(own[place] for place in self._others_at):
                    with_others.add(key)
        return totals, self._others_among(rows, with_others)

    def _others_among(self, rows: Mapping[Row, int], keys: set[Row]) -> dict[Row, int]:
        """Those of some rows that totals leave out, given the groups that may have some."""
        if not keys:
            return {}
        key_width, has_others = self._width, self._grouping.has_others
        return {row: weight for row, weight in rows.items() if row[:key_width] in keys and has_others(row)}

    # Single groups

    def _state_of(self, key: Row) -> _Known:
        """A group, created from its stored totals if it is not in memory yet."""
        known = self._groups.get(key)
        if known is None:
            totals = _only(beginning(self.totals, key))
            known = self._groups[key] = self._known(key, totals, beginning(self.others, key))
        return known

    def _known(self, key: Row, totals: Row | None, others: Mapping[Row, int]) -> _Known:
        if totals is None:
            return _Known(self._grouping.group(), None, None)
        group = self._grouping.restored(totals[self._width :])
        for row, weight in others.items():
            self._grouping.add_others(group, row, weight)
        return _Known(group, self._row(key, group), totals)

    # An epoch

    def stage(self, delta: Mapping[Row, int]) -> None:
        """Stages the change of the source."""
        self._change, self._carried, self._staged = delta, False, None

    def stage_content(self, rows: Rows) -> None:
        """Stages the change to another content of the source."""
        totals, others = self._relations_of(rows)
        self._change, self._carried = {}, False
        self._staged = _change_to(self.totals, totals), _change_to(self.others, others)

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        """Cost: one lookup per group that is not in memory, one update of accumulators per changed row."""
        self.stage(delta)
        key_width, known_group, add = self._width, self._state_of, self._grouping.add
        touched: dict[Row, _Known] = {}
        for row, weight in delta.items():
            key = row[:key_width]
            known = touched.get(key)
            if known is None:
                known = touched[key] = known_group(key)
            add(known.group, row, weight)
        result: dict[Row, int] = {}
        for key, known in touched.items():
            old, new = known.row, self._row(key, known.group)
            if old != new:
                known.row = new
                if old is not None:
                    result[old] = -1
                if new is not None:
                    result[new] = 1
        self._carried = True
        self._touched = touched
        return result

    def staged(self) -> tuple[Mapping[Row, int], Mapping[Row, int]]:
        """The changes of totals and others in the current epoch."""
        if self._staged is None:
            change = self._change
            if not self._carried and isinstance(change, RunRows) and len(change) >= COLUMN_ROWS:
                self.begin()
                self._staged = self._columns.change_of(self.totals, change.run)
            else:
                if not self._carried:  # the operator's own change was computed elsewhere
                    self.carry(change)
                self._staged = self._changes_of_touched()
        return self._staged

    def _changes_of_touched(self) -> tuple[dict[Row, int], dict[Row, int]]:
        totals: dict[Row, int] = {}
        with_others: set[Row] = set()
        for key, known in self._touched.items():
            old, group = known.totals, known.group
            known.next = new = (*key, *group.totals()) if group.weight else None
            if old != new:
                if old is not None:
                    totals[old] = -1
                if new is not None:
                    totals[new] = 1
            for place in self._others_at:
                if (old is not None and old[place]) or (new is not None and new[place]):
                    with_others.add(key)
        return totals, self._others_among(self._change, with_others)

    def commit(self) -> None:
        totals, others = self.staged()
        self.totals.add(totals)
        if others:
            self.others.add(others)
        if self._carried:
            for key, known in self._touched.items():
                known.totals = known.next
                if known.totals is None and not self.totals.has_in_runs(key):
                    del self._groups[key]
        if not self._carried or len(self._groups) > MOST_GROUPS:
            self.begin()
        self._end()

    def _end(self) -> None:
        self._change, self._touched, self._carried, self._staged = {}, {}, False, None

    def rollback(self) -> None:
        """Gives up the groups in memory, which are read again: rare and always correct."""
        self._end()
        self.begin()

    # Reading

    def kept(self) -> Kept:
        return Kept(self.totals.parts, self.totals.size()[0], are_totals=True)

    def given(self) -> Iterable[Row]:
        """The rows of the groups in memory, which are taken back when a group changes."""
        return (known.row for known in self._groups.values() if known.row is not None)

    def content(self) -> Iterable[tuple[Row, int]]:
        """The groups before the epoch."""
        others: dict[Row, dict[Row, int]] = {}
        for row, weight in self.others.items():
            others.setdefault(row[: self._width], {})[row] = weight
        for totals, _ in self.totals.items():
            key = totals[: self._width]
            known = None if key in self._touched else self._groups.get(key)
            own = (known or self._known(key, totals, others.get(key, {}))).row
            if own is not None:
                yield own, 1

    def __len__(self) -> int:
        return len(self.totals) + len(self.others)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, estimated for the groups in memory."""
        return self.totals.nbytes + self.others.nbytes + BYTES_PER_GROUP * len(self._groups)


def _change_to(relation: Relation, rows: Rows) -> Mapping[Row, int]:
    whole = relation.whole()
    return change_between(dict(relation.items()) if whole is None else whole, rows)


def _only(rows: Mapping[Row, int]) -> Row | None:
    """The one row of a group, if it has rows."""
    assert len(rows) <= 1, "a group has one row of totals"
    return next(iter(rows), None)


# By columns


class _Columns:
    """The totals of many rows: the same as those of the accumulators."""

    def __init__(self, operator: op.Group, terms: Terms) -> None:
        columns = operator.source.variables
        self._terms = terms
        self._width = len(operator.keys)
        self._aggregates = [
            (aggregate, None if aggregate.argument is None else columns.index(aggregate.argument))
            for _, aggregate in operator.aggregates
        ]
        self._member = None if operator.member is None else columns.index(operator.member)
        self._wide = places_of_wide(operator)

    def relations_of(self, rows: Run) -> tuple[Run, Run]:
        """The totals of rows, and those rows that they leave out."""
        assert rows.weights is not None
        totals, others = [], []
        for start in range(0, max(1, rows.length), _PIECE_ROWS):
            part = slice(start, start + _PIECE_ROWS)
            columns, weights = [column[part] for column in rows.columns], rows.weights[part]
            made, is_other = self._sums(columns, weights)
            totals.append(made)
            others.append([*(column[is_other] for column in columns), weights[is_other]])
        *columns, weights = (np.concatenate(parts) for parts in zip(*others, strict=True))
        return _as_run(self._summed(totals)), Run(columns, weights)  # a change may have groups of weight zero

    def change_of(self, totals: Relation, delta: Run) -> tuple[RunRows, RunRows]:
        """The changes of the totals and of the others that a change of the source makes."""
        change, others = self.relations_of(delta)
        old = self._found(totals, change.columns[: self._width])
        sums = self._summed([old, change.columns])
        new = _as_run([column[sums[self._width] != 0] for column in sums])
        both = [np.concatenate(pair) for pair in zip(old, new.columns, strict=True)]
        signs = np.repeat(np.array([-1, 1]), (len(old[0]), new.length))
        return RunRows(Run.sort(both, signs)), RunRows(others)

    def _found(self, totals: Relation, keys: Sequence[Column]) -> list[Column]:
        """The totals of groups before a change; those without rows have none."""
        parts, weights = [[np.empty(0, np.int64)] * totals.arity], [np.empty(0, np.int64)]
        for run in (totals.run, totals.late):
            if run is not None:
                assert run.weights is not None
                columns, places = run.columns, _places(run, keys)
                parts.append([column[places] for column in columns])
                weights.append(run.weights[places])
        rows = [np.concatenate(several) for several in zip(*parts, strict=True)]
        return list(Run.sort(rows, np.concatenate(weights)).columns)

    def _summed(self, parts: Sequence[Sequence[Column]]) -> list[Column]:
        """The sums of totals by group; the parts are sums of wide numbers in any form."""
        columns = [np.concatenate(several) for several in zip(*parts, strict=True)]
        keys, sums = columns[: self._width], columns[self._width :]
        starts = np.zeros(min(1, len(sums[0])), np.int64)
        if keys and len(sums[0]):
            order, fresh = lexicographic(keys)
            keys, sums = [key[order] for key in keys], [own[order] for own in sums]
            starts = np.flatnonzero(fresh)
        made = [*(key[starts] for key in keys), *(_added(own, starts) for own in sums)]
        for place in self._wide:
            made[place], made[place + 1] = _halves(made[place], made[place + 1])
        return made

    def _sums(self, columns: Sequence[Column], weights: Column) -> tuple[list[Column], Any]:
        """The totals of sorted rows, and which of these they leave out."""
        length = len(weights)
        starts, is_other = np.zeros(min(1, length), np.int64), np.zeros(length, bool)
        if self._width and length:
            starts = np.flatnonzero(_fresh(columns[: self._width]))
        member: Any = np.ones(length, bool) if self._member is None else columns[self._member] != UNDEF
        made = [*(column[starts] for column in columns[: self._width]), _added(weights, starts)]
        values: dict[int, _Numbers] = {}
        for aggregate, place in self._aggregates:
            if aggregate.name not in SUMS:
                counted = member if place is None else member & (columns[place] != UNDEF)
                made.append(_added(weights * counted, starts))
                continue
            assert place is not None
            if place not in values:
                values[place] = _Numbers(self._terms, columns[place])
            own = values[place]
            others = member & own.is_number & ~own.is_exact
            is_other |= others
            for counted in (member & ~own.is_number, member & own.is_exact, member & own.is_decimal):
                made.append(_added(weights * counted, starts))
            for number in (own.whole, own.fraction):
                made += _wide_sums(number, weights * (member & own.is_exact), starts)
            made.append(_added(weights * others, starts))
        return made, is_other


class _Numbers:
    """What totals read of the values of a column."""

    def __init__(self, terms: Terms, ids: Column) -> None:
        distinct, places = np.unique(ids, return_inverse=True)
        is_bound = distinct != UNDEF
        types = typed(terms.dictionary.column(distinct[is_bound]))
        kind = np.full(len(distinct), DOUBLE + 1, np.int64)
        kind[is_bound] = types.field("kind").to_numpy()
        self.is_number: Any = (kind <= DOUBLE)[places]
        exact, numbers = np.zeros(len(distinct), bool), []
        exact[is_bound] = types.field("whole").is_valid().to_numpy(zero_copy_only=False)
        for name in ("whole", "fraction"):
            values = np.zeros(len(distinct), np.int64)
            values[is_bound] = types.field(name).fill_null(pa.scalar(0, pa.int64())).to_numpy()
            numbers.append(values[places])
        self.is_exact: Any = exact[places]
        self.is_decimal: Any = (exact & (kind == DECIMAL))[places]
        self.whole, self.fraction = numbers


def _added(numbers: Column, starts: Column) -> Column:
    return np.add.reduceat(numbers, starts) if len(starts) else np.empty(0, np.int64)


def _wide_sums(numbers: Column, weights: Column, starts: Column) -> tuple[Column, Column]:
    """The sums of numbers of 64 bits times weights."""
    if np.abs(weights).sum() >= _LARGEST_WEIGHTS:
        exact = np.add.reduceat(numbers.astype(object) * weights, starts)
        return np.array([n // HALF for n in exact], np.int64), np.array([n % HALF for n in exact], np.int64)
    high, low = _added((numbers >> _WORD) * weights, starts), _added((numbers & _MASK) * weights, starts)
    high += low >> _WORD
    return high >> 16, ((high & 0xFFFF) << _WORD) + (low & _MASK)


def _halves(high: Column, low: Column) -> tuple[Column, Column]:
    """Sums of halves in the form of `halves`: the rest has the sign of the sum."""
    high, low = high + (low >> 48), low & (HALF - 1)
    is_rounded_down = (high < 0) & (low > 0)
    return high + is_rounded_down, low - HALF * is_rounded_down


def _fresh(keys: Sequence[Column]) -> Any:
    """Which of sorted rows differ from the row before."""
    fresh = np.zeros(len(keys[0]), bool)
    fresh[0] = True
    for key in keys:
        fresh[1:] |= key[1:] != key[:-1]
    return fresh


def _places(run: Run, keys: Sequence[Column]) -> Column:
    """The places of the rows that begin with one of the keys."""
    if not keys:
        return np.arange(run.length)
    count = len(keys[0])
    low, high = np.zeros(count, np.int64), np.full(count, run.length)
    for column, values in zip(run.columns, keys, strict=False):
        low, high = (
            search(column, values, low, high, before=True),
            search(column, values, low, high, before=False),
        )
    sizes = high - low
    firsts = np.repeat(low - np.append(0, np.cumsum(sizes)[:-1]), sizes) if count else low
    return firsts + np.arange(len(firsts))


def _as_run(columns: Sequence[Column]) -> Run:
    return Run(columns, np.ones(len(columns[0]), np.int64))
