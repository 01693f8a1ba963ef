"""The texts of pieces of rows that filters have tested, kept for the next query that tests the same rows.

Filters read the rows of a pattern in the same pieces again and again, and what takes their time is finding
the texts and parsing them. Invariant: an entry is found by all of its ids, and an id stands for one text
until terms are given back, so entries do not become wrong before.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

import numpy as np
import xxhash

from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.term_columns import Ids
from sparqlive.sparql.column_tests import TermTexts

_LARGEST = 1 << 14
"""Larger pieces are read by queries that read most of the data; keeping them would drop all others."""
_MOST_IDS = 1 << 18


class Piece(NamedTuple):
    """Some ids: the distinct ones, sorted, with their texts, and the place of each id among them."""

    ids: Ids
    distinct: Ids
    places: Ids
    texts: TermTexts


class ReadTexts:
    """Pieces by their ids; those that were not used for longest are dropped first."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[int, Piece] = OrderedDict()
        self._count = 0
        self._guard = Lock()

    def of(self, dictionary: Dictionary, ids: Ids) -> Piece:
        """The texts of some ids, which may occur several times."""
        if len(ids) > _LARGEST or dictionary.has_own_terms:
            return _read(dictionary, ids)
        key = xxhash.xxh3_64_intdigest(np.ascontiguousarray(ids).data)
        with self._guard:
            known = self._pieces.get(key)
            if known is not None and np.array_equal(known.ids, ids):
                self._pieces.move_to_end(key)
                return known
        made = _read(dictionary, ids.copy())
        with self._guard:
            self._remove(key)
            self._pieces[key] = made
            self._count += len(ids)
            while self._count > _MOST_IDS:
                self._remove(next(iter(self._pieces)))
        return made

    def clear(self) -> None:
        """Forgets all pieces, because ids may stand for other texts from now on."""
        with self._guard:
            self._pieces.clear()
            self._count = 0

    def _remove(self, key: int) -> None:
        piece = self._pieces.pop(key, None)
        if piece is not None:
            self._count -= len(piece.ids)


def _read(dictionary: Dictionary, ids: Ids) -> Piece:
    distinct, places = np.unique(ids, return_inverse=True)
    return Piece(ids, distinct, places, TermTexts(dictionary.column(distinct)))
