"""Keeps the state of groups that follow from totals: one row of totals per group, and the other rows.

A change reads the totals of each group that it touches, and no rows of the source. `others` stores the source
rows with a number that totals cannot represent (`sparql/aggregates.py`); a group that has such rows adds them
when it first changes. Large changes, and initial contents, are summed by columns. If too many groups are in
memory, they are dropped, and read again when they change. Invariants: `totals` and `others` keep the state
before the epoch until `commit`; a group that is not in memory has all of its rows in runs, and none in an
overlay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparqlive.live.group import BYTES_PER_GROUP, Grouped, Groups, beginning
from sparqlive.live.terms import Terms
from sparqlive.live.total_columns import TotalColumns
from sparqlive.plan import operators as op
from sparqlive.plan.totals import places_of_others, width
from sparqlive.sparql.aggregates import Group
from sparqlive.zset.kept import Kept
from sparqlive.zset.relation import Relation, Row, change_between
from sparqlive.zset.run import Run, RunRows

Rows = Mapping[Row, int] | Run


def state(operator: op.Group, terms: Terms) -> Grouped:
    """Creates the state of a Group."""
    return (TotalGroups if operator.follows_from_totals else Groups)(operator, terms)


class _Known:
    """A group in memory, its row and its totals, or None; and its totals after the epoch."""

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
        self._columns = TotalColumns(operator, terms)
        self._others_at = places_of_others(operator)
        self.totals = Relation(width(operator), tuning=terms.tuning)
        self.others = Relation(len(operator.source.variables), tuning=terms.tuning)
        self._groups: dict[Row, _Known] = {}
        self._touched: dict[Row, _Known] = {}
        self._change: Mapping[Row, int] = {}
        self._carried = False
        self._staged: tuple[Mapping[Row, int], Mapping[Row, int]] | None = None
        """The changes of the two relations in the current epoch, once they are computed."""

    def load(self, rows: Rows) -> None:
        """Loads the content of the source."""
        self.take(*map(Relation, (self.totals.arity, self.others.arity), self._relations_of(rows)))

    def take(self, totals: Relation, others: Relation) -> None:
        """Replaces the stored rows."""
        self.totals, self.others = totals, others
        self.begin()

    def begin(self) -> None:
        """Resets to the stored rows, without groups in memory; between epochs."""
        self._groups = {}
        self.totals.merge()
        self.others.merge()

    def _relations_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Returns the totals of a content of the source, and the rows that totals cannot represent."""
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
        """Returns the rows that totals cannot represent, given the groups that may have some."""
        if not keys:
            return {}
        key_width, has_others = self._width, self._grouping.has_others
        return {row: weight for row, weight in rows.items() if row[:key_width] in keys and has_others(row)}

    # Single groups

    def _state_of(self, key: Row) -> _Known:
        """Returns a group, created from its stored totals if it is not in memory."""
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
        """Stages the difference between the source's rows and a new content."""
        totals, others = self._relations_of(rows)
        self._change, self._carried = {}, False
        self._staged = _change_to(self.totals, totals), _change_to(self.others, others)

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        """Updates the groups. Cost: one lookup per group not in memory, one update per changed row."""
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
        """Returns the changes of totals and others in the current epoch."""
        if self._staged is None:
            change = self._change
            if not self._carried and isinstance(change, RunRows) and len(change) >= self._tuning.column_rows:
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
        if not self._carried or len(self._groups) > self._tuning.groups_kept:
            self.begin()
        self._end()

    def _end(self) -> None:
        self._change, self._touched, self._carried, self._staged = {}, {}, False, None

    def rollback(self) -> None:
        """Drops the groups in memory; they are read again on demand. Rollbacks are rare."""
        self._end()
        self.begin()

    # Reading

    def kept(self) -> Kept:
        return Kept(self.totals.parts, self.totals.size()[0], are_totals=True)

    def given(self) -> Iterable[Row]:
        """The current rows of the groups in memory, which are retracted when a group changes."""
        return (known.row for known in self._groups.values() if known.row is not None)

    def content(self) -> Iterable[tuple[Row, int]]:
        """Yields the groups before the epoch."""
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
    """Returns the only row of a group, if it has rows."""
    assert len(rows) <= 1, "a group has one row of totals"
    return next(iter(rows), None)
