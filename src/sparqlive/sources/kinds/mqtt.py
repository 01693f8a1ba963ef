"""Messages over MQTT 5: each is one batch of changes, as `.changes` or RDF Patch.

The broker keeps one session per source, by a client id that the store remembers, so that messages published
without a connection arrive later. A message is acknowledged after its epoch is committed; otherwise the
broker sends it again, and applying it twice changes nothing. Non-public addresses are rejected, as everywhere
on the network. Subscribes with quality of service 1.

Invariant: messages are committed in order, and each is committed whole before it is acknowledged.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import ssl
from contextlib import AsyncExitStack
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import aiomqtt
import certifi
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from sparqlive.errors import Error
from sparqlive.numbers import whole
from sparqlive.rdf.changes import parse_batch
from sparqlive.sources.polling import first_of
from sparqlive.sources.watcher import Changes, Failed, Report, Unchanged, Version
from sparqlive.web.network import Reach, resolved

_ADDRESS = re.compile(r"(mqtts?)://([^/?#]*)/(.+)", re.DOTALL)
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_TOPIC = re.compile(r"(?:(?:\+|[^+#/]*)/)*(?:\+|#|[^+#/]*)", re.DOTALL)
_MOST_UNACKNOWLEDGED = 20
# How long to wait for the first kept message, and after each message for the next, before the queue is empty.
_FIRST_SECONDS, _QUIET_SECONDS = 1.0, 0.2
_FOREVER = 0xFFFFFFFF


class Mqtt:
    def __init__(
        self,
        address: str,
        *,
        username: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        session_seconds: int = 86_400,
        when_malformed: Literal["stop", "skip"] = "stop",
        allow_private: bool = False,
        max_bytes: int = 64 << 20,
        timeout_seconds: float = 60.0,
    ) -> None:
        if when_malformed not in ("stop", "skip"):
            raise Error(f'when_malformed must be "stop" or "skip", not {when_malformed!r}.')
        whole("session_seconds", session_seconds, most=_FOREVER)
        for name, value in (("username", username), ("password", password), ("client_id", client_id)):
            if value is not None and not isinstance(value, str):
                raise Error(f"{name} must be a string, not {type(value).__name__}.")
        self._address = address
        self._scheme, self._host, self._port, self._topic = _parts(address)
        self._credentials = {"username": username, "password": password}
        self._client_id = client_id
        self._session_seconds = session_seconds
        self._skips = when_malformed == "skip"
        self._reach = Reach(allow_private=allow_private, max_bytes=max_bytes, timeout_seconds=timeout_seconds)

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        """Follows one connection; when it breaks, the watching begins again after a while."""
        state = dict(version or {"client_id": self._client_id or f"sparqlive-{secrets.token_hex(8)}"})
        if version is None:  # before the broker has a session by this name
            await report(Unchanged(dict(state)))
        wake.clear()
        try:
            async with AsyncExitStack() as stack:
                client = await self._connect(stack, state["client_id"])
                await self._follow(client, state, report, wake)
        except aiomqtt.MqttError as error:
            reason = str(error).strip().rstrip(".") or type(error).__name__
            raise Error(f"{self._address}: no connection to the broker: {reason}.") from error

    async def _connect(self, stack: AsyncExitStack, client_id: str) -> _Client:
        """Connects to one of the broker's addresses, and subscribes."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._session_seconds
        properties.ReceiveMaximum = _MOST_UNACKNOWLEDGED
        addresses = await resolved(self._host, self._port, self._reach)
        for last, address in enumerate(addresses, 1 - len(addresses)):
            client = _Client(
                address,
                self._port,
                identifier=client_id,
                protocol=aiomqtt.ProtocolVersion.V5,
                clean_start=False,
                properties=properties,
                timeout=self._reach.timeout_seconds,
                tls_context=_Certificates(self._host) if self._scheme == "mqtts" else None,
                **self._credentials,
            )
            try:
                await stack.enter_async_context(client)
                break
            except aiomqtt.MqttError:
                if not last:
                    raise
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        [code] = await client.subscribe(self._topic, options=options)
        if not isinstance(code, int) and code.is_failure:
            raise Error(f"{self._address}: the broker rejected the subscription: {code}.")
        return client

    async def _follow(
        self, client: _Client, state: dict[str, Any], report: Report, wake: asyncio.Event
    ) -> None:
        warning = None  # until a message comes
        if state.get("subscribed") and self._session_seconds and not client.session_present:
            warning = (
                f"{self._address}: the broker has dropped this source's session. Messages published while "
                f"there was no connection are lost."
            )
        state["subscribed"] = True
        coming = asyncio.ensure_future(anext(client.messages))
        seconds = _FIRST_SECONDS
        try:
            while True:
                wake.clear()
                await asyncio.wait({coming}, timeout=seconds)
                seconds = _QUIET_SECONDS
                if not coming.done():
                    await report(Failed(warning) if warning else Unchanged(dict(state)))
                    await first_of(coming, wake)
                    continue
                message = coming.result()
                coming = asyncio.ensure_future(anext(client.messages))
                warning = await self._take(message, state, report)
                client.acknowledge(message)
        finally:
            coming.cancel()
            await asyncio.wait({coming})
            if not coming.cancelled():
                coming.exception()  # marks it as retrieved

    async def _take(self, message: aiomqtt.Message, state: dict[str, Any], report: Report) -> str | None:
        """Commits a message. Returns a warning if the message was malformed and is skipped."""
        place = f"{self._address}: a message on {str(message.topic)!r}"
        payload = bytes(message.payload)
        try:
            if len(payload) > self._reach.max_bytes:
                raise Error(f"{place} is larger than max_bytes ({self._reach.max_bytes:,}).")
            batch = await asyncio.to_thread(parse_batch, payload, place)
        except Error as error:
            if not self._skips:
                raise
            state["skipped"] = state.get("skipped", 0) + 1
            await report(Changes((), (), dict(state), more=True))
            return f"{error} It was skipped."
        state["messages"] = state.get("messages", 0) + 1
        await report(Changes(batch.insert, batch.delete, dict(state), more=True))
        return None


class _Client(aiomqtt.Client):
    """A client with manual acknowledgement, which knows whether the broker had a session."""

    session_present = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._client.manual_ack_set(True)

    def acknowledge(self, message: aiomqtt.Message) -> None:
        self._client.ack(message.mid, message.qos)

    def _on_connect(self, client: Any, userdata: Any, flags: Any, *rest: Any, **named: Any) -> None:
        self.session_present = flags.session_present
        super()._on_connect(client, userdata, flags, *rest, **named)


class _Certificates(ssl.SSLContext):
    """Checks a certificate against the host name, although the connection goes to an IP address."""

    _name: str

    def __new__(cls, name: str) -> _Certificates:
        context = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        context._name = name
        context.load_default_certs()
        context.load_verify_locations(certifi.where())
        return context

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        secure = super().wrap_socket(*arguments, **{**options, "server_hostname": self._name})
        try:
            secure.do_handshake()
        except BaseException:
            secure.close()  # the caller does not
            raise
        return secure


def _parts(address: str) -> tuple[str, str, int, str]:
    """Returns the scheme, host, port and topic of an address."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise Error(f"{address!r} is not an MQTT address. Use mqtt://host:1883/topic or mqtts://host/topic.")
    scheme, authority, topic = match[1], match[2], unquote(match[3])
    if "@" in authority:
        raise Error(
            f"{scheme}://{authority.rpartition('@')[2]}/…: the address must not contain credentials. Use the "
            f"options username and password."
        )
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Error(f"{address!r} is not an MQTT address: {error}.") from error
    if not host:
        raise Error(f"{address!r} is not an MQTT address: it has no host.")
    if not _TOPIC.fullmatch(topic) or "\0" in topic or len(topic.encode()) > 65535:
        raise Error(
            f"{address!r}: {topic!r} is not a valid topic. + and # must be whole levels, and # the last one."
        )
    return scheme, host, port or _PORTS[scheme], topic
