"""Turns parse trees into expressions of the algebra.

Handles operators, calls and aggregates: an aggregate is replaced by a hidden variable, which the Group binds.
Rejects aggregates where they are not allowed, and calls with a wrong number of arguments.
Invariant: a Place lists every variable that was read outside an aggregate, so that grouping can be checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from pyoxigraph import NamedNode

from sparqlive.errors import Unsupported
from sparqlive.sparql.algebra import Aggregate, Call, Constant, Exists, Expression, Pattern, Var, combined
from sparqlive.sparql.functions import WORDS
from sparqlive.sparql.syntax.terms import Names, number, string_value
from sparqlive.sparql.syntax.tree import Node, TextError, Token

_BINARY = {"plus": "+", "minus_sign": "-", "times": "*", "divided": "/"}
_UNARY = {"not": "!", "positive": "PLUS", "negative": "NEGATE"}
_SAME_FUNCTION = {"ISURI": "ISIRI", "URI": "IRI"}


class Fresh:
    """Creates hidden variables that are unique in the query."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def variable(self, purpose: str) -> Var:
        return Var(f".{purpose}{next(self._numbers)}")


@dataclass(slots=True)
class Place:
    """The context of an expression: whether aggregates are allowed, and which variables it reads.

    `refusal` is the error message for an aggregate; None where aggregates are allowed.
    """

    refusal: str | None = "aggregates are only allowed in SELECT, HAVING and ORDER BY"
    aggregates: dict[Aggregate, Var] = field(default_factory=dict)
    reads: list[Token] = field(default_factory=list)

    def take_reads(self) -> list[Token]:
        """Returns the variables read since the last call."""
        reads, self.reads = self.reads, []
        return reads


@dataclass(slots=True)
class ExpressionReader:
    """Reads expressions. `group` reads the pattern of an EXISTS."""

    names: Names
    fresh: Fresh
    group: Callable[[Node], Pattern]

    def read(self, part: Node | Token, place: Place) -> Expression:
        if not isinstance(part, Node):
            return self._leaf(part, place)
        children = part.children
        match part.rule:
            case "rdf_literal":
                return Constant(self.names.literal(part))
            case "disjunction" | "conjunction":
                return self._chain("||" if part.rule == "disjunction" else "&&", children, place)
            case "comparison":
                left, operator, right = children
                return self._call(str(operator.children[0]), [left, right], place)
            case "in" | "not_in":
                return self._call("IN" if part.rule == "in" else "NOT IN", children, place)
            case "plus" | "minus_sign" | "times" | "divided":
                return self._call(_BINARY[part.rule], children, place)
            case "not" | "positive" | "negative":
                return self._call(_UNARY[part.rule], children, place)
            case "signed_sum":
                return self._signed_sum(children[0], children[1], place)
            case "function":
                return self._function(children[0], children[1:], place)
            case "function_call":
                return self._function_call(children[0], children[1].children, place)
            case "aggregate":
                return self._aggregate(part, place)
            case "exists":
                return Exists(self.group(children[0]))
            case "not_exists":
                return Call("!", (Exists(self.group(children[0])),))
        raise AssertionError(f"unknown expression in the grammar: {part.rule}")

    def _leaf(self, token: Token, place: Place) -> Expression:
        if token.type == "VAR":
            place.reads.append(token)
            return Var(token[1:])
        if token.type in ("IRIREF", "PNAME"):
            return Constant(self.names.iri(token))
        return Constant(self.names.literal(token))

    def _call(self, name: str, arguments: list[Node | Token], place: Place) -> Call:
        return Call(name, tuple(self.read(argument, place) for argument in arguments))

    def _chain(self, operator: str, parts: list[Node | Token], place: Place) -> Expression:
        read = [self.read(part, place) for part in parts]
        return combined(lambda left, right: Call(operator, (left, right)), read)

    def _signed_sum(self, left: Node | Token, right: Node | Token, place: Place) -> Expression:
        """Reads `?a -1*2`, which is lexed as ?a and a negative number, as ?a - (1*2)."""
        first = right
        while isinstance(first, Node):
            first = first.children[0]
        product = self._unsigned(right, place)
        return Call(first[0], (self.read(left, place), product))

    def _unsigned(self, part: Node | Token, place: Place) -> Expression:
        if isinstance(part, Node):
            left, right = part.children
            return Call(_BINARY[part.rule], (self._unsigned(left, place), self.read(right, place)))
        return Constant(number(part[1:]))

    def _function(self, token: Token, arguments: list[Node | Token], place: Place) -> Expression:
        name = token.upper()
        least, most = WORDS[name]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            number = str(least) if least == most else f"{least} to {most}"
            noun = "argument" if number == "1" else "arguments"
            raise TextError(f"{name} takes {number} {noun}, not {len(arguments)}", token)
        if name == "BOUND" and (isinstance(arguments[0], Node) or arguments[0].type != "VAR"):
            raise TextError("BOUND takes a variable, such as BOUND(?x)", token)
        name = _SAME_FUNCTION.get(name, name)
        call = self._call(name, arguments, place)
        if name == "IRI" and self.names.base is not None:
            return Call(name, (*call.arguments, Constant(NamedNode(self.names.base))))
        return call

    def _function_call(self, name: Token, arguments: list[Node | Token], place: Place) -> Expression:
        if arguments and not isinstance(arguments[0], Node) and arguments[0].type == "DISTINCT":
            raise Unsupported(
                f"DISTINCT in a call of {name} is not supported: the only aggregates are those of SPARQL "
                f"1.1, such as COUNT and SUM. Remove DISTINCT, or use one of these."
            )
        return self._call(self.names.iri(name).value, arguments, place)

    def _aggregate(self, part: Node, place: Place) -> Var:
        token, distinct, argument, separator = part.children
        name = token.upper()
        if place.refusal is not None:
            raise TextError(place.refusal, token)
        star = not isinstance(argument, Node) and argument.type == "STAR"
        if star and name != "COUNT":
            raise TextError(f"only COUNT accepts `*`; give {name} an expression", argument)
        if separator is not None and name != "GROUP_CONCAT":
            raise TextError(f"only GROUP_CONCAT accepts a separator; {name} does not", separator)
        inner = Place(
            refusal="an aggregate cannot contain another one; compute the inner one in a sub-SELECT"
        )
        aggregate = Aggregate(
            name,
            None if star else self.read(argument, inner),
            distinct is not None,
            " " if separator is None else string_value(separator),
        )
        if aggregate not in place.aggregates:
            place.aggregates[aggregate] = self.fresh.variable("aggregate")
        return place.aggregates[aggregate]
