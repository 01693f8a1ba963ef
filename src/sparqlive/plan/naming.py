"""Assigns the short names of the operators of a plan, under which it is explained.

Invariant: all operators of a plan have different names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sparqlive.plan import operators as op


@dataclass(eq=False)
class Node:
    """An operator at its position in the plan. `number` is its key in `sizes`; rules use its `name`."""

    operator: op.Operator
    parent: Node | None
    depth: int
    children: tuple[Node, ...] = ()
    number: int = 0
    name: str = ""
    again: bool = False
    """Whether it is shared and was already shown elsewhere in the plan."""

    @property
    def is_leaf(self) -> bool:
        return not self.children

    @property
    def constant(self) -> bool:
        """Whether nothing below reads quads, so that its change is always empty."""
        if self.is_leaf:
            return isinstance(self.operator, op.Table | op.Parameters)
        if isinstance(self.operator, op.Shared):
            return False
        return all(child.constant for child in self.children)

    def grow(self, shared: set[op.Operator]) -> Node:
        """Adds the nodes below, except where `shared` says that they are shown elsewhere; returns itself."""
        if isinstance(self.operator, op.Shared):
            shared.add(self.operator)
        if not self.again:
            self.children = tuple(
                Node(child, self, self.depth + 1, again=child in shared).grow(shared)
                for child in self.operator.children
            )
        return self

    def name_all(self) -> None:
        """Names and numbers this node and all below it."""
        totals = Counter(node.operator.letter for node in self.top_down())
        used: Counter[str] = Counter()
        for node in self.top_down():
            letter = node.operator.letter
            used[letter] += 1
            node.name = letter if totals[letter] == 1 and letter != "T" else f"{letter}{used[letter]}"
        for number, node in enumerate(self.bottom_up()):
            node.number = number

    def top_down(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.top_down()

    def bottom_up(self) -> Iterator[Node]:
        for child in self.children:
            yield from child.bottom_up()
        yield self


def name_operators(plan: op.Operator) -> Node:
    """Names each operator of a plan: a letter for its kind, and a number if there are several.

    Patterns always have a number: T1, T2, …
    """
    root = Node(plan, None, 0).grow(set())
    root.name_all()
    return root
