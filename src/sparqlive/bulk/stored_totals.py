"""Stores totals of groups as rows of a relation: a change reads those of the groups that it touches.

The rows are those of `plan/totals.py`. Totals are linear, so a group's totals are the weighted sum of its
rows in the relation, wherever these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparqlive.bulk.aggregate import Totals, added, totals
from sparqlive.bulk.dialect import ONE, Dialect, number, total
from sparqlive.bulk.evaluate import computed, table_columns
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Solutions, column, semi
from sparqlive.bulk.stored_rows import StoredRelation, table
from sparqlive.bulk.typed import typed_column, with_types
from sparqlive.plan import operators as op
from sparqlive.plan.totals import WEIGHTS, is_wide, total_names, width
from sparqlive.sparql.aggregates import HALF, SUMS
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.values import DOUBLE

if TYPE_CHECKING:
    from sparqlive.bulk.backend import Backend
    from sparqlive.bulk.evaluate import Evaluation


def has_computed_keys(operator: op.Group) -> bool:
    """Returns whether a key may be a computed term, which enters the store with the rows of the source."""
    return not frozenset(operator.keys).isdisjoint(computed(operator.source))


def others(evaluation: Evaluation, operator: op.Group, source: Solutions) -> Frame:
    """Returns the rows of the source with a number that totals cannot represent."""
    names = table_columns(operator.source)
    summed = {
        aggregate.argument: ("kind", "whole")
        for _, aggregate in operator.aggregates
        if isinstance(aggregate.argument, Var) and aggregate.name in SUMS
    }
    frame = with_types(evaluation, source, summed, list(summed))
    tests = [
        f"({typed_column(v, 'kind')} <= {DOUBLE:d} AND {typed_column(v, 'whole')} IS NULL)" for v in summed
    ]
    condition = f"({' OR '.join(tests)})" if tests else "false"
    if operator.member is not None:
        condition += f" AND {column(operator.member)} <> 0"
    ids = [f"{column(v)} AS {name}" for v, name in zip(operator.source.variables, names, strict=False)]
    rows = frame.where(condition).select(*ids, WEIGHT)
    return rows.grouped(list(names[:-1]), total(WEIGHT)).where(f"{WEIGHT} <> 0")


def content(evaluation: Evaluation, operator: op.Group, source: Solutions) -> Frame:
    """Computes the rows of the relation from a content of the operator's source."""
    made = totals(evaluation, operator, source)
    return _packed(evaluation.backend.dialect, operator, made, ONE)


def before_and_of_change(
    evaluation: Evaluation, operator: op.Group, changed: Solutions, stored: StoredRelation
) -> Totals:
    """Computes the totals of the groups that a change touches: before it, and of the change."""
    backend, keys = evaluation.backend, [column(v) for v in operator.keys]
    change, rows = backend.held(totals(evaluation, operator, changed))
    if rows is not None and keys:
        found = stored.having(np.unique(rows.column(keys[0]).to_numpy()))
        stored = stored if found is None else StoredRelation((), found)
    old = unpacked(backend.dialect, operator, table(backend, columns(operator), stored))
    old_rows = None
    if rows is not None:
        old, old_rows = backend.held(old)
    parts = (old, old_rows), (change, rows)
    return Totals(old, change, not any(has_others(backend, operator, *part) for part in parts))


def has_others(backend: Backend, operator: op.Group, part: Frame, rows: pa.Table | None) -> bool:
    """Returns whether a group has numbers that totals cannot represent. `rows`: the part, if it is here."""
    others = [name for name in total_names(operator) if name.startswith("others_")]
    if not others:
        return False
    if rows is None:
        rows = backend.rows(part.where(" OR ".join(f"{name} <> 0" for name in others)).limited(1))
    return any(rows.column(name).to_numpy().any() for name in others)


def from_nothing(evaluation: Evaluation, operator: op.Group, stored: StoredRelation) -> Totals:
    """Treats stored totals as a change of nothing, for an initial content."""
    backend = evaluation.backend
    all_of_them, rows = unpacked(backend.dialect, operator, table(backend, columns(operator), stored)), None
    if not stored.files:
        all_of_them, rows = backend.held(all_of_them)
    is_complete = not has_others(backend, operator, all_of_them, rows)
    return Totals(all_of_them.where("false"), all_of_them, is_complete)


def change(evaluation: Evaluation, operator: op.Group, both: Totals) -> Frame:
    """Computes the change of the relation."""
    keys, names = [column(v) for v in operator.keys], total_names(operator)
    old = both.old
    if keys:
        old = old.join(both.change.select(*keys).distinct(), keys, "SEMI").select(*keys, *names)
    new = old.union(both.change.select(*keys, *names)).grouped(keys, *added(names))
    dialect = evaluation.backend.dialect
    rows = _packed(dialect, operator, old, number(-1)).union(
        _packed(dialect, operator, new.where(f"{WEIGHTS} <> 0"), ONE)
    )
    *names, _ = rows.columns
    return rows.grouped(names, total(WEIGHT)).where(f"{WEIGHT} <> 0")


def columns(operator: op.Group) -> tuple[str, ...]:
    """Returns the names of the relation's columns, with the weight last."""
    return (*(f"c{place}" for place in range(width(operator))), WEIGHT)


def _packed(dialect: Dialect, operator: op.Group, made: Frame, weight: str) -> Frame:
    names = columns(operator)[:-1]
    expressions = [*(column(v) for v in operator.keys), *_halves(dialect, operator)]
    named = (f"{expression} AS {name}" for expression, name in zip(expressions, names, strict=True))
    return made.select(*named, f"{weight} AS {WEIGHT}")


def _halves(dialect: Dialect, operator: op.Group) -> Iterator[str]:
    for name in total_names(operator):
        if is_wide(name):
            yield from dialect.halves(name, HALF)
        else:
            yield name


def unpacked(dialect: Dialect, operator: op.Group, rows: Frame, touched: Frame | None = None) -> Frame:
    """Computes totals from rows of the relation: for all groups, or for those that a change touches."""
    keys = [column(v) for v in operator.keys]
    places = iter(columns(operator)[len(keys) :])
    sums = []

    def summed(place: str) -> str:
        return f"sum({dialect.product(place, WEIGHT)})"

    for name in total_names(operator):
        high = summed(next(places))
        if is_wide(name):
            sums.append(f"{high} * {HALF} + {summed(next(places))} AS {name}")
        else:
            sums.append(f"CAST({high} AS BIGINT) AS {name}")
    own = [f"c{place} AS {key}" for place, key in enumerate(keys)]
    named = rows.select(*own, *rows.columns[len(keys) :])
    if keys and touched is not None:
        named = semi(named, touched.select(*keys), keys)
    return named.grouped(keys, *sums).where(f"{WEIGHTS} <> 0")
