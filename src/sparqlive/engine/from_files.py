"""Carries an epoch to held contents by a backend that works from files to files, such as Spark.

The backend reads quads, terms and what operators store in the files of a store, of which a session in memory
has a temporary one, and writes its results as files. Of these, this process reads the columns of changes, and
maps contents. Invariant: `deltas` and `contents` start from the state before the current epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sparqlive.bulk.backend import Backend
from sparqlive.bulk.in_store import Changes, InStore, StoreTerms
from sparqlive.bulk.stored_rows import StoredRelation
from sparqlive.engine.export import BulkData
from sparqlive.plan import operators as op
from sparqlive.quads.current import Change
from sparqlive.store.compaction import Target
from sparqlive.store.relation_maps import RelationMaps
from sparqlive.store.runs import names_of, read_columns
from sparqlive.store.saving import Saved
from sparqlive.zset.kept import Kept
from sparqlive.zset.relation import Row
from sparqlive.zset.run import Run, RunRows


class FromFiles:
    """`create` returns the backend for work on a number of quads; `undone` as in `BulkData.sources`."""

    def __init__(
        self, data: BulkData, create: Callable[[int, Target], Backend], undone: Sequence[Change]
    ) -> None:
        self._data = data
        self._create = create
        self._undone = undone

    def deltas(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
        kept: Mapping[op.Keeping, Kept],
        names: Mapping[op.Keeping, Sequence[str]],
    ) -> list[Mapping[Row, int]]:
        """The change of each plan by its delta rules; what operators store is read in the store."""
        given, found = Changes.given(changes), dict[op.Operator, Saved]()
        stored, totals = dict[op.Keeping, StoredRelation](), dict[op.Group, StoredRelation]()
        for operator, own in names.items():
            relations = [rows for name in own if (rows := self._data.stored(name)) is not None]
            if len(relations) == len(own):
                *of_totals, stored[operator] = relations
                if of_totals and isinstance(operator, op.Group):
                    (totals[operator],) = of_totals
        with self._data.store.scratch() as target:
            quads = 0 if given.count <= target.tuning.few_changes else self._data.quads.size
            in_store = self._in_store(target, given, parameters, quads)
            for number, plan in enumerate(plans):
                found[plan] = in_store.delta(plan, f"delta/{number}", stored, found, totals)
            return [_change(target, found[plan]) for plan in plans]

    def contents(
        self,
        plans: Sequence[op.Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> list[Mapping[Row, int] | Run]:
        """The content of each plan after the changes, from scratch."""
        found, store = dict[op.Operator, Saved](), self._data.store
        with store.scratch() as target:
            in_store = self._in_store(target, Changes.given(changes), parameters, self._data.quads.size)
            for number, plan in enumerate(plans):
                found[plan] = in_store.content(plan, f"content/{number}", found, {})
            maps = RelationMaps(store.directory, target.place)
            made = [_content(maps, found[plan]) for plan in plans]
            if not store.catalog.read_only:
                store.remove_other_maps()  # removes files; mapped data stays until its last reader is done
            return made

    def _in_store(
        self, target: Target, changes: Changes, parameters: Sequence[Sequence[int]], quads: int
    ) -> InStore:
        data, dictionary = self._data, self._data.dictionary
        terms = StoreTerms(
            dictionary.id_of, lambda: dictionary.exceptions, dictionary.known, dictionary.enter_together
        )
        return InStore(
            lambda: self._create(quads, target),
            lambda: data.sources(self._undone),
            None if self._undone or data.quads.size <= target.tuning.scanned_rows else data.quads,
            target,
            terms,
            changes,
            parameters,
        )


def _content(maps: RelationMaps, saved: Saved) -> Mapping[Row, int] | Run:
    if not saved.files:
        return saved.few()
    run = maps.run(saved.files[0].relation, saved.width, saved.files)
    assert run is not None
    return run


def _change(target: Target, saved: Saved) -> Mapping[Row, int]:
    if not saved.files:
        return saved.few()
    names = names_of(saved.files[0].relation, saved.width)
    parts = [read_columns(target.place, run, names) for run in saved.files]
    *columns, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return RunRows(Run(columns, weights))
