"""Evaluates OPTIONAL: ΔA ⟕ B from the left, A' ⋈ (ΔB + flips) from the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live import extend, two_sided
from sparqlive.live.code import LAZY, Env, Function, Local, Point, times, tuple_of
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def attach(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Continues with each right match of the left solution at the point, or with the solution alone."""
    matcher, outputs = _matcher(compiler, f, node, state, point.env)
    names = {v: f.fresh() for v in outputs}
    factor = f.fresh("w")
    with f.block(f"for {tuple_of(list(names.values()))}, {factor} in {matcher}"):
        result = dict(point.env)
        for variable, name in names.items():
            result[variable] = Local(name, False)
        f.unless_too_deep(result, times(point.weight, factor), point.then)


def _bare(compiler: Compiler, width: int) -> list[tuple[tuple[int, ...], int]]:
    rows = compiler.bare_rows
    if width not in rows:
        rows[width] = [((0,) * width, 1)]
    return rows[width]


def _outputs(operator: op.LeftJoin, env: Env) -> list[Var]:
    return [v for v in operator.right.variables if v not in env or not env[v].bound]


def _matcher(compiler: Compiler, f: Function, node: Node, state: State, env: Env) -> tuple[str, list[Var]]:
    """Writes the matches of a left solution, or a row without bindings, as values of open variables.

    A variable that the left solution may leave unbound takes its value from either side.
    """
    gathering = compiler.gathering_in(f, node.operator.variables)
    operator, right = node.operator, node.children[1]
    assert isinstance(operator, op.LeftJoin)
    read = mentioned(operator.condition) if operator.condition is not None else frozenset()
    arguments = [v for v in operator.left.variables if v in env and v in operator.reads]
    outputs = _outputs(operator, {v: env[v] for v in arguments})
    maybe = [v for v in outputs if v in env]
    key = ("match", node.number, state, tuple((v, env[v].bound) for v in arguments), gathering)

    def body(f: Function, inner: Env) -> None:
        def emit_match(f2: Function, e: Env, weight: str) -> None:
            tests = (
                [extend.condition(compiler, operator.condition, e)] if operator.condition is not None else []
            )
            with f2.when(tests):
                f2.emit(e, weight, outputs)

        compiler.part(f, right, state, Point(inner, "1", frozenset(outputs) | read, emit_match))

    name = compiler.function_of(key, "match", arguments, env, gathering, body)
    call = f"{name}({', '.join(env[v].name for v in arguments)})"
    if maybe:  # without a match, the left solution keeps its own values
        alone = f"[({tuple_of([env[v].name if v in env else '0' for v in outputs])}, 1)]"
    else:
        alone = compiler.program.name("bare", _bare(compiler, len(outputs)))
    return f"either({call}, {alone})" if gathering in LAZY else f"{call} or {alone}", outputs


def flips(compiler: Compiler, f: Function, node: Node, left_state: State) -> None:
    """Writes A' ⋈ (ΔB + flips(B, ΔB)) over the collected change of the right side.

    The left side is probed once per key. Each of its solutions joins the changed right rows of the key, and
    occurs alone if the key flips.
    """
    operator = node.operator
    assert isinstance(operator, op.LeftJoin)
    keys = operator.flip_keys
    if keys is None:
        two_sided.whole_row_flips(compiler, f, node, left_state, _flip_whole_row)
        return
    left = node.children[0]
    names = {v: f.fresh() for v in operator.right.variables}
    free = [v for v in operator.right.variables if v not in keys]
    f.line("groups = {}")
    with f.block(f"for {tuple_of(list(names.values()))}, w in rows"):
        row = f"({tuple_of([names[v] for v in free])}, w)"
        f.line(f"groups.setdefault({tuple_of([names[v] for v in keys])}, []).append({row})")
    env = {v: Local(f.fresh(), True) for v in keys}
    with f.block(f"for {tuple_of([env[v].name for v in keys])}, matches in groups.items()"):
        was, now = two_sided.testers(compiler, node, env)
        f.line(f"was, now = {was}, {now}")
        with f.block("if was != now"):
            f.line(f"matches.append(({tuple_of(['0'] * len(free))}, 1 if was else -1))")

        def each(f2: Function, e: Env, weight: str) -> None:
            own = {v: f2.fresh() for v in free}
            factor = f2.fresh("w")
            with f2.block(f"for {tuple_of(list(own.values()))}, {factor} in matches"):
                result = {**e, **{v: Local(name, False) for v, name in own.items()}}
                compiler.up(f2, node, result, times(weight, factor))

        compiler.part(f, left, left_state, Point(env, "1", left.needed, each))


def _flip_whole_row(compiler: Compiler, f: Function, node: Node, env: Env) -> None:
    """Writes the changed matches of one left solution; also the solution alone if it had or has no match."""
    operator = node.operator
    assert isinstance(operator, op.LeftJoin)
    outputs = _outputs(operator, env)
    alone = tuple_of([env[v].name if v in env else "0" for v in outputs])
    with f.block("if was != now"):
        f.line(f"matches.append(({alone}, 1 if was else -1))")
    names = {v: f.fresh() for v in outputs}
    factor = f.fresh("w")
    with f.block(f"for {tuple_of(list(names.values()))}, {factor} in matches"):
        result = {**env, **{v: Local(name, False) for v, name in names.items()}}
        compiler.up(f, node, result, f"weight * {factor}")
