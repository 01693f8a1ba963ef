"""Evaluates operators with state for a one-off plan: nothing is computed until it is read.

A window without an order takes the first rows that arrive. Rows of an operator that may be read again are
cached as far as they were read. The steps of a path are followed from a bound end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sparqlive.live import column_rows, group_columns, window_columns
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.runtime.deadline import gathers
from sparqlive.sparql.algebra import Var
from sparqlive.zset.blocks import Block, blocks_of, rows_in
from sparqlive.zset.relation import Row, rows_of
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node

Rows = Iterator[tuple[Row, int]]
Bulk = Callable[[op.Operator], Mapping[Row, int] | Run]
"""Computes the content of a plan by columns."""


class Remembered:
    """Rows that are read several times but computed once, and only as far as they are read."""

    def __init__(self, compute: Callable[[], Iterable[tuple[Row, int]]]) -> None:
        self._compute = compute
        self._rest: Rows | None = None
        self._rows: list[tuple[Row, int]] = []

    def __call__(self) -> Rows:
        if self._rest is None:
            gathers(self._rows)
            self._rest = iter(self._compute())
        position = 0
        while True:
            while position < len(self._rows):
                yield self._rows[position]
                position += 1
            following = next(self._rest, None)
            if following is None:
                return
            self._rows.append(following)


def content_of(compiler: Compiler, node: Node) -> Callable[[], Iterable[tuple[Row, int]]]:
    """Returns a function that yields the rows of a group, a window or numbered solutions."""
    operator = node.operator
    if node.number in compiler.remembered:
        return compiler.remembered[node.number]

    def compute() -> Iterable[tuple[Row, int]]:
        if isinstance(operator, op.Window) and not operator.order and not operator.keys:
            return _cut(compiler.stream(node.children[0], first=True)(), operator.offset, operator.limit)
        rows = compiler.stream(node.children[0], first=False)()
        most = compiler.terms.tuning.column_rows
        few = list(islice(rows, most)) if _suits_columns(operator) else []
        if len(few) == most:
            return _by_columns(compiler, node, chain(few, rows))
        found: Iterable[tuple[Row, int]] = compiler.states[node.number].evaluate(chain(few, rows))
        return found

    return compute if _is_read_once(node) else _remember(compiler, node, compute)


def _suits_columns(operator: op.Operator) -> bool:
    if isinstance(operator, op.Group):
        return group_columns.suits(operator)
    return isinstance(operator, op.Window) and operator.limit is not None and not operator.keys


def _by_columns(compiler: Compiler, node: Node, rows: Rows) -> Iterable[tuple[Row, int]]:
    """Computes the groups of many rows, or the first rows of an order, by columns."""
    operator, source, terms = node.operator, node.children[0], compiler.terms
    is_columnar = column_rows.is_columnar(source)
    blocks = (
        column_rows.blocks(compiler, source)
        if is_columnar
        else blocks_of(rows, len(source.operator.variables))
    )
    state = compiler.states[node.number]
    if isinstance(operator, op.Window):
        first: Iterable[tuple[Row, int]] = state.evaluate(window_columns.candidates(operator, terms, blocks))
        return first
    assert isinstance(operator, op.Group)
    if is_columnar:
        return group_columns.evaluate(operator, terms, blocks)
    bulk = compiler.bulk if reads_no_terms(operator) else None
    tuning, most = terms.tuning, terms.tuning.gathered_rows
    if bulk is not None:
        most = max(tuning.bulk_groups, compiler.quads.size // tuning.quads_to_bulk_groups)
    if state.are_sizes:  # counting them is faster than turning the rows into columns
        sizes = list(state.evaluate(rows if bulk is None else islice(rows, most)))
        return sizes if bulk is None or next(rows, None) is None else rows_of(bulk(operator)).items()
    found, count = list[Block](), 0
    for block in blocks:
        found.append(block)
        count += len(block.weights)
        if count > most and bulk is not None:
            return rows_of(bulk(operator)).items()
        if count > most:  # row by row takes longer, but needs no memory for the rows
            grouped: Iterable[tuple[Row, int]] = state.evaluate(chain(rows_in(found), rows_in(blocks)))
            return grouped
    return group_columns.evaluate(operator, terms, found)


def reads_no_terms(plan: op.Operator) -> bool:
    """Returns whether a plan compares only ids, so that a bulk backend needs no table of terms."""
    match plan:
        case op.Group(_, _, aggregates):
            own = all(aggregate.name == "COUNT" for _, aggregate in aggregates)
        case op.LeftJoin():
            own = plan.condition is None
        case _:
            own = isinstance(plan, op.Scan | op.Join | op.Project | op.Union | op.Distinct | op.Semi)
    return own and all(reads_no_terms(child) for child in plan.children)


def _remember(compiler: Compiler, node: Node, compute: Callable[[], Iterable[tuple[Row, int]]]) -> Remembered:
    """Returns the rows of an operator, cached for all of its readers."""
    return compiler.remembered.setdefault(node.number, Remembered(compute))


def _is_read_once(node: Node) -> bool:
    """Returns whether only operators with one source are above, so that the plan reads the rows once."""
    while node.parent is not None:
        node = node.parent
        if len(node.children) > 1 or isinstance(node.operator, op.Stored | op.Shared):
            return False
    return True


def _cut(rows: Rows, offset: int, limit: int | None) -> Rows:
    """Skips some solutions, then takes some; a row counts as often as its weight."""
    to_skip, left = offset, limit
    if not to_skip and left is not None:
        for row, weight in rows:
            if weight >= left:
                yield row, left
                return
            left -= weight
            yield row, weight
        return
    for row, weight in rows:
        skipped = min(to_skip, weight)
        to_skip -= skipped
        weight -= skipped
        if not weight:
            continue
        if left is None:
            yield row, weight
            continue
        taken = min(left, weight)
        left -= taken
        yield row, taken
        if not left:
            return


def reader_of(compiler: Compiler, node: Node, bound: Sequence[Var], first: bool) -> Callable[..., Any]:
    """Returns a function from values of `bound` to the matching rows of a stored operator.

    Without bound variables, the first rows are available before the others are computed.
    """
    node = compiler.first_of(node)
    if not bound:
        source = node.children[0]
        return _remember(compiler, node, lambda: compiler.stream(source, first)())
    return _loaded_first(compiler, node, compiler.states[node.number].reader(bound, State.OLD))


def _loaded_first(compiler: Compiler, node: Node, read: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that loads the state of an operator from its source on the first call."""

    def load_and_read(*values: int) -> Any:
        if node.number not in compiler.loaded:
            rows: dict[Row, int] = {}
            gathers(rows)
            known = compiler.remembered.get(node.number) or compiler.stream(node.children[0], first=False)
            for row, weight in known():
                rows[row] = rows.get(row, 0) + weight
            compiler.states[node.number].load(rows)
            compiler.loaded.add(node.number)
        return read(*values)

    return load_and_read


# Paths


def path_of(compiler: Compiler, node: Node, bound: Sequence[Var]) -> Callable[..., Iterator[Row]]:
    """Returns a function from values of `bound` to the matching rows of a closure."""
    operator, source = node.operator, node.children[0]
    assert isinstance(operator, op.Closure)
    at, to = source.operator.variables[:2]
    able = source.operator.pushable
    id_of = compiler.terms.dictionary.id_of
    is_start = not isinstance(operator.start, Var) or operator.start in bound
    is_end = not isinstance(operator.end, Var) or operator.end in bound
    from_start, from_end = is_start and at in able, is_end and to in able
    if from_end and not isinstance(operator.end, Var) and isinstance(operator.start, Var):
        from_start = False  # one search from the constant end serves all starts
    if operator.keys or not (from_start or from_end):
        state = compiler.states[node.number]  # the reachability over all steps
        return _loaded_first(compiler, node, state.reader(bound, State.OLD))
    known, found = (at, to) if from_start else (to, at)
    steps = compiler.program.namespace[compiler.probe(source, State.OLD, [known], [found])]

    def value_of(term: object, values: Sequence[int]) -> int | None:
        if not isinstance(term, Var):
            return id_of(term)  # type: ignore[arg-type]
        return values[bound.index(term)] if term in bound else None

    searches: dict[int, _Search] = {}  # the latest search, which may serve many goals

    def read(*values: int) -> Iterator[Row]:
        start, end = value_of(operator.start, values), value_of(operator.end, values)
        origin, goal = (start, end) if from_start else (end, start)
        assert origin is not None
        if origin not in searches:
            searches.clear()
            searches[origin] = _Search(steps, origin)
        found = searches[origin]
        for other in found.nodes() if goal is None else (goal,) if found.reaches(goal) else ():
            ends = (origin, other) if from_start else (other, origin)
            pair = zip((operator.start, operator.end), ends, strict=True)
            yield tuple([number for term, number in pair if isinstance(term, Var)])

    return read


class _Search:
    """The nodes reached from an origin, as far as the search has advanced."""

    def __init__(self, steps: Callable[[int], Iterable[tuple[Row, int]]], origin: int) -> None:
        self._known: list[int] = []
        self._seen: set[int] = set()
        gathers(self._known)
        self._rest = _reached(steps, origin)

    def nodes(self) -> Iterator[int]:
        position = 0
        while position < len(self._known) or self._advance():
            yield self._known[position]
            position += 1

    def reaches(self, goal: int) -> bool:
        while goal not in self._seen:
            if not self._advance():
                return False
        return True

    def _advance(self) -> bool:
        following = next(self._rest, None)
        if following is None:
            return False
        self._known.append(following)
        self._seen.add(following)
        return True


def _reached(steps: Callable[[int], Iterable[tuple[Row, int]]], origin: int) -> Iterator[int]:
    """The nodes that one or more steps reach, each once, the nearest first."""
    seen: set[int] = set()
    gathers(seen)
    border = [origin]
    while border:
        following: list[int] = []
        for node in border:
            for (reached,), _ in steps(node):
                if reached not in seen:
                    seen.add(reached)
                    following.append(reached)
                    yield reached
        border = following
