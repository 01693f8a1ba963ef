"""Notification channels of a Solid storage: how they are found, and what is heard through them.

Owns discovery (Solid Notifications Protocol: the resource links to the description of its storage, which
lists subscription services), subscribing, and renewing what ended. A notification is a hint that something
changed and nothing more: it is not read, so that what is doubled, late or forged costs a look. Every address
that a server names, those of WebSockets too, is reached by the rules of `network.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import urljoin

from pyoxigraph import NamedNode, Quad

from sparqlive.errors import Error
from sparqlive.sources.polling import wait
from sparqlive.sources.watcher import Notifications, Report
from sparqlive.web.answers import failure
from sparqlive.web.document import ACCEPT, read_document
from sparqlive.web.network import (
    Login,
    Network,
    Reach,
    Response,
    checked_url,
    same_origin,
)
from sparqlive.web.retry import retry_seconds
from sparqlive.web.sockets import web_socket

_NOTIFY, _SOLID = "http://www.w3.org/ns/solid/notifications#", "http://www.w3.org/ns/solid/terms#"
_SUBSCRIPTION, _CHANNEL_TYPE = NamedNode(_NOTIFY + "subscription"), NamedNode(_NOTIFY + "channelType")
STREAMING, WEB_SOCKET = "StreamingHTTPChannel2023", "WebSocketChannel2023"
# A channel is renewed after so long at the latest: it may be dead without saying so.
_LONGEST_SECONDS = 900.0
# One that ends sooner is not asked for again at once.
_SHORTEST_SECONDS = 10.0
_MOST_MESSAGE_BYTES = 1 << 20
_LINK = re.compile(r'<([^<>]*)>((?:\s*;\s*[^\s=;,]+\s*(?:=\s*(?:"[^"]*"|[^\s;,"]*))?)*)')
_RELATIONS = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))', re.IGNORECASE)

_Begun: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Offer:
    """A way to be notified: of a stream its address, otherwise that of the service to subscribe at."""

    kind: str
    address: str
    is_stream: bool = False


class Channels:
    """Listens to the resources of one source, and tells how far it is notified."""

    def __init__(self, reach: Reach, login: Login | None, report: Report, wake: asyncio.Event) -> None:
        self._reach = reach
        self._login = login
        self._report = report
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, asyncio.Event] = {}
        self._states: dict[str, tuple[str | None, str]] = {}
        self._told: str | None = None
        self._telling = asyncio.Lock()

    def keep(self, changed: Mapping[str, Callable[[], None]]) -> None:
        """Listens to these resources from now on, and to no others; each with what it calls on changes."""
        for topic in self._tasks.keys() - changed.keys():
            self._tasks.pop(topic).cancel()
            self._again.pop(topic)
            self._states.pop(topic, None)
        for topic in changed.keys() - self._tasks.keys():
            self._again[topic] = asyncio.Event()
            self._tasks[topic] = asyncio.create_task(self._listen(topic, changed[topic], self._again[topic]))

    def retry(self) -> None:
        """The source can be reached again: what has no channel need not wait."""
        for topic, (kind, _) in self._states.items():
            if kind is None:
                self._again[topic].set()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _listen(self, topic: str, changed: Callable[[], None], again: asyncio.Event) -> None:
        """Listens until it is cancelled: what ends is renewed, what fails is tried again ever later."""

        def heard() -> None:
            changed()
            self._wake.set()

        async def begun(kind: str) -> None:
            await self._tell(topic, kind)
            heard()  # what changed before the channel was there, it does not tell

        channel = _Channel(topic, self._reach, self._login, begun, heard)
        failures = 0
        while True:
            again.clear()
            start = time.monotonic()
            try:
                await channel.listen()
            except Exception as error:
                reason = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}."
                await self._tell(topic, None, reason)
            else:
                lasted = time.monotonic() - start
                if lasted >= _SHORTEST_SECONDS:
                    failures = 0
                    continue
                await self._tell(topic, None, f"{topic}: its channel ended after {lasted:.1f} seconds.")
            failures += 1
            await wait(again, retry_seconds(failures))

    async def _tell(self, topic: str, kind: str | None, reason: str = "") -> None:
        """Reports how far the source is notified, if that is new."""
        self._states[topic] = (kind, reason)
        async with self._telling:  # the last word is the last one to be reported
            told = self._summary()
            if told != self._told:
                self._told = told
                await self._report(Notifications(told))

    def _summary(self) -> str:
        kinds = sorted({kind for kind, _ in self._states.values() if kind is not None})
        reasons = [reason for kind, reason in self._states.values() if kind is None]
        if not reasons:
            return " and ".join(kinds)
        several = f", for {len(reasons)} of {len(self._states)} resources" if kinds else ""
        return f"none{several}, so it is polled only: {reasons[0]}"


class _Channel:
    """The channel of one resource: the best that its storage offers."""

    def __init__(
        self,
        topic: str,
        reach: Reach,
        login: Login | None,
        begun: Callable[[str], Awaitable[None]],
        heard: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._reach = reach
        self._login = login
        self._begun = begun
        self._heard = heard

    async def listen(self) -> None:
        """Listens until a channel ends; an Error if there is none."""
        reasons = []
        for offer in await self._offers():
            there = False

            async def begun(kind: str = offer.kind) -> None:
                nonlocal there
                there = True
                await self._begun(kind)

            try:
                if offer.is_stream:
                    await self._stream(offer.address, begun, _LONGEST_SECONDS)
                else:
                    await self._subscribed(offer, begun)
            except Error as error:
                reasons.append(str(error))
            if there:
                return
        raise Error(" ".join(reasons))

    # Which there are

    async def _offers(self) -> list[_Offer]:
        async with Network(self._reach, self._topic, self._login) as network:
            response = await network.request("HEAD", self._topic)
            if response.status >= 300:
                raise Error(failure(response))
            links = list(_links(response))
            found = [
                _Offer(STREAMING, to, True)
                for to, of in links
                if of == _SOLID + "updatesViaStreamingHttp2023"
            ]
            described = [to for to, of in links if of == _SOLID + "storageDescription"]
            described = described or [urljoin(response.url, "/.well-known/solid")]
            described += [to for to, of in links if of == "describedby"]
            reasons = []
            for address in described:
                try:
                    found += await self._services(network, address)
                except Error as error:
                    reasons.append(str(error))
                if found:
                    return found
        raise Error(" ".join(reasons) or f"{self._topic}: its storage offers no channel that is known here.")

    async def _services(self, network: Network, address: str) -> list[_Offer]:
        """The subscription services that a description names, the better ones first."""
        response = await network.get(address, {"Accept": ACCEPT})
        if response.status != 200:
            return []
        quads = await read_document(response, network)
        kinds = {(quad.subject, quad.object) for quad in quads if quad.predicate == _CHANNEL_TYPE}
        return [
            _Offer(kind, service.value)
            for kind in (STREAMING, WEB_SOCKET)
            for service in _objects(quads, _SUBSCRIPTION)
            if (service, NamedNode(_NOTIFY + kind)) in kinds
        ]

    # Listening

    def _network(self, address: str) -> Network:
        """To a service of the storage. The login goes there, because what it makes is bound to one request
        and worth nothing to who receives it; headers go to the origin of the source only."""
        reach = self._reach if same_origin(address, self._topic) else replace(self._reach, headers={})
        return Network(reach, address, self._login)

    async def _subscribed(self, offer: _Offer, begun: _Begun) -> None:
        asked = {
            "@context": ["https://www.w3.org/ns/solid/notification/v1"],
            "type": _NOTIFY + offer.kind,
            "topic": self._topic,
        }
        headers = {"Content-Type": "application/ld+json", "Accept": "application/ld+json"}
        async with self._network(offer.address) as network:
            response = await network.request("POST", offer.address, headers, json.dumps(asked).encode())
        if not 200 <= response.status < 300:
            raise Error(f"{offer.address}: refuses to notify of it (status {response.status}).")
        try:
            answer: Any = json.loads(response.body)
            address = str(answer["receiveFrom"])
            ends = datetime.fromisoformat(answer["endAt"]).timestamp() if answer.get("endAt") else None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Error(f"{offer.address}: what answers a subscription is no channel: {error}.") from error
        seconds = _LONGEST_SECONDS if ends is None else max(1.0, min(_LONGEST_SECONDS, ends - time.time()))
        listen = self._stream if offer.kind == STREAMING else self._web_socket
        await listen(address, begun, seconds)

    async def _stream(self, address: str, begun: _Begun, seconds: float) -> None:
        headers = {"Accept": "text/turtle, application/ld+json, */*;q=0.1", "Accept-Encoding": "identity"}
        async with (
            self._limited(address) as limit,
            self._network(address) as network,
            network.open("GET", address, headers) as (status, _, where, body),
        ):
            if status != 200:
                raise Error(f"{where}: gives no notifications (status {status}).")
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
            await begun()
            async for piece in body:
                if piece.strip():
                    self._heard()

    async def _web_socket(self, address: str, begun: _Begun, seconds: float) -> None:
        if address.startswith("ws:") and checked_url(self._topic).scheme == "https":
            raise Error(f"{address}: is not secure, though the resource is; it is not opened.")
        async with (
            self._limited(address) as limit,
            web_socket(address, self._reach, _MOST_MESSAGE_BYTES) as messages,
        ):
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
            await begun()
            async for _ in messages:
                self._heard()

    @asynccontextmanager
    async def _limited(self, address: str) -> AsyncIterator[asyncio.Timeout]:
        """Time for a channel to begin; once it has, the limit is set anew."""
        try:
            async with asyncio.timeout(self._reach.timeout_seconds) as limit:
                yield limit
        except TimeoutError:
            raise Error(
                f"{address}: no notifications within {self._reach.timeout_seconds:g} seconds."
            ) from None


def _links(response: Response) -> Iterator[tuple[str, str]]:
    """The links of an answer (RFC 8288): where to, and by which relation."""
    for link in _LINK.finditer(response.headers.get("link", "")):
        relations = _RELATIONS.search(link[2])
        for relation in (relations[1] or relations[2] or "").split() if relations else ():
            yield urljoin(response.url, link[1]), relation


def _objects(quads: list[Quad], predicate: NamedNode) -> list[NamedNode]:
    return [q.object for q in quads if q.predicate == predicate and isinstance(q.object, NamedNode)]
