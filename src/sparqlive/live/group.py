"""Evaluates GROUP BY: a change replaces the row of each affected group.

`Groups` stores the source's rows, for aggregates that need every value; where totals suffice,
`live/totals.py` keeps the state. The accumulators of a group (`sparql/aggregates.py`) are created from its
rows on its first change, so opening a store reads no values. The cost of a change is that of updating the
accumulators, independent of the group's size. A large change that was computed elsewhere is applied to a
group only when the group next changes. If too many groups are in memory, all accumulators are dropped and
created again on demand. Invariant: a group without accumulators has all of its rows in the relation's runs,
and none in the overlay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.runtime.deadline import gathers, paced
from sparqlive.sparql.aggregates import Group, Grouping
from sparqlive.sparql.values import ExpressionError, integer
from sparqlive.zset.kept import Kept
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Run, RunRows
from sparqlive.zset.zset import add_into

BYTES_PER_GROUP = 500


class _GroupState:
    """A group and its row, or None; and the number of large changes that it has applied."""

    __slots__ = ("group", "row", "seen")

    def __init__(self, group: Group, seen: int = 0) -> None:
        self.group = group
        self.row: Row | None = None
        self.seen = seen


class Grouped:
    """Computes the groups of rows."""

    def __init__(self, operator: op.Group, terms: Terms) -> None:
        columns = operator.source.variables
        self._width = len(operator.keys)
        self._grouping = Grouping(
            [
                (aggregate, None if aggregate.argument is None else columns.index(aggregate.argument))
                for _, aggregate in operator.aggregates
            ],
            None if operator.member is None else columns.index(operator.member),
            terms.value,
        )
        self.are_sizes = operator.member is None and all(
            aggregate.name == "COUNT"
            and not aggregate.distinct
            and (aggregate.argument is None or aggregate.argument in operator.source.always)
            for _, aggregate in operator.aggregates
        )
        """Whether every aggregate counts the solutions of the group."""
        self._results = len(operator.aggregates)
        self._id_of = terms.id_of
        self._tuning = terms.tuning

    def _group_rows(self, rows: Iterable[tuple[Row, int]]) -> dict[Row, Group]:
        groups: dict[Row, Group] = {}
        width, add = self._width, self._grouping.add
        for row, weight in paced(rows):
            key = row[:width]
            group = groups.get(key)
            if group is None:
                group = groups[key] = self._grouping.group()
            add(group, row, weight)
        return groups

    def _row(self, key: Row, group: Group) -> Row | None:
        if not group.weight:
            return None
        id_of = self._id_of
        return (*key, *[UNDEF if value is None else id_of(value) for value in group.results()])

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        """Computes the groups over other source rows from scratch, independent of the state."""
        if self.are_sizes:
            yield from self._sizes(rows)
            return
        for key, group in self._group_rows(rows).items():
            row = self._row(key, group)
            if row is not None:
                yield row, 1

    def _sizes(self, rows: Iterable[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        """Yields the rows of groups whose aggregates only count, without creating accumulators."""
        totals: dict[Row, int] = {}
        gathers(totals)
        width = self._width
        for row, weight in paced(rows):
            key = row[:width]
            totals[key] = totals.get(key, 0) + weight
        id_of = cache(self._id_of_size)
        for key, total in totals.items():
            if total:
                yield (*key, *[id_of(total)] * self._results), 1

    def _id_of_size(self, size: int) -> int:
        try:
            return self._id_of(integer(size))
        except ExpressionError:  # the number has too many digits
            return UNDEF


class Groups(Grouped):
    """The state of a Group that stores its source's rows."""

    def __init__(self, operator: op.Group, terms: Terms) -> None:
        super().__init__(operator, terms)
        self._rows = Relation(len(operator.source.variables), tuning=terms.tuning)
        self._groups: dict[Row, _GroupState] = {}
        self._large: list[Run] = []
        """Large changes; a group applies them when it next changes."""
        self.pending: Mapping[Row, int] = {}
        self._carried = False
        self._touched: dict[Row, _GroupState] = {}

    @property
    def relation(self) -> Relation:
        """The source's rows before the epoch."""
        return self._rows

    def load(self, rows: Mapping[Row, int] | Run) -> None:
        self.take(Relation(self._rows.arity, rows, self._tuning))

    def take(self, rows: Relation) -> None:
        """Replaces the stored rows of the source."""
        self._rows = rows
        self.begin()

    def begin(self) -> None:
        """Resets to the rows before the epoch, with accumulators only for rows that are in no run."""
        self._forget_groups()
        self._rows.merge_into_run()
        if self._rows.run is None:
            for key, group in self._group_rows(self._rows.items()).items():
                known = self._groups[key] = _GroupState(group)
                known.row = self._row(key, group)

    def _state_of(self, key: Row) -> _GroupState:
        """Returns a group, created from its stored rows if it is not in memory."""
        state = self._groups.get(key)
        if state is None:
            state = _GroupState(self._grouping.group(), len(self._large))
            self._take_in(key, state, self._rows)
            self._groups[key] = state
        elif state.seen < len(self._large):
            for change in self._large[state.seen :]:
                self._take_in(key, state, Relation(self._rows.arity, change))
            state.seen = len(self._large)
        else:
            return state
        if self._grouping.is_used_up(state.group):
            self._read_again(key, state, {})
        state.row = self._row(key, state.group)
        return state

    def _take_in(self, key: Row, known: _GroupState, rows: Relation) -> None:
        """Adds the rows of a group from the runs of a relation."""
        for columns, weights in rows.beginning(key):
            self._grouping.add_all(known.group, columns, weights)

    def _read_again(self, key: Row, known: _GroupState, change: Mapping[Row, int]) -> None:
        """Recreates the accumulators of a group from its rows before the epoch and a change."""
        self._rows.merge()
        rows = beginning(self._rows, key)
        width = self._width
        add_into(rows, {row: weight for row, weight in change.items() if row[:width] == key})
        known.group = self._grouping.group()
        if rows:
            columns = list(zip(*rows, strict=True))
            self._grouping.add_all(known.group, columns, list(rows.values()))

    def kept(self) -> Kept:
        """The rows before the epoch."""
        return Kept(self._rows.parts, self._rows.size()[0])

    def stage(self, delta: Mapping[Row, int]) -> None:
        self.pending = delta
        self._carried = False

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        """Updates the affected groups. Cost: one update of the accumulators per changed row of the source."""
        self.stage(delta)
        width, known_group, add = self._width, self._state_of, self._grouping.add
        touched: dict[Row, _GroupState] = {}
        for row, weight in delta.items():
            key = row[:width]
            state = touched.get(key)
            if state is None:
                state = touched[key] = known_group(key)
            add(state.group, row, weight)
        result: dict[Row, int] = {}
        is_used_up = self._grouping.is_used_up
        for key, state in touched.items():
            if is_used_up(state.group):
                self._read_again(key, state, delta)
            old, new = state.row, self._row(key, state.group)
            if old != new:
                state.row = new
                if old is not None:
                    result[old] = -1
                if new is not None:
                    result[new] = 1
        self._carried = True
        self._touched = touched
        return result

    def commit(self) -> None:
        if not self._carried:  # the operator's own change was computed elsewhere
            if isinstance(self.pending, RunRows) and len(self.pending) >= self._tuning.column_rows:
                self._commit_columns(self.pending.run)
                return
            self.carry(self.pending)
        self._rows.add(self.pending)
        self.pending = {}
        for key, known in self._touched.items():
            if known.row is None and not self._rows.has_in_runs(key):
                del self._groups[key]
        self._touched = {}
        if len(self._groups) > self._tuning.groups_kept and self._rows.run is not None:
            self.begin()

    def _commit_columns(self, delta: Run) -> None:
        """Applies a large change without reading its values; each group applies it when it next changes."""
        self._rows.add(self.pending)
        self._rows.merge()
        self.pending = {}
        if self._groups:
            self._large.append(delta)
            rows = self._rows.rows_in_runs
            if self._tuning.rows_to_large_changes * sum(change.length for change in self._large) > rows:
                self._forget_groups()

    def _forget_groups(self) -> None:
        self._groups, self._large = {}, []

    def rollback(self) -> None:
        """Drops the accumulators; they are recreated from the rows on demand. Rollbacks are rare."""
        self.pending, self._touched = {}, {}
        self.begin()

    def given(self) -> Iterable[Row]:
        """The current rows of the groups in memory, which are retracted when a group changes."""
        return (state.row for state in self._groups.values() if state.row is not None)

    def items(self) -> Iterable[tuple[Row, int]]:
        return self._rows.items()

    def content(self) -> Iterable[tuple[Row, int]]:
        if self.pending:  # the accumulators already include the pending change
            yield from self.evaluate(self._rows.items())
            return
        for key in {*self._groups, *(row[: self._width] for row, _ in self._rows.items())}:
            self._state_of(key)
        for state in self._groups.values():
            if state.row is not None:
                yield state.row, 1

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, estimated for the groups in memory."""
        return self._rows.nbytes + BYTES_PER_GROUP * len(self._groups)


def beginning(relation: Relation, key: Row) -> dict[Row, int]:
    """Returns the rows in the runs of a relation that begin with a key."""
    rows: dict[Row, int] = {}
    for columns, weights in relation.beginning(key):
        for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
            rows[row] = rows.get(row, 0) + weight
    return {row: weight for row, weight in rows.items() if weight}
