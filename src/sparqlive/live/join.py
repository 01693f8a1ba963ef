"""Writes joins as nested loops, from bound variables outward (Theorems 4.3 and 4.5 determine the states).

Parts that share no unbound variable form separate groups. A group whose variables are not read later becomes
a factor that is computed once: its variables are summed away before the next loop instead of after it. The
other groups are opened before the first of them is looped over, so that an empty one ends the search. Only
left solutions read a change on the right side of OPTIONAL, MINUS or EXISTS, so a part that no bound variable
restricts is looked up for the values of the left solutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparqlive.live import extend, scan
from sparqlive.live.code import Continue, Env, Function, Gathering, Local, Point, locals_of, times, tuple_of
from sparqlive.live.extend import Item
from sparqlive.live.search import Part, Search
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State, Times
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.column_tests import ColumnTest, column_test

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


@dataclass(frozen=True)
class Reader:
    """The only operator that reads a join's solutions; solutions that it does not need may be left out.

    `shared`: the variables that it always binds and compares with those of the join.
    """

    node: Node
    state: State
    shared: frozenset[Var]


def loop(compiler: Compiler, f: Function, node: Node, state: State, point: Point) -> None:
    """Writes loops over a join, or over filters and bindings with the operator below them."""
    base, items = extend.items_below(node)
    parts = base.children if isinstance(base.operator, op.Join) else (base,)
    env = extend.with_copies(items, point.env)
    loop_over(compiler, f, [(part, state) for part in parts], items, point.within(env, point.then))


def loop_over(
    compiler: Compiler,
    f: Function,
    parts: list[Part],
    items: list[Item],
    point: Point,
    reader: Reader | None = None,
) -> None:
    """Writes loops over `parts` from a point on, and applies filters and bindings as early as possible.

    `reader`: the only operator that reads the solutions, if there is one.
    """
    search = Search(parts, items, point.env, point.needed, compiler.estimate)
    _go_on(compiler, search, f, point, reader)


def up(compiler: Compiler, f: Function, node: Node, changed: int, point: Point) -> None:
    """Joins the change of one part with the other parts, each in the state that the rule names."""
    term = node.operator.delta_term(changed)
    assert isinstance(term, Times)
    rest = [
        (child, factor.state)  # type: ignore[union-attr]
        for number, (child, factor) in enumerate(zip(node.children, term.factors, strict=True))
        if number != changed
    ]
    top, items = extend.items_above(node)
    loop_over(compiler, f, rest, items, compiler.above(top, point.env, point.weight), _reader(top))


def up_through_items(compiler: Compiler, f: Function, node: Node, changed: int, point: Point) -> None:
    """Applies a filter or binding to a change, together with all filters and bindings directly above it."""
    top, items = extend.items_above(node.children[changed])
    loop_over(compiler, f, [], items, compiler.above(top, point.env, point.weight))


def _reader(node: Node) -> Reader | None:
    """Returns the left side for a node on the right, also through unions and projections."""
    shared = frozenset(node.operator.variables)
    while node.parent is not None and isinstance(node.parent.operator, op.Union | op.Project):
        node = node.parent
        shared &= frozenset(node.operator.variables)
    if not node.gathers or node.parent is None or isinstance(node.parent.operator, op.Keeping):
        return None
    term = node.parent.operator.delta_term(1)
    assert isinstance(term, Times)
    left = node.parent.children[0]
    return Reader(left, term.factors[0].state, shared & left.operator.always)  # type: ignore[union-attr]


def _go_on(compiler: Compiler, search: Search, f: Function, point: Point, reader: Reader | None) -> None:
    """Writes the next step of a search, with all following steps nested inside it."""
    env, weight, needed, then = point.env, point.weight, point.needed, point.then
    search.bind(env)
    written = False

    def following(f2: Function, e: Env, w: str) -> None:
        nonlocal written
        assert not written, "the code after a part is written once: a part with branches is called"
        written = True
        _go_on(compiler, search, f2, Point(e, w, needed, then), reader)

    item = search.ready_item()
    if item is not None:
        tests, env = extend.apply(compiler, f, item, env)
        with f.when(tests):
            f.unless_too_deep(env, weight, following)
        return
    if search.is_done:
        f.unless_too_deep(env, weight, then)
        return
    sums = f.gathering in (Gathering.SUM, Gathering.ROWS, Gathering.EACH)
    may_be_any = f.gathering is not Gathering.FIRST  # counting a group may take longer than finding rows
    unread = search.unread_group(lambda group: sums or _counts(*group, env), may_be_any)
    if unread is not None:
        _factor(compiler, f, *unread, point.within(env, following))
        return
    (node, state), read = search.cheapest_part()
    follow: Continue = lambda f2, e, w: f2.unless_too_deep(e, w, following)  # noqa: E731
    rows, keys = ("", {}) if reader is None else _read_keys(compiler, f, reader, node, env)
    if keys:
        with f.block(f"for {tuple_of([local.name for local in keys.values()])} in {rows}"):
            compiler.part(f, node, state, Point({**env, **keys}, weight, read, follow))
        return
    each = Point(env, weight, read, follow)
    filters = _filters(compiler, search, node, env) if compiler.lazy else []
    if filters:
        scan.loop(compiler, f, node, state, each, filters)
    else:
        compiler.part(f, node, state, each)


def _read_keys(
    compiler: Compiler, f: Function, reader: Reader, node: Node, env: Env
) -> tuple[str, dict[Var, Local]]:
    """Writes the distinct values of variables that the reader needs, if nothing restricts the part."""
    operator, asking = node.operator, reader.node.operator
    if any(v in env for v in operator.variables):
        return "", {}
    certain = reader.shared & asking.pushable
    given = [v for v in asking.variables if v in certain and v in env and env[v].bound]
    wanted = [v for v in asking.variables if v in certain and v in operator.always & operator.pushable]
    if not given or not wanted:
        return "", {}
    probe = compiler.probe(reader.node, reader.state, given, wanted)
    rows = f"dict({probe}({', '.join(env[v].name for v in given)}))"
    return rows, {v: Local(f.fresh(), True) for v in wanted}


def _filters(compiler: Compiler, search: Search, node: Node, env: Env) -> scan.Filters:
    """Takes the filters that can be tested by columns while a large pattern is read."""
    operator = node.operator
    if not isinstance(operator, op.Scan) or not search.items:
        return []
    own = {v: env[v] for v in operator.variables if v in env}
    variables = scan.testable(operator, own)
    if not variables or not all(local.bound for local in own.values()):
        return []
    if compiler.estimate(node, frozenset(own)) < compiler.terms.tuning.column_rows:
        return []
    tests: dict[Item, ColumnTest | None] = {}

    def test_of(item: Item) -> ColumnTest | None:
        if item not in tests:
            tests[item] = column_test(item.expression, next(iter(item.reads)))
        return tests[item]

    items = search.take_tests(variables, lambda item: test_of(item) is not None)
    return [extend.by_columns(compiler, item, test) for item in items if (test := test_of(item)) is not None]


def _counts(group: list[Part], own: list[Item], env: Env) -> bool:
    """Returns whether a group is a single pattern whose solutions an index can count without listing them."""
    if len(group) > 1 or own or not isinstance(group[0][0].operator, op.Scan):
        return False
    return all(env[v].bound for v in group[0][0].operator.variables if v in env)


def _factor(compiler: Compiler, f: Function, group: list[Part], own: list[Item], point: Point) -> None:
    """Multiplies the weight by the number of solutions of a group whose variables are not read."""
    env = point.env
    if _counts(group, own, env):
        number, test = scan.count(compiler, group[0][0], group[0][1], env)
    else:
        number, test = _count_function(compiler, f, group, own, env), ""
    if not test:
        name = f.fresh("n")
        f.line(f"{name} = {number}")
        test, number = name, name if f.gathering is not Gathering.EXISTS else "1"
    with f.when([test]):
        f.unless_too_deep(env, times(point.weight, number), point.then)


def _count_function(compiler: Compiler, f: Function, group: list[Part], own: list[Item], env: Env) -> str:
    """Returns a call that counts the group's solutions, or looks for one where that is enough."""
    variables = sorted(
        {v for node, _ in group for v in node.operator.variables if v in env}
        | {v for item in own for v in item.reads if v in env}
    )
    names = locals_of({v: env[v] for v in variables})
    gathering = Gathering.EXISTS if f.gathering is Gathering.EXISTS else Gathering.COUNT
    inner = compiler.program.function("count", names, gathering)
    # Locals of the caller are parameters here, so fresh names must differ from them.
    inner.skip_names_of(f)
    inner_env = {v: env[v] for v in variables}
    each = Point(inner_env, "1", frozenset(), lambda g, e, w: g.emit(e, w, ()))
    loop_over(compiler, inner, group, own, each)
    return f"{inner.finish()}({', '.join(names)})"
