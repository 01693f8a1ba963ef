"""Following links: a view registered with `follow` fetches the documents that its solutions may need.

Owns which documents these are, and the triples that state which document describes which resource. Each
document is one source of kind `web`, shared by all views that reach it and removed with the last of them.
Stops at the bounds of `Follow`, and reports these. Invariant: after each step the documents are those reached
from the IRIs of the queries and from other data, by quads that match a pattern, within the bounds. So
documents that only mention each other are removed.

Mentions are counted under the writer's lock as quads come and go; the documents are computed in a separate
thread. (Schmedding 2011, §2.3; reachability by matching quads.)
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from pyoxigraph import NamedNode

from sparqlive.engine.assertions import TakenNumberError
from sparqlive.engine.batches import Batch
from sparqlive.engine.view import View
from sparqlive.engine.writer import Writer
from sparqlive.errors import Error, Unsupported, ViewExists
from sparqlive.numbers import seconds
from sparqlive.plan.link_patterns import reads_named_graphs, starts_of, steps_of
from sparqlive.quads.current import Quad as QuadIds
from sparqlive.rdf.reserved import DESCRIBED_BY, LINKS
from sparqlive.sources.background import BackgroundThread
from sparqlive.sources.links.follow import ADDRESSES, Follow, Matcher
from sparqlive.sources.manager import Source, SourceManager
from sparqlive.sources.watcher import address_of, watcher
from sparqlive.sparql.syntax import parse_query
from sparqlive.web.hosts import host_is_among
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.store.store import Store

_NOTE = "follow/"
_WAIT_SECONDS = 60.0
# How many documents one step adds; other writers can run between two steps.
_ADDED_AT_ONCE = 16

Mentions: TypeAlias = dict[str, Counter[str]]
"""How often resources are mentioned, by the address of the document that describes them."""


@dataclass
class _ReachedDocuments:
    """What a view reaches: the depth of each existing document, the documents to fetch, and bounds."""

    depths: dict[str, int]
    new: list[str]
    bounds: dict[str, str]


class LinkFollower:
    """A view that follows links: `view.follow`."""

    def __init__(self, traversal: Traversal, view: View, settings: Follow) -> None:
        self.view = view
        self.settings = settings
        self._traversal = traversal
        self._mentioned: dict[str | None, Mentions] = {}
        self._outside: dict[str | None, Counter[str]] = {}
        self.state = traversal.writer.views.state(view.name)
        query = self.state.query
        self._matcher = Matcher(steps_of(query), settings.predicates, traversal.dictionary)
        self._starts: Mentions = {}
        self.refused: dict[str, str] = {}
        for iri in starts_of(query):
            if iri.startswith(ADDRESSES):
                self._mention(self._starts, self._outside.setdefault(None, Counter()), iri, 1)
        self.reached = _ReachedDocuments({}, [], {})
        self.resting = False
        self._begun: float | None = None
        self._spent = False

    # Under the writer's lock

    def begin(self, writer: Writer) -> None:
        """Counts the mentions in the existing quads."""
        local = (
            quad for quad in writer.quads.of_predicates(self._matcher) if writer.assertions.is_local(quad)
        )
        self.hear(None, ((quad, 1) for quad in local))
        for source in writer.assertions.sources():
            if source != LINKS.value:
                self.hear(source, ((quad, 1) for quad in writer.assertions.quads(source)))

    def hear(self, origin: str | None, changes: Iterable[tuple[Row, int]]) -> None:
        """Counts the mentions in quads that a source (None: local data) asserts or retracts."""
        mentioned = self._mentioned.setdefault(origin, {})
        outside = self._outside.setdefault(origin, Counter())
        has_news = False
        for quad, weight in changes:
            for iri in self._matcher.led_to(quad):
                has_news = True
                self._mention(mentioned, outside, iri, weight)
        if not mentioned:
            del self._mentioned[origin]
        if not outside:
            del self._outside[origin]
        if has_news and self._spent and origin not in self.pending():
            self.resume()

    def resume(self) -> None:
        """Allows fetching again after the time limit was reached."""
        self._spent, self._begun = False, None

    def _mention(self, mentioned: Mentions, outside: Counter[str], iri: str, weight: int) -> None:
        address = address_of("web", iri)
        try:
            inside = host_is_among(address, self.settings.hosts)
        except ValueError:  # not a valid URL: a bracket, or a port that is not a number
            return
        counts = mentioned.setdefault(address, Counter()) if inside else outside
        key = iri if inside else urlsplit(address).netloc
        counts[key] += weight
        if not counts[key]:
            del counts[key]
            if inside and not counts:
                del mentioned[address]
                self.refused.pop(address, None)

    def reach(self, sources: Mapping[str, Source]) -> None:
        """Computes which documents the view reaches. `sources` are all sources of the session."""
        settings, bounds = self.settings, dict[str, str]()
        found = {name for name, source in sources.items() if source.found}
        others = [mentions for origin, mentions in self._mentioned.items() if origin not in found]
        depths: dict[str, int] = {}
        level = found & self._starts.keys()
        for depth in range(settings.depth + 1):
            depths.update(dict.fromkeys(sorted(level), depth))
            ways = [self._mentioned.get(address, {}) for address in level] + (others if depth == 0 else [])
            level = {address for way in ways for address in way.keys() & found if address not in depths}
            if not level:
                break
        room, size = settings.documents, settings.bytes
        kept: dict[str, int] = {}
        for address, depth in depths.items():
            cost = self._bytes(sources[address])
            if room > 0 and cost <= size:
                kept[address], room, size = depth, room - 1, size - cost
        new = self._admit(kept, others, sources, room, size, bounds)
        last = [self._mentioned.get(address, {}) for address, at in kept.items() if at == settings.depth]
        last += others if settings.depth == 0 else []
        if any(address not in sources for way in last for address in way):
            bounds["depth"] = f"Links beyond a depth of {settings.depth} are not followed."
        self.reached = _ReachedDocuments(kept, new, bounds)

    def _admit(
        self,
        kept: Mapping[str, int],
        others: Iterable[Mentions],
        sources: Mapping[str, Source],
        room: int,
        size: int,
        bounds: dict[str, str],
    ) -> list[str]:
        """Returns the documents to fetch, nearest first, within the bounds."""
        settings, new = self.settings, dict[str, None]()
        reserved = min(settings.document_bytes, settings.bytes)
        ways = [self._starts, *(others if settings.depth else ())]
        ways += [self._mentioned.get(at, {}) for at, depth in kept.items() if depth < settings.depth]
        now = time.monotonic()
        for address in (address for way in ways for address in way):
            known = sources.get(address)
            if address in kept or address in new or address in self.refused:
                continue
            if known is not None and not known.found:
                continue
            if room < 1:
                bounds["documents"] = f"The data mentions more than {settings.documents} documents."
            elif size < reserved or known is not None:
                bounds["bytes"] = f"All documents together may exceed {settings.bytes:,} bytes."
            elif self._begun is not None and now - self._begun > settings.seconds:
                bounds["seconds"] = f"Documents were fetched for {settings.seconds:g} s without a pause."
                self._spent = True
            else:
                self._begun = self._begun or now
                new[address] = None
                room, size = room - 1, size - reserved
                continue
            break
        return list(new)

    def _bytes(self, source: Source) -> int:
        """The size of a document; its maximum until the size is known."""
        if _is_pending(source):
            return int(source.options["max_bytes"])
        return 0 if source.version is None else int(source.version.get("bytes", 0))

    def rest(self) -> None:
        """Records whether no document is pending."""
        self.resting = not self.pending()
        if self.resting and not self._spent:
            self._begun = None

    def pending(self) -> set[str]:
        """The documents that are not fetched yet."""
        sources = self._traversal.sources
        kept = (address for address in self.reached.depths if address in sources)
        return {address for address in kept if _is_pending(sources[address])} | set(self.reached.new)

    def links(self, sources: Mapping[str, Source]) -> Iterator[tuple[str, str]]:
        """Yields resources and the documents that describe them."""
        outside = {name for name, source in sources.items() if source.found} - self.reached.depths.keys()
        ways = [self._starts, *(way for origin, way in self._mentioned.items() if origin not in outside)]
        fetched = {
            address
            for address, source in sources.items()
            if address not in outside and source.kind == "web" and source.last_seen is not None
        }
        for way in ways:
            for address in way.keys() & fetched:
                yield from ((resource, address) for resource in way[address])

    # From any thread

    def status(self) -> dict[str, Any]:
        """The documents: fetched, pending and failed with the reason; and the bounds that were reached."""
        with self._traversal.writer.reading():
            sources = self._traversal.sources
            held = {address: sources[address] for address in self.reached.depths if address in sources}
            outside = sum(self._outside.values(), Counter[str]())
            return {
                "documents": [name for name, source in held.items() if source.last_seen is not None],
                "pending": sorted(self.pending()),
                "failed": {name: source.error for name, source in held.items() if source.error is not None}
                | self.refused,
                "other_hosts": dict(outside),
                "bytes": sum(self._bytes(source) for source in held.values() if not _is_pending(source)),
                "bounds": dict(self.reached.bounds),
                "watched": self._traversal.manager.watching,
                "error": self._traversal.error,
            }

    def wait(self, timeout_seconds: float = _WAIT_SECONDS) -> None:
        """Waits until no document is pending."""
        seconds("timeout_seconds", timeout_seconds)
        self._traversal.wait(self, timeout_seconds)

    def refresh(self, timeout_seconds: float = _WAIT_SECONDS) -> None:
        """Fetches all documents again, including failed ones, and waits until no document is pending."""
        seconds("timeout_seconds", timeout_seconds)
        ends = time.monotonic() + timeout_seconds
        with self._traversal.writer.reading():
            self.resume()
            sources = self._traversal.sources
            held = [sources[address] for address in self.reached.depths if address in sources]
        self._traversal.manager.refresh(held, timeout_seconds)
        self._traversal.wake()
        self._traversal.wait(self, max(0.0, ends - time.monotonic()))

    def __repr__(self) -> str:
        return f"LinkFollower({self.view.name!r}, {self.settings})"


def _is_pending(source: Source) -> bool:
    return source.last_seen is None and source.error is None


class Traversal:
    """Follows links for all views of one session."""

    def __init__(self, writer: Writer, manager: SourceManager) -> None:
        self.writer = writer
        self.manager = manager
        self.dictionary = writer.terms.dictionary
        self.error: str | None = None
        self._followings: dict[str, LinkFollower] = {}
        self._thread = BackgroundThread("sparqlive-links", self._look)

    @property
    def sources(self) -> Mapping[str, Source]:
        return self.manager.by_name

    # From the session

    def check(
        self, name: str, text: str, base: str | None, settings: Follow | None, replace: bool, union: bool
    ) -> None:
        """Rejects an existing view with different settings, and a view that could never see a document."""
        if settings is not None and not union and not reads_named_graphs(parse_query(text, base)):
            raise Unsupported(
                f"View {name!r} would follow links to no effect: documents are in named graphs, and its "
                f'query reads only the unnamed graph. Open the session with default_graph="union", or use '
                f"GRAPH."
            )
        known = self._followings.get(name)
        if (
            name in self.writer.views
            and not replace
            and (None if known is None else known.settings) != settings
        ):
            raise ViewExists(
                f"View {name!r} already exists with a different follow setting. Pass replace=True to replace "
                f"it, or choose another name."
            )

    def note(self, name: str, settings: Follow | None) -> dict[str, str]:
        """The store's note of a view that follows links."""
        text = "" if settings is None else json.dumps({"view": name, **asdict(settings)})
        return {_NOTE + name: text}

    def begin(self, view: View, settings: Follow | None) -> None:
        """Sets how a view follows links; None: not at all. The caller holds the lock."""
        known = self._followings.get(view.name)
        if known is not None and known.view is view and known.settings == settings:
            return
        if settings is None:
            self.end(view.name)
            return
        self.writer.commit(Batch(notes=self.note(view.name, settings)))
        self._follow(view, settings)

    def _follow(self, view: View, settings: Follow) -> None:
        if LINKS.value not in self.writer.assertions:
            self.writer.assertions.add(LINKS.value)
        following = self._followings[view.name] = LinkFollower(self, view, settings)
        following.state.follow_links(following)
        if self.manager.watching:
            following.begin(self.writer)
            following.reach(self.sources)
            self._start()
            self.wake()

    def end(self, name: str) -> None:
        """Stops following for a dropped view, and removes documents that no other view reaches."""
        with self.writer.changing():
            ended = self._followings.pop(name, None)
            if ended is None:
                return
            ended.state.follow_links(None)
            self.writer.commit(Batch(notes=self.note(name, None)))
            if self.manager.watching or not self._followings:
                self._step()

    def load(self, store: Store) -> None:
        """Continues following links for the views of a store."""
        describes = self.writer.assertions.is_loaded(LINKS.value)
        if describes:
            self.writer.assertions.add(LINKS.value)
        noted = map(json.loads, store.catalog.metas(_NOTE))
        with self.writer.reading():
            for note in noted:
                name = note.pop("view")
                if name in self.writer.views.by_name:
                    self._follow(self.writer.views[name], Follow.from_note(note))
                else:  # the process ended while the view was being dropped
                    self.writer.commit(Batch(notes=self.note(name, None)))
            if not self._followings and (describes or any(source.found for source in self.sources.values())):
                self._step()

    def stop(self) -> None:
        self._thread.stop()

    # On changes

    def wake(self) -> None:
        """Wakes the thread, because quads changed or a document was fetched."""
        self._thread.wake()

    def _witness(self, origin: str | None, changes: Mapping[Row, int]) -> None:
        if origin != LINKS.value and changes:
            for following in self._followings.values():
                following.hear(origin, changes.items())
            self.wake()

    def wait(self, following: LinkFollower, timeout_seconds: float) -> None:
        if not self.manager.watching:
            raise Error(
                f"View {following.view.name!r} does not follow links in this session. Open the session with "
                f"watch=True."
            )
        if not self._thread.wait(lambda: following.resting, timeout_seconds):
            raise Error(
                f"View {following.view.name!r} still waits for documents after {timeout_seconds:g} s."
            )

    # In the background thread

    def _start(self) -> None:
        if self._thread.start():
            self.writer.witness(self._witness)
            self.manager.tell_of_answers(self.wake)

    def _look(self) -> None:
        try:
            with self.writer.changing():
                if self.writer.closed:
                    return
                self._step()
            self.error = None
        except Exception as error:  # for example a full disk: the next step tries again
            self.error = f"{type(error).__name__}: {error}"

    def _step(self) -> None:
        """Updates the documents to those that are reached, and the triples that describe them."""
        self._reach()
        self._remove()
        self._reach()
        if self.manager.watching:
            self._add()
        self._reach()
        self._describe()
        for following in self._followings.values():
            following.rest()
        self._thread.wake(any(one.reached.new for one in self._followings.values()))

    def _reach(self) -> None:
        for following in self._followings.values():
            following.reach(self.sources)

    def _remove(self) -> None:
        """Removes documents that no view reaches with these options."""
        reached: dict[str, list[dict[str, Any]]] = {}
        for following in self._followings.values():
            options = following.settings.options()
            for address in following.reached.depths:
                reached.setdefault(address, []).append(options)
        for source in [source for source in self.sources.values() if source.found]:
            if source.options not in reached.get(source.name, ()):
                self.manager.remove(source)

    def _add(self) -> None:
        """Adds some of the documents to fetch."""
        new = ((one, address) for one in self._followings.values() for address in one.reached.new)
        for following, address in islice(new, _ADDED_AT_ONCE):
            options = following.settings.options()
            try:
                source = Source(self.manager, address, "web", address, options, found=True)
                watching = watcher("web", address, options)
            except Error as error:
                following.refused[address] = str(error)
                continue
            if address not in self.sources:  # another view may have added it just now
                try:
                    self.manager.add(source, watching)
                except TakenNumberError as error:
                    following.refused[address] = str(error)

    def _describe(self) -> None:
        """Writes in one epoch which documents describe which resources."""
        writer, id_of = self.writer, self.dictionary.id_of
        if LINKS.value not in writer.assertions:
            return
        predicate, graph = id_of(DESCRIBED_BY), id_of(LINKS)
        links: set[QuadIds] = {
            (id_of(NamedNode(resource)), predicate, id_of(NamedNode(document)), graph)
            for following in self._followings.values()
            for resource, document in following.links(self.sources)
        }
        old = set(writer.assertions.quads(LINKS.value))
        changes = {**dict.fromkeys(old - links, -1), **dict.fromkeys(links - old, 1)}
        if changes:
            writer.commit(Batch(ids=changes, source=LINKS.value))
        if not self._followings:
            writer.assertions.forget(LINKS.value)
