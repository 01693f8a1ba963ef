"""Runs a pipeline: sources → views → sinks.

Owns the order: load once, register views, bring the sinks up to date, follow the sources. Invariants: each
batch of a source becomes exactly one epoch, even after a crash, because its id (source, file and place in the
file) is committed with it; sinks never hold an epoch that the store does not.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sparqlive.engine.epoch import Epoch
from sparqlive.engine.view import View
from sparqlive.errors import Error, ViewExists
from sparqlive.opening import default_graph_of, say, writing
from sparqlive.pipeline.file import ChangesSource, Pipeline, SparkSource
from sparqlive.pipeline.folder import FollowedFolder, NewFile
from sparqlive.pipeline.progress import Progress, changed_views, solution_count
from sparqlive.pipeline.sinks import Sink, catch_up, hand_on, opened
from sparqlive.rdf.change_columns import EncodedBatch, TextBatch, parse_batches
from sparqlive.rdf.changes import Batch
from sparqlive.session import Session
from sparqlive.session import open as open_session
from sparqlive.sources.manager import Source

if TYPE_CHECKING:
    from sparqlive.bulk.backends.spark.follow import RunningStream

_LOOK_SECONDS = 0.5
_END = -1
"""The place in a file that is recorded when all of its batches are."""

Observer = Callable[[Epoch], None]


class _Stopped(Exception):  # noqa: N818 - not an error
    """The job is stopping: the next run continues with the current file."""


class Job:
    """A running pipeline; a context manager."""

    def __init__(self, pipeline: Pipeline, progress: Progress, observer: Observer | None = None) -> None:
        self.pipeline = pipeline
        self._progress = progress
        self._observer = observer
        # Sources run in their own threads; one epoch at a time goes to the sinks.
        self._lock = threading.Lock()
        self._sinks: list[tuple[Sink, View, str]] = []
        self._failed: set[str] = set()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._spark: Any = None
        self._exit = ExitStack()

    def __enter__(self) -> Job:
        if self.pipeline.streams:
            self._spark = start_spark(self.pipeline.master or "local[*]", self._progress)
        open_store = partial(
            open_session,
            self.pipeline.store,
            spark=self._spark or self.pipeline.master,
            bulk=self.pipeline.bulk,
            memory=self.pipeline.memory,
            default_graph=default_graph_of(self.pipeline.store),
            runs=self.pipeline.runs,
        )
        opening = writing(self.pipeline.store, open_store, runs_long=True)
        self.session: Session = self._exit.enter_context(opening)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.__exit__(kind, error, trace)

    # Before the stream

    def prepare(self) -> None:
        """Loads data that is not loaded yet, registers the views, and brings the sinks up to date."""
        for entry in self.pipeline.loads:
            with self._progress.step(f"loading {entry.name}") as step:
                epoch = self.session.load(
                    list(entry.paths), graph=entry.graph, batch=(f"load:{entry.name}", 0)
                )
                step.end_with(f"{epoch.inserted:,} new, {len(self.session):,} quads in all")
        for view in self.pipeline.views:
            with self._progress.step(f"computing {view.name}") as step:
                kept = self._register(view.name, view.query, view.refresh)
                step.end_with(solution_count(len(kept)))
            if kept.hint is not None:
                say(kept.hint)
        for sink in self.pipeline.sinks:
            kept = self.session.views[sink.view]
            found = opened(sink.kind, sink.path, kept.variables, sink.weights)
            catch_up(found, kept, sink.name)
            self._sinks.append((found, kept, sink.name))

    def _register(self, name: str, query: str, refresh: Any) -> View:
        try:
            return self.session.view(name, query, refresh=refresh)
        except ViewExists as error:
            raise Error(
                f"{self.pipeline.file}: [views.{name}]: view {name!r} already exists in the store with a "
                f"different query. Drop it (sparqlive view {name} --drop --store {self.pipeline.store}) and "
                f"set new paths for its sinks, or choose another name."
            ) from error

    # The stream

    def follow(self, once: bool) -> None:
        """Follows the sources; with `once`, until the available changes have been applied.

        An interrupt (Ctrl-C, SIGTERM) ends it after the current batch; the next run continues from there.
        """
        running: list[RunningStream | FollowedFolder] = []
        self.session.observe_sources(self._reported)
        self._add_sources()
        with self._lock:  # epochs of sources from before the observer was set
            for sink, view, name in self._sinks:
                catch_up(sink, view, name)
        try:
            if once:
                self._refresh_sources()
            for source in self.pipeline.sources:
                done, take = partial(self._is_done, source), partial(self._take, source)
                running.append(FollowedFolder(source, done, take, once=once))
            running += [self._stream(source, once) for source in self.pipeline.streams]
            with _interrupts_set(self._stopping):
                self._wait_for(running, watching=not once)
        finally:
            interrupted = self._stopping.is_set()
            self._stopping.set()
            for following in running:
                following.stop()
            self._finish()
        if self._failure is not None:
            raise self._failure
        if interrupted:
            self._progress.line(f"stopped at epoch {self.session.epoch}; the next run continues from there")

    def _stream(self, source: SparkSource, once: bool) -> RunningStream:
        """Follows a stream of Spark."""
        reader = self._spark.readStream.format(source.format).options(**source.options)
        try:
            frame = (reader.schema(source.schema) if source.schema else reader).load()
            frame = frame.selectExpr(*source.select) if source.select else frame
            return self.session.follow(
                frame,
                name=source.name,
                once=once,
                interval_seconds=source.interval_seconds,
                op=source.op,
                order=source.order,
                mapping=source.mapping,
                graph=source.graph,
                on_epoch=partial(self._streamed, source.name),
            )
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise Error(f"{self.pipeline.file}: [sources.{source.name}]: {first}") from error

    def _streamed(self, source: str, epoch: Epoch) -> None:
        with self._lock:
            self._hand_on(epoch, source, epoch.seconds)

    def _add_sources(self) -> None:
        """Adds the sources of the file to those of the store."""
        for entry in self.pipeline.watched:
            try:
                self.session.add_source(entry.kind, entry.address, entry.name, entry.options)
            except Error as error:
                raise Error(
                    f"{self.pipeline.file}: [sources.{entry.name}]: {error} To remove an existing source and "
                    f"its quads: sparqlive source remove {entry.name} --store {self.pipeline.store}"
                ) from error

    def _refresh_sources(self) -> None:
        """Looks at each of the store's sources once. Reports failures; a failed source keeps its quads."""
        for source in list(self.session.sources.values()):
            try:
                source.refresh(timeout_seconds=None)
            except Error as error:
                self._progress.line(str(error))

    def _wait_for(self, running: Sequence[RunningStream | FollowedFolder], watching: bool) -> None:
        """Waits until all streams have ended, one fails, or an interrupt arrives.

        With `watching`, also waits until all of the store's sources have ended.
        """
        waiting = list(running)
        try:
            while (waiting or (watching and self._are_watched())) and not self._stopping.is_set():
                if not waiting:
                    self._stopping.wait(_LOOK_SECONDS)
                waiting = [following for following in waiting if not following.wait(_LOOK_SECONDS)]
        except _Stopped:
            pass

    def _are_watched(self) -> bool:
        return any(not source.ended for source in self.session.sources.values())

    def _is_done(self, source: ChangesSource, file: NewFile) -> bool:
        return self.session.has_batch((source.name, _batch_id(file.name, _END)))

    def _take(self, source: ChangesSource, file: NewFile) -> None:
        """Applies the batches of a new file; those that the store already has change nothing."""
        exceptions = self.session.dictionary.exceptions
        with file.open() as stream:
            text_bytes, tuning = self.session.text_bytes, self.session.tuning
            batches = parse_batches(stream, file.path, exceptions, source.graph, text_bytes, tuning)
            for place, batch in enumerate(batches):
                if self._stopping.is_set():
                    raise _Stopped
                self._apply(source.name, _batch_id(file.name, place), batch)
        self._apply(source.name, _batch_id(file.name, _END), Batch((), ()))

    def _apply(self, source: str, number: int, batch: Batch | EncodedBatch | TextBatch) -> None:
        with self._lock:
            start = time.perf_counter()
            epoch = self.session.apply_batch(batch, batch=(source, number))
            seconds = time.perf_counter() - start
            if epoch.inserted or epoch.deleted:
                self._hand_on(epoch, source, seconds)

    def _reported(self, source: Source, epoch: Epoch, seconds: float) -> None:
        try:
            with self._lock:
                self._hand_on(epoch, source.name, seconds)
        except Exception as error:  # a failure of a sink, not of the source: it ends the job
            self._failure = error
            self._stopping.set()

    def _hand_on(self, epoch: Epoch, source: str, seconds: float) -> None:
        """Passes an epoch on to the sinks, the progress and the observer.

        If the store's sources make epochs, too, an epoch may arrive before an earlier one: a sink then
        catches up with all that it misses.
        """
        changed = changed_views(epoch)
        several = bool(self.session.sources) or bool(self.pipeline.streams)
        for sink, view, name in self._sinks:
            if view.name in changed and not several:
                hand_on(sink, view, epoch.deltas[view.name])
            elif several or view.refresh_setting != "immediate":
                catch_up(sink, view, name)
        self._progress.epoch(epoch, source, seconds)
        self._report_failures()
        if self._observer is not None:
            self._observer(epoch)

    def _report_failures(self) -> None:
        for name, view in self.session.views.items():
            if view.failure is not None and name not in self._failed:
                self._failed.add(name)
                self._progress.line(view.failure)

    def _finish(self) -> None:
        with self._lock:
            for sink, view, name in self._sinks:
                if view.failure is None:
                    if view.refresh_setting != "manual":
                        view.refresh()
                        catch_up(sink, view, name)
                    sink.finish(view.epoch, view.now)


def run_pipeline(
    pipeline: Pipeline, progress: Progress, *, once: bool, observer: Observer | None = None
) -> None:
    """Runs a pipeline until it is interrupted; with `once`, until the available changes have been applied."""
    with Job(pipeline, progress, observer) as job:
        job.prepare()
        if pipeline.sources or pipeline.streams or pipeline.watched or job.session.sources:
            job.follow(once)


def start_spark(master: str, progress: Progress) -> Any:
    """Returns the process's Spark session, started if necessary; an Error says what is missing."""
    if find_spec("pyspark") is None:
        raise Error(
            "Sources of kind 'spark' need Spark, which is not installed: pip install 'sparqlive[spark]'."
        )
    from sparqlive.bulk.backends.spark.start import is_running, start_session

    if is_running():
        return start_session(master)
    with progress.step(f"starting Spark at {master}"):
        try:
            return start_session(master)
        except Error:
            raise
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise Error(
                f"Cannot start Spark at {master}: {first} Check that the master is reachable."
            ) from error


@contextmanager
def _interrupts_set(event: threading.Event) -> Iterator[None]:
    """Makes interrupts set an event within the block: they must not break off a commit or a Spark call."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return
    before = {
        number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _batch_id(file: str, place: int) -> int:
    """The id of a batch; it does not depend on when and with which other files its file arrives."""
    digest = blake2b(f"{place} {file}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
