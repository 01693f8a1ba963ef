"""Follows a view of an agent as a client: its content, and then each change.

Owns the client side of an agent's server-sent events: their syntax, the terms in them, and reconnecting. A
stream that breaks, or is silent for longer than an agent ever is, is requested again from the last received
epoch; the agent sends the missed changes, or the whole content. Invariant: the sum of all changes since the
last `reset` is the view's content at `epoch`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx
from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.errors import Error, UnknownView, ViewFailed
from sparqlive.numbers import whole
from sparqlive.web.headers import AGENT
from sparqlive.web.retry import retry_seconds

Term: TypeAlias = NamedNode | BlankNode | Literal
TermRow: TypeAlias = tuple[Term | None, ...]

LINEAGE = "Sparqlive-Lineage"
MEDIA_TYPE = "text/event-stream"
# An agent sends an event at least every fifteen seconds: after this silence the connection is dead.
SILENT_SECONDS = 60.0
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.25, 15.0
_ENDED_FOR_GOOD: Mapping[str, type[Error]] = {"dropped": UnknownView, "failed": ViewFailed}


@dataclass(frozen=True)
class Event:
    """One event: its kind, its id if it has one, and its data."""

    kind: str
    id: str | None
    data: str


class Parser:
    """Parses the events of an agent, whose lines end with a line feed."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, piece: bytes) -> list[Event]:
        """Returns the events that end in these bytes."""
        self._buffer += piece
        found = []
        while (end := self._buffer.find(b"\n\n", self._searched)) >= 0:
            found.append(_event(self._buffer[:end].decode()))
            del self._buffer[: end + 2]
            self._searched = 0
        self._searched = max(0, len(self._buffer) - 1)
        if self._max_bytes is not None and len(self._buffer) > self._max_bytes:
            raise Error(f"An event of the agent is larger than {self._max_bytes:,} bytes.")
        return found


def _event(text: str) -> Event:
    kind, identity, data = "message", None, []
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id":
            identity = value
        elif name == "data":
            data.append(value)
    return Event(kind, identity, "\n".join(data))


class Followed:
    """A change of a followed view, with the interface of a Delta.

    `reset`: it replaces everything before. A large content or change comes in several parts, one after the
    other: add them up. `complete` is False for all but the last of them.
    """

    __slots__ = ("_bindings", "_weights", "complete", "epoch", "reset", "variables")

    def __init__(self, data: str, reset: bool) -> None:
        try:
            body = json.loads(data)
            self.epoch: int = body["epoch"]
            self.reset = reset
            self.complete: bool = body.get("complete", True)
            self.variables: tuple[str, ...] = tuple(body["head"].get("vars", ()))
            self._weights: Sequence[int] = body["weights"]
            # An answer has no columns.
            answered = [{}] * len(self._weights) if "boolean" in body else body["results"]["bindings"]
            self._bindings: Sequence[Mapping[str, Any]] = answered
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Error(f"The agent sent an invalid result: {type(error).__name__}: {error}.") from error

    def weights(self) -> dict[TermRow, int]:
        """Rows that entered (positive) and left (negative); None is unbound."""
        try:
            return {
                tuple([term_of_json(row[name]) if name in row else None for name in self.variables]): weight
                for row, weight in zip(self._bindings, self._weights, strict=True)
            }
        except (ValueError, KeyError, TypeError) as error:
            raise Error(f"The agent sent invalid terms: {type(error).__name__}: {error}.") from error

    def __len__(self) -> int:
        """The number of rows that changed."""
        return len(self._weights)

    def __repr__(self) -> str:
        words = f"{', reset' if self.reset else ''}{'' if self.complete else ', incomplete'}"
        return f"Followed(epoch={self.epoch}, rows={len(self)}{words})"


def term_of_json(given: Mapping[str, str]) -> Term:
    """Parses a term of the JSON results format."""
    value = given["value"]
    if given["type"] == "uri":
        return NamedNode(value)
    if given["type"] == "bnode":
        return BlankNode(value)
    if "xml:lang" in given:
        return Literal(value, language=given["xml:lang"])
    return Literal(value, datatype=NamedNode(given["datatype"])) if "datatype" in given else Literal(value)


def changes_address(address: str) -> str:
    """Returns the address of a view's changes: that of the view, with /changes."""
    plain = address.partition("#")[0]
    path, question, query = plain.partition("?")
    path = path.rstrip("/")
    return f"{path if path.endswith('/changes') else f'{path}/changes'}{question}{query}"


class _Again(Exception):  # noqa: N818 - nothing went wrong
    """The stream must be requested again."""


class EventStreamReader:
    """A followed view: iterate over it with `for` or `async for`, one iteration at a time."""

    def __init__(
        self, url: str, since: int | None, lineage: str | None, token: str | None, snapshot: bool
    ) -> None:
        self.url = changes_address(url)
        self.epoch = since
        """The last received epoch: the changes so far add up to the view's content at it. None before the
        first content, and while a content or a change has arrived only in part."""
        self.lineage = lineage
        """The history that the epoch belongs to; see `follow`."""
        self._snapshot = snapshot
        self._void = False
        """Whether what was read so far must be read again from the beginning."""
        self._headers = {"Accept": MEDIA_TYPE}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self.on_failure: Callable[[str], None] | None = None
        """Called with a sentence when the agent stops answering, once until it answers again."""
        self._failures = 0

    def __iter__(self) -> Iterator[Followed]:
        with httpx.Client(timeout=SILENT_SECONDS, trust_env=False) as client:
            while True:
                try:
                    with client.stream("GET", self._request_url(), headers=self._headers) as found:
                        if found.status_code != 200:
                            found.read()
                        self._check(found)
                        parser = Parser()
                        for piece in found.iter_bytes():
                            for event in parser.feed(piece):
                                yield from self._handle(event)
                except (httpx.TransportError, _Again) as error:
                    self._note(error)
                time.sleep(self._pause_seconds())

    async def __aiter__(self) -> AsyncIterator[Followed]:
        async with httpx.AsyncClient(timeout=SILENT_SECONDS, trust_env=False) as client:
            while True:
                try:
                    async with client.stream("GET", self._request_url(), headers=self._headers) as found:
                        if found.status_code != 200:
                            await found.aread()
                        self._check(found)
                        parser = Parser()
                        async for piece in found.aiter_bytes():
                            for event in parser.feed(piece):
                                for followed in self._handle(event):
                                    yield followed
                except (httpx.TransportError, _Again) as error:
                    self._note(error)
                await asyncio.sleep(self._pause_seconds())

    def _request_url(self) -> httpx.URL:
        asked = {} if self._snapshot or self._void else {"snapshot": "false"}
        if self.epoch is not None:
            asked["since"] = str(self.epoch)
            if self.lineage is not None:
                asked["lineage"] = self.lineage
        return httpx.URL(self.url).copy_merge_params(asked)

    def _check(self, found: httpx.Response) -> None:
        """Raises an Error for a response that a retry cannot fix."""
        status = found.status_code
        if status == 429 or status >= 500:
            raise _Again(f"The agent returned status {status}")
        if status != 200:
            kind = UnknownView if status == 404 else Error
            raise kind(f"{self.url}: {detail_of(found)}")
        if not found.headers.get("content-type", "").startswith(MEDIA_TYPE):
            raise Error(f"{self.url} is not a stream of changes. Use the address of a view of an agent.")
        self.lineage = found.headers.get(LINEAGE, self.lineage)

    def _handle(self, event: Event) -> Iterator[Followed]:
        try:
            yield from self._understood(event)
        except Error:  # one of them is a KeyError
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Error(
                f"{self.url} sent an event that an agent does not send: {type(error).__name__}. Is there a "
                f"sparqlive agent at this address?"
            ) from error

    def _understood(self, event: Event) -> Iterator[Followed]:
        self._failures = 0
        if event.kind == "end":
            self._handle_end(event)
        if event.kind in ("snapshot", "delta"):
            followed = Followed(event.data, event.kind == "snapshot")
            self._void = not followed.complete
            self.epoch = followed.epoch if followed.complete else None
            yield followed
        elif event.kind == "reset":
            self._void, self.epoch = True, None
        elif event.id:
            self.epoch = int(event.id)

    def _handle_end(self, event: Event) -> None:
        told = json.loads(event.data)
        kind = _ENDED_FOR_GOOD.get(told["reason"])
        if kind is not None:
            raise kind(f"{self.url}: {told['detail']}")
        if event.id == "":
            self.epoch = None
        raise _Again

    def _note(self, error: Exception) -> None:
        if self.on_failure is not None and self._failures == 0 and str(error):
            self.on_failure(f"{str(error).rstrip('.')}.")

    def _pause_seconds(self) -> float:
        self._failures += 1
        return retry_seconds(self._failures, _FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS)


def detail_of(found: httpx.Response) -> str:
    """The message of a rejected request, or its status."""
    try:
        if AGENT in found.headers:
            return str(found.json()["detail"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return f"status {found.status_code}, without an explanation. Is there a sparqlive agent at this address?"


def follow(
    url: str,
    *,
    since: int | None = None,
    lineage: str | None = None,
    token: str | None = None,
    snapshot: bool = True,
) -> EventStreamReader:
    """Follows a view of an agent, by its address: `http://host/views/name`.

    Iterating, with `for` or `async for`, gives its content (marked `reset`) and then its changes. A large
    content or change comes in parts that add up to it; the last one is `complete`. After a
    broken connection it continues without loss; where that is impossible, it gives the content again, marked
    `reset`. A dropped view raises UnknownView, a failed one ViewFailed.

    `since` is the epoch to continue from, and `lineage` the attribute of the earlier reader; without
    `lineage`, the agent must still have the same history. `snapshot=False` skips the content and gives only
    later changes.
    """
    if since is not None:
        whole("since", since)
    if not str(url).startswith(("http://", "https://")):
        raise Error(f"{url!r} is not the address of a view, such as http://127.0.0.1:8080/views/NAME.")
    return EventStreamReader(url, since, lineage, token, snapshot)
