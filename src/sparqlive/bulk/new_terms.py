"""Writes new terms to files: compares given terms with those of a store, and writes those that it lacks.

Workers do this for the terms of a batch (`ingest/effective.py`) and for computed terms of queries.
Invariants: an id that stands for several terms, in the store or among the given ones, is reported as a clash,
and the caller then keeps none of the files; memory never holds more terms than fit in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF
from sparqlive.rdf.term_columns import OTHER, UNKNOWN, Ids, TermColumns, large, match
from sparqlive.store.compaction import Target
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile, term_groups
from sparqlive.store.term_runs import texts_in, write_term_run

_BYTES_A_FILE = 64 << 20


@dataclass(frozen=True)
class NewTerms:
    """New terms in files, and ids with several terms: all texts of each id, first the one that keeps it."""

    runs: Sequence[RunFile]
    clashes: Mapping[int, Sequence[str]]


def write_new(
    place: Place,
    folder: str,
    known: Sequence[RunFile],
    ids: Ids,
    texts: pa.LargeStringArray,
    clashes: Mapping[int, Sequence[str]],
    ending: str,
) -> NewTerms:
    """Writes the terms that no known file has. `ids` are sorted and distinct; `clashes` are known already."""
    marks, all_clashes = np.full(len(ids), UNKNOWN, np.int8), dict(clashes)
    for run in known:
        for part in term_groups(place, run, ids):
            match(part, ids, texts, marks)
    taken = {
        int(ids[position]): texts[position].as_py() for position in np.flatnonzero(marks == OTHER).tolist()
    }
    for number, owner in (texts_in(place, known, taken) if taken else {}).items():
        all_clashes[number] = [owner, *sorted({taken[number], *all_clashes.get(number, ())} - {owner})]
    new = np.flatnonzero(marks == UNKNOWN)
    if not len(new):
        return NewTerms((), all_clashes)
    columns = TermColumns(ids[new], texts.take(pa.array(new)))
    return NewTerms((write_term_run(place, folder, columns, ending),), all_clashes)


class TermSaving:
    """Accepts terms sorted by id, each once; `finish` returns the files of the new ones."""

    def __init__(self, target: Target, known: Sequence[RunFile], ending: str) -> None:
        """`ending`: of file names; no other writer into the folder uses it."""
        self._target = target
        self._known = known
        self._ending = ending
        self._waiting: list[tuple[Ids, pa.LargeStringArray]] = []
        self._runs: list[RunFile] = []
        self._clashes: dict[int, Sequence[str]] = {}
        self._files = 0

    def add(self, ids: Ids, texts: pa.Array) -> None:
        """Adds terms that sort after those added before."""
        if len(ids):
            self._waiting.append((ids, large(texts)))
        terms, size = sum(len(ids) for ids, _ in self._waiting), sum(t.nbytes for _, t in self._waiting)
        if terms >= self._target.tuning.file_rows // 2 or size >= _BYTES_A_FILE:
            self._flush(is_end=False)

    def finish(self) -> NewTerms:
        self._flush(is_end=True)
        return NewTerms(self._runs, self._clashes)

    def _flush(self, *, is_end: bool) -> None:
        """Writes the waiting terms; more terms of the last id may follow, unless this is the end."""
        if not self._waiting:
            return
        ids = np.concatenate([ids for ids, _ in self._waiting])
        texts = pa.concat_arrays([texts for _, texts in self._waiting])
        end = len(ids) if is_end else int(np.searchsorted(ids, ids[-1]))
        self._waiting = [(ids[end:], texts[end:])] if end < len(ids) else []
        ids, texts = ids[:end], texts[:end]
        if not end:
            return
        is_first = np.append(True, ids[1:] != ids[:-1])
        doubtful = {*np.unique(ids[~is_first]).tolist(), *_reserved(ids)}
        clashes = {number: sorted(texts.filter(pa.array(ids == number)).to_pylist()) for number in doubtful}
        firsts = np.flatnonzero(is_first)
        place, folder = self._target.place, self._target.folder
        ending = f"{self._ending}-{self._files}"
        new = write_new(
            place, folder, self._known, ids[firsts], texts.take(pa.array(firsts)), clashes, ending
        )
        self._files += 1
        self._runs += new.runs
        self._clashes |= new.clashes


def _reserved(ids: Ids) -> Iterable[int]:
    """Returns the reserved ids, which stand for no term, among sorted ids."""
    for number in (UNDEF, DEFAULT_GRAPH):
        place = int(np.searchsorted(ids, number))
        if place < len(ids) and int(ids[place]) == number:
            yield number
