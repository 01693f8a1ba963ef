"""Sources: where data comes from that changes out there. One file a kind.

A source reports what it saw, and decides nothing: a report is `Unchanged`, `Content`, `Changes`, `Failed` or
`Notifications`, and only content and changes can change data. The session compares, makes an epoch of it, and
remembers the source's version with that epoch, so that after a crash the source goes on from what was
committed.
"""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from pyoxigraph import Quad

from sparqlive.errors import Error, Unsupported

Version: TypeAlias = Mapping[str, Any]
"""What a source needs to go on from where it was: an ETag, an offset; of JSON's types."""


@dataclass(frozen=True)
class Unchanged:
    """The source was reached, and has what it had."""

    version: Version | None = None


@dataclass(frozen=True)
class Content:
    """All that the source has now. Blank nodes are its own, and matched with those of the last content."""

    quads: Sequence[Quad]
    version: Version
    labelled: bool = False
    """Labels of blank nodes name the store's nodes: there is nothing to match."""


@dataclass(frozen=True)
class Changes:
    """What a stream brought: one batch, deletes first. Labels of blank nodes name the store's nodes."""

    insert: Sequence[Quad]
    delete: Sequence[Quad]
    version: Version
    more: bool = False
    """Whoever asked for a look waits for another report: more may be there already."""


@dataclass(frozen=True)
class Failed:
    """The source could not be read; its last content stays. The reason is a sentence."""

    reason: str


@dataclass(frozen=True)
class Notifications:
    """How the source is told of changes, or why it is not; a phrase for its status, which changes no data."""

    state: str


Outcome: TypeAlias = Unchanged | Content | Changes | Failed | Notifications
Report: TypeAlias = Callable[[Outcome], Awaitable[None]]
"""Hands an outcome over, and returns when it is committed."""


class Watcher(Protocol):
    """One source of a kind, made from its address and its options."""

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        """Reports what it sees, from a version on, until it is cancelled or its stream has ended.

        `wake` is set when somebody asks for a look now; whoever acts on it clears it. What is raised is
        reported as a failure, and the watching begins again after a while.
        """


@dataclass(frozen=True)
class Kind:
    """A kind of source. It is imported when it is used: the others do not need what it needs."""

    where: str
    """Module and name of what makes a watcher of an address and options."""
    extra: str = "sources"
    """The extra of the package that installs what it needs."""
    is_document: bool = False
    """Whether an address is that of a document, which has no fragment."""
    example: str = "http://example.org/"
    """An address that it accepts."""


KINDS: dict[str, Kind] = {
    "agent": Kind("sparqlive.sources.kinds.agent:Agent"),
    "endpoint": Kind("sparqlive.sources.kinds.endpoint:Endpoint"),
    "file": Kind("sparqlive.sources.kinds.file:File", example="file:///example.ttl"),
    "ldes": Kind("sparqlive.sources.kinds.ldes:EventStream"),
    "mqtt": Kind("sparqlive.sources.kinds.mqtt:Mqtt", example="mqtt://example.org/topic"),
    "solid": Kind("sparqlive.sources.kinds.solid:Solid", extra="solid", is_document=True),
    "stream": Kind("sparqlive.sources.kinds.stream:stream"),
    "web": Kind("sparqlive.sources.kinds.web:Web", is_document=True),
}


def watcher(kind: str, address: str, options: Mapping[str, Any]) -> Watcher:
    """A source of a kind; what it does not know is refused with a sentence."""
    known = KINDS.get(kind)
    if known is None:
        raise Unsupported(f"There is no kind of source {kind!r}. The kinds are: {', '.join(sorted(KINDS))}.")
    module, _, name = known.where.partition(":")
    try:
        made: Watcher = getattr(import_module(module), name)(address, **options)
    except TypeError as error:
        raise Error(f"A source of the kind {kind!r} does not take these options: {error}.") from error
    except ModuleNotFoundError as error:
        raise Error(
            f"A source of the kind {kind!r} needs {error.name}, which is not installed: "
            f"pip install 'sparqlive[{known.extra}]'."
        ) from error
    return made


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Refuses a kind that does not exist, and options that a source of the kind refuses."""
    watcher(kind, KINDS[kind].example if kind in KINDS else "", options)


def stored_watcher(kind: str, address: str, options: Mapping[str, Any]) -> Watcher:
    """A source that a store has; one that cannot be watched here fails, and the store opens all the same."""
    try:
        return watcher(kind, address, options)
    except Error as error:
        return _Unusable(str(error))


@dataclass(frozen=True)
class _Unusable:
    reason: str

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        while True:
            wake.clear()
            await report(Failed(self.reason))
            await wake.wait()


def address_of(kind: str, iri: str) -> str:
    """The address of what describes a resource: a document on the Web has no fragment."""
    return iri.partition("#")[0] if kind in KINDS and KINDS[kind].is_document else iri


def whole_path(kind: str, address: str) -> str:
    """An address that means the same wherever a process is started: a relative path is made absolute.

    Not where the current folder would be read as a part of a glob.
    """
    is_path = kind in ("file", "stream") and address != "-" and not urlsplit(address).scheme
    if not is_path or os.path.isabs(address) or "\0" in address:
        return address
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise Error(f"{address!r} is a relative path, and the current folder was removed.") from None
    return address if glob.has_magic(folder) else os.path.join(folder, address)
