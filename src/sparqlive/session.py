"""The session: one writer, views, epochs. The public Python API.

Owns the order of things: a batch is read and checked whole, staged, carried to the views that it concerns,
and committed; or nothing has happened. Refuses what cannot be kept. Invariant: between calls, every view
equals its query evaluated on the current quads, and belongs to the current epoch.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.request import url2pathname

import numpy as np
from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from sparqlive.assertions import Assertions
from sparqlive.deferred import Deferred, Refresh, check_refresh
from sparqlive.errors import CheckFailed, Closed, Error, Unsupported, ViewExists
from sparqlive.feeds import Feeds, Linked, Source
from sparqlive.live.deadline import deadline
from sparqlive.live.keeper import Content, Keeper
from sparqlive.live.maintained import Saved
from sparqlive.live.once import compute_once
from sparqlive.live.quads import Change, Quads
from sparqlive.live.quads import Quad as QuadIds
from sparqlive.live.terms import Terms
from sparqlive.plan.checks import check_functions
from sparqlive.plan.once import fixed
from sparqlive.plan.operators import Listing, Operator, kept_of
from sparqlive.plan.reference import Reference
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.plan.unfold import unfold, views_read
from sparqlive.rdf.compare import matched
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, Dictionary
from sparqlive.rdf.read import changes_of, check_quad, paths_of, read_source, size_of
from sparqlive.sources import Changes as SourceChanges
from sparqlive.sources import Content as SourceContent
from sparqlive.sources import address_of, watcher
from sparqlive.sparql.algebra import Query
from sparqlive.sparql.syntax import parse_query, parse_update
from sparqlive.strategies import Choice, Strategies, Strategy
from sparqlive.updates import wanted_by
from sparqlive.views import GRAPH_FORMS, Answer, Delta, Deltas, Epoch, TermRow, View, Views
from sparqlive.zset.relation import Row

Changes = str | Iterable[Any]
DefaultGraphs = Literal["strict", "union"]
# Spark reads files from this size on, and computes views of graphs from this size on if it is running.
INGEST_BYTES = 200_000_000
SPARK_QUADS = 2_000_000
SETTLE_ROWS = 50_000
_NO_NOTES: Mapping[str, str] = {}
# How long deltas are kept, unless it is said otherwise.
HISTORY_EPOCHS = 10_000
HISTORY_SECONDS = 7 * 86_400.0

if TYPE_CHECKING:
    from sparqlive.persistence import Exported, Persistence
    from sparqlive.spark.carry import Carrier


def open(  # noqa: A001 - always used as sparqlive.open
    path: str | os.PathLike[str] | None = None,
    *,
    spark: Any = None,
    default_graph: DefaultGraphs | None = None,
    durability: Literal["epoch", "relaxed"] = "epoch",
    sync_milliseconds: int = 100,
    retain: Literal["relevant", "all"] = "relevant",
    history_epochs: int = HISTORY_EPOCHS,
    history_seconds: float | None = HISTORY_SECONDS,
    read_only: bool = False,
    watch: bool = True,
    runs: str | os.PathLike[str] | None = None,
) -> Session:
    """Opens a session: on the store in a directory, which is made if it is not there; or in memory.

    `spark`: a Spark session or a master's URL; else a local one is started when first needed.
    `default_graph="union"`: a query's default graph is the union of the unnamed graph and all named ones;
    "strict" (the default): the unnamed one alone. A store keeps to what it was made with.
    `durability="epoch"`: an epoch is on the disk before `apply` returns; "relaxed": within
    `sync_milliseconds`, so that a failure of the machine can lose the last epochs, whole ones.
    `retain="relevant"`: of a store's quads, those that views read are held in memory; "all": all.
    Deltas are kept for the last `history_epochs` epochs, and no longer than `history_seconds`.
    `read_only=True`: follows the epochs of the process that writes the store, and changes nothing.
    `watch=False`: sources are listed, added and removed, but not looked at.
    `runs`: a directory or URI (file, hdfs, s3a) for a new store's runs, which the workers of a cluster reach;
    the catalog stays in the store's directory. A store keeps to what it was made with.
    """
    return Session(
        path,
        spark=spark,
        default_graph=default_graph,
        durability=durability,
        sync_milliseconds=sync_milliseconds,
        retain=retain,
        history_epochs=history_epochs,
        history_seconds=history_seconds,
        read_only=read_only,
        watch=watch,
        runs=runs,
    )


class Session:
    """RDF data, and the views over it."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        spark: Any = None,
        default_graph: DefaultGraphs | None = None,
        durability: Literal["epoch", "relaxed"] = "epoch",
        sync_milliseconds: int = 100,
        retain: Literal["relevant", "all"] = "relevant",
        history_epochs: int = HISTORY_EPOCHS,
        history_seconds: float | None = HISTORY_SECONDS,
        read_only: bool = False,
        watch: bool = True,
        runs: str | os.PathLike[str] | None = None,
    ) -> None:
        if default_graph not in (None, "strict", "union"):
            raise Error(f'default_graph is "strict" or "union", not {default_graph!r}.')
        if durability not in ("epoch", "relaxed"):
            raise Error(f'durability is "epoch" or "relaxed", not {durability!r}.')
        if retain not in ("relevant", "all"):
            raise Error(f'retain is "relevant" or "all", not {retain!r}.')
        if read_only and path is None:
            raise Error("Only a store can be opened read-only: a session in memory would stay empty.")
        if runs is not None and path is None:
            raise Error("Only a store has runs: give its directory, too.")
        self.default_graph: DefaultGraphs = default_graph or "strict"
        self.epoch = 0
        self.dictionary = Dictionary()
        self._views = Views()
        self._quads = Quads()
        self.terms = Terms(self.dictionary)
        self.read_only = read_only
        # A reader evaluates no delta rules: its contents come from the store, and need no quads in memory.
        self._keeper = Keeper(Quads() if read_only else self._quads, self.terms)
        self._readers: dict[Content, list[View]] = {}
        self._later: dict[View, Deferred] = {}
        self._assertions = Assertions()
        self._feeds = Feeds(self._reported, self._removed, self._remember)
        self._feeds.watching = watch
        self._linked: list[Linked] = []
        self._lock = threading.RLock()
        self._advanced = threading.Condition(self._lock)
        self._closed = False
        self._batches: set[tuple[str, int]] = set()
        self._settled_rows = 0
        self._spark = spark
        self._persistence: Persistence | None = None
        self._exported: Exported | None = None
        self._strategies = Strategies(self._keeper)
        if find_spec("pyspark") is not None:
            self._strategies.carrier = self._carrier
        if path is not None:
            # Not imported before it is needed: it takes a while.
            from sparqlive.persistence import Persistence, Retention

            retention = Retention(history_epochs, history_seconds)
            store = Persistence(
                _local(path),
                self._quads,
                self.dictionary,
                self._lock,
                retention,
                durability,
                sync_milliseconds,
                read_only,
                runs,
            )
            try:
                self._open_store(store, default_graph, retain)
            except BaseException:
                store.close()
                raise

    def _open_store(self, store: Persistence, default_graph: DefaultGraphs | None, retain: str) -> None:
        """What is there: quads, terms, and views with their rows, which are not computed again."""
        self.default_graph = store.default_graph(default_graph)
        store.load_quads()
        self.epoch = store.epoch
        for listed in _readable(store.views()):
            self._open_view(store, *listed)
        if retain == "all":
            self._quads.warm_all()
        if self.read_only:
            self._persistence = store
            store.follow(self._follow)
            return
        stored = [Source.from_note(self._feeds, note) for note in store.sources_noted()]
        for source in stored:
            self._assertions.add(source.name, store.rows(f"source/{source.name}"))
        self._assertions.load_local(store.rows("sources/local"))
        self._persistence = store
        for source in stored:
            self._feeds.start(source, watcher(source.kind, source.address, source.options))

    def _open_view(
        self, store: Persistence, name: str, text: str, base: str | None, since: int, refresh: str
    ) -> None:
        parsed, plan = self._plan(text, base, volatile=False)
        deferred = self._deferred(name, _refresh_of(refresh), since)
        if deferred is not None:
            store.deferred(name, deferred)
        keep = self._keeper.keep if deferred is None else deferred.keep
        if deferred is not None and self.read_only:
            keep = deferred.keeper.keep
        content = keep(rewrite(kept_of(plan)), store.saved)
        view = self._add_view(name, text, parsed, plan, content, deferred)
        view.since = since
        if not store.has(content):
            if self.read_only:
                view.failure = f"View {name!r} is not kept at present: the store's writer computes it anew."
            else:
                view.since = store.save(name, content, view.epoch)

    def _follow(self) -> None:
        """The store's writer has committed something: the session goes on to the store's last epoch."""
        with self._advanced:
            store = self._persistence
            if self._closed or store is None:
                return
            at = {view: view.epoch for view in self._views.by_name.values()}
            listed = {view[0]: view for view in store.views()}
            self.epoch = store.advance()
            now = {view[0]: view for view in store.views()}
            for name in [name for name, view in listed.items() if now.get(name) != view]:
                gone = self._views.by_name.pop(name)
                self._release(gone)
                gone.failure = f"View {name!r} was dropped or replaced by the store's writer."
            stale = [view for view in self._views.by_name.values() if store.changed(view.content, at[view])]
            for view in stale:
                self._release_content(view)
            for view in stale:
                keeper = self._keeper if view.deferred is None else view.deferred.keeper
                view.content = keeper.keep(rewrite(kept_of(view.plan)), store.saved)
                self._readers.setdefault(view.content, []).append(view)
            for entry in _readable(now.values()):
                if entry[0] not in self._views.by_name:
                    self._open_view(store, *entry)
            for view, deferred in self._later.items():
                store.deferred(view.name, deferred)
            for view in self._views.by_name.values():
                view.moved()
            self._advanced.notify_all()

    # Data

    def load(
        self,
        source: str | os.PathLike[str] | Iterable[Any],
        graph: str | NamedNode | None = None,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        batch: tuple[str, int] | None = None,
    ) -> Epoch:
        """Adds a file, files, a glob, or given quads, as one epoch.

        Triples, and quads of the unnamed graph, go into `graph` if one is named. Large files go into an empty
        store by Spark; there, `on_error="skip"` leaves malformed lines out and keeps them in a file.
        `batch` as in `apply`.
        """
        name = NamedNode(graph) if isinstance(graph, str) else graph
        paths = paths_of(source)
        if paths and self._ingests(paths, on_error):
            return self._ingest(paths, name, on_error, batch)
        if on_error != "fail":
            raise Unsupported('on_error="skip" needs files, Spark, and a store without quads and views.')
        with _collector_paused():
            if batch is not None and self._known_batch(batch):
                return self._unchanged()
            epoch = self._epoch((), list(read_source(source, name)), "auto", batch)
        self._settle()
        return epoch

    def apply(
        self,
        insert: Changes = (),
        delete: Changes = (),
        *,
        strategy: Strategy = "auto",
        batch: tuple[str, int] | None = None,
    ) -> Epoch:
        """Applies one batch: deletes first, then inserts. Quads, triples, or N-Quads text.

        A batch that changes nothing makes no new epoch. `strategy` forces how it is carried to the views:
        "live", "spark" or "rebuild". `batch` names a batch of a stream by source and number: one that was
        committed before changes nothing.
        """
        self._check_strategy(strategy)
        return self._epoch(changes_of(delete), changes_of(insert), strategy, batch)

    def update(self, text: str, *, base: str | None = None, strategy: Strategy = "auto") -> Epoch:
        """Carries out a SPARQL Update request, all its operations as one epoch, or nothing of it.

        Each operation sees what the ones before it did. `strategy` as in `apply`.
        """
        self._check_strategy(strategy)
        operations = parse_update(text, base)
        with self._lock, _collector_paused():
            self.ensure_open()
            wanted = wanted_by(operations, self._quads, self.terms, self._translated)
            return self._commit(*wanted, strategy)

    def _check_strategy(self, strategy: Strategy) -> None:
        if strategy not in ("auto", "live", "spark", "rebuild"):
            raise Error(f'A strategy is "auto", "live", "spark" or "rebuild", not {strategy!r}.')
        if strategy == "spark" and self._strategies.carrier is None:
            raise Unsupported("Spark is not installed: install sparqlive with the extra [spark].")

    def _ingests(self, paths: Sequence[str], on_error: str) -> bool:
        """Whether Spark is to read the files: it starts in seconds, and pays for hundreds of megabytes."""
        if self._persistence is None or self._strategies.carrier is None:
            return False
        if self._readers or not self._quads.is_blank():
            return False
        return on_error == "skip" or self._spark is not None or size_of(paths) > INGEST_BYTES

    def _ingest(
        self, paths: Sequence[str], graph: NamedNode | None, on_error: str, batch: tuple[str, int] | None
    ) -> Epoch:
        with self._lock, _collector_paused():
            self.ensure_open()
            assert self._persistence is not None
            if batch is not None and self._known_batch(batch):
                return self._unchanged()
            name, number = None if graph is None else graph.value, self.epoch + 1
            made = self._persistence.ingest(self._spark_session(), paths, name, on_error, number, batch)
            self._persistence.load_quads()
            self.epoch += 1
            self._advanced.notify_all()
            deltas = Deltas(self.epoch, {}, self._views)
            return Epoch(self.epoch, made.quads, 0, 0, deltas, "spark", rejected=made.rejected)

    # Sources

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources by name; read only, as the process that writes the store last noted them."""
        if self.read_only and self._persistence is not None:
            noted = [Source.from_note(self._feeds, note) for note in self._persistence.sources_noted()]
            return {source.name: source for source in noted}
        return self._feeds.by_name

    def source(self, kind: str, address: str, *, name: str | None = None, **options: Any) -> Source:
        """Adds something that changes come from, and watches it from now on.

        Its triples form a graph of their own, named by the source; quads keep their graphs. `name` is the
        address unless given. The same source again gives the one that is there.
        """
        address = address_of(kind, address)
        made = Source(self._feeds, name or address, kind, address, options)
        watching = watcher(kind, address, options)
        with self._lock:
            self.ensure_open()
            known = self._feeds.by_name.get(made.name)
            if known is not None and known.settings() == made.settings():
                return known
            if known is not None:
                raise Error(f"A source named {made.name!r} is there with other settings: remove it first.")
            self._assertions.add(made.name, {})
            self._commit({}, 0, "auto", notes={f"source/{made.name}": made.note()})
            self._feeds.start(made, watching)
        return made

    def sources_from(self, view: str, variable: str, kind: str = "web", **options: Any) -> Linked:
        """From now on each IRI that a variable of a view has is a source, for as long as it has it.

        IRIs that cannot be one are in `refused` of what is returned, with the reason.
        """
        followed = self._views[view]
        if variable not in followed.variables:
            raise Error(f"The view {view!r} has no variable {variable!r}.")
        linked = Linked(
            followed,
            variable,
            lambda iri: address_of(kind, iri),
            lambda address: self.source(kind, address, **options),
            self._feeds.by_name.__contains__,
        )
        self._linked.append(linked)
        return linked

    def observe_sources(self, observer: Callable[[Source, Epoch, float], None]) -> None:
        """From now on an observer hears of each epoch that a source made, and how many seconds it took."""
        self._feeds.observer = observer

    def _reported(self, source: Source, outcome: SourceContent | SourceChanges) -> Epoch | None:
        """A report of a source becomes an epoch; what it has already is no change."""
        with self._lock:
            if self._closed or source.removed:
                return None
            wanted: dict[QuadIds, int] = {}
            if isinstance(outcome, SourceContent):
                old = set(self._decoded(self._assertions.quads(source.name)))
                new = set(matched(old, source.placed(outcome.quads)))
                given = self._want(wanted, old - new, -1) + self._want(wanted, new - old, 1)
            else:
                given = self._want(wanted, source.placed(outcome.delete), -1)
                given += self._want(wanted, source.placed(outcome.insert), 1)
            state = {
                "quads": self._assertions.count_after(source.name, wanted),
                "version": outcome.version,
                "last_seen": time.time(),
                "stale_since": None,
                "error": None,
            }
            notes = {f"source/{source.name}": source.note(**state)}
            epoch = self._commit(wanted, given, "auto", source=source, notes=notes)
            source.seen(state)
            return epoch if epoch.inserted or epoch.deleted else None

    def _remember(self, source: Source) -> None:
        with self._lock:
            if not self._closed and not source.removed:
                self._record(None, {f"source/{source.name}": source.note()})

    def _removed(self, source: Source) -> None:
        """All that a source asserts leaves in one epoch."""
        with self._lock:
            wanted = dict.fromkeys(self._assertions.quads(source.name), -1)
            self._commit(wanted, len(wanted), "auto", source=source, notes={f"source/{source.name}": ""})
            self._assertions.forget(source.name)

    def quads(self) -> Iterator[Quad]:
        """The quads of the current epoch."""
        with self.reading():
            self.ensure_open()
            current = list(self._quads)
        yield from self._decoded(current)

    def _decoded(self, quads: Iterable[tuple[int, int, int, int]]) -> Iterator[Quad]:
        term = self.dictionary.term
        for subject, predicate, object_, graph in quads:
            name: Any = DefaultGraph() if graph == DEFAULT_GRAPH else term(graph)
            yield Quad(term(subject), term(predicate), term(object_), name)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """The number of quads."""
        return self._quads.size

    # Views and queries

    @property
    def views(self) -> Mapping[str, View]:
        """The views by name."""
        return self._views

    def view(
        self,
        name: str,
        query: str,
        *,
        base: str | None = None,
        replace: bool = False,
        refresh: Refresh = "immediate",
        strategy: Strategy = "auto",
    ) -> View:
        """Registers a query and computes it; from now on it is kept.

        The same name with the same query gives the view that is there; with another query it is an error,
        unless `replace` is set. `refresh`: "immediate" follows every epoch; a number of seconds, within which
        changes are gathered and carried together; "manual", when `view.refresh()` is called. The view says
        which epoch it stands for (`view.epoch`). `strategy="spark"` computes it on Spark, which is also
        chosen for large data where Spark is running.
        """
        if not isinstance(name, str) or not name:
            raise Error("A view needs a name: a string that is not empty.")
        check_refresh(refresh)
        with self._lock:
            self.ensure_open()
            parsed, plan = self._plan(query, base, volatile=False, name=name)
            known = self._views.by_name.get(name)
            same = known is not None and known.query == parsed and known.refresh_setting == refresh
            if known is not None and same and known.failure is None:
                return known
            if known is not None and not same and not replace:
                raise ViewExists(
                    f"A view named {name!r} is there with another query, or another refresh setting. "
                    f"Choose another name, drop it first, or pass replace=True."
                )
            if known is not None and not same:
                self._check_not_read(name)
            deferred = self._deferred(name, refresh, self.epoch)
            keeper = self._keeper if deferred is None else deferred.keeper
            kept = rewrite(kept_of(plan))
            content = keeper.keep(kept, self._first(strategy, kept))
            try:
                if self._persistence is not None:
                    before = known if known is not None and known.failure is None else None
                    replaced = None if before is None else before.content
                    self._persistence.keep(name, query, base, refresh, content, self.epoch, replaced)
            except BaseException:
                keeper.release(content)
                raise
            if known is not None:
                self._release(known)
            view = self._add_view(name, query, parsed, plan, content, deferred)
            self._settle()
            return view

    def _first(self, strategy: Strategy, plan: Operator) -> Saved | None:
        """How a view is computed for the first time: on Spark, or (None) in process."""
        large = self._quads.size > SPARK_QUADS and self._strategies.spark_started
        if strategy == "spark" or (strategy == "auto" and large and _on_spark(plan)):
            carrier = self._spark_carrier()
            return lambda _, plan: carrier.contents([plan], (), ())[0]
        return None

    def _spark_carrier(self) -> Carrier:
        if self._strategies.carrier is None:
            raise Unsupported("Spark is not installed: install sparqlive with the extra [spark].")
        return self._strategies.carrier()

    def _deferred(self, name: str, refresh: Refresh, epoch: int) -> Deferred | None:
        """What a view needs that is refreshed later than at once."""
        if refresh == "immediate":
            return None
        deferred = Deferred(name, refresh, epoch, Quads() if self.read_only else self._quads, self.terms)
        if self._strategies.carrier is not None:
            deferred.strategies.carrier = lambda: self._carrier(deferred.undone())
        return deferred

    def _add_view(
        self, name: str, text: str, query: Query, plan: Operator, content: Content, deferred: Deferred | None
    ) -> View:
        view = View(self, name, text, query, plan, content, deferred)
        self._views.by_name[name] = view
        self._readers.setdefault(content, []).append(view)
        if deferred is not None:
            self._later[view] = deferred
            if not self.read_only:
                deferred.start(partial(self._refresh_due, view))
        return view

    def drop(self, name: str) -> None:
        """Forgets a view."""
        with self._lock:
            self.ensure_open()
            view = self._views[name]
            self._check_not_read(name)
            if self._persistence is not None:
                self._persistence.drop(name, view.content, self.epoch)
            del self._views.by_name[name]
            self._release(view)

    def _release(self, view: View) -> None:
        if self._release_content(view) and view.deferred is not None:
            self._later.pop(view).stop()

    def _release_content(self, view: View) -> bool:
        """Gives back what a view reads; whether that was not done before."""
        readers = self._readers.get(view.content, [])
        if view not in readers:
            return False
        readers.remove(view)
        if not readers:
            del self._readers[view.content]
        keeper = self._keeper if view.deferred is None else view.deferred.keeper
        keeper.release(view.content)
        return True

    def query(self, query: str, *, base: str | None = None, timeout_seconds: float | None = None) -> Answer:
        """Evaluates a query once, on the current epoch."""
        parsed, plan = self._plan(query, base, volatile=True)
        with self._lock, deadline(timeout_seconds):
            self.ensure_open()
            rows = compute_once(kept_of(plan), self._quads, self.terms)
            return Answer(parsed, plan, rows, self.terms)

    def _plan(
        self, text: str, base: str | None, volatile: bool, name: str | None = None
    ) -> tuple[Query, Operator]:
        """The plan of a query, which is to be the view `name`."""
        parsed = parse_query(text, base)
        check_functions(parsed, volatile)
        if name is not None:
            self._check_no_cycle(name, views_read(parsed), ())
        if volatile:
            parsed = fixed(parsed)
        return parsed, self._translated(parsed)

    def _translated(self, query: Query) -> Operator:
        plan = translate(query, self.default_graph == "union")
        return unfold(plan, self._graph_of) if views_read(query) else plan

    def _graph_of(self, name: str) -> Operator:
        """The plan of the graph of a view, for a query that reads `GRAPH <view:name>`."""
        view = self._views[name]
        if view.form not in GRAPH_FORMS:
            raise Error(
                f"View {name!r} is no graph: only views of CONSTRUCT and DESCRIBE can be read as "
                f"<view:{name}>, and it is one of {view.form}."
            )
        return view.plan

    def _check_no_cycle(self, name: str, read: Sequence[str], way: tuple[str, ...]) -> None:
        for other in read:
            if other == name:
                through = f", by way of {', '.join(map(repr, way))}" if way else ""
                raise Unsupported(
                    f"View {name!r} would read its own graph{through}: a view that depends on itself cannot "
                    f"be kept."
                )
            if other in self._views.by_name:
                self._check_no_cycle(name, views_read(self._views[other].query), (*way, other))

    def _check_not_read(self, name: str) -> None:
        readers = [view.name for view in self._views.values() if name in views_read(view.query)]
        if readers:
            raise Error(
                f"View {name!r} is read by view {readers[0]!r} as <view:{name}>: drop that one first, and "
                f"register it again afterwards."
            )

    def check(self) -> None:
        """Recomputes every view from scratch, by other code than keeps it, and compares.

        Raises CheckFailed with the view and the rows that differ.
        """
        with self._lock:
            self.ensure_open()
            current = Reference(self.quads())
            self._quads.check()
            for view in self._views.by_name.values():
                if view.failure is None:
                    reference = current if view.epoch == self.epoch else Reference(self._quads_of(view))
                    _compare(view, reference.content(view.plan).weights)
                    if isinstance(view.plan, Listing):
                        _compare_order(view, reference.listed(view.plan))

    def _quads_of(self, view: View) -> Iterator[Quad]:
        """The quads that a view stands for which is refreshed later."""
        assert view.deferred is not None
        unseen = view.deferred.gathered
        return self._decoded(
            [quad for quad in self._quads if quad not in unseen]
            + [quad for quad, weight in unseen.items() if weight < 0]
        )

    def repair(self) -> list[str]:
        """Looks at every file of the store, and computes anew the views whose files are damaged or missing.

        Gives their names. Quads and terms cannot be computed: an error names their damaged file.
        """
        with self._lock:
            self.ensure_open()
            if self._persistence is None:
                return []
            damaged = self._persistence.damaged()
            stale = [
                view
                for view in self._views.by_name.values()
                if view.failure is None and self._persistence.reads(view.content, damaged)
            ]
            for view in stale:
                self._release_content(view)
            for view in stale:
                keep = self._keeper.keep if view.deferred is None else view.deferred.keep
                view.content = keep(rewrite(kept_of(view.plan)), None)
                self._readers.setdefault(view.content, []).append(view)
            for view in stale:
                view.since = self._persistence.save(view.name, view.content, view.epoch, damaged)
            return [view.name for view in stale]

    # Epochs

    def _epoch(
        self,
        deletes: Iterable[Quad],
        inserts: Iterable[Quad],
        strategy: Strategy = "auto",
        batch: tuple[str, int] | None = None,
    ) -> Epoch:
        with self._lock:
            self.ensure_open()
            if batch is not None and self._known_batch(batch):
                return self._unchanged()
            wanted: dict[QuadIds, int] = {}
            given = self._want(wanted, deletes, -1) + self._want(wanted, inserts, 1)
            return self._commit(wanted, given, strategy, batch)

    def _commit(
        self,
        wanted: Mapping[QuadIds, int],
        given: int,
        strategy: Strategy,
        batch: tuple[str, int] | None = None,
        source: Source | None = None,
        notes: Mapping[str, str] = _NO_NOTES,
    ) -> Epoch:
        """An epoch of what changes something: the last word on a quad wins, the graph is a set.

        With a source, `wanted` is what it asserts from now on (+1) and no longer (-1). `notes` are kept with
        the epoch.
        """
        if source is not None or self._assertions:
            name = None if source is None else source.name
            wanted = self._assertions.resolve(name, wanted, self._quads.has)
        changes = self._quads.effective(wanted)
        ignored = given - len(changes)
        if not changes and not self._assertions.staged():
            self._record(batch, notes)
            return self._unchanged(ignored)
        with _collector_paused():
            try:
                return self._carry(changes, ignored, strategy, batch, notes)
            except BaseException:
                self._assertions.rollback()
                raise

    def _unchanged(self, ignored: int = 0) -> Epoch:
        return Epoch(self.epoch, 0, 0, ignored, Deltas(self.epoch, {}, self._views))

    def _known_batch(self, batch: tuple[str, int]) -> bool:
        if self._persistence is not None:
            return self._persistence.batch_epoch(batch) is not None
        return batch in self._batches

    def _record(self, batch: tuple[str, int] | None, notes: Mapping[str, str]) -> None:
        """What is to be remembered of a batch or a report that changed nothing."""
        if self._persistence is not None and (batch is not None or notes):
            self._persistence.record(batch, self.epoch, notes)
        elif batch is not None:
            self._batches.add(batch)

    def _want(self, wanted: dict[QuadIds, int], quads: Iterable[Any], weight: int) -> int:
        """Encodes quads; how many there were."""
        ids, id_of = self.dictionary.ids, self.dictionary.id_of
        given = 0
        for quad in quads:
            given += 1
            if type(quad) is Quad:
                subject, predicate, object_, graph = quad
                try:
                    wanted[ids[subject], ids[predicate], ids[object_], ids[graph]] = weight
                    continue
                except KeyError:  # a term that is new, or out of the cache
                    pass
            if type(quad) is not Quad or type(quad.object) is Triple:
                subject, predicate, object_, graph = check_quad(quad, None)
            wanted[id_of(subject), id_of(predicate), id_of(object_), id_of(graph)] = weight
            ids = self.dictionary.ids
        return given

    def _carry(
        self,
        changes: Sequence[Change],
        ignored: int,
        strategy: Strategy,
        batch: tuple[str, int] | None,
        notes: Mapping[str, str],
    ) -> Epoch:
        number = self.epoch + 1
        if not self._readers:
            self._save(number, changes, batch, notes)
            self._quads.add(changes)
            return self._made(number, changes, ignored, {})
        failed: dict[Content, Exception] = {}
        self._strategies.choices = {}
        self._quads.stage(changes)
        try:
            results = self._keeper.carry(
                failed.__setitem__,
                lambda maintained, inputs: self._strategies.carry(maintained, inputs, changes, strategy),
            )
            self._save(number, changes, batch, notes, failed)
        except BaseException:
            self._keeper.rollback()
            self._quads.rollback()
            raise
        changed = {
            view.name: delta
            for content, rows in results.items()
            if rows
            for view in self._readers.get(content, ())
            if (delta := view.record(number, rows))
        }
        self._keeper.commit()
        self._quads.commit()
        self._mark_failed(failed, number)
        return self._made(number, changes, ignored, changed)

    def _mark_failed(self, failed: Mapping[Content, Exception], epoch: int) -> None:
        """A view that fails is marked, and does not block the epoch."""
        for content, error in failed.items():
            for view in list(self._readers.get(content, ())):
                view.failure = (
                    f"View {view.name!r} stopped at epoch {epoch}: {type(error).__name__}: {error}. "
                    f"Register it again to compute it anew."
                )
                self._release(view)

    def _save(
        self,
        number: int,
        changes: Sequence[Change],
        batch: tuple[str, int] | None,
        notes: Mapping[str, str],
        failed: Iterable[Content] = (),
    ) -> None:
        """Makes the epoch under way durable, before anybody sees it."""
        if self._persistence is not None:
            note = {m.key: asdict(choice) for m, choice in self._strategies.choices.items()}
            deltas = self._keeper.staged() if self._readers else {}
            for deferred in self._later.values():
                deltas[deferred.relation] = (4, {change[:4]: change[4] for change in changes})
            deltas.update(self._assertions.staged())
            strategy = self._strategies.summary()
            self._persistence.commit(number, changes, deltas, strategy, note, batch, notes, failed)
        elif batch is not None:
            self._batches.add(batch)

    def refresh(self, view: View) -> Delta:
        """Brings a view that is refreshed later to the current epoch; see `View.refresh`."""
        with self._advanced, _collector_paused():
            deferred = view.deferred
            if deferred is None or view.failure is not None or self._closed:
                return view.no_change(view.epoch)
            deferred.stop()
            if not deferred.gathered:
                return view.no_change(view.epoch)
            deferred.strategies.spark_started = self._strategies.spark_started
            failed: dict[Content, Exception] = {}
            with deferred.carried(self.epoch, failed.__setitem__) as changed:
                if self._persistence is not None:
                    self._persistence.refresh(view.name, deferred, self.epoch, failed)
            for choice in deferred.strategies.choices.values():
                view.choice = (self.epoch, choice)
            rows = changed.get(view.content)
            delta = view.record(self.epoch, rows) if rows else view.no_change(self.epoch)
            self._mark_failed(failed, self.epoch)
            self._advanced.notify_all()
            return delta

    def _refresh_due(self, view: View) -> None:
        """A view's seconds are over. What it could not be brought to now, it is later."""
        try:
            self.refresh(view)
        except Exception:
            if view.deferred is not None and not self._closed:
                view.deferred.start(partial(self._refresh_due, view))
            raise

    def _carrier(self, undone: Sequence[Change] = ()) -> Carrier:
        """Spark, on the quads and terms as they were before the epoch under way.

        `undone` are changes that lead from the last epoch to the one a view stands for.
        """
        from sparqlive.persistence import Exported
        from sparqlive.spark.carry import Carrier

        spark = self._spark_session()
        if self._persistence is not None:
            sources = self._persistence.sources()
        else:
            if self._exported is None:
                self._exported = Exported(self._quads, self.dictionary)
            sources = self._exported.sources()
        if undone:
            sources = replace(sources, log=np.concatenate([sources.log, np.array(undone, dtype=np.int64)]))
        dictionary = self.dictionary
        return Carrier(spark, sources, dictionary.id_of, dictionary.exceptions, dictionary.enter)

    def _spark_session(self) -> Any:
        """The Spark session that was given, or one that is started now and shared by all in this process."""
        if self._spark is None or isinstance(self._spark, str):
            from sparqlive.spark.spark_session import start_session

            self._spark = start_session(self._spark or "local[*]")
        self._strategies.spark_started = True
        return self._spark

    def compact(self) -> None:
        """Writes the store's log and deltas into new runs."""
        self.ensure_open()
        if self._persistence is not None:
            self._persistence.compact()  # takes the lock where it needs it

    def _made(
        self, number: int, changes: Sequence[Change], ignored: int, changed: Mapping[str, Delta]
    ) -> Epoch:
        """The session is at the new epoch."""
        self.epoch = number
        self._assertions.commit()
        if self._exported is not None:
            self._exported.add(changes)
        for view, deferred in self._later.items():
            deferred.gather(changes, number)
            deferred.start(partial(self._refresh_due, view))
        self._advanced.notify_all()
        inserted = sum(change[4] > 0 for change in changes)
        deltas = Deltas(number, changed, self._views)
        strategy, choices = self._strategies.summary(), dict(self._choices())
        for name, choice in choices.items():
            self._views[name].choice = (number, choice)
        return Epoch(number, inserted, len(changes) - inserted, ignored, deltas, strategy, choices)

    def _choices(self) -> Iterator[tuple[str, Choice]]:
        """How each view was carried, where there was something to choose."""
        if self._strategies.choices:
            for content, views in self._readers.items():
                for maintained in content.carried_by():
                    if maintained in self._strategies.choices:
                        yield from ((view.name, self._strategies.choices[maintained]) for view in views)

    def _settle(self) -> None:
        """After a large load or view: what is there now is left out of later garbage collections.

        A full collection looks at every object of the process, and would stop a stream of changes for tens
        of milliseconds. Closing the session takes this back.
        """
        if self._quads.size > SETTLE_ROWS:
            doubled = self._quads.size > 2 * self._settled_rows
            gc.collect(2 if doubled else 1)
            gc.freeze()
            if doubled:
                self._settled_rows = self._quads.size

    # Reading and closing

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever is read inside belongs to one epoch."""
        with self._lock:
            yield

    def history_start(self) -> int | None:
        """The store keeps the deltas after this epoch; None without a store."""
        return None if self._persistence is None else self._persistence.history_start()

    def history(self, content: Content, since: int, until: int) -> Iterator[tuple[int, Mapping[Row, int]]]:
        """The deltas of a content after an epoch and up to another, from the store."""
        if self._persistence is not None and since < until:
            yield from self._persistence.history(content, since, until)

    def wait_beyond(self, view: View, epoch: int) -> bool:
        """Waits until a view stands for a later epoch; False when the session is closed."""
        with self._advanced:
            self._advanced.wait_for(lambda: self._closed or view.epoch > epoch)
            return not self._closed

    def ensure_open(self) -> None:
        if self._closed:
            raise Closed("The session is closed: open a new one.")

    def close(self) -> None:
        """Ends the session; closing twice is no error."""
        self._feeds.stop()
        with self._advanced:
            for deferred in self._later.values():
                deferred.stop()
            held = () if self._closed else (self._persistence, self._exported)
            if self._settled_rows:
                gc.unfreeze()
                self._settled_rows = 0
            self._closed = True
            self._advanced.notify_all()
        for store in held:  # without the lock, which a compaction under way may need
            if store is not None:
                store.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refresh_of(text: str) -> Refresh:
    """A refresh setting as a store keeps it."""
    return text if text in ("immediate", "manual") else float(text)  # type: ignore[return-value]


def _readable(entries: Iterable[tuple[str, str, str | None, int, Any]]) -> Iterator[Any]:
    """The views of a store, those that others read before their readers."""
    waiting = {entry[0]: (entry, views_read(parse_query(entry[1], entry[2]))) for entry in entries}
    while waiting:
        ready = [name for name, (_, read) in waiting.items() if not any(other in waiting for other in read)]
        yield from (waiting.pop(name)[0] for name in ready)


def _local(path: str | os.PathLike[str]) -> Path:
    """The directory of a store; the catalog needs a local disk."""
    text = os.fspath(path)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Path(text)
    if scheme == "file":
        return Path(url2pathname(rest))
    raise Unsupported(
        f"A store cannot be at {text}: its catalog needs a local disk. "
        f"Give a local directory, and this address as runs=: docs/CLUSTER.md says more."
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection inside: one over large views would stop an epoch for milliseconds."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _compare(view: View, expected: Mapping[Any, int]) -> None:
    weights = view.weights()
    if weights == expected:
        return
    rows = [row for row in {*weights, *expected} if weights.get(row, 0) != expected.get(row, 0)]
    shown = "; ".join(
        f"({', '.join('UNDEF' if term is None else str(term) for term in row)}) "
        f"is there {weights.get(row, 0)} times, should be {expected.get(row, 0)}"
        for row in rows[:5]
    )
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise CheckFailed(
        f"View {view.name!r} differs from its recomputation in {len(rows)} rows: {shown}{more}."
    )


def _compare_order(view: View, expected: Sequence[TermRow]) -> None:
    listed = [tuple(solution.get(name) for name in view.variables) for solution in view.solutions()]
    for place, (row, other) in enumerate(zip(listed, expected, strict=True), 1):
        if row != other:
            shown = [", ".join("UNDEF" if term is None else str(term) for term in r) for r in (row, other)]
            raise CheckFailed(
                f"View {view.name!r} is listed in another order than its recomputation: "
                f"its solution {place} is ({shown[0]}), should be ({shown[1]})."
            )


def _on_spark(plan: Operator) -> bool:
    from sparqlive.spark.evaluate import uncovered

    return uncovered(plan) is None
