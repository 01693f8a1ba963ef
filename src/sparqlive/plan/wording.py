"""Formats the terms, expressions and variables of a plan for people.

Invariants: an expression without hidden variables, once written, parses to the same expression; all variables
of a plan have different names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from pyoxigraph import Literal

from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Aggregate, Call, Constant, Exists, Expression, Term, Var, VarOrTerm

_XSD = "http://www.w3.org/2001/XMLSchema#"
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


# Variables


class Words:
    """Writes the variables and expressions of one plan. Hidden variables are named at their first use."""

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

    def with_marks(self, expression: Expression, always: frozenset[Var]) -> str:
        """Writes an expression, and marks its variables that are not always bound."""
        return text_of_expression(expression, self.marker(mentioned(expression) - always))

    def expression(self, expression: Expression) -> str:
        return text_of_expression(expression, self.variable)

    def position(self, term: VarOrTerm) -> str:
        return self.variable(term) if isinstance(term, Var) else text_of_term(term)

    def on(self, variables: Iterable[Var], maybe: Iterable[Var]) -> str:
        listed = self.text_of_list(variables, maybe)
        return f" on {listed}" if listed else " without shared variables"
