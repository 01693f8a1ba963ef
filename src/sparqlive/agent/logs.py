"""The agent's log: one line of JSON per event on standard error; plain text on a terminal.

Each request has an id, which its response (X-Request-Id) and all its log lines carry. Lines contain paths and
names of tokens, but no parameters, bodies or headers, and therefore no secrets.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparqlive.web.headers import AGENT

if TYPE_CHECKING:
    from sparqlive.agent.agent import Agent

_log = logging.getLogger("sparqlive.requests")
_request: ContextVar[str | None] = ContextVar("request", default=None)
# Request ids that are accepted from a proxy, so that its log and this one can be matched.
_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
# Data in a browser must never run as a page of this origin, whatever it contains.
_GUARDS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_STREAM = "text/event-stream"
# Polled every few seconds, so only failures are logged.
_PROBES = ("/healthz", "/readyz", "/metrics")


class _Formatter(logging.Formatter):
    def entry(self, record: logging.LogRecord) -> dict[str, Any]:
        time_ = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {
            "time": time_,
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        entry.update(getattr(record, "more", {}))
        if _request.get() is not None:
            entry["request"] = _request.get()
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return entry


class _Json(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.entry(record))


class _Text(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = self.entry(record)
        time_, level, message = (entry.pop(name) for name in ("time", "level", "message"))
        trace = entry.pop("trace", None)
        words = [
            time_[11:23],
            level,
            message,
            *(f"{name}={json.dumps(value)}" for name, value in entry.items()),
        ]
        return "  ".join(words) + (f"\n{trace}" if trace else "")


def start_logging(stream: TextIO | None = None) -> None:
    """Configures the logging of the process for an agent."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Text() if stream.isatty() else _Json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sparqlive").setLevel(logging.INFO)


class Requests:
    """Middleware that gives each request an id, logs it, and counts it in the metrics."""

    def __init__(self, app: ASGIApp, agent: Agent) -> None:
        self._app = app
        self._agent = agent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        proxy_id = Headers(scope=scope).get("x-request-id", "")
        request = proxy_id if _ID.fullmatch(proxy_id) else secrets.token_hex(8)
        token = _request.set(request)
        start, status, streams = time.perf_counter(), 0, False

        async def send_guarded(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request
                headers[AGENT] = "1"
                for name, value in _GUARDS.items():
                    headers.setdefault(name, value)
                streams = headers.get("content-type", "").startswith(_STREAM)
            await send(message)

        try:
            await self._app(scope, receive, send_guarded)
        finally:
            self._finish(scope, status, time.perf_counter() - start, streams)
            _request.reset(token)

    def _finish(self, scope: Scope, status: int, seconds: float, streams: bool) -> None:
        state = scope.get("state", {})
        method, route = scope["method"], state.get("route", "none")
        if route == "none":  # clients can send any method to unknown paths: one label for all
            method = "any"
        self._agent.metrics.request(method, route, status, None if streams else seconds)
        if status == 200 and route in _PROBES:
            return
        caller = state.get("caller")
        more = {
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 6),
            "who": None if caller is None else caller.name,
            "client": scope["client"][0] if scope.get("client") else None,
        }
        _log.info("%s %s", scope["method"], route, extra={"more": more})
