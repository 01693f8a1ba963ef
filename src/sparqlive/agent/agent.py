"""The agent: a session, its settings, and the threads that call the session."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from sparqlive.agent.access import Access, Right, caller_of
from sparqlive.agent.answers import Paced, Result, Streamed
from sparqlive.agent.codings import coder_for
from sparqlive.agent.epoch_log import EpochLog
from sparqlive.agent.hub import Hub
from sparqlive.agent.metrics import Metrics
from sparqlive.agent.problems import Refused
from sparqlive.agent.settings import Settings
from sparqlive.errors import Closed
from sparqlive.runtime.deadline import being_urgent, cancelled_by, urgently
from sparqlive.session import Session

if TYPE_CHECKING:
    from sparqlive.agent.routes.uploads import Job

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8
_STATUS_THREADS = 2
_READING_THREADS = 2


class Agent:
    """A session served over HTTP. Each handler receives it with the request."""

    def __init__(
        self, session: Session, settings: Settings | None = None, access: Access | None = None
    ) -> None:
        self.session = session
        self.settings = settings or Settings()
        self.access = access or Access(allowed=self.settings.origins)
        self.stopping = asyncio.Event()
        """Set when the server begins to stop; streams then send a last event and end."""
        self.computing: dict[object, float] = {}
        """The start time of each view computation in progress."""
        self.uploads: dict[str, Job] = {}
        """The last uploads by id."""
        self.metrics = Metrics(self)
        self.log = EpochLog()
        session.observe(self.log.hear)
        self.hub = Hub(self)
        self._stopped = False
        # One pool per thing that its work waits for, so that no kind of work delays another.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agent")
        self._status = ThreadPoolExecutor(_STATUS_THREADS, thread_name_prefix="agent-status")
        self._computing = ThreadPoolExecutor(_THREADS, thread_name_prefix="agent-views")
        self._long = ThreadPoolExecutor(self.settings.queries, thread_name_prefix="agent-query")
        self._for_others = ThreadPoolExecutor(self.settings.queries, thread_name_prefix="agent-waiting")
        self._reading = ThreadPoolExecutor(_READING_THREADS, thread_name_prefix="agent-events")
        self._turns: dict[tuple[str, bool], asyncio.Semaphore] = {}
        self._waiting: Counter[tuple[str, bool]] = Counter()
        session.limits = self.settings.limits()

    async def run(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Runs work that waits for the session's lock, in a thread."""
        return await self._run(self._threads, partial(work, *args, **options))

    async def run_writing(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Runs work that makes an epoch; long queries pause meanwhile."""
        with urgently():
            return await self.run(being_urgent()(work), *args, **options)

    async def run_status(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Runs work that reports on the agent, in threads that nothing else can occupy."""
        return await self._run(self._status, partial(work, *args, **options))

    async def run_computing(self, work: Callable[[], T]) -> T:
        """Runs work that computes a view, loads a file, or ends a source."""
        return await self._run(self._computing, work)

    async def run_long(self, work: Callable[[], T]) -> T:
        """Runs work that may take as long as a query, in separate threads so that it blocks no other work."""
        return await self._run(self._long, work)

    async def run_for_others(self, request: Request, work: Callable[[], T]) -> T:
        """Runs work that waits for other servers: in its own threads, in turns, until the client leaves."""
        gone = threading.Event()
        watching = asyncio.create_task(_set_when_gone(request, gone))
        try:
            async with self.turn(request, for_others=True):
                return await self._run(self._for_others, cancelled_by(gone)(work))
        finally:
            watching.cancel()

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._stopped:
            raise Closed("The agent has stopped.")
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    async def run_reading(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Runs work that serialises many rows for subscribers, in separate threads."""
        return await self._run(self._reading, partial(work, *args, **options))

    @asynccontextmanager
    async def turn(self, request: Request, for_others: bool = False) -> AsyncIterator[None]:
        """Waits until the caller may run one more query, and counts it within the block.

        Those that wait for other servers (`for_others`) are counted apart.
        """
        caller = caller_of(request)
        settings = self.settings
        key = caller.name, for_others
        if self._waiting[key] >= settings.queries_waiting:
            raise Refused(
                429,
                f"{settings.queries_waiting:,} queries of {caller.name!r} are waiting already. Try again "
                f"when some of them are answered.",
                {"Retry-After": "5"},
            )
        most = settings.queries if caller.token is None else settings.queries_per_token
        turns = self._turns.setdefault(key, asyncio.Semaphore(min(most, settings.queries)))
        self._waiting[key] += 1
        try:
            await turns.acquire()
        finally:
            self._waiting[key] -= 1
        try:
            yield
        finally:
            turns.release()

    async def answer(
        self,
        request: Request,
        work: Callable[[], Result],
        seconds: float,
        what: str = "Query",
        for_others: bool = False,
    ) -> Response:
        """Runs work that gives a result, and streams the result; both together have a time limit.

        Holds the caller's turn until the result is sent, and stops if the client leaves. `for_others`: the
        work may wait for other servers.
        """
        run = partial(self._run, self._for_others) if for_others else self.run_long
        paced = Paced(seconds, what)

        def begin() -> tuple[Result, tuple[bytes, bool]]:
            result = paced.begin(work)
            return result, paced.next()

        async with AsyncExitStack() as held:
            watching = asyncio.create_task(_set_when_gone(request, paced.cancelled))
            held.callback(watching.cancel)
            await held.enter_async_context(self.turn(request, for_others))
            result, first = await run(begin)
            return Streamed(
                result,
                first,
                paced,
                coder_for(request),
                run,
                held.pop_all(),
                self.settings.stall_seconds,
            )

    def require(self, request: Request, right: Right) -> None:
        """Rejects a caller that lacks a right, for operations whose right depends on the request."""
        self.access.require(request, right)

    @contextmanager
    def computes(self) -> Iterator[None]:
        """Marks the agent as not ready within the block, while a view is computed."""
        key = object()
        self.computing[key] = time.monotonic()
        try:
            yield
        finally:
            del self.computing[key]

    async def start(self) -> None:
        """Starts the background tasks; called in the event loop."""
        await self.hub.start()

    async def stop(self) -> None:
        """Stops the streams and threads; leaves the session open."""
        self._stopped = True
        self.hub.stop()
        pools = (
            self._threads, self._status, self._computing, self._long, self._for_others, self._reading,
        )  # fmt: skip
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


async def _set_when_gone(request: Request, event: threading.Event) -> None:
    """Sets an event when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    event.set()
