"""Serves a store until a signal stops it. The port opens at once, before the store.

Owns the order of starting and stopping. While the store opens, /healthz and /readyz answer and other requests
wait. On stopping, streams get a last event, running requests finish, and the store is closed, all within
`stop_seconds`. Computations that take longer are stopped or abandoned; the store keeps its last epoch.
"""

from __future__ import annotations

import asyncio
import errno
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
from sparqlive.runtime.deadline import watchdog
from sparqlive.session import Session
from sparqlive.sparql.syntax import parse_query

_log = logging.getLogger("sparqlive.agent")

_SWITCH_SECONDS = 0.001

OpenStore = Callable[[Opening], Session]


@dataclass(frozen=True)
class Listening:
    """Where an agent listens; over TLS if it has a certificate and key."""

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        whole("port", self.port, most=MOST_PORT)
        if (self.certificate is None) != (self.key is None):
            raise Error(
                "TLS needs both a certificate and its key. Use --tls-certificate and --tls-key together."
            )

    def listen(self) -> socket.socket:
        """Returns a socket that listens on the port."""
        try:
            family, _, _, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            # With IPPROTO_TCP named, asyncio sets TCP_NODELAY; otherwise small answers wait 40 ms.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except OSError as error:
            other = error.errno in (errno.EADDRINUSE, errno.EACCES)
            hint = " Choose another --port; 0 picks a free one." if other else ""
            reason = error.strerror or error
            raise Error(f"Cannot listen on {self.host} port {self.port}: {reason}.{hint}") from error
        return listener


def address_of(listening: Listening, bound: socket.socket) -> str:
    """The base URL of the agent for clients."""
    scheme = "http" if listening.certificate is None else "https"
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"


def serve(
    store: Path,
    open_store: OpenStore,
    settings: Settings,
    listening: Listening,
    listens: Callable[[str], None],
) -> None:
    """Serves a store until SIGTERM or SIGINT.

    Calls `listens` with the agent's URL, before the store is open.
    """
    local = is_this_machine(listening.host)
    if not local and not Tokens(store).all():
        raise Error(
            f"Other machines can reach {listening.host}, and {store} has no tokens. Create one first: "
            f"sparqlive token create --store {store} --can read."
        )
    door = Door(open_store, settings, Access(store, local, settings.origins))
    if ANY in settings.origins and not Tokens(store).required:
        _log.warning("every web page in a browser on this machine can read and change the store")
    if not local and listening.certificate is None:
        _log.warning(
            "other machines reach the agent without TLS: tokens are sent unencrypted unless a proxy adds TLS"
        )
    # How often computing threads yield to answering ones: Python's default of 5 ms adds up.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with listening.listen() as bound:
        server = Server(configuration(door, settings, listening), door)
        listens(address_of(listening, bound))
        # After it has stopped, uvicorn raises the signals again that it received: they are ignored here.
        before = {number: signal.signal(number, _nothing) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            server.run([bound])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if door.failure is not None:
        raise door.failure


def _nothing(*_: object) -> None: ...


def configuration(
    app: ASGIApp, settings: Settings, listening: Listening, lifespan: Literal["on", "off"] = "off"
) -> uvicorn.Config:
    """Returns the configuration of the web server."""
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
        raise Error(f"Cannot use the TLS certificate or its key: {error}.") from error


class Door:
    """The application while the port is open: before, while and after the store is open."""

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
        """Opens the store, accepts requests until `close` is called, and closes the store."""
        try:
            session, _ = await asyncio.gather(
                asyncio.to_thread(self._open_store, self._opening),
                asyncio.to_thread(parse_query, "ASK {}"),  # builds the parser, so that no client waits for it
            )
        except Error as error:
            if not self._changed.is_set():  # otherwise the agent was stopped meanwhile
                self.failure = error
            return
        try:
            self._agent = Agent(session, self.settings, self._access)
            app = make_app(self._agent)
            async with app.router.lifespan_context(app):
                self._app = app
                self._changed.set()
                _log.info(
                    "store opened", extra={"more": {"epoch": session.epoch, "views": len(session.views)}}
                )
                await self._closing.wait()
        finally:
            await asyncio.to_thread(session.close)
            _log.info("store closed")

    def stopping(self) -> None:
        """Ends the streams, and answers the requests that wait for the store."""
        _log.info("stopping")
        self._changed.set()
        if self._agent is not None:
            self._agent.stopping.set()

    def close(self) -> None:
        """Lets `open` close the store; called after the last request."""
        self._closing.set()


class Server(uvicorn.Server):
    """A server that opens the store once it listens, and closes it after the last request."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._opening = asyncio.create_task(self._door.open())
        self._opening.add_done_callback(self._end)

    def _end(self, opening: asyncio.Task[None]) -> None:
        self.should_exit = True  # also when the store cannot be opened

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._door.stopping()
        await super().shutdown(sockets)
        watchdog().stop_all(Closed("The agent is stopping."))  # the process would wait for their threads
        self._door.close()
        done, _ = await asyncio.wait([self._opening], timeout=self._door.settings.stop_seconds / 2)
        if not done:
            _log.warning("stopped during a computation; the store keeps its last epoch")
            logging.shutdown()
            sys.stdout.flush()
            os._exit(0)  # threads cannot be stopped, and a normal exit would wait for them
        self._opening.result()
