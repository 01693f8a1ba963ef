"""Formats a plan for people: its terms, expressions, variables and operators.

Also assigns the short names of operators. Invariants: an expression without hidden variables, once written,
parses to the same expression; all operators of a plan have different names, and so have all variables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyoxigraph import Literal, NamedNode

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Aggregate, Call, Constant, Exists, Expression, Term, Var, VarOrTerm

_MOST_ROWS = 3
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_SHORT_LITERALS = {
    f"{_XSD}integer": re.compile(r"[+-]?\d+"),
    f"{_XSD}decimal": re.compile(r"[+-]?\d*\.\d+"),
    f"{_XSD}double": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+"),
    f"{_XSD}boolean": re.compile(r"true|false"),
}


# Terms and expressions

_LEVELS: Final = {
    **dict.fromkeys(["||"], 1),
    **dict.fromkeys(["&&"], 2),
    **dict.fromkeys(["=", "!=", "<", ">", "<=", ">=", "IN", "NOT IN"], 3),
    **dict.fromkeys(["+", "-"], 4),
    **dict.fromkeys(["*", "/"], 5),
}
_SIGNS: Final = {"!": "!", "NEGATE": "-", "PLUS": "+"}
_UNARY, _PRIMARY = 6, 7


def text_of_term(term: Term) -> str:
    """Writes a term as in SPARQL: numbers and booleans without their datatype."""
    if isinstance(term, Literal):
        short = _SHORT_LITERALS.get(term.datatype.value)
        if short is not None and short.fullmatch(term.value):
            return term.value
    return str(term)


def text_of_expression(expression: Expression, variable: Callable[[Var], str] = str) -> str:
    """Writes an expression as in SPARQL, with parentheses only where needed. `variable` writes a variable."""
    return _expression(expression, variable, 0)


def _expression(expression: Expression, variable: Callable[[Var], str], outside: int) -> str:
    """`outside` is the precedence of the context; an expression of lower precedence gets parentheses."""
    match expression:
        case Var():
            return variable(expression)
        case Constant(term):
            return text_of_term(term)
        case Exists():
            return "EXISTS { … }"
        case Aggregate(name, argument, distinct, _):
            inner = "*" if argument is None else _expression(argument, variable, 0)
            return f"{name}({'DISTINCT ' if distinct else ''}{inner})"
        case Call(name, arguments):
            text, level = _call(name, arguments, variable)
            return f"({text})" if level < outside else text


def _call(name: str, arguments: tuple[Expression, ...], variable: Callable[[Var], str]) -> tuple[str, int]:
    level = _LEVELS.get(name, _PRIMARY)
    if name in ("IN", "NOT IN"):
        first, *others = arguments
        listed = ", ".join(_expression(other, variable, 0) for other in others)
        return f"{_expression(first, variable, level + 1)} {name} ({listed})", level
    if level < _PRIMARY:
        left, right = arguments
        # Comparisons do not chain; other operators associate to the left.
        left_text = _expression(left, variable, level + (level == 3))
        return f"{left_text} {name} {_expression(right, variable, level + 1)}", level
    if name in _SIGNS:
        (argument,) = arguments
        inner = _expression(argument, variable, _PRIMARY)
        # `-1` is a literal, not a negation.
        is_number = name != "!" and isinstance(argument, Constant)
        return f"{_SIGNS[name]}({inner})" if is_number else f"{_SIGNS[name]}{inner}", _UNARY
    if name == "IRI":
        arguments = arguments[:1]  # the second one is the query's base
    listed = ", ".join(_expression(argument, variable, 0) for argument in arguments)
    return f"<{name}>({listed})" if ":" in name else f"{name}({listed})", _PRIMARY


# The plan with names


@dataclass(eq=False)
class Node:
    """An operator at its position in the plan. `number` is its key in `sizes`; rules use its `name`."""

    operator: op.Operator
    parent: Node | None
    depth: int
    children: tuple[Node, ...] = ()
    number: int = 0
    name: str = ""
    again: bool = False
    """Whether it is shared and was already shown elsewhere in the plan."""

    @property
    def is_leaf(self) -> bool:
        return not self.children

    @property
    def constant(self) -> bool:
        """Whether nothing below reads quads, so that its change is always empty."""
        if self.is_leaf:
            return isinstance(self.operator, op.Table | op.Parameters)
        if isinstance(self.operator, op.Shared):
            return False
        return all(child.constant for child in self.children)

    def grow(self, shared: set[op.Operator]) -> Node:
        """Adds the nodes below, except where `shared` says that they are shown elsewhere; returns itself."""
        if isinstance(self.operator, op.Shared):
            shared.add(self.operator)
        if not self.again:
            self.children = tuple(
                Node(child, self, self.depth + 1, again=child in shared).grow(shared)
                for child in self.operator.children
            )
        return self

    def name_all(self) -> None:
        """Names and numbers this node and all below it."""
        totals = Counter(_letter(node.operator) for node in self.top_down())
        used: Counter[str] = Counter()
        for node in self.top_down():
            letter = _letter(node.operator)
            used[letter] += 1
            node.name = letter if totals[letter] == 1 and letter != "T" else f"{letter}{used[letter]}"
        for number, node in enumerate(self.bottom_up()):
            node.number = number

    def top_down(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.top_down()

    def bottom_up(self) -> Iterator[Node]:
        for child in self.children:
            yield from child.bottom_up()
        yield self


def _letter(operator: op.Operator) -> str:
    match operator:
        case op.Scan():
            return "T"
        case op.Names() | op.Nodes():
            return "N"
        case op.Table() | op.Parameters():
            return "V"
        case op.Extend():
            return "E"
        case op.Semi(_, _, _, domain):
            return "X" if domain is None else "M"
        case op.Mark():
            return "K"
        case op.Group():
            return "R"
        case op.Closure():
            return "C"
        case op.Window():
            return "W"
        case op.Shared():
            return "A"
        case (
            op.Join() | op.Filter() | op.Project() | op.Union() | op.LeftJoin() | op.Distinct() | op.Stored()
        ):
            return type(operator).__name__[0]
        case op.Template() | op.Numbered():
            return "Q"
    raise AssertionError(type(operator).__name__)


def name_operators(plan: op.Operator) -> Node:
    """Names each operator of a plan: a letter for its kind, and a number if there are several.

    Patterns always have a number: T1, T2, …
    """
    root = Node(plan, None, 0).grow(set())
    root.name_all()
    return root


class Words:
    """Writes the variables and operators of one plan. Hidden variables are named at their first use."""

    def __init__(self) -> None:
        self.hidden: dict[Var, str] = {}
        self._stems: Counter[str] = Counter()

    def variable(self, variable: Var) -> str:
        """Writes a variable. A hidden one gets a readable name that no variable of a query can have."""
        if not variable.hidden:
            return str(variable)
        if variable not in self.hidden:
            stem = variable.name.strip("._").rstrip("0123456789_") or "v"
            self._stems[stem] += 1
            self.hidden[variable] = f"_{stem}{self._stems[stem]}"
        return self.hidden[variable]

    def marker(self, maybe: Iterable[Var]) -> Callable[[Var], str]:
        unbound = frozenset(maybe)
        return lambda variable: self.variable(variable) + ("°" if variable in unbound else "")

    def text_of_list(self, variables: Iterable[Var], maybe: Iterable[Var] = ()) -> str:
        return " ".join(map(self.marker(maybe), variables))

    def _with_marks(self, expression: Expression, always: frozenset[Var]) -> str:
        return text_of_expression(expression, self.marker(mentioned(expression) - always))

    def operator(self, operator: op.Operator) -> str:
        match operator:
            case op.Scan():
                return self._scan(operator)
            case op.Names(graph):
                return (
                    f"whether {graph.name} exists"
                    if isinstance(graph, op.OneGraph)
                    else self._named_graphs(graph)
                )
            case op.Nodes(graph, variable):
                return self._in_graph(f"each node as {self.variable(variable)}", graph)
            case op.Table():
                return self._table(operator)
            case op.Join(parts):
                times = Counter(v for part in parts for v in part.variables)
                return f"join{self._on([v for v, number in times.items() if number > 1], operator.maybe)}"
            case op.Filter(condition, source):
                return f"filter {self._with_marks(condition, source.always)}"
            case op.Extend(source, variable, expression):
                value = self._with_marks(expression, source.always)
                return f"bind {value} as {self.text_of_list([variable], operator.maybe)}"
            case op.Project(_, columns):
                return f"project {self.text_of_list(columns, operator.maybe) or 'no variables'}"
            case op.Template(_, columns, rows):
                listed = " . ".join(" ".join(map(self._position, row)) for row in rows)
                return f"template {{ {listed} }} as {self.text_of_list(columns, operator.maybe)}"
            case op.Numbered(_, _, variable):
                return f"number the occurrences of each solution as {self.variable(variable)}"
            case op.LeftJoin() | op.Semi() | op.Mark():
                return self._two_sided(operator)
            case op.Group():
                return self._group(operator)
            case op.Closure(_, keys, start, end):
                within = f" within each {self.text_of_list(keys)}" if keys else ""
                return f"paths from {self._position(start)} to {self._position(end)}{within}"
            case op.Window():
                return self._window(operator)
            case op.Shared():
                return "shared, computed and stored once for all its readers"
            case op.Stored(_, keys):
                listed = ", ".join(self.text_of_list(key, operator.maybe) or "no variable" for key in keys)
                return f"stored, looked up by {listed}"
            case op.Union() | op.Distinct() | op.Parameters():
                return type(operator).__name__.lower()
        raise AssertionError(type(operator).__name__)

    def _two_sided(self, operator: op.LeftJoin | op.Semi | op.Mark) -> str:
        left, right = operator.left, operator.right
        on = self._on(op.shared(left, right), left.maybe | right.maybe)
        match operator:
            case op.LeftJoin(_, _, condition):
                if condition is None:
                    return f"optional{on}"
                return f"optional{on} if {self._with_marks(condition, left.always | right.always)}"
            case op.Semi(_, _, keep, domain):
                if domain is None:
                    return f"{'exists' if keep else 'not exists'}{on}"
                one = (
                    f", with one of {self.text_of_list(domain)} bound on both sides"
                    if operator.tests_domain
                    else ""
                )
                return f"minus{on}{one}"
            case op.Mark(_, _, variable):
                return f"mark {self.variable(variable)}: exists{on}"

    def _group(self, group: op.Group) -> str:
        by = f"group by {self.text_of_list(group.keys, group.maybe)}" if group.keys else "one group"
        aggregates = [
            f"{self._with_marks(aggregate, group.source.always)} as {self.text_of_list([v], group.maybe)}"
            for v, aggregate in group.aggregates
        ]
        if group.member is None:
            return ": ".join([by, *([", ".join(aggregates)] if aggregates else [])])
        return f"{by}, including groups without {self.variable(group.member)}: {', '.join(aggregates)}"

    def _window(self, window: op.Window) -> str:
        count = "all" if window.limit is None else f"the first {window.limit:,}"
        after = f" after the first {window.offset:,}" if window.offset else ""
        marked = self.marker(window.maybe)
        keys = [f"{marked(v)}{' descending' if descending else ''}" for v, descending in window.order]
        by = f", ordered by {', '.join(keys)}" if keys else ", in term order"
        each = f", for each {self.text_of_list(window.keys, window.maybe)}" if window.keys else ""
        return f"{count}{after}{by}{each}"

    def _on(self, variables: Iterable[Var], maybe: Iterable[Var]) -> str:
        listed = self.text_of_list(variables, maybe)
        return f" on {listed}" if listed else " without shared variables"

    def _scan(self, scan: op.Scan) -> str:
        predicate = "a" if scan.predicate == _TYPE else self._position(scan.predicate)
        text = f"{self._position(scan.subject)} {predicate} {self._position(scan.object)}"
        if scan.excluded:
            text += f" with {predicate} none of {' '.join(map(str, scan.excluded))}"
        return self._in_graph(text, scan.graph)

    def _position(self, term: VarOrTerm) -> str:
        return self.variable(term) if isinstance(term, Var) else text_of_term(term)

    def _in_graph(self, text: str, graph: op.GraphChoice) -> str:
        match graph:
            case op.OneGraph(name):
                return text if name is None else f"GRAPH {name} {{ {text} }}"
            case op.NamedGraphs(variable, names):
                among = "" if names is None else f" among {' '.join(map(str, names)) or 'none'}"
                return f"GRAPH {self.variable(variable)} {{ {text} }}{among}"
            case op.MergedGraphs(None):
                return f"{text} in the union of all graphs"
            case op.MergedGraphs(names):
                return f"{text} in {'the union of ' + ' '.join(map(str, names)) if names else 'no graph'}"

    def _named_graphs(self, graph: op.NamedGraphs) -> str:
        among = "" if graph.names is None else f" among {' '.join(map(str, graph.names)) or 'none'}"
        return f"each named graph as {self.variable(graph.variable)}{among}"

    def _table(self, table: op.Table) -> str:
        if not table.columns:
            return f"{len(table.rows)} empty solution{'' if len(table.rows) == 1 else 's'}"
        rows = [
            " ".join("UNDEF" if term is None else text_of_term(term) for term in row)
            for row in table.rows[:_MOST_ROWS]
        ]
        left = len(table.rows) - len(rows)
        more = f" … {left} more" if left else ""
        return f"values {self.text_of_list(table.columns, table.maybe)} {{ {', '.join(rows)}{more} }}"
