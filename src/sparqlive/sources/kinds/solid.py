"""A Solid resource or container: a Web document whose storage sends notifications of changes.

The document is fetched and compared like other Web documents. After a notification it is fetched at once and
unconditionally, because two changes can have the same validators. Notifications get lost, so it is also
polled.

The content of a container is its listing. With `members=True` its documents are part of the source, each in
the graph of its own address; members that are not RDF, and nested containers, are not. A member that cannot
be read makes the look a failure, because its quads are not deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from pyoxigraph import DefaultGraph, NamedNode, Quad

from sparqlive.errors import Error
from sparqlive.sources.kinds.solid_channels import Channels
from sparqlive.sources.kinds.solid_login import login_of
from sparqlive.sources.kinds.web import Web
from sparqlive.sources.polling import Look, checked_interval, poll
from sparqlive.sources.watcher import Content, Failed, Report, Unchanged, Version, address_of
from sparqlive.web.document import MOST_QUADS, NotRdf
from sparqlive.web.network import Login, Reach, checked_url

_CONTAINS = NamedNode("http://www.w3.org/ns/ldp#contains")
MOST_MEMBERS = 1_000
# Each channel is a connection, so further members are only polled.
MOST_CHANNELS = 100
_FETCHED_AT_ONCE = 8
# The pause between two looks, however many notifications arrive.
_REST_SECONDS = 0.05
_NOT_RDF: Version = {"is_rdf": False}


class Solid:
    def __init__(
        self,
        address: str,
        *,
        poll_interval_seconds: float | None = 60.0,
        when_gone: Literal["keep", "clear"] = "keep",
        members: bool = False,
        issuer: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        client_secret_variable: str | None = None,
        **reach: Any,
    ) -> None:
        checked_url(address)
        self._address = address.partition("#")[0]
        if not isinstance(members, bool):
            raise Error(f"members must be true or false, not {members!r}.")
        if members and not self._address.endswith("/"):
            raise Error(
                f"{address} is not a container, so it has no members. Its address must end with a slash."
            )
        self._interval_seconds = checked_interval(poll_interval_seconds)
        self._reach = Reach(**reach)
        self._options = reach
        self._login = login_of(issuer, client_id, client_secret, client_secret_variable, self._reach)
        self._document = _Document(Web(self._address, when_gone=when_gone, **reach), keeps=members)
        self._has_members = members
        self._members: dict[str, _Document] = {}
        self._reported: dict[str, Version | None] | None = None
        self._rested = 0.0

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        channels = self._channels = Channels(self._reach, self._login, report, wake)
        look: Callable[[Version | None], Awaitable[Look]] = self._look
        if self._has_members:  # reads all documents again, and compares the content
            version, self._members, self._reported = None, {}, None
            look = self._look_at_all
        self._document.begin(version)
        try:
            channels.keep({self._address: self._document.change})
            await poll(look, self._interval_seconds, version, report, wake)
        finally:
            await channels.stop()

    async def _look(self, _: Version | None) -> Look:
        """Looks at the resource, or at the container itself."""
        await asyncio.sleep(self._rested - time.monotonic())
        self._rested = time.monotonic() + _REST_SECONDS
        failed_before = self._document.failed
        seen = await self._document.look(self._login)
        if failed_before and not self._document.failed:
            self._channels.retry()
        return seen

    async def _look_at_all(self, version: Version | None) -> Look:
        """Looks at a container and its members."""
        seen = await self._look(version)
        if isinstance(seen.outcome, Failed):
            return seen
        self._members = {
            name: self._members.get(name) or _Document(Web(name, **self._options), keeps=True, is_member=True)
            for name in self._member_addresses()
        }
        documents = {self._address: self._document, **self._members}
        self._channels.keep({name: one.change for name, one in list(documents.items())[:MOST_CHANNELS]})
        places = asyncio.Semaphore(_FETCHED_AT_ONCE)

        async def look(member: _Document) -> None:
            async with places:
                await member.look(self._login)

        await asyncio.gather(*(look(member) for member in self._members.values()))
        for member in self._members.values():
            if member.failed:
                return Look(Failed(member.failed), seen.rest_seconds)
        found = {address: document.version for address, document in documents.items()}
        if found == self._reported:
            return Look(Unchanged(), seen.rest_seconds)
        content = Content(self._content(), {"members": len(self._members)})
        self._reported = found
        return Look(content, seen.rest_seconds)

    def _member_addresses(self) -> list[str]:
        """The members that may be documents: those below the container that are not containers."""
        listed = {quad.object for quad in self._document.quads if quad.predicate == _CONTAINS}
        names = {address_of("solid", member.value) for member in listed if isinstance(member, NamedNode)}
        found = sorted(name for name in names if name.startswith(self._address) and not name.endswith("/"))
        if len(found) > MOST_MEMBERS:
            raise Error(f"{self._address} has more than {MOST_MEMBERS:,} members.")
        return found

    def _content(self) -> list[Quad]:
        found = list(self._document.quads)
        for address, member in self._members.items():
            graph = NamedNode(address)
            found.extend(
                Quad(s, p, o, graph) if isinstance(g, DefaultGraph) else Quad(s, p, o, g)
                for s, p, o, g in member.quads
            )
            if len(found) > MOST_QUADS:
                raise Error(f"{self._address}: the members have more than {MOST_QUADS:,} quads.")
        return found


class _Document:
    """One document of the source: its last version and, with `keeps`, its quads."""

    def __init__(self, web: Web, *, keeps: bool, is_member: bool = False) -> None:
        self._web = web
        self._keeps = keeps
        self._is_member = is_member
        self._changed = False
        self.version: Version | None = None
        self.quads: Sequence[Quad] = ()
        self.failed: str | None = None

    def begin(self, version: Version | None) -> None:
        """Sets the last known version."""
        self.version = version

    def change(self) -> None:
        """Records a notification of a change."""
        self._changed = True

    async def look(self, login: Login | None) -> Look:
        if self.version == _NOT_RDF and not self._changed:
            return Look(Unchanged())  # does not fetch images again and again
        whole, self._changed = self._changed, False
        try:
            seen = await self._web.look(self.version, whole=whole, login=login)
        except NotRdf as error:
            seen = Look(Content([], _NOT_RDF) if self._is_member else Failed(str(error)))
        except Error as error:
            seen = Look(Failed(str(error)))
        self.failed = None
        match seen.outcome:
            case Failed(reason):
                self.failed, self._changed = reason, self._changed or whole
            case Content(quads, version):
                self.version = version
                if self._keeps:
                    self.quads = quads
            case Unchanged(version) if version is not None:
                self.version = version
        return seen
