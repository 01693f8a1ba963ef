"""The quads of a session in all orders, for plans to read and epochs to change.

Owns the number of quads, the scopes that plans watch, and the staged changes of each. Its parts hold the
rows: runs per graph and predicate (`live/quad_pairs.py`), merged graphs (`live/merged.py`), other orders and
counts (`live/orders.py`). Invariants: each quad occurs once; `stage` receives only effective changes; staged
changes are visible to `after`, and discarded by `rollback`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING

from sparqlive.live.lent import LentQuads
from sparqlive.live.merged import MergedQuads
from sparqlive.live.orders import Kind, Orders
from sparqlive.live.quad_pairs import LentPairs, PairTable, QuadPairs
from sparqlive.live.scope import GRAPH, OBJECT, PREDICATE, SUBJECT, Change, Quad, Scope
from sparqlive.zset.columns import ColumnRows
from sparqlive.zset.relation import KeyedRelation, Row
from sparqlive.zset.run import Column

if TYPE_CHECKING:
    from sparqlive.store.quad_runs import QuadRuns

__all__ = ["GRAPH", "OBJECT", "PREDICATE", "SUBJECT", "Change", "Quad", "Quads", "Scope"]

_BULK = 10_000
_WEIGHT: Callable[[Change], int] = itemgetter(4)
_MOST_LENT = 64


class Quads:
    def __init__(self, pairs: QuadPairs | None = None) -> None:
        self._pairs = QuadPairs() if pairs is None else pairs
        self._merged = MergedQuads(self._pairs)
        self._orders = Orders(self._pairs)
        self._single: dict[int, Scope] = {}
        self._plural: set[Scope] = set()
        self.staged: Mapping[Scope, Sequence[Change]] = {}
        self._lent: dict[frozenset[tuple[Scope, int | None]], LentPairs] = {}
        """What queries read since the last change, for the next ones."""
        self.size = 0
        self._staged_size = 0

    # Looking up

    def __contains__(self, quad: Quad) -> bool:
        """Whether a quad existed before the current epoch, in memory or on disk."""
        return quad in self._pairs

    def __iter__(self) -> Iterator[Quad]:
        return self._pairs.quads(lambda graph, predicate: True)

    def of_graph(self, graph: int) -> Iterator[Quad]:
        """The quads of one graph."""
        return self._pairs.quads(lambda name, _: name == graph)

    def of_predicates(self, predicates: Container[int]) -> Iterator[Quad]:
        """The quads of some predicates in any graph."""
        return self._pairs.quads(lambda _, predicate: predicate in predicates)

    def graph_sizes(self) -> dict[int, int]:
        """The number of quads of each graph that is not empty."""
        return self._pairs.graph_sizes()

    def present(self, quads: Iterable[Quad]) -> set[Quad]:
        """Those of the given quads that existed before the current epoch, in memory or on disk."""
        return self._pairs.present(quads)

    @property
    def is_on_disk(self) -> bool:
        """Whether some of the quads are not in memory."""
        return bool(self._pairs.cold)

    def on_disk_size(self, predicate: int | None) -> tuple[int, int]:
        """The number of quads of a predicate (None: of all) that are not in memory, and of all its quads."""
        return self._pairs.on_disk_size(predicate)

    def is_blank(self) -> bool:
        """Whether there are no quads, not even deleted ones in a run."""
        return self._pairs.is_blank()

    # What plans read

    @property
    def is_read(self) -> bool:
        """Whether plans have read quads, which then are in memory."""
        return bool(self._single or self._plural or self._orders or self._pairs.is_read)

    def watch(self, scope: Scope) -> None:
        """Lists staged changes for this scope too, from now on."""
        self._end_loans()
        if scope.kind == "merged" and scope not in self._merged:
            self._merged.add(scope)
        if scope.kind == "one":
            assert scope.graphs is not None
            self._single[next(iter(scope.graphs))] = scope
        else:
            self._plural.add(scope)

    def is_merged(self, scope: Scope) -> bool:
        """Whether a scope has its own set of triples, or needs none."""
        return scope.kind != "merged" or scope in self._merged

    def pairs(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Subject → objects of one graph and predicate, readable also while changes are staged."""
        return self._pairs.of(graph, predicate)

    def inverse(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Object → subjects, created at the first call."""
        return self._pairs.inverse(graph, predicate)

    def pairs_if_any(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        """Like `pairs`, for a graph or predicate known only at run time; creates nothing."""
        return self._pairs.of_if_any(graph, predicate)

    def inverse_if_any(self, graph: int | Scope, predicate: int) -> KeyedRelation:
        return self._pairs.inverse_if_any(graph, predicate)

    def read_any_predicate(self) -> None:
        """Allows lookups of any graph and predicate while changes are staged, from now on."""
        self._pairs.read_any_predicate()

    @property
    def reads_any_predicate(self) -> bool:
        return self._pairs.reads_any_predicate

    def index(
        self, scope: Scope, predicate: int | None, order: tuple[int, ...], key_length: int
    ) -> KeyedRelation:
        """The scope's quads (of one predicate if given) as rows in the given order of positions."""
        return self._orders.index(scope, (predicate, order, key_length), self.staged.get(scope, ()))

    def nodes(self, scope: Scope) -> KeyedRelation:
        """Subjects and objects: node (→ graph, for named graphs)."""
        return self._orders.counted("nodes", scope, self.staged.get(scope, ()))

    def names(self, scope: Scope) -> KeyedRelation:
        """The names of graphs that have a quad, as keys without values."""
        return self._orders.counted("names", scope, self.staged.get(scope, ()))

    def counted_delta(self, kind: Kind, scope: Scope) -> list[tuple[Row, int]]:
        """The sign changes of the nodes or names of a scope in the staged batch."""
        return self._orders.counted_delta(kind, scope)

    def tables(self, scope: Scope, predicate: int | None, after: bool) -> Iterator[PairTable]:
        """The pairs of a scope as columns, before or after the current epoch.

        If several graphs are merged and `is_merged` is false, the pairs of each graph.
        """
        return self._pairs.tables(scope, predicate, after, merged=self.is_merged(scope))

    # Changing

    def effective(self, wanted: Mapping[Quad, int]) -> list[Change]:
        """The effective changes among quads to insert (+1) or delete (-1)."""
        return self._pairs.effective(wanted)

    def effective_columns(self, wanted: ColumnRows) -> ColumnRows:
        """Like `effective`, for a large batch; the last change of a quad counts. Sorted by p, g, s, o."""
        return self._pairs.effective_columns(wanted)

    def stage(self, changes: Sequence[Change]) -> None:
        """Puts a batch of effective changes into the pending layers, and lists them by scope.

        A large batch is given as columns, in the order of `effective_columns`.
        """
        self._end_loans()
        if type(changes) is ColumnRows:
            self._pairs.stage_columns(changes)
            self.staged = self._columns_by_scope(changes)
            self._staged_size = int(changes.columns[4].sum())
        else:
            self._pairs.stage(changes)
            self.staged = self._by_scope(changes)
            self._staged_size = 2 * inserts_of(changes) - len(changes)
        self._orders.stage(self.staged)
        self.size += self._staged_size

    def _columns_by_scope(self, changes: ColumnRows) -> dict[Scope, Sequence[Change]]:
        staged: dict[Scope, ColumnRows] = {}
        graphs = changes.columns[GRAPH]
        for graph, scope in self._single.items():
            staged[scope] = changes.take(graphs == graph)
        for scope in self._plural:
            if scope.kind == "merged":
                staged[scope] = self._merged.stage_columns(scope, changes)
            else:
                staged[scope] = changes.take(scope.covered(graphs))
        return {scope: found for scope, found in staged.items() if len(found)}

    def _by_scope(self, changes: Sequence[Change]) -> dict[Scope, Sequence[Change]]:
        """The changes of each watched scope that has any."""
        staged: dict[Scope, Sequence[Change]] = {}
        graphs = {change[GRAPH] for change in changes}
        for graph in graphs:
            scope = self._single.get(graph)
            if scope is not None:
                is_all = len(graphs) == 1
                staged[scope] = changes if is_all else [c for c in changes if c[GRAPH] == graph]
        for scope in self._plural:
            if scope.kind == "merged":
                listed = self._merged.stage(scope, changes)
            else:
                listed = [change for change in changes if scope.covers(change[GRAPH])]
            if listed:
                staged[scope] = listed
        return staged

    def commit(self) -> None:
        self._end_loans()
        self._merged.commit()
        self._orders.commit(self.staged)
        self._pairs.commit()
        self._staged_size = 0
        self.staged = {}

    def rollback(self) -> None:
        self.size -= self._staged_size
        self._merged.rollback()
        self._orders.rollback(self.staged)
        self._pairs.rollback()
        self._staged_size = 0
        self.staged = {}

    def add(self, changes: Sequence[Change]) -> None:
        """Stages and commits changes that no view reads; a large batch is sorted at once."""
        self._end_loans()
        if type(changes) is ColumnRows:
            self.stage(changes)
            self.commit()
            return
        is_bulk = len(changes) > _BULK and not (self._pairs.inverses or self._orders or self._plural)
        if not is_bulk or any(change[4] < 0 for change in changes):
            self.stage(changes)
            self.commit()
            return
        self._pairs.insert(changes)
        self.size += len(changes)

    def load_columns(self, subjects: Column, predicates: Column, objects: Column, graph: int) -> None:
        """Loads one empty graph in bulk, sorted once, without an overlay."""
        self._end_loans()
        self.size += self._pairs.load_columns(subjects, predicates, objects, graph)

    def clear(self) -> None:
        """Removes everything; only allowed if no plan reads the quads."""
        self.__init__()  # type: ignore[misc]

    # On disk

    def attach(self, disk: QuadRuns) -> None:
        """Attaches the quads of a store's runs to empty quads; they stay on disk until a plan reads them."""
        self._end_loans()
        self.size += self._pairs.attach(disk)

    def count(self, inserted: int, deleted: int) -> None:
        """Counts changes that are on disk; `move` follows."""
        self.size += inserted - deleted

    def move(self, disk: QuadRuns, since: Sequence[Change]) -> None:
        """Switches to new runs on disk and the changes since; quads that no plan reads stay there."""
        self._end_loans()
        self._pairs.move(disk, since)

    def warm_all(self) -> None:
        """Loads all quads into memory."""
        self._end_loans()
        self._pairs.warm_all()

    def forget_empty(self) -> None:
        """Forgets graphs and predicates that have no quads any more; between epochs."""
        self._end_loans()
        self._pairs.forget_empty()

    def ids(self) -> Iterator[Column]:
        """The ids in all quads in memory, and in some that are there no more; between epochs."""
        return self._pairs.ids()

    def columns(self) -> Iterator[tuple[Column, Column, Column, Column]]:
        """Yields all quads in memory as columns s, p, o, g, sorted by p, g, s, o, in pieces."""
        return self._pairs.columns()

    # Snapshots

    def lend(self, read: Iterable[tuple[Scope, int | None]]) -> LentQuads:
        """The quads of some scopes (and predicates; None: all) before the current epoch, for a query.

        Nothing is copied. If graphs and predicates are named, the cost is theirs alone. Another thread may
        carry the staged changes meanwhile, but not commit them.
        """
        wanted = frozenset(read)
        with self._pairs.lending:
            lent = self._lent.get(wanted)
            if lent is None:
                if len(self._lent) >= _MOST_LENT:
                    self._lent = {}
                lent = self._lent[wanted] = self._lend(wanted)
        return LentQuads(lent, self.size - self._staged_size)

    def _lend(self, wanted: frozenset[tuple[Scope, int | None]]) -> LentPairs:
        merged = frozenset(scope for scope, _ in wanted if scope in self._merged)
        keys: list[tuple[int | Scope, int]] = []
        are_named = True
        for scope, predicate in wanted:
            graphs = (scope,) if scope in merged else scope.graphs
            if graphs is None or predicate is None:
                are_named = False
            else:
                keys += [(graph, predicate) for graph in graphs]
        if not are_named:
            keys = self._keys_of(wanted, merged)
        return self._pairs.lend(keys, merged)

    def _end_loans(self) -> None:
        """Forgets what is lent, before it changes: an overlay that is lent would be copied."""
        self._lent = {}

    def _keys_of(
        self, read: Iterable[tuple[Scope, int | None]], merged: frozenset[Scope]
    ) -> list[tuple[int | Scope, int]]:
        """The graphs and predicates that exist and are read."""
        by_predicate: dict[int | None, list[Scope]] = {}
        for scope, predicate in read:
            by_predicate.setdefault(predicate, []).append(scope)

        @cache  # there are many predicates, and few graphs of each
        def is_read(graph: int | Scope, predicate: int | None) -> bool:
            scopes = by_predicate[predicate]
            if isinstance(graph, Scope):
                return graph in scopes
            return any(scope.covers(graph) and scope not in merged for scope in scopes)

        return [
            key
            for key in self._pairs.names()
            if (None in by_predicate and is_read(key[0], None)) or (key[1] in by_predicate and is_read(*key))
        ]

    def snapshot(self, scopes: Iterable[Scope], predicates: frozenset[int] | None) -> Quads:
        """A copy of the quads of some scopes (and predicates; None: all) for temporary reading.

        Immutable runs are shared, so the cost is that of the changes since the runs were written.
        """
        wanted = frozenset(scopes)
        apart = [scope for scope in wanted if scope not in self._merged]

        def is_read(graph: int | Scope, predicate: int) -> bool:
            if predicates is not None and predicate not in predicates:
                return False
            return graph in wanted if isinstance(graph, Scope) else any(s.covers(graph) for s in apart)

        made = Quads(self._pairs.snapshot(is_read))
        made.size = self.size
        made._merged.snapshot(self._merged, wanted)
        made._orders.snapshot(self._orders, wanted, predicates)
        return made

    def adopt(self, snapshot: Quads) -> None:
        """Takes over the orders that a snapshot's reader created and that are missing here.

        The quads equal those of the snapshot, which is no longer read.
        """
        self._end_loans()
        self._pairs.adopt(snapshot._pairs, self._merged.adopt(snapshot._merged))
        self._orders.adopt(snapshot._orders)

    def places(self) -> Mapping[int, Callable[[Quads], KeyedRelation]]:
        """For each order, by its relation's identity, how to get the same order of other quads."""
        return {**self._pairs.places(), **self._orders.places()}

    def check_size(self) -> None:
        """Raises AssertionError if the size is wrong."""
        assert self.size == sum(self.graph_sizes().values()), "the number of quads is wrong"

    def check(self) -> None:
        """Raises AssertionError if two orders of the same quads differ, or the size is wrong."""
        quads = list(self)
        assert self.size == len(quads), "the number of quads is wrong"
        self._pairs.check_inverses()
        self._orders.check()
        self._merged.check(quads)

    @property
    def nbytes(self) -> int:
        """Memory of all orders in bytes."""
        return self._pairs.nbytes + self._orders.nbytes


def inserts_of(changes: Sequence[Change]) -> int:
    """The number of insertions among the changes."""
    if type(changes) is ColumnRows:
        return int((changes.columns[4] > 0).sum())
    return (len(changes) + sum(map(_WEIGHT, changes))) // 2
