"""Between a session and its store: what is loaded when it opens, and what each step writes.

Owns nothing but the translation: sessions know ids, relations and views; stores know files and a catalog.
Invariant: it writes before the session shows the result to anybody.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparqlive.assertions import Assertions
from sparqlive.deferred import Deferred, Refresh
from sparqlive.errors import Error
from sparqlive.live.keeper import Content
from sparqlive.live.quads import Change, Quads
from sparqlive.plan.operators import Operator
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.store.runs import read_terms
from sparqlive.store.store import Commit, Sources, Store, TermRuns
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.spark.ingest import Ingested


class Persistence:
    def __init__(self, directory: Path, dictionary: Dictionary) -> None:
        self.store = Store(directory)
        self._dictionary = dictionary
        dictionary.older = self.store.terms()
        dictionary.load(self.store.catalog.terms())
        dictionary.exceptions.update(self.store.catalog.exceptions())
        dictionary.journal = []

    @property
    def epoch(self) -> int:
        return self.store.catalog.epoch()

    def default_graph(self, wanted: str | None) -> Any:
        """What the store was made with; a store whose views were made for another is not misread."""
        recorded = self.store.catalog.meta("default_graph")
        if recorded is None:
            recorded = wanted or "strict"
            with self.store.catalog.transaction():
                self.store.catalog.set_meta("default_graph", recorded)
        if wanted is not None and wanted != recorded:
            raise Error(
                f"The store {self.store.directory} was made with default_graph={recorded!r}, and its views "
                f"are kept for that: open it so, or make another store for {wanted!r}."
            )
        return recorded

    def load_quads(self, quads: Quads) -> None:
        """Runs straight into sorted arrays, then the changes after them."""
        runs, log = self.store.quads()
        if runs:
            s, p, o, g = (np.concatenate(columns) for columns in zip(*runs, strict=True))
            for graph in np.unique(g).tolist():
                mine = g == graph
                quads.load_columns(s[mine], p[mine], o[mine], graph)
        for rows in log:
            quads.add([tuple(row) for row in rows.tolist()])

    def sources_noted(self) -> list[str]:
        """The notes of the sources that are there."""
        return [note for note in self.store.catalog.metas("source/") if note]

    def views(self) -> list[tuple[str, str, str | None, int, str]]:
        return self.store.catalog.views()

    def saved(self, name: str, plan: Operator) -> dict[Row, int] | None:
        """The content of a relation, if the store has it."""
        return self.store.relation(name, len(plan.variables))

    def commit(
        self,
        epoch: int,
        changes: Sequence[Change],
        deltas: Mapping[str, tuple[int, Mapping[Row, int]]],
        strategy: str,
        note: Mapping[str, Any],
        batch: tuple[str, int] | None,
        notes: Mapping[str, str],
    ) -> None:
        """Makes an epoch durable: its changes, its new terms, the deltas of all that is stored, its notes."""
        inserted = sum(change[4] > 0 for change in changes)
        terms, exceptions = self._new_terms()
        self.store.commit(
            Commit(
                epoch,
                (inserted, len(changes) - inserted),
                strategy,
                note,
                changes,
                deltas,
                terms,
                exceptions,
                batch=batch,
                notes=notes,
            )
        )
        self._dictionary.journal = []

    def keep(
        self,
        name: str,
        text: str,
        base: str | None,
        refresh: Refresh,
        content: Content,
        epoch: int,
        fresh: bool,
    ) -> None:
        """Registers a view; what its content stores is written if it is not there yet."""
        contents = {}
        if fresh:
            contents = {key: (width, dict(rows.items())) for key, width, rows in content.relations()}
        runs, small = self.store.content_runs(contents, epoch)
        terms, exceptions = self._new_terms()
        commit = Commit(epoch, deltas=small, terms=terms, exceptions=exceptions, runs=runs)
        self.store.keep(name, text, base, str(refresh), commit)
        self._dictionary.journal = []

    def deferred(self, name: str, deferred: Deferred) -> None:
        """What a view that is refreshed later has not seen yet."""
        gathered = self.store.relation(deferred.relation, 4) or {}
        deferred.gathered = {(s, p, o, g): weight for (s, p, o, g), weight in gathered.items()}
        deferred.epoch = self.store.refreshed(name) if gathered else self.epoch

    def refresh(self, name: str, deferred: Deferred, epoch: int) -> None:
        """Makes the refreshing of a view durable."""
        terms, exceptions = self._new_terms()
        commit = Commit(epoch, deltas=deferred.keeper.staged(), terms=terms, exceptions=exceptions)
        self.store.refresh(name, deferred.relation, commit)
        self._dictionary.journal = []

    def drop(self, name: str, content: Content, deferred: Deferred | None) -> None:
        """Forgets a view, and what its content stores if nobody else uses it."""
        unused = [] if content.users else [key for key, _, _ in content.relations()]
        self.store.drop(name, unused if deferred is None else [*unused, deferred.relation])

    def compact(
        self, epoch: int, quads: Quads, contents: Sequence[tuple[int, Content | Deferred | Assertions]]
    ) -> None:
        """Contents come with the epoch they stand for."""
        relations = {
            key: (stands_for, width, dict(rows.items()))
            for stands_for, content in contents
            for key, width, rows in content.relations()
        }
        self.store.compact(epoch, quads.columns(), relations)

    def _new_terms(self) -> tuple[list[tuple[int, str]], list[tuple[str, int]]]:
        return list(self._dictionary.journal or ()), list(self._dictionary.exceptions.items())

    def ingest(
        self,
        spark: Any,
        paths: Sequence[str],
        graph: str | None,
        on_error: str,
        epoch: int,
        batch: tuple[str, int] | None,
    ) -> Ingested:
        """Files straight into runs, by Spark, as one epoch of a store that has no quads yet."""
        from sparqlive.spark.ingest import ingest

        directory = self.store.attempt() / "ingest"
        exceptions = dict(self._dictionary.exceptions)
        made = ingest(spark, paths, graph, directory, on_error=on_error, exceptions=exceptions)  # type: ignore[arg-type]
        taken = self._taken(made)
        if taken:  # a term of the dictionary has the id of another one in the files: that one gives way
            directory = self.store.attempt() / "ingest"
            made = ingest(
                spark, paths, graph, directory, on_error=on_error, exceptions=exceptions | taken  # type: ignore[arg-type]
            )  # fmt: skip
        runs = self.store.written(directory, made.quad_files, made.term_files, epoch)
        self._dictionary.exceptions.update(made.exceptions)
        terms, known = self._new_terms()
        note = {"rejected": made.rejected, "seconds": dict(made.seconds)}
        commit = Commit(epoch, (made.quads, 0), "spark", note, None, {}, terms, known, runs, batch)
        self.store.commit(commit)
        self._dictionary.journal = []
        self._dictionary.older = self.store.terms()
        return made

    def _taken(self, made: Ingested) -> dict[str, int]:
        """New ids for terms of the files whose id stands for another term of the dictionary."""
        files = TermRuns([read_terms(Path(made.target) / file.path) for file in made.term_files])
        taken = {}
        for number, text in self._dictionary.entries():
            other = files(number)
            if other is not None and other != text:
                taken[other] = self._dictionary.enter(other)
        return taken

    def forget(self, content: Content) -> None:
        """A content that failed is computed again when the store is next opened."""
        self.store.forget([key for key, _, _ in content.relations()])

    def batch_epoch(self, batch: tuple[str, int]) -> int | None:
        return self.store.catalog.batch_epoch(*batch)

    def record(self, batch: tuple[str, int] | None, epoch: int, notes: Mapping[str, str]) -> None:
        """A stream's batch, or a source's report, that changed nothing."""
        with self.store.catalog.transaction():
            if batch is not None:
                self.store.catalog.add_batch(*batch, epoch)
            for key, note in notes.items():
                self.store.catalog.set_meta(key, note)

    def sources(self) -> Sources:
        """Where Spark finds the quads and terms of the last epoch."""
        return self.store.sources(self._dictionary.journal or ())

    def close(self) -> None:
        self.store.close()


class Exported:
    """The quads and terms of a session in memory, written where Spark can read them, and what came after."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="sparqlive-")
        self._store = Store(self._directory.name)
        self._dictionary = dictionary
        with self._store.catalog.transaction():
            self._store.catalog.add_terms(list(dictionary.entries()), [])
        self._store.compact(0, quads.columns(), {})
        dictionary.journal = []
        self._log: list[Change] = []

    def add(self, changes: Sequence[Change]) -> None:
        self._log.extend(changes)

    def sources(self) -> Sources:
        found = self._store.sources(self._dictionary.journal or ())
        return replace(found, log=np.array(self._log, dtype=np.int64).reshape(-1, 5))

    def close(self) -> None:
        self._store.close()
        self._directory.cleanup()
