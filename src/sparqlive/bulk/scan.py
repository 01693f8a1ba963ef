"""Evaluates quad patterns: the matching quads of the old and the new state, and the change of the matches.

Defines the two states of the quads: the new state is the old one without the deleted and with the inserted
quads. Merged graphs are sets: a triple occurs once, however many graphs contain it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from sparqlive.bulk import distinct
from sparqlive.bulk.dialect import ONE, number
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, restricted
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.quads.columns import PairTable
from sparqlive.quads.scope import scope_in
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.sparql.algebra import Term, Var
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.run import Column, Run

if TYPE_CHECKING:
    from sparqlive.bulk.backend import Backend
    from sparqlive.bulk.evaluate import Evaluation
    from sparqlive.bulk.lookup import Lookup
    from sparqlive.quads.current import Quads as SessionQuads
    from sparqlive.quads.snapshot import Snapshot

QUAD = ("s", "p", "o", "g")


class Quads(Protocol):
    """The quads before and after a change; without a change, the two are the same."""

    id_of: Callable[[Term], int]
    few_changes: bool
    """Whether the changes are few enough that a join with any part of them needs no shuffle."""
    lookup: Lookup | None
    """Finds quads by a few keys, where that is cheaper than a scan."""

    def of(self, state: State, graph: op.GraphChoice, predicate: int | None) -> Frame:
        """Returns the quads of a state in some graphs (of one predicate) with weights: s, p, o, g, w."""

    def is_set(self, graph: op.GraphChoice) -> bool:
        """Returns whether `of` returns a set for a merged graph, and its delta the sign changes."""

    def concerns(self, leaf: op.Operator) -> bool:
        """Returns whether a change may match a leaf; if not, rules that start at the leaf cost nothing."""


class TableOfQuads:
    """All quads in one table, and the changes in another."""

    def __init__(
        self,
        before: Frame | Callable[[], Frame],
        changes: Frame | None,
        id_of: Callable[[Term], int],
        *,
        lookup: Lookup | None = None,
        few_changes: bool = True,
        changed_predicates: frozenset[int] | None = None,
    ) -> None:
        """`before`: the quads, or a function that registers them when they are scanned.

        `changed_predicates`: the predicates of the changes, if known.
        """
        self.id_of = id_of
        self.lookup = lookup
        self._changed_predicates = changed_predicates
        self.few_changes = few_changes
        self._changes = changes
        self._before: Frame | Callable[[], Frame] = before

    def of(self, state: State, graph: op.GraphChoice, predicate: int | None) -> Frame:
        """Returns another frame each time: a frame with several readers would become a common table with all
        quads, although each reader needs few of them.
        """
        conditions = [graph_condition(graph, self.id_of)]
        if predicate is not None:
            conditions.append(f"p = {literal(predicate)}")
        if state is State.DELTA:
            assert self._changes is not None
            return self._changes.select(*QUAD, WEIGHT).where(" AND ".join(conditions))
        if not isinstance(self._before, Frame):
            self._before = self._before()
        found = self._before
        if state is State.NEW and self._changes is not None and self._may_change(predicate):
            found = with_changes(found, self._changes, self.few_changes)
        return found.select(*QUAD, f"{ONE} AS {WEIGHT}").where(" AND ".join(conditions))

    def is_set(self, graph: op.GraphChoice) -> bool:
        return not isinstance(graph, op.MergedGraphs) or (graph.names is not None and len(graph.names) <= 1)

    def concerns(self, leaf: op.Operator) -> bool:
        return may_match(leaf, self._changed_predicates, self.id_of)

    def _may_change(self, predicate: int | None) -> bool:
        known = self._changed_predicates
        return known is None or predicate is None or predicate in known


def may_match(leaf: op.Operator, predicates: frozenset[int] | None, id_of: Callable[[Term], int]) -> bool:
    """Returns whether a leaf may match quads with these predicates; None stands for any."""
    if predicates is None or not isinstance(leaf, op.Scan) or isinstance(leaf.predicate, Var):
        return True
    return id_of(leaf.predicate) in predicates


class SessionTables:
    """The quads of a session by predicate, before and after an epoch, for a backend in this process."""

    def __init__(self, quads: SessionQuads | Snapshot, id_of: Callable[[Term], int]) -> None:
        self._quads = quads
        self._id_of = id_of

    def tables(self, graph: op.GraphChoice, predicate: int | None, state: State) -> Iterator[PairTable]:
        """Yields the quads of some graphs (of one predicate)."""
        return self._quads.tables(scope_in(graph, self._id_of), predicate, state is State.NEW)

    def changes(self, graph: op.GraphChoice) -> Sequence[Column]:
        """Returns the changes of some graphs as columns s, p, o, g, w; of merged graphs, sign changes."""
        scope = scope_in(graph, self._id_of)
        is_set = self._quads.is_merged(scope)
        staged = self._quads.staged.get(scope, ()) if is_set else self._quads.raw_changes(scope)
        if isinstance(staged, ColumnRows):
            return staged.columns
        return list(np.array(staged, dtype=np.int64).reshape(-1, 5).T)

    def is_set(self, graph: op.GraphChoice) -> bool:
        """As in `Quads`."""
        return self._quads.is_merged(scope_in(graph, self._id_of))


class QuadsByPredicate:
    """One table per predicate: a pattern reads the tables that it matches, without copies."""

    lookup: Lookup | None = None

    def __init__(
        self, backend: Backend, tables: SessionTables, id_of: Callable[[Term], int], few_changes: bool = True
    ) -> None:
        self.id_of = id_of
        self.few_changes = few_changes
        self._backend = backend
        self._tables = tables
        self._named: dict[tuple[State, op.GraphChoice, int | None], list[_NamedTable]] = {}

    def of(self, state: State, graph: op.GraphChoice, predicate: int | None) -> Frame:
        key = state, graph, predicate
        if key not in self._named:
            name = self._name_changes if state is State.DELTA else self._name_pairs
            self._named[key] = list(name(*key))
        first, *others = (frame.select(*columns) for frame, columns in self._named[key])
        return first.union(*others) if others else first

    def is_set(self, graph: op.GraphChoice) -> bool:
        return self._tables.is_set(graph)

    def concerns(self, leaf: op.Operator) -> bool:
        return True

    def _name_changes(
        self, state: State, graph: op.GraphChoice, predicate: int | None
    ) -> Iterator[_NamedTable]:
        columns = self._tables.changes(graph)
        if predicate is not None:
            chosen = columns[1] == predicate
            columns = [column[chosen] for column in columns]
        yield self._frame(columns, (*QUAD, WEIGHT)), (*QUAD, WEIGHT)

    def _name_pairs(
        self, state: State, graph: op.GraphChoice, predicate: int | None
    ) -> Iterator[_NamedTable]:
        tables = list(self._tables.tables(graph, predicate, state))
        if len(tables) > _MOST_TABLES or not tables:
            columns = [_joined(part) for part in zip(*map(_quad_columns, tables), strict=True)]
            yield self._frame(columns or [_joined(())] * len(QUAD), QUAD), (*QUAD, f"{ONE} AS {WEIGHT}")
            return
        for of, name, subjects, objects, deleted in tables:
            names, columns, place = ["s", "o"], [subjects, objects], "g"
            if isinstance(name, int):
                place = f"{number(name)} AS g"
            else:
                names, columns = [*names, "g"], [*columns, name]
            frame = self._frame(columns, names)
            if deleted is not None:
                frame = frame.join(self._frame(deleted, names), names, "ANTI")
            yield frame, ("s", f"{number(of)} AS p", "o", place, f"{ONE} AS {WEIGHT}")

    def _frame(self, columns: Sequence[Column], names: Sequence[str]) -> Frame:
        return self._backend.frame(pa.table(dict(zip(names, columns, strict=True))), names)


_NamedTable: TypeAlias = tuple[Frame, tuple[str, ...]]
"""A table of the backend, and the expressions that turn its rows into quads."""
_MOST_TABLES = 32
"""More tables than this are copied into one, because the text of a query names each of them."""


def _quad_columns(table: PairTable) -> tuple[Column, ...]:
    predicate, graph, subjects, objects, deleted = table
    size = len(subjects)
    graphs = np.full(size, graph) if isinstance(graph, int) else graph
    columns = subjects, np.full(size, predicate), objects, graphs
    if deleted is None:
        return columns
    rows = (subjects, objects) if isinstance(graph, int) else (subjects, objects, graphs)
    left = ~Run.sort(deleted).places(rows)[1]
    return tuple([column[left] for column in columns])


def _joined(parts: Sequence[Column]) -> Column:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def with_changes(old: Frame, changes: Frame, few: bool, deletes: bool = True) -> Frame:
    """Returns the quads after effective changes. few: at most a few changes delete."""
    if not deletes:
        return old.union(changes.select(*QUAD))
    deleted = changes.where(f"{WEIGHT} < 0").select(*QUAD).broadcast(few)
    inserted = changes.where(f"{WEIGHT} > 0").select(*QUAD)
    return old.join(deleted, QUAD, "ANTI").union(inserted)


def literal(value: int) -> str:
    """Writes an id in the text of an expression."""
    return number(value)


def graph_condition(graph: op.GraphChoice, id_of: Callable[[Term], int]) -> str:
    """Writes which quads are in the graphs that a leaf covers."""
    kind, graphs = scope_in(graph, id_of)
    if graphs is None:
        return "true" if kind == "merged" else f"g <> {literal(DEFAULT_GRAPH)}"
    names = [literal(name) for name in sorted(graphs)]
    if len(names) == 1:
        return f"g = {names[0]}"
    return f"g IN ({', '.join(names)})" if names else "false"


def content(
    evaluation: Evaluation, scan: op.Scan, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    found = _matches(evaluation, scan, state, keys)
    return found if evaluation.quads.is_set(scan.graph) else found.of(_as_set(found))


def change(evaluation: Evaluation, scan: op.Scan) -> Solutions:
    changed = _matches(evaluation, scan, State.DELTA, None)
    if evaluation.quads.is_set(scan.graph):
        return changed
    old = _matches(evaluation, scan, State.OLD, Keys(changed.frame, changed.variables, changed.small))
    return changed.of(distinct.signs(changed, old))


def _matches(evaluation: Evaluation, scan: op.Scan, state: State, keys: Keys | None) -> Solutions:
    """Returns the matching quads; for a merged graph, a row for each graph that contains them."""
    quads = evaluation.quads
    conditions = []
    places: dict[Var, str] = {}
    predicate = None
    for place, wanted in zip(QUAD, scan.positions, strict=False):
        if not isinstance(wanted, Var):
            if place == "p":
                predicate = quads.id_of(wanted)
            else:
                conditions.append(f"{place} = {literal(quads.id_of(wanted))}")
        elif places.setdefault(wanted, place) != place:
            conditions.append(f"{place} = {places[wanted]}")
    conditions += [f"p <> {literal(quads.id_of(name))}" for name in scan.excluded]
    if isinstance(scan.graph, op.NamedGraphs):
        place = places.setdefault(scan.graph.variable, "g")
        if place != "g":
            conditions.append(f"g = {place}")
    columns = [f"{places[v]} AS {column(v)}" for v in scan.variables]
    table = _looked_up(evaluation, scan, state, predicate, keys)
    if table is None:
        frame = quads.of(state, scan.graph, predicate)
        frame = frame.where(" AND ".join(conditions)) if conditions else frame
        frame = restricted(frame.select(*columns, WEIGHT), keys, scan.variables)
    elif conditions:
        local = evaluation.backend.local(table)
        frame = local.where(" AND ".join(conditions)).select(*columns, WEIGHT)
    else:
        renamed = {column(v): table.column(places[v]) for v in scan.variables}
        frame = evaluation.backend.local(pa.table({**renamed, WEIGHT: table.column(WEIGHT)}))
    return Solutions(
        frame,
        scan.variables,
        always=scan.always,
        plain=scan.always,
        small=(state is State.DELTA and quads.few_changes) or _is_reached(scan, keys),
    )


def _looked_up(
    evaluation: Evaluation, scan: op.Scan, state: State, predicate: int | None, keys: Keys | None
) -> pa.Table | None:
    """Looks up the changes, or the quads of the subjects that a pattern or the keys name.

    Returns None if quads must be scanned.
    """
    quads, subject = evaluation.quads, scan.positions[0]
    if quads.lookup is None:
        return None
    if state is State.DELTA:
        return quads.lookup.changes(scan.graph, predicate)
    if not isinstance(subject, Var):
        subjects: Column | None = np.array([quads.id_of(subject)], dtype=np.int64)
    else:
        subjects = evaluation.values(keys, subject)
    return None if subjects is None else quads.lookup.quads(state, scan.graph, predicate, subjects)


def _is_reached(leaf: op.Operator, keys: Keys | None) -> bool:
    if not leaf.variables:  # a leaf that only tests for existence
        return True
    return keys is not None and any(v in keys.variables for v in leaf.variables)


def _as_set(found: Solutions) -> Frame:
    return found.frame.select(*found.ids).distinct().select("*", f"{ONE} AS {WEIGHT}")
