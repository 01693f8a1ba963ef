"""The operators of a plan, which executors evaluate from scratch and by delta rules.

All operators have bag semantics over solutions. Each has its `variables` (the order of its columns) and the
set of those that are `always` bound; the others may be unbound in some solution. Invariants: `Join` has at
least two parts. Graphs are resolved, so only leaves know about GRAPH: below `GRAPH ?g`, every leaf has a
hidden variable for the graph name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.sparql.algebra import Aggregate, Call, Constant, Expression, Term, Var, VarOrTerm

Order: TypeAlias = tuple[tuple[Var, bool], ...]
"""The keys of ORDER BY, each with whether it is descending."""


@dataclass(frozen=True, slots=True)
class OneGraph:
    """A single graph; the unnamed one if `name` is None."""

    name: NamedNode | None


@dataclass(frozen=True, slots=True)
class MergedGraphs:
    """The set union of several graphs, or of all graphs including the unnamed one (None)."""

    names: tuple[NamedNode, ...] | None


@dataclass(frozen=True, slots=True)
class NamedGraphs:
    """Each named graph in turn, with its name bound to `variable`; only those in `names`, if given."""

    variable: Var
    names: tuple[NamedNode, ...] | None


GraphChoice: TypeAlias = OneGraph | MergedGraphs | NamedGraphs


class Operator:
    """The base of all operators. The concrete ones are frozen dataclasses."""

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return ()

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        raise NotImplementedError

    @cached_property
    def always(self) -> frozenset[Var]:
        """All variables, unless an operator overrides it."""
        return frozenset(self.variables)

    @cached_property
    def maybe(self) -> frozenset[Var]:
        return frozenset(self.variables) - self.always


class _OverOne(Operator):
    """An operator over one source. It has the columns of the source, unless it overrides them."""

    source: Operator

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return (self.source,)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return self.source.variables

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.source.always


class _OverParts(Operator):
    """An operator over several parts, with the columns of all of them."""

    parts: tuple[Operator, ...]

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return self.parts

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return ordered_union(*(part.variables for part in self.parts))


class _WithColumns(Operator):
    """An operator whose columns are one of its fields."""

    columns: tuple[Var, ...]

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return self.columns


class _OverTwo(Operator):
    """An operator over two sides. It has the columns of the left side, unless it overrides them."""

    left: Operator
    right: Operator

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return self.left.variables

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.left.always


def ordered_union(*groups: tuple[Var, ...]) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(variable for group in groups for variable in group))


def shared(left: Operator, right: Operator) -> tuple[Var, ...]:
    """Returns the variables of both sides, in the order of the left side."""
    others = set(right.variables)
    return tuple(variable for variable in left.variables if variable in others)


# Leaves


@dataclass(frozen=True)
class Scan(Operator):
    """A quad pattern: the quads of `graph` that match, each with weight one.

    `excluded` are predicates that do not match (negated property sets).
    """

    graph: GraphChoice
    subject: VarOrTerm
    predicate: VarOrTerm
    object: VarOrTerm
    excluded: tuple[NamedNode, ...] = ()

    @cached_property
    def positions(self) -> tuple[VarOrTerm, VarOrTerm, VarOrTerm]:
        return (self.subject, self.predicate, self.object)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        found = tuple(term for term in self.positions if isinstance(term, Var))
        return ordered_union(found, _graph_variable(self.graph))


@dataclass(frozen=True)
class Names(Operator):
    """The graph names that exist: of one graph (a switch), or one solution per named graph."""

    graph: OneGraph | NamedGraphs

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return _graph_variable(self.graph)


@dataclass(frozen=True)
class Nodes(Operator):
    """The subjects and objects of a graph, each once per graph: where zero-length paths start."""

    graph: GraphChoice
    variable: Var

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (self.variable, *_graph_variable(self.graph))


@dataclass(frozen=True)
class Table(_WithColumns):
    """Inline rows; None means unbound. One row without columns is the identity of Join."""

    columns: tuple[Var, ...]
    rows: tuple[tuple[Term | None, ...], ...]

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset(
            column
            for number, column in enumerate(self.columns)
            if all(row[number] is not None for row in self.rows)
        )


UNIT = Table((), ((),))


@dataclass(frozen=True)
class Parameters(_WithColumns):
    """The constants of plans that differ only in these: one row per plan, changed between epochs."""

    columns: tuple[Var, ...]


# Linear operators


@dataclass(frozen=True)
class Join(_OverParts):
    """The natural join of compatible solutions; weights multiply."""

    parts: tuple[Operator, ...]

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset().union(*(part.always for part in self.parts))


@dataclass(frozen=True)
class Filter(_OverOne):
    condition: Expression
    source: Operator


@dataclass(frozen=True)
class Extend(_OverOne):
    """Binds a new variable. An error leaves it unbound."""

    source: Operator
    variable: Var
    expression: Expression

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.source.variables, self.variable)

    @cached_property
    def always(self) -> frozenset[Var]:
        always = self.source.always
        return always | {self.variable} if _never_fails(self.expression, always) else always


def _never_fails(expression: Expression, always: frozenset[Var]) -> bool:
    match expression:
        case Constant() | Call("BOUND" | ".NODE", _):
            return True
        case Var():
            return expression in always
        case Call("COALESCE", arguments):
            return any(_never_fails(argument, always) for argument in arguments)
    return False


@dataclass(frozen=True)
class Project(_WithColumns, _OverOne):
    """Keeps some variables and sums the weights of solutions that become equal.

    A variable that the source does not have is never bound.
    """

    source: Operator
    columns: tuple[Var, ...]

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.source.always & frozenset(self.columns)


@dataclass(frozen=True)
class Listing(Project):
    """The top of a query with ORDER BY: its columns, and the order in which solutions are listed.

    The source has extra columns for sort keys that the query does not select.
    """

    order: Order


@dataclass(frozen=True)
class Template(_WithColumns, _OverOne):
    """Instantiates each row for each solution: the triples of CONSTRUCT, or the resources of DESCRIBE."""

    source: Operator
    columns: tuple[Var, ...]
    rows: tuple[tuple[VarOrTerm, ...], ...]

    @cached_property
    def always(self) -> frozenset[Var]:
        bound = self.source.always
        return frozenset(
            column
            for place, column in enumerate(self.columns)
            if all(not isinstance(row[place], Var) or row[place] in bound for row in self.rows)
        )

    @cached_property
    def read(self) -> frozenset[Var]:
        """The variables of the source that occur in a row."""
        return frozenset(term for row in self.rows for term in row if isinstance(term, Var))


@dataclass(frozen=True)
class Union(_OverParts):
    parts: tuple[Operator, ...]

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset.intersection(*(part.always for part in self.parts))


# The others


@dataclass(frozen=True)
class LeftJoin(_OverTwo):
    """OPTIONAL: left solutions with their matches that satisfy the condition, or alone if there are none."""

    left: Operator
    right: Operator
    condition: Expression | None

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return ordered_union(self.left.variables, self.right.variables)


@dataclass(frozen=True)
class Semi(_OverTwo):
    """Left solutions with (`keep`) or without a compatible right one: EXISTS, NOT EXISTS, MINUS.

    `domain`: a right solution counts only if both it and the left one bind one of these variables (MINUS,
    §18.5); None if there is no such test.
    """

    left: Operator
    right: Operator
    keep: bool
    domain: tuple[Var, ...] | None = None

    @cached_property
    def tests_domain(self) -> bool:
        """Whether the domain must be tested per pair, as none of its variables is bound in all pairs."""
        if self.domain is None:
            return False
        return not any(v in self.left.always and v in self.right.always for v in self.domain)


@dataclass(frozen=True)
class Mark(_OverTwo):
    """Adds a hidden boolean to left solutions: whether a compatible right solution exists."""

    left: Operator
    right: Operator
    variable: Var

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.left.variables, self.variable)

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.left.always | {self.variable}


@dataclass(frozen=True)
class Keeping(_OverOne):
    """An operator that stores the content of its source and computes its own change from it."""

    source: Operator


@dataclass(frozen=True)
class Distinct(Keeping):
    """Each solution once. Its counts are stored."""


@dataclass(frozen=True)
class Keyed(Keeping):
    """A keeping operator whose rows with a key depend on all source rows with that key.

    Without `keys`, its rows depend on the whole source.
    """

    keys: tuple[Var, ...]


@dataclass(frozen=True)
class Group(Keyed):
    """One solution per group of solutions with the same keys.

    The keys are the first columns of the source. The argument of an aggregate is one of its columns, or None
    for all of them. If there is a `member`, only rows that bind it are solutions; the others only make their
    group exist.
    """

    aggregates: tuple[tuple[Var, Aggregate], ...]
    member: Var | None = None

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.keys, *(variable for variable, _ in self.aggregates))

    @cached_property
    def always(self) -> frozenset[Var]:
        counts = {variable for variable, aggregate in self.aggregates if aggregate.name == "COUNT"}
        return (self.source.always & frozenset(self.keys)) | counts


@dataclass(frozen=True)
class Closure(Keyed):
    """Paths of one or more steps (`+`): each pair of connected nodes once per key.

    The source has the start and the end of a step as columns, then the keys. `start` and `end` are the ends
    of the whole path: different variables, or terms for a fixed end. A path of no steps is represented by
    steps from a node to itself.
    """

    start: VarOrTerm
    end: VarOrTerm

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*(term for term in (self.start, self.end) if isinstance(term, Var)), *self.keys)

    @cached_property
    def always(self) -> frozenset[Var]:
        return frozenset(self.variables)


@dataclass(frozen=True)
class Window(Keyed):
    """OFFSET and LIMIT: for each key, the solutions from `offset` on, at most `limit` (None: all).

    They are ordered by the ranks of `order`, then by all columns, ascending, in the total order of terms. So
    only equal solutions have the same position.
    """

    order: Order
    offset: int
    limit: int | None


@dataclass(frozen=True)
class Numbered(Keyed):
    """Each occurrence of a solution separately, numbered 0 … weight - 1. The keys are all columns."""

    variable: Var

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.source.variables, self.variable)

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.source.always | {self.variable}


@dataclass(frozen=True)
class Stored(Keeping):
    """The same solutions, stored in memory and indexed, because keys cannot be pushed into the source."""

    keys: tuple[tuple[Var, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Shared(Keeping):
    """The same solutions, computed and stored once for all operators of the plan that read them.

    So a plan is as large as its query, even if its meaning uses a part several times. Two are equal if their
    texts are equal; comparing, printing and walking a plan visit a shared part only once.
    """

    @cached_property
    def digest(self) -> str:
        return digest_of(self.source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shared) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Shared({self.digest})"


def digest_of(plan: Operator, scope: str = "") -> str:
    """Returns a collision-resistant name for a plan, the same in every process."""
    return blake2b(f"{scope}\0{_text(plan)}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _text(item: Any) -> str:
    """Writes a plan as unique text. Terms are written as N-Triples, where different terms differ."""
    if isinstance(item, tuple):
        return f"({','.join(map(_text, item))})"
    if isinstance(item, Shared) or not is_dataclass(item):
        return str(item) if isinstance(item, NamedNode | BlankNode | Literal) else repr(item)
    return f"{type(item).__name__}{_text(tuple(getattr(item, field.name) for field in fields(item)))}"


def kept_of(plan: Operator) -> Operator:
    """Returns the plan whose rows are stored. A listing selects and orders them when they are read."""
    return plan.source if isinstance(plan, Listing) else plan


def _graph_variable(graph: GraphChoice) -> tuple[Var, ...]:
    return (graph.variable,) if isinstance(graph, NamedGraphs) else ()
