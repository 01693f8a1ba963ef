"""Turns the parse tree of a query into algebra.Query: query forms and solution modifiers (§18.2.4, §18.2.5).

Handles SELECT, grouping, ordering, slicing and the other query forms. Rejects what the notes of the grammar
forbid: selecting variables that are not grouped, an AS variable that is in use, `SELECT *` over groups. As an
extension, HAVING may use variables that SELECT defines. Invariant: a SELECT becomes
Slice(Distinct(Project(OrderBy(Extend(Join(Filter(Group(where)), values)))))), without the layers that the
query does not have. The SELECT expressions that HAVING reads are extended before the Filter.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from pyoxigraph import NamedNode

from sparqlive.sparql.algebra import (
    Aggregate,
    Call,
    Dataset,
    Distinct,
    Expression,
    Extend,
    Filter,
    Group,
    OrderBy,
    Pattern,
    Project,
    Query,
    Reduced,
    Slice,
    Var,
    VarOrTerm,
)
from sparqlive.sparql.syntax.expressions import Place
from sparqlive.sparql.syntax.patterns import EMPTY, PatternReader, TemplateBlanks, conjunction, join, visible
from sparqlive.sparql.syntax.terms import Names
from sparqlive.sparql.syntax.tree import Node, TextError, Token

_MOST_DIGITS = 18  # of LIMIT and OFFSET: no result is longer, and Python does not parse very long numbers


def read_query(unit: Node, base: str | None, text: str) -> Query:
    """Returns the algebra of a `query_unit`, the tree of a text."""
    prologue, form, values = unit.children
    names = Names(base, text=text)
    names.declare(prologue)
    return QueryReader(names).query(form, values)


@dataclass(slots=True)
class _Item:
    """A projected variable; with an expression it is `(expression AS ?variable)`."""

    variable: Var
    token: Token
    expression: Expression | None
    reads: list[Token]


@dataclass(slots=True)
class _Modifiers:
    """The parts around the WHERE clause, read but not yet combined."""

    keys: list[tuple[Var, Expression]]
    items: list[_Item]
    having: list[Expression]
    order: list[tuple[Expression, bool]]
    place: Place
    grouped: bool
    early_items: int
    """The number of items that HAVING needs."""

    def replace(self, samples: dict[Var, Expression]) -> None:
        """Replaces variables in HAVING and ORDER BY."""
        self.having = [_replaced(condition, samples) for condition in self.having]
        self.order = [(_replaced(key, samples), descending) for key, descending in self.order]


class QueryReader:
    """Reads one query. Sub-queries share its prefixes and blank node labels."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.patterns = PatternReader(names, self.sub_select)

    def query(self, form: Node, values: Node) -> Query:
        match form.rule:
            case "select_query":
                clause, dataset, where, modifiers = form.children
                pattern, variables = self._select(clause, where, modifiers, values)
                return Query("SELECT", pattern, variables, self._dataset(dataset))
            case "ask_query":
                dataset, where, modifiers = form.children
                pattern = self._solutions(self.patterns.group(where), modifiers, values)
                return Query("ASK", pattern, (), self._dataset(dataset))
            case "construct_query":
                template, dataset, where, modifiers = form.children
                pattern = self._solutions(self.patterns.group(where), modifiers, values)
                triples = self.patterns.template(template.children, TemplateBlanks())
                return Query("CONSTRUCT", pattern, (), self._dataset(dataset), template=triples)
            case "construct_where":
                dataset, template, modifiers = form.children
                triples = self.patterns.template(template.children, TemplateBlanks())
                where = Node("group", [Node("group_body", template.children)])
                pattern = self._solutions(self.patterns.group(where), modifiers, values)
                return Query("CONSTRUCT", pattern, (), self._dataset(dataset), template=triples)
            case "describe_query":
                return self._describe(form, values)
        raise AssertionError(f"unknown query form in the grammar: {form.rule}")

    def _describe(self, form: Node, values: Node) -> Query:
        described, dataset, *where, modifiers = form.children
        pattern = self.patterns.group(where[0]) if where and where[0] is not None else EMPTY
        pattern = self._solutions(pattern, modifiers, values)
        terms: tuple[VarOrTerm, ...]
        if described.children[0].type == "STAR":
            terms = tuple(v for v in visible(pattern) if not v.hidden)
        else:
            terms = tuple(dict.fromkeys(self.patterns.var_or_iri(token) for token in described.children))
        return Query("DESCRIBE", pattern, (), self._dataset(dataset), describe=terms)

    def _dataset(self, node: Node) -> Dataset | None:
        if not node.children:
            return None
        default: list[NamedNode] = []
        named: list[NamedNode] = []
        for clause in node.children:
            (default if clause.rule == "from" else named).append(self.names.iri(clause.children[-1]))
        return Dataset(tuple(default), tuple(named))

    def sub_select(self, node: Node) -> Pattern:
        clause, where, modifiers, values = node.children
        return self._select(clause, where, modifiers, values)[0]

    def _select(
        self, clause: Node, where: Node, modifiers: Node, values: Node
    ) -> tuple[Pattern, tuple[Var, ...]]:
        pattern = self.patterns.group(where)
        duplicates, *items = clause.children
        star = None if isinstance(items[0], Node) else items[0]
        read = self._read_modifiers(pattern, modifiers, [] if star is not None else items)
        if star is not None and read.grouped:
            raise TextError("`SELECT *` is not allowed with GROUP BY or aggregates; list the variables", star)
        pattern = self._ordered(pattern, read, values)
        if star is not None:
            variables = tuple(v for v in visible(pattern) if not v.hidden)
        else:
            variables = tuple(dict.fromkeys(item.variable for item in read.items))
        pattern = Project(pattern, variables)
        if duplicates is not None:
            pattern = Distinct(pattern) if duplicates.type == "DISTINCT" else Reduced(pattern)
        return self._sliced(pattern, modifiers), variables

    def _solutions(self, pattern: Pattern, modifiers: Node, values: Node) -> Pattern:
        """Applies the modifiers of an ASK, CONSTRUCT or DESCRIBE query."""
        read = self._read_modifiers(pattern, modifiers, [])
        return self._sliced(self._ordered(pattern, read, values), modifiers)

    def _read_modifiers(self, where: Pattern, modifiers: Node, items: list[Node]) -> _Modifiers:
        group, having, order, _ = modifiers.children
        place = Place(refusal=None)
        taken = visible(where)
        keys = self._keys(group, taken) if group is not None else []
        read_items = [self._item(item, place) for item in items]
        conditions = [self._expression(part, place) for part in (having.children if having else ())]
        having_reads = place.take_reads()
        order_keys = [
            (self._expression(key.children[0], place), key.rule == "descending")
            for key in (order.children if order else ())
        ]
        order_reads = place.take_reads()
        grouped = group is not None or bool(place.aggregates)
        known = {variable for variable, _ in keys}
        # Grouping hides every variable except its keys, so AS may use their names again (§18.2.4.4).
        _check_items(read_items, known if grouped else set(taken), grouped)
        read = _Modifiers(
            keys, read_items, conditions, order_keys, place, grouped, _last_read(read_items, having_reads)
        )
        if grouped:
            self._sample(read, known, having_reads + order_reads)
        return read

    def _sample(self, read: _Modifiers, known: set[Var], reads: list[Token]) -> None:
        """Lets HAVING and ORDER BY read a sample of variables that are not grouped (§18.2.4.1)."""
        known = known | {item.variable for item in read.items}
        samples: dict[Var, Expression] = {}
        for variable in dict.fromkeys(Var(token[1:]) for token in reads):
            if variable not in known:
                sample = Aggregate("SAMPLE", variable, False, " ")
                samples[variable] = read.place.aggregates.setdefault(
                    sample, self.patterns.fresh.variable("aggregate")
                )
        if samples:
            read.replace(samples)

    def _expression(self, part: Any, place: Place) -> Expression:
        return self.patterns.expressions.read(part, place)

    def _keys(self, group: Node, taken: dict[Var, None]) -> list[tuple[Var, Expression]]:
        place = Place(refusal="aggregates are not allowed in GROUP BY")
        keys: dict[tuple[Var, Expression], None] = {}
        names: set[Var] = set()
        for key in group.children:
            expression = self._expression(key.children[0], place)
            token = key.children[1] if len(key.children) > 1 else None
            if token is not None:
                variable = Var(token[1:])
                if variable in taken or variable in names:
                    raise TextError(
                        f"{variable} is already in use; choose another name for the GROUP BY key", token
                    )
            else:
                variable = expression if isinstance(expression, Var) else self.patterns.fresh.variable("key")
            keys[variable, expression] = None
            names.add(variable)
        return list(keys)

    def _item(self, item: Node, place: Place) -> _Item:
        token = item.children[-1]
        expression = self._expression(item.children[0], place) if len(item.children) > 1 else None
        return _Item(Var(token[1:]), token, expression, place.take_reads())

    def _ordered(self, pattern: Pattern, read: _Modifiers, values: Node) -> Pattern:
        """Applies grouping, HAVING, VALUES, SELECT expressions and ORDER BY, in the order of §18.2.4."""
        if read.grouped:
            aggregates = tuple((variable, aggregate) for aggregate, variable in read.place.aggregates.items())
            pattern = Group(pattern, tuple(read.keys), aggregates)
        pattern = _extended(pattern, read.items[: read.early_items])
        if read.having:
            pattern = Filter(conjunction(read.having), pattern)
        if values.children:
            data = self.patterns.values(values.children[0])
            _check_new_names(read.items[: read.early_items], visible(data))
            pattern = join(pattern, data)
        pattern = _extended(pattern, read.items[read.early_items :])
        return OrderBy(pattern, tuple(read.order)) if read.order else pattern

    def _sliced(self, pattern: Pattern, modifiers: Node) -> Pattern:
        clause = modifiers.children[3]
        if clause is None:
            return pattern
        numbers = {part.rule: _whole_number(part.children[0]) for part in clause.children}
        return Slice(pattern, numbers.get("offset", 0), numbers.get("limit"))


def _last_read(items: list[_Item], reads: list[Token]) -> int:
    """Returns the number of items up to the last one with an expression whose variable is read."""
    names = {Var(token[1:]) for token in reads}
    return max(
        (
            number
            for number, item in enumerate(items, 1)
            if item.expression is not None and item.variable in names
        ),
        default=0,
    )


def _extended(pattern: Pattern, items: list[_Item]) -> Pattern:
    """Adds the expressions of SELECT, each of which must bind a new variable."""
    _check_new_names(items, visible(pattern))
    for item in items:
        if item.expression is not None:
            pattern = Extend(pattern, item.variable, item.expression)
    return pattern


def _check_new_names(items: list[_Item], taken: Container[Var]) -> None:
    for item in items:
        if item.expression is not None and item.variable in taken:
            raise TextError(f"{item.variable} is already in use; choose another name after AS", item.token)


def _replaced(expression: Expression, values: dict[Var, Expression]) -> Expression:
    """Replaces variables by values, except in the patterns of EXISTS."""
    if isinstance(expression, Var):
        return values.get(expression, expression)
    if isinstance(expression, Call):
        return Call(expression.name, tuple(_replaced(argument, values) for argument in expression.arguments))
    return expression


def _check_items(items: list[_Item], taken: set[Var], grouped: bool) -> None:
    """Checks that AS names new variables, and that a grouped SELECT reads only `taken` and aggregates."""
    known = set(taken)
    for item in items:
        _check_new_names([item], known)
        if grouped:
            for token in [item.token] if item.expression is None else item.reads:
                if Var(token[1:]) not in known:
                    raise TextError(
                        f"SELECT uses {token}, which is neither in GROUP BY nor inside an aggregate; add it "
                        f"to GROUP BY, or take any value with SAMPLE({token})",
                        token,
                    )
        known.add(item.variable)


def _whole_number(token: Token) -> int:
    if len(token) > _MOST_DIGITS:
        raise TextError(f"this number is too large; it may have at most {_MOST_DIGITS} digits", token)
    return int(token)
