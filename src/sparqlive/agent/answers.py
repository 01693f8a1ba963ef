"""Results as responses that are produced while they are sent, piece by piece.

A piece is produced when the connection can take it, in a thread, so a slow reader holds one piece and no
thread. All pieces together have the time limit of a query; waiting for the reader does not count. A reader
keeps its place among the queries of its token until it has read the whole body, leaves, or has accepted no
data for too long. Invariant: a result that fails after its first byte ends without its last chunk, so that no
client takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sparqlive.agent.codings import Coder
from sparqlive.errors import Error
from sparqlive.runtime.deadline import cancelled_by, flagged, give_way, within

# Small pieces are sent together, unless the next one takes long.
_PIECE_BYTES = 1 << 16
_GATHER_SECONDS = 0.02
# The first rows do not wait for others, which may take long to compute.
_FIRST_BYTES = 1 << 12
# Smaller bodies are not worth compressing.
_SMALL_BYTES = 1_000

PLAIN = " !\"#$&'()*+,:;<=>?@[\\]^`{|}"
"""What a header has besides letters and digits; all else in a name or a sentence is percent-encoded."""

_log = logging.getLogger("sparqlive.agent")


def hint_header(hint: str | None) -> dict[str, str]:
    """The header that says why a result has no rows, if there is something to say."""
    return {} if hint is None else {"Sparqlive-Hint": quote(hint, safe=f"{PLAIN}/")}


@dataclass(frozen=True)
class Result:
    """What a response consists of: the pieces of its body, its headers and its media type."""

    pieces: Iterator[str] | Iterator[bytes]
    headers: Mapping[str, str]
    media_type: str


class Paced:
    """An iterator over pieces whose production has a time limit, and can be cancelled."""

    def __init__(self, seconds: float, what: str) -> None:
        self.cancelled = threading.Event()
        self._seconds = seconds
        self._what = what
        self._spent = 0.0
        self._enough = _FIRST_BYTES
        self._pieces: Iterator[str] | Iterator[bytes] = iter(())

    def begin(self, work: Callable[[], Result]) -> Result:
        """Runs the work that gives the pieces, which has limits of its own; its time counts."""
        began = time.monotonic()
        with cancelled_by(self.cancelled):
            result = work()
        self._spent = time.monotonic() - began
        self._pieces = result.pieces
        return result

    def over(self, pieces: Iterator[bytes]) -> Paced:
        """Takes the pieces to produce."""
        self._pieces = pieces
        return self

    def next(self) -> tuple[bytes, bool]:
        """Produces some bytes; returns them, and whether they are the last."""
        began = time.monotonic() - self._spent
        try:
            with cancelled_by(self.cancelled):
                return within(self._seconds, self._gather, self._what, began)
        finally:
            self._spent = time.monotonic() - began

    def _gather(self) -> tuple[bytes, bool]:
        if self._spent:
            give_way(flagged([]))
        found: list[bytes] = []
        size, until = 0, time.monotonic() + _GATHER_SECONDS
        enough, self._enough = self._enough, _PIECE_BYTES
        for piece in self._pieces:
            data = piece.encode() if isinstance(piece, str) else piece
            found.append(data)
            size += len(data)
            if size >= enough or time.monotonic() > until:
                return b"".join(found), False
        return b"".join(found), True


class Streamed(Response):
    """A response whose body is produced while it is sent; closes `held` at the end."""

    def __init__(
        self,
        result: Result,
        first: tuple[bytes, bool],
        paced: Paced,
        coder: Coder | None,
        produce: Callable[[Callable[[], tuple[bytes, bool]]], Awaitable[tuple[bytes, bool]]],
        held: AsyncExitStack,
        stall_seconds: float,
    ) -> None:
        data, whole = first
        if whole and len(data) < _SMALL_BYTES:
            coder = None
        headers = {**result.headers, "Vary": "Accept, Accept-Encoding"}
        if coder is not None:
            headers["Content-Encoding"] = coder.name
            if "ETag" in headers:
                headers["ETag"] = f'{headers["ETag"][:-1]}-{coder.name}"'
            data = coder.encode(data, whole)
        super().__init__(data if whole else b"", 200, headers, media_type=result.media_type)
        if not whole:
            del self.headers["content-length"]
        self._first = data, whole
        self._paced = paced
        self._coder = coder
        self._produce = produce
        self._resources = held
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._resources:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            try:
                await self._send_all(send)
            except TimeoutError:
                _log.info("A reader accepted no data for %g s and was disconnected", self._stall_seconds)
                if (abort := scope.get("state", {}).get("abort")) is not None:
                    abort()  # closing would wait until the reader takes what is left
                    await asyncio.sleep(0)
            except Error as error:
                if not self._paced.cancelled.is_set():
                    _log.warning("A response was broken off: %s", error)
            except Exception:
                _log.exception("A response was broken off")

    async def _send_all(self, send: Send) -> None:
        data, whole = self._first
        self._first = b"", True
        while not self._paced.cancelled.is_set():
            async with asyncio.timeout(self._stall_seconds):
                await send({"type": "http.response.body", "body": data, "more_body": not whole})
            if whole:
                return
            data, whole = await self._produce(self._next)

    def _next(self) -> tuple[bytes, bool]:
        data, whole = self._paced.next()
        return (data if self._coder is None else self._coder.encode(data, whole)), whole
