"""The content of a store as record batches, straight from its files.

`plan` says which pieces a snapshot, a range of changes or the quads of a store consist of; a process on any
machine that reaches the files turns a piece into batches. Owns how views are found in a store by name.
Rejects epochs whose changes are no longer kept. Invariant: the pieces of a plan belong to one epoch, and
their files stay for as long as was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sparqlive.engine.results import Answer
from sparqlive.engine.to_spark import ensure_changes, ensure_epoch
from sparqlive.engine.view import View
from sparqlive.errors import Error, StoreFailed, ViewFailed
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF
from sparqlive.rdf.term_columns import Gathered
from sparqlive.session import Session
from sparqlive.sparql.arrow import ColumnType, Typing, plain_text
from sparqlive.sparql.column_names import EPOCH, WEIGHT
from sparqlive.store.locks import lend
from sparqlive.store.place import Place
from sparqlive.store.runs import QUADS, TERMS, RunFile, names_of, read_columns, term_groups
from sparqlive.store.store import Store
from sparqlive.store.streaming import StoredParts, parts_of
from sparqlive.zset.run import Column

QUAD_NAMES = ("s", "p", "o", "g")
_ROWS = 50_000
"""Rows that are decoded at once."""
_TERMS = 100_000


@dataclass(frozen=True)
class TermFiles:
    """Where the texts of ids are: files sorted by id, and a few terms that are in no file."""

    place: Place
    files: tuple[RunFile, ...]
    few: Mapping[int, str]

    def texts(self, ids: Column) -> pa.Array:
        """The texts of distinct, sorted ids."""
        wanted = Gathered(ids)
        wanted.add_singles(self.few)
        for run in self.files:
            for part in term_groups(self.place, run, ids):
                wanted.add(part)
        try:
            return wanted.texts().cast(pa.string())
        except KeyError as error:
            raise StoreFailed("The store has an id without a term. Run: sparqlive check") from error


@dataclass(frozen=True)
class Piece:
    """Some rows: a file and later changes in it, or rows; or all rows of a view, read by a session."""

    epoch: int
    run: RunFile | None = None
    changes: Column = field(default_factory=lambda: np.empty((0, 1), dtype=np.int64))
    is_delta: bool = False
    view: str | None = None


@dataclass(frozen=True)
class Plan:
    """The pieces of what is read, and all that is needed to read one."""

    directory: str
    relation: str
    names: tuple[str, ...]
    terms: TermFiles
    pieces: tuple[Piece, ...]

    # Reading

    def blocks(self, piece: Piece) -> Iterator[tuple[Sequence[Column], Column]]:
        """Columns of ids in the order of the names, with weights."""
        if piece.view is not None:
            yield from self._by_session(piece.view, piece.epoch)
            return
        width = len(self.names)
        if piece.is_delta and piece.run is not None:
            *columns, weights = read_columns(
                self.terms.place, piece.run, names_of(self.relation, width, is_delta=True)
            )
        else:
            parts = StoredParts(self.terms.place, self.relation, width, (), (), piece.changes)
            columns, weights = parts.piece(piece.run, piece.changes)  # type: ignore[assignment]
        if self.relation == QUADS:
            predicate, graph, subject, object_ = columns
            columns = [subject, predicate, object_, np.where(graph == DEFAULT_GRAPH, UNDEF, graph)]
        for start in range(0, len(weights), _ROWS):
            part = slice(start, start + _ROWS)
            yield [column[part] for column in columns], weights[part]

    def _by_session(self, name: str, epoch: int) -> Iterator[tuple[Sequence[Column], Column]]:
        with _reading(self.directory) as session:
            answer = _answer(session.views[name], epoch)
            for block in answer.blocks():
                yield block.columns, block.weights

    def types(self) -> list[ColumnType]:
        """The types of the columns, which take a pass over all rows."""
        found: list[list[Column]] = [[np.array([UNDEF])] for _ in self.names]
        for piece in self.pieces:
            for columns, _ in self.blocks(piece):
                for parts, column in zip(found, columns, strict=True):
                    parts.append(np.unique(column))
        types = []
        for parts in found:
            typing = Typing()
            ids = np.unique(np.concatenate(parts))
            known = ids[ids != UNDEF]
            for start in range(0, len(known), _TERMS):
                typing.see(self.terms.texts(known[start : start + _TERMS]).to_pylist())
            types.append(typing.type())
        return types

    def batches(
        self, piece: Piece, kinds: Sequence[pa.DataType] | None, *, weights: bool, epochs: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a piece. `kinds`: the types of the columns; None: terms in N-Triples syntax.

        Without `weights`, a row comes as often as its weight says.
        """
        for columns, counts in self.blocks(piece):
            if not piece.is_delta and len(counts) and counts.min() < 0:
                raise ViewFailed(
                    f"A row of the relation {self.relation} has a negative weight, so its view is wrong. Run "
                    f"`sparqlive check --repair` on the store."
                )
            if not weights and (counts != 1).any():
                columns = [np.repeat(column, counts) for column in columns]
            arrays = [
                self._decoded(column, None if kinds is None else kinds[place], self.names[place])
                for place, column in enumerate(columns)
            ]
            size = len(counts) if weights or not columns else len(columns[0])
            size = size if weights or columns else int(counts.sum())
            names = list(self.names)
            if epochs:
                arrays.append(pa.array(np.full(size, piece.epoch), pa.int64()))
                names.append(EPOCH)
            if weights:
                arrays.append(pa.array(counts, pa.int64()))
                names.append(WEIGHT)
            if not arrays:
                raise Error("The view has no columns. Read it with weights.")
            yield pa.RecordBatch.from_arrays(arrays, names)

    def _decoded(self, ids: Column, kind: pa.DataType | None, name: str) -> pa.Array:
        distinct, places = np.unique(ids, return_inverse=True)
        known = distinct != UNDEF
        texts = self.terms.texts(distinct[known])
        values = texts if kind is None else _values(texts.to_pylist(), kind, name)
        where = np.cumsum(known) - 1
        return values.take(pa.array(where[places], pa.int64(), mask=~known[places]))


def _values(texts: Sequence[str], kind: pa.DataType, name: str) -> pa.Array:
    if pa.types.is_string(kind):
        return pa.array([plain_text(text) for text in texts], pa.string())
    if pa.types.is_struct(kind):
        return ColumnType(None, kind).values(texts)
    typing = Typing()
    typing.see(texts)
    found = typing.type().arrow
    fits = found == kind or (
        pa.types.is_decimal(kind) and (pa.types.is_decimal(found) or found == pa.int64())
    )
    if texts and not fits:
        raise Error(
            f"The variable {name!r} has values that are not of the type {kind}. Read it again, or with the "
            f"option typed set to false."
        )
    return ColumnType("", kind).values(texts)


# Planning


def _reading(directory: str) -> Session:
    return Session(directory, read_only=True, watch=False)


def _answer(view: View, epoch: int) -> Answer:
    return view.now() if view.epoch == epoch else view.at(epoch)


class Planner:
    """Reads a store beside its writer, to find out what its content consists of."""

    def __init__(self, directory: str, lease_seconds: float = 3600) -> None:
        self._directory = directory
        self._lease_seconds = lease_seconds
        self._session = _reading(directory)
        store = self._session.store
        assert store is not None
        self._store: Store = store
        self._exit = ExitStack()

    def __enter__(self) -> Planner:
        self._exit.callback(self._session.close)
        self._exit.enter_context(self._session.reading())  # all of a plan belongs to one epoch
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def epoch(self, view: str | None) -> int:
        """The last epoch of a view, or of the quads."""
        return self._session.epoch if view is None else self._session.views[view].epoch

    def names(self, view: str | None) -> tuple[str, ...]:
        return QUAD_NAMES if view is None else self._session.views[view].variables

    def quads(self) -> Plan:
        """The quads of the last epoch."""
        store = self._store
        rows = [
            np.column_stack([log[:, 1], log[:, 3], log[:, 0], log[:, 2], log[:, 4]])
            for _, log in store.changes(store.quads_epoch())
        ]
        later = np.concatenate(rows) if rows else np.empty((0, 5), dtype=np.int64)
        parts = StoredParts(store.place, QUADS, 4, store.catalog.runs(QUADS), (), later)
        return self._plan(QUADS, QUAD_NAMES, _pieces(parts, self._session.epoch))

    def snapshot(self, name: str, epoch: int | None = None) -> Plan:
        """A view at an epoch, by default its last one."""
        view = self._session.views[name]._state
        at = view.epoch if epoch is None else epoch
        ensure_epoch(view, at, self._store.catalog)
        parts = None
        if not view.columns.is_ordered:
            parts = parts_of(self._store.place, self._store.catalog, view.content.name, at)
        pieces = [Piece(at, view=name)] if parts is None else _pieces(parts, at)
        return self._plan(view.content.name, view.variables, pieces)

    def changes(self, name: str, since: int, until: int | None = None) -> Plan:
        """The changes of a view after an epoch, up to another."""
        view = self._session.views[name]._state
        last = view.epoch if until is None else until
        if since < last:
            ensure_epoch(view, since, self._store.catalog)
        ensure_changes(view)
        pieces: list[Piece] = []
        for epoch, stored in self._store.catalog.deltas(view.content.name, since, last):
            if isinstance(stored, np.ndarray):
                pieces.append(Piece(epoch, changes=stored, is_delta=True))
            else:
                pieces += [Piece(epoch, run, is_delta=True) for run in stored]
        return self._plan(view.content.name, view.variables, pieces)

    def _plan(self, relation: str, names: Sequence[str], pieces: Sequence[Piece]) -> Plan:
        store = self._store
        terms = TermFiles(store.place, tuple(store.catalog.runs(TERMS)), dict(store.catalog.terms()))
        with suppress(OSError):  # in a read-only directory, no writer replaces files either
            lend(store.directory, store.catalog.epoch(), self._lease_seconds)
        return Plan(self._directory, relation, tuple(names), terms, tuple(pieces))


def _pieces(parts: StoredParts, epoch: int) -> list[Piece]:
    found: list[Piece] = []
    for run, changes in parts.tasks():
        if run is not None:
            found.append(Piece(epoch, run, np.ascontiguousarray(changes)))
        else:
            found += [
                Piece(epoch, changes=np.ascontiguousarray(changes[start : start + _ROWS]))
                for start in range(0, len(changes), _ROWS)
            ]
    return found
