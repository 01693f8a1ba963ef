"""Holds the contents of plans: their rows and their stored state.

Owns the rows of a plan, unless its top operator stores them. A product of parts that share no variable is
never stored. Invariant: rows change only through `add`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from itertools import chain, product
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np

from sparqlive.errors import TooLarge
from sparqlive.live.compiled_plan import CompiledPlan, Saved, Spent, rows_name
from sparqlive.live.stored import StoredRows
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.zset.blocks import Block, Blocks, blocks_of, rows_in
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Run
from sparqlive.zset.zset import without_zeros


class Materialization:
    """The rows of a plan. `rows` is None if the top operator, DISTINCT or a closure, stores them."""

    is_held = True
    """Whether the rows are in memory."""
    why = ""
    """Why the rows are not in memory, if that is known."""

    def __init__(
        self,
        plan: op.Operator,
        compiled: CompiledPlan | None,
        scope: str = "",
        terms: Terms | None = None,
        key: Any = None,
    ) -> None:
        """`terms`: the separate terms of a temporary view's content. `key`: the key in a registry, by default
        the plan."""
        self.plan = plan
        self.scope = scope
        self.key = plan if key is None else key
        self.terms = terms
        self.compiled = compiled
        self.rows: Relation | None = None
        self.users = 0
        self.reserved_bytes = 0
        """The memory that it was estimated to need when it was added."""
        self.products: list[Product] = []

    def load(
        self, saved: Saved | None, compute: Callable[[], dict[Row, int]], tuning: Tuning = DEFAULT
    ) -> None:
        """Loads the saved rows, or computes them."""
        rows = saved(self.name, self.plan) if saved is not None else None
        self.rows = Relation(len(self.plan.variables), compute() if rows is None else rows, tuning)

    def rebase(self, found: Callable[[str], Relation | None]) -> None:
        """Replaces the parts of relations by equivalent parts with the same rows, by name; between epochs."""
        if self.rows is not None and (rows := found(self.name)) is not None:
            self.rows.rebase(rows)
        if self.compiled is not None and self.plan_to_explain() is self.compiled.plan:
            self.compiled.rebase(found)

    def take(self) -> None:
        """Adds a user."""
        self.users += 1

    def reserve(self, size: int) -> None:
        """Sets the memory that the content is estimated to need, unless that was done before."""
        self.reserved_bytes = self.reserved_bytes or size

    def give_back(self) -> bool:
        """Removes a user; returns whether it was the last one."""
        self.users -= 1
        return not self.users

    def join(self, compiled: CompiledPlan) -> None:
        """Lets the plan of a family maintain the content from now on."""
        self.compiled = compiled

    @cached_property
    def name(self) -> str:
        """The name of the relation that stores the rows."""
        return rows_name(self.plan, self.scope)

    def relations(self) -> Iterator[tuple[str, int, Relation | StoredRows]]:
        """Yields all stored relations of this content: name, width and rows."""
        if self.rows is not None:
            yield self.name, len(self.plan.variables), self.rows
        if self.compiled is not None and self.plan_to_explain() is self.compiled.plan:
            yield from self.compiled.states()

    def carried_by(self) -> Iterator[CompiledPlan]:
        """Yields the plans that maintain this content."""
        if self.compiled is not None:
            yield self.compiled

    def computed_by(self, evaluator: str | None) -> None:
        """Records the evaluator that computed the content, unless the content has other users already."""
        if self.compiled is not None and self.users == 1:
            self.compiled.computed_by(evaluator)

    def stored_parts(self) -> Iterator[Materialization]:
        """Yields the contents whose rows are stored: this one, or the parts of a product."""
        yield self

    def whole(self) -> Mapping[Row, int] | Run:
        """Returns all rows, by columns if possible, without changing the content."""
        content = self.rows if self.rows is not None else self._top()
        run = content.copy().whole() if isinstance(content, Relation) else None
        if run is None:
            return dict(self.items())
        assert run.weights is not None
        return run if content is self.rows else Run(run.columns, np.sign(run.weights))

    def _top(self) -> Any:
        assert self.compiled is not None
        return self.compiled.top_state()

    def items(self) -> Iterator[tuple[Row, int]]:
        if self.rows is not None:
            return self.rows.items()
        top = self._top()
        if isinstance(top, Relation):  # a negative count is a bug and must stay visible
            return ((row, 1 if weight > 0 else -1) for row, weight in top.items())
        return ((row, 1) for row in top.own_rows())

    def is_empty(self) -> bool:
        """Returns whether there are no rows."""
        rows = self.rows
        if rows is not None and rows.run is None and rows.is_here:
            return not rows.overlay
        return not any(self.items())

    @property
    def capturable(self) -> bool:
        """Returns whether one thread can capture and count the rows while another evaluates an epoch.

        A closure changes in place, and rows that are not in memory would have to be fetched.
        """
        content = self.rows if self.rows is not None else self._top()
        return isinstance(content, Relation) and content.is_here

    def captured(self) -> Blocks:
        """Captures the rows of the last epoch, to be listed later; cheap if possible.

        Called under the lock, or during an epoch if the content is `capturable`.
        """
        if self.rows is not None:
            return self.rows.copy().blocks
        assert self.compiled is not None
        top = self.compiled.top_state()
        if isinstance(top, Relation):
            counts = top.copy()
            return lambda: (Block(block.columns, np.sign(block.weights)) for block in counts.blocks())
        rows, width = list(top.own_rows()), len(self.plan.variables)
        return lambda: blocks_of(((row, 1) for row in rows), width)

    def add(self, delta: Mapping[Row, int]) -> None:
        if self.rows is not None:
            self.rows.add(delta)

    def total_weight(self) -> int:
        """The number of rows, counting duplicates."""
        if self.rows is not None:
            return self.rows.total()
        return sum(weight for _, weight in self.items())

    def row_count(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        assert self.compiled is not None
        return int(self.compiled.top_state().row_count())

    def size(self) -> tuple[int, int]:
        """The approximate number of rows in memory, and the sum of their weights."""
        assert self.compiled is not None
        content = self.rows if self.rows is not None else self.compiled.top_state()
        return content.size() if isinstance(content, Relation) else (content.row_count(), content.row_count())

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Rows and bytes of the stored state, by operator number; the result has number -1."""
        sizes = {}
        if self.compiled is not None and self.plan_to_explain() is self.compiled.plan:
            sizes = self.compiled.sizes()
        if self.rows is not None:
            sizes[-1] = (len(self.rows), self.rows.nbytes)
        return sizes

    def costs(self) -> list[tuple[int, int | None, Spent]] | None:
        """The cost of applying changes, by operator numbers; None if it is not measured separately."""
        if self.compiled is None or self.plan_to_explain() is not self.compiled.plan:
            return None
        return list(self.compiled.costs())

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in self.sizes().values())

    def held_bytes(self) -> int:
        """The memory of the rows and state that are in memory; reads nothing."""
        state = 0 if self.compiled is None else self.compiled.state_bytes()
        return state + (0 if self.rows is None else self.rows.nbytes)

    def plan_to_explain(self) -> op.Operator:
        """The plan to explain: with its stored operators, unless the plan serves a family."""
        compiled = self.compiled
        alone = compiled is not None and compiled.plan.variables == self.plan.variables
        return compiled.plan if alone and compiled is not None else self.plan

    @property
    def sources(self) -> list[str]:
        """The generated code."""
        return self.compiled.sources if self.compiled is not None else []


class Product(Materialization):
    """The product of contents that share no variable. It is never stored, but expanded when it is read."""

    def __init__(
        self,
        plan: op.Operator,
        parts: list[Materialization],
        scope: str = "",
        terms: Terms | None = None,
        key: Any = None,
    ) -> None:
        super().__init__(plan, None, scope, terms, key)
        self.parts = parts
        self.is_held = all(part.is_held for part in parts)
        self.why = next((part.why for part in parts if part.why), "")
        for part in parts:
            part.products.append(self)
        numbers = {v: number for number, v in enumerate(v for part in parts for v in part.plan.variables)}
        self._columns = [[numbers[v] for v in part.plan.variables] for part in parts]
        """The columns of each part, numbered across all parts."""
        self._order = [numbers.get(v) for v in plan.variables]
        """The columns of the product by these numbers; None means unbound."""

    def relations(self) -> Iterator[tuple[str, int, Relation | StoredRows]]:
        for part in self.parts:
            yield from part.relations()

    def rebase(self, found: Callable[[str], Relation | None]) -> None:
        for part in self.parts:
            part.rebase(found)

    def carried_by(self) -> Iterator[CompiledPlan]:
        for part in self.parts:
            yield from part.carried_by()

    def computed_by(self, evaluator: str | None) -> None:
        for part in self.parts:
            part.computed_by(evaluator)

    def stored_parts(self) -> Iterator[Materialization]:
        for part in self.parts:
            yield from part.stored_parts()

    def items(self) -> Iterator[tuple[Row, int]]:
        return self._expanded([list(part.items()) for part in self.parts])

    @property
    def capturable(self) -> bool:
        return all(part.capturable for part in self.parts)

    def captured(self) -> Blocks:
        parts, width = [part.captured() for part in self.parts], len(self.plan.variables)
        return lambda: blocks_of(self._expanded([list(rows_in(part())) for part in parts]), width)

    def _expanded(self, factors: list[list[tuple[Row, int]]]) -> Iterator[tuple[Row, int]]:
        """Yields the product of factors, one per part: rows in no particular order, with their weights."""
        if not all(factors):
            return
        # The largest factor is the innermost loop, so the prefix is built once per round.
        order = sorted(range(len(factors)), key=lambda number: len(factors[number]))
        *outer, inner = (factors[number] for number in order)
        columns = [None, *chain.from_iterable([self._columns[number] for number in order])]
        arranged = _arrangement([columns.index(column) for column in self._order])
        for combination in product(*outer):
            start: Row = (UNDEF,)
            weight = 1
            for row, times in combination:
                start += row
                weight *= times
            for row, times in inner:
                yield arranged(start + row), weight * times

    def expand(self, changed: Mapping[Materialization, Mapping[Row, int]], most: int) -> dict[Row, int]:
        """Computes Σᵢ P₁' × … × ΔPᵢ × … × Pₙ before the parts add their deltas; raises beyond `most` rows.

        If the product was empty, its change is all of its new rows; if it becomes empty, all of its old rows.
        These cases avoid adding up terms that cancel. Only the factors of a changed part are read, so the
        cost is proportional to the changed rows.
        """
        was_empty = any(part.is_empty() for part in self.parts)
        if was_empty and any(part not in changed and part.is_empty() for part in self.parts):
            return {}
        is_empty = any(_is_empty_after(part, changed) for part in self.parts)
        if was_empty:
            if is_empty:
                return {}
            after = [_after(part, changed) for part in self.parts]
            _check_size(after, most)
            return dict(self._expanded(after))
        if is_empty:
            before = [list(part.items()) for part in self.parts]
            _check_size(before, most)
            return {row: -weight for row, weight in self._expanded(before)}
        total: dict[Row, int] = {}
        for position, changed_part in enumerate(self.parts):
            if changed.get(changed_part):
                factors = [_after(part, changed) for part in self.parts[:position]]
                factors.append(list(changed[changed_part].items()))
                factors += [list(part.items()) for part in self.parts[position + 1 :]]
                _check_size(factors, most)
                for row, weight in self._expanded(factors):
                    total[row] = total.get(row, 0) + weight
        return without_zeros(total)

    def add(self, delta: Mapping[Row, int]) -> None:
        """Does nothing, because the parts store the rows."""

    def held_bytes(self) -> int:
        return sum(part.held_bytes() for part in self.parts)

    def row_count(self) -> int:
        count = 1
        for part in self.parts:
            count *= part.row_count()
        return count

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Rows and bytes of the parts; the result of the i-th part has number -i."""
        sizes = {}
        for number, part in enumerate(self.parts, 1):
            rows, size = part.row_count(), part.nbytes
            sizes[-number] = (rows, size)
        return sizes

    @property
    def sources(self) -> list[str]:
        return [source for part in self.parts for source in part.sources]


def _arrangement(places: Sequence[int]) -> Callable[[Row], Row]:
    """Returns a function that picks the values of a row at some positions."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: tuple([row[place] for place in places])


def _is_empty_after(part: Materialization, changed: Mapping[Materialization, Mapping[Row, int]]) -> bool:
    delta = changed.get(part)
    if not delta or part.is_empty():
        return not delta and part.is_empty()
    if len(delta) < part.row_count():  # some rows do not change
        return False
    return not _after(part, changed)


def _check_size(factors: Sequence[Sized], most: int) -> None:
    if prod(map(len, factors)) > most:
        raise TooLarge(f"the change of a product has more than {most:,} rows")


def _after(
    part: Materialization, changed: Mapping[Materialization, Mapping[Row, int]]
) -> list[tuple[Row, int]]:
    if part not in changed:
        return list(part.items())
    total = dict(part.items())
    for row, weight in changed[part].items():
        total[row] = total.get(row, 0) + weight
    return list(without_zeros(total).items())
