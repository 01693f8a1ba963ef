"""A plan that is to be kept, computed before it is: beside the epochs, on a copy of the quads.

Owns which relations a content will ask for, by name. Invariant: what is computed here is what a `Maintained`
of the same plan would compute on the same quads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparqlive.live.compiler import Compiler
from sparqlive.live.maintained import key_of, state_name
from sparqlive.live.quads import Quads
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.sparql.deadline import gathers
from sparqlive.zset.relation import Row


@dataclass(frozen=True)
class Prepared:
    """The relations of a content by name, and the copy of the quads that they were computed from."""

    relations: Mapping[str, dict[Row, int]]
    quads: Quads

    def saved(self, name: str, _: op.Operator) -> dict[Row, int] | None:
        return self.relations.get(name)

    def rows(self) -> int:
        return sum(map(len, self.relations.values()))


def prepared(plan: op.Operator, quads: Quads, terms: Terms, scope: str) -> Prepared:
    """Computes a plan; all of it is new, so that it can be stopped anywhere."""
    relations: dict[str, dict[Row, int]] = {}
    for part in independent_parts(plan):
        stored = store_unreachable(part)
        compiler, key = Compiler(stored, quads, terms), key_of(stored, scope)
        for number, state in compiler.states.items():
            if not isinstance(compiler.nodes[number].operator, op.Parameters):
                content = _computed(compiler.content(compiler.nodes[number].children[0]))
                relations[state_name(key, number)] = content
                state.load(content)
        if not isinstance(stored, op.Distinct | op.Closure):
            relations[f"{key_of(part, scope)}/rows"] = _computed(compiler.content(compiler.root))
        compiler.segments()  # their code is cached: writing it takes longest, and would hold up epochs
    return Prepared(relations, quads)


def _computed(content: Callable[[dict[Row, int]], None]) -> dict[Row, int]:
    rows: dict[Row, int] = {}
    gathers(rows)
    content(rows)
    return rows
