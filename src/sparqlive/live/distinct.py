"""DISTINCT: stores the counts of the source's solutions; the delta is the sign changes of the counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparqlive.live.code import Function, Local, Point, tuple_of
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.zset.relation import Relation, Row

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


class Counts(Relation):
    """The number of occurrences of each solution of the source."""

    def carry(self, delta: Mapping[Row, int]) -> dict[Row, int]:
        """+1 where a count becomes positive, -1 where it becomes zero. Cost: one lookup per changed row."""
        self.stage(delta)
        result = {}
        for row, weight in delta.items():
            old = self.weight_before(row)
            sign = (old + weight > 0) - (old > 0)
            if sign:
                result[row] = sign
        return result

    def row_count(self) -> int:
        return len(self)


def state(operator: op.Distinct, terms: Terms) -> Counts:
    return Counts(len(operator.variables))


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Computes a probe from the operator below, because the stored counts have no index."""
    child, env = node.children[0], point.env
    columns = child.operator.variables
    seen = f.fresh("seen")
    f.line(f"{seen} = set()")
    rows = compiler.rows_of(f, child, state, env, columns)
    own = {v: f.fresh() for v in columns}
    with f.block(f"for row, _ in {rows}"), f.block(f"if row not in {seen}"):
        f.line(f"{seen}.add(row)")
        if own:
            f.line(f"{tuple_of(list(own.values()))} = row")
        fresh = {v: Local(name, v in child.operator.always) for v, name in own.items() if v not in env}
        f.unless_too_deep({**env, **fresh}, point.weight, point.then)
