"""Quad patterns: the quads of the old and the new state that match, and the change of the matches.

Owns the two states of the quads: old is what was there, new is that without the deleted and with the inserted
ones. Merged graphs are sets: a triple is there once, whatever the number of graphs it is in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sparqlive.bulk import distinct
from sparqlive.bulk.dialect import ONE, number
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, restricted
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.sparql.algebra import Term, Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

QUAD = ("s", "p", "o", "g")


class Quads:
    """The quads before and after a change; without one, the two are the same.

    are_broadcast: they are few enough that a join with any part of them needs no shuffle. few_changes: the
    changes are.
    """

    def __init__(
        self,
        before: Frame,
        changes: Frame | None,
        id_of: Callable[[Term], int],
        *,
        are_broadcast: bool = False,
        few_changes: bool = True,
    ) -> None:
        self.id_of = id_of
        self.few_changes = few_changes
        self.are_broadcast = are_broadcast
        self.changes = changes
        self._before = before

    def of(self, state: State) -> Frame:
        """The quads of a state, each with weight one; the changes with theirs.

        Each time another frame: several readers of one would have all quads written to a common table, where
        each reader wants few of them.
        """
        if state is State.DELTA:
            assert self.changes is not None
            return self.changes.select(*QUAD, WEIGHT)
        frame = self._before
        if state is State.NEW and self.changes is not None:
            frame = _changed(frame, self.changes, self.few_changes)
        return frame.select(*QUAD, f"{ONE} AS {WEIGHT}")


def _changed(old: Frame, changes: Frame, few: bool) -> Frame:
    deleted = changes.where(f"{WEIGHT} < 0").select(*QUAD).broadcast(few)
    inserted = changes.where(f"{WEIGHT} > 0").select(*QUAD)
    return old.join(deleted, QUAD, "ANTI").union(inserted)


def literal(value: int) -> str:
    """An id in the text of an expression."""
    return number(value)


def graph_condition(graph: op.GraphChoice, id_of: Callable[[Term], int]) -> str:
    """Which quads are in the graphs that a leaf ranges over."""
    match graph:
        case op.OneGraph(None):
            return f"g = {literal(DEFAULT_GRAPH)}"
        case op.OneGraph(name):
            assert name is not None
            return f"g = {literal(id_of(name))}"
        case op.MergedGraphs(names):
            return "true" if names is None else _in([id_of(name) for name in names])
        case op.NamedGraphs(_, None):
            return f"g <> {literal(DEFAULT_GRAPH)}"
        case op.NamedGraphs(_, names):
            assert names is not None
            return _in([id_of(name) for name in names])


def _in(numbers: list[int]) -> str:
    return f"g IN ({', '.join(map(literal, numbers))})" if numbers else "false"


def content(evaluation: Evaluation, scan: op.Scan, state: State, keys: Keys | None) -> Solutions:
    found = _matches(evaluation, scan, state, keys)
    return found.of(_as_set(found)) if _merges(scan) else found


def delta(evaluation: Evaluation, scan: op.Scan) -> Solutions:
    changed = _matches(evaluation, scan, State.DELTA, None)
    if not _merges(scan):
        return changed
    old = _matches(evaluation, scan, State.OLD, Keys(changed.frame, changed.variables))
    return changed.of(distinct.signs(changed, old))


def _matches(evaluation: Evaluation, scan: op.Scan, state: State, keys: Keys | None) -> Solutions:
    """The matching quads; those of a merged graph with a row for each graph they are in."""
    quads = evaluation.quads
    conditions = [graph_condition(scan.graph, quads.id_of)]
    places: dict[Var, str] = {}
    for place, wanted in zip(QUAD, scan.positions, strict=False):
        if not isinstance(wanted, Var):
            conditions.append(f"{place} = {literal(quads.id_of(wanted))}")
        elif places.setdefault(wanted, place) != place:
            conditions.append(f"{place} = {places[wanted]}")
    conditions += [f"p <> {literal(quads.id_of(name))}" for name in scan.excluded]
    if isinstance(scan.graph, op.NamedGraphs):
        place = places.setdefault(scan.graph.variable, "g")
        if place != "g":
            conditions.append(f"g = {place}")
    frame = quads.of(state).where(" AND ".join(conditions))
    frame = frame.select(*(f"{places[v]} AS {column(v)}" for v in scan.variables), WEIGHT)
    return Solutions(
        restricted(frame, keys, scan.variables),
        scan.variables,
        always=scan.always,
        plain=scan.always,
        small=(state is State.DELTA and quads.few_changes) or _is_reached(scan, keys),
    )


def _is_reached(leaf: op.Operator, keys: Keys | None) -> bool:
    if not leaf.variables:  # a switch
        return True
    return keys is not None and any(v in keys.variables for v in leaf.variables)


def _merges(scan: op.Scan) -> bool:
    return isinstance(scan.graph, op.MergedGraphs) and (scan.graph.names is None or len(scan.graph.names) > 1)


def _as_set(found: Solutions) -> Frame:
    return found.frame.select(*found.ids).distinct().select("*", f"{ONE} AS {WEIGHT}")
