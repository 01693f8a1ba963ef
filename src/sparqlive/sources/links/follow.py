"""Settings for following links, and which quads lead to further documents.

Owns the settings and their checks, and the matching of quads with a query's patterns, by ids. `traversal.py`
computes which documents are reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyoxigraph import NamedNode

from sparqlive.errors import Error
from sparqlive.numbers import MOST_SECONDS, seconds, whole
from sparqlive.plan.link_patterns import LinkStep
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sources.watcher import watcher
from sparqlive.zset.relation import Row

ADDRESSES = ("http://", "https://")
_LEAST_TIMEOUT_SECONDS, _MOST_TIMEOUT_SECONDS = 0.001, 30.0


@dataclass(frozen=True)
class Follow:
    """How far a view follows links. Everything is bounded; the status names the bounds that were reached."""

    predicates: tuple[str, ...] | None = None
    """Follow only quads with these predicates; None: all quads that match a pattern of the query."""
    depth: int = 3
    """The maximum number of links from the query's IRIs; documents that other data mentions are one away."""
    hosts: tuple[str, ...] | None = None
    """Fetch only from these hosts (`name` or `name:port`), including redirects; None: from all."""
    documents: int = 100
    bytes: int = 64 << 20
    """The maximum size of all documents together, as last fetched."""
    document_bytes: int = 4 << 20
    """The maximum size of one document per fetch."""
    seconds: float = 60.0
    """How long new documents may be fetched without a pause."""
    poll_interval_seconds: float | None = None
    """How often documents are fetched again; None: only on `view.follow.refresh()`."""
    allow_private: bool = False
    remote_contexts: bool = False

    def __post_init__(self) -> None:
        for name in ("predicates", "hosts"):
            items = getattr(self, name)
            if isinstance(items, str):
                raise Error(f"{name} must be a list of strings or None, not {items!r}.")
            if items is not None:
                texts = (item.value if isinstance(item, NamedNode) else str(item) for item in items)
                kept = tuple(text.lower() if name == "hosts" else _iri(text) for text in texts)
                object.__setattr__(self, name, kept)
        for name in ("depth", "documents"):
            whole(name, getattr(self, name))
        for name in ("bytes", "document_bytes"):
            whole(name, getattr(self, name), least=1)
        seconds("seconds", self.seconds, least=0)
        watcher("web", "http://example.org/", self.options())  # applies the checks of sources

    @classmethod
    def of(cls, given: Follow | bool | None) -> Follow | None:
        """Returns the settings of the argument `follow`; True means the defaults."""
        if given is None or given is False:
            return None
        if given is True:
            return cls()
        if not isinstance(given, Follow):
            raise Error(f"follow must be True or a sparqlive.Follow, not {given!r}.")
        return given

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Follow:
        """Returns settings from a store; those of older stores may be outside of today's bounds."""
        sizes = {name: max(1, note[name]) for name in ("bytes", "document_bytes")}
        return cls(**{**note, **sizes, "seconds": min(note["seconds"], MOST_SECONDS)})

    def options(self) -> dict[str, Any]:
        """The options of the documents' sources."""
        return {
            "poll_interval_seconds": self.poll_interval_seconds,
            "allow_private": self.allow_private,
            "remote_contexts": self.remote_contexts,
            "max_bytes": min(self.document_bytes, self.bytes),
            "timeout_seconds": max(_LEAST_TIMEOUT_SECONDS, min(self.seconds, _MOST_TIMEOUT_SECONDS)),
            "hosts": None if self.hosts is None else list(self.hosts),
        }


def _iri(text: str) -> str:
    try:
        return NamedNode(text).value
    except ValueError as error:
        raise Error(f"predicates must be IRIs, and {text!r} is not one: {error}.") from error


class Matcher:
    """Finds the IRIs that quads lead to, by ids."""

    def __init__(
        self, steps: Iterable[LinkStep], predicates: Iterable[str] | None, dictionary: Dictionary
    ) -> None:
        self._text = dictionary.text
        self._by_predicate: dict[int | None, list[tuple[int | None, int | None, LinkStep]]] = {}
        self._excluded: dict[LinkStep, set[int]] = {}
        allowed = None if predicates is None else {dictionary.id_of(NamedNode(p)) for p in predicates}
        for step in steps:
            self._excluded[step] = {dictionary.id_of(predicate) for predicate in step.excluded}
            subject, predicate, object_ = (
                None if term is None else dictionary.id_of(term)
                for term in (step.subject, step.predicate, step.object)
            )
            entry = (subject, object_, step)
            if allowed is None:
                self._by_predicate.setdefault(predicate, []).append(entry)
            else:
                for one in allowed if predicate is None else allowed & {predicate}:
                    self._by_predicate.setdefault(one, []).append(entry)

    def __contains__(self, predicate: object) -> bool:
        """Whether quads with a predicate can lead to a document."""
        return None in self._by_predicate or predicate in self._by_predicate

    def led_to(self, quad: Row) -> Iterator[str]:
        """Yields the IRIs that a quad leads to."""
        for predicate in (quad[1], None):
            for subject, object_, step in self._by_predicate.get(predicate, ()):
                if (
                    (subject is None or subject == quad[0])
                    and (object_ is None or object_ == quad[2])
                    and not (step.loop and quad[0] != quad[2])
                    and quad[1] not in self._excluded[step]
                ):
                    for position in step.leads:
                        text = self._text(quad[position])
                        if text[0] == "<" and text.startswith(ADDRESSES, 1):
                            yield text[1:-1]
