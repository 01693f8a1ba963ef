"""Operators that keep their source's rows by key: groups, windows, closures.

Owns what the compiler asks of them. Each is a state with the source's rows and whatever is derived from
them; the rows are a relation of the store, the rest is derived again when they are loaded. They are never
probed by keys: where that is wanted, the plan stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from sparqlive.live.code import Function, Point
from sparqlive.live.stored import loop_over
from sparqlive.plan.delta import State
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


class Kept(Protocol):
    """The state of such an operator. Nothing that is read as *before* changes until `commit`."""

    pending: Mapping[Row, int]

    def load(self, rows: dict[Row, int]) -> None:
        """Takes in the source's content; the state is empty."""

    def stage(self, delta: Mapping[Row, int]) -> None:
        """The change of the source in the epoch under way."""

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        """Stages a change of the source, and gives the operator's own change, without zeros."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def items(self) -> Iterable[tuple[Row, int]]:
        """The source's rows before the epoch: what the store keeps."""

    def content(self) -> Iterable[tuple[Row, int]]:
        """The operator's own rows before the epoch."""

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        """The operator's rows over other source rows, from scratch; the state is not looked at."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """The content before an epoch is at hand; that after it is made from the source's."""
    assert not any(v in point.env for v in node.operator.variables), (
        "keys are not pushed into what is kept by key"
    )
    kept: Kept = compiler.states[node.number]
    if state is State.OLD:
        rows = f"{compiler.program.name('s', kept.content)}()"
    else:
        child = node.children[0]
        source = compiler.rows_of(f, child, state, {}, child.operator.variables)
        rows = f"{compiler.program.name('s', kept.evaluate)}({source})"
    loop_over(f, node.operator, rows, point)
