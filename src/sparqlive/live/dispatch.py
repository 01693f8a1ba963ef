"""Finds the plans that a change affects: a change reaches only the leaves that match it.

Owns the tables from the constants of patterns to leaves. Per change and scope, dispatching costs one dict
lookup for the predicate, and one for each combination of other constant positions among the patterns of this
predicate. The number of views does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from sparqlive.live.compiled_plan import CompiledPlan, Inputs
from sparqlive.live.scan import scope_of
from sparqlive.plan import operators as op
from sparqlive.quads.current import Quads
from sparqlive.quads.leaves import KINDS
from sparqlive.quads.scope import PREDICATE, Change, Scope
from sparqlive.sparql.algebra import Var
from sparqlive.zset.columns import ColumnRows, group_starts
from sparqlive.zset.run import Column

_Leaf = tuple[CompiledPlan, int]
Found = dict[CompiledPlan, Inputs]
"""The plans that a batch affects, with the changed rows of their leaves."""
_NO_PARAMETERS: Mapping[Var, int] = {}


class _Table:
    """Leaves whose patterns have constants at the same positions, apart from the predicate, by these."""

    __slots__ = ("_positions", "key", "leaves")

    def __init__(self, positions: tuple[int, ...]) -> None:
        self._positions = positions
        self.key: Callable[[Change], Any] = itemgetter(*positions) if positions else lambda _: ()
        self.leaves: dict[Any, dict[_Leaf, int]] = {}

    def match(self, changes: list[Change], found: Found) -> None:
        """Adds the changes of a small batch that match leaves."""
        key, leaves = self.key, self.leaves
        if not self._positions or len(changes) == 1:
            for plan, number in leaves.get(key(changes[0]), ()):
                _enter(found, plan, number, changes.copy())
            return
        by_key: dict[Any, list[Change]] = {}
        for constants, change in zip(map(key, changes), changes, strict=True):
            if constants in leaves:  # usually not
                by_key.setdefault(constants, []).append(change)
        for constants, some in by_key.items():
            for plan, number in leaves[constants]:
                _enter(found, plan, number, some.copy())

    def match_columns(self, changes: ColumnRows, found: Found) -> None:
        """Adds the changes of a large batch that match leaves."""
        if not self._positions:
            for plan, number in self.leaves.get((), ()):
                _enter(found, plan, number, changes)
            return
        for places in _grouped(changes, self._positions):
            leaves = self.leaves.get(self.key(changes[int(places[0])]))
            if leaves:
                rows = changes.take(places)
                for plan, number in leaves:
                    _enter(found, plan, number, rows)


_Tables = dict[int | None, dict[tuple[int, ...], _Table]]
"""The tables of one scope, by predicate (None: patterns with a variable predicate) and constant positions."""


def _grouped(changes: ColumnRows, positions: tuple[int, ...]) -> Iterator[Column]:
    """Yields, per group of rows that agree at some positions, their indexes in the original order."""
    keys = [changes.columns[position] for position in positions]
    order = np.lexsort(keys)  # stable
    for start, stop in pairwise(group_starts(*(column[order] for column in keys)).tolist()):
        yield order[start:stop]


def _match(tables: _Tables, changes: Sequence[Change], found: Found) -> None:
    """Adds the changes of a small batch that match leaves of one scope."""
    by_predicate: dict[int, list[Change]] = {}
    for change in changes:
        if change[PREDICATE] in tables:  # usually not
            by_predicate.setdefault(change[PREDICATE], []).append(change)
    for predicate, some in by_predicate.items():
        for table in tables[predicate].values():
            table.match(some, found)
    if None in tables:
        for table in tables[None].values():
            table.match(list(changes), found)


def _match_columns(tables: _Tables, changes: ColumnRows, found: Found) -> None:
    """Adds the changes of a large batch that match leaves of one scope."""
    for places in _grouped(changes, (PREDICATE,)):
        predicate = int(changes.columns[PREDICATE][places[0]])
        if predicate in tables:
            rows = changes.take(places)
            for table in tables[predicate].values():
                table.match_columns(rows, found)
    if None in tables:
        for table in tables[None].values():
            table.match_columns(changes, found)


class Dispatcher:
    def __init__(self, quads: Quads) -> None:
        self._quads = quads
        self._tables: dict[Scope, _Tables] = {}
        self._by_leaf: dict[Any, dict[_Leaf, int]] = {}

    def add(self, plan: CompiledPlan, parameters: Mapping[Var, int] = _NO_PARAMETERS) -> None:
        """Registers the leaves of a plan; for a plan with parameters, once per row of parameters."""
        for number, leaf in plan.leaves():
            entry = self._entry(plan, leaf, parameters)
            entry[(plan, number)] = entry.get((plan, number), 0) + 1

    def remove(self, plan: CompiledPlan, parameters: Mapping[Var, int] = _NO_PARAMETERS) -> None:
        for number, leaf in plan.leaves():
            entry = self._entry(plan, leaf, parameters)
            entry[(plan, number)] -= 1
            if not entry[(plan, number)]:
                del entry[(plan, number)]
                if not entry:
                    self._forget(plan, leaf, parameters)

    def _entry(
        self, plan: CompiledPlan, leaf: op.QuadLeaf, parameters: Mapping[Var, int]
    ) -> dict[_Leaf, int]:
        table, key = self._place(plan, leaf, parameters)
        return table.setdefault(key, {})

    def _forget(self, plan: CompiledPlan, leaf: op.QuadLeaf, parameters: Mapping[Var, int]) -> None:
        table, key = self._place(plan, leaf, parameters)
        del table[key]
        if not table and isinstance(leaf, op.Scan):
            predicate, positions, _ = _constants(plan, leaf, parameters)
            tables = self._tables[scope_of(plan.compiler.terms.dictionary, leaf.graph)]
            del tables[predicate][positions]
            if not tables[predicate]:
                del tables[predicate]

    def _place(
        self, plan: CompiledPlan, leaf: op.QuadLeaf, parameters: Mapping[Var, int]
    ) -> tuple[dict[Any, dict[_Leaf, int]], Any]:
        """Returns the table of a leaf, and its key in the table."""
        scope = scope_of(plan.compiler.terms.dictionary, leaf.graph)
        self._quads.watch(scope)
        if not isinstance(leaf, op.Scan):
            return self._by_leaf, ("nodes" if isinstance(leaf, op.Nodes) else "names", scope)
        predicate, positions, key = _constants(plan, leaf, parameters)
        tables = self._tables.setdefault(scope, {}).setdefault(predicate, {})
        return tables.setdefault(positions, _Table(positions)).leaves, key

    def dispatch(self, staged: Mapping[Scope, Sequence[Change]]) -> Found:
        """Returns, per affected plan, the changed rows of its leaves."""
        found: Found = {}
        for scope, changes in staged.items():
            tables = self._tables.get(scope)
            if tables:
                if type(changes) is ColumnRows:
                    _match_columns(tables, changes, found)
                else:
                    _match(tables, changes, found)
            for kind in KINDS:
                plans = self._by_leaf.get((kind, scope), ())
                rows = self._quads.delta(kind, scope) if plans else []
                for plan, number in plans if rows else ():
                    found.setdefault(plan, {})[number] = _leaf_rows(plan, number, rows)
        return found


def _constants(
    plan: CompiledPlan, leaf: op.Scan, parameters: Mapping[Var, int]
) -> tuple[int | None, tuple[int, ...], Any]:
    """Returns the constants of a pattern: the predicate, other constant positions, and their key."""
    constants = {}
    for position, term in enumerate(leaf.positions):
        if not isinstance(term, Var):
            constants[position] = plan.compiler.terms.dictionary.id_of(term)
        elif term in parameters:
            constants[position] = parameters[term]
    predicate = constants.pop(PREDICATE, None)
    ids = tuple(constants.values())
    return predicate, tuple(constants), ids[0] if len(ids) == 1 else ids


def _enter(found: Found, plan: CompiledPlan, number: int, rows: list[Change] | ColumnRows) -> None:
    """Adds changed rows of a leaf. A plan with parameters has several keys, each with its own rows."""
    inputs = found.setdefault(plan, {})
    known = inputs.get(number)
    if known is None:
        inputs[number] = rows
    elif type(known) is ColumnRows:  # other leaves may share the same rows
        inputs[number] = [*known, *rows]
    else:
        known += rows


def _leaf_rows(plan: CompiledPlan, number: int, rows: list[tuple[tuple[int, ...], int]]) -> Any:
    """Drops the graph name if the graph is fixed, because the leaf then has no columns."""
    operator = plan.compiler.nodes[number].operator
    return rows if operator.variables else [((), weight) for _, weight in rows]
