"""A Linked Data Event Stream: pages of members (TREE). The last version of each object counts.

The content is that of the stream's current pages: members that a retention policy removed are removed here,
too. An immutable page is fetched once while the source is watched, other pages by conditional GET. A page
that cannot be read makes the look a failure, because its members are not deleted.

A member consists of its triples, those of its blank nodes, and the graph of its name. If the stream declares
what its members are versions of (`ldes:versionOfPath`), the last version by `ldes:timestampPath` represents
the object, under the object's IRI. A tombstone removes its object or, with `when_deleted="keep"`, leaves the
version before it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyoxigraph import BlankNode, NamedNode, Quad
from pyoxigraph import Literal as RdfLiteral

from sparqlive.errors import Error
from sparqlive.sources.polling import Look, checked_interval, poll
from sparqlive.sources.watcher import Content, Report, Unchanged, Version
from sparqlive.sparql.moments import parse_date_time
from sparqlive.web.answers import failure, fresh_seconds
from sparqlive.web.document import ACCEPT, MOST_QUADS, read_document
from sparqlive.web.network import Network, Reach, checked_url

_TREE, _LDES = "https://w3id.org/tree#", "https://w3id.org/ldes#"
_MEMBER, _VIEW = NamedNode(_TREE + "member"), NamedNode(_TREE + "view")
_RELATION, _NODE = NamedNode(_TREE + "relation"), NamedNode(_TREE + "node")
_VERSION_OF, _DELETE_OBJECT = NamedNode(_LDES + "versionOfPath"), NamedNode(_LDES + "versionDeleteObject")
_DELETE_PATH = NamedNode(_LDES + "versionDeletePath")
_TIMESTAMPS = (NamedNode(_LDES + "versionTimestampPath"), NamedNode(_LDES + "timestampPath"))
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
MOST_PAGES = 10_000

Facts = Mapping[NamedNode, NamedNode]
"""The stream's statements about itself, by predicate."""


@dataclass(frozen=True)
class _Member:
    name: Any
    quads: tuple[Quad, ...]

    def values(self, predicate: NamedNode) -> list[Any]:
        return [
            quad.object for quad in self.quads if (quad.subject, quad.predicate) == (self.name, predicate)
        ]


@dataclass(frozen=True)
class _Page:
    """A page as it was last fetched."""

    validators: Mapping[str, str]
    immutable: bool
    fresh_seconds: float
    members: tuple[_Member, ...]
    leads_to: tuple[str, ...]
    facts: Facts


class EventStream:
    def __init__(
        self,
        address: str,
        *,
        poll_interval_seconds: float | None = 60.0,
        versions: Literal["latest", "all"] = "latest",
        when_deleted: Literal["remove", "keep"] = "remove",
        tombstone: str | None = None,
        **reach: Any,
    ) -> None:
        for name, value, known in (
            ("versions", versions, ("latest", "all")),
            ("when_deleted", when_deleted, ("remove", "keep")),
        ):
            if value not in known:
                raise Error(f"{name} must be {known[0]!r} or {known[1]!r}, not {value!r}.")
        checked_url(address)
        self._address = address.partition("#")[0]
        self._interval_seconds = checked_interval(poll_interval_seconds)
        self._latest = versions == "latest"
        self._removes = when_deleted == "remove"
        self._tombstone = tombstone
        self._reach = Reach(**reach)
        self._pages: dict[str, _Page] = {}
        self._reported: dict[str, _Page] = {}

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        self._pages, self._reported = {}, {}  # reads all pages again, and compares the content
        await poll(self._look, self._interval_seconds, None, report, wake)

    async def _look(self, _: Version | None) -> Look:
        reached: dict[str, _Page] = {}
        waiting, rest = [self._address], 0.0
        while waiting:
            address = waiting.pop()
            if address in reached:
                continue
            if len(reached) == MOST_PAGES:
                raise Error(f"{self._address}: the stream has more than {MOST_PAGES:,} pages.")
            known = self._pages.get(address)
            page = known if known is not None and known.immutable else await self._fetch(address, known)
            reached[address] = self._pages[address] = page
            rest = page.fresh_seconds if page.fresh_seconds and not page.immutable else rest
            waiting.extend(page.leads_to)
        before = self._reported
        if before.keys() == reached.keys() and all(before[name] is page for name, page in reached.items()):
            return Look(Unchanged(), rest)
        quads = await asyncio.to_thread(self._content, list(reached.values()))
        self._pages, self._reported = dict(reached), reached
        return Look(Content(quads, {"pages": len(reached)}), rest)

    async def _fetch(self, address: str, known: _Page | None) -> _Page:
        """Fetches a page; returns the known one if it has not changed. Each page has its own budget, so that
        long streams can be read."""
        asking = {"Accept": ACCEPT, **(known.validators if known else {})}
        async with Network(self._reach, self._address) as network:
            response = await network.get(address, asking)
            if response.status == 304 and known is not None:
                return known
            if response.status != 200:
                raise Error(failure(response))
            quads = await read_document(response, network)
        headers = response.headers
        return await asyncio.to_thread(
            _page,
            quads,
            {address, response.url},
            {
                asked: headers[header]
                for asked, header in (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified"))
                if header in headers
            },
            "immutable" in headers.get("cache-control", "").lower(),
            fresh_seconds(headers),
        )

    def _content(self, pages: Iterable[_Page]) -> list[Quad]:
        pages = list(pages)
        facts: dict[NamedNode, NamedNode] = {}
        for page in pages:
            facts.update(page.facts)
        members = {member.name: member for page in pages for member in page.members}
        found: list[Quad] = []
        version_of = facts.get(_VERSION_OF)
        if version_of is None or not self._latest:
            kept: Iterable[list[Quad]] = (list(member.quads) for member in members.values())
        else:
            kept = self._latest_versions(members.values(), version_of, facts)
        for quads in kept:
            found.extend(quads)
            if len(found) > MOST_QUADS:
                raise Error(f"{self._address}: the stream holds more than {MOST_QUADS:,} quads.")
        return found

    def _latest_versions(
        self, members: Iterable[_Member], version_of: NamedNode, facts: Facts
    ) -> Iterator[list[Quad]]:
        """Yields the last version of each object, under the object's name."""
        path = next((facts[name] for name in _TIMESTAMPS if name in facts), None)
        versions: dict[Any, list[tuple[Any, str, _Member]]] = defaultdict(list)
        for member in members:
            objects = member.values(version_of)
            if len(objects) != 1 or isinstance(objects[0], RdfLiteral):
                raise Error(
                    f"{self._address}: member {member.name} needs exactly one {version_of}, the object that "
                    f'it is a version of. Use versions="all" to take members as they are.'
                )
            versions[objects[0]].append((self._time(member, path), str(member.name), member))
        for name, found in versions.items():
            found.sort(key=lambda version: version[:2])
            alive = [version for version in found if not self._is_tombstone(version[2], facts)]
            if alive and (alive[-1] is found[-1] or not self._removes):
                yield list(_rename(alive[-1][2], name, version_of))

    def _time(self, member: _Member, path: NamedNode | None) -> Any:
        values = [] if path is None else member.values(path)
        moments = [parse_date_time(value.value) for value in values if isinstance(value, RdfLiteral)]
        if len(moments) != 1 or moments[0] is None:
            raise Error(
                f"{self._address}: cannot find the last version of an object, because member {member.name} "
                f"does not have exactly one xsd:dateTime at ldes:timestampPath."
            )
        return moments[0].instant

    def _is_tombstone(self, member: _Member, facts: Facts) -> bool:
        if self._tombstone is not None and NamedNode(self._tombstone) in member.values(_TYPE):
            return True
        return facts.get(_DELETE_OBJECT) in member.values(facts.get(_DELETE_PATH, _TYPE))


def _page(
    quads: list[Quad], names: set[str], validators: Mapping[str, str], immutable: bool, fresh: float
) -> _Page:
    """Returns a document as a page of a stream."""
    by_subject: dict[Any, list[Quad]] = defaultdict(list)
    by_graph: dict[Any, list[Quad]] = defaultdict(list)
    for quad in quads:
        by_subject[quad.subject].append(quad)
        by_graph[quad.graph_name].append(quad)
    named = [quad.object for quad in quads if quad.predicate == _MEMBER]
    members = tuple(
        _Member(name, tuple(_description(name, by_subject, by_graph))) for name in dict.fromkeys(named)
    )
    relations = [quad.object for quad in quads if quad.predicate == _RELATION]
    leads_to = [link.object for one in relations for link in by_subject[one] if link.predicate == _NODE]
    views = [quad.object for quad in quads if quad.predicate == _VIEW]
    if not any(isinstance(view, NamedNode) and view.value.partition("#")[0] in names for view in views):
        leads_to.extend(views[:1])  # the address is that of the stream: each of its views has all members
    addresses = [node.value.partition("#")[0] for node in leads_to if isinstance(node, NamedNode)]
    return _Page(
        validators,
        immutable,
        fresh,
        members,
        tuple(address for address in dict.fromkeys(addresses) if address not in names),
        _facts(quads),
    )


def _facts(quads: Iterable[Quad]) -> Facts:
    facts: dict[NamedNode, NamedNode] = {}
    for quad in quads:
        if quad.predicate in (_VERSION_OF, _DELETE_OBJECT, _DELETE_PATH, *_TIMESTAMPS):
            if not isinstance(quad.object, NamedNode):
                raise Error(
                    f"The stream's {quad.predicate} is a path of several steps, which is not supported yet."
                )
            facts[quad.predicate] = quad.object
    return facts


def _description(
    name: Any, by_subject: Mapping[Any, list[Quad]], by_graph: Mapping[Any, list[Quad]]
) -> Iterator[Quad]:
    """Yields a member's triples, those of its blank nodes, and the graph of its name."""
    waiting, seen = [name], {name}
    while waiting:
        for quad in by_subject.get(waiting.pop(), ()):
            if quad.graph_name == name or quad.predicate == _MEMBER:
                continue
            yield quad
            if isinstance(quad.object, BlankNode) and quad.object not in seen:
                seen.add(quad.object)
                waiting.append(quad.object)
    yield from by_graph.get(name, ())


def _rename(member: _Member, name: Any, version_of: NamedNode) -> Iterator[Quad]:
    """Yields a version under its object's name, without the triple that marks it as a version."""

    def new(term: Any) -> Any:
        return name if term == member.name else term

    for subject, predicate, object_, graph in member.quads:
        if (subject, predicate) != (member.name, version_of):
            yield Quad(new(subject), predicate, new(object_), new(graph))
