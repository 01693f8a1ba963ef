"""WebSockets, under the rules of `network.py`: they connect to exactly the address that was checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from sparqlive.errors import Error
from sparqlive.web.network import Reach, checked_url, connected, tls_context


@asynccontextmanager
async def web_socket(address: str, reach: Reach, most_bytes: int) -> AsyncIterator[AsyncIterator[Any]]:
    """Yields an iterator over the messages of a WebSocket, each of at most `most_bytes`."""
    scheme, separator, rest = address.partition("://")
    if not separator or scheme not in ("ws", "wss"):
        raise Error(f"{address} is not the address of a WebSocket.")
    url = checked_url(f"{'https' if scheme == 'wss' else 'http'}://{rest}")
    secure: dict[str, Any] = {}
    if scheme == "wss":
        secure = {"ssl": tls_context(), "server_hostname": url.host}
    socket = await connected(url, url.port or (443 if secure else 80), reach)
    try:
        async with connect(  # with `sock`, the library follows no redirects
            address,
            sock=socket,
            proxy=None,
            max_size=most_bytes,
            user_agent_header="sparqlive",
            **secure,
        ) as connection:
            try:
                yield aiter(connection)
            finally:  # does not wait for the server's closing handshake
                connection.transport.abort()
    except (WebSocketException, OSError, ValueError) as error:
        raise Error(f"{address}: the WebSocket connection failed: {error}.") from error
