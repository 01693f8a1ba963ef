"""GROUP BY: stores the source's rows; a change replaces the row of each affected group.

The accumulators of a group (`sparql/aggregates.py`) are created from its rows when it first changes, so that
opening a store reads no values. The cost of a change is that of updating the accumulators, independent of the
size of the group. Invariant: a group without an entry here has exactly its rows in the relation's run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.sparql.aggregates import Group, Grouping
from sparqlive.sparql.deadline import paced
from sparqlive.zset.columns import COLUMN_ROWS
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Run, RunRows

_BYTES_PER_GROUP = 500


class _GroupState:
    """A group and its row, or None."""

    __slots__ = ("group", "row")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.row: Row | None = None


class Groups:
    """The state of a Group."""

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
        self._id_of = terms.id_of
        self._rows = Relation(len(columns))
        self._groups: dict[Row, _GroupState] = {}
        self.pending: Mapping[Row, int] = {}
        self._carried = False
        self._touched: dict[Row, _GroupState] = {}

    def load(self, rows: dict[Row, int]) -> None:
        self._rows = Relation(self._rows.arity, rows)
        self._groups = {}
        if self._rows.run is None:
            self._groups = self._group_rows(rows.items())

    def _group_rows(self, rows: Iterable[tuple[Row, int]]) -> dict[Row, _GroupState]:
        groups: dict[Row, _GroupState] = {}
        width, add = self._width, self._grouping.add
        for row, weight in paced(rows):
            key = row[:width]
            known = groups.get(key)
            if known is None:
                known = groups[key] = _GroupState(self._grouping.group())
            add(known.group, row, weight)
        for key, known in groups.items():
            known.row = self._row(key, known.group)
        return groups

    def _row(self, key: Row, group: Group) -> Row | None:
        if not group.weight:
            return None
        id_of = self._id_of
        return (*key, *[UNDEF if value is None else id_of(value) for value in group.results()])

    def _state_of(self, key: Row) -> _GroupState:
        """A group, created from its stored rows if it is not in memory yet."""
        known = self._groups.get(key)
        if known is None:
            known = self._groups[key] = self._group_rows(self._in_run(key)).get(key) or _GroupState(
                self._grouping.group()
            )
        return known

    def _in_run(self, key: Row) -> Iterator[tuple[Row, int]]:
        run = self._rows.run
        if run is None:
            return iter(())
        low, high = run.range(key)
        assert run.weights is not None
        rows = zip(*(view[low:high].tolist() for view in run.views), strict=True)
        return zip(rows, run.weights[low:high].tolist(), strict=True)

    def stage(self, delta: Mapping[Row, int]) -> None:
        self.pending = delta
        self._carried = False

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        """Cost: one update of the accumulators per changed row of the source."""
        self.stage(delta)
        width, known_group, add = self._width, self._state_of, self._grouping.add
        touched: dict[Row, _GroupState] = {}
        for row, weight in delta.items():
            key = row[:width]
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

    def commit(self) -> None:
        if not self._carried:  # the operator's own change was computed elsewhere
            if isinstance(self.pending, RunRows) and len(self.pending) >= COLUMN_ROWS:
                self._commit_columns(self.pending.run)
                return
            self.carry(self.pending)
        self._rows.stage(self.pending)
        self._rows.commit()
        self.pending = {}
        for key, known in self._touched.items():
            if known.row is None and not any(self._in_run(key)):
                del self._groups[key]
        self._touched = {}

    def _commit_columns(self, delta: Run) -> None:
        """Takes a large change without reading its values: its groups are created again when they change."""
        self._rows.stage(self.pending)
        self._rows.commit()
        self._rows.merge()
        self.pending = {}
        if self._groups:
            keys = zip(*(column.tolist() for column in delta.columns[: self._width]), strict=True)
            for key in set(keys) if self._width else ((),):
                self._groups.pop(key, None)

    def rollback(self) -> None:
        """Rebuilds the accumulators from the rows, which is rare and always correct."""
        self.pending = {}
        self.load(dict(self._rows.items()))

    def items(self) -> Iterable[tuple[Row, int]]:
        return self._rows.items()

    def content(self) -> Iterable[tuple[Row, int]]:
        if self.pending:  # the accumulators are ahead
            yield from self.evaluate(self._rows.items())
            return
        for row, _ in self._rows.items():
            self._state_of(row[: self._width])
        for known in self._groups.values():
            if known.row is not None:
                yield known.row, 1

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        for known in self._group_rows(rows).values():
            if known.row is not None:
                yield known.row, 1

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, estimated for the groups in memory."""
        return self._rows.nbytes + _BYTES_PER_GROUP * len(self._groups)
