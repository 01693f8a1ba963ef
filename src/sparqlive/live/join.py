"""Joins as nested loops from what is bound outward (Theorems 4.3 and 4.5 give the states).

Parts that share no unbound variable are kept apart: one that binds nothing anybody reads becomes a factor,
computed once (its variables are summed away before the next loop, not after); the others are opened before
the first of them is looped over, so that an empty one ends the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.live import extend, scan
from sparqlive.live.code import Continue, Env, Function, Result, locals_of, times
from sparqlive.live.extend import Item
from sparqlive.live.search import Part, Search
from sparqlive.plan import operators as op
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler


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
    search = Search(parts, items, env, needed, compiler.estimate)
    _go_on(compiler, search, f, env, weight, then)


def _go_on(compiler: Compiler, search: Search, f: Function, env: Env, weight: str, then: Continue) -> None:
    """Writes the next step of a search, and all that follow inside it."""
    search.bind(env)
    written = False

    def following(f2: Function, e: Env, w: str) -> None:
        nonlocal written
        assert not written, "what follows a part is written once: a part with branches is called"
        written = True
        _go_on(compiler, search, f2, e, w, then)

    item = search.ready_item()
    if item is not None:
        tests, env = extend.apply(compiler, f, item, env)
        with f.when(tests):
            f.unless_too_deep(env, weight, following)
        return
    if search.is_done:
        f.unless_too_deep(env, weight, then)
        return
    sums = f.result in (Result.SUM, Result.ROWS)
    unread = search.unread_group(lambda group: sums or _counts(*group, env))
    if unread is not None:
        _factor(compiler, f, *unread, env, weight, following)
        return
    (node, state), read = search.cheapest_part()
    compiler.part(
        f, node, state, env, weight, read, lambda f2, e, w: f2.unless_too_deep(e, w, following)
    )  # fmt: skip


def _counts(group: list[Part], own: list[Item], env: Env) -> bool:
    """Whether a group is a single pattern, whose solutions an index counts without listing them."""
    if len(group) > 1 or own or not isinstance(group[0][0].operator, op.Scan):
        return False
    return all(env[v].bound for v in group[0][0].operator.variables if v in env)


def _factor(
    compiler: Compiler, f: Function, group: list[Part], own: list[Item], env: Env, weight: str, then: Continue
) -> None:
    """Multiplies by the number of solutions of a group whose variables nobody reads."""
    if _counts(group, own, env):
        number, test = scan.count(compiler, group[0][0], group[0][1], env)
    else:
        number, test = _count_function(compiler, f, group, own, env), ""
    if not test:
        name = f.fresh("n")
        f.line(f"{name} = {number}")
        test, number = name, name if f.result is not Result.EXISTS else "1"
    with f.when([test]):
        f.unless_too_deep(env, times(weight, number), then)


def _count_function(compiler: Compiler, f: Function, group: list[Part], own: list[Item], env: Env) -> str:
    """A call of a function that counts the group's solutions, or finds one if that is enough."""
    variables = sorted(
        {v for node, _ in group for v in node.operator.variables if v in env}
        | {v for item in own for v in item.reads if v in env}
    )
    names = locals_of({v: env[v] for v in variables})
    result = Result.EXISTS if f.result is Result.EXISTS else Result.COUNT
    inner = compiler.program.function("count", names, result)
    # Locals of the caller are parameters here: fresh names must not repeat them.
    inner.skip_names_of(f)
    inner_env = {v: env[v] for v in variables}
    loop(compiler, inner, group, own, inner_env, "1", frozenset(), lambda g, e, w: g.emit(e, w, ()))
    return f"{inner.finish()}({', '.join(names)})"
