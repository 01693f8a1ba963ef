"""Merges what sources assert in a store of format 5 or older, where each source has a relation.

Invariant: one transaction replaces these relations by the one of all sources, so a store never has both.
"""

from __future__ import annotations

import numpy as np

from sparqlive.engine.assertions import ASSERTED, WIDTH
from sparqlive.rdf.dictionary import hash_of
from sparqlive.store.commits import Commit
from sparqlive.store.store import Store
from sparqlive.zset.run import Run

_PREFIX = "source/"


def gather_assertions(store: Store) -> None:
    """Writes the relations of single sources as one; a store of the current version has none."""
    names = [name for name in store.catalog.bases() if name.startswith(_PREFIX)]
    if not names:
        return
    parts = [[np.empty(0, np.int64)] * WIDTH]
    for name in names:
        run = whole_relation(store, name)
        if run is not None:
            number = hash_of(name.removeprefix(_PREFIX))
            parts.append([np.full(run.length, number, np.int64), *run.columns])
    columns = [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
    rows = Run.sort(columns, np.ones(len(columns[0]), np.int64))
    store.write(Commit(store.catalog.epoch(), bases={ASSERTED: (WIDTH, rows)}, forgotten=names))


def whole_relation(store: Store, name: str) -> Run | None:
    """All rows of a stored relation; None if it is empty or missing."""
    saved = store.relation(name)
    return None if saved is None else saved.read().whole()
