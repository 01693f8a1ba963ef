"""A plan that is kept: its compiled delta rules, the state of its operators, and the run of an epoch.

Owns the order of an epoch: each place where deltas are gathered is summed before anything above it reads it.
Invariant: until `commit`, nothing of the state before the epoch is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        self._member: Callable[..., None] | None = None
        self._load_states()

    def _load_states(self) -> None:
        """Fills what is stored, lowest first, from the quads as they are."""
        for number, state in self._compiler.states.items():
            if isinstance(self._compiler.nodes[number].operator, op.Parameters):
                continue
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

    def top_counts(self) -> Relation:
        """The counts of a DISTINCT at the top: its rows are the result."""
        counts: Relation = self._compiler.states[self._compiler.root.number]
        return counts

    # A plan with parameters

    def add_parameters(self, constants: Row) -> None:
        self._change_parameters(constants, 1)

    def remove_parameters(self, constants: Row) -> None:
        self._change_parameters(constants, -1)

    def _change_parameters(self, constants: Row, weight: int) -> None:
        node = next(node for node in self._compiler.nodes if isinstance(node.operator, op.Parameters))
        rows = self._compiler.states[node.number]
        rows.stage({constants: weight})
        rows.commit()

    def compute_member(self, constants: Row) -> dict[Row, int]:
        """The result for one row of parameters, which need not be there."""
        if self._member is None:
            parameters = self.plan.variables[: len(constants)]
            self._member = self._compiler.content(self._compiler.root, parameters)
        result: dict[Row, int] = {}
        self.add_parameters(constants)
        try:
            self._member(*constants, result)
        finally:
            self.remove_parameters(constants)
        return result

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

    def commit(self) -> None:
        for state in self._touched:
            state.commit()
        self._touched.clear()

    def rollback(self) -> None:
        for state in self._touched:
            state.rollback()
        self._touched.clear()

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Rows and bytes of what operators store, by their number."""
        return {number: (len(state), state.nbytes) for number, state in self._compiler.states.items()}

    @property
    def sources(self) -> list[str]:
        """The generated code."""
        return self._compiler.program.sources
