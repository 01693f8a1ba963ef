"""Notification channels of a Solid storage: discovery, subscription and listening.

Owns discovery (Solid Notifications Protocol: the resource links to the description of its storage, which
lists subscription services), subscribing, and renewing channels that ended. A notification is only a hint
that something changed. Its content is not read, so a duplicate, late or forged one costs no more than a look.
Every address that a server names, including those of WebSockets, is subject to the rules of `network.py`.
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
# A channel is renewed after this time, since it may be dead without notice.
_LONGEST_SECONDS = 900.0
# A channel that ends sooner is not requested again at once.
_SHORTEST_SECONDS = 10.0
_MOST_MESSAGE_BYTES = 1 << 20
_LINK = re.compile(r'<([^<>]*)>((?:\s*;\s*[^\s=;,]+\s*(?:=\s*(?:"[^"]*"|[^\s;,"]*))?)*)')
_RELATIONS = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))', re.IGNORECASE)

_Begun: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Offer:
    """A notification channel that a storage offers: the address of a stream, or of a subscription service."""

    kind: str
    address: str
    is_stream: bool = False


class Channels:
    """Listens to the resources of one source, and reports which of them send notifications."""

    def __init__(self, reach: Reach, login: Login | None, report: Report, wake: asyncio.Event) -> None:
        self._reach = reach
        self._login = login
        self._report = report
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, asyncio.Event] = {}
        self._states: dict[str, tuple[str | None, str]] = {}
        self._reported: str | None = None
        self._reporting = asyncio.Lock()

    def keep(self, changed: Mapping[str, Callable[[], None]]) -> None:
        """Listens to exactly these resources from now on; each has a function to call on a notification."""
        for topic in self._tasks.keys() - changed.keys():
            self._tasks.pop(topic).cancel()
            self._again.pop(topic)
            self._states.pop(topic, None)
        for topic in changed.keys() - self._tasks.keys():
            self._again[topic] = asyncio.Event()
            self._tasks[topic] = asyncio.create_task(self._listen(topic, changed[topic], self._again[topic]))

    def retry(self) -> None:
        """Retries missing channels at once, because the source can be reached again."""
        for topic, (kind, _) in self._states.items():
            if kind is None:
                self._again[topic].set()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _listen(self, topic: str, changed: Callable[[], None], again: asyncio.Event) -> None:
        """Listens until it is cancelled: renews a channel that ends, and retries with growing pauses."""

        def notify() -> None:
            changed()
            self._wake.set()

        async def begun(kind: str) -> None:
            await self._tell(topic, kind)
            notify()  # the channel does not report changes from before it was opened

        channel = _Channel(topic, self._reach, self._login, begun, notify)
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
                await self._tell(topic, None, f"{topic}: the channel ended after {lasted:.1f} s.")
            failures += 1
            await wait(again, retry_seconds(failures))

    async def _tell(self, topic: str, kind: str | None, reason: str = "") -> None:
        """Reports the state of the notifications, if it has changed."""
        self._states[topic] = (kind, reason)
        async with self._reporting:  # keeps the reports in order
            summary = self._summary()
            if summary != self._reported:
                self._reported = summary
                await self._report(Notifications(summary))

    def _summary(self) -> str:
        kinds = sorted({kind for kind, _ in self._states.values() if kind is not None})
        reasons = [reason for kind, reason in self._states.values() if kind is None]
        if not reasons:
            return " and ".join(kinds)
        several = f", for {len(reasons)} of {len(self._states)} resources" if kinds else ""
        return f"none{several}, so it is only polled: {reasons[0]}"


class _Channel:
    """The channel of one resource: the best one that its storage offers."""

    def __init__(
        self,
        topic: str,
        reach: Reach,
        login: Login | None,
        begun: Callable[[str], Awaitable[None]],
        notify: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._reach = reach
        self._login = login
        self._begun = begun
        self._notify = notify

    async def listen(self) -> None:
        """Listens until a channel ends; raises an Error if none is offered."""
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
                    await self._subscribe(offer, begun)
            except Error as error:
                reasons.append(str(error))
            if there:
                return
        raise Error(" ".join(reasons))

    # Discovery

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
        raise Error(" ".join(reasons) or f"{self._topic}: the storage offers no supported channel.")

    async def _services(self, network: Network, address: str) -> list[_Offer]:
        """Returns the subscription services of a description, the better ones first."""
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
        """Returns a connection to a service of the storage. It uses the login, because its proofs are bound
        to one request and worthless to the receiver. Headers are sent only to the origin of the source."""
        reach = self._reach if same_origin(address, self._topic) else replace(self._reach, headers={})
        return Network(reach, address, self._login)

    async def _subscribe(self, offer: _Offer, begun: _Begun) -> None:
        subscription = {
            "@context": ["https://www.w3.org/ns/solid/notification/v1"],
            "type": _NOTIFY + offer.kind,
            "topic": self._topic,
        }
        headers = {"Content-Type": "application/ld+json", "Accept": "application/ld+json"}
        async with self._network(offer.address) as network:
            body = json.dumps(subscription).encode()
            response = await network.request("POST", offer.address, headers, body)
        if not 200 <= response.status < 300:
            raise Error(f"{offer.address} rejected the subscription (status {response.status}).")
        try:
            answer: Any = json.loads(response.body)
            address = str(answer["receiveFrom"])
            ends = datetime.fromisoformat(answer["endAt"]).timestamp() if answer.get("endAt") else None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Error(f"{offer.address} answered the subscription with no channel: {error}.") from error
        seconds = _LONGEST_SECONDS if ends is None else max(1.0, min(_LONGEST_SECONDS, ends - time.time()))
        listen = self._stream if offer.kind == STREAMING else self._web_socket
        await listen(address, begun, seconds)

    async def _stream(self, address: str, begun: _Begun, seconds: float) -> None:
        headers = {"Accept": "text/turtle, application/ld+json, */*;q=0.1", "Accept-Encoding": "identity"}
        async with (
            self._time_limit(address) as limit,
            self._network(address) as network,
            network.open("GET", address, headers) as (status, _, where, body),
        ):
            if status != 200:
                raise Error(f"{where} sends no notifications (status {status}).")
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
            await begun()
            async for piece in body:
                if piece.strip():
                    self._notify()

    async def _web_socket(self, address: str, begun: _Begun, seconds: float) -> None:
        if address.startswith("ws:") and checked_url(self._topic).scheme == "https":
            raise Error(f"{address} is not encrypted, but the resource is, so the channel is not opened.")
        async with (
            self._time_limit(address) as limit,
            web_socket(address, self._reach, _MOST_MESSAGE_BYTES) as messages,
        ):
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
            await begun()
            async for _ in messages:
                self._notify()

    @asynccontextmanager
    async def _time_limit(self, address: str) -> AsyncIterator[asyncio.Timeout]:
        """Limits the time until a channel is open; the caller then reschedules the limit."""
        try:
            async with asyncio.timeout(self._reach.timeout_seconds) as limit:
                yield limit
        except TimeoutError:
            raise Error(f"{address} opened no channel within {self._reach.timeout_seconds:g} s.") from None


def _links(response: Response) -> Iterator[tuple[str, str]]:
    """Yields the links of a response (RFC 8288): target and relation."""
    for link in _LINK.finditer(response.headers.get("link", "")):
        relations = _RELATIONS.search(link[2])
        for relation in (relations[1] or relations[2] or "").split() if relations else ():
            yield urljoin(response.url, link[1]), relation


def _objects(quads: list[Quad], predicate: NamedNode) -> list[NamedNode]:
    return [q.object for q in quads if q.predicate == predicate and isinstance(q.object, NamedNode)]
