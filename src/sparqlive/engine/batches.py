"""Batches: what every reader yields, and what the writer commits as one epoch.

A reader is what turns texts, files, data frames, updates or reports of sources into changes. Invariant: a
batch is read and checked completely before it changes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from pyoxigraph import Quad, Triple

from sparqlive.quads.current import GRAPH, OBJECT, PREDICATE, SUBJECT
from sparqlive.quads.current import Quad as QuadIds
from sparqlive.rdf.columns import Encoded
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.read import check_quad
from sparqlive.zset.columns import ColumnRows, last_rows
from sparqlive.zset.run import Column

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.effective import ChangeFiles
    from sparqlive.engine.carry import Strategy

BatchNumber: TypeAlias = tuple[str, int]
"""The stream of a batch, and its number in the stream."""
IdChanges: TypeAlias = Mapping[QuadIds, int] | ColumnRows
"""Quads to insert (+1) and to delete (-1), as ids of terms; many of them as columns."""

NO_CHANGES = ColumnRows([np.empty(0, dtype=np.int64)] * 5)


@final
@dataclass(slots=True, eq=False)  # frozen, it would cost each epoch 2 µs
class Batch:
    """Changes that become one epoch; the last change of a quad counts.

    They have one of four forms. Few quads are objects: deletes, then inserts. Many are `columns`, in order
    and with weights. A reader that looked at the current quads gives `ids`. Workers write `files`.
    """

    deletes: Collection[Any] = ()
    inserts: Collection[Any] = ()
    strategy: Strategy = "auto"
    number: BatchNumber | None = None
    columns: Sequence[tuple[Encoded, Column]] = ()
    ids: Mapping[QuadIds, int] | None = None
    given: int | None = None
    """The number of changes that were given, including several of one quad; None: as many as `ids`."""
    files: ChangeFiles | None = None
    source: str | None = None
    """What asserts and withdraws the quads; None: `local`."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What the store records with the epoch."""
    counts_each: bool = False
    """Whether `Epoch.ignored` counts each quad once."""
    begun: float | None = None
    """When reading began, if the epoch's seconds include it."""

    def encoded(self, dictionary: Dictionary) -> tuple[IdChanges, int]:
        """Encodes the changes, entering new terms into a dictionary; also returns how many were given."""
        if self.ids is not None:
            return self.ids, len(self.ids) if self.given is None else self.given
        if not self.columns:
            return encode_changes(dictionary, self.deletes, self.inserts)
        parts = [
            (*encoded.quads_with(dictionary.enter_columns(encoded.ids, encoded.texts)), weights)
            for encoded, weights in self.columns
        ]
        rows = ColumnRows([np.concatenate(columns) for columns in zip(*parts, strict=True)])
        if self.counts_each:
            rows = last_rows(rows, by=(PREDICATE, GRAPH, SUBJECT, OBJECT))
        return rows, len(rows)


def encode_changes(
    dictionary: Dictionary, deletes: Collection[Any], inserts: Collection[Any]
) -> tuple[dict[QuadIds, int], int]:
    """Encodes quads to delete and to insert; also returns their number."""
    changes: dict[QuadIds, int] = {}
    if deletes:
        _encode(changes, dictionary, deletes, -1)
    if inserts:
        _encode(changes, dictionary, inserts, 1)
    return changes, len(deletes) + len(inserts)


def _encode(changes: dict[QuadIds, int], dictionary: Dictionary, quads: Collection[Any], weight: int) -> None:
    cached, enter = dictionary.ids.get, dictionary.id_of_uncached
    for quad in quads:
        if type(quad) is not Quad:
            quad = check_quad(quad, None)
        subject, predicate, object_, graph = quad
        s, p, o, g = cached(subject), cached(predicate), cached(object_), cached(graph)
        if s is None or p is None or o is None or g is None:
            if o is None and type(object_) is Triple:
                check_quad(quad, None)  # raises
            s = enter(subject) if s is None else s
            p = enter(predicate) if p is None else p
            o = enter(object_) if o is None else o
            g = enter(graph) if g is None else g
            cached = dictionary.ids.get
        changes[s, p, o, g] = weight


def with_weight(parts: Sequence[Encoded], weight: int) -> list[tuple[Encoded, Column]]:
    """Quads that were read by columns, all with one weight."""
    return [(part, np.full(len(part), weight)) for part in parts]


def by_columns(changes: Mapping[QuadIds, int]) -> ColumnRows:
    """Changes as columns."""
    quads = np.fromiter(chain.from_iterable(changes), np.int64, 4 * len(changes)).reshape(-1, 4)
    return ColumnRows([*quads.T, np.fromiter(changes.values(), np.int64, len(changes))])


class CommittedBatches:
    """The batches of streams that a session in memory has committed.

    Invariant: consecutively numbered batches, as streams number them, take no more space than one.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        """Of each stream, a range of numbers."""
        self._others: set[BatchNumber] = set()

    def add(self, batch: BatchNumber) -> None:
        stream, number = batch
        first, last = self._last.setdefault(stream, (number, number))
        if first <= number <= last:
            return
        if number != last + 1:
            self._others.add(batch)
            return
        while (stream, number + 1) in self._others:
            number += 1
            self._others.remove((stream, number))
        self._last[stream] = first, number

    def __contains__(self, batch: BatchNumber) -> bool:
        first, last = self._last.get(batch[0], (0, -1))
        return first <= batch[1] <= last or batch in self._others

    def __len__(self) -> int:
        """The number of entries kept, not of batches."""
        return len(self._last) + len(self._others)
