"""Locates the rows of a stored relation, and lets a backend read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from sparqlive.bulk.backend import Backend
from sparqlive.bulk.frame import Frame
from sparqlive.store.seeking import Readers
from sparqlive.store.streaming import Piece, StoredParts
from sparqlive.zset.run import Column


@dataclass(frozen=True)
class StoredRelation:
    """The places of a relation's rows; if a row is in several places, its weights add up."""

    files: Sequence[str]
    rows: Column
    """Rows in no particular order, each with its weight."""
    having: Callable[[Column], Column | None] = lambda keys: None
    """Returns the rows whose first column has one of the sorted keys; None if reading all rows is cheaper."""
    pieces: Callable[[], Iterator[Piece]] = lambda: iter(())
    """Returns all rows in order, each once, for comparisons; only for relations in the store."""

    @classmethod
    def of(cls, parts: StoredParts, readers: Readers) -> StoredRelation:
        """Locates the rows of a relation in a store."""
        return cls(parts.addresses, parts.rows, partial(parts.having, readers), parts.pieces)


def table(backend: Backend, columns: Sequence[str], stored: StoredRelation) -> Frame:
    """Returns all rows of a relation; a row may occur several times."""
    frames = [backend.files(stored.files, columns)] if stored.files else []
    if len(stored.rows) or not frames:
        rows = {name: pa.array(stored.rows[:, n], pa.int64()) for n, name in enumerate(columns)}
        frames.append(backend.local(pa.table(rows)))
    return frames[0] if len(frames) == 1 else backend.view(frames[0].union(*frames[1:]))
