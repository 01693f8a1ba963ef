"""Large responses, sent in pieces so that they do not block the event loop.

The body is complete before it is sent. A reader keeps its place among the queries of its token until it has
read the whole body, or has accepted no data for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_PIECE_BYTES = 1 << 16


class Whole(Response):
    """A complete body, sent piece by piece; closes `held` at the end."""

    def __init__(
        self,
        content: bytes,
        headers: Mapping[str, str],
        media_type: str,
        held: AsyncExitStack,
        stall_seconds: float,
    ) -> None:
        super().__init__(content, 200, dict(headers), media_type=media_type)
        self._resources = held
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._resources:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            body = memoryview(self.body)
            for start in range(0, len(body), _PIECE_BYTES):
                piece = bytes(body[start : start + _PIECE_BYTES])
                async with asyncio.timeout(self._stall_seconds):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
