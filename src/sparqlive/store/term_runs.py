"""The terms in files: files of a store, which are looked up in maps, and files that no commit has named yet.

Also writes such files, and merges them. Invariant: an id is in at most one file.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sparqlive.rdf.term_columns import Gathered, Ids, Marks, TermColumns, match
from sparqlive.store.place import Place
from sparqlive.store.runs import TERMS, RunFile, read_terms, term_groups, write_terms
from sparqlive.store.term_maps import TermFile, TermMaps


class TermRuns:
    """The terms in some files of a store."""

    def __init__(self, maps: TermMaps, runs: Iterable[RunFile]) -> None:
        self._maps = maps
        self._runs = [*runs]

    @cached_property
    def _files(self) -> list[TermFile]:
        return [self._maps.file(run) for run in self._runs]

    @cached_property
    def _layers(self) -> list[tuple[list[int], list[TermFile]]]:
        """The files in layers, each in the order of their ids, and their first ids: most stores have one."""
        layers: list[list[TermFile]] = []
        for file in sorted(self._files, key=lambda file: file.first):
            layer = next((layer for layer in layers if layer[-1].last < file.first), None)
            if layer is None:
                layers.append([file])
            else:
                layer.append(file)
        return [([file.first for file in layer], layer) for layer in layers]

    def text_of(self, number: int) -> str | None:
        """The text of an id, or None."""
        for firsts, files in self._layers:
            place = bisect_right(firsts, number) - 1
            if place >= 0 and number <= files[place].last:
                text = files[place].text(number)
                if text is not None:
                    return text
        return None

    def match(self, numbers: Ids, texts: pa.LargeStringArray, marks: Marks) -> None:
        """Marks the sorted ids, given with texts, that are in the files and not marked yet."""
        for file in self._files:
            match(file, numbers, texts, marks)

    def gather(self, wanted: Gathered) -> None:
        """Adds the texts of ids that are in the files and not gathered yet."""
        for file in self._files:
            wanted.add(file)


def texts_in(place: Place, runs: Iterable[RunFile], numbers: Iterable[int]) -> dict[int, str]:
    """The texts of those ids that are in files without maps, which no commit has named yet."""
    texts = Gathered(np.unique(np.fromiter(numbers, np.int64)))
    for run in runs:
        for part in term_groups(place, run, texts.numbers):
            texts.add(part)
    return dict(texts.known().pairs())


@dataclass(frozen=True)
class MergeTerms:
    """Merges terms in memory and in files into one file."""

    place: Place
    folder: str

    def __call__(self, task: tuple[Sequence[tuple[int, str]], Sequence[RunFile]]) -> RunFile:
        pairs, runs = task
        parts = [TermColumns.of(pairs), *(read_terms(self.place, run) for run in runs)]
        # If a task runs twice, it writes two files; only one is listed.
        ending = f"-{os.urandom(6).hex()}"
        return write_term_run(self.place, self.folder, TermColumns.together(parts), ending)


def write_term_run(place: Place, folder: str, terms: TermColumns, ending: str = "") -> RunFile:
    """Writes a file of terms; `ending` keeps names apart when several processes write into a folder."""
    path = f"{folder}/terms-00000{ending}.parquet"
    size, digests = write_terms(place, path, terms)
    return RunFile(path, TERMS, len(terms), size, (int(terms.ids[0]),), digests)
