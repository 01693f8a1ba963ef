"""Compiles a plan and its delta rules to Python functions over indexes.

Owns the two directions: *down* into an operator's content, restricted by the bound variables (a probe), and
*up* from a change to the operator where deltas are collected. Each operator has its code in the file of its
name. Invariant: a function starts with only those variables bound that can be pushed into the operator, so
filters below see only values of their own scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

from sparqlive.live import scan
from sparqlive.live.code import Continue, Env, Function, Gathering, Local, Point, Program, times, tuple_of
from sparqlive.live.lazy import Bulk, Remembered, content_of
from sparqlive.live.operators import OPERATORS
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.checks import MOST_PARTS, too_large, within_reach
from sparqlive.plan.delta import State, Times
from sparqlive.quads.current import Quads
from sparqlive.quads.snapshot import Snapshot
from sparqlive.sparql.algebra import Var

_MOST_CHOICES = 3
_OTHER_SIZE = 4
_SMALL_SIZE = 8
"""Sizes that differ by less than the factor, or by less than this number, do not change the loop order."""


class Node:
    """An operator at its position in the plan. `needed`: the variables that operators above read.

    A shared operator has its children only at its first position, which `shared` records.
    """

    __slots__ = ("children", "index", "needed", "number", "operator", "parent")

    def __init__(
        self,
        operator: op.Operator,
        parent: Node | None,
        index: int,
        needed: frozenset[Var],
        shared: dict[op.Shared, Node],
    ) -> None:
        self.operator = operator
        self.parent = parent
        self.index = index
        self.needed = needed & frozenset(operator.variables)
        self.number = -1
        self.children: tuple[Node, ...] = ()
        if isinstance(operator, op.Shared):  # first, because hashing an operator hashes its whole subtree
            if operator in shared:
                return
            shared[operator] = self
        needed_below = _needed_below(operator, self.needed)
        self.children = tuple(
            Node(child, self, number, needed_below[number], shared)
            for number, child in enumerate(operator.children)
        )

    def in_order(self) -> list[Node]:
        """Returns the nodes, children before parents."""
        return [*(node for child in self.children for node in child.in_order()), self]

    @property
    def gathers(self) -> bool:
        """Returns whether this operator collects its delta before operators above continue."""
        if self.parent is None or isinstance(self.parent.operator, op.Keeping):
            return True
        return self.index == 1 and isinstance(self.parent.operator, op.TwoSided)


def _needed_below(operator: op.Operator, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
    """Returns the variables read from each input; all of them where left solutions serve as keys."""
    if isinstance(operator, op.TwoSided) and operator.flip_keys is None:
        return [frozenset(child.variables) for child in operator.children]
    return operator.needed_below(needed)


Carry: TypeAlias = Callable[[Any, dict[tuple[int, ...], int]], None]


@dataclass(frozen=True)
class Segment:
    """A function from the change of one operator to where it is collected.

    `write` returns the function. It may be called while changes are staged.
    """

    source: Node
    target: Node
    write: Callable[[], Carry]


class _States(dict[int, Any]):
    """The states of operators by number, each created on first use."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> Any:
        made = self[number] = self._make(number)
        return made


class Compiler:
    def __init__(
        self,
        plan: op.Operator,
        quads: Quads | Snapshot,
        terms: Terms,
        lazy: bool = False,
        bulk: Bulk | None = None,
    ) -> None:
        """`lazy`: the plan is evaluated once, by generators, and states are computed on first use.

        `bulk` then computes groups with many rows.
        """
        self.bulk = bulk
        self.quads = quads
        self.terms = terms
        self.lazy = lazy
        self.program = Program(renewable=lazy)
        self._shared: dict[op.Shared, Node] = {}
        self.root = Node(plan, None, 0, frozenset(plan.variables), self._shared)
        self.nodes = self.root.in_order()
        self.readers: dict[int, list[int]] = {}
        """For the number of a shared operator, the numbers of its other positions."""
        for number, node in enumerate(self.nodes):
            node.number = number
            if isinstance(node.operator, op.Join) and len(node.children) > MOST_PARTS:
                raise too_large()
            if isinstance(node.operator, op.Shared) and self._shared[node.operator] is not node:
                self.readers.setdefault(self._shared[node.operator].number, []).append(number)
        self.states: dict[int, Any] = _States(self._new_state)
        if not lazy:
            for node in self.nodes:
                if OPERATORS[type(node.operator)].state is not None and self.first_of(node) is node:
                    self.states[node.number]
        self._functions: dict[tuple[Any, ...], str] = {}
        self._estimates: dict[tuple[int, frozenset[Var]], float] = {}
        self._measured: dict[tuple[op.Scan, frozenset[Var]], float | None] = {}
        """The sizes for which a lazy plan chose its loop order."""
        self._identity: object = None
        """The quads on which these sizes were last confirmed."""
        self.methods: dict[str, str] = {}
        self.loaded: set[int] = set()
        """The numbers of the operators whose state a lazy plan has loaded."""
        self.remembered: dict[int, Remembered] = {}
        """Rows of operators that a lazy plan may read several times, as far as they were read."""
        self.bare_rows: dict[int, list[tuple[tuple[int, ...], int]]] = {}

    def _new_state(self, number: int) -> Any:
        operator = self.nodes[number].operator
        create = OPERATORS[type(operator)].state
        assert create is not None
        return create(operator, self.terms)

    def renew(self, quads: Snapshot, terms: Terms, bulk: Bulk | None) -> bool:
        """Prepares the functions of a lazy plan for other quads and terms.

        Returns False if they must be written again because the sizes that determined the loop order have
        changed.
        """
        self.quads, self.terms, self.bulk = quads, terms, bulk
        if quads.identity is not self._identity:
            measured = self._measured.items()
            if not all(_is_near(scan.fan_out(self, leaf, bound), size) for (leaf, bound), size in measured):
                return False
            self._identity = quads.identity
        self.program.renew()
        return True

    def release(self) -> None:
        """Drops the quads, the terms, and everything computed from them."""
        self.states.clear()
        self.loaded.clear()
        self.remembered.clear()
        self.program.release()
        self.bulk = None
        del self.quads, self.terms

    def first_of(self, node: Node) -> Node:
        """Returns the position of the plan that holds the state and source of a shared operator."""
        return self._shared[node.operator] if isinstance(node.operator, op.Shared) else node

    def state_of(self, node: Node) -> Any:
        """Returns the state of an operator, which may belong to another position of the plan."""
        return self.states[self.first_of(node).number]

    def leaves(self) -> Iterator[tuple[int, op.QuadLeaf]]:
        """Yields the leaves whose changes are the inputs of the plan, by number."""
        for node in self.nodes:
            if isinstance(node.operator, op.QuadLeaf):
                yield node.number, node.operator

    def matching_quads(self) -> int:
        """Returns the approximate number of quads that match the patterns, summed over the patterns."""
        nothing: frozenset[Var] = frozenset()
        sizes = (
            self.fan_out(leaf, nothing) if isinstance(leaf, op.Scan) else None for _, leaf in self.leaves()
        )
        return sum(self.quads.size if size is None else int(size) for size in sizes)

    def most_quads(self) -> int:
        """Returns an upper bound on the quads that a first computation reads, summed over the patterns."""
        found = 0
        for _, leaf in self.leaves():
            size = self.fan_out(leaf, frozenset()) if isinstance(leaf, op.Scan) else None
            if size is None and isinstance(leaf, op.Scan):
                size = scan.most_quads(self, leaf)
            found += self.quads.size if size is None else int(size)
        return found

    def fan_out(self, operator: op.Scan, bound: frozenset[Var]) -> float | None:
        if not self.lazy:
            return scan.fan_out(self, operator, bound)
        key = (operator, bound)
        if key not in self._measured:
            self._measured[key] = scan.fan_out(self, operator, bound)
        return self._measured[key]

    def estimate(self, node: Node, bound: frozenset[Var]) -> float:
        """Estimates the number of solutions per lookup in an operator, given the bound variables."""
        key = (node.number, bound)
        if key not in self._estimates:
            self._estimates[key] = node.operator.estimate(bound, self.fan_out)
        return self._estimates[key]

    def move(self, quads: Quads) -> None:
        """Switches the functions to other quads with the same content; cheap."""
        places, namespace = self.quads.given(), self.program.namespace
        for name, value in namespace.items():
            if id(value) in places:
                namespace[name] = places[id(value)](quads)
            elif getattr(value, "__self__", None) is self.quads:
                namespace[name] = getattr(quads, value.__name__)
        self.quads = quads

    # Functions

    def content(self, node: Node, bound: Sequence[Var] = (), state: State = State.OLD) -> Callable[..., None]:
        """Returns a function that adds the content of an operator, for given values of `bound`, to a dict."""
        parameters = [f"a{number}" for number in range(len(bound))]
        function = self.program.function("content", [*parameters, "out"], Gathering.SUM)
        env = {v: Local(name, True) for v, name in zip(bound, parameters, strict=True)}
        columns = [v for v in node.operator.variables if v not in bound]
        each: Continue = lambda f, e, w: f.emit(e, w, columns)  # noqa: E731
        self.down(function, node, state, Point(env, "1", node.needed, each))
        compiled: Callable[..., None] = self.program.namespace[function.finish()]
        return compiled

    def stream(self, node: Node, first: bool) -> Callable[[], Iterator[tuple[tuple[int, ...], int]]]:
        """Returns a function that yields the content of an operator; a row may occur several times.

        `first`: the caller needs the first rows as early as possible, and may stop after them.
        """
        if isinstance(node.operator, op.Window):
            return content_of(self, node)  # type: ignore[return-value]

        def body(f: Function, env: Env) -> None:
            each: Continue = lambda f2, e, w: f2.emit(e, w, node.operator.variables)  # noqa: E731
            self.down(f, node, State.OLD, Point(env, "1", node.needed, each))

        gathering = Gathering.FIRST if first else Gathering.EACH
        name = self.function_of(("stream", node.number, first), "stream", (), {}, gathering, body)
        compiled: Callable[..., Any] = self.program.namespace[name]
        return compiled

    def segments(self) -> list[Segment]:
        """Returns one function per operator where a change can start, if there are operators above it.

        If the total code is long, the functions are written on first use.
        """
        segments: list[Segment] = []

        def add(source: Node, target: Node, write: Callable[[], Carry]) -> None:
            segments.append(Segment(source, target, cache(within_reach()(write))))
            if self.program.length < self.terms.tuning.written_characters:
                segments[-1].write()

        for node in self.nodes:
            operator = node.operator
            is_kept = isinstance(operator, op.Keeping)
            if isinstance(operator, op.QuadLeaf) or (is_kept and node.parent is not None):
                add(node, _target(node), partial(self._from_change, node))
            if node.gathers and node.parent and isinstance(node.parent.operator, op.TwoSided):
                add(node, _target(node.parent), partial(self._from_flips, node))
        return segments

    def _from_change(self, source: Node) -> Carry:
        function = self.program.function("delta", ["rows", "out"], Gathering.SUM)
        tests: list[str] = []
        if isinstance(source.operator, op.Scan):
            header, env, tests = scan.changed_rows(self, function, source.operator)
        else:
            variables = source.operator.variables
            env = {v: Local(function.fresh(), v in source.operator.always) for v in variables}
            header = f"for {tuple_of([env[v].name for v in variables])}, w in rows"
        with function.block(header), function.when(tests):
            self.up(function, source, env, "w")
        written: Carry = self.program.namespace[function.finish()]
        return written

    def _from_flips(self, node: Node) -> Carry:
        """Propagates a change of the right side of OPTIONAL, MINUS or EXISTS: A' ⋈ (ΔB + flips)."""
        parent = node.parent
        assert parent is not None
        function = self.program.function("flips", ["rows", "out"], Gathering.SUM)
        term = parent.operator.delta_term(1)
        assert isinstance(term, Times)
        left_state = term.factors[0].state  # type: ignore[union-attr]
        write_flips = OPERATORS[type(parent.operator)].flips
        assert write_flips is not None
        write_flips(self, function, parent, left_state)
        written: Carry = self.program.namespace[function.finish()]
        return written

    def probe(
        self,
        node: Node,
        state: State,
        bound: Sequence[Var],
        columns: Sequence[Var],
        gathering: Gathering = Gathering.ROWS,
    ) -> str:
        """The name of a function: values of `bound` → compatible solutions, [(row of `columns`, weight)].

        The result may leave a bound column UNDEF, because the caller knows its value.
        """
        key = ("probe", node.number, state, tuple(bound), tuple(columns), gathering)

        def body(f: Function, env: Env) -> None:
            each: Continue = lambda f2, e, w: f2.emit(e, w, columns)  # noqa: E731
            self.down(f, node, state, Point(env, "1", frozenset(columns), each))

        all_bound = {v: Local("", True) for v in bound}
        return self.function_of(key, "probe", bound, all_bound, gathering, body)

    def gathering_in(self, f: Function, bound: Sequence[Var]) -> Gathering:
        """Returns how a function called by `f` collects: rows for bound variables are few, and listed."""
        if self.lazy and f.gathering in (Gathering.FIRST, Gathering.EXISTS):
            return Gathering.FIRST
        return Gathering.EACH if self.lazy and not bound else Gathering.ROWS

    def function_of(
        self, key: tuple[Any, ...], prefix: str, variables: Sequence[Var], env: Env, gathering: Gathering,
        body: Callable[[Function, Env], None],
    ) -> str:  # fmt: skip
        """Returns the name of a function over some variables of an environment, written once per key."""
        if key not in self._functions:
            parameters = [f"a{number}" for number in range(len(variables))]
            function = self.program.function(prefix, parameters, gathering)
            if gathering is Gathering.ROWS:
                function.line("out = []")
            self._functions[key] = function.name
            body(function, {v: Local(a, env[v].bound) for v, a in zip(variables, parameters, strict=True)})
            function.finish()
        return self._functions[key]

    # Down

    def down(self, f: Function, node: Node, state: State, point: Point) -> None:
        """Writes loops over an operator's content. The point binds only variables that can be pushed down."""
        OPERATORS[type(node.operator)].loop(self, f, node, state, point)

    def part(self, f: Function, node: Node, state: State, point: Point) -> None:
        """Writes a loop over an operator in any environment: inline where that is safe, else as a call."""
        env = point.env
        mine = {v: env[v] for v in node.operator.variables if v in env}
        plain = all(local.bound for local in mine.values()) and node.operator.pushable.issuperset(mine)
        if plain and not _branches(node.operator):
            each: Continue = lambda f2, e, w: point.then(f2, {**env, **e}, w)  # noqa: E731
            self.down(f, node, state, point.within(mine, each))
        else:
            self.call(f, node, state, point)

    def call(self, f: Function, node: Node, state: State, point: Point) -> None:
        """Writes a loop over the rows of a probe; values that cannot be pushed are compared afterwards."""
        env = point.env
        columns = [v for v in node.operator.variables if v in point.needed or v in env]
        rows = self.rows_of(f, node, state, env, columns)
        own = {v: f.fresh() for v in columns}
        factor = f.fresh("w")
        with (
            f.block(f"for {tuple_of(list(own.values()))}, {factor} in {rows}"),
            f.when(agreement(node, env, own)),
        ):
            f.unless_too_deep(merged(f, node, env, own), times(point.weight, factor), point.then)

    def rows_of(
        self, f: Function, node: Node, state: State, env: Env, columns: Sequence[Var], raw: bool = False
    ) -> str:
        """Returns an expression for the rows of a probe, with every possible variable pushed.

        A variable that may be unbound is pushed when it is bound, with one probe per combination. `raw`:
        pushes only variables that the operator always binds, so that it returns its own values.
        """
        able = node.operator.pushable & node.operator.always if raw else node.operator.pushable
        fixed = [v for v in node.operator.variables if v in env and env[v].bound and v in able]
        choices = [v for v in node.operator.variables if v in env and not env[v].bound and v in able]
        choices = choices[:_MOST_CHOICES]
        if not choices:
            return self._probe_call(f, node, state, fixed, env, columns)
        name = f.fresh("rows")
        for mask in range(2 ** len(choices) - 1, -1, -1):
            chosen = [v for bit, v in enumerate(choices) if mask >> bit & 1]
            bound = [v for v in node.operator.variables if v in fixed or v in chosen]
            test = " and ".join(env[v].name for v in chosen)
            first = mask == 2 ** len(choices) - 1
            with f.block(f"{'if' if first else 'elif'} {test}" if test else "else"):
                f.line(f"{name} = {self._probe_call(f, node, state, bound, env, columns)}")
        return name

    def _probe_call(
        self, f: Function, node: Node, state: State, bound: Sequence[Var], env: Env, columns: Sequence[Var]
    ) -> str:
        name = self.probe(node, state, bound, columns, self.gathering_in(f, bound))
        return f"{name}({', '.join(env[v].name for v in bound)})"

    # Up

    def up(self, f: Function, node: Node, env: Env, weight: str) -> None:
        """Propagates a change of `node` to where it is collected, by the delta rule of each parent."""
        if node.gathers:
            f.emit(env, weight, node.operator.variables)
            return
        parent = node.parent
        assert parent is not None
        through = OPERATORS[type(parent.operator)].up
        assert through is not None
        through(self, f, parent, node.index, self.above(parent, env, weight))

    def above(self, node: Node, env: Env, weight: str) -> Point:
        """Returns the point where a change has passed an operator and continues upward."""
        return Point(env, weight, node.needed, lambda f, e, w: self.up(f, node, e, w))


def agreement(node: Node, env: Env, own: Mapping[Var, str]) -> list[str]:
    """Returns tests that a probe's row agrees with the values that were not pushed."""
    tests = []
    for variable, name in own.items():
        local = env.get(variable)
        if local is None or (local.bound and variable in node.operator.pushable):
            continue
        ways = [] if local.bound else [f"not {local.name}"]
        ways += [] if variable in node.operator.always else [f"not {name}"]
        tests.append("(" + " or ".join([*ways, f"{name} == {local.name}"]) + ")")
    return tests


def merged(f: Function, node: Node, env: Env, own: Mapping[Var, str]) -> Env:
    """Returns the environment after a row of `node`; a variable unbound on one side has the other's value."""
    result = dict(env)
    for variable, name in own.items():
        always = variable in node.operator.always
        local = env.get(variable)
        if local is None:
            result[variable] = Local(name, always)
        elif not local.bound:
            either = f.fresh()
            f.line(f"{either} = {local.name} or {name}")
            result[variable] = Local(either, always)
    return result


def _is_near(size: float | None, before: float | None) -> bool:
    """Returns whether a loop order chosen for one size still suits another."""
    if size is None or before is None:
        return size is before
    return max(size, before) <= _OTHER_SIZE * min(size, before) + _SMALL_SIZE


def _target(node: Node) -> Node:
    while not node.gathers:
        assert node.parent is not None
        node = node.parent
    return node


def _branches(operator: op.Operator) -> bool:
    """Returns whether inlining the operator would duplicate the code that follows it."""
    match operator:
        case op.Leaf() | op.Join() | op.Keeping():
            return False
        case op.Filter() | op.Extend() | op.Project() | op.Template() | op.TwoSided():
            return _branches(operator.children[0])
    return True
