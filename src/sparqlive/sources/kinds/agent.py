"""A CONSTRUCT or DESCRIBE view of another agent, followed by its event stream. Builds aggregators.

Each epoch of the other agent is a report, and its number is the version to continue from. A content or change
that comes in parts is one report, once it is complete. If the other agent no longer has the changes after the
version, it sends the whole graph. Blank nodes of the other agent keep their labels from epoch to epoch, so
they need no matching: each maps to a node named by the view's address and its label, which no other source
uses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

from pyoxigraph import BlankNode, Quad

from sparqlive.errors import Error
from sparqlive.sources.polling import first_of
from sparqlive.sources.watcher import Changes, Content, Report, Unchanged, Version
from sparqlive.web.answers import failure
from sparqlive.web.event_stream import (
    LINEAGE,
    MEDIA_TYPE,
    SILENT_SECONDS,
    Event,
    Followed,
    Parser,
    Term,
    TermRow,
    changes_address,
)
from sparqlive.web.network import Network, Reach, Response, checked_url

_GRAPH = ("subject", "predicate", "object")


class Agent:
    def __init__(self, address: str, **reach: Any) -> None:
        checked_url(address)
        self._address = changes_address(address)
        self._reach = Reach(**reach)
        self._scope = sha256(self._address.encode()).hexdigest()[:16]

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        while True:
            wake.clear()
            version = await self._follow(version, report, wake)

    async def _follow(self, version: Version | None, report: Report, wake: asyncio.Event) -> Version | None:
        """Follows a stream until a refresh is requested, which means a new stream."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._reach.timeout_seconds):
                    lineage, pieces = await stack.enter_async_context(self._stream(version))
            except TimeoutError as error:
                raise Error(f"{self._address} did not respond in time.") from error
            parser = Parser(self._reach.max_bytes)
            gathered = _Gathered(self._address, self._scope, self._reach.max_bytes)
            while (piece := await self._next(pieces, wake)) is not None:
                for event in parser.feed(piece):
                    if event.kind == "end":
                        ending = json.loads(event.data)
                        if ending["reason"] == "behind":
                            return version
                        raise Error(f"{self._address}: {ending['detail']}")
                    await asyncio.to_thread(gathered.add, event)
                    if event.id:
                        version = {"epoch": int(event.id), "lineage": lineage}
                        await report(gathered.taken(version))
        return version

    @asynccontextmanager
    async def _stream(self, version: Version | None) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """Opens a stream: yields the lineage of the other agent, and the bytes of its events."""
        parameters = urlencode({"since": version["epoch"], "lineage": version["lineage"]} if version else {})
        url = f"{self._address}{'&' if '?' in self._address else '?'}{parameters}"
        headers = {"Accept": MEDIA_TYPE, "Accept-Encoding": "identity"}
        async with (
            Network(self._reach, self._address) as network,
            network.open("GET", url, headers) as (status, found, where, body),
        ):
            if status != 200:
                raise Error(failure(Response(where, status, found, b"")))
            if not found.get("content-type", "").startswith(MEDIA_TYPE):
                raise Error(f"{where} is not a stream of changes. Use the address of a view of an agent.")

            async def pieces() -> AsyncIterator[bytes]:
                async for piece in body:
                    network.renew()  # only one event is held at a time, and its size is bounded
                    yield piece

            yield found.get(LINEAGE.lower(), ""), pieces()

    async def _next(self, pieces: AsyncIterator[bytes], wake: asyncio.Event) -> bytes | None:
        """Returns the next bytes; None if a refresh is requested first."""
        reading = asyncio.ensure_future(anext(pieces, None))
        try:
            await first_of(reading, wake, seconds=SILENT_SECONDS)
            if reading.done():
                if (piece := reading.result()) is None:
                    raise Error(f"{self._address}: the stream ended without an end event.")
                return piece
            if not wake.is_set():
                raise Error(f"{self._address} has sent no data for {SILENT_SECONDS:g} s.")
            return None
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])


class _Gathered:
    """What the events since the last position add up to; a large content or change comes in parts."""

    def __init__(self, address: str, scope: str, max_bytes: int) -> None:
        self._address = address
        self._scope = scope
        self._max_bytes = max_bytes
        self._clear()

    def _clear(self) -> None:
        self._insert: list[Quad] = []
        self._delete: list[Quad] = []
        self._reset = False
        self._bytes = 0

    def add(self, event: Event) -> None:
        if event.kind not in ("snapshot", "delta"):
            return
        if event.kind == "snapshot":
            self._clear()
            self._reset = True
        self._bytes += len(event.data)
        if self._bytes > self._max_bytes:
            raise Error(f"A change of {self._address} is larger than {self._max_bytes:,} bytes.")
        followed = Followed(event.data, event.kind == "snapshot")
        if followed.variables != _GRAPH:
            raise Error(f"{self._address} is not a graph. Only CONSTRUCT and DESCRIBE views can be sources.")
        for row, weight in followed.weights().items():
            (self._insert if weight > 0 else self._delete).append(self._quad(row))

    def taken(self, version: Version) -> Unchanged | Content | Changes:
        """Returns everything up to a position, and starts over."""
        insert, delete, reset = self._insert, self._delete, self._reset
        self._clear()
        if reset:
            return Content(insert, version, labelled=True)
        return Changes(insert, delete, version) if insert or delete else Unchanged(version)

    def _quad(self, row: TermRow) -> Quad:
        try:
            return Quad(*(self._own(term) for term in row))  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise Error(f"{self._address} sent an invalid triple: {error}.") from error

    def _own(self, term: Term | None) -> Term | None:
        """Maps a blank node of the other agent to a local one."""
        if not isinstance(term, BlankNode):
            return term
        return BlankNode(f"a{self._scope}{sha256(term.value.encode()).hexdigest()[:16]}")
