"""Evaluates plans over a store's files, and keeps the results as files: nothing is held in this process.

Quads, terms, and what operators store are read where they are: files, and the few rows after them. The same
on every backend. Invariant: `before` is the state before the current epoch; a result is complete before its
name is handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sparqlive.bulk import scan
from sparqlive.bulk.backend import Backend
from sparqlive.bulk.delta import delta_frames
from sparqlive.bulk.dialect import total
from sparqlive.bulk.evaluate import Evaluation, ResultFrames, content_frames, rows_of_table, table_columns
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Solutions
from sparqlive.bulk.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import NAMES, entry_table
from sparqlive.store.saving import Saved, Target
from sparqlive.store.store import Sources
from sparqlive.zset.run import Column, Run

FEW_CHANGES = 50_000
"""Up to so many changes are broadcast, and what they join is restricted by their keys."""


@dataclass(frozen=True)
class StoredRelation:
    """Where the rows of a relation are: the weights of the same row in several places add up."""

    files: Sequence[str]
    rows: Column
    """One row after the other, each with its weight."""


@dataclass(frozen=True)
class Changes:
    """What really changes in an epoch: rows of s, p, o, g, w, in this process or in files."""

    relation: StoredRelation
    count: int
    deletes: int
    predicates: frozenset[int]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Changes:
        """The changes that this process has as columns."""
        rows, weights = np.column_stack(columns), columns[4]
        predicates = frozenset(np.unique(columns[1]).tolist())
        return cls(StoredRelation((), rows), len(rows), int((weights < 0).sum()), predicates)


_CHANGE = (*scan.QUAD, WEIGHT)
NO_CHANGES = Changes(StoredRelation((), np.empty((0, 5), dtype=np.int64)), 0, 0, frozenset())


class InStore:
    """Evaluates plans of one epoch."""

    def __init__(
        self,
        backend: Callable[[], Backend],
        sources: Callable[[], Sources],
        target: Target,
        id_of: Callable[[Term], int],
        exceptions: Mapping[str, int],
        enter: Callable[[str], int],
        changes: Changes = NO_CHANGES,
    ) -> None:
        self._make_backend = backend
        self._sources = sources
        self._target = target
        self._id_of = id_of
        self._exceptions = exceptions
        self._enter = enter
        self._changes = changes
        self._net: dict[int, Column] = {}

    def is_concerned(self, plan: op.Operator) -> bool:
        leaves = (operator for operator in operators_of(plan) if not operator.children)
        return any(
            isinstance(leaf, op.Scan | op.Names | op.Nodes)
            and scan.may_match(leaf, self._changes.predicates, self._id_of)
            for leaf in leaves
        )

    def delta(
        self,
        plan: op.Operator,
        relation: str,
        kept: Mapping[op.Keeping, StoredRelation],
        known: Mapping[op.Operator, Saved],
    ) -> Saved:
        """The change of a plan, for a relation.

        kept: the rows that the sources of keeping operators had. known: changes that were computed before.
        """

        def frames(evaluation: Evaluation) -> ResultFrames:
            backend = evaluation.backend
            deltas = {
                operator: self._solutions(backend, operator, _relation_of(self._target, saved), saved.count)
                if saved.count
                else None
                for operator, saved in known.items()
            }
            before = {
                operator: self._solutions(backend, operator.source, stored)
                for operator, stored in kept.items()
            }
            return delta_frames(plan, replace(evaluation, kept=before), deltas)

        return self._saved(plan, relation, frames, before_changes=True)

    def content(self, plan: op.Operator, relation: str) -> Saved:
        """The content of a plan after the changes, from scratch, for a relation."""
        return self._saved(plan, relation, lambda evaluation: content_frames(plan, evaluation))

    def difference(self, plan: op.Operator, relation: str, stored: StoredRelation) -> Saved:
        """What is to be added to stored rows to get the content of a plan after the changes, from scratch."""

        def frames(evaluation: Evaluation) -> ResultFrames:
            names = table_columns(plan)
            made = content_frames(plan, evaluation)
            there = _table(evaluation.backend, names, stored)
            there = there.select(*names[:-1], f"-{WEIGHT} AS {WEIGHT}")
            both = made.rows.select(*names).union(there)
            rows = both.grouped(names[:-1], total(WEIGHT)).where(f"{WEIGHT} <> 0")
            return ResultFrames(rows, made.new_terms)

        return self._saved(plan, relation, frames)

    def _saved(
        self,
        plan: op.Operator,
        relation: str,
        frames: Callable[[Evaluation], ResultFrames],
        *,
        before_changes: bool = False,
    ) -> Saved:
        sources = self._sources()
        with self._make_backend() as backend:
            quads = self._quads(backend, sources, before_changes)
            terms = Terms(backend, _terms(backend, sources), plan, self._id_of, self._exceptions)
            result = frames(Evaluation(backend, quads, terms, ()))
            if result.new_terms is not None:
                found: Any = backend.rows(result.new_terms)
                for number, text in zip(*found.to_pydict().values(), strict=True):
                    assert self._enter(text) == number, "a computed term has another id here than in SQL"
            return backend.save(result.rows, relation, self._target)

    def _quads(self, backend: Backend, sources: Sources, before_changes: bool) -> scan.TableOfQuads:
        base = _table_of_files(backend, sources.quad_files, scan.QUAD)
        own = self._changes if self._changes.count and not before_changes else NO_CHANGES
        if len(sources.log) or sources.log_files or own.count:
            deletes = sources.logged_deletes + own.deletes
            late = self._log(backend, sources, own, grouped=deletes > 0)
            base = backend.view(scan.with_changes(base, late, deletes <= FEW_CHANGES, deletes > 0))
        if not before_changes:
            return scan.TableOfQuads(base, None, self._id_of)
        changes = _table(backend, _CHANGE, self._changes.relation) if self._changes.count else None
        few = self._changes.count <= FEW_CHANGES
        predicates = self._changes.predicates
        return scan.TableOfQuads(base, changes, self._id_of, few_changes=few, changed_predicates=predicates)

    def _log(self, backend: Backend, sources: Sources, own: Changes, *, grouped: bool) -> Frame:
        """The change since the files of quads, as s, p, o, g, w; grouped: each quad once."""
        rows = np.concatenate([sources.log, own.relation.rows])
        files = [*sources.log_files, *own.relation.files]
        if grouped and not files:
            rows = self._net_rows(rows)
        late = _table(backend, _CHANGE, StoredRelation(files, rows))
        if grouped and files:
            late = backend.view(late.grouped(scan.QUAD, total(WEIGHT)).where(f"{WEIGHT} <> 0"))
        return late

    def _net_rows(self, rows: Column) -> Column:
        """The sum of changes that this process has, computed once per number of them."""
        if len(rows) not in self._net:
            run = Run.sort([np.ascontiguousarray(rows[:, number]) for number in range(4)], rows[:, 4].copy())
            assert run.weights is not None
            self._net[len(rows)] = np.column_stack([*run.columns, run.weights])
        return self._net[len(rows)]

    def _solutions(
        self, backend: Backend, plan: op.Operator, stored: StoredRelation, count: int | None = None
    ) -> Solutions:
        solutions = rows_of_table(plan, _table(backend, table_columns(plan), stored))
        return replace(solutions, small=count is not None and count <= FEW_CHANGES)


def _relation_of(target: Target, saved: Saved) -> StoredRelation:
    if saved.files:
        files = [target.place.uri(run.path) for run in saved.files]
        return StoredRelation(files, np.empty((0, saved.width + 1), dtype=np.int64))
    return StoredRelation((), np.column_stack(saved.rows))


def _table_of_files(backend: Backend, files: Sequence[str], columns: Sequence[str]) -> Frame:
    if files:
        return backend.files(files, columns)
    return backend.local(pa.table({name: pa.array([], pa.int64()) for name in columns}))


def _table(backend: Backend, columns: Sequence[str], stored: StoredRelation) -> Frame:
    """All rows of a relation; the same row may be there several times."""
    frames = [backend.files(stored.files, columns)] if stored.files else []
    if len(stored.rows) or not frames:
        rows = {name: pa.array(stored.rows[:, n], pa.int64()) for n, name in enumerate(columns)}
        frames.append(backend.local(pa.table(rows)))
    return frames[0] if len(frames) == 1 else backend.view(frames[0].union(*frames[1:]))


def _terms(backend: Backend, sources: Sources) -> Frame:
    """The dictionary, with typed columns where all files have them."""
    names = ("id", "term", *(NAMES if sources.has_types else ()))
    frames = [backend.files(sources.term_files, names)] if sources.term_files else []
    if sources.terms or not frames:
        frames.append(backend.local(entry_table(sources.terms).select(names)))
    return frames[0] if len(frames) == 1 else backend.view(frames[0].union(*frames[1:]))
