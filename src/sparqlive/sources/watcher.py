"""The interface of source kinds, and the table of kinds.

A source reports what it saw, and decides nothing: a report is `Unchanged`, `Content`, `Changes`, `Failed` or
`Notifications`, and only content and changes can change data. The session compares, makes an epoch, and
stores the source's version with that epoch, so that after a crash the source continues from what was
committed.
"""

from __future__ import annotations

import asyncio
import glob
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Protocol, TypeAlias

from pyoxigraph import Quad

from sparqlive.errors import Error, Unsupported
from sparqlive.sources.paths import scheme_of

Version: TypeAlias = Mapping[str, Any]
"""What a source needs to continue, such as an ETag or an offset; JSON values."""


@dataclass(frozen=True)
class Unchanged:
    """The source was reached, and has not changed."""

    version: Version | None = None


@dataclass(frozen=True)
class Content:
    """The whole content of the source. Its blank nodes are matched with those of the last content."""

    quads: Sequence[Quad]
    version: Version
    labelled: bool = False
    """Labels of blank nodes name the store's nodes, so nothing is matched."""


@dataclass(frozen=True)
class Changes:
    """One batch of a stream, deletes first. Labels of blank nodes name the store's nodes."""

    insert: Sequence[Quad]
    delete: Sequence[Quad]
    version: Version
    more: bool = False
    """More may be available already: a requested refresh waits for another report."""


@dataclass(frozen=True)
class Failed:
    """The source could not be read; its last content stays. The reason is an error message."""

    reason: str


@dataclass(frozen=True)
class Notifications:
    """How the source is notified of changes, or why not; a phrase for its status. Changes no data."""

    state: str


Outcome: TypeAlias = Unchanged | Content | Changes | Failed | Notifications
Report: TypeAlias = Callable[[Outcome], Awaitable[None]]
"""Passes an outcome on, and returns when it is committed."""


class Watcher(Protocol):
    """One source of a kind, created from its address and options."""

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        """Reports what it sees, from a version on, until it is cancelled or its stream has ended.

        `wake` is set to request a look now; the watcher clears it. An exception is reported as a failure, and
        watching starts again after a while.
        """


@dataclass(frozen=True)
class Kind:
    """A kind of source. Imported when it is used, because kinds need different packages."""

    where: str
    """Module and name of the function or class that creates a watcher from an address and options."""
    extra: str = "sources"
    """The extra of the package that installs its requirements."""
    is_on_web: bool = True
    """Whether its addresses can be http or https URLs; a kind without them reads this machine or others."""
    is_document: bool = False
    """Whether its addresses are documents, which have no fragment."""
    example: str = "http://example.org/"
    """A valid address."""


KINDS: dict[str, Kind] = {
    "agent": Kind("sparqlive.sources.kinds.agent:Agent"),
    "endpoint": Kind("sparqlive.sources.kinds.endpoint:Endpoint"),
    "file": Kind("sparqlive.sources.kinds.file:File", is_on_web=False, example="file:///example.ttl"),
    "ldes": Kind("sparqlive.sources.kinds.ldes:EventStream"),
    "mqtt": Kind("sparqlive.sources.kinds.mqtt:Mqtt", is_on_web=False, example="mqtt://example.org/topic"),
    "solid": Kind("sparqlive.sources.kinds.solid:Solid", extra="solid", is_document=True),
    "stream": Kind("sparqlive.sources.kinds.stream:stream"),
    "web": Kind("sparqlive.sources.kinds.web:Web", is_document=True),
}


_NO_OPTION = re.compile(r"(?:unexpected keyword|multiple values for(?: keyword)?) argument (.+)")


def watcher(kind: str, address: str, options: Mapping[str, Any]) -> Watcher:
    """Creates the watcher of a source; rejects unknown kinds and options."""
    known = KINDS.get(kind)
    if known is None:
        raise Unsupported(f"Unknown kind of source {kind!r}. Available kinds: {', '.join(sorted(KINDS))}.")
    module, _, name = known.where.partition(":")
    try:
        create: Callable[..., Watcher] = getattr(import_module(module), name)
        made = create(address, **options)
    except TypeError as error:
        reason = _wrong_option(create, error)
        raise Error(f"Invalid options for a source of kind {kind!r}: {reason}.") from error
    except ModuleNotFoundError as error:
        raise Error(
            f"A source of kind {kind!r} needs the package {error.name}, which is not installed: "
            f"pip install 'sparqlive[{known.extra}]'."
        ) from error
    return made


def _wrong_option(create: Callable[..., Watcher], error: TypeError) -> str:
    """What Python said about the options, in words that do not speak of Python."""
    parameters = signature(create).parameters
    known = [one.name for one in parameters.values() if one.kind is Parameter.KEYWORD_ONLY]
    if "reach" in parameters:  # a kind that uses HTTP, which is installed then
        from sparqlive.web.network import Reach

        known += [field.name for field in fields(Reach)]
    if unknown := _NO_OPTION.search(str(error)):
        available = f". Available options: {', '.join(known)}" if known else ""
        return f"there is no option {unknown[1]}{available}"
    if missing := re.search(r"missing \d+ required keyword-only arguments?: (.+)", str(error)):
        return f"missing {missing[1]}"
    return str(error)


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Rejects unknown kinds, and options that a source of the kind rejects."""
    watcher(kind, KINDS[kind].example if kind in KINDS else "", options)


def stored_watcher(kind: str, address: str, options: Mapping[str, Any]) -> Watcher:
    """Creates the watcher of a source in a store; one that only fails if it cannot be watched here."""
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
    """The address of the document that describes a resource: the IRI, for documents without its fragment."""
    return iri.partition("#")[0] if kind in KINDS and KINDS[kind].is_document else iri


def whole_path(kind: str, address: str) -> str:
    """Makes a relative path absolute, so that it means the same in every process.

    Leaves it as it is if the current folder would be taken for a part of a glob.
    """
    is_path = kind in ("file", "stream") and address != "-" and not scheme_of(address)
    if not is_path or os.path.isabs(address) or "\0" in address:
        return address
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise Error(f"{address!r} is a relative path, but the current folder no longer exists.") from None
    return address if glob.has_magic(folder) else os.path.join(folder, address)
