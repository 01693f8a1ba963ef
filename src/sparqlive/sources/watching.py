"""The sources of a session while it runs: each is watched, and what it reports becomes epochs.

Owns the thread in which sources are watched, and the state of each: what was last seen, and what went wrong.
Reports of all sources become epochs one at a time, and a source waits until its report is committed.
Invariant: a report that failed changes the state of its source and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from pyoxigraph import DefaultGraph, NamedNode, Quad

from sparqlive.engine.view import Epoch
from sparqlive.engine.writer import Epochs
from sparqlive.errors import Closed, Error, StoreFailed
from sparqlive.live.quads import Quad as QuadIds
from sparqlive.numbers import seconds
from sparqlive.rdf.compare import matched
from sparqlive.rdf.reserved import graph_refusal
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

_REFRESH_SECONDS = 60.0
# When a source was last seen is written into the store at most so often, unless something else is written.
_REMEMBER_SECONDS = 30.0
_CANCEL_SECONDS = 5.0  # a source that goes on is told again to end
_THREADS = 16  # for what sources do beside waiting: resolving names, parsing, committing


class _Refused(Exception):  # noqa: N818 - noted already, as a failure of the source
    """What was reported could not be committed: the source begins again from its last version."""


_Seen: TypeAlias = Unchanged | Content | Changes | Failed
_STATE = ("quads", "version", "last_seen", "stale_since", "error", "notifications")


class Source:
    """Something that changes come from; its triples form the graph `graph`."""

    def __init__(
        self,
        feeds: Feeds,
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
        """Nobody named it: a view that follows links came to it."""
        self.given_by = tuple(given_by)
        """Nobody named it: these gave it (`sources/from_views.py`)."""
        try:
            self.graph = NamedNode(name if ":" in name else f"source:{name}")
        except ValueError as error:
            raise Error(f"The source cannot be named {name!r}, which makes no IRI: {error}.") from error
        refused = graph_refusal(self.graph.value)
        if refused is not None:
            raise Error(f"The source cannot be named {name!r}. {refused}")
        self.quads = 0
        self.version: Version | None = None
        self.last_seen: float | None = None
        self.stale_since: float | None = None
        self.error: str | None = None
        self.notifications: str | None = None
        self.failures = 0
        """Looks that failed, since the session was opened."""
        self.removed = False
        self.ended = False
        """Its stream has ended: there is nothing to look at any more."""
        self.remembered: float | None = None
        self.asked = 0
        """How many looks were asked for."""
        self._feeds = feeds
        self._answered = 0

    @classmethod
    def from_note(cls, feeds: Feeds, note: str) -> Source:
        """A source as a store remembers it."""
        noted = json.loads(note)
        found, given_by = noted.get("found", False), noted.get("given_by", ())
        made = cls(feeds, noted["name"], noted["kind"], noted["address"], noted["options"], found, given_by)
        for state in _STATE:
            setattr(made, state, noted.get(state, getattr(made, state)))
        return made

    def note(self, **later: Any) -> str:
        """What a store remembers of a source; `later` is what is true once it is written."""
        settings = {
            "name": self.name,
            "kind": self.kind,
            "address": self.address,
            "options": self.options,
            "found": self.found,
            "given_by": self.given_by,
        }
        return json.dumps({**settings, **{state: getattr(self, state) for state in _STATE}, **later})

    def seen(self, state: Mapping[str, Any]) -> None:
        """The source is as its note says."""
        for name in _STATE:
            setattr(self, name, state[name])
        self.remembered = state["last_seen"]

    # For the thread that watches it, and for those who write

    def give(self, givers: Iterable[str]) -> None:
        """From now on these give it; none: somebody named it."""
        self.found = False
        self.given_by = tuple(givers)

    def mark_removed(self) -> None:
        """From now on nothing of it is committed."""
        self.removed = True

    def mark_ended(self) -> None:
        """Its stream has ended."""
        self.ended = True

    def notified_by(self, state: str) -> None:
        """How it is told of changes, from now on."""
        self.notifications = state

    def ask(self) -> int:
        """Counts a look that is asked for; its number."""
        self.asked += 1
        return self.asked

    def answer(self, asked: int) -> None:
        """The looks up to this number are done."""
        self._answered = max(self._answered, asked)

    def is_silent(self, asked: int) -> bool:
        """Whether a look is yet to be done."""
        return self._answered < asked and not (self.ended or self.removed)

    def failed(self, reason: str, now: float) -> bool:
        """A look failed; whether that is news."""
        self.failures += 1
        is_news = self.error != reason
        self.error = reason
        self.stale_since = self.stale_since or self.last_seen or now
        return is_news

    def unchanged(self, version: Version | None, now: float) -> bool:
        """It was reached, and has what it had; whether that is to be remembered now."""
        known = self.error is None and version in (None, self.version)
        known = known and now - (self.remembered or 0) < _REMEMBER_SECONDS
        self.version = self.version if version is None else version
        self.last_seen, self.stale_since, self.error = now, None, None
        return not known

    def remember(self, now: float) -> None:
        """The store is told of its state now."""
        self.remembered = now

    @property
    def key(self) -> str:
        """The name of what a store keeps of the source: its note, and its quads."""
        return f"source/{self.name}"

    def settings(self) -> tuple[str, str, dict[str, Any]]:
        return self.kind, whole_path(self.kind, self.address), self.options

    def placed(self, quads: Iterable[Quad]) -> list[Quad]:
        """The quads in the source's graph, unless they name another one."""
        return [
            Quad(s, p, o, self.graph) if isinstance(g, DefaultGraph) else Quad(s, p, o, g)
            for s, p, o, g in quads
        ]

    def refresh(self, timeout_seconds: float | None = _REFRESH_SECONDS) -> None:
        """Looks now, and waits until what was seen is committed. What went wrong is raised."""
        if timeout_seconds is not None:
            seconds("timeout_seconds", timeout_seconds)
        self._feeds.refresh([self], timeout_seconds)
        if self.error is not None:
            raise Error(f"The source {self.name!r} could not be refreshed: {self.error}")

    def remove(self) -> None:
        """Stops watching; what no other source asserts leaves in one epoch."""
        self._feeds.remove(self)

    def status(self) -> dict[str, Any]:
        """Kind, address, number of quads, version, when it was last seen, what went wrong since when, and how
        it is notified of changes, if its kind is."""
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


class Feeds:
    """Watches the sources of one session, in a thread of its own."""

    def __init__(self, epochs: Epochs, watching: bool) -> None:
        self._epochs = epochs
        self.watching = watching
        self._observer: Callable[[Source, Epoch, float], None] | None = None
        self._heard: Callable[[], None] | None = None
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

    def observe(self, observer: Callable[[Source, Epoch, float], None]) -> None:
        """Has an observer hear of each epoch that a source made, and how many seconds it took."""
        self._observer = observer

    def tell_of_answers(self, heard: Callable[[], None]) -> None:
        """Calls when a source has answered, also if it changed nothing."""
        self._heard = heard

    def add(self, source: Source, watcher: Watcher) -> Source:
        """Notes a source and watches it from now on; the same source again gives the one that is there."""
        self._ensure_here()
        with self._epochs.lock:
            self._epochs.ensure_open()
            known = self.by_name.get(source.name)
            if known is not None and known.found and not source.found:
                known.give(source.given_by)  # from now on somebody has named it
                self._remember(known)
                if known.settings() != source.settings():
                    self.remove(known)
                    known = None
            if known is not None and not known.given_by and source.given_by:
                return known  # it is there because somebody named it, and stays as they want it
            if known is not None and known.settings() == source.settings():
                both = dict.fromkeys([*known.given_by, *source.given_by]) if source.given_by else ()
                if known.given_by != tuple(both):
                    known.give(both)
                    self._remember(known)
                return known
            if known is not None:
                raise Error(f"A source named {source.name!r} is there with other settings: remove it first.")
            self._epochs.assertions.add(source.name, {})
            self._epochs.commit({}, 0, "auto", notes={source.key: source.note()})
            self.start(source, watcher)
        return source

    def start(self, source: Source, watcher: Watcher) -> None:
        self.by_name[source.name] = source
        if not self.watching:
            return
        loop = self._running()
        asyncio.run_coroutine_threadsafe(self._begin(source, watcher), loop).result()

    def refresh(self, sources: Sequence[Source], timeout_seconds: float | None) -> None:
        """Looks at sources now, all at once, and waits until each has answered."""
        self._epochs.ensure_open()
        self._ensure_here()
        for source in sources:
            if self.by_name.get(source.name) is not source:
                raise Error(f"The source {source.name!r} has been removed.")
            if not self.watching:
                raise Error(f"The source {source.name!r} is not watched: open the session with watch=True.")
        asking = [asyncio.run_coroutine_threadsafe(self._ask(one), self._running()) for one in sources]
        asked = [future.result() for future in asking]

        def silent() -> list[str]:
            pairs = zip(sources, asked, strict=True)
            return [one.name for one, number in pairs if one.is_silent(number)]

        with self._answers:
            if not self._answers.wait_for(lambda: self._stopped or not silent(), timeout_seconds):
                raise Error(
                    f"The source {silent()[0]!r} has not answered within {timeout_seconds:g} seconds."
                )
            if silent():
                raise Closed(f"The session was closed before the source {silent()[0]!r} had answered.")

    def remove(self, source: Source) -> None:
        self._ensure_here()
        with self._epochs.lock:  # of that name there is no other one before it is forgotten
            if self.by_name.get(source.name) is not source:
                raise Error(f"The source {source.name!r} has been removed already.")
            del self.by_name[source.name]
            source.mark_removed()
            self._forget(source)
        if self.watching:  # a connection may take its time to close
            asyncio.run_coroutine_threadsafe(self._end(source), self._running()).result()
        with self._answers:
            self._answers.notify_all()

    def release(self, source: Source, giver: str) -> None:
        """A giver no longer gives a source; when none does, it is removed. The caller holds the lock."""
        left = [other for other in source.given_by if other != giver]
        source.give(left)
        if left:
            self._remember(source)
        else:
            self.remove(source)

    def stop(self) -> None:
        """Ends the watching of all sources; what they brought stays."""
        if self._is_forked:  # the thread is the other process's, and goes on there
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
            for source in self.by_name.values():
                self._remember(source)

    @property
    def _is_forked(self) -> bool:
        """Whether this process was forked from the one in which sources are watched."""
        return self._loop is not None and os.getpid() != self._process

    def _ensure_here(self) -> None:
        """Refuses in a forked process, which does not have the thread: it would be waited for without end."""
        if self._is_forked:
            raise (Error if self._epochs.persistence is None else StoreFailed)(
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
        """A report of a source becomes an epoch; what it has already is no change."""
        epochs = self._epochs
        with epochs.lock:
            if epochs.closed or source.removed:
                return None
            wanted: dict[QuadIds, int] = {}
            if isinstance(outcome, Content):
                old = set(epochs.terms.dictionary.quads(epochs.assertions.quads(source.name)))
                placed = source.placed(outcome.quads)
                new = set(placed if outcome.labelled else matched(old, placed))
                given = epochs.want(wanted, old - new, -1) + epochs.want(wanted, new - old, 1)
            else:
                given = epochs.want(wanted, source.placed(outcome.delete), -1)
                given += epochs.want(wanted, source.placed(outcome.insert), 1)
            state = {
                "quads": epochs.assertions.count_after(source.name, wanted),
                "version": outcome.version,
                "last_seen": time.time(),
                "stale_since": None,
                "error": None,
                "notifications": source.notifications,
            }
            notes = {source.key: source.note(**state)}
            epoch = epochs.commit(wanted, given, "auto", source=source.name, notes=notes)
            source.seen(state)
            return epoch if epoch.inserted or epoch.deleted else None

    def _remember(self, source: Source) -> None:
        with self._epochs.lock:
            if not self._epochs.closed and not source.removed:
                self._epochs.record(None, {source.key: source.note()})

    def _forget(self, source: Source) -> None:
        """All that a source asserts leaves in one epoch."""
        epochs = self._epochs
        wanted = dict.fromkeys(epochs.assertions.quads(source.name), -1)
        epochs.commit(wanted, len(wanted), "auto", source=source.name, notes={source.key: ""})
        epochs.assertions.forget(source.name)

    # In the thread of the sources

    async def _begin(self, source: Source, watcher: Watcher) -> None:
        self._turn = self._turn or asyncio.Lock()
        self._wakes[source] = asyncio.Event()
        self._tasks[source] = asyncio.create_task(self._watch(source, watcher))

    async def _ask(self, source: Source) -> int:
        """Asks for a look that begins after this."""
        asked = source.ask()
        self._wakes[source].set()
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
        """Watches a source until its stream ends; begins again when watching fails."""
        failures = 0

        async def report(outcome: Outcome) -> None:
            nonlocal failures
            if isinstance(outcome, Notifications):  # is no look, and answers nobody who asked for one
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
                return self._answer(source, source.asked)
            except _Refused:
                pass
            except Error as error:
                await report(Failed(str(error)))
            except Exception as error:
                await report(Failed(f"{type(error).__name__}: {error}."))
            await wait(self._wakes[source], retry_seconds(failures))

    def _note(self, source: Source, outcome: Notifications) -> None:
        if source.notifications != outcome.state:
            source.notified_by(outcome.state)
            self._remember(source)

    async def _report(self, source: Source, outcome: _Seen) -> bool:
        asked = 0 if self._wakes[source].is_set() else source.asked
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
        if self._heard is not None:
            self._heard()

    def _take(self, source: Source, outcome: _Seen) -> bool:
        """Commits what was reported, and notes how it went; False for what failed."""
        if isinstance(outcome, Content | Changes):
            start = time.perf_counter()
            try:
                epoch = self._commit(source, outcome)
            except Error as error:  # what the session refuses is the source's fault, and changes nothing
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
