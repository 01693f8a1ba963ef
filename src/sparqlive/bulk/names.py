"""Evaluates leaves without a quad pattern: graph names, and the nodes of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.bulk import distinct
from sparqlive.bulk.dialect import ONE
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, column, restricted
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

Counted = op.Names | op.Nodes


def content(
    evaluation: Evaluation, leaf: Counted, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    rows = _occurrences(evaluation, leaf, state, keys)
    return rows.of(_distinct_rows(rows))


def change(evaluation: Evaluation, leaf: Counted) -> Solutions:
    """Computes the sign changes of the counts: a name or node exists while a quad has it."""
    changed = _occurrences(evaluation, leaf, State.DELTA, None)
    old = _occurrences(evaluation, leaf, State.OLD, Keys(changed.frame, changed.variables, changed.small))
    return changed.of(distinct.signs(changed, old))


def _occurrences(evaluation: Evaluation, leaf: Counted, state: State, keys: Keys | None) -> Solutions:
    """Makes a row for each quad with the name, and for each position of a quad that has the node."""
    quads = evaluation.quads
    frame = quads.of(state, leaf.graph, None)
    name = f"g AS {column(leaf.graph.variable)}" if isinstance(leaf.graph, op.NamedGraphs) else None
    names = [] if name is None else [name]
    if isinstance(leaf, op.Nodes):
        node = column(leaf.variable)
        starts = frame.select(f"s AS {node}", *names, WEIGHT)
        frame = starts.union(frame.select(f"o AS {node}", *names, WEIGHT))
    else:
        frame = frame.select(*names, WEIGHT)
    reached = keys is not None and any(v in keys.variables for v in leaf.variables)
    return Solutions(
        restricted(frame, keys, leaf.variables),
        leaf.variables,
        always=leaf.always,
        plain=leaf.always,
        small=(state is State.DELTA and quads.few_changes) or reached or not leaf.variables,
    )


def _distinct_rows(found: Solutions) -> Frame:
    if not found.ids:
        return found.frame.first_row()
    return found.frame.select(*found.ids).distinct().select("*", f"{ONE} AS {WEIGHT}")
