"""A plan that is to be kept, computed before it is: beside the epochs, on a copy of the quads.

Owns which relations a content will ask for, by name. Invariant: what is computed here is what a `Maintained`
of the same plan would compute on the same quads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sparqlive.live.compiler import Compiler
from sparqlive.live.maintained import Maintained, key_of, rows_name, state_name
from sparqlive.live.quads import Quads
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.sparql.deadline import gathers
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Run


@dataclass(frozen=True)
class Prepared:
    """The relations of a content by name, and the copy of the quads that they were computed from.

    `plans`: where its terms stay apart from others', each part of the plan is compiled and loaded already.
    """

    relations: Mapping[str, dict[Row, int] | Run]
    quads: Quads
    plans: Mapping[op.Operator, Maintained] = field(default_factory=dict)

    def saved(self, name: str, _: op.Operator) -> dict[Row, int] | Run | None:
        return self.relations.get(name)


def prepared(plan: op.Operator, quads: Quads, terms: Terms, scope: str) -> Prepared:
    """Computes the relations of a plan; all of it is new, so that it can be stopped anywhere."""
    relations: dict[str, dict[Row, int] | Run] = {}
    for part in independent_parts(plan):
        stored = store_unreachable(part)
        compiler, key = Compiler(stored, quads, terms), key_of(stored, scope)
        for number, state in compiler.states.items():
            if not isinstance(compiler.nodes[number].operator, op.Parameters):
                content = _computed(compiler.content(compiler.nodes[number].children[0]))
                relations[state_name(key, number)] = content
                state.load(content)
        if not isinstance(stored, op.Distinct | op.Closure):
            relations[rows_name(part, scope)] = _computed(compiler.content(compiler.root))
        compiler.segments()  # their code is cached: writing it takes longest, and would hold up epochs
    return Prepared(relations, quads)


def _computed(content: Callable[[dict[Row, int]], None]) -> dict[Row, int]:
    rows: dict[Row, int] = {}
    gathers(rows)
    content(rows)
    return rows


def prepared_apart(plan: op.Operator, quads: Quads, terms: Terms, scope: str) -> Prepared:
    """The same for a plan whose terms stay as they are: what is compiled and loaded is kept as it is."""
    relations: dict[str, dict[Row, int] | Run] = {}
    plans = {}
    for part in independent_parts(plan):
        made = plans[part] = Maintained(store_unreachable(part), quads, terms, None, scope)
        if not isinstance(made.plan, op.Distinct | op.Closure):
            rows = made.compute()
            run = Relation(len(part.variables), rows).run
            relations[rows_name(part, scope)] = rows if run is None else run
    return Prepared(relations, quads, plans)
