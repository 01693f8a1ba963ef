"""The session: RDF data, and views over it. The public Python API.

Owns what may be asked, and of whom: `engine/writer.py` writes, `engine/register.py` registers views,
`engine/once.py` answers queries, `engine/check.py` recomputes, `sources/watching.py` watches sources. A batch
is read and checked whole before the first of them hears of it.
Refuses arguments that mean nothing. Invariant: whatever a method reads or writes belongs to one epoch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote
from urllib.request import url2pathname
from uuid import uuid4

from pyoxigraph import DefaultGraph, NamedNode, Quad

from sparqlive.engine.carry import STRATEGIES, BulkChoice, Strategy
from sparqlive.engine.check import check
from sparqlive.engine.collector import collector_paused
from sparqlive.engine.deferred import Refresh
from sparqlive.engine.limits import Limits
from sparqlive.engine.once import query_once
from sparqlive.engine.register import Registration
from sparqlive.engine.results import Answer
from sparqlive.engine.updates import check_size, documents_of, on_dataset, wanted_by
from sparqlive.engine.view import Epoch, View
from sparqlive.engine.writer import Epochs
from sparqlive.errors import Error, Unsupported
from sparqlive.live.terms import Terms
from sparqlive.numbers import seconds, shown, whole
from sparqlive.plan.checks import within_reach
from sparqlive.plan.explain import Explained
from sparqlive.rdf.columns import encoded_text
from sparqlive.rdf.compare import matched
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF, Dictionary
from sparqlive.rdf.read import changes_of, paths_of, read_source, size_of
from sparqlive.sources.from_views import Linked, Links
from sparqlive.sources.links.follow import Follow
from sparqlive.sources.links.traversal import Traversal
from sparqlive.sources.watcher import address_of, stored_watcher, watcher, whole_path
from sparqlive.sources.watching import Feeds, Source
from sparqlive.sparql.algebra import Dataset
from sparqlive.sparql.deadline import within
from sparqlive.sparql.syntax import parse_update

Changes = str | Iterable[Any]
DefaultGraphs = Literal["strict", "union"]
# Spark reads files from this size on.
INGEST_BYTES = 20_000_000
COLUMN_BYTES = 200_000
"""Files and texts of this size are read by columns."""
# How long deltas are kept, unless it is said otherwise.
HISTORY_EPOCHS = 10_000
HISTORY_SECONDS = 7 * 86_400.0
_MOST_SYNC_MILLISECONDS = 3_600_000
# Percent-encoded, a name is a part of an address by which an agent is asked to remove the source.
_SOURCE_NAME_BYTES = 60_000

if TYPE_CHECKING:
    from sparqlive.engine.persistence import Persistence


class Session:
    """RDF data, and the views over it."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        spark: Any = None,
        bulk: BulkChoice = "auto",
        default_graph: DefaultGraphs | None = None,
        durability: Literal["epoch", "relaxed"] = "epoch",
        sync_milliseconds: int = 100,
        retain: Literal["relevant", "all"] = "relevant",
        history_epochs: int = HISTORY_EPOCHS,
        history_seconds: float | None = HISTORY_SECONDS,
        read_only: bool = False,
        watch: bool = True,
        runs: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Opens a session: on the store in a directory, which is made if it is not there; or in memory.

        `spark`: a Spark session or a master's URL; else a local one is started when first needed.
        `bulk`: what carries large batches and computes large views: "duckdb", "spark", or the cheaper one.
        `default_graph="union"`: a query's default graph is the union of the unnamed graph and all named ones;
        "strict" (the default): the unnamed one alone. A store keeps to what it was made with.
        `durability="epoch"`: an epoch is on the disk before `apply` returns; "relaxed": within
        `sync_milliseconds`, so that a failure of the machine can lose the last epochs, whole ones.
        `retain="relevant"`: of a store's quads, those that views read are held in memory; "all": all.
        Deltas are kept for the last `history_epochs` epochs, and no longer than `history_seconds`.
        `read_only=True`: follows the epochs of the process that writes the store, and changes nothing.
        `watch=False`: sources are listed, added and removed, but not looked at.
        `runs`: a directory or URI (file, hdfs, s3a) for a new store's runs, which the workers of a cluster
        reach; the catalog stays in the store's directory. A store keeps to what it was made with.
        `progress`: hears, while a store is opened, how many of how many views are there.
        """
        if default_graph not in (None, "strict", "union"):
            raise Error(f'default_graph is "strict" or "union", not {default_graph!r}.')
        if bulk not in get_args(BulkChoice):
            raise Error(f'bulk is "auto", "duckdb" or "spark", not {bulk!r}.')
        if durability not in ("epoch", "relaxed"):
            raise Error(f'durability is "epoch" or "relaxed", not {durability!r}.')
        if retain not in ("relevant", "all"):
            raise Error(f'retain is "relevant" or "all", not {retain!r}.')
        whole("sync_milliseconds", sync_milliseconds, least=1, most=_MOST_SYNC_MILLISECONDS)
        whole("history_epochs", history_epochs)
        if history_seconds is not None:
            seconds("history_seconds", history_seconds, least=0)
        if read_only and path is None:
            raise Error("Only a store can be opened read-only: a session in memory would stay empty.")
        if runs is not None and path is None:
            raise Error("Only a store has runs: give its directory, too.")
        self.default_graph: DefaultGraphs = default_graph or "strict"
        self.read_only = read_only
        self.dictionary = Dictionary()
        self.terms = Terms(self.dictionary)
        self._epochs = Epochs(self.terms, spark, bulk, read_only)
        self._feeds = Feeds(self._epochs, watch)
        self._traversal = Traversal(self._epochs, self._feeds)
        self._links = Links(self._epochs, self._feeds)
        self.lineage = uuid4().hex
        """The name of the history that epochs count: their numbers mean the same under the same name only."""
        if path is None:
            self._registration = Registration(self._epochs, self.default_graph == "union")
            return
        # Not imported before it is needed: it takes a while.
        from sparqlive.engine.persistence import Persistence, Retention

        retention = Retention(history_epochs, history_seconds)
        store = Persistence(
            _local(path),
            self._epochs.quads,
            self.dictionary,
            self._epochs.lock,
            retention,
            durability,
            sync_milliseconds,
            read_only,
            runs,
        )
        try:
            self._open_store(store, default_graph, retain, progress or (lambda done, of: None))
            if durability == "epoch":  # else an epoch that was seen may be lost, and its number given again
                self.lineage = store.lineage() or self.lineage
        except BaseException:
            store.close()
            raise

    def _open_store(
        self,
        store: Persistence,
        default_graph: DefaultGraphs | None,
        retain: str,
        progress: Callable[[int, int], None],
    ) -> None:
        """What is there: quads, terms, and views with their rows, which are not computed again."""
        self.default_graph = store.default_graph(default_graph)
        self._registration = Registration(self._epochs, self.default_graph == "union")
        store.load_quads()
        with self._epochs.lock:
            self._epochs.moved_to(store.epoch)
        self._registration.load(store, progress)
        if retain == "all":
            self._epochs.quads.warm_all()
        if self.read_only:
            self._epochs.attach(store)
            store.follow(partial(self._registration.follow, store))
            return
        stored = [Source.from_note(self._feeds, note) for note in store.sources_noted()]
        for source in stored:
            self._epochs.assertions.add(source.name, store.rows(source.key))
        self._epochs.assertions.load_local(store.rows("sources/local"))
        self._epochs.attach(store)
        for source in stored:
            self._feeds.start(source, stored_watcher(source.kind, source.address, source.options))
        self._traversal.load(store)
        self._links.load(store)

    @property
    def epoch(self) -> int:
        """The number of the current epoch."""
        return self._epochs.epoch

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

        Triples, and quads of the unnamed graph, go into `graph` if one is named. Large files are read by
        columns; into an empty store on all cores, or on Spark if it was given. There, `on_error="skip"`
        leaves malformed lines out and keeps them in a file. `batch` as in `apply`.
        """
        _check_batch(batch)
        name = NamedNode(graph) if isinstance(graph, str) else graph
        paths = paths_of(source)
        with self._epochs.lock:  # until the files are in, no source brings quads into the empty store
            if paths and self._ingests(paths, on_error):
                return self._epochs.ingest(paths, None if name is None else name.value, on_error, batch)
        if on_error != "fail":
            raise Unsupported('on_error="skip" needs files, and a store without quads and views.')
        with collector_paused():
            if batch is not None and self._epochs.knows(batch):
                return self._epochs.unchanged()
            if paths and size_of(paths) > COLUMN_BYTES:
                from sparqlive.bulk.ingest.job import read

                exceptions = self._epochs.terms.dictionary.exceptions
                read_parts = read(paths, None if name is None else name.value, exceptions)
                epoch = self._epochs.apply_encoded((), read_parts, "auto", batch)
            else:
                epoch = self._epochs.apply((), list(read_source(source, name)), "auto", batch)
        self._epochs.settle()
        return epoch

    def _ingests(self, paths: Sequence[str], on_error: str) -> bool:
        """Whether the files go straight into runs: other processes start in a second."""
        epochs = self._epochs
        if epochs.persistence is None:
            return False
        if epochs.views.readers or not epochs.quads.is_blank():
            return False
        return on_error == "skip" or epochs.strategies.spark_was_given or size_of(paths) > INGEST_BYTES

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
        "live", "duckdb", "spark" or "rebuild". `batch` names a batch of a stream by source and number: one
        that was committed before changes nothing.
        """
        self._check_strategy(strategy)
        _check_batch(batch)
        texts = [text for text in (delete, insert) if isinstance(text, str)]
        if len(texts) == 2 - (not delete) - (not insert) and sum(map(len, texts)) > COLUMN_BYTES:
            exceptions = self._epochs.terms.dictionary.exceptions
            deletes, inserts = encoded_text(delete, exceptions), encoded_text(insert, exceptions)
            return self._epochs.apply_encoded(deletes, inserts, strategy, batch)
        return self._epochs.apply(changes_of(delete), changes_of(insert), strategy, batch)

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
        """Carries out a SPARQL Update request, all its operations as one epoch, or nothing of it.

        Each operation sees what the ones before it did. `strategy` as in `apply`. LOAD fetches documents on
        the Web, by the rules of sources; with `allow_private` from addresses that are not public too.
        `dataset` is what every WHERE clause reads; the request may then have no USING and WITH of its own.
        Reading the request, and its WHERE clauses, are stopped if they take longer than `timeout_seconds`,
        and nothing is changed. A request has a limited number of operations and of documents to LOAD.
        """
        self._check_strategy(strategy)
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)
        operations = within(timeout_seconds, lambda: parse_update(text, base), "Reading the update")
        check_size(operations)
        if dataset is not None:
            operations = on_dataset(operations, dataset)
        documents = documents_of(operations, allow_private)
        epochs = self._epochs
        with epochs.lock, collector_paused():
            epochs.ensure_open()
            translated = self._registration.translated
            held = epochs.assertions.held
            wanted = wanted_by(
                operations, epochs.quads, self.terms, translated, documents, held, timeout_seconds
            )
            return epochs.commit(*wanted, strategy)

    def _check_strategy(self, strategy: Strategy) -> None:
        if strategy not in STRATEGIES:
            raise Error(f"A strategy is one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}.")
        if strategy in ("duckdb", "spark"):
            self._epochs.strategies.ensure_available(strategy)

    def replace(self, graph: NamedNode | DefaultGraph, quads: Iterable[Quad]) -> Epoch:
        """From now on a graph has just these quads, as one epoch.

        Blank nodes of theirs that are in the graph already, up to their labels, stay as they are.
        """
        given = [Quad(subject, predicate, object_, graph) for subject, predicate, object_, _ in quads]
        epochs = self._epochs
        with epochs.lock:
            self.ensure_open()
            old, since = set(self.quads(graph)), epochs.gather()
        try:
            new = set(matched(old, given))  # without the lock: it may take a while
        except BaseException:
            with epochs.lock:
                epochs.gathered(since)
            raise
        with epochs.lock:
            changes, number = epochs.gathered(since), self.dictionary.find(graph)
            if changes is None or any(change[3] == number for change in changes):
                old = set(self.quads(graph))
                new = set(matched(old, given))
            # What a source asserts as well is local from now on too, and stays when the source goes.
            insert = new if epochs.assertions else new - old
            return epochs.apply(old - new, insert, "auto", None)

    def quads(self, graph: NamedNode | DefaultGraph | None = None) -> Iterator[Quad]:
        """The quads of the current epoch; with `graph` those of one graph."""
        with self.reading():
            self.ensure_open()
            quads = self._epochs.quads
            current = list(quads if graph is None else quads.of_graph(self.dictionary.find(graph) or UNDEF))
        yield from self.dictionary.quads(current)

    def graphs(self) -> dict[NamedNode | DefaultGraph, int]:
        """The graphs of the current epoch, each with its number of quads; the unnamed one is always there."""
        with self.reading():
            self.ensure_open()
            sizes = {DEFAULT_GRAPH: 0, **self._epochs.quads.graph_sizes()}
        term = self.dictionary.term
        return {
            DefaultGraph() if number == DEFAULT_GRAPH else term(number): size  # type: ignore[misc]
            for number, size in sizes.items()
        }

    def __len__(self) -> int:
        """The number of quads."""
        return self._epochs.quads.size

    # Sources

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources by name; read only, as the process that writes the store last noted them."""
        store = self._epochs.persistence
        if self.read_only and store is not None:
            noted = [Source.from_note(self._feeds, note) for note in store.sources_noted()]
            return {source.name: source for source in noted}
        return self._feeds.by_name

    def source(self, kind: str, address: str, *, name: str | None = None, **options: Any) -> Source:
        """Adds something that changes come from, and watches it from now on.

        Its triples form a graph of their own, named by the source; quads keep their graphs. `name` is the
        address unless given. The same source again gives the one that is there. A relative path is meant from
        the current folder, and stays that file wherever the store is opened next.
        """
        address = address_of(kind, address)
        name, address = name or address, whole_path(kind, address)
        if len(quote(name, safe="", errors="replace")) > _SOURCE_NAME_BYTES:
            raise Error(
                f"The source cannot be named {shown(name)}: a name has up to {_SOURCE_NAME_BYTES:,} bytes, "
                f"percent-encoded. Give a shorter one with name, and the address as it is."
            )
        made = Source(self._feeds, name, kind, address, options)
        return self._feeds.add(made, watcher(kind, address, options))

    def sources_from(self, view: str, variable: str, kind: str = "web", **options: Any) -> Linked:
        """From now on each IRI that a variable of a view has is a source, for as long as it has it.

        IRIs that cannot be one are in `refused` of what is returned, with the reason; its `remove()` ends it.
        A store remembers it. The same again gives the one that is there.
        """
        return self._links.add(view, variable, kind, options)

    def observe_sources(self, observer: Callable[[Source, Epoch, float], None]) -> None:
        """From now on an observer hears of each epoch that a source made, and how many seconds it took."""
        self._feeds.observe(observer)

    # Views and queries

    @property
    def views(self) -> Mapping[str, View]:
        """The views by name."""
        return self._epochs.views

    @property
    def limits(self) -> Limits:
        """What views may cost."""
        return self._epochs.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._epochs.limit(limits)

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
        """Registers a query and computes it; from now on it is kept.

        The same name with the same query gives the view that is there; with another query it is an error,
        unless `replace` is set. `refresh`: "immediate" follows every epoch; a number of seconds, within which
        changes are gathered and carried together; "manual", when `view.refresh()` is called. The view says
        which epoch it stands for (`view.epoch`). `strategy="spark"` computes it on Spark, which is also
        chosen for large data where Spark is running. `follow` (True, or a `Follow` with bounds) fetches the
        documents on the Web that describe what the query and its matches mention, and theirs in turn; the
        view changes as they come, and `view.follow` says how far it is.

        It is computed beside the epochs, which nobody holds up, and brought to the present when it is there.
        What takes longer than `timeout_seconds` is stopped, and no view then. A view that is `temporary` is
        not stored, shares nothing with others, and is ended if it makes epochs slow (`Limits`). `owner` names
        who registers it (`view.owner`); a store remembers that.
        """
        self._registration.check_name(name, temporary)
        settings = Follow.of(follow)
        if temporary and (refresh != "immediate" or strategy != "auto" or settings is not None):
            raise Error("A temporary view follows every epoch: it takes no refresh, strategy or follow.")
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)
        limit = self._epochs.limits.view_seconds if timeout_seconds is None else timeout_seconds
        computed = self._registration.computed(name, query, base, refresh, strategy, temporary, limit)
        with computed as planned, self._epochs.lock:
            self.ensure_open()
            self._traversal.check(name, query, base, settings, replace, self.default_graph == "union")
            notes = {} if settings is None else self._traversal.note(name, settings)
            view = self._registration.register(
                name, query, base, replace, refresh, strategy, owner, notes, planned
            )
            self._traversal.begin(view, settings)
            self._links.heard()
            return view

    def drop(self, name: str) -> None:
        """Forgets a view."""
        with self._epochs.lock:  # nobody registers a view of that name before its documents are gone
            self._registration.drop(name)
            self._traversal.end(name)
            self._links.heard()

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
    ) -> Answer:
        """Evaluates a query once, on the current epoch.

        A query that takes longer than `timeout_seconds`, or has more rows than `row_limit`, is an error, and
        stopped. `dataset` stands in place of FROM and FROM NAMED. `from_views`: a query that is a view in
        another spelling is read from it.
        """
        return query_once(
            self._epochs, self._registration, query, base, timeout_seconds, row_limit, dataset, from_views
        )

    @within_reach()
    def explained(
        self, query: str, *, base: str | None = None, timeout_seconds: float | None = None
    ) -> Explained:
        """The plan by which a query would be kept as a view, and its delta rules, as a tree to draw.

        A query that cannot be kept is refused as `view` refuses it; what takes longer than `timeout_seconds`
        is stopped.
        """
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)
        return within(
            timeout_seconds, lambda: self._registration.explained(query, base), "Planning the query"
        )

    def check(self) -> None:
        """Recomputes every view from scratch, by other code than keeps it, and compares.

        Raises CheckFailed with the view and the rows that differ. Of a store, all files, terms and history
        are looked at first: StoreFailed says what is not as it was written.
        """
        with self.reading():
            self.ensure_open()
            if self._epochs.persistence is not None:
                self._epochs.persistence.verify()
            union = self.default_graph == "union"
            check(self.views, self.epoch, self._epochs.quads, self.dictionary, union)

    def observe(self, observer: Callable[[Epoch], None]) -> None:
        """From now on an observer hears of each epoch that was committed, and of each view refreshed later.

        It is called by the thread that writes, before anybody else writes: it hands on, and returns at once.
        """
        self._epochs.observe(observer)

    def observe_views(self, observer: Callable[[View], None]) -> None:
        """From now on an observer hears of each view that is dropped, replaced or failed, as by `observe`."""
        self._epochs.views.observe(observer)

    def repair(self) -> list[str]:
        """Looks at every file of the store, and computes anew the views whose files are damaged or missing.

        Gives their names. Quads and terms cannot be computed: an error names their damaged file.
        """
        return self._registration.repair()

    def compact(self) -> None:
        """Writes the store's log and deltas into new runs."""
        self.ensure_open()
        if self._epochs.persistence is not None:
            self._epochs.persistence.compact()  # takes the lock where it needs it

    # Reading and closing

    def reading(self) -> AbstractContextManager[None]:
        """Whatever is read inside belongs to one epoch."""
        return self._epochs.reading()

    def ensure_open(self) -> None:
        self._epochs.ensure_open()

    def close(self) -> None:
        """Ends the session; closing twice is no error."""
        if self._epochs.ended_by_fork():
            return
        self._traversal.stop()
        self._links.stop()
        self._feeds.stop()
        self._epochs.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


open = Session  # noqa: A001 - always used as sparqlive.open; a session is open once it is made


def _check_batch(batch: object) -> None:
    """Of a stream: the name of its source, and a number that the catalog can hold."""
    match batch:
        case None:
            return
        case (str(), number):
            whole("The number of a batch", number, most=2**63 - 1)
        case _:
            raise Error(f"batch is the name of a source and a number, not {shown(batch)}.")


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
