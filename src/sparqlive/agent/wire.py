"""HTTP/1.1 on the wire: how large and how slow a request may be before anybody looks at what it asks.

Owns the bounds on the head of a request and on the pieces of its body, and the answer to what is no HTTP.
Invariant: after a request whose end two readers could see at different places (RFC 9112 §6.3), and after one
that is refused here, the connection is closed.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparqlive.agent.problems import described

_SILENT_MILLISECONDS = 60_000
_LINGER_SECONDS = 1.0
HEAD_BYTES = 1 << 16
"""How large the head of a request may be."""
_MOST_HEADERS = 200
# Each chunk of a body costs time, however small it is: so many may be small.
_SMALL_CHUNKS = 5_000
_SMALL_BYTES = 64


class _Connection(h11.Connection):
    """What the other side sends, within bounds."""

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
                    "the body is sent in too many small chunks: send larger ones, or its length"
                )
        return event


def _check_head(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if len(request.target) > HEAD_BYTES:
        raise h11.RemoteProtocolError(f"the address is longer than {HEAD_BYTES:,} bytes", 414)
    size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
    if size > HEAD_BYTES or len(names) > _MOST_HEADERS:
        raise h11.RemoteProtocolError(
            f"its head has more than {_MOST_HEADERS} headers or {HEAD_BYTES:,} bytes", 431
        )
    if b"content-length" in names and b"transfer-encoding" in names:
        raise h11.RemoteProtocolError("it has a Content-Length and a Transfer-Encoding: give one of them")


def protocol(header_seconds: float) -> type[H11Protocol]:
    """HTTP/1.1 whose clients have so many seconds for the head of a request."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            self.conn = _Connection()
            super().connection_made(transport)
            # A peer that takes nothing, or is gone without a word, is not waited for longer than this.
            if sys.platform == "linux":
                connection = transport.get_extra_info("socket")
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MILLISECONDS)
            self._head_due = self.loop.call_later(header_seconds, self._give_up)

        def _give_up(self) -> None:
            """Nothing was asked in time: the connection is closed, whatever piece of a head there is."""
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            """What came is no HTTP, or too much: the server calls this where it has caught the error."""
            error = sys.exception()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
                self._send_last(status, f"The request is refused: {str(error)[:200]}.")
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.transport.close()

        def _send_last(self, status: int, sentence: str) -> None:
            body = json.dumps(described(status, sentence)).encode()
            headers = [
                ("content-type", "application/problem+json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            response = h11.Response(
                status_code=status, headers=headers, reason=described(status, "")["title"]
            )
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._head_due.cancel()
            # A body that nobody reads is thrown away for a moment, so that its sender can see the answer.
            patience = _LINGER_SECONDS if self.cycle.more_body else header_seconds + self.timeout_keep_alive
            self._head_due = self.loop.call_later(patience, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_due.cancel()
            super().connection_lost(exc)

    return Protocol
