"""Computes the content of a new plan on a copy of the quads, without blocking epochs.

Owns the names of the relations that a content needs. Invariant: the result equals what a `CompiledPlan` of
the same plan would compute on the same quads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sparqlive.live.compiled_plan import CompiledPlan, key_of, rows_name, state_name
from sparqlive.live.compiler import Compiler, Node
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.deadline import gathers
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Run

Rows: TypeAlias = Mapping[Row, int] | Run


@dataclass(frozen=True)
class Prepared:
    """The relations of a content by name, and the copy of the quads from which they were computed.

    `plans`: the compiled and loaded parts of a plan whose terms are separate from the session's.
    `by_columns`: the parts that were computed by columns.
    """

    relations: Mapping[str, Rows]
    quads: Snapshot
    plans: Mapping[op.Operator, CompiledPlan] = field(default_factory=dict)
    by_columns: frozenset[op.Operator] = frozenset()

    def saved(self, name: str, _: op.Operator) -> Rows | None:
        return self.relations.get(name)


@dataclass(frozen=True)
class Bulk:
    """Computes plans over many quads by columns. `from_quads`: the minimum number of quads.

    `contents` computes the contents of plans; a plan may be a part of later ones.
    """

    contents: Callable[[Sequence[op.Operator]], Sequence[Rows]]
    from_quads: int


def prepare(
    plan: op.Operator, quads: Snapshot, terms: Terms, scope: str, bulk: Bulk | None = None
) -> Prepared:
    """Computes the relations of a plan. It shares no state, so it can be stopped at any point."""
    relations: dict[str, Rows] = {}
    bulk_parts: set[op.Operator] = set()
    for part in independent_parts(plan):
        stored = store_unreachable(part)
        compiler, key = Compiler(stored, quads, terms), key_of(stored, scope)
        nodes = {
            state_name(key, number): compiler.nodes[number].children[0]
            for number in compiler.states
            if not isinstance(compiler.nodes[number].operator, op.Parameters)
        }
        if not isinstance(stored, op.Distinct | op.Closure):
            nodes[rows_name(part, scope)] = compiler.root
        if bulk is not None and compiler.most_quads() >= bulk.from_quads:
            bulk_parts.add(part)
            contents = bulk.contents([node.operator for node in nodes.values()])
            relations.update(zip(nodes, contents, strict=True))
        else:
            relations.update(_computed(compiler, nodes))
        compiler.segments()  # generates their code here: that takes longest, and would block epochs
    return Prepared(relations, quads, by_columns=frozenset(bulk_parts))


def _computed(compiler: Compiler, nodes: Mapping[str, Node]) -> Iterator[tuple[str, Rows]]:
    """Computes contents with the generated Python; loads the state that others read."""
    for name, node in nodes.items():
        rows: dict[Row, int] = {}
        gathers(rows)
        compiler.content(node)(rows)
        yield name, rows
        if node.parent is not None:
            compiler.states[node.parent.number].load(rows)


def prepare_apart(plan: op.Operator, quads: Snapshot, terms: Terms, scope: str) -> Prepared:
    """Like `prepare`, for a plan with its own terms: also returns the compiled and loaded parts."""
    relations: dict[str, Rows] = {}
    plans = {}
    for part in independent_parts(plan):
        compiled = plans[part] = CompiledPlan(store_unreachable(part), quads, terms, None, scope)
        if not isinstance(compiled.plan, op.Distinct | op.Closure):
            rows = compiled.compute()
            run = Relation(len(part.variables), rows).run
            relations[rows_name(part, scope)] = rows if run is None else run
    return Prepared(relations, quads, plans)
