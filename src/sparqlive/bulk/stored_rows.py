"""Where the rows of a stored relation are, and how a backend reads them."""

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
    """Where the rows of a relation are: the weights of the same row in several places add up."""

    files: Sequence[str]
    rows: Column
    """One row after the other, each with its weight."""
    having: Callable[[Column], Column | None] = lambda keys: None
    """The rows whose first column has one of the sorted keys; None if reading all rows is cheaper."""
    pieces: Callable[[], Iterator[Piece]] = lambda: iter(())
    """All rows in order, each once, for comparisons; those of relations in the store."""

    @classmethod
    def of(cls, parts: StoredParts, readers: Readers) -> StoredRelation:
        """The rows of a relation in a store."""
        return cls(parts.addresses, parts.rows, partial(parts.having, readers), parts.pieces)


def table(backend: Backend, columns: Sequence[str], stored: StoredRelation) -> Frame:
    """All rows of a relation; the same row may be there several times."""
    frames = [backend.files(stored.files, columns)] if stored.files else []
    if len(stored.rows) or not frames:
        rows = {name: pa.array(stored.rows[:, n], pa.int64()) for n, name in enumerate(columns)}
        frames.append(backend.local(pa.table(rows)))
    return frames[0] if len(frames) == 1 else backend.view(frames[0].union(*frames[1:]))
