"""Watches the sources of a session, and turns their reports into epochs.

Owns the thread that watches sources, and the state of each: what was last seen, and what went wrong. Reports
of all sources become epochs one at a time, and a source waits until its report is committed.
Invariant: a failed report changes the state of its source and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

from pyoxigraph import DefaultGraph, NamedNode, Quad

from sparqlive.engine.batches import Batch, encode_changes
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.writer import Writer
from sparqlive.errors import Closed, Error, StoreFailed
from sparqlive.numbers import seconds
from sparqlive.rdf.compare import matched
from sparqlive.rdf.reserved import graph_refusal
from sparqlive.runtime.collector import collector_paused
from sparqlive.sources.polling import wait
from sparqlive.sources.watcher import (
    Changes,
    Content,
    Failed,
    Notifications,
    Outcome,
    Unchanged,
    Version,
    Watcher,
    whole_path,
)
from sparqlive.web.retry import retry_seconds

if TYPE_CHECKING:
    from sparqlive.store.store import Store

_REFRESH_SECONDS = 60.0
# How often the time of the last successful look is stored, if nothing else is written.
_REMEMBER_SECONDS = 30.0
_CANCEL_SECONDS = 5.0  # then a source that still runs is cancelled again
_KEY = "source/"
"""What the key of a source in a store starts with."""
_THREADS = 16  # for blocking work of sources: resolving names, parsing, committing


class _Refused(Exception):  # noqa: N818 - recorded already, as a failure of the source
    """A report could not be committed: the source starts again from its last version."""


_Seen: TypeAlias = Unchanged | Content | Changes | Failed
_STATE = ("quads", "version", "last_seen", "stale_since", "error", "notifications")


class Source:
    """Something that changes come from; its triples form the graph `graph`."""

    def __init__(
        self,
        manager: SourceManager,
        name: str,
        kind: str,
        address: str,
        options: Mapping[str, Any],
        found: bool = False,
        given_by: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.address = address
        self.options = dict(options)
        self.found = found
        """Whether a view that follows links added it, and no user."""
        self.given_by = tuple(given_by)
        """The entries of `sources/from_views.py` that added it; empty if a user did."""
        try:
            self.graph = NamedNode(name if ":" in name else f"source:{name}")
        except ValueError as error:
            raise Error(f"Invalid source name {name!r}: it does not form an IRI: {error}.") from error
        refusal = graph_refusal(self.graph.value)
        if refusal is not None:
            raise Error(f"Invalid source name {name!r}. {refusal}")
        self.quads = 0
        self.version: Version | None = None
        self.last_seen: float | None = None
        self.stale_since: float | None = None
        self.error: str | None = None
        self.notifications: str | None = None
        self.failures = 0
        """The number of failed looks since the session was opened."""
        self.removed = False
        self.ended = False
        """Whether its stream has ended."""
        self.stored_at: float | None = None
        self.requested_looks = 0
        """The number of requested looks."""
        self._manager = manager
        self._finished_looks = 0

    @classmethod
    def from_note(cls, manager: SourceManager, note: str) -> Source:
        """Creates a source from its note in a store."""
        members = json.loads(note)
        found, given_by = members.get("found", False), members.get("given_by", ())
        settings = (members["name"], members["kind"], members["address"], members["options"])
        source = cls(manager, *settings, found, given_by)
        for state in _STATE:
            setattr(source, state, members.get(state, getattr(source, state)))
        return source

    def note(self, **later: Any) -> str:
        """The store's note of a source; `later` is the state once it is written."""
        settings = {
            "name": self.name,
            "kind": self.kind,
            "address": self.address,
            "options": self.options,
            "found": self.found,
            "given_by": self.given_by,
        }
        return json.dumps({**settings, **{state: getattr(self, state) for state in _STATE}, **later})

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Sets the state that was stored with an epoch."""
        for name in _STATE:
            setattr(self, name, state[name])
        self.stored_at = state["last_seen"]

    # For the thread of the sources, and for writers

    def give(self, givers: Iterable[str]) -> None:
        """Sets the entries that gave it; none: a user added it."""
        self.found = False
        self.given_by = tuple(givers)

    def mark_removed(self) -> None:
        """Marks the source as removed: its later reports are not committed."""
        self.removed = True

    def mark_ended(self) -> None:
        """Marks its stream as ended."""
        self.ended = True

    def set_notifications(self, state: str) -> None:
        """Sets how it is notified of changes."""
        self.notifications = state

    def ask(self) -> int:
        """Counts a requested look; returns its number."""
        self.requested_looks += 1
        return self.requested_looks

    def answer(self, asked: int) -> None:
        """Marks the requested looks up to this number as done."""
        self._finished_looks = max(self._finished_looks, asked)

    def is_silent(self, asked: int) -> bool:
        """Whether a requested look is not done yet."""
        return self._finished_looks < asked and not (self.ended or self.removed)

    def failed(self, reason: str, now: float) -> bool:
        """Records a failed look; returns whether the error is new."""
        self.failures += 1
        is_news = self.error != reason
        self.error = reason
        self.stale_since = self.stale_since or self.last_seen or now
        return is_news

    def unchanged(self, version: Version | None, now: float) -> bool:
        """Records a look without changes; returns whether it should be stored now."""
        known = self.error is None and version in (None, self.version)
        known = known and now - (self.stored_at or 0) < _REMEMBER_SECONDS
        self.version = self.version if version is None else version
        self.last_seen, self.stale_since, self.error = now, None, None
        return not known

    def remember(self, now: float) -> None:
        """Records that its state is stored now."""
        self.stored_at = now

    @property
    def key(self) -> str:
        """The key of its note and its quads in a store."""
        return f"{_KEY}{self.name}"

    def settings(self) -> tuple[str, str, dict[str, Any]]:
        return self.kind, whole_path(self.kind, self.address), self.options

    def placed(self, quads: Iterable[Quad]) -> list[Quad]:
        """Returns the quads in the source's graph, unless they name another graph."""
        return [
            Quad(s, p, o, self.graph) if isinstance(g, DefaultGraph) else Quad(s, p, o, g)
            for s, p, o, g in quads
        ]

    def refresh(self, timeout_seconds: float | None = _REFRESH_SECONDS) -> None:
        """Looks now, and waits until changes are committed. Raises an Error if the look fails."""
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)
        self._manager.refresh([self], timeout_seconds)
        if self.error is not None:
            raise Error(f"Source {self.name!r} could not be refreshed: {self.error}")

    def remove(self) -> None:
        """Stops watching, and removes in one epoch the quads that no other source asserts."""
        self._manager.remove(self)

    def status(self) -> dict[str, Any]:
        """Kind, address, number of quads, version, time of the last successful look, error and since when,
        and how it is notified of changes, if its kind is."""
        return {
            "name": self.name,
            "kind": self.kind,
            "address": self.address,
            "quads": self.quads,
            "version": None if self.version is None else dict(self.version),
            "last_seen": self.last_seen,
            "lag_seconds": None if self.last_seen is None else max(0.0, time.time() - self.last_seen),
            "stale_since": self.stale_since,
            "error": self.error,
            "notifications": self.notifications,
        }

    def __repr__(self) -> str:
        return f"Source({self.name!r}, kind={self.kind!r})"


class SourceManager:
    """Watches the sources of one session, in a separate thread."""

    def __init__(self, writer: Writer, watching: bool) -> None:
        self._writer = writer
        self.watching = watching
        self._observer: Callable[[Source, Epoch, float], None] | None = None
        self._on_answer: Callable[[], None] | None = None
        self.by_name: dict[str, Source] = {}
        self._tasks: dict[Source, asyncio.Task[None]] = {}
        self._wakes: dict[Source, asyncio.Event] = {}
        self._answers = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._turn: asyncio.Lock | None = None
        self._stopped = False

    # From any thread

    def stored(self, store: Store) -> list[Source]:
        """The sources that a store has notes of."""
        return [Source.from_note(self, note) for note in store.catalog.metas(_KEY)]

    def observe(self, observer: Callable[[Source, Epoch, float], None]) -> None:
        """Sets an observer, which is called with each epoch of a source and its seconds."""
        self._observer = observer

    def tell_of_answers(self, on_answer: Callable[[], None]) -> None:
        """Sets a function to call after each look at a source, even without changes."""
        self._on_answer = on_answer

    def add(self, source: Source, watcher: Watcher) -> Source:
        """Adds a source and starts watching it; returns the existing source if it has the same settings."""
        self._ensure_here()
        with self._writer.changing():
            self._writer.ensure_open()
            known = self.by_name.get(source.name)
            if known is not None and known.found and not source.found:
                known.give(source.given_by)  # now a user or a view has added it, too
                self._remember(known)
                if known.settings() != source.settings():
                    self.remove(known)
                    known = None
            if known is not None and not known.given_by and source.given_by:
                return known  # a user added it, and its settings stay
            if known is not None and known.settings() == source.settings():
                both = dict.fromkeys([*known.given_by, *source.given_by]) if source.given_by else ()
                if known.given_by != tuple(both):
                    known.give(both)
                    self._remember(known)
                return known
            if known is not None:
                raise Error(
                    f"Source {source.name!r} already exists with different settings. Remove it first, or "
                    f"choose another name."
                )
            self._writer.assertions.add(source.name)
            self._writer.commit(Batch(notes={source.key: source.note()}))
            self.start([(source, watcher)])
        return source

    def start(self, watched: Iterable[tuple[Source, Watcher]]) -> None:
        """Starts watching sources, if this session watches any."""
        watched = list(watched)
        self.by_name.update((source.name, source) for source, _ in watched)
        if watched and self.watching:
            asyncio.run_coroutine_threadsafe(self._begin(watched), self._running()).result()

    def refresh(self, sources: Sequence[Source], timeout_seconds: float | None) -> None:
        """Looks at sources now, concurrently, and waits until all looks are done."""
        self._writer.ensure_open()
        self._ensure_here()
        for source in sources:
            if self.by_name.get(source.name) is not source:
                raise Error(f"Source {source.name!r} has been removed.")
            if not self.watching:
                raise Error(f"Source {source.name!r} is not watched. Open the session with watch=True.")
        asking = [asyncio.run_coroutine_threadsafe(self._ask(one), self._running()) for one in sources]
        asked = [future.result() for future in asking]

        def silent() -> list[str]:
            pairs = zip(sources, asked, strict=True)
            return [one.name for one, number in pairs if one.is_silent(number)]

        with self._answers:
            if not self._answers.wait_for(lambda: self._stopped or not silent(), timeout_seconds):
                raise Error(f"Source {silent()[0]!r} did not respond within {timeout_seconds:g} s.")
            if silent():
                raise Closed(f"The session was closed before source {silent()[0]!r} responded.")

    def remove(self, source: Source) -> None:
        self._ensure_here()
        with self._writer.changing():  # no other source can take its name before it is forgotten
            if self.by_name.get(source.name) is not source:
                raise Error(f"Source {source.name!r} has already been removed.")
            self._forget(source)  # first: who no longer finds the source finds none of its quads either
            del self.by_name[source.name]
            source.mark_removed()
        if self.watching:  # not under the lock, since closing a connection may take a while
            asyncio.run_coroutine_threadsafe(self._end(source), self._running()).result()
        with self._answers:
            self._answers.notify_all()

    def release(self, source: Source, giver: str) -> None:
        """Removes a giver of a source, and with the last one the source. The caller holds the lock."""
        left = [other for other in source.given_by if other != giver]
        source.give(left)
        if left:
            self._remember(source)
        else:
            self.remove(source)

    def stop(self) -> None:
        """Stops watching all sources; their quads stay."""
        if self._is_forked:  # the thread belongs to the parent process, and continues there
            return
        self._stopped = True
        with self._answers:
            self._answers.notify_all()
        if self._loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None
            self._remember(*self.by_name.values())

    @property
    def _is_forked(self) -> bool:
        """Whether this process is a fork of the one that watches the sources."""
        return self._loop is not None and os.getpid() != self._process

    def _ensure_here(self) -> None:
        """Rejects calls in a forked process: it lacks the thread, and would wait for it forever."""
        if self._is_forked:
            raise (Error if self._writer.persistence is None else StoreFailed)(
                f"The sources of this session are watched by process {self._process}, and this is process "
                f"{os.getpid()}, a fork of it. Open the session after the fork, in the process that uses it."
            )

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._process = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "sparqlive-sources"))
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="sparqlive-sources", daemon=True
            )
            self._thread.start()
        return self._loop

    # Epochs

    def _commit(self, source: Source, outcome: Content | Changes) -> Epoch | None:
        """Commits a report as an epoch; returns None if it changes nothing."""
        writer = self._writer
        with writer.changing(), collector_paused():
            if writer.closed or source.removed:
                return None
            deletes: Collection[Quad]
            inserts: Collection[Quad]
            if isinstance(outcome, Content):
                old = set(writer.terms.dictionary.quads(writer.assertions.quads(source.name)))
                placed = source.placed(outcome.quads)
                new = set(placed if outcome.labelled else matched(old, placed))
                deletes, inserts = old - new, new - old
            else:
                deletes, inserts = source.placed(outcome.delete), source.placed(outcome.insert)
            ids, given = encode_changes(writer.terms.dictionary, deletes, inserts)
            state = {
                "quads": writer.assertions.count_after(source.name, ids),
                "version": outcome.version,
                "last_seen": time.time(),
                "stale_since": None,
                "error": None,
                "notifications": source.notifications,
            }
            notes = {source.key: source.note(**state)}
            epoch = writer.commit(Batch(ids=ids, given=given, source=source.name, notes=notes))
            source.restore_state(state)
            return epoch if epoch.inserted or epoch.deleted else None

    def _remember(self, *sources: Source) -> None:
        with self._writer.changing():
            if not self._writer.closed:
                notes = {source.key: source.note() for source in sources if not source.removed}
                self._writer.commit(Batch(notes=notes))

    def _forget(self, source: Source) -> None:
        """Retracts all quads of a source in one epoch."""
        writer = self._writer
        ids = dict.fromkeys(writer.assertions.quads(source.name), -1)
        writer.commit(Batch(ids=ids, source=source.name, notes={source.key: ""}))
        writer.assertions.forget(source.name)

    # In the thread of the sources

    async def _begin(self, watched: Iterable[tuple[Source, Watcher]]) -> None:
        self._turn = self._turn or asyncio.Lock()
        for source, watcher in watched:
            self._wakes[source] = asyncio.Event()
            self._tasks[source] = asyncio.create_task(self._watch(source, watcher))

    async def _ask(self, source: Source) -> int:
        """Requests a look that begins after this call."""
        asked = source.ask()
        wake = self._wakes.get(source)
        if wake is not None:  # it may have been removed meanwhile
            wake.set()
        return asked

    async def _end(self, source: Source) -> None:
        task = self._tasks.pop(source)
        del self._wakes[source]
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_CANCEL_SECONDS)

    async def _end_all(self) -> None:
        await asyncio.gather(*(self._end(source) for source in list(self._tasks)))

    async def _watch(self, source: Source, watcher: Watcher) -> None:
        """Watches a source until its stream ends; starts again when watching fails."""
        failures = 0

        async def report(outcome: Outcome) -> None:
            nonlocal failures
            if isinstance(outcome, Notifications):  # not a look, so it completes no requested one
                await asyncio.to_thread(self._note, source, outcome)
                return
            committed = await self._report(source, outcome)
            failures = 0 if committed else failures + 1
            if not committed and not isinstance(outcome, Failed):
                raise _Refused

        while True:
            try:
                await watcher.watch(source.version, report, self._wakes[source])
                source.mark_ended()
                return self._answer(source, source.requested_looks)
            except _Refused:
                pass
            except Error as error:
                await report(Failed(str(error)))
            except Exception as error:
                await report(Failed(f"{type(error).__name__}: {error}."))
            await wait(self._wakes[source], retry_seconds(failures))

    def _note(self, source: Source, outcome: Notifications) -> None:
        if source.notifications != outcome.state:
            source.set_notifications(outcome.state)
            self._remember(source)

    async def _report(self, source: Source, outcome: _Seen) -> bool:
        asked = 0 if self._wakes[source].is_set() else source.requested_looks
        assert self._turn is not None
        async with self._turn:
            committed = await asyncio.to_thread(self._take, source, outcome)
        if not (committed and isinstance(outcome, Changes) and outcome.more):
            self._answer(source, asked)
        return committed

    def _answer(self, source: Source, asked: int) -> None:
        with self._answers:
            source.answer(asked)
            self._answers.notify_all()
        if self._on_answer is not None:
            self._on_answer()

    def _take(self, source: Source, outcome: _Seen) -> bool:
        """Commits a report, and records its outcome; returns False if it failed."""
        if isinstance(outcome, Content | Changes):
            start = time.perf_counter()
            try:
                epoch = self._commit(source, outcome)
            except Error as error:  # a rejected report is a failure of the source, and changes nothing
                outcome = Failed(str(error))
            else:
                if epoch is not None and self._observer is not None:
                    self._observer(source, epoch, time.perf_counter() - start)
                return True
        now = time.time()
        if isinstance(outcome, Failed):
            is_news = source.failed(outcome.reason, now)
        else:
            is_news = source.unchanged(outcome.version, now)
        if is_news:
            source.remember(now)
            self._remember(source)
        return not isinstance(outcome, Failed)
