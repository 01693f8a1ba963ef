"""The quads of one predicate: subject → objects, object → subjects, and the same within single graphs.

While all quads are in one graph, rows do not name it; otherwise a value is a pair of a term and a graph. Owns
the switch between these forms. Relations that plans read survive it, as the relations of that one graph.
Invariant: all relations of a part hold the same quads, and its changes are staged in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from sparqlive.quads.base import Base, WholeOrder, turned
from sparqlive.quads.scope import GRAPH, Change
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.zset.columns import Mask
from sparqlive.zset.keyed_relation import KeyedRelation, Layer
from sparqlive.zset.run import Column, Run

Turn: TypeAlias = Callable[[], Run | None]
"""Returns the run of the other direction."""
_SAMPLE = 1_024


class Pairs:
    """Subject → values, and object → values from its first use on."""

    __slots__ = ("_backward", "_turn", "forward")

    def __init__(self, forward: KeyedRelation, turn: Turn | None = None) -> None:
        """`turn` returns the inverse of a mapped run."""
        self.forward = forward
        self._turn = turn
        self._backward: KeyedRelation | None = None

    @property
    def has_backward(self) -> bool:
        return self._backward is not None

    def turn_by(self, turn: Turn) -> None:
        """Sets the function that returns the inverse of a mapped run."""
        self._turn = turn

    def backward(self) -> KeyedRelation:
        """Object → subjects, including staged changes; created at the first call."""
        if self._backward is None:
            self._backward = inverted(self.forward, self._turn)
        return self._backward

    def rebase(self, run: Run | None, turn: Turn | None) -> None:
        """Replaces the run, and drops the changes after it."""
        self.forward.rebase(run)
        self._turn = turn
        if self._backward is not None:
            self._backward.rebase(None if run is None else turned(run) if turn is None else turn())

    def stage(self, rows: Sequence[tuple[int, Any, int]]) -> None:
        self.forward.stage_all(rows)
        if self._backward is not None:
            self._backward.stage_all([_turned_row(*row) for row in rows])

    def stage_columns(self, columns: Sequence[Column], weights: Column) -> None:
        """Stages a large batch: subjects, objects and, with several graphs, graphs."""
        _stage_rows(self.forward, columns, weights)
        if self._backward is not None:
            subjects, objects, *graphs = columns
            _stage_rows(self._backward, [objects, subjects, *graphs], weights)

    def merge_deleted(self) -> None:
        for relation in (self.forward, self._backward):
            if relation is not None and relation.run is not None and not relation.run.is_mapped:
                relation.merge()

    def commit(self) -> None:
        self.forward.commit()
        if self._backward is not None:
            self._backward.commit()

    def rollback(self) -> None:
        self.forward.rollback()
        if self._backward is not None:
            self._backward.rollback()

    @property
    def nbytes(self) -> int:
        return self.forward.nbytes + (0 if self._backward is None else self._backward.nbytes)

    def check(self) -> None:
        if self._backward is not None:
            rows = {(row[1], row[0], *row[2:]) for row in self.forward.rows_before()}
            assert set(self._backward.rows_before()) == rows, "an inverse index differs from its pairs"


class Part:
    """The quads of a predicate. `graph` is the graph of all of them; None if there are several, or none."""

    __slots__ = ("_base", "_staged", "by_graph", "graph", "is_read", "pairs", "predicate")

    def __init__(self, predicate: int, base: Base, tuning: Tuning = DEFAULT) -> None:
        self.predicate = predicate
        self.by_graph: dict[int, Pairs] = {}
        """The quads of single graphs, which plans read, if there are several graphs."""
        self.is_read = False
        """Whether a plan reads one of the relations."""
        self._staged: list[Pairs] = []
        self._base = base
        run = base.part("pso", predicate)
        self.graph = base.graph_of(predicate)
        arity = 2 if run is None else len(run.views)
        self.pairs = Pairs(KeyedRelation(arity, 1, run, tuning=tuning), self._turn())

    def _turn(self) -> Turn | None:
        base, predicate = self._base, self.predicate
        if not base.is_mapped or not base.has(predicate):
            return None
        return lambda: self._fitting(base.part("pos", predicate))

    def _fitting(self, run: Run | None) -> Run | None:
        """A run of the base, with the number of columns that this part has now."""
        if run is None or len(run.views) == self.pairs.forward.arity:
            return run
        graph = self._base.graph_of(self.predicate)
        assert graph is not None
        return run.with_constant(graph)

    @property
    def is_single(self) -> bool:
        """Whether all quads are in one graph, so that rows do not name it."""
        return self.pairs.forward.arity == 2

    @property
    def forward(self) -> KeyedRelation:
        """Subject → objects, or pairs of object and graph."""
        return self.pairs.forward

    def backward(self) -> KeyedRelation:
        """Object → subjects, or pairs of subject and graph."""
        return self.pairs.backward()

    def in_graph(self, graph: int) -> Pairs:
        """The pairs of one graph, for a plan: they remain valid when quads of other graphs come."""
        self.is_read = True
        if self.is_single:
            if self.graph is None and not self.forward.size_about() and not self.forward.pending:
                self.graph = graph
            if self.graph == graph:
                return self.pairs
        pairs = self.by_graph.get(graph)
        if pairs is None:
            turn = partial(self._mapped_in, graph, "gpos") if self._base.is_mapped else None
            pairs = self.by_graph[graph] = Pairs(KeyedRelation(2, 1, tuning=self.forward.tuning), turn)
            if not self.is_single:
                self._fill(pairs.forward, graph)
                self._staged.append(pairs)
        return pairs

    def _fill(self, relation: KeyedRelation, graph: int) -> None:
        """Copies the quads of one graph, including staged ones."""
        forward = self.forward
        if forward.run is not None:
            run = self._mapped_in(graph) if forward.run.is_mapped else _in_graph(forward.run, graph)
            if run is not None and run.length:
                relation.fill(run)
        if forward.late is not None:
            assert forward.late.weights is not None
            every = zip(
                *(column.tolist() for column in (*forward.late.columns, forward.late.weights)), strict=True
            )
            relation.apply_all([(s, o, w) for s, o, g, w in every if g == graph])
        relation.apply_all(_of_graph(forward.overlay, graph))
        if forward.next is not None:
            after, run = KeyedRelation(2, 1, tuning=forward.tuning), forward.next.run_before()
            if run is not None:
                after.fill(_in_graph(run, graph))
            relation.stage_next(after)
        relation.stage_all(_of_graph(forward.pending, graph))

    def _mapped_in(self, graph: int, order: WholeOrder = "gpso") -> Run | None:
        """The rows of one graph in a mapped base."""
        base, own = self._base, self._base.graph_of(self.predicate)
        if own is not None:
            return base.part("pso" if order == "gpso" else "pos", self.predicate) if own == graph else None
        whole = base.whole(order)
        return whole.cut(*whole.range((graph, self.predicate)), first=2)

    def has_many_graphs(self) -> bool:
        """Whether a sample of the quads has many graphs."""
        if self.is_single:
            return False
        run, changes = self.forward.run, self.forward.overlay.values()
        graphs = {graph for values in islice(changes, _SAMPLE) for _, graph in values}
        if run is not None:
            graphs.update(run.columns[2][:: 1 + run.length // _SAMPLE].tolist())
        return len(graphs) > self.forward.tuning.few_graphs

    def has(self, subject: int, object_: int, graph: int) -> bool:
        """Whether a quad existed before the current epoch."""
        if self.is_single:
            return graph == self.graph and self.forward.has_before(subject, object_)
        return self.forward.has_before(subject, (object_, graph))

    def has_many(self, subjects: Column, objects: Column, graphs: Column) -> Mask:
        """Which of many quads existed before the current epoch."""
        if not self.is_single:
            return self.forward.has_rows_before((subjects, objects, graphs))
        exists = self.forward.has_rows_before((subjects, objects))
        return exists if self.graph is None else np.logical_and(exists, graphs == self.graph)

    # Changing

    def stage(self, changes: Sequence[Change]) -> None:
        """Stages effective changes of this predicate."""
        if self.is_single:
            graph = changes[0][GRAPH] if self.graph is None else self.graph
            if all(change[GRAPH] == graph for change in changes):
                self.graph = graph
                self.pairs.stage([(s, o, w) for s, _, o, _, w in changes])
                self._staged.append(self.pairs)
                return
            self._split()
        self.pairs.stage([(s, (o, g), w) for s, _, o, g, w in changes])
        self._staged.append(self.pairs)
        if self.by_graph:
            self._stage_by_graph(changes)

    def _stage_by_graph(self, changes: Iterable[Change]) -> None:
        groups: dict[int, list[tuple[int, int, int]]] = {}
        for subject, _, object_, graph, weight in changes:
            if graph in self.by_graph:
                groups.setdefault(graph, []).append((subject, object_, weight))
        for graph, rows in groups.items():
            self.by_graph[graph].stage(rows)
            self._staged.append(self.by_graph[graph])

    def stage_columns(self, subjects: Column, objects: Column, graphs: Column, weights: Column) -> None:
        """Like `stage`, for a large batch."""
        first, is_same = int(graphs[0]), bool((graphs == graphs[0]).all())
        if self.is_single:
            if is_same and self.graph in (None, first):
                self.graph = first
                self.pairs.stage_columns((subjects, objects), weights)
                self._staged.append(self.pairs)
                return
            self._split()
        self.pairs.stage_columns((subjects, objects, graphs), weights)
        self._staged.append(self.pairs)
        for graph, pairs in self.by_graph.items():
            chosen = graphs == graph
            if chosen.any():
                pairs.stage_columns((subjects[chosen], objects[chosen]), weights[chosen])
                self._staged.append(pairs)

    def _split(self) -> None:
        """Adds a graph to each row, because a second graph gets quads."""
        old, graph = self.pairs, self.graph
        self.graph = None
        wide = _widened(old.forward, 0 if graph is None else graph)
        self.pairs = Pairs(wide, self._turn())
        if self.is_read and graph is not None:
            if self._base.is_mapped:  # its rows stay those of the one graph
                old.turn_by(partial(self._mapped_in, graph, "gpos"))
            self.by_graph[graph] = old

    def commit(self) -> None:
        for pairs in self._staged:
            pairs.commit()
        self._staged.clear()

    def rollback(self) -> None:
        for pairs in self._staged:
            pairs.rollback()
        self._staged.clear()

    def rebase(self, base: Base) -> None:
        """Replaces the base, between epochs. The caller then stages the changes after it."""
        self._base = base
        run, graph = base.part("pso", self.predicate), base.graph_of(self.predicate)
        if run is not None and self.is_single and graph != self.graph:
            if graph is not None and self.graph is None:
                self.graph = graph
            else:
                self._split()
        self.pairs.rebase(self._fitting(run), self._turn())
        for name, pairs in self.by_graph.items():
            fresh = KeyedRelation(2, 1)
            if not self.is_single:
                self._fill(fresh, name)
            pairs.rebase(fresh.run, partial(self._mapped_in, name, "gpos") if base.is_mapped else None)

    def merge_deleted(self) -> None:
        """Removes deleted quads from the run, so that nothing refers to their terms."""
        for pairs in (self.pairs, *self.by_graph.values()):
            pairs.merge_deleted()

    @property
    def nbytes(self) -> int:
        return self.pairs.nbytes + sum(pairs.nbytes for pairs in self.by_graph.values())

    def check(self) -> None:
        """Raises AssertionError if two relations of the same quads differ."""
        self.pairs.check()
        for graph, pairs in self.by_graph.items():
            if self.is_single:
                assert not pairs.forward.size_before(), "pairs of a graph that has none"
                continue
            rows = {row[:2] for row in self.forward.rows_before() if row[2] == graph}
            assert set(pairs.forward.rows_before()) == rows, "the pairs of a graph differ from its quads"
            pairs.check()


def _in_graph(run: Run, graph: int) -> Run:
    """A copy of the rows of one graph, without it."""
    subjects, objects, graphs = run.columns
    chosen = graphs == graph
    return Run([subjects[chosen], objects[chosen]])


def _of_graph(layer: Layer, graph: int) -> list[tuple[int, int, int]]:
    return [(s, o, w) for s, values in layer.items() for (o, g), w in values.items() if g == graph]


def _turned_row(subject: int, value: Any, weight: int) -> tuple[int, Any, int]:
    if type(value) is tuple:
        return value[0], (subject, value[1]), weight
    return value, subject, weight


def _widened(relation: KeyedRelation, graph: int) -> KeyedRelation:
    """Adds a graph to each row of a relation."""
    run = None if relation.run is None else relation.run.with_constant(graph)
    late = None if relation.late is None else relation.late.with_constant(graph)
    overlay = {
        key: {(value, graph): weight for value, weight in values.items()}
        for key, values in relation.overlay.items()
    }
    return KeyedRelation.of_parts(3, 1, run, overlay, late, relation.tuning)


def inverted(relation: KeyedRelation, turn: Turn | None = None) -> KeyedRelation:
    """The inverse of a relation, including staged changes."""
    run = relation.run
    back = None if run is None else turned(run) if turn is None or not run.is_mapped else turn()
    late = None if relation.late is None else _turned_changes(relation.late)
    inverse = KeyedRelation.of_parts(
        relation.arity, 1, back, _turned_layer(relation.overlay), late, relation.tuning
    )
    inverse.stage_all(
        [_turned_row(k, v, w) for k, values in relation.pending.items() for v, w in values.items()]
    )
    if relation.next is not None:
        inverse.stage_next(inverted(relation.next, turn))
    return inverse


def _turned_changes(late: Run) -> Run:
    firsts, seconds, *others = late.columns
    return Run.sort([seconds, firsts, *others], late.weights)


def _turned_layer(layer: Layer) -> Layer:
    turned_layer: Layer = {}
    for key, values in layer.items():
        for value, weight in values.items():
            back, rest, _ = _turned_row(key, value, weight)
            turned_layer.setdefault(back, {})[rest] = weight
    return turned_layer


def _stage_rows(relation: KeyedRelation, columns: Sequence[Column], weights: Column) -> None:
    """Stages changes as columns, or one by one if copying the run would cost more."""
    run, tuning = relation.run, relation.tuning
    copied = relation.late if run is not None and run.is_mapped else run
    if len(weights) >= tuning.smallest_run_rows and len(weights) * tuning.copied_to_staged_rows >= (
        0 if copied is None else copied.length
    ):
        relation.stage_columns(columns, weights)
        return
    rows = zip(*(column.tolist() for column in columns), weights.tolist(), strict=True)
    if relation.arity == 2:
        relation.stage_all(rows)
    else:
        relation.stage_all([(key, (second, third), weight) for key, second, third, weight in rows])
