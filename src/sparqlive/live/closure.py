"""Evaluates the paths `+` and `*`: stores the steps, and maintains reachability over them.

Owns the state of a closure: the steps with their counts, and for each key (a graph under GRAPH ?g) a `Tree`
if one end is fixed, otherwise `Pairs`. Both change as soon as a change is staged and remember the old state;
a rollback applies the reverse change. A step that has no effect costs one lookup. Any other step costs the
pairs that it changes and the steps around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparqlive.live import lazy
from sparqlive.live.closure_pairs import Pairs
from sparqlive.live.closure_tree import Edge, Tree
from sparqlive.live.code import Function, Local, Point, tuple_of
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Term, Var
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


class ClosureState:
    """The steps and the reachability over them, by key."""

    def __init__(self, operator: op.Closure, id_of: Callable[[Term], int]) -> None:
        self._variables = operator.variables
        self._start = None if isinstance(operator.start, Var) else id_of(operator.start)
        self._end = None if isinstance(operator.end, Var) else id_of(operator.end)
        self._width = len(self._variables) - len(operator.keys)
        self.rows: dict[Row, int] = {}
        self.pending: Mapping[Row, int] = {}
        self._reached: dict[Row, Tree | Pairs] = {}
        self._changed: dict[Row, tuple[list[Edge], list[Edge]]] = {}

    def load(self, rows: dict[Row, int]) -> None:
        self.rows = rows
        self._reached = self._structures(rows)

    def _structures(self, rows: Iterable[Row]) -> dict[Row, Tree | Pairs]:
        steps: dict[Row, list[Edge]] = {}
        for row in rows:
            steps.setdefault(row[2:], []).append((row[0], row[1]))
        return {key: self._new(edges) for key, edges in steps.items()}

    def _new(self, edges: list[Edge]) -> Tree | Pairs:
        if self._start is not None:
            return Tree(edges, self._start, turned=False, wanted=self._end)
        return Pairs(edges) if self._end is None else Tree(edges, self._end, turned=True)

    # Epochs

    def stage(self, delta: Mapping[Row, int]) -> None:
        self.pending = delta
        self._changed = {}
        for row, weight in delta.items():
            count = self.rows.get(row, 0)
            if (count > 0) != (count + weight > 0):
                gone, come = self._changed.setdefault(row[2:], ([], []))
                (gone if count > 0 else come).append((row[0], row[1]))
        for key, (gone, come) in self._changed.items():
            if key not in self._reached:
                self._reached[key] = self._new([])
            self._reached[key].change(gone, come)

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        self.stage(delta)
        result: dict[Row, int] = {}
        for key in self._changed:
            changed = self._reached[key].delta()
            result.update((((*ends, *key), sign) for ends, sign in changed) if key else changed)
        return result

    def commit(self) -> None:
        add_into(self.rows, self.pending)
        self.pending = {}
        self._settle()

    def rollback(self) -> None:
        self.pending = {}
        for key, (gone, come) in self._changed.items():
            self._reached[key].change(come, gone)
        self._settle()

    def _settle(self) -> None:
        for key in self._changed:
            self._reached[key].settle()
            if self._reached[key].is_empty:
                del self._reached[key]
        self._changed = {}

    # Reading

    def items(self) -> Iterable[tuple[Row, int]]:
        return self.rows.items()

    def content(self) -> Iterator[tuple[Row, int]]:
        return ((row, 1) for row in self.own_rows())

    def own_rows(self) -> Iterator[Row]:
        """Yields the distinct rows of the operator before the epoch."""
        return self.reader((), State.OLD)()

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        nothing = (None,) * self._width
        for key, reached in self._structures(row for row, _ in rows).items():
            for ends in reached.matches(nothing, old=False):
                yield (*ends, *key), 1

    def row_count(self) -> int:
        """Counts the rows of the operator without listing them."""
        return sum(reached.count() for reached in self._reached.values())

    def reader(self, bound: Sequence[Var], state: State) -> Callable[..., Iterator[Row]]:
        """Returns a function that takes values of `bound` and yields the rows with these values."""
        old = state is State.OLD
        places = [bound.index(v) if v in bound else None for v in self._variables]
        of_ends, of_key = places[: self._width], places[self._width :]

        def read(*values: int) -> Iterator[Row]:
            ends = tuple(None if place is None else values[place] for place in of_ends)
            if None in of_key:
                groups: Iterable[tuple[Row, Tree | Pairs]] = self._reached.items()
            else:
                key = tuple(values[place] for place in of_key if place is not None)
                groups = [(key, self._reached[key])] if key in self._reached else []
            for key, reached in groups:
                for found in reached.matches(ends, old):
                    yield (*found, *key)

        return read

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        steps = len(self.rows) * (100 + 32 * len(self._variables))
        return steps + sum(reached.nbytes for reached in self._reached.values())


def state(operator: op.Closure, terms: Terms) -> ClosureState:
    return ClosureState(operator, terms.dictionary.id_of)


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    env = point.env
    bound = [v for v in node.operator.variables if v in env]

    def read() -> Any:
        if compiler.lazy:
            return lazy.path_of(compiler, node, bound)
        return compiler.states[node.number].reader(bound, state)

    reader = compiler.program.made("s", read)
    own = {v: f.fresh() for v in node.operator.variables}
    with f.block(f"for {tuple_of(list(own.values()))} in {reader}({', '.join(env[v].name for v in bound)})"):
        fresh = {v: Local(name, True) for v, name in own.items() if v not in env}
        f.unless_too_deep({**env, **fresh}, point.weight, point.then)
