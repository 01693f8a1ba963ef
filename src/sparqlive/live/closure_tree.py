"""Maintains reachability from one node, as a spanning tree of paths.

Owns the nodes that a fixed node reaches over one or more edges, or, over reversed edges, the nodes that reach
it. The parent of each node in the tree has an edge to it. Adding or removing an edge outside the tree costs
one lookup. Removing an edge of the tree visits the nodes below it, and attaches them again where another edge
leads to them. The fixed node itself is reached only if a path leads back to it. It is then a leaf, because
its successors are already attached to the root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

Edge = tuple[int, int]
Ends = tuple[int, ...]


class Tree:
    """The nodes that `fixed` reaches, or that reach it (`turned`); with `wanted`, only that node."""

    def __init__(self, edges: Iterable[Edge], fixed: int, turned: bool, wanted: int | None = None) -> None:
        self._fixed = fixed
        self._turned = turned
        self._target = wanted
        self._after: dict[int, set[int]] = {}
        self._before: dict[int, set[int]] = {}
        self._parent: dict[int, int] = {}
        self._children: dict[int, set[int]] = {}
        self._was: dict[int, bool] = {}
        for edge in edges:
            self._link(edge)
        self._hang_below(fixed)
        self.settle()

    def settle(self) -> None:
        """Makes the current state the *old* state."""
        self._was = {}

    def change(self, gone: Collection[Edge], come: Collection[Edge]) -> None:
        lost = [to for at, to in map(self._unlink, gone) if self._parent.get(to) == at]
        added = [self._link(edge) for edge in come]
        self._hang_again(self._cut_off(lost))
        for at, to in added:
            if to not in self._parent and self._leads_on(at):
                self._hang(to, at)
                self._hang_below(to)

    def _link(self, edge: Edge) -> Edge:
        at, to = reversed(edge) if self._turned else edge
        self._after.setdefault(at, set()).add(to)
        self._before.setdefault(to, set()).add(at)
        return at, to

    def _unlink(self, edge: Edge) -> Edge:
        at, to = reversed(edge) if self._turned else edge
        _discard(self._after, at, to)
        _discard(self._before, to, at)
        return at, to

    def _leads_on(self, node: int) -> bool:
        return node == self._fixed or node in self._parent

    def _cut_off(self, roots: list[int]) -> list[int]:
        """Removes nodes and their subtrees from the tree."""
        found = []
        while roots:
            node = roots.pop()
            if node not in self._parent:
                continue
            self._was.setdefault(node, True)
            _discard(self._children, self._parent.pop(node), node)
            found.append(node)
            if node != self._fixed:
                roots.extend(self._children.pop(node, ()))
        return found

    def _hang_again(self, nodes: list[int]) -> None:
        for node in nodes:
            if node in self._parent:
                continue
            for parent in self._before.get(node, ()):
                if self._leads_on(parent):
                    self._hang(node, parent)
                    self._hang_below(node)
                    break

    def _hang(self, node: int, parent: int) -> None:
        self._was.setdefault(node, False)
        self._parent[node] = parent
        self._children.setdefault(parent, set()).add(node)

    def _hang_below(self, node: int) -> None:
        """Attaches the nodes below a node, level by level, so that paths and subtrees stay small."""
        level = [node]
        while level:
            following = []
            for parent in level:
                for child in self._after.get(parent, ()):
                    if child not in self._parent:
                        self._hang(child, parent)
                        following.append(child)
            level = following

    # Reading

    def delta(self) -> Iterator[tuple[Ends, int]]:
        """Yields the nodes that became reachable (+1) and the nodes that are no longer reachable (-1)."""
        for node, was in self._was.items():
            now = node in self._parent
            if was != now and self._target in (None, node):
                yield self._ends(node), 1 if now else -1

    def _ends(self, node: int) -> Ends:
        return (node,) if self._target is None else ()

    def _has(self, node: int, old: bool) -> bool:
        was = self._was.get(node) if old else None
        return node in self._parent if was is None else was

    def matches(self, ends: tuple[int | None, ...], old: bool) -> Iterator[Ends]:
        """Yields the pairs of ends that match the given ones, in the old or the current state."""
        node = ends[0] if self._target is None else self._target
        if node is not None:
            if self._has(node, old):
                yield self._ends(node)
            return
        yield from ((node,) for node in self._parent if not old or self._was.get(node, True))
        if old:
            yield from ((node,) for node, was in self._was.items() if was and node not in self._parent)

    def count(self) -> int:
        return len(self._parent) if self._target is None else int(self._target in self._parent)

    @property
    def is_empty(self) -> bool:
        """Returns whether no edges are left."""
        return not self._after

    @property
    def nbytes(self) -> int:
        """Estimates the memory in bytes from the number of entries in dicts and sets."""
        edges = sum(len(found) for found in self._after.values())
        return 300 * (len(self._after) + len(self._before)) + 120 * edges + 320 * len(self._parent)


def _discard(neighbours: dict[int, set[int]], node: int, other: int) -> None:
    found = neighbours.get(node)
    if found is not None:
        found.discard(other)
        if not found:
            del neighbours[node]
