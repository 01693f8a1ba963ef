"""A plan that is kept: its compiled delta rules, the state of its operators, and the run of an epoch.

Owns the order of an epoch: each place where deltas are gathered is summed before anything above it reads it.
Invariant: until `commit`, nothing of the state before the epoch is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparqlive.live import distinct
from sparqlive.live.compiler import Compiler, Node
from sparqlive.live.quads import Quads
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.zset import without_zeros

Inputs = dict[int, Any]
"""For the number of each changed leaf: its changed rows."""


class Maintained:
    def __init__(self, plan: op.Operator, quads: Quads, terms: Terms) -> None:
        self.plan = plan
        self._compiler = Compiler(plan, quads, terms)
        self._touched: list[Any] = []
        gathering: dict[int, tuple[Node, list[tuple[int, Callable[..., None]]]]] = {}
        for segment in self._compiler.segments():
            _, functions = gathering.setdefault(segment.target.number, (segment.target, []))
            functions.append((segment.source.number, segment.function))
        self._schedule = [gathering[number] for number in sorted(gathering)]
        self.rows: Relation | None = None
        self._load_states()

    def _load_states(self) -> None:
        """Fills what is stored, lowest first, from the quads as they are."""
        for number, state in self._compiler.states.items():
            content: dict[Row, int] = {}
            self._compiler.content(self._compiler.nodes[number].children[0])(content)
            if isinstance(state, Relation):
                self._compiler.states[number] = Relation(state.arity, content)
            else:
                state.load(content)

    def compute(self) -> dict[Row, int]:
        """The whole result, from the quads as they are."""
        result: dict[Row, int] = {}
        self._compiler.content(self._compiler.root)(result)
        return result

    def start(self) -> None:
        """Computes the result and keeps it; what DISTINCT at the top counts is the result already."""
        if not isinstance(self.plan, op.Distinct):
            self.rows = Relation(len(self.plan.variables), self.compute())

    def items(self) -> Iterator[tuple[Row, int]]:
        """The rows of the kept result with their weights."""
        if self.rows is not None:
            yield from self.rows.items()
        else:
            counts: Relation = self._compiler.states[self._compiler.root.number]
            yield from ((row, 1) for row, _ in counts.items())

    def row_count(self) -> int:
        return sum(1 for _ in self.items())

    def leaves(self) -> Iterator[tuple[int, op.Scan | op.Names | op.Nodes]]:
        """The leaves whose changes are this plan's inputs, by number."""
        for node in self._compiler.nodes:
            if isinstance(node.operator, op.Scan | op.Names | op.Nodes):
                yield node.number, node.operator

    @property
    def compiler(self) -> Compiler:
        return self._compiler

    def delta(self, inputs: Inputs) -> dict[Row, int]:
        """The change of the result; what is stored is staged, not changed."""
        result: dict[Row, int] = {}
        for node, functions in self._schedule:
            out: dict[Row, int] = {}
            for source, function in functions:
                rows = inputs.get(source)
                if rows:
                    function(rows, out)
            if not out:
                inputs[node.number] = ()
                continue
            out = without_zeros(out)
            if node.parent is None:
                result = out
            else:
                self._pass_on(node, out, inputs)
        return result

    def _pass_on(self, node: Node, delta: dict[Row, int], inputs: Inputs) -> None:
        assert node.parent is not None
        parent = node.parent
        inputs[node.number] = delta.items()
        if isinstance(parent.operator, op.Distinct | op.Stored):
            state = self._compiler.states[parent.number]
            state.stage(delta)
            self._touched.append(state)
            if isinstance(parent.operator, op.Distinct):
                delta = distinct.signs(state, delta)
            inputs[parent.number] = delta.items()

    def commit(self, delta: Mapping[Row, int]) -> None:
        if self.rows is not None and delta:
            self.rows.stage(delta)
            self.rows.commit()
        for state in self._touched:
            state.commit()
        self._touched.clear()

    def rollback(self) -> None:
        for state in self._touched:
            state.rollback()
        self._touched.clear()

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Rows and bytes of what is stored, by the number of the operator; the result under -1."""
        found = {number: (len(state), state.nbytes) for number, state in self._compiler.states.items()}
        if self.rows is not None:
            found[-1] = (len(self.rows), self.rows.nbytes)
        return found

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in self.sizes().values())

    @property
    def sources(self) -> list[str]:
        """The generated code."""
        return self._compiler.program.sources
