"""Evaluates plans over a store's files, and saves the results as files instead of in this process.

Used for Spark, for stores on `hdfs://` and `s3a://`, and for initial contents that do not fit in memory.
Reads quads, terms, and what operators store in place: the files, and the few rows added after them.
Invariant: `before` is the state before the current epoch; a result is complete before its name is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparqlive.bulk import scan, stored_totals
from sparqlive.bulk.aggregate import Totals
from sparqlive.bulk.backend import Backend, LaterFrame
from sparqlive.bulk.delta import delta_frames
from sparqlive.bulk.dialect import total
from sparqlive.bulk.evaluate import (
    Evaluation,
    ResultFrames,
    StoredSource,
    content_frames,
    rows_of_table,
    table_columns,
)
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.group import content_from_totals
from sparqlive.bulk.lookup import Lookup
from sparqlive.bulk.solutions import WEIGHT, Solutions
from sparqlive.bulk.stored_rows import StoredRelation, table
from sparqlive.bulk.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.plan.totals import places_of_others
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.runtime.memory import give_back
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import NAMES, entry_table
from sparqlive.store.compaction import Target
from sparqlive.store.runs import RunFile
from sparqlive.store.saving import Saved, sorted_rows
from sparqlive.store.store import LaterChanges, Sources
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.run import Column, Run

if TYPE_CHECKING:
    from sparqlive.quads.current import Quads as SessionQuads

_TRIES = 5


@dataclass(frozen=True)
class Changes:
    """The effective changes of an epoch: rows of s, p, o, g, w, in this process or in files."""

    relation: StoredRelation
    count: int
    deletes: int
    predicates: frozenset[int]

    @classmethod
    def given(cls, changes: Sequence[Sequence[int]]) -> Changes:
        """Makes changes from rows in this process."""
        if type(changes) is ColumnRows:
            rows = np.column_stack(changes.columns)
        else:
            rows = np.array(changes, dtype=np.int64).reshape(-1, 5)
        predicates = frozenset(np.unique(rows[:, 1]).tolist())
        return cls(StoredRelation((), rows), len(rows), int((rows[:, 4] < 0).sum()), predicates)


@dataclass(frozen=True)
class StoreTerms:
    """The terms of a store, and the functions that add computed terms to it."""

    id_of: Callable[[Term], int]
    exceptions: Callable[[], Mapping[str, int]]
    known: Callable[[Column], TermColumns]
    """Finds the terms of sorted, distinct ids."""
    enter: Callable[[Column, pa.Array], Column]
    """Enters a few terms with the ids that queries gave them; returns their ids."""
    files: Callable[[str], Sequence[RunFile]] | None = None
    """Writes the terms that no file has to a folder; also returns files with all terms. None if the store
    commits no files of terms: this process then enters all computed terms.
    """
    stage: Callable[[Sequence[RunFile]], None] = lambda runs: None
    """Adds files of new terms to the next commit."""


GroupPart = Callable[[Evaluation, op.Group, Solutions], Frame]
"""Computes the totals of groups, or the rows that totals cannot represent, from the content of their source.
"""
_CHANGE = (*scan.QUAD, WEIGHT)
NO_CHANGES = Changes(StoredRelation((), np.empty((0, 5), dtype=np.int64)), 0, 0, frozenset())


def nothing(width: int) -> Saved:
    """Returns an empty result."""
    empty = np.empty(0, dtype=np.int64)
    return sorted_rows([empty] * width, empty)


class InStore:
    """Evaluates the plans of one epoch.

    sources: for scans of whole files. quads: those of the session, with the changes staged, for lookups.
    parameters: the rows of the plans' table of parameters.
    """

    def __init__(
        self,
        backend: Callable[[], Backend],
        sources: Callable[[], Sources],
        quads: SessionQuads | None,
        target: Target,
        terms: StoreTerms,
        changes: Changes = NO_CHANGES,
        parameters: Sequence[Sequence[int]] = (),
    ) -> None:
        self._make_backend = backend
        self._sources = sources
        self._session_quads = quads
        self._target, self._tuning = target, target.tuning
        self._terms = terms
        self._id_of = terms.id_of
        self._changes = changes
        self._parameters = parameters
        self._net: dict[int, Column] = {}
        self._touched: dict[op.Group, tuple[pa.Table, pa.Table, bool]] = {}
        """The totals of the groups that the changes touch: before, of the change, and whether complete."""

    def is_concerned(self, plan: op.Operator) -> bool:
        leaves = (operator for operator in operators_of(plan) if not operator.children)
        return any(
            isinstance(leaf, op.QuadLeaf) and scan.may_match(leaf, self._changes.predicates, self._id_of)
            for leaf in leaves
        )

    def delta(
        self,
        plan: op.Operator,
        relation: str,
        kept: Mapping[op.Keeping, StoredRelation],
        known: Mapping[op.Operator, Saved],
        totals: Mapping[op.Group, StoredRelation],
    ) -> Saved:
        """Computes the change of a plan, for a relation.

        kept: stored source rows of operators. known: changes that were computed earlier. totals: former
        totals of groups.
        """

        def frames(evaluation: Evaluation) -> ResultFrames:
            backend = evaluation.backend
            deltas = {
                operator: self._known(backend, operator, saved) if saved.count else None
                for operator, saved in known.items()
            }
            before = {of: _source(backend, of.source, stored) for of, stored in kept.items()}
            known_totals: dict[op.Operator, Totals] = {
                of: self._totals_of(evaluation, of, changed, stored)
                for of, stored in totals.items()
                if (changed := deltas.get(of.source)) is not None
            }
            evaluation = replace(evaluation, kept=before, totals=known_totals)
            return delta_frames(plan, evaluation, deltas)

        return self._saved(plan, relation, frames, before_changes=True)

    def totals_delta(
        self, operator: op.Group, relation: str, stored: StoredRelation, changed: Saved
    ) -> Saved:
        """Computes the change of the stored totals of groups from the change of their source."""

        def frames(evaluation: Evaluation) -> ResultFrames:
            source = self._known(evaluation.backend, operator.source, changed)
            both = self._totals_of(evaluation, operator, source, stored)
            return ResultFrames(stored_totals.change(evaluation, operator, both), None)

        return self._saved(operator, relation, frames, before_changes=True)

    def _totals_of(
        self, evaluation: Evaluation, operator: op.Group, changed: Solutions, stored: StoredRelation
    ) -> Totals:
        """Returns the totals of touched groups; computes few once for the stored totals and the result."""
        backend = evaluation.backend
        if operator in self._touched:
            old, change, is_complete = self._touched[operator]
            return Totals(backend.local(old), backend.local(change), is_complete)
        totals = stored_totals.before_and_of_change(evaluation, operator, changed, stored)
        rows = backend.held(totals.change)[1]
        before = None if rows is None else backend.held(totals.old)[1]
        if rows is not None and before is not None:
            self._touched[operator] = before, rows, totals.complete
        return totals

    def others_delta(self, operator: op.Group, relation: str, changed: Saved) -> Saved:
        """Computes the change of the rows that totals cannot represent from the change of the source."""
        touched = self._touched.get(operator)
        if touched is not None and touched[2]:
            return nothing(len(operator.source.variables))

        def frames(evaluation: Evaluation) -> ResultFrames:
            source = self._known(evaluation.backend, operator.source, changed)
            return ResultFrames(stored_totals.others(evaluation, operator, source), None)

        return self._saved(operator, relation, frames, before_changes=True)

    def totals(
        self,
        operator: op.Group,
        relations: tuple[str, str],
        known: Mapping[op.Operator, Saved],
        totals: Mapping[op.Group, Saved],
    ) -> tuple[Saved, Saved]:
        """Computes the totals of groups after the changes, and the source rows that totals cannot represent.

        known, totals: as in `content`.
        """

        def saved(part: GroupPart, relation: str) -> Saved:
            def frames(evaluation: Evaluation) -> ResultFrames:
                self._name(evaluation, known, totals)
                return _of_source(evaluation, operator, part)

            return self._saved(operator, relation, frames)

        made = saved(stored_totals.content, relations[0])
        if not self._has_others(operator, made):
            return made, nothing(len(operator.source.variables))
        return made, saved(stored_totals.others, relations[1])

    def _has_others(self, operator: op.Group, totals: Saved) -> bool:
        """Returns whether there are numbers that totals cannot represent."""
        places = places_of_others(operator)
        if not totals.files:
            return any(totals.rows[place].any() for place in places) if totals.count else False
        with self._make_backend() as backend:
            rows = table(backend, stored_totals.columns(operator), _relation_of(self._target, totals))
            condition = " OR ".join(f"c{place} <> 0" for place in places) or "false"
            return bool(backend.rows(rows.where(condition).limited(1)).num_rows)

    def group_difference(
        self, part: GroupPart, operator: op.Group, relation: str, stored: StoredRelation
    ) -> Saved:
        """Computes what to add to a stored part of groups to get the part after the changes, from scratch."""
        return self._saved(operator, relation, lambda one: _of_source(one, operator, part), stored)

    def content(
        self,
        plan: op.Operator,
        relation: str,
        known: Mapping[op.Operator, Saved],
        totals: Mapping[op.Group, Saved],
    ) -> Saved:
        """Computes the content of a plan after the changes, for a relation.

        known: contents of plans below it, computed earlier. totals: those of groups.
        """

        def frames(evaluation: Evaluation) -> ResultFrames:
            self._name(evaluation, known, totals)
            return content_frames(plan, evaluation)

        return self._saved(plan, relation, frames)

    def _name(
        self, evaluation: Evaluation, known: Mapping[op.Operator, Saved], totals: Mapping[op.Group, Saved]
    ) -> None:
        """Registers contents that were computed earlier, for plans that contain them."""
        made = {part: self._known(evaluation.backend, part, saved) for part, saved in known.items()}
        evaluation.named.update({(part, State.NEW): solutions for part, solutions in made.items()})
        for group, saved in totals.items():
            of_group = stored_totals.from_nothing(evaluation, group, _relation_of(self._target, saved))
            evaluation.named[group, State.NEW] = content_from_totals(evaluation, group, of_group)

    def difference(self, plan: op.Operator, relation: str, stored: StoredRelation) -> Saved:
        """Computes what to add to stored rows to get a plan's content after the changes, from scratch."""

        def frames(evaluation: Evaluation) -> ResultFrames:
            made = content_frames(plan, evaluation)
            return ResultFrames(made.rows.select(*table_columns(plan)), made.new_terms)

        return self._saved(plan, relation, frames, stored)

    def _saved(
        self,
        plan: op.Operator,
        relation: str,
        frames: Callable[[Evaluation], ResultFrames],
        stored: StoredRelation | None = None,
        *,
        before_changes: bool = False,
    ) -> Saved:
        """Saves what the frames compute, or its difference to stored rows, for a relation."""
        if self._changes.count > self._tuning.small_batch:
            give_back()  # lookups open many files
        for _ in range(_TRIES):
            sources = self._sources()
            with self._make_backend() as backend:
                quads = self._quads(backend, sources, before_changes)
                look_up = None if quads.lookup is None else quads.lookup.terms
                names = ("id", "term", *(NAMES if sources.has_types else ()))
                dictionary = LaterFrame(names, partial(_terms, backend, sources, names))
                terms = Terms(backend, dictionary, plan, self._id_of, self._terms.exceptions(), look_up)
                result = frames(Evaluation(backend, quads, terms, self._parameters))
                if result.new_terms is None or self._keep_terms(backend, result.new_terms):
                    if stored is not None:
                        return backend.save_difference(result.rows, stored, relation, self._target)
                    return self._kept(backend, result.rows, relation, is_delta=before_changes)
            # About once in many billions of terms, ids clash: colliding terms now have other ids.
        raise AssertionError("computed terms have other ids here than in SQL")

    def _keep_terms(self, backend: Backend, new: Frame) -> bool:
        """Saves computed terms: a few in this process, many as files. Returns False if ids clash."""
        files = self._terms.files
        few = backend.held(new)[1] if files is not None else backend.rows(new)
        if few is not None:
            numbers = few.column("id").to_numpy()
            entered = self._terms.enter(numbers, few.column("term").combine_chunks())
            return bool((entered == numbers).all())
        assert files is not None
        scratch = f"{self._target.folder}/known"
        made = backend.save_terms(new, files(scratch), self._target)
        self._target.place.remove_folder(scratch)
        for number, texts in made.clashes.items():
            self._terms.enter(np.full(len(texts), number), pa.array(texts))
        if not made.clashes:
            self._terms.stage(made.runs)
        return not made.clashes

    def _kept(self, backend: Backend, rows: Frame, relation: str, *, is_delta: bool) -> Saved:
        most = self._tuning.catalog_rows
        if is_delta and self._changes.count <= most and not self._changes.relation.files:
            few = backend.held(rows)[1]
            if few is not None and few.num_rows <= most:
                *columns, weights = (column.to_numpy() for column in few.columns)
                return sorted_rows(columns, weights)
        return backend.save(rows, relation, self._target)

    def _quads(self, backend: Backend, sources: Sources, before_changes: bool) -> scan.TableOfQuads:
        """Returns the quads before the changes of this epoch with these changes, or the current quads."""
        own = NO_CHANGES if before_changes else self._changes

        def base() -> Frame:
            return self._scanned(backend, sources, own)

        if not before_changes:
            return scan.TableOfQuads(base, None, self._id_of)
        count, relation = self._changes.count, self._changes.relation
        few = count <= self._tuning.few_changes
        return scan.TableOfQuads(
            base,
            table(backend, _CHANGE, relation) if count else None,
            self._id_of,
            lookup=self._lookup() if count and few and not relation.files else None,
            few_changes=few,
            changed_predicates=self._changes.predicates,
        )

    def _scanned(self, backend: Backend, sources: Sources, own: Changes) -> Frame:
        """Returns the quads of the last epoch with changes of this one."""
        base, later = _table_of_files(backend, sources.quad_files, scan.QUAD), sources.later
        if not (len(later.rows) or later.files or own.count):
            return base
        deletes = later.deletes + own.deletes
        late = self._log(backend, later, own, grouped=deletes > 0)
        return backend.view(scan.with_changes(base, late, deletes <= self._tuning.few_changes, deletes > 0))

    def _log(self, backend: Backend, later: LaterChanges, own: Changes, *, grouped: bool) -> Frame:
        """Returns the changes after the files of quads, as s, p, o, g, w; grouped: each quad once."""
        rows = np.concatenate([later.rows, own.relation.rows])
        files = [*later.files, *own.relation.files]
        if grouped and not files:
            rows = self._net_rows(rows)
        late = table(backend, _CHANGE, StoredRelation(files, rows))
        if grouped and files:
            late = backend.view(late.grouped(scan.QUAD, total(WEIGHT)).where(f"{WEIGHT} <> 0"))
        return late

    def _net_rows(self, rows: Column) -> Column:
        """Sums changes in this process, once per number of changes."""
        if len(rows) not in self._net:
            run = _sorted(rows)
            assert run.weights is not None
            self._net[len(rows)] = np.column_stack([*run.columns, run.weights])
        return self._net[len(rows)]

    def _lookup(self) -> Lookup | None:
        """Returns a lookup of quads, if this process has the changes of the epoch."""
        if self._session_quads is None:
            return None
        rows = self._changes.relation.rows
        return Lookup(self._session_quads, rows, self._id_of, self._terms.known)

    def _known(self, backend: Backend, plan: op.Operator, saved: Saved) -> Solutions:
        """Returns a change, or an initial content, that was computed earlier."""
        solutions = _solutions(backend, plan, _relation_of(self._target, saved))
        return replace(solutions, small=saved.count <= self._tuning.few_changes)


def _of_source(evaluation: Evaluation, operator: op.Group, part: GroupPart) -> ResultFrames:
    source = evaluation.content(operator.source, State.NEW, frozenset(operator.source.variables), None)
    return ResultFrames(part(evaluation, operator, source), None)


def _sorted(changes: Column) -> Run:
    """Sums changes, which are rows of s, p, o, g, w."""
    *columns, weights = (np.ascontiguousarray(column) for column in changes.T)
    return Run.sort(columns, weights)


def _solutions(backend: Backend, plan: op.Operator, stored: StoredRelation) -> Solutions:
    return rows_of_table(plan, table(backend, table_columns(plan), stored))


def _source(backend: Backend, plan: op.Operator, stored: StoredRelation) -> StoredSource:
    def having(keys: Column) -> Solutions | None:
        rows = stored.having(keys)
        if rows is None:
            return None
        return replace(_solutions(backend, plan, StoredRelation((), rows)), small=True)

    return StoredSource(cache(lambda: _solutions(backend, plan, stored)), having)


def _relation_of(target: Target, saved: Saved) -> StoredRelation:
    if saved.files:
        files = [target.place.uri(run.path) for run in saved.files]
        return StoredRelation(files, np.empty((0, saved.width + 1), dtype=np.int64))
    return StoredRelation((), np.column_stack(saved.rows))


def _table_of_files(backend: Backend, files: Sequence[str], columns: Sequence[str]) -> Frame:
    if files:
        return backend.files(files, columns)
    return backend.local(pa.table({name: pa.array([], pa.int64()) for name in columns}))


def _terms(backend: Backend, sources: Sources, names: Sequence[str]) -> Frame:
    """Returns the dictionary as a frame."""
    frames = [backend.files(sources.term_files, names)] if sources.term_files else []
    if sources.terms or not frames:
        frames.append(backend.local(entry_table(sources.terms).select(names)))
    return frames[0] if len(frames) == 1 else backend.view(frames[0].union(*frames[1:]))
