"""Compares two versions of a document, whose blank nodes may have different labels.

Matches blank nodes: statements that are the same up to labels and order keep the labels of the old version,
so that reading an unchanged document again changes nothing. Parts of a document that blank nodes connect are
matched as a whole; a part that changed gets new nodes. Invariant: the result equals the new version up to
labels. The bounds on the search only affect how much of the old version is recognised.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, Quad

Renaming: TypeAlias = dict[BlankNode, BlankNode]

# Maximum steps of the search for a renaming of one part. Only nodes with the same surroundings need a search;
# few documents have any, except those made to be hard.
SEARCH_STEPS = 20_000
# Maximum steps for all parts of a document, in addition to some per quad. Beyond that, the search stops, and
# the remaining parts get new nodes.
DOCUMENT_STEPS = 200_000
_STEPS_PER_QUAD = 10
_ROUNDS = 64


def matched(old: Iterable[Quad], new: Iterable[Quad]) -> list[Quad]:
    """Returns the new quads; blank nodes that match old ones get their labels, others get new labels."""
    before, after = _Document(old), _Document(new)
    if not after.mentions:
        return after.ground
    names: Renaming = {}
    if not before.mentions:  # there is nothing to match
        names = {node: BlankNode() for node in after.mentions}
        return [*after.ground, *(renamed(quad, names) for quad in after.others)]
    _colour(before, after)
    left = DOCUMENT_STEPS + _STEPS_PER_QUAD * (len(before.others) + len(after.others))
    candidates: dict[Hashable, list[_Part]] = defaultdict(list)
    for part in before.parts():
        candidates[before.signature(part)].append(part)
    for part in after.parts():
        alike = candidates.get(after.signature(part))
        found = None
        if alike and left > 0:
            search = _search(after, part, before, alike[-1], min(left, SEARCH_STEPS + _size(part)))
            found = search.run()
            left -= search.steps
        if alike and found is not None:
            names.update(found)
            alike.pop()
        else:
            names.update({node: BlankNode() for node in part.nodes})
    return [*after.ground, *(renamed(quad, names) for quad in after.others)]


def renamed(quad: Quad, names: Mapping[BlankNode, BlankNode]) -> Quad:
    def name(term: Any) -> Any:
        return names[term] if isinstance(term, BlankNode) else term

    subject, predicate, object_, graph = quad
    return Quad(name(subject), predicate, name(object_), name(graph))


@dataclass
class _Part:
    """Connected blank nodes, and the quads that mention them."""

    nodes: list[BlankNode] = field(default_factory=list)
    quads: set[Quad] = field(default_factory=set)


class _Document:
    """The quads of one version: those without blank nodes, and the others by the nodes they mention."""

    def __init__(self, quads: Iterable[Quad]) -> None:
        self.ground: list[Quad] = []
        self.others: list[Quad] = []
        self.mentions: dict[BlankNode, list[Quad]] = defaultdict(list)
        self.colours: dict[BlankNode, int] = {}
        for quad in dict.fromkeys(quads):
            nodes = _nodes(quad)
            (self.others if nodes else self.ground).append(quad)
            for node in nodes:
                self.mentions[node].append(quad)

    def parts(self) -> list[_Part]:
        found: list[_Part] = []
        seen: set[BlankNode] = set()
        for start in self.mentions:
            if start in seen:
                continue
            part, waiting = _Part(), [start]
            seen.add(start)
            while waiting:
                node = waiting.pop()
                part.nodes.append(node)
                for quad in self.mentions[node]:
                    part.quads.add(quad)
                    for other in _nodes(quad) - seen:
                        seen.add(other)
                        waiting.append(other)
            found.append(part)
        return found

    def signature(self, part: _Part) -> Hashable:
        """A value that is equal for parts that are equal up to labels."""
        return frozenset(Counter(_coloured(quad, self.colours) for quad in part.quads).items())


def _nodes(quad: Quad) -> set[BlankNode]:
    subject, _, object_, graph = quad
    return {term for term in (subject, object_, graph) if isinstance(term, BlankNode)}


def _coloured(quad: Quad, colours: Mapping[BlankNode, int], own: BlankNode | None = None) -> Hashable:
    """A quad with colours instead of labels, as seen from the node `own`."""

    def view(term: Any) -> Hashable:
        if not isinstance(term, BlankNode):
            found: Hashable = term
            return found
        return (True,) if term == own else (False, colours.get(term, 0))

    subject, predicate, object_, graph = quad
    return (view(subject), predicate, view(object_), view(graph))


def _colour(before: _Document, after: _Document) -> None:
    """Colours the nodes of both versions by their neighbours, and refines the colours round by round.

    A colour that occurs at most once per version is final; others are refined until they no longer split.
    """
    documents = (before, after)
    for document in documents:
        document.colours = dict.fromkeys(document.mentions, 0)
    waiting = [(document, node) for document in documents for node in document.mentions]
    classes = 0
    left = DOCUMENT_STEPS + _STEPS_PER_QUAD * sum(len(document.others) for document in documents)
    for _ in range(_ROUNDS):
        left -= sum(len(document.mentions[node]) for document, node in waiting)
        if left < 0:  # colours that are not final are also correct, but distinguish less
            return
        fresh = [(document, node, _next_colour(document, node)) for document, node in waiting]
        for document, node, colour in fresh:
            document.colours[node] = colour
        counts = Counter((document is before, colour) for document, _, colour in fresh)
        waiting = [
            (document, node)
            for document, node, colour in fresh
            if max(counts[True, colour], counts[False, colour]) > 1
        ]
        if not waiting or len(counts) == classes:
            return
        classes = len({(document is before, document.colours[node]) for document, node in waiting})


def _next_colour(document: _Document, node: BlankNode) -> int:
    around = Counter(_coloured(quad, document.colours, node) for quad in document.mentions[node])
    return hash((document.colours[node], frozenset(around.items())))


def _size(part: _Part) -> int:
    """The number of steps of a search without wrong choices."""
    return 2 * len(part.nodes) + len(part.quads)


def _search(new: _Document, part: _Part, old: _Document, other: _Part, most_steps: int) -> _Search:
    """A search for a renaming of a part into another one with the same signature."""
    by_colour: dict[int, list[BlankNode]] = defaultdict(list)
    for node in other.nodes:
        by_colour[old.colours[node]].append(node)
    order = sorted(part.nodes, key=lambda node: len(by_colour[new.colours[node]]))
    return _Search(new, other, order, lambda node: by_colour[new.colours[node]], most_steps)


class _Search:
    """Assigns the nodes one after the other; tests each choice on the quads whose nodes are all assigned."""

    def __init__(
        self,
        document: _Document,
        target: _Part,
        order: list[BlankNode],
        choices: Callable[[BlankNode], list[BlankNode]],
        most_steps: int,
    ) -> None:
        self._choices = choices
        self._target = target.quads
        self._order = order
        self._most_steps = most_steps
        self.steps = 0
        """The number of steps so far: listed choices and compared quads."""
        place = {node: number for number, node in enumerate(order)}
        self._tests: list[list[Quad]] = [[] for _ in order]
        for node in order:
            for quad in document.mentions[node]:
                if max(place[other] for other in _nodes(quad)) == place[node]:
                    self._tests[place[node]].append(quad)

    def run(self) -> Renaming | None:
        """Returns a renaming; None if none exists, or if the steps do not suffice to find it.

        Depth first, without recursion, because documents can have long lists.
        """
        names: Renaming = {}
        used: set[BlankNode] = set()
        open_choices = [self._choices_at(0)]
        while open_choices:
            depth = len(open_choices) - 1
            node = self._order[depth]
            if node in names:
                used.discard(names.pop(node))
            choice = self._next(open_choices[-1], depth, names, used)
            if self.steps > self._most_steps:
                return None
            if choice is None:
                open_choices.pop()
                continue
            used.add(choice)
            if depth + 1 == len(self._order):
                return names
            open_choices.append(self._choices_at(depth + 1))
        return None

    def _choices_at(self, depth: int) -> list[BlankNode]:
        choices = list(self._choices(self._order[depth]))
        self.steps += len(choices)
        return choices

    def _next(
        self, choices: list[BlankNode], depth: int, names: Renaming, used: set[BlankNode]
    ) -> BlankNode | None:
        """The next choice for a node that passes its tests; enters it into `names`."""
        while choices and self.steps <= self._most_steps:
            self.steps += 1 + len(self._tests[depth])
            choice = choices.pop()
            if choice in used:
                continue
            names[self._order[depth]] = choice
            if all(renamed(quad, names) in self._target for quad in self._tests[depth]):
                return choice
            del names[self._order[depth]]
        return None
