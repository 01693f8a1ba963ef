"""The SPARQL 1.1 algebra (§18.2) as small frozen dataclasses: what the front end produces for a query.

It represents all of SPARQL 1.1, including what no executor supports yet. Invariants: blank nodes of a query
are hidden variables, whose names start with a dot, which no SPARQL variable can; prefixes and relative IRIs
are resolved; `SELECT *` is expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeAlias, TypeVar
from typing import Literal as Choice

from pyoxigraph import BlankNode, Literal, NamedNode

Term: TypeAlias = NamedNode | BlankNode | Literal


@dataclass(frozen=True, slots=True, order=True)
class Var:
    """A variable. The names of hidden ones (blank nodes of a query, helpers of the plan) start with a dot."""

    name: str

    def __hash__(self) -> int:  # a key of many dicts while a plan is compiled
        return hash(self.name)

    @property
    def hidden(self) -> bool:
        return self.name.startswith(".")

    def __str__(self) -> str:
        return f"?{self.name}"


Whatever = TypeVar("Whatever")


def combined(combine: Callable[[Whatever, Whatever], Whatever], items: Items[Whatever]) -> Whatever:
    """Combines all items in order with an associative operator, as a balanced tree."""
    if len(items) == 1:
        return items[0]
    middle = (len(items) + 1) // 2
    return combine(combined(combine, items[:middle]), combined(combine, items[middle:]))


def parts_of(item: Any) -> Items[Any]:
    """The parts of a tuple, of a piece of algebra, or of an operator of a plan; nothing has no parts."""
    if isinstance(item, tuple):
        return item
    return [getattr(item, name) for name in field_names(item)]


def found_in(item: Any, kinds: tuple[type, ...], except_in: tuple[type, ...] = ()) -> Iterator[Any]:
    """Yields an item and its parts at any depth that are of some kinds, in order, but not in `except_in`."""
    waiting = [item]
    while waiting:
        item = waiting.pop()
        if isinstance(item, kinds):
            yield item
        if not isinstance(item, except_in):
            waiting += [part for part in reversed(parts_of(item)) if type(part) not in _WHOLE]


_WHOLE = frozenset((Var, NamedNode, BlankNode, Literal, str, bool, int, type(None)))
"""The most frequent kinds of parts, which have no parts themselves."""
_FIELDS: dict[type, tuple[str, ...]] = {}


def field_names(item: Any) -> tuple[str, ...]:
    """Returns the field names of a dataclass instance, else nothing. Planning calls this very often."""
    kind = type(item)
    known = _FIELDS.get(kind)
    if known is None:
        known = _FIELDS[kind] = tuple([one.name for one in fields(kind)]) if is_dataclass(kind) else ()
    return known


VarOrTerm: TypeAlias = Var | NamedNode | BlankNode | Literal


# Expressions (§17)


@dataclass(frozen=True, slots=True)
class Constant:
    term: Term


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator applied to arguments.

    Names: the operators `= != < > <= >= + - * / ! && ||` (`&&`, `||`, `+`, `*` are binary), the signs
    `NEGATE` and `PLUS`, `IN` and `NOT IN` (first argument, then the list), `IF COALESCE BOUND`, the
    built-in functions by their upper-case name (`STRLEN`, `SAMETERM`, `ISIRI` also for isURI, `IRI` also
    for URI), and casts and extension functions by their IRI. `IRI` has the query's base as a second
    argument when there is one.
    """

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """EXISTS { pattern }. NOT EXISTS is Call("!", (Exists(pattern),))."""

    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT SUM AVG MIN MAX SAMPLE GROUP_CONCAT. The argument None means `COUNT(*)`."""

    name: str
    argument: Expression | None
    distinct: bool = False
    separator: str = " "


Expression: TypeAlias = Var | Constant | Call | Exists | Aggregate


# Property paths (§9)


@dataclass(frozen=True, slots=True)
class Inverse:
    path: Path


@dataclass(frozen=True, slots=True)
class Sequence:
    first: Path
    second: Path


@dataclass(frozen=True, slots=True)
class Alternative:
    first: Path
    second: Path


@dataclass(frozen=True, slots=True)
class ZeroOrOne:
    path: Path


@dataclass(frozen=True, slots=True)
class ZeroOrMore:
    path: Path


@dataclass(frozen=True, slots=True)
class OneOrMore:
    path: Path


@dataclass(frozen=True, slots=True)
class NegatedSet:
    """`!(:a | ^:b)`: forward (:a), inverse (:b)."""

    forward: tuple[NamedNode, ...]
    inverse: tuple[NamedNode, ...]


Path: TypeAlias = (
    NamedNode | Inverse | Sequence | Alternative | ZeroOrOne | ZeroOrMore | OneOrMore | NegatedSet
)


# Graph patterns (§18.2.2). A lone IRI as path is a Triple, not a PathPattern.


@dataclass(frozen=True, slots=True)
class Triple:
    subject: VarOrTerm
    predicate: VarOrTerm
    object: VarOrTerm


@dataclass(frozen=True, slots=True)
class PathPattern:
    subject: VarOrTerm
    path: Path
    object: VarOrTerm


@dataclass(frozen=True, slots=True)
class BasicPattern:
    """A basic graph pattern with its paths. The empty one is the identity of Join."""

    patterns: tuple[Triple | PathPattern, ...]


@dataclass(frozen=True, slots=True)
class Join:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class LeftJoin:
    left: Pattern
    right: Pattern
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Expression
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Union:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Minus:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Extend:
    pattern: Pattern
    variable: Var
    expression: Expression


@dataclass(frozen=True, slots=True)
class Values:
    """Inline data; None means UNDEF."""

    variables: tuple[Var, ...]
    rows: tuple[tuple[Term | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Graph:
    name: Var | NamedNode
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class ServiceText:
    """The position of a SERVICE in the text of a query: from its keyword to its name, and its group."""

    prologue: str
    """The declarations that the group needs."""
    group: str
    """The group, with its braces."""
    start: int
    end: int
    """The keyword, SILENT and the name stand between `start` and `end`."""


@dataclass(frozen=True, slots=True)
class Service:
    name: Var | NamedNode
    pattern: Pattern
    silent: bool
    text: ServiceText | None = field(default=None, compare=False)
    """The pattern as it was written, for the endpoint; None in an update."""


@dataclass(frozen=True, slots=True)
class Group:
    """GROUP BY.

    `keys` binds a variable to each key: `?x` is (?x, ?x), an unnamed expression gets a hidden variable.
    `aggregates` binds hidden variables that the projection and HAVING read. Without keys, there is one group,
    which always exists. The front end rejects a variable that is read outside an aggregate and is not a key,
    as the notes of the grammar require.
    """

    pattern: Pattern
    keys: tuple[tuple[Var, Expression], ...]
    aggregates: tuple[tuple[Var, Aggregate], ...]


@dataclass(frozen=True, slots=True)
class OrderBy:
    pattern: Pattern
    keys: tuple[tuple[Expression, bool], ...]  # True: descending


@dataclass(frozen=True, slots=True)
class Project:
    pattern: Pattern
    variables: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Reduced:
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Slice:
    pattern: Pattern
    offset: int
    limit: int | None


Pattern: TypeAlias = (
    BasicPattern
    | Join
    | LeftJoin
    | Filter
    | Union
    | Minus
    | Extend
    | Values
    | Graph
    | Service
    | Group
    | OrderBy
    | Project
    | Distinct
    | Reduced
    | Slice
)


@dataclass(frozen=True, slots=True)
class Dataset:
    """FROM and FROM NAMED; None if the query has neither (the session's dataset).

    `named` None: all named graphs of the session (WITH in an update).
    """

    default: tuple[NamedNode, ...]
    named: tuple[NamedNode, ...] | None


@dataclass(frozen=True, slots=True)
class Query:
    """A query.

    The `pattern` of a SELECT ends in Project (inside Distinct, Reduced, Slice); for other forms it is the
    WHERE clause with its modifiers. `template` is that of CONSTRUCT; `describe` has the terms of DESCRIBE.
    """

    form: Choice["SELECT", "ASK", "CONSTRUCT", "DESCRIBE"]
    pattern: Pattern
    variables: tuple[Var, ...]
    dataset: Dataset | None = None
    template: tuple[Triple, ...] = ()
    describe: tuple[VarOrTerm, ...] = ()


# Update operations (SPARQL 1.1 Update §3). A request is a tuple of operations, executed in order.


@dataclass(frozen=True, slots=True)
class QuadPattern:
    """A quad of data or of a template; graph None is the default graph. Blank nodes are created per use."""

    subject: VarOrTerm
    predicate: VarOrTerm
    object: VarOrTerm
    graph: Var | NamedNode | None


@dataclass(frozen=True, slots=True)
class InsertData:
    quads: tuple[QuadPattern, ...]


@dataclass(frozen=True, slots=True)
class DeleteData:
    quads: tuple[QuadPattern, ...]


@dataclass(frozen=True, slots=True)
class Modify:
    """DELETE, INSERT and DELETE WHERE: for each solution of `pattern`, first all deletes, then all inserts.

    `dataset` is that of USING. `with_graph` is that of WITH, the default graph of `pattern` if there is no
    USING; the quads of the templates already have it.
    """

    delete: tuple[QuadPattern, ...]
    insert: tuple[QuadPattern, ...]
    pattern: Pattern
    dataset: Dataset | None = None
    with_graph: NamedNode | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """`graph` None is the default graph."""

    source: NamedNode
    graph: NamedNode | None
    silent: bool


@dataclass(frozen=True, slots=True)
class Clear:
    target: NamedNode | Choice["DEFAULT", "NAMED", "ALL"]
    silent: bool


@dataclass(frozen=True, slots=True)
class Drop:
    target: NamedNode | Choice["DEFAULT", "NAMED", "ALL"]
    silent: bool


@dataclass(frozen=True, slots=True)
class Create:
    graph: NamedNode
    silent: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """ADD, MOVE or COPY of a whole graph; None is the default graph."""

    name: Choice["ADD", "MOVE", "COPY"]
    source: NamedNode | None
    target: NamedNode | None
    silent: bool


UpdateOperation: TypeAlias = InsertData | DeleteData | Modify | Load | Clear | Drop | Create | Transfer
