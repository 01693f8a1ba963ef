"""Selects candidates for the first rows of an order by columns, for a one-off query over many rows.

Reads only the first sort key, and only if all of its values are of one kind: numbers, dates, date-times, or
strings. Invariant: a row that may be among the first is never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.sparql.column_tests import TermTexts
from sparqlive.sparql.values import DATE, DATETIME, DOUBLE, INTEGER, LANGSTRING, STRING
from sparqlive.zset.blocks import Block, joined
from sparqlive.zset.relation import Row


def candidates(operator: op.Window, terms: Terms, blocks: Iterable[Block]) -> Iterator[tuple[Row, int]]:
    """Yields the rows that may be in an ordered window with a limit, from parts of the rows."""
    waiting: list[Block] = []
    for block in blocks:
        waiting.append(block)
        if sum(len(one.weights) for one in waiting) >= terms.tuning.sorting_rows:
            yield from _candidates(operator, terms, waiting)
            waiting = []
    yield from _candidates(operator, terms, waiting)


def _candidates(operator: op.Window, terms: Terms, blocks: Iterable[Block]) -> Iterator[tuple[Row, int]]:
    assert operator.limit is not None
    rows, most = joined(blocks, len(operator.source.variables)), operator.offset + operator.limit
    return first_of(operator, terms, rows, most).rows()


def first_of(operator: op.Window, terms: Terms, rows: Block, most: int) -> Block:
    """Returns the rows that may be among the first."""
    if not operator.order or not 0 < most < len(rows.weights):
        return rows
    variable, is_descending = operator.order[0]
    ids = rows.columns[operator.source.variables.index(variable)]
    distinct, places = np.unique(ids, return_inverse=True)
    if UNDEF in distinct:
        return rows
    is_first = _among_first(TermTexts(terms.dictionary.column(distinct)), places, most, is_descending)
    return rows if is_first is None else rows.take(np.flatnonzero(is_first[places]))


def _among_first(terms: TermTexts, places: Any, most: int, is_descending: bool) -> Any | None:
    """Marks the distinct terms that may be among the first; None if kinds differ. `places`: term per row."""
    kinds = terms.kinds
    kind = kinds[0]
    if (kinds <= DOUBLE).all() and not (kinds == INTEGER).all():
        nearest, _ = terms.typed("nearest")
        if np.isnan(nearest).any():
            return None
        nearest = -nearest if is_descending else nearest
        return nearest <= np.partition(nearest[places], most - 1)[most - 1]
    if not (kinds == kind).all():
        return None
    if kind in (STRING, LANGSTRING):
        texts, is_known = terms.contents
        return _first_texts(texts, most, is_descending) if is_known.all() else None
    if kind not in (INTEGER, DATE, DATETIME):
        return None
    numbers, is_known = terms.typed("whole" if kind == INTEGER else "instant")
    if not is_known.all() or (kind != INTEGER and terms.typed("zone")[1].any()):
        return None
    if is_descending:
        numbers = ~numbers  # the reverse order, for all 64-bit integers
    return numbers <= np.partition(numbers[places], most - 1)[most - 1]


def _first_texts(texts: pa.Array, most: int, is_descending: bool) -> Any | None:
    """Marks the distinct texts that may be among the first; each occurs in at least one row."""
    if len(texts) <= most:
        return None
    direction = "descending" if is_descending else "ascending"
    chosen = pc.select_k_unstable(pa.table({"text": texts}), k=most, sort_keys=[("text", direction)])
    last = texts[chosen[-1].as_py()]
    return np.asarray((pc.greater_equal if is_descending else pc.less_equal)(texts, last))
