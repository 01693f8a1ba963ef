"""The session: RDF data and views over it. The public Python API.

Validates arguments and delegates: `engine/changes.py` and `engine/frames.py` read what is given,
`engine/writer.py` writes, `engine/register.py` registers views, `engine/once.py` answers queries,
`engine/check.py` recomputes, `sources/manager.py` watches sources. A batch is read and checked completely
before it reaches any of them. Rejects invalid arguments. Invariant: everything that a method reads or writes
belongs to one epoch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote
from urllib.request import url2pathname
from uuid import uuid4

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from sparqlive.engine.batches import BatchNumber
from sparqlive.engine.budget import memory_limit
from sparqlive.engine.carry import STRATEGIES, BulkChoice, Strategy
from sparqlive.engine.changes import apply_batch, apply_changes, load_files, replace_graph, text_bytes
from sparqlive.engine.check import check
from sparqlive.engine.deferred import Refresh
from sparqlive.engine.empty import warn_empty
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.frames import apply_frames, frames_of
from sparqlive.engine.graphs import CapturedGraph, matching_quads, sizes_of_graphs
from sparqlive.engine.limits import Limits
from sparqlive.engine.once import query_once
from sparqlive.engine.register import Registration
from sparqlive.engine.results import Answer
from sparqlive.engine.streams import Streams
from sparqlive.engine.updates import PreparedUpdate, carry_out, prepare_update
from sparqlive.engine.view import View
from sparqlive.engine.writer import Writer
from sparqlive.errors import Error, InvalidChange, Unsupported
from sparqlive.live.terms import Terms
from sparqlive.numbers import seconds, short_repr, whole
from sparqlive.plan.checks import within_reach
from sparqlive.plan.explain import Explained
from sparqlive.quads.scope import OBJECT, PREDICATE, SUBJECT
from sparqlive.rdf.change_columns import EncodedBatch, TextBatch
from sparqlive.rdf.changes import Batch as ReadBatch
from sparqlive.rdf.dictionary import Dictionary, Term
from sparqlive.rdf.frames import FrameColumns, StatementFiles, is_frame
from sparqlive.rdf.read import named_graph
from sparqlive.rdf.table_mapping import TableMapping
from sparqlive.runtime.collector import collector_paused
from sparqlive.runtime.deadline import within
from sparqlive.runtime.interrupts import uninterrupted
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.sources.from_views import AllSourcesFromViews, SourcesFromView
from sparqlive.sources.links.follow import Follow
from sparqlive.sources.links.traversal import Traversal
from sparqlive.sources.manager import Source, SourceManager
from sparqlive.sources.services import with_source_graphs
from sparqlive.sources.watcher import address_of, stored_watcher, watcher, whole_path
from sparqlive.sparql import html
from sparqlive.sparql.algebra import Dataset

Changes = str | Iterable[Any]
DefaultGraphs = Literal["strict", "union"]
# How long deltas are kept by default.
HISTORY_EPOCHS = 10_000
HISTORY_SECONDS = 7 * 86_400.0
_PLAIN_CHANGES = frozenset({str, list, tuple})
_MOST_SYNC_MILLISECONDS = 3_600_000
# A DELETE request to an agent carries the source's name, percent-encoded, in its URL.
_SOURCE_NAME_BYTES = 60_000

if TYPE_CHECKING:
    from sparqlive.bulk.backends.spark.follow import RunningStream
    from sparqlive.engine.persistence import Persistence
    from sparqlive.store.store import Store


class Session:
    """RDF data and the views over it."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        spark: Any = None,
        bulk: BulkChoice = "auto",
        memory: int | str | None = None,
        default_graph: DefaultGraphs | None = None,
        durability: Literal["epoch", "relaxed"] = "epoch",
        sync_milliseconds: int = 100,
        retain: Literal["relevant", "all"] | None = None,
        history_epochs: int = HISTORY_EPOCHS,
        history_seconds: float | None = HISTORY_SECONDS,
        read_only: bool = False,
        watch: bool = True,
        runs: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        """Opens a session on the store in directory `path`, created if missing; or in memory without `path`.

        Queries read the unnamed graph, as SPARQL specifies, and named graphs with GRAPH. Sources fill named
        graphs; with `default_graph="union"`, queries read these without GRAPH.

        `spark`: a Spark session or a master URL. By default, a local session starts when first needed.
        `bulk`: the backend for large batches and large new views: "duckdb", "spark", or "auto".
        `memory`: how much memory views may use while they are computed, in bytes or as "4GB"; half of the
        machine's by default. A larger view is computed from files, and mapped like any view of a store.
        `default_graph="union"`: a query's default graph is the union of the unnamed graph and all named ones.
        "strict" (the default): it is the unnamed graph only. A store keeps the setting it was created with;
        the command line creates stores with "union".
        `durability="epoch"`: an epoch is on disk before `apply` returns. "relaxed": within
        `sync_milliseconds`; a crash of the machine can lose the last epochs, but never part of an epoch.
        `retain` has no effect: stored quads are mapped, not loaded. The next version removes it.
        Deltas are kept for the last `history_epochs` epochs, and for at most `history_seconds`.
        `read_only=True`: follows the epochs of the process that writes the store, and changes nothing.
        `watch=False`: sources can be listed, added and removed, but are not watched.
        `runs`: a directory or URI (file, hdfs, s3a) for the runs of a new store, which the workers of a
        cluster can reach. The catalog stays in `path`. A store keeps the location it was created with.
        `progress`: called with the number of loaded views and of all views while a store opens.
        `tuning`: the thresholds of the program, for its own tests and benchmarks. It may change at any time.
        """
        if default_graph not in (None, "strict", "union"):
            raise Error(f'default_graph must be "strict" or "union", not {default_graph!r}.')
        if bulk not in get_args(BulkChoice):
            raise Error(f'bulk must be "auto", "duckdb" or "spark", not {bulk!r}.')
        if durability not in ("epoch", "relaxed"):
            raise Error(f'durability must be "epoch" or "relaxed", not {durability!r}.')
        if retain is not None:
            warnings.warn(
                "retain= no longer has an effect: the quads of a store are mapped. Leave it out.",
                DeprecationWarning,
                stacklevel=2,
            )
        whole("sync_milliseconds", sync_milliseconds, least=1, most=_MOST_SYNC_MILLISECONDS)
        whole("history_epochs", history_epochs)
        if history_seconds is not None:
            seconds("history_seconds", history_seconds, least=0)
        if read_only and path is None:
            raise Error("read_only=True needs a store: a session in memory would stay empty. Pass path.")
        if runs is not None and path is None:
            raise Error("runs needs a store: pass the store's directory as path.")
        self._path = None if path is None else _local(path)
        self._streams = Streams(self._path)
        self.default_graph: DefaultGraphs = default_graph or "strict"
        self.read_only = read_only
        self.tuning = tuning
        self.dictionary = Dictionary(tuning=tuning)
        self.terms = Terms(self.dictionary)
        self._used_bytes: int | None = None
        self._writer = Writer(self.terms, spark, bulk, read_only, memory_limit(memory))
        if spark is not None and not isinstance(spark, str):
            self._writer.strategies.registered_spark()
        self._manager = SourceManager(self._writer, watch)
        self._traversal = Traversal(self._writer, self._manager)
        self._links = AllSourcesFromViews(self._writer, self._manager)
        self.lineage = uuid4().hex
        """Identifies the history of epochs: epoch numbers are comparable only within one lineage."""
        if path is None:
            self._registration = Registration(self._writer, self.default_graph == "union")
            self.dictionary.give_back()
            return
        # Imported late because it is slow to import.
        from sparqlive.engine.persistence import Persistence, Retention

        retention = Retention(history_epochs, history_seconds)
        assert self._path is not None
        persistence = Persistence(
            self._path,
            self._writer.quads,
            self.dictionary,
            self._writer.lock,
            retention,
            self._writer.budget.limit,
            durability,
            sync_milliseconds,
            read_only,
            runs,
        )
        try:
            # Everything that starts here, such as timers and source threads, waits until the session is open.
            with self._writer.reading():
                stored = self._open_store(persistence, default_graph, progress or (lambda done, of: None))
                if durability == "epoch":  # otherwise a crash can lose an epoch whose number is then reused
                    self.lineage = persistence.lineage() or self.lineage
                self._start(persistence, stored)
        except BaseException:
            self._stop()
            self._writer.close()
            if self._writer.persistence is None:
                persistence.close()
            raise

    def _open_store(
        self,
        persistence: Persistence,
        default_graph: DefaultGraphs | None,
        progress: Callable[[int, int], None],
    ) -> list[Source]:
        """Loads quads, terms, views with their stored rows, and the assertions of sources; starts nothing.

        Returns the sources to watch.
        """
        self.default_graph = persistence.default_graph(default_graph)
        self._registration = Registration(self._writer, self.default_graph == "union")
        persistence.data.load_quads()
        self._writer.moved_to(persistence.store.catalog.epoch())
        self._writer.keep_in_store(persistence)
        self._registration.load(persistence, progress)
        stored = list[Source]()
        if not self.read_only:
            stored = self._manager.stored(persistence.store)
            persistence.load_assertions(self._writer.assertions)
            for source in stored:
                self._writer.assertions.add(source.name)
        self._writer.attach(persistence)
        return stored

    def _start(self, persistence: Persistence, stored: Sequence[Source]) -> None:
        """Starts background work: a reader follows the writer; a writer runs timers, sources and links."""
        if self.read_only:
            persistence.follow(partial(self._registration.follow, persistence))
            return
        watchers = [stored_watcher(source.kind, source.address, source.options) for source in stored]
        self._manager.start(zip(stored, watchers, strict=True))
        self._traversal.load(persistence.store)
        self._links.load(persistence.store)
        self._writer.refresher.start()

    @property
    def epoch(self) -> int:
        """Number of the current epoch."""
        return self._writer.epoch

    @property
    def store(self) -> Store | None:
        """The store, for code that reads its files directly; None for a session in memory."""
        return None if self._writer.persistence is None else self._writer.persistence.store

    # Data

    def load(
        self,
        source: str | os.PathLike[str] | Iterable[Any],
        graph: str | NamedNode | None = None,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        batch: tuple[str, int] | None = None,
        mapping: TableMapping | None = None,
    ) -> Epoch:
        """Adds a file, several files, a glob, quads or a data frame, as one epoch.

        Triples, and quads of the unnamed graph, go into `graph` if it is set. Large files are read as
        columns. In a store without sources, they are loaded on all cores, or on Spark if the session has it;
        `on_error="skip"` then skips malformed lines and writes them to a file. `batch`: see `apply`.

        A data frame of Spark, Arrow, pandas or Polars has the columns s, p, o and, optionally, g, with terms
        in N-Triples syntax; or any columns and a `mapping`. Spark's workers read and check its rows.
        """
        if (known := self._committed(batch)) is not None:
            return known
        name = named_graph(graph)
        if is_frame(source):
            if on_error != "fail":
                raise Unsupported('on_error="skip" works only for files; all rows of a frame must be valid.')
            given = frames_of(source, None, None, op=None, order=None, mapping=mapping, graph=name)
            return self._apply_frames(given, "auto", batch)
        if mapping is not None:
            raise Error("mapping is for data frames; files and quads have terms already.")
        return load_files(self._writer, source, name, on_error, batch)

    def apply(
        self,
        insert: Changes = (),
        delete: Changes = (),
        *,
        changes: Any = None,
        op: str | None = None,
        order: str | None = None,
        mapping: TableMapping | None = None,
        graph: str | NamedNode | None = None,
        strategy: Strategy = "auto",
        batch: tuple[str, int] | None = None,
    ) -> Epoch:
        """Applies one batch of quads, triples, N-Quads text or data frames: deletes first, then inserts.

        A batch that changes nothing creates no epoch. `strategy` forces how views are updated: "live",
        "duckdb", "spark" or "rebuild". `batch` identifies a batch of a stream by source and number; a batch
        that was committed before is skipped.

        Data frames are those that `load` accepts, with the same `mapping` and `graph`. `changes` is a frame
        with inserts and deletes. The column `op`, by default one named op, _change_type or _weight, has
        "+" or "-", "insert" or "delete", Debezium's c, r, u and d ("u" needs the columns before and after),
        Delta's change types, or a weight. If a statement has several changes, the last one by the
        column `order` counts; without an order, deletes come first.
        """
        if strategy != "auto":
            self._check_strategy(strategy)
        if batch is not None:
            _check_batch(batch)
        is_plain = type(insert) in _PLAIN_CHANGES and type(delete) in _PLAIN_CHANGES
        if changes is not None or (not is_plain and (is_frame(insert) or is_frame(delete))):
            shape = {"mapping": mapping, "graph": graph}
            given = frames_of(insert, delete, changes, op=op, order=order, **shape)
            return self._apply_frames(given, strategy, batch)
        if not (op is None and order is None and mapping is None and graph is None):
            raise Error("op, order, mapping and graph apply only to data frames. Leave them out.")
        return apply_changes(self._writer, insert, delete, strategy, batch)

    def _committed(self, batch: BatchNumber | None) -> Epoch | None:
        """The result for a batch that was committed before, which is not read again; None if it is new."""
        _check_batch(batch)
        return None if batch is None else self._writer.committed(batch)

    def _apply_frames(
        self, given: Sequence[tuple[Any, FrameColumns]], strategy: Strategy, batch: BatchNumber | None
    ) -> Epoch:
        if batch is not None and (known := self._writer.committed(batch)) is not None:
            return known
        with collector_paused():
            epoch = apply_frames(self._writer, given, strategy, batch)
        self._writer.settle()
        return epoch

    def apply_statements(
        self, files: Sequence[StatementFiles], *, batch: tuple[str, int] | None = None
    ) -> Epoch:
        """Applies files of statements in their order, as Spark's workers write them; see `apply`."""
        return self._apply_frames([(one, FrameColumns()) for one in files], "auto", batch)

    def follow(
        self,
        frame: Any,
        *,
        name: str = "stream",
        checkpoint: str | os.PathLike[str] | None = None,
        once: bool = False,
        interval_seconds: float | None = None,
        op: str | None = None,
        order: str | None = None,
        mapping: TableMapping | None = None,
        graph: str | NamedNode | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> RunningStream:
        """Applies a streaming DataFrame of Spark: each micro-batch is an epoch, exactly once.

        Rows are changes as in `apply`; without a column of operations, all of them are inserted. Spark keeps
        its place in `checkpoint`, by default in the store under `name`: following the same stream again
        continues there, after a crash too. `once` ends the stream after the rows that are available now;
        otherwise a batch starts every `interval_seconds`, or as soon as rows arrive. `on_epoch` is called
        with each epoch that changed something. `wait()` on the result raises the error that ended the stream;
        `stop()` stops it.
        """
        self.ensure_open()
        return self._streams.follow(
            frame,
            lambda rows, meaning, batch: self._apply_frames([(rows, meaning)], "auto", batch),
            name=name,
            checkpoint=checkpoint,
            once=once,
            interval_seconds=interval_seconds,
            op=op,
            order=order,
            mapping=mapping,
            graph=graph,
            on_epoch=on_epoch,
        )

    @property
    def text_bytes(self) -> int | None:
        """Workers read batches with more bytes of text than this; None if this process reads all of them."""
        return text_bytes(self._writer)

    def apply_batch(
        self,
        changes: ReadBatch | EncodedBatch | TextBatch,
        *,
        strategy: Strategy = "auto",
        batch: tuple[str, int] | None = None,
    ) -> Epoch:
        """Applies one batch of a file of changes, as `rdf/change_columns.py` reads it; see `apply`."""
        self._check_strategy(strategy)
        if (known := self._committed(batch)) is not None:
            return known
        return apply_batch(self._writer, changes, strategy, batch)

    def has_batch(self, batch: tuple[str, int]) -> bool:
        """Whether a batch of a stream was committed before; see `apply`."""
        return self._committed(batch) is not None

    @within_reach()
    def update(
        self,
        text: str,
        *,
        base: str | None = None,
        strategy: Strategy = "auto",
        allow_private: bool = False,
        dataset: Dataset | None = None,
        timeout_seconds: float | None = None,
    ) -> Epoch:
        """Executes a SPARQL Update request as one epoch: all of its operations, or none.

        Each operation sees the effects of the operations before it. `strategy` as in `apply`. LOAD fetches
        documents from the Web, under the same rules as sources; `allow_private` also allows addresses that
        are not public. `dataset` is the dataset of every WHERE clause; the request must then not contain
        USING or WITH. If reading it, fetching its documents, or its WHERE clauses exceed `timeout_seconds`,
        the update is stopped and changes nothing; LOAD SILENT continues without documents that have not
        arrived by then. The number of operations and of documents to LOAD is limited.
        """
        self._check_strategy(strategy)
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)
        return self.carry_out(prepare_update(text, base, dataset, allow_private, timeout_seconds), strategy)

    def carry_out(self, update: PreparedUpdate, strategy: Strategy = "auto") -> Epoch:
        """Executes an update whose documents have been fetched; see `update`."""
        return carry_out(self._writer, self._registration.planning.translated, update, strategy)

    def _check_strategy(self, strategy: Strategy) -> None:
        _check_strategy_name(strategy)
        if strategy in ("duckdb", "spark"):
            self._writer.strategies.ensure_available(strategy)

    def replace(self, graph: NamedNode | DefaultGraph, quads: Iterable[Quad]) -> Epoch:
        """Replaces the content of a graph, as one epoch.

        Blank nodes that the graph already has, up to their labels, keep their identity.
        """
        if not isinstance(graph, NamedNode | DefaultGraph):
            raise Error(f"replace takes a NamedNode or DefaultGraph as graph, not {short_repr(graph)}.")
        try:
            content = dict.fromkeys(
                Quad(subject, predicate, object_, graph) for subject, predicate, object_, _ in quads
            )
        except (TypeError, ValueError) as error:
            raise InvalidChange(f"replace takes an iterable of quads: {error}.") from error
        return replace_graph(self._writer, graph, list(content))

    def quads(
        self,
        graph: NamedNode | BlankNode | DefaultGraph | None = None,
        *,
        subject: Term | None = None,
        predicate: Term | None = None,
        object: Term | None = None,  # noqa: A002 - RDF's own word
    ) -> Iterator[Quad]:
        """Yields the quads of the current epoch, or those that have the given graph and terms."""
        return matching_quads(self._writer, graph, {SUBJECT: subject, PREDICATE: predicate, OBJECT: object})

    def graphs(self) -> dict[NamedNode | DefaultGraph, int]:
        """Returns the graphs of the current epoch with their sizes; the unnamed graph is always included."""
        return sizes_of_graphs(self._writer)[1]

    def graphs_with_epoch(self) -> tuple[int, dict[NamedNode | DefaultGraph, int]]:
        """Returns the current epoch, and its graphs like `graphs`."""
        return sizes_of_graphs(self._writer)

    def graph(self, name: NamedNode | DefaultGraph) -> CapturedGraph:
        """Captures one graph, which can then be read without blocking writers."""
        return CapturedGraph(self._writer, name)

    def __len__(self) -> int:
        """Number of quads."""
        return self._writer.quads.size

    # Sources

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources by name. A read-only session shows them as the writing process last recorded them."""
        if self.read_only and self.store is not None:
            return {source.name: source for source in self._manager.stored(self.store)}
        return self._manager.by_name

    def source(self, kind: str, address: str, *, name: str | None = None, **options: Any) -> Source:
        """Adds a source of changes and starts watching it.

        Its triples go into a graph named after the source; quads keep their graphs. `name` defaults to the
        address. Adding the same source again returns the existing one. A relative path is resolved against
        the current directory once, so that it means the same file wherever the store is opened later.
        """
        return self.add_source(kind, address, name, options)

    def add_source(self, kind: str, address: str, name: str | None, options: Mapping[str, Any]) -> Source:
        """Adds a source like `source`; takes options from outside, which may have any name."""
        address = address_of(kind, address)
        name, address = name or address, whole_path(kind, address)
        if len(quote(name, safe="", errors="replace")) > _SOURCE_NAME_BYTES:
            raise Error(
                f"The source name {short_repr(name)} is too long: a percent-encoded name has at most "
                f"{_SOURCE_NAME_BYTES:,} bytes. Set a shorter name, and keep the address."
            )
        if name in (".", ".."):
            raise Error(f"Invalid source name {name!r}: in a URL, it would mean a folder. Set another name.")
        source = Source(self._manager, name, kind, address, dict(options))
        return self._manager.add(source, watcher(kind, address, options))

    def sources_from(self, view: str, variable: str, kind: str = "web", **options: Any) -> SourcesFromView:
        """Watches each IRI that the view has for `variable` as a source, until it disappears from the view.

        The result's `refused` lists IRIs that cannot be sources, with the reasons; its `remove()` stops
        watching. A store records it. Calling it again with the same arguments returns the existing one.
        """
        return self._links.add(view, variable, kind, options)

    def observe_sources(self, observer: Callable[[Source, Epoch, float], None]) -> None:
        """Calls an observer with each epoch that a source causes, and with the seconds it took."""
        self._manager.observe(observer)

    # Views and queries

    @property
    def views(self) -> Mapping[str, View]:
        """The views by name."""
        return self._writer.views

    @property
    def limits(self) -> Limits:
        """Limits on the cost of views."""
        return self._writer.views.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        with self._writer.changing():
            self._writer.views.limit(limits)

    def memory(self) -> tuple[int, int]:
        """The approximate bytes that quads, views in memory, their deltas and terms use; and their limit.

        Includes the assertions of sources, but not the terms in a store's files. While an epoch is in
        progress, the first number is the previous one, because state changes.
        """
        with self._writer.capturing() as is_carrying:
            if is_carrying and self._used_bytes is not None:
                return self._used_bytes, self._writer.budget.limit
        with self.reading():
            self._used_bytes = self._writer.used_bytes() + self._writer.sweeper.used_bytes()
            return self._used_bytes, self._writer.budget.limit

    @within_reach()
    def view(
        self,
        name: str,
        query: str,
        *,
        base: str | None = None,
        replace: bool = False,
        refresh: Refresh = "immediate",
        strategy: Strategy = "auto",
        follow: Follow | bool | None = None,
        timeout_seconds: float | None = None,
        temporary: bool = False,
        owner: str | None = None,
    ) -> View:
        """Registers a query as a view, computes it, and keeps it up to date.

        The same name with the same query returns the existing view. A different query is an error unless
        `replace` is set. `refresh="immediate"` updates the view in every epoch; a number of seconds gathers
        changes and processes them together within that time; "manual" waits for `view.refresh()`.
        `view.epoch` is the epoch of the view's content. `strategy="spark"` computes the view on Spark, which
        is also chosen for large data if Spark is running. `follow` (True, or a `Follow` with bounds) fetches
        the Web documents that describe what the query and its matches mention, and what those mention in
        turn. The view changes as they arrive; `view.follow` reports the progress. A SERVICE whose endpoint is
        a source (kind "endpoint") becomes the source's graph; `view.text` shows it as GRAPH.

        The computation does not block writers; the view catches up with their epochs when it ends. If it
        takes longer than `timeout_seconds`, it is stopped and no view is registered. A `temporary` view is
        not stored, shares nothing with others, and ends if it makes epochs slow (`Limits`). `owner` names
        the person or program that registers it (`view.owner`); a store records it.
        """
        self._registration.check_name(name, temporary)
        _check_strategy_name(strategy)
        settings = Follow.of(follow)
        if temporary and (refresh != "immediate" or strategy != "auto" or settings is not None):
            raise Error("A temporary view follows every epoch: leave out refresh, strategy and follow.")
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)
        limit = self.limits.view_seconds if timeout_seconds is None else timeout_seconds
        query = within(
            limit, lambda: with_source_graphs(query, base, self.sources.values()), "Planning the view"
        )
        computed = self._registration.compute(name, query, base, refresh, strategy, temporary, limit)
        with computed as planned, self._writer.changing():
            self.ensure_open()
            self._traversal.check(name, query, base, settings, replace, self.default_graph == "union")
            notes = {} if settings is None else self._traversal.note(name, settings)
            view = self._registration.register(
                name, query, base, replace, refresh, strategy, owner, notes, planned
            ).public
            self._traversal.begin(view, settings)
            self._links.wake()
        if (
            settings is None and not temporary
        ):  # otherwise its data has not arrived yet, or nobody sees the warning
            view.warn_if_empty()
        return view

    def drop(self, name: str) -> None:
        """Drops a view."""
        with self._writer.changing():  # the name stays taken until the view's documents are gone
            self._registration.drop(name)
            self._traversal.end(name)
            self._links.wake()

    @within_reach()
    def query(
        self,
        query: str,
        *,
        base: str | None = None,
        timeout_seconds: float | None = None,
        row_limit: int | None = None,
        dataset: Dataset | None = None,
        from_views: bool = False,
        stream: bool = False,
        allow_private: bool = False,
        service_refusal: Error | None = None,
    ) -> Answer:
        """Evaluates a query once, on the current epoch.

        Rows are computed as the answer is read; all of them belong to the same epoch. A query that takes
        longer than `timeout_seconds`, or has more rows than `row_limit`, is stopped with an error. So with
        one of these limits, all rows are computed before this returns, unless `stream`: then reading the
        answer may raise the error, only the time of computing rows counts, and rows can be read once.
        `dataset` replaces FROM and FROM NAMED. `from_views`: reads the result from a view whose query is
        equivalent, if there is one.

        SERVICE asks other endpoints, under the same rules as sources; `allow_private` also allows addresses
        that are not public. All endpoints are asked before this returns. One that fails is an error, or with
        SILENT one solution without bindings. With a `service_refusal`, all fail with that error.
        """
        answer = query_once(
            self._writer, self._registration.planning, query, base, timeout_seconds, row_limit, dataset,
            from_views, stream, allow_private, service_refusal,
        )  # fmt: skip
        if answer.hint is not None:
            warn_empty("The query", answer.hint)
        return answer

    @within_reach()
    def explained(
        self, query: str, *, base: str | None = None, timeout_seconds: float | None = None
    ) -> Explained:
        """Returns the plan that a view of the query would have, with its delta rules, as a tree to draw.

        A query that `view` rejects is rejected here too. Planning stops after `timeout_seconds`.
        """
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)

        def explained() -> Explained:
            text = with_source_graphs(query, base, self.sources.values())
            self.ensure_open()
            return self._registration.planning.explained(text, base)

        return within(timeout_seconds, explained, "Planning the query")

    def check(self) -> dict[str, tuple[str, ...]]:
        """Recomputes every view from scratch, with independent code, and compares.

        Up to 100,000 quads, the evaluator that defines the algebra recomputes; above that, a backend other
        than the view's own. Raises CheckFailed with the view and the rows that differ. With a store, all
        files, terms and history are verified first; StoreFailed names what is damaged.

        Returns what recomputed each view: `reference`, `live`, `duckdb` or `spark`.
        """
        with self.reading():
            self.ensure_open()
            if self._writer.persistence is not None:
                self._writer.persistence.store.verify()
            return check(self._writer, self.default_graph == "union")

    def observe(self, observer: Callable[[Epoch], None]) -> None:
        """Calls an observer with each committed epoch, and with each deferred refresh of a view.

        The writing thread calls it before the next write: the observer must hand over and return at once.
        """
        self._writer.observe(observer)

    def observe_views(self, observer: Callable[[View], None]) -> None:
        """Calls an observer with each view that is dropped, is replaced or fails, like `observe`."""
        self._writer.views.observe(observer)

    def repair(self) -> list[str]:
        """Recomputes the views that `check` would find wrong, and those whose files are damaged or missing.

        Verifies every file of the store, and compares every view like `check`; for views that stay in
        files, also their stored state, such as the totals of groups. The history of a recomputed view starts
        now. Returns the names of these views. Quads and terms cannot be recomputed: an error names their
        damaged file.
        """
        return self._registration.repair()

    def compact(self, *, maps: bool = False) -> None:
        """Folds the store's log and deltas into new runs.

        `maps=True` only removes the mapped files, which are created again when they are needed.
        """
        self.ensure_open()
        persistence = self._writer.persistence
        if persistence is not None and maps:
            with self._writer.reading():
                persistence.store.remove_maps()
        elif persistence is not None:
            persistence.compactor.run(everything=True)  # takes the lock itself, only while it needs it

    # Reading and closing

    def quads_to_spark(self) -> Any:
        """Returns the quads as a Spark DataFrame of s, p, o, g: terms in N-Triples syntax, g null if unnamed.

        With a store, Spark's workers read its files.
        """
        self.ensure_open()
        from sparqlive.engine.to_spark import quads_to_spark

        return quads_to_spark(self._writer, self.quads())

    def reading(self) -> AbstractContextManager[None]:
        """Context in which all reads belong to one epoch."""
        return self._writer.reading()

    def capturing(self) -> AbstractContextManager[bool]:
        """Short context in which the current epoch does not change; see `Writer.capturing`."""
        return self._writer.capturing()

    def __repr__(self) -> str:
        where = "in memory" if self._path is None else repr(str(self._path))
        state = "closed" if self._writer.closed else f"epoch={self.epoch}, views={len(self.views)}"
        return f"Session({where}, {state})"

    def _repr_html_(self) -> str:
        """The views, for notebooks."""
        rows = [(name, view.form, len(view), view.epoch) for name, view in self.views.items()]
        about = f"sparqlive session at epoch {self.epoch}: {len(self):,} quads"
        return html.preformatted(about) + html.table(("view", "form", "solutions", "epoch"), rows, "view")

    def ensure_open(self) -> None:
        self._writer.ensure_open()

    def close(self) -> None:
        """Closes the session; closing it again does nothing."""
        if self._writer.ended_by_fork():
            return
        self._stop()
        with uninterrupted:
            self._writer.close()

    def _stop(self) -> None:
        """Stops streams, links and sources. The caller must not hold the lock, which they may wait for."""
        self._streams.stop()
        self._traversal.stop()
        self._links.stop()
        self._manager.stop()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


open = Session  # noqa: A001 - always used as sparqlive.open; a session is open once it is created


def _check_strategy_name(strategy: str) -> None:
    if strategy not in STRATEGIES:
        raise Error(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}.")


def _check_batch(batch: object) -> None:
    """Rejects a batch that is not a source name and a number that the catalog can hold."""
    match batch:
        case None:
            return
        case (str(), number):
            whole("The number of a batch", number, most=2**63 - 1)
        case _:
            raise Error(f"batch must be the name of a source and a number, not {short_repr(batch)}.")


def _local(path: str | os.PathLike[str]) -> Path:
    """The directory of a store, which must be local for the catalog."""
    text = os.fspath(path)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Path(text)
    if scheme == "file":
        return Path(url2pathname(rest))
    raise Unsupported(
        f"A store cannot be at {text}: its catalog needs a local disk. "
        f"Use a local directory for the store and this address for its runs; see docs/CLUSTER.md."
    )
