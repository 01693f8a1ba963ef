"""What came from the Web, as quads.

Owns which syntax an answer is in, its encoding, and what is refused before it is parsed: HTML, DOCTYPE and
entities in XML, contexts of JSON-LD that are neither bundled nor allowed, and documents made to cost more
than their size tells (deep nesting, prefixes that expand). Invariant: a document is read whole, or is an
Error.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urljoin, urlsplit

from pyoxigraph import Quad, RdfFormat

from sparqlive.errors import Error, InvalidChange
from sparqlive.errors import SyntaxError as RdfSyntaxError
from sparqlive.rdf.guard import check_json, parse_guarded
from sparqlive.rdf.read import check_quad
from sparqlive.web.contexts import bundled
from sparqlive.web.headers import type_and_parameters
from sparqlive.web.network import Network, Reach, Response, checked_url

ACCEPT = (
    "application/n-quads, application/n-triples, application/trig;q=0.95, text/turtle;q=0.95, "
    "application/ld+json;q=0.8, application/rdf+xml;q=0.7, */*;q=0.1"
)
MOST_QUADS = 2_000_000
_MOST_EXPANSION = 16  # times max_bytes: what prefixes may come to when they are written out
_DEEPEST = 200
_MOST_CONTEXT_BYTES = 16 << 20

SYNTAXES = {
    "text/turtle": RdfFormat.TURTLE,
    "application/x-turtle": RdfFormat.TURTLE,
    "application/turtle": RdfFormat.TURTLE,
    "text/n3": RdfFormat.TURTLE,
    "text/rdf+n3": RdfFormat.TURTLE,
    "application/n-triples": RdfFormat.N_TRIPLES,
    "application/n-quads": RdfFormat.N_QUADS,
    "text/x-nquads": RdfFormat.N_QUADS,
    "application/trig": RdfFormat.TRIG,
    "application/x-trig": RdfFormat.TRIG,
    "application/ld+json": RdfFormat.JSON_LD,
    "application/activity+json": RdfFormat.JSON_LD,
    "application/rdf+xml": RdfFormat.RDF_XML,
}
# Types that say little: the ending of the address says more, if it says anything.
_VAGUE: Mapping[str, RdfFormat | None] = {
    "": None,
    "application/octet-stream": None,
    "text/plain": RdfFormat.N_TRIPLES,
    "application/json": RdfFormat.JSON_LD,
    "application/xml": RdfFormat.RDF_XML,
    "text/xml": RdfFormat.RDF_XML,
}
_ENCODINGS = {"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16", "utf-16-le", "utf-16-be"}
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_XML_DECLARATION = re.compile(rb"\s*<\?xml\b([^>]*)\?>")
_XML_ENCODING = re.compile(rb"""\bencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")


class NotRdf(Error):  # noqa: N818 - read as the answer's state
    """What came is no RDF, and never was meant to be."""


@dataclass
class Room:
    """What documents that are read together may still come to: quads, and characters of their terms."""

    quads: int
    characters: int

    @classmethod
    def of(cls, max_bytes: int) -> Room:
        """What as many bytes may come to; prefixes are written out."""
        return cls(MOST_QUADS, _MOST_EXPANSION * max_bytes)


async def read_document(response: Response, network: Network) -> list[Quad]:
    """The quads of an answer; relative IRIs are meant from where it came from, blank nodes are its own."""
    return await _read(response, network, Room.of(network.reach.max_bytes))


async def read_body(response: Response, room: Room) -> list[Quad]:
    """The quads of a document that somebody sent; nothing is fetched for it."""
    return await _read(response, None, room)


async def _read(response: Response, network: Network | None, room: Room) -> list[Quad]:
    syntax, encoding = _syntax(response)
    body = _utf8(response, syntax, encoding)
    if syntax is RdfFormat.JSON_LD:
        await asyncio.to_thread(_check_json, body, response.url)
        if b"@context" in body:
            body = await _with_contexts(body, response.url, network)
    return await asyncio.to_thread(_parsed, body, syntax, response.url, room)


def _syntax(response: Response) -> tuple[RdfFormat, str | None]:
    """The syntax, and the encoding if the answer says which."""
    media_type, parameters = type_and_parameters(response.headers.get("content-type", ""))
    if media_type and media_type.count("/") != 1:  # as if it were not said (RFC 2045 §5.2)
        media_type = "text/plain"
    encoding = parameters.get("charset")
    if media_type in ("text/html", "application/xhtml+xml"):
        raise NotRdf(
            f"{response.url}: is HTML, not RDF, also when asked for RDF. Find the address of its data, which "
            f"pages often link to; data inside HTML is not read."
        )
    syntax = SYNTAXES.get(media_type)
    if syntax is None and media_type in _VAGUE:
        ending = PurePosixPath(urlsplit(response.url).path).suffix.lstrip(".")
        syntax = RdfFormat.from_extension(ending) or _VAGUE[media_type]
    if syntax is None:
        shown = media_type[:100] or "of no media type"
        raise NotRdf(
            f"{response.url}: is {shown}, which is no RDF syntax, and its address does not tell one."
        )
    return (RdfFormat.TURTLE if syntax is RdfFormat.N3 else syntax), encoding


def _utf8(response: Response, syntax: RdfFormat, encoding: str | None) -> bytes:
    """The text as UTF-8, without byte order mark and XML declaration, which would contradict."""
    body = response.body
    if syntax is RdfFormat.RDF_XML and encoding is None:
        declaration = _XML_DECLARATION.match(body)
        declared = _XML_ENCODING.search(declaration[1]) if declaration else None
        encoding = declared[1].decode() if declared else None
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if body.startswith(mark)), encoding or "utf-8")
    try:
        known = codecs.lookup(encoding).name
        if known not in _ENCODINGS:
            raise LookupError(f"unknown encoding: {encoding}")
        if known not in ("utf-8", "ascii"):
            body = body.decode(known).encode()
    except (LookupError, UnicodeError) as error:
        raise RdfSyntaxError(f"{response.url}: its encoding {encoding!r} cannot be read: {error}.") from error
    body = body.removeprefix(codecs.BOM_UTF8)
    declaration = _XML_DECLARATION.match(body) if syntax is RdfFormat.RDF_XML else None
    return body[declaration.end() :] if declaration else body


def _parsed(body: bytes, syntax: RdfFormat, url: str, room: Room) -> list[Quad]:
    quads: list[Quad] = []
    try:
        for quad in parse_guarded(
            BytesIO(body), syntax, url, deepest=_DEEPEST, doctype=False, rename_blank_nodes=True
        ):
            quads.append(check_quad(quad, None))
            subject, predicate, object_, _ = quad
            room.quads -= 1
            room.characters -= len(subject.value) + len(predicate.value) + len(object_.value)
            if room.quads < 0 or room.characters < 0:
                raise Error(
                    f"{url}: holds more than {MOST_QUADS:,} quads, or terms that come to more than "
                    f"max_bytes allows."
                )
    except InvalidChange as error:
        raise InvalidChange(f"{url}: {error}") from error
    except SyntaxError as error:  # its message says line and column
        raise RdfSyntaxError(f"{url}: {error}") from error
    except ValueError as error:
        raise RdfSyntaxError(f"{url}: {error}.") from error
    return quads


# JSON-LD


def _check_json(body: bytes, url: str) -> None:
    """Refuses deep nesting before anybody reads it."""
    try:
        check_json(body, _DEEPEST)
    except InvalidChange as error:
        raise Error(f"{url}: {error}") from error


async def _with_contexts(body: bytes, url: str, network: Network | None) -> bytes:
    """The document with the contexts that it names in place of their names."""
    try:
        document = await asyncio.to_thread(json.loads, body)
    except ValueError as error:
        raise RdfSyntaxError(f"{url}: is not JSON: {error}.") from error
    contexts = _Contexts(network)
    for node in await asyncio.to_thread(_nodes_with_context, document):
        node["@context"] = await contexts.resolved(node["@context"], url)
    return (await asyncio.to_thread(json.dumps, document)).encode() if contexts.named else body


def _nodes_with_context(document: Any) -> list[dict[str, Any]]:
    found, waiting = [], [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if "@context" in node:
                found.append(node)
            waiting += [value for key, value in node.items() if key != "@context"]
        elif isinstance(node, list):
            waiting += node
    return found


class _Contexts:
    """Contexts that a document names: those that are here, and if that is allowed others, fetched once."""

    def __init__(self, network: Network | None) -> None:
        self._network = network
        self.named = False
        self._known: dict[str, tuple[Any, int]] = {}
        self._bytes = 0

    async def resolved(self, given: Any, url: str, path: tuple[str, ...] = ()) -> Any:
        """A context without names of others; `path` are those that it came by."""
        if isinstance(given, list):
            parts = [await self.resolved(part, url, path) for part in given]
            return [part for nested in parts for part in (nested if isinstance(nested, list) else [nested])]
        if isinstance(given, str):
            return await self._remote(given, url, path)
        if not isinstance(given, dict):
            return given
        found = {key: await self._scoped(value, url) for key, value in given.items() if key != "@import"}
        if isinstance(given.get("@import"), str):
            imported = await self._remote(given["@import"], url, path)
            if not isinstance(imported, dict):
                raise RdfSyntaxError(f"{url}: the context that it imports is not a single one.")
            found = {**imported, **found}
        return found

    async def _scoped(self, node: Any, url: str) -> Any:
        """What a context says of a term, which may have contexts of its own."""
        if isinstance(node, list):
            return [await self._scoped(item, url) for item in node]
        if not isinstance(node, dict):
            return node
        return {
            key: await (self.resolved(value, url) if key == "@context" else self._scoped(value, url))
            for key, value in node.items()
        }

    async def _remote(self, name: str, url: str, path: tuple[str, ...]) -> Any:
        self.named = True
        target = urljoin(url, name)
        if target in path:
            raise RdfSyntaxError(f"{url}: the context {target} names itself.")
        if target not in self._known:
            self._known[target] = await self._fetched(target, url, (*path, target))
        context, size = self._known[target]
        self._bytes += size
        if self._bytes > _MOST_CONTEXT_BYTES:
            raise Error(f"{url}: the contexts that it names come to more than {_MOST_CONTEXT_BYTES:,} bytes.")
        return context

    async def _fetched(self, target: str, url: str, path: tuple[str, ...]) -> tuple[Any, int]:
        """A context with all that it names, and its size."""
        here = bundled().get(target)
        if here is not None:
            return here, len(json.dumps(here))
        if self._network is None or not self._network.reach.remote_contexts:
            raise Error(
                f"{url}: names the JSON-LD context {target}, which is not among those that are bundled, and "
                f"is fetched only if remote_contexts is given."
            )
        response = await self._network.get(target, {"Accept": "application/ld+json, application/json;q=0.9"})
        if response.status != 200:
            raise Error(f"{url}: the context {target} was answered with status {response.status}.")
        _check_json(response.body, target)
        try:
            document = json.loads(response.body)
        except ValueError as error:
            raise RdfSyntaxError(f"{target}: this context is not JSON: {error}.") from error
        given = document.get("@context") if isinstance(document, dict) else None
        found = await self.resolved(given, response.url, path)
        for part in found if isinstance(found, list) else [found]:
            if isinstance(part, dict):
                part.pop("@base", None)  # that of a remote context is ignored (JSON-LD 1.1 API, 5.1)
        return found, len(json.dumps(found))


def fetch_document(address: str, reach: Reach) -> list[Quad]:
    """The quads of a document that is fetched once, by the rules of all that goes to the network."""

    async def look() -> list[Quad]:
        async with Network(reach, address) as network:
            response = await network.get(address, {"Accept": ACCEPT})
            if response.status != 200:
                raise Error(f"{response.url}: answers with status {response.status}, which is no document.")
            return await read_document(response, network)

    checked_url(address)
    return asyncio.run(look())
