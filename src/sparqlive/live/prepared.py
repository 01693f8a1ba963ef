"""Computes the content of a new plan on a copy of the quads, without blocking epochs.

Owns the names of the relations that a content needs. Invariant: the result equals what a `Maintained` of the
same plan would compute on the same quads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sparqlive.live.compiler import Compiler, Node
from sparqlive.live.maintained import Maintained, key_of, rows_name, state_name
from sparqlive.live.quads import Quads
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.sparql.deadline import gathers
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Run

Rows: TypeAlias = Mapping[Row, int] | Run


@dataclass(frozen=True)
class Prepared:
    """The relations of a content by name, and the copy of the quads that they were computed from.

    `plans`: the compiled and loaded parts of a plan whose terms are separate from the session's.
    `by_columns`: the parts that were computed by columns.
    """

    relations: Mapping[str, Rows]
    quads: Quads
    plans: Mapping[op.Operator, Maintained] = field(default_factory=dict)
    by_columns: frozenset[op.Operator] = frozenset()

    def saved(self, name: str, _: op.Operator) -> Rows | None:
        return self.relations.get(name)


@dataclass(frozen=True)
class Bulk:
    """Computes plans over many quads by columns. `from_quads`: the minimum number of quads."""

    content: Callable[[op.Operator], Rows]
    from_quads: int


def prepare(plan: op.Operator, quads: Quads, terms: Terms, scope: str, bulk: Bulk | None = None) -> Prepared:
    """Computes the relations of a plan; it shares no state, so that it can be stopped at any point."""
    relations: dict[str, Rows] = {}
    bulk_parts: set[op.Operator] = set()
    for part in independent_parts(plan):
        stored = store_unreachable(part)
        compiler, key = Compiler(stored, quads, terms), key_of(stored, scope)
        by_columns = bulk if bulk is not None and compiler.matching_quads() >= bulk.from_quads else None
        if by_columns is not None:
            bulk_parts.add(part)
        for number, state in compiler.states.items():
            if not isinstance(compiler.nodes[number].operator, op.Parameters):
                relations[state_name(key, number)] = content = _content(
                    compiler, compiler.nodes[number].children[0], by_columns
                )
                if by_columns is None:
                    state.load(content)
        if not isinstance(stored, op.Distinct | op.Closure):
            relations[rows_name(part, scope)] = _content(compiler, compiler.root, by_columns)
        compiler.segments()  # caches their code: generating it takes longest, and would block epochs
    return Prepared(relations, quads, by_columns=frozenset(bulk_parts))


def _content(compiler: Compiler, node: Node, by_columns: Bulk | None) -> Rows:
    if by_columns is not None:
        return by_columns.content(node.operator)
    return _computed(compiler.content(node))


def _computed(content: Callable[[dict[Row, int]], None]) -> dict[Row, int]:
    rows: dict[Row, int] = {}
    gathers(rows)
    content(rows)
    return rows


def prepare_apart(plan: op.Operator, quads: Quads, terms: Terms, scope: str) -> Prepared:
    """Like `prepare`, for a plan with its own terms: also returns its compiled and loaded parts."""
    relations: dict[str, Rows] = {}
    plans = {}
    for part in independent_parts(plan):
        maintained = plans[part] = Maintained(store_unreachable(part), quads, terms, None, scope)
        if not isinstance(maintained.plan, op.Distinct | op.Closure):
            rows = maintained.compute()
            run = Relation(len(part.variables), rows).run
            relations[rows_name(part, scope)] = rows if run is None else run
    return Prepared(relations, quads, plans)
