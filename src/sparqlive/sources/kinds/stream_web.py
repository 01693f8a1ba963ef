"""A stream of changes on the Web: the body of a response."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from typing import Any

from sparqlive.errors import Error
from sparqlive.sources.kinds.stream_batches import (
    Batches,
    Place,
    Replaced,
    WhenReplaced,
    another_stream,
    check_options,
    follow,
)
from sparqlive.sources.polling import Look, checked_interval, wait
from sparqlive.sources.watcher import Failed, Report, Unchanged, Version
from sparqlive.web.answers import failure, retry_after_seconds
from sparqlive.web.network import Network, Reach, Response, checked_url
from sparqlive.web.retry import retry_seconds

# How long a response may take to begin before the stream counts as quiet.
_FIRST_SECONDS = 1.0
# max_bytes bounds the part of a stream in memory; the network may read ahead at least this much.
_LEAST_NETWORK_BYTES = 4 << 20
_ACCEPT = "application/rdf-patch, text/plain;q=0.9, */*;q=0.5"
_CONTENT_RANGE = re.compile(r"bytes (\d+)-")


class Body:
    """The body of a response, which need not end; when it ends or breaks, it is requested again.

    With `replays`, a response begins with the stream's first byte or at the requested Range, and committed
    changes are skipped. Without it, a response has only changes from then on, and changes sent while there is
    no connection are lost.
    """

    def __init__(
        self,
        address: str,
        *,
        replays: bool = True,
        quiet_seconds: float = 0.2,
        when_replaced: WhenReplaced = "stop",
        poll_interval_seconds: float | None = 1.0,
        **reach: Any,
    ) -> None:
        check_options(quiet_seconds, when_replaced)
        if not isinstance(replays, bool):
            raise Error(f"replays must be true or false, not {replays!r}.")
        checked_url(address)
        self._address = address.partition("#")[0]
        self._replays = replays
        self._quiet_seconds = quiet_seconds
        self._begins = when_replaced == "begin"
        self._interval_seconds = checked_interval(poll_interval_seconds)
        self._reach = Reach(**reach)
        self._place = Place()

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        self._place, failures = Place.of(version), 0
        while True:
            wake.clear()
            before, seen = self._place, Look(Unchanged())
            try:
                seen = await self._answer(report, wake)
            except Replaced:
                if self._begins:
                    self._place = Place()
                    await report(Unchanged(asdict(self._place)))
                    continue
                hint = ", or with replays=False if responses have only changes from then on"
                seen = Look(Failed(str(another_stream(self._address, self._place, hint))))
            except Error as error:
                seen = Look(Failed(str(error)))
            if isinstance(seen.outcome, Failed):
                failures = failures + 1 if self._place == before else 1
            else:
                failures = 0
            await report(seen.outcome)
            seconds = retry_seconds(failures) if failures else self._interval_seconds
            await wait(wake, None if seconds is None else max(seconds, seen.rest_seconds))

    async def _answer(self, report: Report, wake: asyncio.Event) -> Look:
        """Reads a response to its end."""
        place = self._place = self._place if self._replays else Place()
        headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity"}
        if place.offset:
            headers["Range"] = f"bytes={place.offset - place.overlap}-"
        reach = replace(self._reach, max_bytes=max(self._reach.max_bytes, _LEAST_NETWORK_BYTES))
        async with Network(reach, self._address) as network, AsyncExitStack() as stack:
            opening = network.open("GET", self._address, headers)
            try:
                async with asyncio.timeout(reach.timeout_seconds):
                    status, found, url, body = await stack.enter_async_context(opening)
            except TimeoutError as error:
                raise Error(f"{self._address} did not respond within {reach.timeout_seconds:g} s.") from error
            if status == 416 and place.offset:
                raise Replaced
            if status != 200 and not (status == 206 and place.offset):
                reason = failure(Response(url, status, found, b""))
                return Look(Failed(reason), retry_after_seconds(found))
            passing = 0 if status == 206 else place.offset - place.overlap
            if status == 206:
                _check_range(url, found, place.offset - place.overlap)
            tail, rest = await _skip_to(self._address, body, place, passing, network)
            batches = Batches(self._address, place, tail, report, self._reach.max_bytes)
            try:
                await follow(
                    _renew(rest, body, network),
                    batches,
                    report,
                    wake,
                    quiet_seconds=self._quiet_seconds,
                    first_seconds=_FIRST_SECONDS,
                )
                await (batches.pause() if self._replays else batches.end())
            finally:
                self._place = batches.place
        return Look(Unchanged())


def _check_range(url: str, headers: Mapping[str, str], start: int) -> None:
    match = _CONTENT_RANGE.match(headers.get("content-range", ""))
    if match is None or int(match[1]) != start or "content-encoding" in headers:
        raise Error(f"{url} returned a different part of the stream than the requested Range.")


async def _skip_to(
    name: str, body: AsyncIterator[bytes], place: Place, passing: int, network: Network
) -> tuple[bytes, bytes]:
    """Reads up to the place; returns the bytes before it, and those after it that came with them."""
    found = b""
    while passing or len(found) < place.overlap:
        try:
            async with asyncio.timeout(network.reach.timeout_seconds):
                piece = await anext(body, None)
        except TimeoutError as error:
            raise Error(
                f"{name} did not send the part that was read before again within "
                f"{network.reach.timeout_seconds:g} s. Use replays=False if responses have only changes from "
                f"then on."
            ) from error
        if piece is None:
            raise Replaced
        network.renew()
        found += piece[passing:]
        passing = max(0, passing - len(piece))
    if not place.follows(found[: place.overlap]):
        raise Replaced
    return found[: place.overlap], found[place.overlap :]


async def _renew(rest: bytes, body: AsyncIterator[bytes], network: Network) -> AsyncGenerator[bytes, None]:
    if rest:
        yield rest
    async for piece in body:
        network.renew()
        if piece:
            yield piece
