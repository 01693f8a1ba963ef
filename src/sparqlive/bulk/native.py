"""Writes expressions as SQL where SQL gives the same result as Python; others run as Arrow functions.

Over ids alone: BOUND, sameTerm, equality with an IRI, IF, COALESCE, copies and constants. Over typed columns:
comparisons and IN (`comparison`), numbers (`arithmetic`), strings (`strings`), parts of dates (`moments`),
effective boolean values, tests of kinds, languages and datatypes. NULL is SPARQL's error: both logics have
the same truth tables. A condition that depends on the row, such as whether a number fits, is a doubt: Python
decides the rows in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyoxigraph import Literal, NamedNode

from sparqlive.bulk import moments, strings
from sparqlive.bulk.arithmetic import arithmetic, function, integer_operand
from sparqlive.bulk.comparison import comparison
from sparqlive.bulk.dialect import ZERO
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.operand import (
    CHARACTERS,
    LONGEST,
    SIGNED,
    Operand,
    Writing,
    chosen_operand,
    constant_operand,
    nothing,
    string_operand,
    truth_operand,
)
from sparqlive.bulk.order import string_content, tagged_content
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import Solutions, column
from sparqlive.bulk.typed import TEXT, typed_column, with_types
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.values import (
    BLANK,
    DECIMAL,
    DOUBLE,
    ILL_TYPED,
    IRI,
    LANGSTRING,
    OTHER,
    STRING,
    XSD,
)

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
_NEGATIVE_ZERO = "CAST('-0.0' AS DOUBLE)"


class Native:
    """Writes expressions over the columns of a source.

    read: the typed columns that the written expressions need. doubts: conditions of rows that Python decides.
    """

    def __init__(self, evaluation: Evaluation, source: Solutions) -> None:
        self._evaluation = evaluation
        self._id_of = evaluation.quads.id_of
        self._dialect = evaluation.backend.dialect
        self._writing = Writing(self._dialect)
        self._source = source
        self._true, self._false = (literal(self._id_of(Literal(truth))) for truth in (True, False))
        self.read: dict[Var, set[str]] = {}

    @property
    def doubts(self) -> list[str]:
        return self._writing.doubts

    @property
    def doubt(self) -> str:
        """Whether Python decides a row: never NULL."""
        return f"coalesce({' OR '.join(f'({doubt})' for doubt in self.doubts)}, false)"

    def frame(self) -> Frame:
        """Returns the source's columns, and all columns that the written expressions read."""
        return self._writing.with_steps(with_types(self._evaluation, self._source, self.read))

    # Truth values

    def condition(self, expression: Expression) -> str | None:
        """Writes the effective boolean value, NULL for an error; None if SQL cannot express it."""
        test = self._test(expression)
        if test is not None:
            return test
        operand = self._operand(expression)
        return None if operand is None else f"CAST({operand.cell('truth')} AS BOOLEAN)"

    def _test(self, expression: Expression) -> str | None:
        """Writes an expression whose value is always a truth value."""
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
                return self._equality(left, right)
            case ("=" | "!=") as name, (left, right) if _is_iri(left) or _is_iri(right):
                part = self._datatype(left, right) or self._equality(left, right)
                return part if part is None or name == "=" else f"(NOT {part})"
            case ("=" | "!=" | "<" | ">" | "<=" | ">=") as name, (left, right):
                return self._comparison(name, left, right)
            case ("IN" | "NOT IN") as name, (sought, *members) if members:
                return self._membership(name, sought, members)
            case "LANGMATCHES", (Call("LANG", (Var() as variable,)), Constant(Literal() as wanted)):
                return self._language_matches(variable, wanted)
            case ("STRSTARTS" | "STRENDS" | "CONTAINS") as name, (left, right):
                found = self._operands([left, right])
                return None if found is None else strings.string_test(name, found[0], found[1], self._writing)
            case name, (Var() as variable,) if name in _KINDS and variable in self._source.variables:
                return f"({self._cell(variable, 'kind')} {_KINDS[name]})"
        return None

    def _comparison(self, sign: str, left: Expression, right: Expression) -> str | None:
        if isinstance(left, Constant) and isinstance(right, Constant):
            return None
        found = self._operands([left, right])
        return None if found is None else comparison(sign, found[0], found[1], self._writing)

    def _membership(self, name: str, sought: Expression, members: list[Expression]) -> str | None:
        tests = [self._test(Call("=", (sought, member))) for member in members]
        if None in tests:
            return None
        found = f"({' OR '.join(str(test) for test in tests)})"
        return found if name == "IN" else f"(NOT {found})"

    def _equality(self, left: Expression, right: Expression) -> str | None:
        """Compares by id with an IRI, which equals nothing but itself (§17.4.1.7)."""
        one, other = self.value(left), self.value(right)
        if one is None or other is None:
            return None
        return f"(nullif({one}, {ZERO}) = nullif({other}, {ZERO}))"

    def _tag(self, variable: Var) -> str:
        """Writes LANG; NULL for an error, also for a literal with a base direction."""
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
        """Writes DATATYPE(?x) = <iri>: the text of a literal ends in its datatype."""
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

    # Terms by typed columns

    def text(self, expression: Expression) -> str | None:
        """Writes the canonical text of an expression's value, NULL for an error; None without SQL for it."""
        operand = self._operand(expression)
        return None if operand is None else operand.cell(TEXT)

    def _operands(self, expressions: Sequence[Expression]) -> list[Operand] | None:
        found = [self._operand(expression) for expression in expressions]
        known = [operand for operand in found if operand is not None]
        return known if len(known) == len(found) else None

    def _operand(self, expression: Expression) -> Operand | None:
        match expression:
            case Var():
                return self._variable(expression) if expression in self._source.variables else None
            case Constant(term):
                return constant_operand(term, literal(self._id_of(term)), self._dialect)
            case Call("IF", (test, *parts)):
                holds, found = self.condition(test), self._operands(parts)
                if holds is None or found is None:
                    return None
                holds = self._writing.step(holds)
                return chosen_operand([(holds, found[0]), (f"NOT {holds}", found[1])])
            case Call("COALESCE", arguments):
                found = self._operands([part for part in arguments if self._may_be_bound(part)])
                if not found:
                    return None
                return chosen_operand([(f"{part.kind} IS NOT NULL", part) for part in found])
            case Call("LANG", (Var() as variable,)) if variable in self._source.variables:
                return string_operand(self._writing.step(self._tag(variable)), None, self._writing)
            case Call("STR", (Var() as variable,)) if variable in self._source.variables:
                return self._lexical(variable)
            case Call("DATATYPE", (Var() as variable,)) if variable in self._source.variables:
                return self._datatype_of(variable)
            case Call(name, arguments) if name in _OPERANDS:
                found = self._operands(arguments)
                return None if found is None else self._computed(name, found)
        holds = self._test(expression)
        if holds is None:
            return None
        return truth_operand(self._writing.step(holds), str(Literal(True)), str(Literal(False)))

    def _computed(self, name: str, operands: list[Operand]) -> Operand | None:
        writing = self._writing
        match name, operands:
            case (("+" | "-" | "*" | "/"), [left, right]):
                return arithmetic(name, left, right, writing)
            case (("NEGATE" | "PLUS" | "ABS" | "ROUND" | "CEIL" | "FLOOR"), [only]):
                return function(name, only, writing)
            case "STRLEN", [only]:
                return integer_operand(f"CAST(length({only.cell(CHARACTERS)}) AS BIGINT)", writing)
            case (("UCASE" | "LCASE"), [only]):
                return strings.cased(name, only, writing)
            case "SUBSTR", [text, start, *count]:
                return strings.part(text, start, count[0] if count else None, writing)
            case (("STRBEFORE" | "STRAFTER"), [text, separator]):
                return strings.divided(name, text, separator, writing)
            case "CONCAT", [_, *_]:
                return strings.concatenated(operands, writing)
            case _, [only] if name in moments.PARTS:
                return moments.part(name, only, writing)
        return None

    def _variable(self, variable: Var) -> Operand:
        def cell(name: str) -> str:
            if name == CHARACTERS:
                return self._characters(variable)
            if name == SIGNED:
                kind, form, nearest = (self._cell(variable, n) for n in ("kind", "content", "nearest"))
                return f"if({kind} > {DECIMAL:d} AND {form} IS NOT NULL, {_NEGATIVE_ZERO}, {nearest})"
            return self._cell(variable, name)

        return Operand(cell, column(variable))

    def _characters(self, variable: Var) -> str:
        """Writes the characters of a string; NULL for any other term."""
        self._need(variable, "content", "language", TEXT)
        kind = self._cell(variable, "kind")
        simple = f"WHEN {kind} = {STRING:d} THEN {string_content(variable)}"
        tagged = f"WHEN {kind} = {LANGSTRING:d} THEN {tagged_content(variable)}"
        return self._writing.step(f"CASE {simple} {tagged} END")

    def _lexical(self, variable: Var) -> Operand:
        """Writes STR: an IRI without brackets, or the quoted form of a literal without escapes."""
        kind, term = self._cell(variable, "kind"), self._cell(variable, TEXT)
        is_other = f"{kind} NOT IN ({STRING:d}, {LANGSTRING:d}, {IRI:d}, {BLANK:d})"
        self.doubts.append(f"{is_other} AND contains({term}, {self._dialect.text(chr(92))})")
        self.doubts.append(f"{self._dialect.bytes_of(term)} > {LONGEST}")
        form = (
            f"CASE WHEN {kind} = {IRI:d} THEN substring({term}, 2, length({term}) - 2) "
            f"WHEN {is_other} THEN split_part({term}, '\"', 2) ELSE {self._characters(variable)} END"
        )
        return string_operand(self._writing.step(form), None, self._writing)

    def _datatype_of(self, variable: Var) -> Operand:
        """Writes DATATYPE: the text after the last quote of a literal; none with a base direction."""
        kind, term = self._cell(variable, "kind"), self._cell(variable, TEXT)
        self.doubts.append(f"{kind} = {OTHER:d} AND NOT {self._dialect.ends_with(term, repr('>'))}")
        text = self._writing.step(
            f"CASE WHEN {kind} = {STRING:d} THEN '<{XSD}string>' "
            f"WHEN {kind} = {LANGSTRING:d} THEN '<{_RDF}langString>' "
            f"WHEN {kind} <= {ILL_TYPED:d} THEN regexp_extract({term}, '<[^\"]*>$', 0) END"
        )
        cells = {"kind": f"CASE WHEN {text} IS NOT NULL THEN {IRI:d} END", TEXT: text}
        return Operand(lambda name: cells.get(name) or nothing(name), kinds=range(IRI, IRI + 1))

    def _may_be_bound(self, expression: Expression) -> bool:
        return not isinstance(expression, Var) or expression in self._source.variables

    def _cell(self, variable: Var, name: str) -> str:
        self._need(variable, name)
        return typed_column(variable, name)

    def _need(self, variable: Var, *names: str) -> None:
        self.read.setdefault(variable, set()).update(names)

    # Ids

    def value(self, expression: Expression) -> str | None:
        """Writes the id of an expression's value; 0 for an error."""
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
        """Writes the id of a value whose term needs no text column; a text would have to be chosen too."""
        if isinstance(expression, Var) and expression in self._source.texts:
            return None
        return self.value(expression)

    def is_bound(self, expression: Expression) -> bool:
        """Returns whether a native value is never an error."""
        match expression:
            case Constant() | Call("BOUND", _):
                return True
            case Var():
                return expression in self._source.always
            case Call("COALESCE", arguments):
                return any(self.is_bound(argument) for argument in arguments)
        return False

    def has_own_text(self, expression: Expression) -> bool:
        """Returns whether a native value is always a constant of the plan."""
        match expression:
            case Var():
                return expression in self._source.own_text or expression not in self._source.variables
            case Call("COALESCE", arguments) | Call("IF", (_, *arguments)):
                return all(self.has_own_text(argument) for argument in arguments)
        return True


_OPERANDS = frozenset(
    {"+", "-", "*", "/", "NEGATE", "PLUS", "ABS", "ROUND", "CEIL", "FLOOR"}
    | {"STRLEN", "UCASE", "LCASE", "SUBSTR", "STRBEFORE", "STRAFTER", "CONCAT", *moments.PARTS}
)


def _is_iri(expression: Expression) -> bool:
    return isinstance(expression, Constant) and isinstance(expression.term, NamedNode)


def _is_simple(term: object) -> bool:
    return isinstance(term, Literal) and term.language is None and term.datatype.value == XSD + "string"
