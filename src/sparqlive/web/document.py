"""Parses Web documents to quads.

Owns the syntax and encoding of a response, and what is rejected before parsing: HTML, DOCTYPE and entities in
XML, JSON-LD contexts that are neither bundled nor allowed, and documents that cost more than their size
suggests (deep nesting, expanding prefixes). Invariant: a document is read completely, or is an Error.
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
from sparqlive.rdf.guard import check_json, malformed, parse_guarded
from sparqlive.rdf.read import check_quad
from sparqlive.web.apart import run_apart
from sparqlive.web.contexts import bundled
from sparqlive.web.headers import type_and_parameters
from sparqlive.web.network import Network, Reach, Response, checked_url

ACCEPT = (
    "application/n-quads, application/n-triples, application/trig;q=0.95, text/turtle;q=0.95, "
    "application/ld+json;q=0.8, application/rdf+xml;q=0.7, */*;q=0.1"
)
MOST_QUADS = 2_000_000
_MOST_EXPANSION = 16  # times max_bytes: the size of all terms with expanded prefixes
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
# Vague types: the file extension of the address takes precedence, if it is known.
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


class NotRdf(Error):  # noqa: N818 - a state of the response
    """The response is not RDF."""


@dataclass
class Room:
    """The remaining budget of documents that are read together: quads, and characters of their terms."""

    quads: int
    characters: int

    @classmethod
    def of(cls, max_bytes: int) -> Room:
        """Returns the budget for a number of bytes; prefixes may expand."""
        return cls(MOST_QUADS, _MOST_EXPANSION * max_bytes)

    def close(self) -> None:
        """Ends the reading at the next quad."""
        self.quads = 0

    def take(self, quad: Quad, url: str) -> None:
        """Counts a quad of the document at an address."""
        subject, predicate, object_, _ = quad
        self.quads -= 1
        self.characters -= len(subject.value) + len(predicate.value) + len(object_.value)
        if self.quads < 0 or self.characters < 0:
            raise Error(
                f"{url} has more than {MOST_QUADS:,} quads, or its expanded terms are too large for "
                f"max_bytes."
            )


async def read_document(response: Response, network: Network) -> list[Quad]:
    """Returns the quads of a response. Resolves relative IRIs against its URL, and renames blank nodes."""
    return await _read(response, network, Room.of(network.reach.max_bytes))


async def read_body(response: Response, room: Room) -> list[Quad]:
    """Returns the quads of a request body; fetches nothing."""
    return await _read(response, None, room)


async def _read(response: Response, network: Network | None, room: Room) -> list[Quad]:
    syntax, encoding = _syntax(response)
    body = _utf8(response, syntax, encoding)
    if syntax is RdfFormat.JSON_LD:
        await asyncio.to_thread(_check_json, body, response.url)
        if b"@context" in body:
            body = await _with_contexts(body, response.url, network)
    try:
        return await asyncio.to_thread(_parse, body, syntax, response.url, room)
    except asyncio.CancelledError:
        room.close()  # otherwise the thread would continue to read quads that are no longer needed
        raise


def _syntax(response: Response) -> tuple[RdfFormat, str | None]:
    """Returns the syntax, and the encoding if the response declares it."""
    media_type, parameters = type_and_parameters(response.headers.get("content-type", ""))
    if media_type and media_type.count("/") != 1:  # an invalid type counts as missing (RFC 2045 §5.2)
        media_type = "text/plain"
    encoding = parameters.get("charset")
    if media_type in ("text/html", "application/xhtml+xml"):
        raise NotRdf(
            f"{response.url} is HTML, not RDF, even when RDF is requested. Use the address of its data, "
            f"which pages often link to. Data embedded in HTML is not read."
        )
    syntax = SYNTAXES.get(media_type)
    if syntax is None and media_type in _VAGUE:
        ending = PurePosixPath(urlsplit(response.url).path).suffix.lstrip(".")
        syntax = RdfFormat.from_extension(ending) or _VAGUE[media_type]
    if syntax is None:
        shown = f"has the media type {media_type[:100]}" if media_type else "has no media type"
        raise NotRdf(f"{response.url} {shown}, and its address does not have the extension of an RDF syntax.")
    return (RdfFormat.TURTLE if syntax is RdfFormat.N3 else syntax), encoding


def _utf8(response: Response, syntax: RdfFormat, encoding: str | None) -> bytes:
    """Returns the text as UTF-8, without byte order mark and XML declaration, which would contradict it."""
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
        raise RdfSyntaxError(f"{response.url}: cannot decode it as {encoding!r}: {error}.") from error
    body = body.removeprefix(codecs.BOM_UTF8)
    declaration = _XML_DECLARATION.match(body) if syntax is RdfFormat.RDF_XML else None
    return body[declaration.end() :] if declaration else body


def _parse(body: bytes, syntax: RdfFormat, url: str, room: Room) -> list[Quad]:
    quads: list[Quad] = []
    try:
        for quad in parse_guarded(
            BytesIO(body), syntax, url, deepest=_DEEPEST, doctype=False, rename_blank_nodes=True
        ):
            quads.append(check_quad(quad, None))
            room.take(quad, url)
    except InvalidChange as error:
        raise InvalidChange(f"{url}: {error}") from error
    except SyntaxError as error:
        raise malformed(url, error) from error
    except ValueError as error:
        raise RdfSyntaxError(f"{url}: {error}.") from error
    return quads


# JSON-LD


def _check_json(body: bytes, url: str) -> None:
    """Rejects deep nesting before parsing."""
    try:
        check_json(body, _DEEPEST)
    except InvalidChange as error:
        raise Error(f"{url}: {error}") from error


async def _with_contexts(body: bytes, url: str, network: Network | None) -> bytes:
    """Returns the document with its remote contexts replaced by their content."""
    try:
        document = await asyncio.to_thread(json.loads, body)
    except ValueError as error:
        raise RdfSyntaxError(f"{url} is not JSON: {error}.") from error
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
    """Contexts that a document names: bundled ones and, if allowed, others, each fetched once."""

    def __init__(self, network: Network | None) -> None:
        self._network = network
        self.named = False
        self._known: dict[str, tuple[Any, int]] = {}
        self._bytes = 0

    async def resolved(self, given: Any, url: str, path: tuple[str, ...] = ()) -> Any:
        """Returns a context with all named contexts replaced; `path` is the chain of contexts to it."""
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
                raise RdfSyntaxError(f"{url}: an imported context must be a single context.")
            found = {**imported, **found}
        return found

    async def _scoped(self, node: Any, url: str) -> Any:
        """Resolves the definition of a term, which may have its own contexts."""
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
            raise RdfSyntaxError(f"{url}: the context {target} includes itself.")
        if target not in self._known:
            self._known[target] = await self._fetch(target, url, (*path, target))
        context, size = self._known[target]
        self._bytes += size
        if self._bytes > _MOST_CONTEXT_BYTES:
            raise Error(f"{url}: its contexts are larger than {_MOST_CONTEXT_BYTES:,} bytes together.")
        return context

    async def _fetch(self, target: str, url: str, path: tuple[str, ...]) -> tuple[Any, int]:
        """Returns a context with all contexts that it names, and its size."""
        here = bundled().get(target)
        if here is not None:
            return here, len(json.dumps(here))
        if self._network is None or not self._network.reach.remote_contexts:
            raise Error(
                f"{url} uses the JSON-LD context {target}, which is not bundled. Set remote_contexts to "
                f"fetch contexts from the Web."
            )
        response = await self._network.get(target, {"Accept": "application/ld+json, application/json;q=0.9"})
        if response.status != 200:
            raise Error(f"{url}: the context {target} returned status {response.status}.")
        _check_json(response.body, target)
        try:
            document = json.loads(response.body)
        except ValueError as error:
            raise RdfSyntaxError(f"The context {target} is not JSON: {error}.") from error
        given = document.get("@context") if isinstance(document, dict) else None
        found = await self.resolved(given, response.url, path)
        for part in found if isinstance(found, list) else [found]:
            if isinstance(part, dict):
                part.pop("@base", None)  # that of a remote context is ignored (JSON-LD 1.1 API, 5.1)
        return found, len(json.dumps(found))


def fetch_document(address: str, reach: Reach) -> list[Quad]:
    """Fetches a document once and returns its quads, under the same rules as all network access.

    The thread that calls this can be stopped while it waits.
    """

    async def look() -> list[Quad]:
        async with Network(reach, address) as network:
            response = await network.get(address, {"Accept": ACCEPT})
            if response.status != 200:
                raise Error(f"{response.url} returned status {response.status} instead of a document.")
            return await read_document(response, network)

    checked_url(address)
    return run_apart(look)
