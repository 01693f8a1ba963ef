"""Records which source asserts which quad: a quad exists while at least one source asserts it.

Owns the quads of all sources except `local`, which stands for everything that `load`, `apply` and `update`
add. If no other source asserts a quad, it exists if and only if `local` asserts it, and nothing is recorded.
The records are one relation of source, s, p, o, g, whatever the number of sources: the number of a source is
a hash of its name. Invariant: the records do not change before `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np

from sparqlive.errors import Error
from sparqlive.quads.current import Change, Quad
from sparqlive.rdf.dictionary import hash_of
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.zset.keyed_relation import KeyedRelation
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Column, Run, RunRows

ASSERTED = "sources/quads"
"""The relation of a store with a row of source, s, p, o, g for each quad that a source asserts."""
LOCAL = "sources/local"
"""The relation of a store with the quads that `local` asserts in addition to other sources."""
WIDTH = 5
BY_SOURCE, BY_QUAD = (0, 1, 2, 3, 4), (1, 2, 3, 4, 0)
"""The orders in which the records are looked up."""


class TakenNumberError(Error):
    """The number of a source belongs to another one."""


class _Staged(NamedTuple):
    """What an epoch changes: the quads of a source, given by its number, and the marks of `local`."""

    source: int
    quads: Mapping[Row, int]
    marks: Mapping[Row, int]


_NOTHING = _Staged(0, {}, {})


class Assertions:
    def __init__(self, tuning: Tuning = DEFAULT, number_of: Callable[[str], int] = hash_of) -> None:
        """`number_of` returns the number of a source by its name: 64 bits, evenly spread."""
        self._tuning = tuning
        self._number_of = number_of
        self._names: dict[int, str] = {}
        self._counts: dict[int, int] = {}
        self._by_source = KeyedRelation(WIDTH, 1, tuning=tuning)
        self._by_quad = KeyedRelation(WIDTH, 4, tuning=tuning)
        self.local = Relation(4, tuning=tuning)
        """The quads that `local` asserts in addition to other sources."""
        self._staged = _NOTHING

    def __bool__(self) -> bool:
        return bool(self._names)

    def __contains__(self, source: str) -> bool:
        return self._names.get(self._number_of(source)) == source

    # Sources

    def use(self, by_source: KeyedRelation, by_quad: KeyedRelation) -> None:
        """Uses the records of a store, between epochs; sources are added afterwards."""
        self._by_source, self._by_quad = by_source, by_quad

    def add(self, source: str) -> None:
        """Adds a source, with the quads that were loaded for it."""
        number = self._number_of(source)
        known = self._names.setdefault(number, source)
        if known != source:
            raise TakenNumberError(
                f"The names of the sources {source!r} and {known!r} have the same hash, by which a source is "
                f"recorded. Choose another name for one of them."
            )
        self._counts[number] = self._by_source.count_before(number)

    def is_loaded(self, source: str) -> bool:
        """Whether a source has quads, also before it is added."""
        return self._by_source.count_before(self._number_of(source)) > 0

    def forget(self, source: str) -> None:
        """Removes a source that no longer asserts anything."""
        number = self._number(source)
        assert not self._counts[number], "a source is removed after its quads"
        del self._names[number], self._counts[number]

    def _number(self, source: str) -> int:
        number = self._number_of(source)
        assert self._names.get(number) == source, "the source was added"
        return number

    def quads(self, source: str) -> Iterator[Quad]:
        return iter(self._by_source.before(self._number(source)) or ())

    def is_local(self, quad: Quad) -> bool:
        """Whether `local` asserts an existing quad."""
        return not self.is_asserted(quad) or self.local.weight_before(quad) > 0

    def is_asserted(self, quad: Quad) -> bool:
        """Whether a source other than `local` asserts a quad."""
        return self._by_quad.count_before(quad) > 0

    def sources(self) -> Collection[str]:
        return self._names.values()

    def count_after(self, source: str, wanted: Mapping[Quad, int]) -> int:
        """The number of quads that a source asserts after the given changes."""
        number, has = self._number(source), self._by_source.has_before
        changed = (weight for quad, weight in wanted.items() if has(number, quad) != (weight > 0))
        return self._counts[number] + sum(changed)

    def ids(self) -> Iterator[Column]:
        """The ids in all quads that sources assert; also the numbers of sources, which do no harm."""
        yield from self._by_quad.ids()
        yield from self.local.ids()

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes."""
        return self._by_source.nbytes + self._by_quad.nbytes + self.local.nbytes

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
        number, is_own = self._number(source), self._by_source.has_before
        count, local = self._by_quad.count_before, self.local
        changed: dict[Row, int] = {}
        graph: dict[Quad, int] = {}
        marks: dict[Row, int] = {}
        for quad, weight in wanted.items():
            if is_own(number, quad) == (weight > 0):
                continue
            changed[quad] = weight
            if count(quad) > (weight < 0):
                continue  # other sources assert it too
            if weight < 0 and local.weight_before(quad):
                marks[quad] = -1
            else:
                graph[quad] = weight
        # A quad that exists although no other source asserted it is asserted by `local`.
        for quad in present([quad for quad, weight in graph.items() if weight > 0]):
            del graph[quad]
            marks[quad] = 1
        self._staged = _Staged(number, changed, marks)
        return graph

    def _resolve_local(self, wanted: Mapping[Quad, int]) -> dict[Quad, int]:
        graph: dict[Quad, int] = {}
        marks: dict[Row, int] = {}
        for quad, weight in wanted.items():
            if not self.is_asserted(quad):
                graph[quad] = weight
            elif (self.local.weight_before(quad) > 0) != (weight > 0):
                marks[quad] = weight
        self._staged = _Staged(0, {}, marks)
        return graph

    def staged(self) -> dict[str, tuple[int, Mapping[Row, int]]]:
        """The deltas of the records, by the name of the relation: width and rows."""
        source, quads, marks = self._staged
        deltas: dict[str, tuple[int, Mapping[Row, int]]] = {}
        if len(quads) > self._tuning.column_rows:
            deltas[ASSERTED] = WIDTH, RunRows(Run.sort(*_columns(source, quads)))
        elif quads:
            deltas[ASSERTED] = WIDTH, {(source, *quad): weight for quad, weight in quads.items()}
        if marks:
            deltas[LOCAL] = 4, marks
        return deltas

    def staged_by(self, source: str | None, changes: Sequence[Change]) -> dict[Row, int]:
        """The assertions that a source adds and withdraws; `changes` are the changes of the graph."""
        if source is not None:
            return dict(self._staged.quads)
        return {**{change[:4]: change[4] for change in changes}, **self._staged.marks}

    def commit(self) -> None:
        source, quads, marks = self._staged
        self._staged = _NOTHING
        if quads:
            self._commit(source, quads)
            self._counts[source] += sum(quads.values())
        if marks:
            self.local.add(marks)

    def _commit(self, source: int, quads: Mapping[Row, int]) -> None:
        part_of_all = self._by_quad.size_about() // self._tuning.run_to_overlay
        if len(quads) > max(self._tuning.column_rows, part_of_all):
            (number, *columns), weights = _columns(source, quads)
            self._by_source.stage_columns([number, *columns], weights)
            self._by_quad.stage_columns([*columns, number], weights)
            self._by_source.commit()
            self._by_quad.commit()
            return
        self._by_source.apply_all((source, quad, weight) for quad, weight in quads.items())
        self._by_quad.apply_all((quad, source, weight) for quad, weight in quads.items())

    def rollback(self) -> None:
        self._staged = _NOTHING


def _columns(source: int, quads: Mapping[Row, int]) -> tuple[list[Column], Column]:
    """The rows of source, s, p, o, g, and their weights."""
    size = len(quads)
    table = np.fromiter(chain.from_iterable(quads), np.int64, 4 * size).reshape(-1, 4)
    columns = [np.full(size, source, np.int64), *map(np.ascontiguousarray, table.T)]
    return columns, np.fromiter(quads.values(), np.int64, size)
