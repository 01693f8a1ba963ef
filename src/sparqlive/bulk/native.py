"""Writes expressions as SQL where the result is the same as in Python; others run as Arrow functions.

Over ids alone: BOUND, sameTerm, equality with an IRI, IF, COALESCE, copies and constants. Over typed columns:
comparisons, IN, sums, differences and products of exact numbers, effective boolean values, tests of kinds,
languages, datatypes and strings. NULL is SPARQL's error: both logics have the same truth tables. What depends
on the row, such as whether a number fits, is a doubt: Python decides these rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyoxigraph import Literal, NamedNode

from sparqlive.bulk.dialect import ZERO, number
from sparqlive.bulk.operand import (
    Operand,
    arithmetic,
    comparison,
    computed_operand,
    constant_operand,
    negated,
)
from sparqlive.bulk.order import string_content, tagged_content
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import Solutions, column
from sparqlive.bulk.typed import TEXT, typed_column
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.columns import typed_value
from sparqlive.sparql.values import BLANK, DOUBLE, ILL_TYPED, IRI, LANGSTRING, OTHER, STRING, XSD, value_of

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

_KINDS = {
    "ISIRI": f"= {IRI:d}",
    "ISBLANK": f"= {BLANK:d}",
    "ISLITERAL": f"<= {ILL_TYPED:d}",
    "ISNUMERIC": f"<= {DOUBLE:d}",
}
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DIRECTED = _RDF + "dirLangString"


class Native:
    """Writes expressions over the columns of a source.

    read: the typed columns that what was written needs. doubts: conditions of rows that Python decides.
    """

    def __init__(self, evaluation: Evaluation, source: Solutions) -> None:
        self._id_of = evaluation.quads.id_of
        self._dialect = evaluation.backend.dialect
        self._source = source
        self._true, self._false = (literal(self._id_of(Literal(truth))) for truth in (True, False))
        self.read: dict[Var, set[str]] = {}
        self.doubts: list[str] = []

    @property
    def doubt(self) -> str:
        """Whether a row is left to Python: never NULL."""
        return f"coalesce({' OR '.join(f'({doubt})' for doubt in self.doubts)}, false)"

    # Truth values

    def condition(self, expression: Expression) -> str | None:
        """The effective boolean value, NULL for an error; None if there is no SQL for it."""
        test = self._test(expression)
        if test is not None:
            return test
        operand = self._operand(expression)
        if operand is None:
            return None
        if operand.computed:
            return f"({operand.cell('whole')} <> 0 OR {operand.cell('fraction')} <> 0)"
        return f"CAST({operand.cell('truth')} AS BOOLEAN)"

    def _test(self, expression: Expression) -> str | None:
        """Of what is a truth value by itself."""
        if not isinstance(expression, Call):
            return None
        match expression.name, expression.arguments:
            case "BOUND", (Var() as variable,):
                return f"({column(variable)} <> {ZERO})" if variable in self._source.variables else "false"
            case "!", (argument,):
                inner = self.condition(argument)
                return None if inner is None else f"(NOT {inner})"
            case ("&&" | "||") as name, (left, right):
                one, other = self.condition(left), self.condition(right)
                if one is None or other is None:
                    return None
                return f"({one} {'AND' if name == '&&' else 'OR'} {other})"
            case "SAMETERM", (left, right):
                return self._equality("=", left, right)
            case ("=" | "!=") as name, (left, right) if _is_iri(left) or _is_iri(right):
                part = self._datatype(left, right) or self._equality("=", left, right)
                return part if part is None or name == "=" else f"(NOT {part})"
            case ("=" | "!=" | "<" | ">" | "<=" | ">=") as name, (left, right):
                return self._language(name, left, right) or self._comparison(name, left, right)
            case ("IN" | "NOT IN") as name, (sought, *members) if members:
                return self._membership(name, sought, members)
            case "LANGMATCHES", (Call("LANG", (Var() as variable,)), Constant(Literal() as wanted)):
                return self._language_matches(variable, wanted)
            case ("STRSTARTS" | "STRENDS" | "CONTAINS") as name, (argument, Constant(Literal() as sought)):
                return self._string_test(name, argument, sought)
            case name, (Var() as variable,) if name in _KINDS and variable in self._source.variables:
                return f"({self._cell(variable, 'kind')} {_KINDS[name]})"
        return None

    def _comparison(self, sign: str, left: Expression, right: Expression) -> str | None:
        text = self._string_order(sign, left, right)
        if text is not None:
            return text
        one, other = self._operand(left), self._operand(right)
        if one is None or other is None or (one.constant is not None and other.constant is not None):
            return None
        return comparison(sign, one, other, self.doubts)

    def _membership(self, name: str, sought: Expression, members: list[Expression]) -> str | None:
        tests = [self._test(Call("=", (sought, member))) for member in members]
        if None in tests:
            return None
        found = f"({' OR '.join(str(test) for test in tests)})"
        return found if name == "IN" else f"(NOT {found})"

    def _equality(self, sign: str, left: Expression, right: Expression) -> str | None:
        """An IRI equals nothing but itself (§17.4.1.7), so its id decides."""
        one, other = self.value(left), self.value(right)
        if one is None or other is None:
            return None
        return f"(nullif({one}, {ZERO}) {sign} nullif({other}, {ZERO}))"

    # Strings

    def _string_order(self, sign: str, left: Expression, right: Expression) -> str | None:
        """`<` and the like of a variable and a constant string: by bytes of UTF-8, as by code points."""
        if sign in ("=", "!=") or not isinstance(left, Var) or left not in self._source.variables:
            return None
        if not isinstance(right, Constant) or not _is_simple(right.term):
            return None
        kind, constant = self._cell(left, "kind"), self._dialect.text(right.term.value)
        return f"(CASE WHEN {kind} = {STRING:d} THEN {self._string(left)} {sign} {constant} END)"

    def _string_test(self, name: str, argument: Expression, sought: Literal) -> str | None:
        content = self._text(argument)
        if content is None or not _is_simple(sought):
            return None
        part = self._dialect.text(sought.value)
        if name == "CONTAINS":
            return f"contains({content}, {part})"
        test = self._dialect.starts_with if name == "STRSTARTS" else self._dialect.ends_with
        return test(content, part)

    def _text(self, expression: Expression) -> str | None:
        """The characters of a string or of STR; NULL for an error."""
        is_any = isinstance(expression, Call) and expression.name == "STR"
        variable = expression.arguments[0] if isinstance(expression, Call) and is_any else expression
        if not isinstance(variable, Var) or variable not in self._source.variables:
            return None
        kind = self._cell(variable, "kind")
        cases = f"WHEN {kind} = {STRING:d} THEN {self._string(variable)} "
        cases += f"WHEN {kind} = {LANGSTRING:d} THEN {self._tagged(variable)} "
        if is_any:
            term = self._cell(variable, TEXT)
            cases += f"WHEN {kind} = {IRI:d} THEN substring({term}, 2, length({term}) - 2) "
            self.doubts.append(f"{kind} NOT IN ({STRING:d}, {LANGSTRING:d}, {IRI:d}, {BLANK:d})")
        return f"(CASE {cases}END)"

    def _string(self, variable: Var) -> str:
        self._need(variable, "content", TEXT)
        return string_content(variable)

    def _tagged(self, variable: Var) -> str:
        self._need(variable, "content", "language", TEXT)
        return tagged_content(variable)

    def _language(self, sign: str, left: Expression, right: Expression) -> str | None:
        """LANG(?x) = "en"."""
        match left, right:
            case Call("LANG", (Var() as variable,)), Constant(Literal() as wanted):
                pass
            case _:
                return None
        if sign not in ("=", "!=") or not _is_simple(wanted) or variable not in self._source.variables:
            return None
        tag = self._tag(variable)
        return f"({tag} {'=' if sign == '=' else '<>'} {self._dialect.text(wanted.value)})"

    def _tag(self, variable: Var) -> str:
        """What LANG answers; NULL for an error. A literal with a base direction is among the others."""
        kind, tag = self._cell(variable, "kind"), self._cell(variable, "language")
        self.doubts.append(f"{kind} = {OTHER:d}")
        return f"CASE WHEN {kind} <= {ILL_TYPED:d} THEN coalesce({tag}, '') END"

    def _language_matches(self, variable: Var, wanted: Literal) -> str | None:
        if not _is_simple(wanted) or variable not in self._source.variables:
            return None
        tag, sought = f"lower({self._tag(variable)})", wanted.value.lower()
        if sought == "*":
            return f"({tag} <> '')"
        text = self._dialect.text
        longer = f" OR {self._dialect.starts_with(tag, text(sought + '-'))}" if sought else ""
        return f"({tag} = {text(sought)}{longer})"

    def _datatype(self, left: Expression, right: Expression) -> str | None:
        """DATATYPE(?x) = <iri>: the text of a literal ends in its datatype."""
        match left, right:
            case Call("DATATYPE", (Var() as variable,)), Constant(NamedNode() as datatype):
                pass
            case _:
                return None
        if variable not in self._source.variables or datatype.value == _DIRECTED:
            return None
        kind = self._cell(variable, "kind")
        if datatype.value == XSD + "string":
            test = f"{kind} = {STRING:d}"
        elif datatype.value == _RDF + "langString":
            test = f"{kind} = {LANGSTRING:d}"
        else:
            ending = self._dialect.text(f'"^^{datatype}')
            test = self._dialect.ends_with(self._cell(variable, TEXT), ending)
        return f"(CASE WHEN {kind} <= {ILL_TYPED:d} THEN {test} END)"

    # Numbers and other operands

    def number(self, expression: Expression) -> Operand | None:
        """A number that is computed; None if there is no SQL for it."""
        operand = self._operand(expression)
        return operand if operand is not None and operand.computed else None

    def _operand(self, expression: Expression) -> Operand | None:
        match expression:
            case Var():
                if expression not in self._source.variables:
                    return None
                return Operand(lambda name: self._cell(expression, name), column(expression))
            case Constant(term):
                return constant_operand(typed_value(value_of(term)), literal(self._id_of(term)))
            case Call(("+" | "-" | "*") as sign, (left, right)):
                one, other = self._operand(left), self._operand(right)
                if one is None or other is None:
                    return None
                return arithmetic(sign, one, other, self._dialect, self.doubts)
            case Call("NEGATE", (argument,)):
                only = self._operand(argument)
                return None if only is None else negated(only, self._dialect, self.doubts)
            case Call("STRLEN", (argument,)):
                content = self._text(argument)
                if content is None:
                    return None
                length = f"CAST(length({content}) AS BIGINT)"
                return computed_operand(f"CASE WHEN {length} IS NOT NULL THEN 0 END", length, number(0))
        return None

    def _cell(self, variable: Var, name: str) -> str:
        self._need(variable, name)
        return typed_column(variable, name)

    def _need(self, variable: Var, *names: str) -> None:
        self.read.setdefault(variable, set()).update(names)

    # Ids

    def value(self, expression: Expression) -> str | None:
        """The id of the expression's value; 0 for an error."""
        match expression:
            case Var():
                return column(expression) if expression in self._source.variables else ZERO
            case Constant(term):
                return literal(self._id_of(term))
            case Call("COALESCE", arguments):
                values = [self._textless(argument) for argument in arguments]
                if None in values:
                    return None
                return f"coalesce({', '.join([*(f'nullif({value}, {ZERO})' for value in values), ZERO])})"
            case Call("IF", (test, then, otherwise)):
                holds, one, other = self.condition(test), self._textless(then), self._textless(otherwise)
                if holds is None or one is None or other is None:
                    return None
                return f"(CASE WHEN {holds} THEN {one} WHEN NOT {holds} THEN {other} ELSE {ZERO} END)"
        holds = self._test(expression)
        if holds is None:
            return None
        return f"(CASE WHEN {holds} THEN {self._true} WHEN NOT {holds} THEN {self._false} ELSE {ZERO} END)"

    def _textless(self, expression: Expression) -> str | None:
        """A value whose term is not in a text column, which would have to be chosen along with it."""
        if isinstance(expression, Var) and expression in self._source.texts:
            return None
        return self.value(expression)

    def is_bound(self, expression: Expression) -> bool:
        """Whether a native value is never an error."""
        match expression:
            case Constant() | Call("BOUND", _):
                return True
            case Var():
                return expression in self._source.always
            case Call("COALESCE", arguments):
                return any(self.is_bound(argument) for argument in arguments)
        return False

    def has_own_text(self, expression: Expression) -> bool:
        """Whether a native value is always a constant of the plan."""
        match expression:
            case Var():
                return expression in self._source.own_text or expression not in self._source.variables
            case Call("COALESCE", arguments) | Call("IF", (_, *arguments)):
                return all(self.has_own_text(argument) for argument in arguments)
        return True


def _is_iri(expression: Expression) -> bool:
    return isinstance(expression, Constant) and isinstance(expression.term, NamedNode)


def _is_simple(term: object) -> bool:
    return isinstance(term, Literal) and term.language is None and term.datatype.value == XSD + "string"
