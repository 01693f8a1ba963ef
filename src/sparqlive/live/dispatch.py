"""Finds the plans that a change affects: a change reaches only the leaves that it matches.

Owns the tables from the constants of patterns to leaves. For each scope and each set of constant positions,
dispatching takes one dict lookup per change, however many views there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from sparqlive.live.maintained import Inputs, Maintained
from sparqlive.live.quads import Quads
from sparqlive.live.scan import scope_of
from sparqlive.live.scope import Change, Scope
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var
from sparqlive.zset.columns import ColumnRows, group_starts

_Leaf = tuple[Maintained, int]
_NO_PARAMETERS: Mapping[Var, int] = {}


class _Table:
    """The leaves of one scope whose patterns have constants at the same positions, by these constants."""

    __slots__ = ("_positions", "key", "leaves")

    def __init__(self, positions: tuple[int, ...]) -> None:
        self._positions = positions
        self.key: Callable[[Change], Any] = itemgetter(*positions) if positions else lambda _: ()
        self.leaves: dict[Any, dict[_Leaf, int]] = {}

    def matching(self, changes: Sequence[Change]) -> Iterator[tuple[_Leaf, list[Change]]]:
        """For each leaf and key that match changes of a small batch, the leaf and a new list of them."""
        key, leaves = self.key, self.leaves
        if len(changes) == 1:
            yield from [(leaf, [changes[0]]) for leaf in leaves.get(key(changes[0]), ())]
            return
        by_key: dict[Any, list[Change]] = {}
        for constants, change in zip(map(key, changes), changes, strict=True):
            if constants in leaves:  # mostly not
                by_key.setdefault(constants, []).append(change)
        for constants, some in by_key.items():
            for leaf in leaves[constants]:
                yield leaf, some.copy()

    def matches(self, changes: ColumnRows) -> Iterator[tuple[_Leaf, ColumnRows]]:
        """For each leaf that matches rows of a large batch, the leaf and these rows."""
        keys = [changes.columns[position] for position in self._positions]
        if not keys:
            yield from ((leaf, changes) for leaf in self.leaves.get((), ()))
            return
        order = np.lexsort(keys)
        starts = group_starts(*(column[order] for column in keys)).tolist()
        for start, stop in pairwise(starts):
            leaves = self.leaves.get(self.key(changes[int(order[start])]))
            if leaves:
                rows = changes.take(np.sort(order[start:stop]))
                yield from ((leaf, rows) for leaf in leaves)


class Dispatcher:
    def __init__(self, quads: Quads) -> None:
        self._quads = quads
        self._tables: dict[Scope, dict[tuple[int, ...], _Table]] = {}
        self._counted: dict[Any, dict[_Leaf, int]] = {}

    def add(self, plan: Maintained, parameters: Mapping[Var, int] = _NO_PARAMETERS) -> None:
        """Enters the leaves of a plan; for a plan with parameters, once per row of parameters."""
        for number, leaf in plan.leaves():
            entry = self._entry(plan, leaf, parameters)
            entry[(plan, number)] = entry.get((plan, number), 0) + 1

    def remove(self, plan: Maintained, parameters: Mapping[Var, int] = _NO_PARAMETERS) -> None:
        for number, leaf in plan.leaves():
            entry = self._entry(plan, leaf, parameters)
            entry[(plan, number)] -= 1
            if not entry[(plan, number)]:
                del entry[(plan, number)]
                if not entry:
                    self._forget(plan, leaf, parameters)

    def _entry(
        self, plan: Maintained, leaf: op.Scan | op.Names | op.Nodes, parameters: Mapping[Var, int]
    ) -> dict[_Leaf, int]:
        table, key = self._place(plan, leaf, parameters)
        return table.setdefault(key, {})

    def _forget(
        self, plan: Maintained, leaf: op.Scan | op.Names | op.Nodes, parameters: Mapping[Var, int]
    ) -> None:
        table, key = self._place(plan, leaf, parameters)
        del table[key]

    def _place(
        self, plan: Maintained, leaf: op.Scan | op.Names | op.Nodes, parameters: Mapping[Var, int]
    ) -> tuple[dict[Any, dict[_Leaf, int]], Any]:
        """The table of a leaf, and its key there."""
        compiler = plan.compiler
        scope = scope_of(compiler.terms.dictionary, leaf.graph)
        self._quads.watch(scope)
        if isinstance(leaf, op.Nodes):
            self._quads.nodes(scope)
            return self._counted, ("nodes", scope)
        if isinstance(leaf, op.Names):
            self._quads.names(scope)
            return self._counted, ("names", scope)
        constants = {}
        for position, term in enumerate(leaf.positions):
            if not isinstance(term, Var):
                constants[position] = compiler.terms.dictionary.id_of(term)
            elif term in parameters:
                constants[position] = parameters[term]
        positions, ids = tuple(constants), tuple(constants.values())
        table = self._tables.setdefault(scope, {}).setdefault(positions, _Table(positions))
        return table.leaves, ids[0] if len(ids) == 1 else ids

    def dispatch(self, staged: Mapping[Scope, Sequence[Change]]) -> dict[Maintained, Inputs]:
        """For each plan that the staged changes affect, the changed rows of its leaves."""
        found: dict[Maintained, Inputs] = {}
        for scope, changes in staged.items():
            for table in self._tables.get(scope, {}).values():
                is_large = type(changes) is ColumnRows
                for (plan, number), some in table.matches(changes) if is_large else table.matching(changes):
                    _enter(found.setdefault(plan, {}), number, some)
            for kind in ("nodes", "names"):
                for plan, number in self._counted.get((kind, scope), ()):
                    counted = self._quads.counted_delta(kind, scope)
                    if counted:
                        found.setdefault(plan, {})[number] = _leaf_rows(plan, number, counted)
        return found


def _enter(inputs: Inputs, number: int, rows: Sequence[Change]) -> None:
    """Adds changed rows of a leaf. A plan with parameters has several keys, each with its own rows."""
    known = inputs.get(number)
    if known is None:
        inputs[number] = rows
        return
    if type(known) is ColumnRows:  # others may have the same rows
        known = inputs[number] = list(known)
    known += rows


def _leaf_rows(plan: Maintained, number: int, rows: list[tuple[tuple[int, ...], int]]) -> Any:
    """Drops the graph's name if the graph is fixed, because the leaf then has no columns."""
    operator = plan.compiler.nodes[number].operator
    return rows if operator.variables else [((), weight) for _, weight in rows]
