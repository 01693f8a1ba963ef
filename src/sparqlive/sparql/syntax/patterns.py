"""Turns parse trees into graph patterns (§18.2.2), and computes which variables are in scope (§18.2.1).

Handles groups, triples, collections, paths and blank nodes. Rejects a blank node label in two basic patterns,
a BIND to a variable in use, and VALUES rows of the wrong length. Invariant: a blank node in a pattern becomes
a hidden variable; a blank node in a template stays one, and is created again for each solution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, assert_never

from pyoxigraph import BlankNode, NamedNode

from sparqlive.sparql.algebra import (
    Alternative,
    BasicPattern,
    Call,
    Distinct,
    Expression,
    Extend,
    Filter,
    Graph,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Minus,
    NegatedSet,
    OneOrMore,
    OrderBy,
    Path,
    PathPattern,
    Pattern,
    Project,
    Reduced,
    Sequence,
    Service,
    ServiceText,
    Slice,
    Term,
    Triple,
    Union,
    Values,
    Var,
    VarOrTerm,
    ZeroOrMore,
    ZeroOrOne,
    combined,
)
from sparqlive.sparql.syntax.expressions import ExpressionReader, Fresh, Place
from sparqlive.sparql.syntax.terms import RDF_FIRST, RDF_NIL, RDF_REST, Names
from sparqlive.sparql.syntax.tree import Node, TextError, Token

EMPTY = BasicPattern(())
_REPEATED: dict[str, Callable[[Path], Path]] = {
    "zero_or_one": ZeroOrOne,
    "zero_or_more": ZeroOrMore,
    "one_or_more": OneOrMore,
    "inverse": Inverse,
}


def join(left: Pattern, right: Pattern) -> Pattern:
    """Joins two patterns. The empty basic pattern is the identity (§18.2.2.8)."""
    if left == EMPTY:
        return right
    return left if right == EMPTY else Join(left, right)


def conjunction(conditions: list[Expression]) -> Expression:
    """Combines the conditions of all FILTERs of a group into one."""
    return combined(lambda left, right: Call("&&", (left, right)), conditions)


def visible(pattern: Pattern) -> dict[Var, None]:
    """Returns the variables in scope (§18.2.1), including hidden ones, in order of appearance."""
    return dict.fromkeys(_visible(pattern))


def _visible(pattern: Pattern) -> Iterator[Var]:
    match pattern:
        case BasicPattern(patterns):
            for part in patterns:
                predicate = part.predicate if isinstance(part, Triple) else None
                yield from (x for x in (part.subject, predicate, part.object) if isinstance(x, Var))
        case Join(left, right) | Union(left, right) | LeftJoin(left, right, _):
            yield from _visible(left)
            yield from _visible(right)
        case Minus(left, _):
            yield from _visible(left)
        case Filter(_, inner) | OrderBy(inner, _) | Distinct(inner) | Reduced(inner) | Slice(inner, _, _):
            yield from _visible(inner)
        case Extend(inner, variable, _):
            yield from _visible(inner)
            yield variable
        case Graph(name, inner) | Service(name, inner, _):
            if isinstance(name, Var):
                yield name
            yield from _visible(inner)
        case Values(variables, _) | Project(_, variables):
            yield from variables
        case Group(_, keys, aggregates):
            yield from (variable for variable, _ in keys)
            yield from (variable for variable, _ in aggregates)
        case _:
            assert_never(pattern)


@dataclass(slots=True)
class PatternReader:
    """Reads the patterns of one query. `sub_select` reads the sub-queries in them."""

    names: Names
    sub_select: Callable[[Node], Pattern]
    fresh: Fresh = field(default_factory=Fresh)
    expressions: ExpressionReader = field(init=False)
    _basic_numbers: Iterator[int] = field(default_factory=count)
    _basic_of_label: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.expressions = ExpressionReader(self.names, self.fresh, self.group)

    def group(self, node: Node) -> Pattern:
        pattern, conditions = self._group_parts(node)
        return Filter(conjunction(conditions), pattern) if conditions else pattern

    def _group_parts(self, node: Node) -> tuple[Pattern, list[Expression]]:
        """Returns a group without its filters, and the filters, which apply to the whole group (§18.2.2.2).

        Triples on both sides of a FILTER form one basic pattern. Anything else between them ends it.
        """
        body = node.children[0]
        if body.rule == "sub_select":
            return self.sub_select(body), []
        pattern: Pattern = EMPTY
        seen: set[Var] = set()
        conditions: list[Expression] = []
        triples: list[Triple | PathPattern] = []
        basic_number = next(self._basic_numbers)
        for element in body.children:
            if element.rule == "triples_block":
                self._triples(element, basic_number, triples)
            elif element.rule == "filter":
                conditions.append(self.expressions.read(element.children[0], Place()))
            else:
                basic = BasicPattern(tuple(triples))
                seen.update(_visible(basic))
                triples, basic_number = [], next(self._basic_numbers)
                pattern = self._with_element(join(pattern, basic), element, seen)
        return join(pattern, BasicPattern(tuple(triples))), conditions

    def _with_element(self, pattern: Pattern, element: Node, seen: set[Var]) -> Pattern:
        """Adds an element to a pattern. `seen` has the variables in scope in the group so far."""
        children = element.children
        match element.rule:
            case "optional":
                # Only filters of the optional group itself become the condition, not those of a nested group.
                inner, conditions = self._group_parts(children[0])
                seen.update(_visible(inner))
                return LeftJoin(pattern, inner, conjunction(conditions) if conditions else None)
            case "minus":
                return Minus(pattern, self.group(children[0]))
            case "bind":
                return self._bind(pattern, children[0], children[1], seen)
        part = self._part(element.rule, children)
        seen.update(_visible(part))
        return join(pattern, part)

    def _part(self, rule: str, children: list[Any]) -> Pattern:
        """Reads an element that is joined to the pattern."""
        match rule:
            case "union":
                return combined(Union, [self.group(child) for child in children])
            case "graph":
                return Graph(self.var_or_iri(children[0]), self.group(children[1]))
            case "service":
                return self._service(*children)
            case "inline_values":
                return self.values(children[0])
        raise AssertionError(f"unknown pattern in the grammar: {rule}")

    def _service(
        self, keyword: Token, silent: Token | None, name: Token, opening: Token, body: Node, closing: Token
    ) -> Service:
        pattern = self.group(Node("group", [body]))
        start, end = opening.start_pos or 0, closing.start_pos or 0
        group = self.names.text[start : end + 1]
        text = ServiceText(
            self.names.prologue(group), group, keyword.start_pos or 0, (name.start_pos or 0) + len(name)
        )
        return Service(self.var_or_iri(name), pattern, silent is not None, text if group else None)

    def _bind(self, pattern: Pattern, expression: Node | Token, token: Token, seen: set[Var]) -> Extend:
        variable = Var(token[1:])
        if variable in seen:
            raise TextError(f"{variable} is already in use in this group; BIND needs a new variable", token)
        seen.add(variable)
        return Extend(pattern, variable, self.expressions.read(expression, Place()))

    def values(self, block: Node) -> Values:
        if block.rule == "data_column":
            return Values((Var(block.children[0][1:]),), tuple((self._datum(v),) for v in block.children[1:]))
        variables = tuple(Var(token[1:]) for token in block.children[0].children)
        if len(set(variables)) != len(variables):
            raise TextError("VALUES lists the same variable twice", block)
        rows = []
        for row in block.children[1:]:
            if len(row.children) != len(variables):
                raise TextError(
                    f"the number of values ({len(row.children)}) differs from the number of variables "
                    f"({len(variables)}); write UNDEF for a missing value",
                    row,
                )
            rows.append(tuple(self._datum(value) for value in row.children))
        return Values(variables, tuple(rows))

    def _datum(self, value: Node | Token) -> Term | None:
        if not isinstance(value, Node):
            if value.type == "UNDEF":
                return None
            if value.type in ("IRIREF", "PNAME"):
                return self.names.iri(value)
        return self.names.literal(value)

    def var_or_iri(self, token: Token) -> Var | NamedNode:
        return Var(token[1:]) if token.type == "VAR" else self.names.iri(token)

    def _triples(self, block: Node, basic_number: int, into: list[Triple | PathPattern]) -> None:
        TriplesReader(self.names, lambda token: self._blank_variable(token, basic_number), into).read(block)

    def _blank_variable(self, label: Token | None, basic_number: int) -> Var:
        """Returns the hidden variable of a blank node. A label belongs to one basic pattern (§5.1.1)."""
        if label is None:
            return self.fresh.variable("blank")
        if self._basic_of_label.setdefault(label, basic_number) != basic_number:
            raise TextError(
                f"the blank node `{label}` is used in two graph patterns; use a variable instead", label
            )
        return Var("._" + label[2:])

    def template(self, blocks: list[Node], blank: Callable[[Token | None], VarOrTerm]) -> tuple[Triple, ...]:
        """Reads the triples of a template or of data. `blank` creates its blank nodes."""
        triples: list[Triple | PathPattern] = []
        for block in blocks:
            TriplesReader(self.names, blank, triples, paths=False).read(block)
        return tuple(triple for triple in triples if isinstance(triple, Triple))


class TemplateBlanks:
    """The blank nodes of one template: one per label, and a new one for each without a label."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._of_label: dict[str, BlankNode] = {}

    def __call__(self, label: Token | None) -> BlankNode:
        if label is not None and label in self._of_label:
            return self._of_label[label]
        node = BlankNode(f"b{next(self._numbers)}")
        if label is not None:
            self._of_label[label] = node
        return node


@dataclass(slots=True)
class TriplesReader:
    """Reads a block of triples. `blank` returns the term for a blank node label, or for None."""

    names: Names
    blank: Callable[[Token | None], VarOrTerm]
    into: list[Triple | PathPattern]
    paths: bool = True

    def read(self, block: Node) -> None:
        for triples in block.children:
            subject = self._node(triples.children[0])
            for properties in triples.children[1:]:
                self._properties(subject, properties)

    def _properties(self, subject: VarOrTerm, properties: Node) -> None:
        for verb, objects in (pair.children for pair in properties.children):
            path = self._verb(verb)
            for target in objects.children:
                self._object(subject, path, target)

    def _object(self, subject: VarOrTerm, path: Var | Path, target: Node | Token) -> None:
        """Adds a triple before those of its object, so that variables appear in the order of the text."""
        at = len(self.into)
        value = self._node(target)
        triple = (
            Triple(subject, path, value)
            if isinstance(path, Var | NamedNode)
            else PathPattern(subject, path, value)
        )
        self.into.insert(at, triple)

    def _node(self, part: Node | Token) -> VarOrTerm:
        if not isinstance(part, Node):
            match part.type:
                case "VAR":
                    return Var(part[1:])
                case "IRIREF" | "PNAME":
                    return self.names.iri(part)
                case "BLANK_LABEL":
                    return self.blank(part)
            return self.names.literal(part)
        match part.rule:
            case "nil":
                return RDF_NIL
            case "anonymous":
                return self.blank(None)
            case "property_node":
                subject = self.blank(None)
                self._properties(subject, part.children[0])
                return subject
            case "collection":
                return self._collection(part)
        return self.names.literal(part)

    def _collection(self, part: Node) -> VarOrTerm:
        first = cell = self.blank(None)
        for number, item in enumerate(part.children, 1):
            self._object(cell, RDF_FIRST, item)
            following = RDF_NIL if number == len(part.children) else self.blank(None)
            self.into.append(Triple(cell, RDF_REST, following))
            cell = following
        return first

    def _verb(self, part: Node | Token) -> Var | Path:
        if isinstance(part, Node):
            if not self.paths:
                raise TextError("a template cannot contain a property path; use a single predicate", part)
            return self._path(part)
        return Var(part[1:]) if part.type == "VAR" else self.names.iri(part)

    def _path(self, part: Node | Token) -> Path:
        if not isinstance(part, Node):
            return self.names.iri(part)
        match part.rule:
            case "alternative" | "sequence":
                combine = Alternative if part.rule == "alternative" else Sequence
                return combined(combine, [self._path(step) for step in part.children])
            case "negated_set":
                forward = tuple(self.names.iri(x) for x in part.children if not isinstance(x, Node))
                inverse = tuple(self.names.iri(x.children[0]) for x in part.children if isinstance(x, Node))
                return NegatedSet(forward, inverse)
        return _REPEATED[part.rule](self._path(part.children[0]))
