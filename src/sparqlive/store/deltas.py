"""Reads the change log and the deltas of relations, from the catalog or from files.

The catalog holds small deltas, and names the files of large ones. Either way, the delta of an epoch is an
array of 64-bit integers: one row per changed row, with its weight last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sparqlive.store.place import Place
from sparqlive.store.quad_runs import Stored
from sparqlive.store.runs import names_of, read_columns
from sparqlive.store.tables import Tables
from sparqlive.zset.run import Column

_CHANGE = ("s", "p", "o", "g", "w")


def read_changes(
    place: Place, catalog: Tables, since: int, until: int | None = None
) -> Iterator[tuple[int, Column]]:
    """The changes of each epoch after `since`, as rows of s, p, o, g, w."""
    for epoch, stored in catalog.changes(since, until):
        yield epoch, _rows(place, stored, _CHANGE)


def read_deltas(
    place: Place, catalog: Tables, relation: str, since: int, until: int | None = None
) -> Iterator[tuple[int, Column]]:
    """The delta of a relation in each epoch after `since` that has one."""
    for epoch, stored in catalog.deltas(relation, since, until):
        yield epoch, _rows(place, stored, _names(relation, stored))


def _names(relation: str, stored: Stored) -> Sequence[str]:
    if isinstance(stored, np.ndarray):
        return ()
    return names_of(relation, len(stored[0].first), is_delta=True)


def _rows(place: Place, stored: Stored, names: Sequence[str]) -> Column:
    """The rows of a delta; those from files are stored column by column."""
    if isinstance(stored, np.ndarray):
        return stored
    parts = [read_columns(place, run, names) for run in stored]
    return np.stack([np.concatenate(columns) for columns in zip(*parts, strict=True)]).T
