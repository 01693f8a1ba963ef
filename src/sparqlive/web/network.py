"""The only way to the network: HTTP requests within a budget, and sockets, to checked addresses.

Owns name resolution, redirects, decompression and every bound on them. A look at a source is one `Network`:
all its requests and redirects share one budget. Rejects schemes other than http and https, non-public
addresses (unless allowed), redirects from https to http, and encodings other than gzip and deflate.
Invariants: a connection goes to exactly the address that was checked, whatever the name resolves to later;
headers and login of a source go only to its origin; a response beyond the budget is an error, never
truncated.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from types import TracebackType
from typing import Any, ClassVar, Protocol, TypeAlias

import httpcore
import httpx

from sparqlive.errors import Error
from sparqlive.numbers import seconds, whole
from sparqlive.web.hosts import host_is_among

_REDIRECTS = (301, 302, 303, 307, 308)
_CREDENTIALS = ("authorization", "cookie", "dpop", "proxy-authorization")
_PIECE_BYTES = 1 << 20
ENCODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""The supported encodings, each with zlib's number for its format."""
_MOST_MEMBERS = 10_000  # of one gzip file: empty members cost time without using up bytes
# A stream may be silent for long, so the operating system checks whether the peer is still there.
_KEEP_ALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
if hasattr(socket, "TCP_KEEPIDLE"):
    _KEEP_ALIVE += [
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
    ]
_NAT64 = IPv6Network("64:ff9b::/96")
# IANA's special-purpose registries, without ranges outside of global unicast. Some of these are globally
# reachable, but data is published on none of them.
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ],
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "3ffe::/16"],
    )
)

Origin: TypeAlias = tuple[str, str, int | None]


class NotPublicError(Error):
    """A name resolves to an address that is not public, `address`."""

    def __init__(self, sentence: str = "", address: str = "") -> None:
        super().__init__(sentence)
        self.address = address


@dataclass(frozen=True)
class Reach:
    """How a source may use the network: options of every kind that uses HTTP."""

    to_allow_private: ClassVar[str] = (
        "remove the source and add it again with the option allow_private: --option allow_private=true on "
        "the command line, allow_private=True in Python; where links are followed, in Follow"
    )
    """What to do where an address is not public."""
    allow_private: bool = False
    """Allows non-public addresses (loopback, private, link-local and the like)."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent only to the origin of the source's address."""
    max_bytes: int = 64 << 20
    """The limit of one look, on the wire and after decompression."""
    timeout_seconds: float = 60.0
    """The time limit of one look, from name resolution to the last byte."""
    max_redirects: int = 10
    hosts: Sequence[str] | None = None
    """The allowed hosts, also for redirects, each `name` or `name:port`; None: all."""
    remote_contexts: bool = False
    """Whether to fetch JSON-LD contexts from the Web, within the same budget."""

    def __post_init__(self) -> None:
        whole("max_bytes", self.max_bytes, least=1)
        whole("max_redirects", self.max_redirects)
        seconds("timeout_seconds", self.timeout_seconds)
        headers = self.headers.items() if isinstance(self.headers, Mapping) else [(None, None)]
        if not all(isinstance(name, str) and isinstance(value, str) for name, value in headers):
            raise Error("headers must be a mapping of names to strings.")
        if self.hosts is not None and (
            isinstance(self.hosts, str) or not all(isinstance(host, str) for host in self.hosts)
        ):
            raise Error(f"hosts must be a list of host names, not {self.hosts!r}.")
        for name in ("allow_private", "remote_contexts"):
            if not isinstance(getattr(self, name), bool):
                raise Error(f"{name} must be true or false, not {getattr(self, name)!r}.")


class ReachOnce(Reach):
    """How one LOAD or SERVICE may use the network."""

    to_allow_private = "set allow_private (--allow-private on the command line; with an agent, of serve)"


@dataclass(frozen=True)
class Response:
    """A complete, decompressed response. Header names are in lower case; `url` is the last URL."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class Login(Protocol):
    """Credentials that are created for each request."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Returns the headers of a request."""

    def refused(self, url: str, headers: Mapping[str, str]) -> None:
        """Called after a 401, before the request is sent once more with new credentials."""


class Network:
    """One look at a source; a context manager. `home` is the source's address."""

    def __init__(self, reach: Reach, home: str, login: Login | None = None) -> None:
        self.reach = reach
        self._login = login
        self._origin = origin(checked_url(home))
        self._budget = _Budget(reach)
        self._deadline = asyncio.get_running_loop().time() + reach.timeout_seconds
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls_context(),
            network_backend=_CheckedBackend(self._budget, reach),
            socket_options=_KEEP_ALIVE,
        )

    async def __aenter__(self) -> Network:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.aclose()

    def renew(self) -> None:
        """Resets the byte budget, for streams whose reader bounds what it keeps."""
        self._budget.renew_bytes()

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Response:
        return await self.request("GET", url, headers)

    async def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> Response:
        """Returns the response after redirects. Network failures raise Error; a status like 404 does not."""
        try:
            async with asyncio.timeout_at(self._deadline):
                async with self.open(method, url, headers, content) as (status, found, where, body):
                    return Response(where, status, found, b"".join([piece async for piece in body]))
        except TimeoutError as error:
            raise Error(f"{url}: no complete response within {self.reach.timeout_seconds:g} s.") from error

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> AsyncIterator[tuple[int, Mapping[str, str], str, AsyncIterator[bytes]]]:
        """Yields status, headers, URL and body of a response, after redirects; the caller limits the time."""
        target, where = checked_url(url), url.partition("#")[0]
        refused = False
        while True:
            if not host_is_among(str(target), self.reach.hosts):
                raise Error(f"{target} is not on one of the allowed hosts (option hosts).")
            sent = self._headers(target, headers or {}, origin(checked_url(url)))
            login = self._login if origin(target) == self._origin else None
            if login is not None:
                credentials = await login.headers(method, str(target))
                sent.update((name.lower(), value) for name, value in credentials.items())
            try:
                async with self._pool.stream(
                    method, _core_url(target), headers=list(sent.items()), content=content
                ) as answer:
                    found = _headers_of(answer)
                    again = login is not None and answer.status == 401 and not refused
                    if not again and (answer.status not in _REDIRECTS or "location" not in found):
                        body = self._decoded(answer, found.get("content-encoding", "").strip().lower(), where)
                        yield answer.status, found, where, body
                        return
            except _HTTP_ERRORS as error:
                raise Error(f"{target}: {_reason(error)}") from error
            if again and login is not None:
                refused = True
                login.refused(str(target), found)
                continue
            if method not in ("GET", "HEAD") and answer.status not in (307, 308):
                raise Error(
                    f"{target} redirects {method} requests (status {answer.status}) to {found['location']}. "
                    f"Use that address."
                )
            target = self._redirected(target, found["location"])
            where = str(target)

    def _headers(self, target: httpx.URL, headers: Mapping[str, str], asked: Origin) -> dict[str, str]:
        """Returns the headers for a target; credentials of a request go only to its original origin."""
        found = {"user-agent": "sparqlive", "accept-encoding": "gzip, deflate"}
        found.update((name.lower(), value) for name, value in headers.items())
        if origin(target) != asked:
            found = {name: value for name, value in found.items() if name not in _CREDENTIALS}
        if origin(target) == self._origin:
            found.update((name.lower(), value) for name, value in self.reach.headers.items())
        return found

    def _redirected(self, target: httpx.URL, location: str) -> httpx.URL:
        self._budget.take_redirect(str(target))
        try:
            url = checked_url(str(target.join(location)))
        except httpx.InvalidURL as error:
            raise Error(f"{target} redirects to {location!r}, which is not a URL: {error}.") from error
        if target.scheme == "https" and url.scheme == "http":
            raise Error(f"{target} redirects from https to {url}, which is not allowed.")
        return url

    async def _decoded(self, answer: httpcore.Response, encoding: str, url: str) -> AsyncIterator[bytes]:
        inflater = None if encoding in ("", "identity") else Inflater(encoding, url)
        async for piece in answer.aiter_stream():
            for decoded in [piece] if inflater is None else inflater.pieces(piece):
                self._budget.take_decoded(len(decoded), url)
                yield decoded
                await asyncio.sleep(0)  # one compressed byte can expand to a million: let other tasks run
        if inflater is not None:
            inflater.finish()


class Inflater:
    """Decompresses in pieces of bounded size, whatever the compression ratio."""

    def __init__(self, encoding: str, url: str) -> None:
        if encoding not in ENCODINGS:
            raise Error(f"{url} has the encoding {encoding!r}; only gzip and deflate are supported.")
        self._encoding = encoding
        self._url = url
        self._inflater = zlib.decompressobj(ENCODINGS[encoding])
        self._begun = False
        self._members = 1

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflater.eof:  # another member of the same gzip file
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise Error(f"{self._url} has more than {_MOST_MEMBERS:,} {self._encoding} members.")
                self._inflater = zlib.decompressobj(ENCODINGS[self._encoding])
            if not self._begun and self._encoding == "deflate" and data[0] & 15 != 8:
                self._inflater = zlib.decompressobj(-15)  # many servers send deflate without its header
            self._begun = True
            try:
                yield self._inflater.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise Error(f"{self._url} is declared as {self._encoding} but is not: {error}.") from error
            data = self._inflater.unconsumed_tail or self._inflater.unused_data

    def finish(self) -> None:
        if self._begun and not self._inflater.eof:
            raise Error(f"{self._url} is truncated {self._encoding} data.")


class _Budget:
    """The remaining budget of a look."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._redirects = reach.max_redirects
        self.renew_bytes()

    def renew_bytes(self) -> None:
        self._received = self._decoded = self._reach.max_bytes

    def take_received(self, number: int, where: str) -> None:
        """Counts bytes as they arrive, compressed or not."""
        self._received -= number
        if self._received < 0:
            raise Error(f"{where} is larger than max_bytes.")

    def take_decoded(self, number: int, where: str) -> None:
        self._decoded -= number
        if self._decoded < 0:
            raise Error(f"{where} decompresses to more than max_bytes.")

    def take_redirect(self, where: str) -> None:
        self._redirects -= 1
        if self._redirects < 0:
            raise Error(f"{where}: more than {self._reach.max_redirects} redirects.")


# Addresses


def checked_url(url: str) -> httpx.URL:
    """Returns an http or https URL without its fragment; raises an Error for others."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        raise Error(f"{url!r} is not a Web address: {error}.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Error(f"{url!r} is not a Web address: it must begin with http:// or https:// and a host.")
    if parsed.port is not None and not 0 < parsed.port <= 65535:
        raise Error(f"{url!r} is not a Web address: there is no port {parsed.port}.")
    if parsed.userinfo:
        raise Error(
            f"{parsed.copy_with(userinfo=b'')}: the address must not contain a name or password. Use an "
            f"Authorization header in the option headers."
        )
    return parsed.copy_with(fragment=None)


def same_origin(url: str, other: str) -> bool:
    return origin(checked_url(url)) == origin(checked_url(other))


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address belongs to the public Internet; looks at the IPv4 address inside a NAT64 address."""
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        return address in _GLOBAL_V6 and not any(address in network for network in _SPECIAL_V6)
    return not any(address in network for network in _SPECIAL_V4)


def origin(url: httpx.URL) -> Origin:
    return url.scheme, url.host, url.port


def _core_url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Resolves names itself, and connects to the addresses that it checked."""

    def __init__(self, budget: _Budget, reach: Reach) -> None:
        self._budget = budget
        self._reach = reach
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await resolved(host, port, self._reach)
        for last, address in enumerate(addresses, 1 - len(addresses)):
            try:
                stream = await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore.ConnectError:
                if not last:
                    raise
            else:
                return _CountedStream(stream, self._budget, host)
        raise AssertionError("a name that resolves has an address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise Error("Unix sockets are not supported.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def resolved(host: str, port: int, reach: Reach) -> list[str]:
    """Returns the addresses of a name; raises an Error if one of them is not allowed."""
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Error(f"Cannot resolve the host name {host}: {error}.") from error
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    for address in addresses:
        if not reach.allow_private and not is_public(ip_address(address.partition("%")[0])):
            raise NotPublicError(
                f"{host} resolves to {address}, which is not a public address. To allow private, loopback "
                f"and link-local addresses, {reach.to_allow_private}.",
                address,
            )
    return addresses


async def connected(url: httpx.URL, port: int, reach: Reach) -> socket.socket:
    """Opens a connection for protocols other than HTTP, under the same address rules."""
    if not host_is_among(str(url), reach.hosts):
        raise Error(f"{url} is not on one of the allowed hosts (option hosts).")
    loop = asyncio.get_running_loop()
    failed: OSError | None = None
    for address in await resolved(url.host, port, reach):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, (address, port))
        except OSError as error:
            connection.close()
            failed = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise Error(f"Cannot connect to {url}: {failed}.") from failed


class _CountedStream(httpcore.AsyncNetworkStream):
    """Counts the bytes that are read."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, budget: _Budget, host: str) -> None:
        self._stream = stream
        self._budget = budget
        self._host = host

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        self._budget.take_received(len(data), f"The response of {self._host}")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            secure = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:  # includes cancellation, where httpcore leaves the connection open
            await self._stream.aclose()
            raise
        return _CountedStream(secure, self._budget, self._host)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Created once, because reading the certificates takes a while."""
    return httpx.create_ssl_context()


# Responses


_HTTP_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


def _headers_of(answer: httpcore.Response) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in answer.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _reason(error: Exception) -> str:
    reason = str(error).strip().rstrip(".") or type(error).__name__
    if isinstance(error, httpcore.ConnectError):
        return f"no connection: {reason}."
    if isinstance(error, httpcore.ProtocolError):
        return f"the response is incomplete or not HTTP: {reason}."
    return f"the connection broke: {reason}."
