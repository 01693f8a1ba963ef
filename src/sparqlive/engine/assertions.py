"""Records which source asserts which quad: a quad exists while at least one source asserts it.

Owns the quads of all sources except `local`, which stands for everything that `load`, `apply` and `update`
add. If no other source asserts a quad, it exists if and only if `local` asserts it, and nothing is recorded.
Invariant: the records do not change before `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from sparqlive.quads.current import Change, Quad
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Column

_LOCAL = "sources/local"


class Assertions:
    def __init__(self) -> None:
        self._of: dict[str, Relation] = {}
        self._counts = Relation(4)
        self._local = Relation(4)
        self._staged: dict[str, dict[Row, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    # Sources

    def add(self, source: str, quads: Mapping[Row, int]) -> None:
        """Adds a source with the quads that it already asserts."""
        self._of[source] = Relation(4, quads)
        self._counts.stage(quads)
        self._counts.commit()

    def load_local(self, quads: Mapping[Row, int]) -> None:
        """Loads the quads that `local` asserts in addition to other sources."""
        self._local.load(quads)

    def forget(self, source: str) -> None:
        """Removes a source that no longer asserts anything."""
        assert not len(self._of[source]), "a source is removed after its quads"
        del self._of[source]

    def quads(self, source: str) -> Iterator[Quad]:
        for (s, p, o, g), _ in self._of[source].items():
            yield s, p, o, g

    def is_local(self, quad: Quad) -> bool:
        """Whether `local` asserts an existing quad."""
        return not self.is_asserted(quad) or self._local.weight_before(quad) > 0

    def is_asserted(self, quad: Quad) -> bool:
        """Whether a source other than `local` asserts a quad."""
        return self._counts.weight_before(quad) > 0

    def sources(self) -> list[str]:
        return list(self._of)

    def count(self, source: str) -> int:
        return len(self._of[source])

    def count_after(self, source: str, wanted: Mapping[Quad, int]) -> int:
        """How many quads a source asserts after the given changes."""
        own = self._of[source]
        return len(own) + sum(
            weight for quad, weight in wanted.items() if (own.weight_before(quad) > 0) != (weight > 0)
        )

    def ids(self) -> Iterator[Column]:
        """The ids in all quads that sources assert."""
        for relation in (*self._of.values(), self._counts, self._local):
            yield from relation.ids()

    # Epochs

    def resolve(
        self,
        source: str | None,
        wanted: Mapping[Quad, int],
        present: Callable[[Iterable[Quad]], Set[Quad]],
    ) -> dict[Quad, int]:
        """Returns how the assertions of a source (None: `local`) change the graph, and stages their records.

        `present` returns which of some quads are in the graph; it is called once, as they may be on disk.
        """
        if source is None:
            return self._resolve_local(wanted)
        own, counts, local = self._of[source], self._counts, self._local
        changed: dict[Row, int] = {}
        graph: dict[Quad, int] = {}
        marks: dict[Row, int] = {}
        for quad, weight in wanted.items():
            if (own.weight_before(quad) > 0) == (weight > 0):
                continue
            changed[quad] = weight
            if counts.weight_before(quad) > (weight < 0):
                continue  # other sources assert it too
            if weight < 0 and local.weight_before(quad):
                marks[quad] = -1
            else:
                graph[quad] = weight
        # A quad that exists although no other source asserted it is asserted by `local`.
        for quad in present([quad for quad, weight in graph.items() if weight > 0]):
            del graph[quad]
            marks[quad] = 1
        self._staged = {f"source/{source}": changed, "": changed, _LOCAL: marks}
        return graph

    def _resolve_local(self, wanted: Mapping[Quad, int]) -> dict[Quad, int]:
        graph: dict[Quad, int] = {}
        marks: dict[Row, int] = {}
        for quad, weight in wanted.items():
            if not self._counts.weight_before(quad):
                graph[quad] = weight
            elif (self._local.weight_before(quad) > 0) != (weight > 0):
                marks[quad] = weight
        self._staged = {_LOCAL: marks}
        return graph

    def staged(self) -> dict[str, tuple[int, Mapping[Row, int]]]:
        """The deltas of the records, by the name of the relation: width and rows."""
        return {name: (4, rows) for name, rows in self._staged.items() if rows and name}

    def staged_by(self, source: str | None, changes: Sequence[Change]) -> dict[Row, int]:
        """The assertions that a source adds and withdraws; `changes` are the changes of the graph."""
        if source is not None:
            return dict(self._staged.get(f"source/{source}", {}))
        return {**{change[:4]: change[4] for change in changes}, **self._staged.get(_LOCAL, {})}

    def commit(self) -> None:
        if not self._staged:
            return
        for name, rows in self._staged.items():
            if rows:
                self._relation(name).add(rows)
        self._staged = {}

    def _relation(self, name: str) -> Relation:
        if not name:
            return self._counts
        return self._local if name == _LOCAL else self._of[name.removeprefix("source/")]

    def rollback(self) -> None:
        self._staged = {}
