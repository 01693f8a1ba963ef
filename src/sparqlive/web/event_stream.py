"""Following a view of an agent from elsewhere: its content, and each change, for as long as one reads.

Owns the client's side of an agent's server-sent events: their syntax, the terms in them, and coming back. A
stream that breaks, or is silent for longer than an agent ever is, is asked for again from the last epoch that
came; the agent sends what was missed, or everything anew. Invariant: adding up what is given, from the last
`reset` on, is the view's content at `epoch`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx
from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.errors import Error, UnknownView, ViewFailed
from sparqlive.numbers import whole
from sparqlive.web.retry import retry_seconds

Term: TypeAlias = NamedNode | BlankNode | Literal
TermRow: TypeAlias = tuple[Term | None, ...]

LINEAGE = "Sparqlive-Lineage"
MEDIA_TYPE = "text/event-stream"
# Agents say something every fifteen seconds: whoever is silent for so long has gone.
SILENT_SECONDS = 60.0
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.25, 15.0
_ENDED_FOR_GOOD: Mapping[str, type[Error]] = {"dropped": UnknownView, "failed": ViewFailed}


@dataclass(frozen=True)
class Event:
    """One event: its kind, its id if it has one, its lines."""

    kind: str
    id: str | None
    data: str


class Parser:
    """Bytes in, events out; the events of an agent, whose lines end with a line feed."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end in these bytes."""
        self._buffer += piece
        found = []
        while (end := self._buffer.find(b"\n\n", self._searched)) >= 0:
            found.append(_event(self._buffer[:end].decode()))
            del self._buffer[: end + 2]
            self._searched = 0
        self._searched = max(0, len(self._buffer) - 1)
        if self._max_bytes is not None and len(self._buffer) > self._max_bytes:
            raise Error(f"An event is larger than {self._max_bytes:,} bytes.")
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
    """A change of a view that is followed; reads like a Delta. `reset`: it is the whole content."""

    __slots__ = ("_bindings", "_weights", "epoch", "reset", "variables")

    def __init__(self, data: str, reset: bool) -> None:
        try:
            body = json.loads(data)
            self.epoch: int = body["epoch"]
            self.reset = reset
            self.variables: tuple[str, ...] = tuple(body["head"].get("vars", ()))
            self._weights: Sequence[int] = body["weights"]
            # An answer has no columns.
            answered = [{}] * len(self._weights) if "boolean" in body else body["results"]["bindings"]
            self._bindings: Sequence[Mapping[str, Any]] = answered
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Error(f"The agent sent what is no result: {type(error).__name__}: {error}.") from error

    def weights(self) -> dict[TermRow, int]:
        """Rows that entered (positive) and left (negative); None is unbound."""
        try:
            return {
                tuple([_term(row[name]) if name in row else None for name in self.variables]): weight
                for row, weight in zip(self._bindings, self._weights, strict=True)
            }
        except (ValueError, KeyError, TypeError) as error:
            raise Error(f"The agent sent what are no terms: {type(error).__name__}: {error}.") from error

    def __len__(self) -> int:
        """The number of rows that changed."""
        return len(self._weights)

    def __repr__(self) -> str:
        return f"Followed(epoch={self.epoch}, rows={len(self)}{', reset' if self.reset else ''})"


def _term(given: Mapping[str, str]) -> Term:
    """A term of the JSON results format."""
    value = given["value"]
    if given["type"] == "uri":
        return NamedNode(value)
    if given["type"] == "bnode":
        return BlankNode(value)
    if "xml:lang" in given:
        return Literal(value, language=given["xml:lang"])
    return Literal(value, datatype=NamedNode(given["datatype"])) if "datatype" in given else Literal(value)


def changes_address(address: str) -> str:
    """Where a view's changes are: at its own address, and /changes."""
    plain = address.partition("#")[0]
    path, question, query = plain.partition("?")
    path = path.rstrip("/")
    return f"{path if path.endswith('/changes') else f'{path}/changes'}{question}{query}"


class _Again(Exception):  # noqa: N818 - nothing went wrong
    """The stream is to be asked for again."""


class EventStreamReader:
    """A view that is followed: iterate over it, by `for` or by `async for`. One iteration at a time."""

    def __init__(
        self, url: str, since: int | None, lineage: str | None, token: str | None, snapshot: bool
    ) -> None:
        self.url = changes_address(url)
        self.epoch = since
        """The last epoch that was heard of: what came adds up to the view's content at it."""
        self.lineage = lineage
        """Which history the epoch counts in; see `follow`."""
        self._snapshot = snapshot
        self._headers = {"Accept": MEDIA_TYPE}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._failures = 0

    def __iter__(self) -> Iterator[Followed]:
        with httpx.Client(timeout=SILENT_SECONDS, trust_env=False) as client:
            while True:
                try:
                    with client.stream("GET", self._asked(), headers=self._headers) as found:
                        if found.status_code != 200:
                            found.read()
                        self._check(found)
                        parser = Parser()
                        for piece in found.iter_bytes():
                            for event in parser.feed(piece):
                                yield from self._taken(event)
                except (httpx.TransportError, _Again):
                    pass
                time.sleep(self._pause_seconds())

    async def __aiter__(self) -> AsyncIterator[Followed]:
        async with httpx.AsyncClient(timeout=SILENT_SECONDS, trust_env=False) as client:
            while True:
                try:
                    async with client.stream("GET", self._asked(), headers=self._headers) as found:
                        if found.status_code != 200:
                            await found.aread()
                        self._check(found)
                        parser = Parser()
                        async for piece in found.aiter_bytes():
                            for event in parser.feed(piece):
                                for followed in self._taken(event):
                                    yield followed
                except (httpx.TransportError, _Again):
                    pass
                await asyncio.sleep(self._pause_seconds())

    def _asked(self) -> httpx.URL:
        asked = {} if self._snapshot else {"snapshot": "false"}
        if self.epoch is not None:
            asked["since"] = str(self.epoch)
            if self.lineage is not None:
                asked["lineage"] = self.lineage
        return httpx.URL(self.url).copy_merge_params(asked)

    def _check(self, found: httpx.Response) -> None:
        """What cannot come right by asking again is an error."""
        status = found.status_code
        if status == 429 or status >= 500:
            raise _Again
        if status != 200:
            kind = UnknownView if status == 404 else Error
            raise kind(f"{self.url}: {_detail(found)}")
        if not found.headers.get("content-type", "").startswith(MEDIA_TYPE):
            raise Error(f"{self.url}: is no stream of changes. Give the address of a view of an agent.")
        self.lineage = found.headers.get(LINEAGE, self.lineage)

    def _taken(self, event: Event) -> Iterator[Followed]:
        self._failures = 0
        if event.kind == "end":
            self._ended(event)
        if event.kind in ("snapshot", "delta"):
            followed = Followed(event.data, event.kind == "snapshot")
            self.epoch = followed.epoch
            yield followed
        elif event.id:
            self.epoch = int(event.id)

    def _ended(self, event: Event) -> None:
        told = json.loads(event.data)
        kind = _ENDED_FOR_GOOD.get(told["reason"])
        if kind is not None:
            raise kind(f"{self.url}: {told['detail']}")
        if event.id == "":
            self.epoch = None
        raise _Again

    def _pause_seconds(self) -> float:
        self._failures += 1
        return retry_seconds(self._failures, _FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS)


def _detail(found: httpx.Response) -> str:
    """The sentence of a refusal, or its status."""
    try:
        return str(found.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the agent answers with status {found.status_code}."


def follow(
    url: str,
    *,
    since: int | None = None,
    lineage: str | None = None,
    token: str | None = None,
    snapshot: bool = True,
) -> EventStreamReader:
    """Follows a view of an agent, by its address: `http://host/views/name`.

    Iterating gives its content (marked `reset`) and then its changes, for as long as one iterates, also by
    `async for`. What breaks is taken up again without loss; where that cannot be, the content comes anew,
    marked `reset`. A view that is dropped raises UnknownView, one that fails ViewFailed.

    `since`: an epoch to go on from, and `lineage`, as an earlier one said that it stood for; without lineage
    the agent's epochs must be those of then. `snapshot=False`: not the content, but what changes from now on.
    """
    if since is not None:
        whole("since", since)
    return EventStreamReader(url, since, lineage, token, snapshot)
