"""HTTP/1.1 on the wire: bounds on the size and speed of a request before a handler sees it.

Owns the bounds on the header of a request and on the chunks of its body, and the response to malformed HTTP.
Invariant: the connection is closed after a request whose end is ambiguous (RFC 9112 §6.3), and after a
request that is rejected here.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparqlive.agent.problems import problem_json

_SILENT_MILLISECONDS = 60_000
_LINGER_SECONDS = 1.0
HEAD_BYTES = 1 << 16
"""The size limit of a request's header."""
_MOST_HEADERS = 200
# Each chunk of a body costs time, however small it is, so the number of small chunks is limited.
_SMALL_CHUNKS = 5_000
_SMALL_BYTES = 64


class _Connection(h11.Connection):
    """The data that a client sends, within bounds."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._chunks = 0
        self._bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
            _check_head(event)
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > _SMALL_CHUNKS + self._bytes // _SMALL_BYTES:
                raise h11.RemoteProtocolError(
                    "the body has too many small chunks: send larger chunks, or a Content-Length"
                )
        return event


def _check_head(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if len(request.target) > HEAD_BYTES:
        raise h11.RemoteProtocolError(f"the URL is longer than {HEAD_BYTES:,} bytes", 414)
    size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
    if size > HEAD_BYTES or len(names) > _MOST_HEADERS:
        raise h11.RemoteProtocolError(
            f"it has more than {_MOST_HEADERS} headers, or more than {HEAD_BYTES:,} bytes of them", 431
        )
    if b"content-length" in names and b"transfer-encoding" in names:
        raise h11.RemoteProtocolError(
            "it has both a Content-Length and a Transfer-Encoding: send one of them"
        )


def protocol(header_seconds: float) -> type[H11Protocol]:
    """Returns the HTTP/1.1 protocol class; clients have `header_seconds` to send a request's header."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            self.conn = _Connection()
            super().connection_made(transport)
            # Bounds the wait for a peer that accepts no data or has vanished.
            if sys.platform == "linux":
                connection = transport.get_extra_info("socket")
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MILLISECONDS)
            # For handlers, as `request.state.abort`: closing would wait until the reader takes what is left.
            self.app_state = {**self.app_state, "abort": transport.abort}
            self._head_due = self.loop.call_later(header_seconds, self._give_up)

        def _give_up(self) -> None:
            """Closes the connection if no complete header has arrived in time."""
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            """Answers malformed or too large requests; the server calls this while it handles the error."""
            error = sys.exception()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
                self._send_last(status, f"Request rejected: {str(error)[:200]}.")
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.transport.close()

        def _send_last(self, status: int, sentence: str) -> None:
            body = json.dumps(problem_json(status, sentence)).encode()
            headers = [
                ("content-type", "application/problem+json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            response = h11.Response(
                status_code=status, headers=headers, reason=problem_json(status, "")["title"]
            )
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._head_due.cancel()
            # An unread body is discarded for a moment, so that its sender can read the response.
            patience = _LINGER_SECONDS if self.cycle.more_body else header_seconds + self.timeout_keep_alive
            self._head_due = self.loop.call_later(patience, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_due.cancel()
            super().connection_lost(exc)

    return Protocol
