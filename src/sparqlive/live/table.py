"""Evaluates inline tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live.code import Function, Local, Point, tuple_of
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.rdf.dictionary import UNDEF

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    table, env = node.operator, point.env
    assert isinstance(table, op.Table)

    def rows() -> list[tuple[int, ...]]:
        id_of = compiler.terms.dictionary.id_of
        return [tuple(UNDEF if term is None else id_of(term) for term in row) for row in table.rows]

    names = {v: f.fresh() for v in table.columns}
    key = next((v for v in table.columns if v in env and v in table.always), None)
    if key is None:
        source = compiler.program.made("t", rows)
    else:
        position = table.columns.index(key)

        def index() -> dict[int, list[tuple[int, ...]]]:
            found: dict[int, list[tuple[int, ...]]] = {}
            for row in rows():
                found.setdefault(row[position], []).append(row)
            return found

        source = f"{compiler.program.made('t', index)}.get({env[key].name}, ())"
    tests = []
    for variable, name in names.items():
        if variable in env and variable != key:
            loose = "" if variable in table.always else f"not {name} or "
            tests.append(f"({loose}{name} == {env[variable].name})")
    fresh = {v: Local(name, v in table.always) for v, name in names.items() if v not in env}
    with f.block(f"for {tuple_of(list(names.values()))} in {source}"), f.when(tests):
        point.then(f, {**env, **fresh}, point.weight)
