"""Joins as nested loops from what is bound outward (Theorems 4.3 and 4.5 give the states).

Parts that share no unbound variable are kept apart: one that binds nothing anybody reads becomes a factor,
computed once (its variables are summed away before the next loop, not after); the others are opened before
the first of them is looped over, so that an empty one ends the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live import extend, scan
from sparqlive.live.code import Continue, Env, Function, Result, times
from sparqlive.live.extend import Item
from sparqlive.plan import operators as op
from sparqlive.plan.cost import cheapest
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node

Part = tuple["Node", State]


def loop(
    compiler: Compiler,
    f: Function,
    parts: list[Part],
    items: list[Item],
    env: Env,
    weight: str,
    needed: frozenset[Var],
    then: Continue,
) -> None:
    """Writes the loops over `parts` under `env`, with filters and bindings as early as they can be."""
    to_come = frozenset(v for node, _ in parts for v in node.operator.variables)
    ready = next(
        (n for n, item in enumerate(items) if extend.is_ready(item, env, to_come | _bound_by(items[:n]))),
        None,
    )
    if ready is not None:
        tests, env = extend.apply(compiler, f, items[ready], env)
        left = [*items[:ready], *items[ready + 1 :]]
        with f.when(tests):
            f.unless_too_deep(
                env, weight, lambda f2, e, w: loop(compiler, f2, parts, left, e, w, needed, then)
            )
        return
    if not parts:
        assert not items
        f.unless_too_deep(env, weight, then)
        return
    groups = _components(parts, items, env)
    for group, own in groups:
        if not _read_outside(group, own, env, needed) and (
            len(groups) > 1 or _counts(group, own, env) or f.result in (Result.SUM, Result.ROWS)
        ):
            _factor(compiler, f, group, own, (parts, items, env, weight, needed, then))
            return
    _next(compiler, f, parts, items, env, weight, needed, then)


def _bound_by(items: list[Item]) -> frozenset[Var]:
    return frozenset(item.variable for item in items if item.variable is not None)


def _components(parts: list[Part], items: list[Item], env: Env) -> list[tuple[list[Part], list[Item]]]:
    """Parts and the items on them, grouped by the variables that are not bound yet."""
    groups: list[tuple[set[Var], list[Part], list[Item]]] = []

    def add(variables: set[Var], parts: list[Part], items: list[Item]) -> None:
        meeting = [group for group in groups if group[0] & variables]
        for group in meeting:
            groups.remove(group)
            variables = variables | group[0]
            parts, items = [*group[1], *parts], [*group[2], *items]
        groups.append((variables, parts, items))

    for node, state in parts:
        add({v for v in node.operator.variables if not _is_bound(v, env)}, [(node, state)], [])
    for item in items:
        own = {v for v in item.reads if not _is_bound(v, env)}
        add(own | ({item.variable} if item.variable else set()), [], [item])
    order = {node.number: number for number, (node, _) in enumerate(parts)}
    found = [(sorted(group[1], key=lambda part: order[part[0].number]), group[2]) for group in groups]
    with_parts = [group for group in found if group[0]]
    loose = [item for group in found if not group[0] for item in group[1]]
    if loose:  # an item that waits for no part: keep it with the first group
        with_parts[0] = (with_parts[0][0], [*with_parts[0][1], *loose])
    return with_parts


def _is_bound(variable: Var, env: Env) -> bool:
    return variable in env and env[variable].bound


def _read_outside(parts: list[Part], items: list[Item], env: Env, needed: frozenset[Var]) -> bool:
    bound = {v for node, _ in parts for v in node.operator.variables if not _is_bound(v, env)}
    return bool((bound | _bound_by(items)) & needed)


def _counts(group: list[Part], own: list[Item], env: Env) -> bool:
    """Whether a group is a single pattern, whose solutions an index counts without listing them."""
    if len(group) > 1 or own or not isinstance(group[0][0].operator, op.Scan):
        return False
    return all(env[v].bound for v in group[0][0].operator.variables if v in env)


def _factor(
    compiler: Compiler,
    f: Function,
    group: list[Part],
    own: list[Item],
    whole: tuple[list[Part], list[Item], Env, str, frozenset[Var], Continue],
) -> None:
    """Multiplies by the number of solutions of a group whose variables nobody reads."""
    parts, items, env, weight, needed, then = whole
    rest = [part for part in parts if part not in group]
    left = [item for item in items if item not in own]
    if _counts(group, own, env):
        number, test = scan.count(compiler, group[0][0], group[0][1], env)
    else:
        number, test = _count_function(compiler, f, group, own, env), ""
    if not test:
        name = f.fresh("n")
        f.line(f"{name} = {number}")
        test, number = name, name if f.result is not Result.EXISTS else "1"
    with f.when([test]):
        loop(compiler, f, rest, left, env, times(weight, number), needed, then)


def _count_function(compiler: Compiler, f: Function, group: list[Part], own: list[Item], env: Env) -> str:
    """A call of a function that counts the group's solutions, or finds one if that is enough."""
    variables = sorted(
        {v for node, _ in group for v in node.operator.variables if v in env}
        | {v for item in own for v in item.reads if v in env}
    )
    names = list(dict.fromkeys(env[v].name for v in variables))
    result = Result.EXISTS if f.result is Result.EXISTS else Result.COUNT
    inner = compiler.program.function("count", names, result)
    # Locals of the caller are parameters here: fresh names must not repeat them.
    inner.skip_names_of(f)
    inner_env = {v: env[v] for v in variables}
    loop(compiler, inner, group, own, inner_env, "1", frozenset(), lambda g, e, w: g.emit(e, w, ()))
    return f"{inner.finish()}({', '.join(names)})"


def _next(
    compiler: Compiler,
    f: Function,
    parts: list[Part],
    items: list[Item],
    env: Env,
    weight: str,
    needed: frozenset[Var],
    then: Continue,
) -> None:
    bound = frozenset(v for v in env if env[v].bound)
    chosen = cheapest([node.operator for node, _ in parts], bound, compiler.fan_out)
    node, state = parts[chosen]
    rest = [*parts[:chosen], *parts[chosen + 1 :]]
    read = needed | frozenset(v for other, _ in rest for v in other.operator.variables)
    read |= frozenset(v for item in items for v in item.reads)
    others: Continue = lambda f2, e, w: loop(compiler, f2, rest, items, e, w, needed, then)  # noqa: E731
    compiler.part(
        f, node, state, env, weight, read, lambda f2, e, w: f2.unless_too_deep(e, w, others)
    )  # fmt: skip
