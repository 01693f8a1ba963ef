"""A commit: the content of one transaction. Small parts go to the catalog, large parts to files.

Large parts are written to files below the folder of an attempt, and synced, before the transaction names
them. A commit may also include files that a backend wrote there (`Store.describe`): bases, deltas, the
change log and terms. This process never sees their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from sparqlive.rdf.term_columns import TermColumns
from sparqlive.store.compaction import Target, Writer
from sparqlive.store.runs import QUADS, RunFile
from sparqlive.store.tables import Rows
from sparqlive.store.term_runs import write_term_run
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.order import is_sorted
from sparqlive.zset.run import Column, Run, RunRows


@dataclass(slots=True)  # not frozen: that would cost every epoch a microsecond
class Commit:
    """The content of one transaction. `bases` are first contents; `forgotten` relations are deleted.

    `counts`: how many quads a new epoch inserts and deletes; None if the epoch exists.

    `runs` are files to register. They hold the parts without rows here: the changes if `changes` is None,
    bases whose rows are None, and deltas and terms that are not among `deltas`, `terms` and `term_columns`.
    """

    epoch: int
    counts: tuple[int, int] | None = None
    strategy: str = "live"
    note: Mapping[str, Any] = field(default_factory=dict)
    changes: Sequence[tuple[int, int, int, int, int]] | None = None
    deltas: Mapping[str, tuple[int, Rows]] = field(default_factory=dict)
    terms: Sequence[tuple[int, str]] = ()
    term_columns: Sequence[TermColumns] = ()
    exceptions: Sequence[tuple[str, int]] = ()
    runs: Sequence[RunFile] = ()
    bases: Mapping[str, tuple[int, Rows | Run | None]] = field(default_factory=dict)
    forgotten: Iterable[str] = ()
    batch: tuple[str, int] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


TermRun = tuple[RunFile, TermColumns]
"""A file of terms, and its content."""


def is_large(commit: Commit, most: int) -> bool:
    """Whether some part of a commit has more rows than `most`, and goes to files."""
    if (commit.changes is not None and len(commit.changes) > most) or _new_terms(commit) > most:
        return True
    return any(len(rows) > most for _, rows in commit.deltas.values()) or any(
        _size(rows) > most for _, rows in commit.bases.values()
    )


def _new_terms(commit: Commit) -> int:
    return len(commit.terms) + (sum(map(len, commit.term_columns)) if commit.term_columns else 0)


def in_files(target: Target, commit: Commit) -> tuple[Commit, TermRun | None]:
    """Writes the large parts of a commit to files.

    Returns a commit that names them, and the file of its terms, if any.
    """
    most, of_epoch = target.tuning.catalog_rows, replace(target, epoch=commit.epoch)
    runs, changes, term_run = [*commit.runs], commit.changes, None
    if changes is not None and len(changes) > most:
        runs += _written(Writer(of_epoch, QUADS, 4), _sorted_changes(changes))
        changes = None
    if _new_terms(commit) > most:
        terms = TermColumns.together([TermColumns.of(commit.terms), *commit.term_columns])
        term_run = write_term_run(target.place, target.folder, terms), terms
        runs.append(term_run[0])
        commit = replace(commit, terms=(), term_columns=())
    deltas, bases = dict(commit.deltas), dict(commit.bases)
    for name, (width, rows) in commit.deltas.items():
        if width and len(rows) > most:
            runs += _written(Writer(of_epoch, name, width), _sorted_columns(rows, width))
            del deltas[name]
    for name, (width, content) in commit.bases.items():
        if width and content is not None and _size(content) > most:
            runs += _written(Writer(target, name, width), _sorted_columns(content, width))
            bases[name] = (width, None)
    return replace(commit, changes=changes, runs=runs, deltas=deltas, bases=bases), term_run


def _written(writer: Writer, columns: Sequence[Column]) -> list[RunFile]:
    writer.add(columns)
    writer.flush()
    return writer.runs


def _size(rows: Rows | Run | None) -> int:
    return 0 if rows is None else rows.length if isinstance(rows, Run) else len(rows)


def _sorted_changes(changes: Sequence[Sequence[int]]) -> Sequence[Column]:
    """The columns p, g, s, o, w of distinct changes, in the order of their files."""
    if type(changes) is ColumnRows:
        s, p, o, g, w = changes.columns
    else:
        s, p, o, g, w = np.fromiter(chain.from_iterable(changes), np.int64, 5 * len(changes)).reshape(-1, 5).T
    if not is_sorted((p, g, s, o)):
        order = np.lexsort((o, s, g, p))
        s, p, o, g, w = (column[order] for column in (s, p, o, g, w))
    return p, g, s, o, w


def _sorted_columns(rows: Rows | Run, width: int) -> Sequence[Column]:
    """The sorted columns of distinct rows, with the weights last."""
    if type(rows) is RunRows:
        rows = rows.run
    if isinstance(rows, Run):
        weights = rows.weights
        return [*rows.columns, np.ones(rows.length, np.int64) if weights is None else weights]
    size = len(rows)
    table = np.fromiter(chain.from_iterable(rows), np.int64, width * size).reshape(-1, width).T
    weights = np.fromiter(rows.values(), np.int64, size)
    order = np.lexsort(table[::-1])
    return [*(column[order] for column in table), weights[order]]
