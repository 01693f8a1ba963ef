"""Serving a store until a signal ends it: the port is open at once, the store is opened behind it.

Owns the order of starting and stopping. While the store is opened, /healthz and /readyz answer and everything
else waits. Stopping: streams hear of it, requests under way finish, the store is closed, all within
`stop_seconds`; what computes longer than that is ended, or left, and the store is as of its last epoch.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from sparqlive.agent.access import Access, is_this_machine
from sparqlive.agent.agent import Agent
from sparqlive.agent.app import make_app
from sparqlive.agent.origins import ANY
from sparqlive.agent.problems import answer
from sparqlive.agent.routes.health import Opening, health
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from sparqlive.agent.wire import protocol
from sparqlive.errors import Closed, Error
from sparqlive.numbers import MOST_PORT, whole
from sparqlive.session import Session
from sparqlive.sparql.deadline import watchdog

_log = logging.getLogger("sparqlive.agent")

_SWITCH_SECONDS = 0.001

OpenStore = Callable[[Opening], Session]


@dataclass(frozen=True)
class Listening:
    """Where an agent listens; with a certificate and its key, by TLS."""

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        whole("port", self.port, most=MOST_PORT)
        if (self.certificate is None) != (self.key is None):
            raise Error("TLS needs both a certificate and its key: --tls-certificate and --tls-key.")

    def bound(self) -> socket.socket:
        """The open port."""
        try:
            family, _, _, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            # Named, so that asyncio sends without delay (TCP_NODELAY): else small answers wait 40 ms.
            made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen()
        except OSError as error:
            raise Error(f"{self.host} port {self.port} cannot be listened at: {error}.") from error
        return made


def address_of(listening: Listening, bound: socket.socket) -> str:
    """What a client calls it."""
    scheme = "http" if listening.certificate is None else "https"
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"


def serve(
    store: Path,
    open_store: OpenStore,
    settings: Settings,
    listening: Listening,
    started: Callable[[str], None],
) -> None:
    """Answers for a store until SIGTERM or SIGINT; `started` hears of the address."""
    local = is_this_machine(listening.host)
    if not local and not Tokens(store).all():
        raise Error(
            f"Others than this machine reach {listening.host}, and {store} has no tokens: make one first, "
            f"with sparqlive token create."
        )
    door = Door(open_store, settings, Access(store, local, settings.origins))
    if ANY in settings.origins and not Tokens(store).wanted:
        _log.warning("every page that is open in a browser on this machine may read and change the store")
    if not local and listening.certificate is None:
        _log.warning(
            "others reach the agent without TLS: tokens can be read on the way, unless a proxy speaks it"
        )
    # Threads that compute give way this often to those that answer: Python's own 5 ms add up.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with listening.bound() as bound:
        server = Server(configured(door, settings, listening), door)
        started(address_of(listening, bound))
        # uvicorn hands on the signals that it took once it has stopped: by then they have done their work.
        before = {number: signal.signal(number, _nothing) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            server.run([bound])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if door.failure is not None:
        raise door.failure


def _nothing(*_: object) -> None: ...


def configured(
    app: ASGIApp, settings: Settings, listening: Listening, lifespan: Literal["on", "off"] = "off"
) -> uvicorn.Config:
    """The web server's settings."""
    config = uvicorn.Config(
        app,
        http=protocol(settings.header_seconds),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=max(1, round(settings.stop_seconds / 2)),
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    try:
        config.load()
        return config
    except OSError as error:
        raise Error(f"The certificate or its key cannot be used: {error}.") from error


class Door:
    """The application from the moment that the port is open until it is closed."""

    def __init__(self, open_store: OpenStore, settings: Settings, access: Access | None = None) -> None:
        self._open_store = open_store
        self._access = access
        self.settings = settings
        self._opening = Opening()
        self._app: ASGIApp | None = None
        self._agent: Agent | None = None
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self.failure: Error | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None and scope["path"] in ("/healthz", "/readyz"):
            await health(self._opening, scope["path"])(scope, receive, send)
            return
        await self._changed.wait()
        app = self._app or answer(503, "The agent is stopping.")
        await app(scope, receive, send)

    async def open(self) -> None:
        """Opens the store, lets requests in until `close`, and closes it."""
        try:
            session = await asyncio.to_thread(self._open_store, self._opening)
        except Error as error:
            self.failure = error
            return
        try:
            self._agent = Agent(session, self.settings, self._access)
            app = make_app(self._agent)
            async with app.router.lifespan_context(app):
                self._app = app
                self._changed.set()
                _log.info(
                    "the store is open", extra={"more": {"epoch": session.epoch, "views": len(session.views)}}
                )
                await self._closing.wait()
        finally:
            await asyncio.to_thread(session.close)
            _log.info("the store is closed")

    def stopping(self) -> None:
        """Streams end now, and nobody waits for the store any more."""
        _log.info("stopping")
        self._changed.set()
        if self._agent is not None:
            self._agent.stopping.set()

    def close(self) -> None:
        """Nobody asks any more."""
        self._closing.set()


class Server(uvicorn.Server):
    """A server that opens its door's store when it listens, and closes it when it has stopped."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._opened = asyncio.create_task(self._door.open())
        self._opened.add_done_callback(self._ended)

    def _ended(self, opened: asyncio.Task[None]) -> None:
        self.should_exit = True  # a store that cannot be opened ends it all

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._door.stopping()
        await super().shutdown(sockets)
        watchdog().stop_all(Closed("The agent is stopping."))  # their threads would be waited for
        self._door.close()
        done, _ = await asyncio.wait([self._opened], timeout=self._door.settings.stop_seconds / 2)
        if not done:
            _log.warning("stopped while something was computed; the store is as of its last epoch")
            logging.shutdown()
            sys.stdout.flush()
            os._exit(0)  # threads cannot be ended, and would be waited for
        self._opened.result()
