"""Defines the interface between the compiler and operators that keep their source by key.

These are groups, windows and closures. Each has a state with the source's rows and data derived from them.
The store saves the rows; the derived data is recomputed on loading. These operators are never probed by keys:
a plan that needs this stores their result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from sparqlive.live import lazy
from sparqlive.live.code import Function, Point
from sparqlive.live.stored import loop_over
from sparqlive.plan.delta import State
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


class KeyedState(Protocol):
    """The state of an operator. The state *before* an epoch does not change until `commit`."""

    pending: Mapping[Row, int]

    def load(self, rows: dict[Row, int]) -> None:
        """Loads the source's content into an empty state."""

    def stage(self, delta: Mapping[Row, int]) -> None:
        """Stages the change of the source in the current epoch."""

    def carry(self, delta: Mapping[Row, int]) -> Mapping[Row, int]:
        """Stages a change of the source, and returns the operator's own change without zero weights."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def items(self) -> Iterable[tuple[Row, int]]:
        """Yields the source's rows before the epoch, which the store saves."""

    def content(self) -> Iterable[tuple[Row, int]]:
        """Yields the operator's own rows before the epoch."""

    def evaluate(self, rows: Iterable[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        """Computes the operator's rows over other source rows from scratch, independent of the state."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Reads the stored content before an epoch; computes the content after it from the source."""
    assert not any(v in point.env for v in node.operator.variables), (
        "keys are not pushed into what is kept by key"
    )
    if compiler.lazy:
        rows = f"{compiler.program.made('s', lambda: lazy.content_of(compiler, node))}()"
        loop_over(f, node.operator, rows, point)
        return
    kept: KeyedState = compiler.states[node.number]
    if state is State.OLD:
        rows = f"{compiler.program.name('s', kept.content)}()"
    else:
        child = node.children[0]
        source = compiler.rows_of(f, child, state, {}, child.operator.variables)
        rows = f"{compiler.program.name('s', kept.evaluate)}({source})"
    loop_over(f, node.operator, rows, point)
