"""Evaluates OPTIONAL, EXISTS and MINUS: ΔA tested against B, and A' ⋈ flips (Theorem 4.6).

If the shared variables are always bound on both sides, they are the keys of flips. Otherwise whole left
solutions are the keys: each left solution that is compatible with a changed right one is tested before and
after. This covers all schemas at once (the paper's chain over schemas, §4.5.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sparqlive.live import extend
from sparqlive.live.code import Continue, Env, Function, Gathering, Local, Point, tuple_of
from sparqlive.plan import operators as op
from sparqlive.plan.delta import Outer, State, Tested
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node

OnFlip = Callable[["Compiler", Function, "Node", Env, str], None]
Attach = Callable[["Compiler", Function, "Node", State, Point], None]


def loop(attach: Attach, compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Writes a loop over the left side; `attach` continues from each of its solutions."""
    left = node.children[0]

    def each(f2: Function, env: Env, weight: str) -> None:
        attach(compiler, f2, node, state, Point(env, weight, point.needed, point.then))

    compiler.part(f, left, state, Point(point.env, point.weight, left.needed, each))


def up(attach: Attach, compiler: Compiler, f: Function, node: Node, changed: int, point: Point) -> None:
    """Continues from a changed left solution: ΔA is tested against B in the state that the rule names."""
    assert changed == 0, "changes of the right side are collected"
    term = node.operator.delta_term(changed)
    assert isinstance(term, Outer | Tested)
    attach(compiler, f, node, term.right.state, point)


def tester(compiler: Compiler, node: Node, state: State, env: Env) -> str:
    """Writes a call that returns whether the left solution in `env` has a match on the right."""
    operator, right = node.operator, node.children[1]
    assert isinstance(operator, op.TwoSided)
    condition = operator.condition if isinstance(operator, op.LeftJoin) else None
    read = mentioned(condition) if condition is not None else frozenset()
    arguments = [v for v in operator.left.variables if v in env and v in operator.reads]
    key = ("test", node.number, state, tuple((v, env[v].bound) for v in arguments))

    def body(f: Function, inner: Env) -> None:
        if isinstance(operator, op.Semi) and operator.tests_domain:
            _with_common_variable(compiler, f, operator, right, state, inner)
            return

        def emit_match(f2: Function, e: Env, weight: str) -> None:
            tests = [extend.condition(compiler, condition, e)] if condition is not None else []
            with f2.when(tests):
                f2.emit(e, weight, ())

        compiler.part(f, right, state, Point(inner, "1", read, emit_match))

    name = compiler.function_of(key, "test", arguments, env, Gathering.EXISTS, body)
    return f"{name}({', '.join(env[v].name for v in arguments)})"


def testers(compiler: Compiler, node: Node, env: Env) -> tuple[str, str]:
    return tester(compiler, node, State.OLD, env), tester(compiler, node, State.NEW, env)


def _with_common_variable(
    compiler: Compiler, f: Function, operator: op.Semi, right: Node, state: State, env: Env
) -> None:
    """Compares solutions value by value, for MINUS where they may have no bound variable in common."""
    columns = right.operator.variables
    rows = compiler.rows_of(f, right, state, env, columns, raw=True)
    own = {v: f.fresh() for v in columns}
    agree, common = _pairwise(env, own, right.operator, operator.domain or ())
    with f.block(f"for {tuple_of(list(own.values()))}, _ in {rows}"), f.when([*agree, common]):
        f.emit(env, "1", ())


def _pairwise(
    env: Env, own: dict[Var, str], right: op.Operator, domain: tuple[Var, ...]
) -> tuple[list[str], str]:
    """Writes tests that two solutions agree, and that they have a variable of the domain in common."""
    agree = []
    for variable, name in own.items():
        if variable in env:
            ways = [] if env[variable].bound else [f"not {env[variable].name}"]
            ways += [] if variable in right.always else [f"not {name}"]
            agree.append("(" + " or ".join([*ways, f"{name} == {env[variable].name}"]) + ")")
    common = [f"({env[v].name} and {own[v]})" for v in domain if v in env and v in own]
    return agree, f"({' or '.join(common)})" if common else "False"


# From the right side


def flips_with(compiler: Compiler, f: Function, node: Node, left_state: State, on_flip: OnFlip) -> None:
    """Writes A' ⋈ flips(B, ΔB) over the collected change of the right side."""
    operator = node.operator
    assert isinstance(operator, op.Semi | op.Mark)
    keys = operator.flip_keys
    if keys is None:

        def flip_row(compiler: Compiler, f: Function, node: Node, env: Env) -> None:
            with f.block("if was != now"):
                on_flip(compiler, f, node, env, "weight")

        whole_row_flips(compiler, f, node, left_state, flip_row)
        return
    names = {v: f.fresh() for v in operator.right.variables}
    row = tuple_of(list(names.values()))
    f.line("signs = {}")
    with f.block(f"for {row}, w in rows"):
        f.line(f"key = {tuple_of([names[v] for v in keys])}")
        f.line("signs[key] = signs.get(key, 0) | (1 if w < 0 else 2)")
    env = {v: Local(f.fresh(), True) for v in keys}
    with f.block(f"for {tuple_of([env[v].name for v in keys])}, sign in signs.items()"):
        was, now = testers(compiler, node, env)
        # A removed row existed before, and an added row exists now, so neither needs a test.
        f.line(f"was, now = sign != 2 or {was}, sign != 1 or {now}")
        with f.block("if was != now"):
            left = node.children[0]
            each: Continue = lambda f2, e, w: on_flip(compiler, f2, node, e, w)  # noqa: E731
            compiler.part(f, left, left_state, Point(env, "1", left.needed, each))


def whole_row_flips(
    compiler: Compiler, f: Function, node: Node, left_state: State,
    on_row: Callable[[Compiler, Function, Node, Env], None],
) -> None:  # fmt: skip
    """Collects the left solutions that are compatible with a changed right one; tests each before and after.

    `touched` maps a left solution to its weight and the changed matches.
    """
    operator = node.operator
    assert isinstance(operator, op.TwoSided)
    left, right = operator.left, operator.right
    f.line("touched = {}")
    changed = {v: Local(f.fresh(), v in right.always) for v in right.variables}
    with f.block(f"for {tuple_of([x.name for x in changed.values()])}, w in rows"):
        rows = compiler.rows_of(f, node.children[0], left_state, changed, left.variables, raw=True)
        f.line("found = {}")
        with f.block(f"for a, wa in {rows}"):
            f.line("found[a] = found.get(a, 0) + wa")
        with f.block("for a, wa in found.items()"):
            own = {v: f.fresh() for v in left.variables}
            if own:
                f.line(f"{tuple_of(list(own.values()))} = a")
            _gather(compiler, f, operator, changed, own)
    env = {v: Local(f.fresh(), v in left.always) for v in left.variables}
    with f.block(f"for {tuple_of([x.name for x in env.values()])}, (weight, matches) in touched.items()"):
        was, now = testers(compiler, node, env)
        f.line("signs = [w for _, w in matches]")
        f.line(f"was, now = min(signs) < 0 or {was}, max(signs) > 0 or {now}")
        on_row(compiler, f, node, env)


def _gather(
    compiler: Compiler,
    f: Function,
    operator: op.TwoSided,
    changed: Env,
    own: dict[Var, str],
) -> None:
    agree, common = _pairwise(
        changed, own, operator.left, operator.domain or () if isinstance(operator, op.Semi) else ()
    )
    if isinstance(operator, op.Semi) and operator.tests_domain:
        agree.append(common)
    with f.when(agree):
        together: dict[Var, Local] = {v: Local(name, v in operator.left.always) for v, name in own.items()}
        for variable, local in changed.items():
            if variable not in together:
                together[variable] = local
            elif not together[variable].bound:
                either = f.fresh()
                f.line(f"{either} = {own[variable]} or {local.name}")
                together[variable] = Local(either, local.bound)
        tests = []
        if isinstance(operator, op.LeftJoin) and operator.condition is not None:
            tests = [extend.condition(compiler, operator.condition, together)]
        with f.when(tests):
            outputs = [v for v in operator.right.variables if v not in operator.left.always]
            match = f"({tuple_of([together[v].name for v in outputs])}, w)"
            f.line(f"touched.setdefault(a, (wa, []))[1].append({match})")
