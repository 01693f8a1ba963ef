"""The agent's parts together: the session, its settings, and the threads in which the session is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from sparqlive.agent.access import Access, Right
from sparqlive.agent.epoch_log import EpochLog
from sparqlive.agent.hub import Hub
from sparqlive.agent.metrics import Metrics
from sparqlive.agent.settings import Settings
from sparqlive.errors import Closed
from sparqlive.session import Session

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8
_LONG_THREADS = 4


class Agent:
    """A session that is asked over HTTP; handlers get it with each request."""

    def __init__(
        self, session: Session, settings: Settings | None = None, access: Access | None = None
    ) -> None:
        self.session = session
        self.settings = settings or Settings()
        self.access = access or Access(allowed=self.settings.origins)
        self.stopping = asyncio.Event()
        """Set when the server begins to stop: streams send a last event and end."""
        self.computing: dict[object, float] = {}
        """The views that are being computed: since when."""
        self.metrics = Metrics(self)
        self.log = EpochLog()
        session.observe(self.log.hear)
        self.hub = Hub(self)
        self._stopped = False
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agent")
        self._long = ThreadPoolExecutor(_LONG_THREADS, thread_name_prefix="agent-query")

    async def run(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Calls what waits for the session's lock, beside the event loop."""
        return await self._run(self._threads, partial(work, *args, **options))

    async def run_long(self, work: Callable[[], T]) -> T:
        """Calls what may take as long as a query may: in threads of its own, so that others need not wait."""
        return await self._run(self._long, work)

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._stopped:
            raise Closed("The agent has stopped.")
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    def require(self, request: Request, right: Right) -> None:
        """Refuses whoever lacks a right that a request takes and its operation left open."""
        self.access.require(request, right)

    @contextmanager
    def computes(self) -> Iterator[None]:
        """Inside, a view is being computed: the agent is not ready."""
        key = object()
        self.computing[key] = time.monotonic()
        try:
            yield
        finally:
            del self.computing[key]

    async def start(self) -> None:
        """The event loop runs from now on."""
        await self.hub.start()

    async def stop(self) -> None:
        """Nothing is asked any more; the session stays open."""
        self._stopped = True
        self.hub.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._long.shutdown(wait=False, cancel_futures=True)
