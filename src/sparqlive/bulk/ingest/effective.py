"""Computes an epoch whose changes workers read: from parts to the files of a commit.

A `Parse` lets workers write quads, or changes with weights, as parts (`parts.py`). Workers then determine
which of them change anything, by reading the store's files of the same graphs, predicates and subjects, and
which terms are new. They write both as files of a commit. This process sees only counts and file names.
Invariants: the last change of a quad counts; each effective change, and each new term, is written once; no
term gets an id that stands for another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from sparqlive.bulk.ingest.job import drop_folder, other_ids
from sparqlive.bulk.ingest.parts import (
    Part,
    QuadTask,
    TermTask,
    distinct_terms,
    plan_quads,
    plan_terms,
)
from sparqlive.bulk.ingest.workers import Workers
from sparqlive.bulk.new_terms import write_new
from sparqlive.errors import InvalidChange
from sparqlive.rdf.columns import Encoder
from sparqlive.rdf.reserved import PREFIXES, graph_refusal, predicate_refusal
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.store.compaction import Target, Writer
from sparqlive.store.place import Place
from sparqlive.store.quad_runs import Layers, QuadRuns
from sparqlive.store.runs import QUADS, RunFile, read_columns, terms_with_prefix
from sparqlive.store.seeking import Readers
from sparqlive.store.term_runs import texts_in
from sparqlive.zset.columns import ColumnRows, group_starts, last_rows

Parse = Callable[[str, Encoder], Sequence[Part]]
"""Lets workers write quads below a folder, with ids from an encoder; returns the parts in order.

Either all parts have weights, or none; then all quads are inserted. It is called again if terms collide.
"""


SCRATCH = "scratch"
"""Folder, inside that of an attempt, for temporary input: parts, text, known terms."""


@dataclass(frozen=True)
class Known:
    """The state of a store: its quads, files of all its terms, the exceptions, and the text of an id."""

    quads: QuadRuns
    terms: Sequence[RunFile]
    exceptions: Mapping[str, int]
    text_of: Callable[[int], str | None]


@dataclass(frozen=True)
class ChangeFiles:
    """The changes of an epoch and their new terms, in files of an attempt."""

    place: Place
    runs: Sequence[RunFile]
    terms: Sequence[RunFile]
    exceptions: Mapping[str, int]
    """The exceptions among the new terms."""
    given: int
    distinct: int
    """The number of given quads, counting each quad once."""
    inserted: int
    deleted: int
    predicates: frozenset[int]
    are_base: bool = False
    """Whether the files are whole runs, for a store without quads."""
    rejected: int = 0
    """Number of malformed lines that were skipped."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Durations of the phases of writing whole runs."""

    def __len__(self) -> int:
        """Number of changes."""
        return self.inserted + self.deleted

    def rows(self) -> ColumnRows:
        """Reads all changes into this process, sorted by p, g, s, o."""
        names = ("s", "p", "o", "g", "w")
        parts = [read_columns(self.place, run, names) for run in self.runs]
        rows = ColumnRows([np.concatenate(columns) for columns in zip(*parts, strict=True)])
        subjects, predicates, objects, graphs, _ = rows.columns
        return rows.take(np.lexsort((objects, subjects, graphs, predicates)))


class Reading:
    """The input that workers read for an epoch: once, and again only if terms collide.

    Which changes are effective depends on the store, which may change before they are committed, so `changes`
    may be called again.
    """

    def __init__(self, workers: Workers, parse: Parse, graph: str | None, target: Target) -> None:
        """`graph`: the canonical text of the graph for quads of the unnamed graph."""
        self._workers = workers
        self._parse = parse
        self._graph = graph
        self._target, self._place, self._folder = target, target.place, target.folder
        self._exceptions: Mapping[str, int] | None = None
        self._parts: Sequence[Part] = ()
        self._tries = 0

    def changes(self, epoch: int, known: Known) -> ChangeFiles:
        """Lets workers write the changes that are effective in a store, and the terms that are new there."""
        place, exceptions = self._place, dict(known.exceptions)
        rows = self._target.tuning.file_rows
        while True:
            parts = self._read(exceptions)
            if self._tries:
                drop_folder(place.text(f"{self._folder}/found-{self._tries}"))
            self._tries += 1
            folder = f"{self._folder}/found-{self._tries}"
            place.make(folder)
            work: list[_ChangeTask | TermTask] = [*plan_terms(parts, rows)] if parts else []
            work += [
                _with_stored(one, parts[0].has_weights, known.quads)
                for one in (plan_quads(parts, rows) if parts else ())
            ]
            task = _Task(replace(self._target, folder=folder, epoch=epoch), known.terms)
            found = self._workers.each(work, task, "find changes") if work else []
            terms = [one for one in found if isinstance(one, _Terms)]
            clashes = {number: texts for one in terms for number, texts in one.clashes.items()}
            if not clashes:
                break
            # About once in many billions of terms: everything is encoded again with other ids.
            exceptions |= other_ids(clashes, exceptions, _taken(place, known, terms))
        place.take_over(folder)
        changed = [one for one in found if isinstance(one, _Changed)]
        _check_names(changed, terms)
        new = {text: number for text, number in exceptions.items() if text not in known.exceptions}
        return _together(place, changed, terms, new)

    def _read(self, exceptions: Mapping[str, int]) -> Sequence[Part]:
        """Returns the parts, with the ids of exceptions."""
        if self._exceptions != exceptions:
            folder = f"{self._folder}/{SCRATCH}/parts"
            drop_folder(self._place.text(folder))
            self._place.make(folder)
            self._parts = self._parse(
                self._place.text(folder), Encoder(self._graph, exceptions=dict(exceptions))
            )
            self._exceptions = dict(exceptions)
        return self._parts

    def close(self) -> None:
        """Removes the temporary input."""
        drop_folder(self._place.text(f"{self._folder}/{SCRATCH}"))


def _with_stored(task: QuadTask, has_weights: bool, quads: QuadRuns) -> _ChangeTask:
    low, high = task.subjects
    found = {key: layers for key in task.keys if (layers := quads.layers(key, low, high)) is not None}
    return _ChangeTask(task, has_weights, found)


def _taken(place: Place, known: Known, terms: Sequence[_Terms]) -> Callable[[Sequence[int]], set[int]]:
    """Returns a function that tells which ids stand for a term, in the store or among the new terms."""
    files = [run for one in terms for run in one.runs]

    def taken(numbers: Sequence[int]) -> set[int]:
        return {n for n in numbers if known.text_of(n) is not None} | texts_in(place, files, numbers).keys()

    return taken


def _check_names(changed: Sequence[_Changed], terms: Sequence[_Terms]) -> None:
    """Rejects inserts under a reserved name."""
    reserved = {number: text for one in terms for number, text in one.reserved.items()}
    for one in changed if reserved else ():
        for numbers, refusal in ((one.graphs, graph_refusal), (one.predicates, predicate_refusal)):
            for number in numbers:
                refused = refusal(reserved[number][1:-1]) if number in reserved else None
                if refused is not None:
                    raise InvalidChange(refused)


def _together(
    place: Place, changed: Sequence[_Changed], terms: Sequence[_Terms], exceptions: Mapping[str, int]
) -> ChangeFiles:
    return ChangeFiles(
        place,
        [run for one in changed for run in one.runs],
        [run for one in terms for run in one.runs],
        exceptions,
        sum(one.given for one in changed),
        sum(one.distinct for one in changed),
        sum(one.inserted for one in changed),
        sum(one.deleted for one in changed),
        frozenset(number for one in changed for number in one.changed_predicates),
    )


# In the workers


@dataclass(frozen=True)
class _ChangeTask:
    """A part of the changes, and the store's files of the same graphs, predicates and subjects."""

    quads: QuadTask
    has_weights: bool
    stored: Mapping[tuple[int, int], Layers]


@dataclass(frozen=True)
class _Changed:
    """Effective changes in files. `predicates` and `graphs` are those of the given inserts."""

    runs: Sequence[RunFile]
    given: int
    distinct: int
    inserted: int
    deleted: int
    changed_predicates: Sequence[int]
    predicates: Sequence[int]
    graphs: Sequence[int]


@dataclass(frozen=True)
class _Terms:
    """New terms in files; ids with several texts; and all reserved names, new or not."""

    runs: Sequence[RunFile]
    clashes: Mapping[int, Sequence[str]]
    reserved: Mapping[int, str]


@dataclass(frozen=True)
class _Task:
    target: Target
    terms: Sequence[RunFile]

    def __call__(self, task: _ChangeTask | TermTask) -> _Changed | _Terms:
        # A task that ran twice wrote two sets of files, of which one is listed.
        name = os.urandom(6).hex()
        return self._terms(task, name) if isinstance(task, TermTask) else self._changes(task, name)

    def _changes(self, task: _ChangeTask, name: str) -> _Changed:
        columns = task.quads.rows.read(range(5 if task.has_weights else 4))
        if not task.has_weights:
            columns.append(np.ones(len(columns[0]), dtype=np.int64))
        rows = last_rows(ColumnRows(columns), by=(1, 3, 0, 2))
        subjects, predicates, objects, graphs, weights = rows.columns
        there, readers = np.zeros(len(rows), dtype=bool), Readers(self.target.place, self.target.tuning)
        for start, stop in pairwise(group_starts(predicates, graphs).tolist()):
            stored = task.stored.get((int(graphs[start]), int(predicates[start])))
            if stored is not None:
                there[start:stop] = stored.has(readers, subjects[start:stop], objects[start:stop])
        inserted = weights > 0
        names = [np.unique(column[inserted]).tolist() for column in (predicates, graphs)]
        changed = rows.take(there == (weights < 0))
        subjects, predicates, objects, graphs, weights = changed.columns
        writer = Writer(self.target, QUADS, 4, f"-{name}")
        if len(changed):
            writer.add((predicates, graphs, subjects, objects, weights))
            writer.flush()
        inserts = int((weights > 0).sum())
        return _Changed(
            writer.runs,
            sum(task.quads.rows.counts),
            len(rows),
            inserts,
            len(changed) - inserts,
            np.unique(predicates).tolist(),
            *names,
        )

    def _terms(self, task: TermTask, name: str) -> _Terms:
        ids, texts, clashes = distinct_terms(task)
        reserved = terms_with_prefix(TermColumns(ids, texts), PREFIXES)
        new = write_new(self.target.place, self.target.folder, self.terms, ids, texts, clashes, f"-{name}")
        return _Terms(new.runs, new.clashes, reserved)
