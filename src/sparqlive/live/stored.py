"""Keeps the rows of stored operators in memory, with an index for each set of keys that probes use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from sparqlive.live import lazy
from sparqlive.live.code import Function, Gathering, Local, Point, times, tuple_of
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node

Rows = list[tuple[Row, int]]
_Index = dict[Row, dict[Row, int]]


class StoredRows:
    """The rows of an operator before the epoch, and its pending delta, both by key.

    A row that leaves a key variable unbound is compatible with every value of it. It is indexed under UNDEF,
    where probes also look.
    """

    def __init__(self, operator: op.Stored | op.Shared | op.Parameters) -> None:
        self._variables = operator.variables
        self._maybe = operator.maybe
        self.rows: dict[Row, int] = {}
        self.pending: Mapping[Row, int] = {}
        self._indexes: dict[tuple[int, ...], _Index] = {}
        self._pending_indexes: dict[tuple[int, ...], _Index] = {}

    def load(self, rows: dict[Row, int]) -> None:
        self.rows = rows
        for positions in self._indexes:
            self._indexes[positions] = _by_key(rows, positions)

    def stage(self, delta: Mapping[Row, int]) -> None:
        self.pending = delta
        self._pending_indexes = {}

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        self.stage(delta)
        return delta

    def commit(self) -> None:
        delta, self.pending = self.pending, {}
        add_into(self.rows, delta)
        for positions, index in self._indexes.items():
            for key, changes in _by_key(delta, positions).items():
                rows = index.setdefault(key, {})
                add_into(rows, changes)
                if not rows:
                    del index[key]

    def rollback(self) -> None:
        self.pending = {}

    def reader(self, variables: Sequence[Var], state: State) -> Callable[..., Rows]:
        """Returns a function from values of `variables` to the compatible rows."""
        positions = tuple(self._variables.index(v) for v in variables)
        if positions not in self._indexes:
            self._indexes[positions] = _by_key(self.rows, positions)
        ways = [(True, False) if v in self._maybe else (True,) for v in variables]
        masks = list(product(*ways))

        def keys(values: tuple[int, ...]) -> list[Row]:
            return [
                tuple(value if used else 0 for value, used in zip(values, mask, strict=True))
                for mask in masks
            ]

        def before(*values: int) -> Rows:
            index = self._indexes[positions]
            if len(masks) == 1:
                return list(index.get(values, _NOTHING).items())
            return [item for key in keys(values) for item in index.get(key, _NOTHING).items()]

        def after(*values: int) -> Rows:
            rows = before(*values)
            if self.pending:
                if positions not in self._pending_indexes:
                    self._pending_indexes[positions] = _by_key(self.pending, positions)
                index = self._pending_indexes[positions]
                rows += [item for key in keys(values) for item in index.get(key, _NOTHING).items()]
            return rows

        def settled(*values: int) -> Rows:
            rows = after(*values)
            if not self.pending:
                return rows
            total: dict[Row, int] = {}
            for row, weight in rows:
                total[row] = total.get(row, 0) + weight
            return [item for item in total.items() if item[1]]

        return before if state is State.OLD else settled

    def items(self) -> Iterable[tuple[Row, int]]:
        return self.rows.items()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Estimates the memory in bytes, per row, for the dict and for each index."""
        return len(self.rows) * (100 + 32 * len(self._variables) + 100 * len(self._indexes))


_NOTHING: dict[Row, int] = {}


def _by_key(rows: Mapping[Row, int], positions: tuple[int, ...]) -> _Index:
    index: _Index = {}
    for row, weight in rows.items():
        index.setdefault(tuple(row[p] for p in positions), {})[row] = weight
    return index


def state(operator: op.Stored | op.Shared | op.Parameters, terms: Terms) -> StoredRows:
    return StoredRows(operator)


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    env = point.env
    bound = [v for v in node.operator.variables if v in env]
    first = f.gathering is Gathering.FIRST

    def read() -> Any:
        if compiler.lazy:
            return lazy.reader_of(compiler, node, bound, first)
        return compiler.state_of(node).reader(bound, state)

    reader = compiler.program.made("s", read)
    rows = f"{reader}({', '.join(env[v].name for v in bound)})"
    loop_over(f, node.operator, rows, point)


def loop_over(f: Function, operator: op.Operator, rows: str, point: Point) -> None:
    """Writes a loop over weighted rows of an operator that are compatible with the bound variables."""
    own = {v: f.fresh() for v in operator.variables}
    factor = f.fresh("w")
    with f.block(f"for {tuple_of(list(own.values()))}, {factor} in {rows}"):
        fresh = {v: Local(name, v in operator.always) for v, name in own.items() if v not in point.env}
        f.unless_too_deep({**point.env, **fresh}, times(point.weight, factor), point.then)
