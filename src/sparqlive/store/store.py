"""The store of a session: reads when it opens, and writes with each epoch.

Owns the order of a commit: first files, synced; then the transaction that registers them. Relations are
named `quads`, `terms`, and for each stored plan `<key>/rows`, `<key>/state/<operator>` and the like. A
relation consists of its base, as of an epoch, and the deltas after it; older deltas are history. Invariant: a
commit that returned is in the store when it is opened again; a commit that did not return is in it completely
or not at all.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from sparqlive.errors import StoreFailed
from sparqlive.rdf.term_columns import TermColumns
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.store.catalog import Catalog, Durability
from sparqlive.store.commits import Commit, in_files, is_large
from sparqlive.store.compaction import Target, write_sorted_quads
from sparqlive.store.deltas import read_changes, read_deltas
from sparqlive.store.detection import CATALOG, is_harmless
from sparqlive.store.locks import Lease, leased_epochs
from sparqlive.store.map_folder import MapFolders
from sparqlive.store.names import ATTEMPT, IDENTITY, stored_run
from sparqlive.store.place import LocalPlace, Place, address_of, check_recorded, new_folder, place_at
from sparqlive.store.quad_runs import QuadRuns
from sparqlive.store.relation_maps import Order, RelationMaps
from sparqlive.store.runs import (
    QUADS,
    TERMS,
    RunFile,
    check_file,
    described,
    has_typed_terms,
    names_of,
    read_columns,
    read_terms,
)
from sparqlive.store.seals import Damaged
from sparqlive.store.seeking import Readers
from sparqlive.store.streaming import StoredParts, parts_of
from sparqlive.store.tables import check_terms
from sparqlive.store.term_maps import TermMaps
from sparqlive.store.term_runs import TermRuns, write_term_run
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.relation import Elsewhere, Relation, rows_of
from sparqlive.zset.run import Column, Run, RunRows

REFRESHES = "refreshes"
"""Marks stores that record every refresh of a deferred view; older versions did not."""


@dataclass(frozen=True)
class LaterChanges:
    """The change log after the files of quads: rows of s, p, o, g, w, and files with these columns."""

    rows: Column
    files: Sequence[str]
    deletes_in_files: int
    """The number of changes in the files that delete a quad."""

    @property
    def deletes(self) -> int:
        """The number of changes that delete a quad."""
        return self.deletes_in_files + int((self.rows[:, 4] < 0).sum())


@dataclass(frozen=True)
class Sources:
    """Quads and terms for readers of whole files: the files, and the part that is not in files yet.

    Each is looked up when it is first read.
    """

    find_quad_files: Callable[[], Sequence[str]]
    find_later: Callable[[], LaterChanges]
    find_term_files: Callable[[], Sequence[str]]
    find_terms: Callable[[], Sequence[tuple[int, str]]]
    has_types: bool
    """Whether all files of terms have the typed columns."""

    @cached_property
    def quad_files(self) -> Sequence[str]:
        return self.find_quad_files()

    @cached_property
    def later(self) -> LaterChanges:
        """The change log after the files of quads."""
        return self.find_later()

    @cached_property
    def term_files(self) -> Sequence[str]:
        return self.find_term_files()

    @cached_property
    def terms(self) -> Sequence[tuple[int, str]]:
        """The terms that are in no file."""
        return self.find_terms()


class Store:
    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        read_only: bool = False,
        durability: Durability = "epoch",
        sync_milliseconds: int = 100,
        runs: str | os.PathLike[str] | None = None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        """`runs`: an address for the runs of a new store, instead of its directory."""
        self.directory = Path(directory)
        self.tuning = tuning
        address = None if runs is None else address_of(runs)
        first_meta = {REFRESHES: "1"}
        if address is not None:
            folder = new_folder()
            place_at(address, folder)  # rejects an invalid address before anything is created
            first_meta |= {"runs": address, "runs_folder": folder}
        self.catalog = Catalog(
            self.directory,
            read_only=read_only,
            durability=durability,
            sync_milliseconds=sync_milliseconds,
            first_meta=first_meta,
        )
        self._attempts: set[str] = set()
        self._verified_paths: set[str] = set()
        self._typed_paths: dict[str, bool] = {}
        self._attempt_count = 0
        self.staged_terms: Sequence[RunFile] = ()
        """Files of terms that the current epoch will register."""
        self._lease: Lease | None = None
        try:
            self.place = self._place(address)
            self._check_link()
            self.readers = Readers(self.place, tuning)
            self.term_maps = TermMaps(self.place, self.directory)
            self.maps = RelationMaps(self.directory, self.place)
            self._check_runs()
            if read_only:
                self._take_lease()
            else:
                self.catalog.acknowledge()
                self.remove_orphans()
        except BaseException:
            self.close()
            raise

    def _place(self, address: str | None) -> Place:
        """The location of the runs, as recorded when the store was created."""
        recorded = self.catalog.meta("runs")
        if address is not None and address != recorded:
            where = "in its directory" if recorded is None else f"at {recorded}"
            raise StoreFailed(
                f"The store {self.directory} was created with its runs {where}, "
                f"not at {address}. Open it without an address for its runs, or create another store."
            )
        if recorded is None:
            return LocalPlace(self.directory, "runs")
        folder = self.catalog.meta("runs_folder") or ""
        check_recorded(recorded, folder)
        return place_at(recorded, folder)

    def _check_link(self) -> None:
        """Raises if `runs` is a link to a folder that contains anything but runs of this store."""
        if not self.place.is_linked:
            return
        runs = self.directory / self.place.folder
        own = {folder.rpartition("/")[2] for folder in self._own_folders()}
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(runs)):
                if name not in own and not is_harmless(name):
                    raise StoreFailed(
                        f"{runs} is a link to {runs.resolve()}, which contains {name} besides this store's "
                        f"runs. Nothing was changed there. Link to a folder of its own, "
                        f"or restore the store from a backup that you trust."
                    )

    def _check_runs(self) -> None:
        """Raises if the catalog is empty although the store has runs.

        Without its log, SQLite sees an older catalog. If the head is missing too, nothing else reveals this,
        and the runs would be removed as leftovers of an unfinished commit.
        """
        if self.catalog.has_head or self.catalog.epoch() or self.catalog.all_runs() or self.catalog.views():
            return
        if any(self.place.files_below(folder) for folder in self._own_folders()):
            raise StoreFailed(
                f"The catalog of the store {self.directory} is empty, but the store has runs: "
                f"catalog.sqlite-wal and head are missing, or catalog.sqlite is an older copy. Restore the "
                f"latest ones, or the whole store from a backup. To start with an empty store, choose "
                f"another directory."
            )

    def _own_folders(self) -> list[str]:
        """The folders of this store's attempts, by name; excludes renamed copies."""
        mark = re.compile(rf"{self._mark}-")
        try:
            folders = self.place.folders()
        except OSError as error:
            where = self.place.text(self.place.folder)
            raise StoreFailed(
                f"The runs of the store {self.directory} at {where} cannot be listed: {error}."
            ) from error
        names = {folder: folder.rpartition("/")[2] for folder in folders}
        return [folder for folder, name in names.items() if mark.match(name) and ATTEMPT.fullmatch(name)]

    def close(self) -> None:
        if self._lease is not None and not self.catalog.is_forked:
            self._lease.release()
        self.catalog.close()

    # Reading while another process writes

    def _take_lease(self) -> None:
        """Keeps the current files until this reader moves on, if a lease can be written."""
        with suppress(OSError):
            self._lease = Lease(self.directory, 0)
        self.catalog.renew()
        self.read_until(self.catalog.epoch())

    def read_until(self, epoch: int) -> None:
        """Releases the files that only earlier epochs need."""
        if self._lease is not None:
            self._lease.move(epoch)
        self.readers.keep({run.path for run in self.catalog.all_runs()})
        self.term_maps.keep(self.term_runs(), is_writer=False)

    # Files

    @property
    def _mark(self) -> str:
        """The prefix of all folder names of this store."""
        identity = self.catalog.meta("store") or ""
        if IDENTITY.fullmatch(identity) is None:
            raise Damaged(self.directory / CATALOG, "it does not state the identity of its store")
        return identity[:16]

    def remove_orphans(self) -> None:
        """Removes files that no transaction registered, and replaced files that no reader needs.

        Keeps the folders of current attempts, and everything that neither has the store's mark nor was ever
        in the catalog. Without the writer's lock, another process may be writing such files.
        """
        if not self.catalog.holds_lock:
            return
        oldest = min(leased_epochs(self.directory), default=None)
        replaced = self.catalog.replaced()
        unused = {path for path, epoch in replaced.items() if oldest is None or epoch < oldest}
        named = {run.path for run in self.catalog.all_runs()} | (replaced.keys() - unused)
        self.readers.keep(named)
        self.term_maps.keep(self.term_runs(), is_writer=True)
        try:
            for path in unused - named:
                self.place.remove(stored_run(self.place.folder, path))
                self.place.remove_if_empty(path.rpartition("/")[0])
            for attempt in self._own_folders():
                if attempt not in self._attempts:
                    self._remove_unnamed(attempt, named)
        except OSError as error:
            raise StoreFailed(
                f"Unused runs of the store {self.directory} could not be removed: {error}. "
                f"Its last epoch is unchanged."
            ) from error
        if unused:
            with self.catalog.transaction():
                self.catalog.forget_replaced(unused)

    def _remove_unnamed(self, attempt: str, named: set[str]) -> None:
        files = {*self.place.files_below(attempt)}
        if files.isdisjoint(named):
            self.place.remove_folder(attempt)
            return
        for file in files - named:
            if file.endswith(".parquet"):
                self.place.remove(file)

    @contextmanager
    def attempt(self) -> Iterator[str]:
        """Creates a folder for the files of one attempt at a commit; it is not removed during the block."""
        self.catalog.ensure_writable()
        self._attempt_count += 1
        folder = f"{self.place.folder}/{self._mark}-{time.time_ns():x}-{os.getpid()}-{self._attempt_count}"
        self._attempts.add(folder)
        try:
            self.place.make(folder)
            yield folder
        except OSError as error:
            raise StoreFailed(
                f"The store {self.directory} could not be written: {error}. Its last epoch is unchanged."
            ) from error
        finally:
            self._attempts.discard(folder)

    def target(self, folder: str, epoch: int | None = None) -> Target:
        """The folder of an attempt, as a place for files. `epoch`: that of deltas; None for bases."""
        return Target(self.place, folder, epoch, self.tuning)

    @contextmanager
    def scratch(self) -> Iterator[Target]:
        """Creates a folder for the duration of the block; for a reader, outside the store."""
        if self.catalog.read_only:
            with TemporaryDirectory(prefix="sparqlive-") as elsewhere:
                yield Target(LocalPlace(Path(elsewhere), "."), ".", tuning=self.tuning)
            return
        with self.attempt() as folder:
            try:
                yield self.target(folder)
            finally:
                self.place.remove_folder(folder)

    # Reading

    @property
    def is_local(self) -> bool:
        """Whether the runs are local files."""
        return isinstance(self.place, LocalPlace)

    def quads_epoch(self) -> int:
        """The epoch of the runs of quads."""
        base = self.catalog.base(QUADS)
        return 0 if base is None else base.epoch

    def all_quads(self, known: QuadRuns | None = None) -> QuadRuns:
        """The quads of the last epoch. `known` already knows segments of some of the files."""
        log = [stored for _, stored in self.catalog.changes(self.quads_epoch())]
        return QuadRuns(self.readers, self.catalog.runs(QUADS), log, known)

    def changes(self, since: int) -> Iterator[tuple[int, Column]]:
        """The changes of each epoch after `since`, as rows of s, p, o, g, w."""
        return read_changes(self.place, self.catalog, since)

    def deltas(self, relation: str, since: int, until: int) -> Iterator[tuple[int, Column]]:
        """The deltas of a relation after `since`, up to `until`, as rows with their weight last."""
        return read_deltas(self.place, self.catalog, relation, since, until)

    def parts(self, name: str) -> StoredParts:
        """The parts of a relation."""
        self._ensure_own_epoch()
        parts = parts_of(self.place, self.catalog, name)
        assert parts is not None, "a relation in use is not forgotten"
        return parts

    def _ensure_own_epoch(self) -> None:
        """Raises if a read would see another writer's epoch."""
        if not self.catalog.read_only:
            self.catalog.ensure_sole_writer()

    def terms(self) -> TermRuns:
        """The terms in files; newer terms are in the catalog."""
        return TermRuns(self.term_maps, self.term_runs())

    def term_runs(self) -> list[RunFile]:
        """The files of terms, staged ones included."""
        return [*self.catalog.runs(TERMS), *self.staged_terms]

    def map_terms(self, runs: Iterable[RunFile]) -> None:
        """Writes the maps of new files on local disks, so that no query waits for them."""
        for run in runs:
            if run.relation == TERMS and self.is_local:
                self.term_maps.file(run).open()

    def sources(self, more_terms: Callable[[], Iterable[tuple[int, str]]]) -> Sources:
        """The files of quads and terms, and the part not in files yet, for readers outside this process."""
        return Sources(
            lambda: self._verified(self.catalog.runs(QUADS)),
            self._later,
            self.term_files,
            lambda: [*self.catalog.terms(), *more_terms()],
            all(self._has_types(run) for run in self.term_runs()),
        )

    def _later(self) -> LaterChanges:
        rows, files, deletes = [np.empty((0, 5), dtype=np.int64)], list[RunFile](), 0
        for epoch, stored in self.catalog.changes(self.quads_epoch()):
            if isinstance(stored, np.ndarray):
                rows.append(stored)
            else:
                files += stored
                deletes += self.catalog.deletes(epoch)
        return LaterChanges(np.concatenate(rows), self._verified(files), deletes)

    def term_tables(self) -> dict[str, Callable[[], pa.Table]]:
        """Functions that return the terms of each file as a table, in mapped memory."""
        return {run.path: self.term_maps.file(run).table for run in self.term_runs()}

    def term_files(self) -> list[str]:
        """The files of terms, for readers that do not compare digests."""
        return self._verified(self.term_runs())

    def stage_terms(self, runs: Sequence[RunFile]) -> None:
        """Sets the newly written files of terms that are read too; an empty sequence removes them."""
        self.staged_terms = runs
        self._verified_paths.update(run.path for run in runs)

    def _verified(self, runs: Iterable[RunFile]) -> list[str]:
        """The locations of files. Local files are compared with their digests here, once.

        Remote file systems have their own checksums.
        """
        locations = []
        for run in runs:
            if run.path not in self._verified_paths and self.is_local:
                check_file(self.place, run)
                self._verified_paths.add(run.path)
            locations.append(self.place.uri(run.path))
        return locations

    def _has_types(self, run: RunFile) -> bool:
        if run.path not in self._typed_paths:
            self._typed_paths[run.path] = has_typed_terms(self.place, run)
        return self._typed_paths[run.path]

    def relation(self, name: str) -> Elsewhere | None:
        """The content of a relation, read on demand; None if the store does not have it."""
        if not self.catalog.has(name):
            return None
        return Elsewhere(lambda: self.mapped(name), lambda: self._read(name, self._base_run))

    def mapped(self, name: str) -> Relation:
        """The content of a relation, whose base is mapped if it is in files."""
        return self._read(name, self._base_map)

    def _read(self, name: str, base_of: Callable[[str, int], Run | None]) -> Relation:
        """Reads the base as a run, and the later deltas as an overlay, or as a run if they are large."""
        base = self.catalog.base(name)
        assert base is not None, "a relation in use is not forgotten"
        self._ensure_own_epoch()
        deltas = [base.rows] if base.rows is not None else []
        deltas += [rows for _, rows in read_deltas(self.place, self.catalog, name, base.epoch)]
        run = base_of(name, base.width)
        if base.width and sum(map(len, deltas)) >= self.tuning.column_rows:
            *columns, weights = np.concatenate(deltas).T
            relation = Relation.of_parts(base.width, run, {}, tuning=self.tuning)
            relation.add(RunRows(Run.sort(columns, weights)))
            return relation
        overlay: dict[tuple[int, ...], int] = {}
        for rows in deltas:
            for *row, weight in rows.tolist():
                key = tuple(row)
                total = overlay.get(key, 0) + weight
                if total:
                    overlay[key] = total
                else:
                    del overlay[key]
        return Relation.of_parts(base.width, run, overlay, tuning=self.tuning)

    def keyed(self, name: str, key_length: int, order: Order) -> KeyedRelation:
        """The content of a relation with weights 1, sorted in an order of columns; its base is mapped."""
        run = self.maps.run(name, len(order), self.catalog.runs(name), order)
        relation = KeyedRelation(len(order), key_length, run, tuning=self.tuning)
        base = self.catalog.base(name)
        if base is None:
            return relation
        deltas = [base.rows] if base.rows is not None else []
        deltas += [rows for _, rows in read_deltas(self.place, self.catalog, name, base.epoch)]
        if deltas:
            *columns, weights = np.concatenate(deltas).T
            changes = Run.sort([columns[number] for number in order], weights)
            if changes.length:
                assert changes.weights is not None
                relation.stage_columns(changes.columns, changes.weights)
                relation.commit()
        return relation

    def _base_map(self, name: str, width: int) -> Run | None:
        return self.maps.run(name, width, self.catalog.runs(name))

    def remove_maps(self) -> None:
        """Removes the mapped files; each is created again when it is needed."""
        for folder in MapFolders(self.directory).existing():
            folder.remove_unfinished()
            for name in folder.names():
                folder.remove(name)

    def remove_other_maps(self) -> None:
        """Removes the maps of outdated bases of relations; only for the writer."""
        self.maps.remove_others({name: self.catalog.runs(name) for name in self.catalog.bases()})

    def _base_run(self, name: str, width: int) -> Run | None:
        names = names_of(name, width)
        parts = [read_columns(self.place, run, names) for run in self.catalog.runs(name)]
        if not parts:
            return None
        columns = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        return Run(columns[:-1], columns[-1])

    def approximate_rows(self, name: str) -> int:
        """The approximate number of rows of a relation, in its base and later deltas; not verified."""
        return self.catalog.base_rows(name) + self.catalog.delta_rows(
            name, self.catalog.bases().get(name, -1)
        )

    def damaged(self) -> dict[str, StoreFailed]:
        """The relations with a damaged file, base or delta, each with the error."""
        errors: dict[str, StoreFailed] = {}
        for run in self.catalog.all_runs():
            try:
                check_file(self.place, run)
            except StoreFailed as error:
                errors[run.relation] = error
        for relation in self.catalog.relations():
            try:
                self.catalog.base(relation)
                list(self.catalog.deltas(relation, -1))
            except Damaged as error:
                errors[relation] = error
        return errors

    def verify(self) -> None:
        """Raises unless every row of the catalog, every file and every term is undamaged."""
        self.catalog.verify()
        exceptions = dict(self.catalog.exceptions())
        for run in self.catalog.all_runs():
            check_file(self.place, run)
            if run.relation == TERMS:
                check_terms(read_terms(self.place, run).pairs(), exceptions, self.place.text(run.path))

    # Writing

    def write(self, commit: Commit, also: Callable[[], None] | None = None) -> RunFile | None:
        """Makes a commit durable, with large parts in files; returns the file of its terms, if any.

        `also` writes more to the catalog in the same transaction.
        """
        if not is_large(commit, self.tuning.catalog_rows):
            self._register(commit, also)
            return None
        with self.attempt() as folder:
            filed, terms = in_files(self.target(folder), commit)
            if terms is not None:
                self.term_maps.written(*terms)
            self._register(filed, also)
            return None if terms is None else terms[0]

    def _register(self, commit: Commit, also: Callable[[], None] | None) -> None:
        with self.catalog.transaction():
            if commit.counts is not None:
                self.catalog.add_epoch(
                    commit.epoch, commit.counts, commit.strategy, commit.note, commit.changes
                )
            self._name(commit)
            if also is not None:
                also()

    def _name(self, commit: Commit) -> None:
        for relation in commit.forgotten:
            self.catalog.forget_relation(relation, commit.epoch)
        for relation, (width, rows) in commit.bases.items():
            self.catalog.set_base(relation, commit.epoch, width, None if rows is None else rows_of(rows))
        self._ensure_written(commit.runs)
        for run in commit.runs:
            if run.epoch is not None and run.relation.startswith("source"):
                self.catalog.begin(run.relation, len(run.first))
            self.catalog.add_run(run)
        self.catalog.add_terms(commit.terms, commit.exceptions)
        for part in commit.term_columns:
            self.catalog.add_terms(list(part.pairs()), ())
        for relation, (width, rows) in commit.deltas.items():
            if relation.startswith("source"):  # a relation of sources is empty until its first delta
                self.catalog.begin(relation, width)
            self.catalog.add_delta(relation, commit.epoch, width, rows)
        for key, note in commit.notes.items():
            self.catalog.set_meta(key, note)
        if commit.batch is not None:
            self.catalog.add_batch(*commit.batch, commit.epoch)

    def _ensure_written(self, runs: Iterable[RunFile]) -> None:
        """Raises if a file of a commit is missing: a second writer would take it for a leftover."""
        for run in runs:
            if isinstance(self.place, LocalPlace) and self.place.size(run.path) != run.bytes:
                raise OSError(f"{self.place.text(run.path)} was changed by another process")

    def describe(self, folder: str, files: Iterable[tuple[str, str, int | None]]) -> list[RunFile]:
        """Describes files that a backend wrote below the folder of an attempt, for a commit.

        `files` gives each path with its relation, and the epoch of a delta, or None for a base.
        """
        self.place.take_over(folder)
        return [described(self.place, f"{folder}/{path}", relation, epoch) for path, relation, epoch in files]

    def write_quads(self, parts: Iterator[tuple[Column, Column, Column, Column]]) -> None:
        """Writes quads, in the order of p, g, s, o, as the first runs of a store."""
        with self.attempt() as folder:
            runs = write_sorted_quads(self.target(folder), parts)
            with self.catalog.transaction():
                self.catalog.set_base(QUADS, 0, 4, None)
                for run in runs:
                    self.catalog.add_run(run)

    def write_terms(self, terms: TermColumns) -> None:
        """Writes terms as one run."""
        if len(terms):
            with self.attempt() as folder:
                run = write_term_run(self.place, folder, terms)
                with self.catalog.transaction():
                    self.catalog.add_run(run)
