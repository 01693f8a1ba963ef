"""Compiles expressions to closures: the inner loop of FILTER, BIND, HAVING and ORDER BY.

Defines how the connectives, IF, COALESCE, BOUND and IN treat errors (SPARQL 1.1 §17.2), and which functions
are volatile. Rejects unknown functions (Unsupported), wrong numbers of arguments (SyntaxError), and EXISTS
and aggregates (TypeError: the plan replaces them by joins and groups). Invariants: an evaluation returns a
value or raises ExpressionError, nothing else; all dispatch on names and on types of constants happens at
compile time.

The state that an evaluation can see is passed to the compiler: `now`, one moment for the whole query;
`random`, the source of RAND and the UUIDs; and `blank_nodes`, the nodes that BNODE("label") created for the
current row. A caller that evaluates several expressions per row passes one dict to all of them and clears it
between rows. Without one, each evaluation of the compiled expression counts as a separate row.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random, SystemRandom
from typing import Any, NoReturn, TypeAlias

import xxhash
from pyoxigraph import BlankNode

from sparqlive.sparql.algebra import Aggregate, Call, Constant, Exists, Expression, Var
from sparqlive.sparql.expression_checks import (
    check_expression,
    function_names,
    variables_of,
    volatile_function,
)
from sparqlive.sparql.functions import FUNCTIONS, Function
from sparqlive.sparql.functions.logic import COMPARISONS, MIRRORED, RELATIONS, effective_boolean, equals
from sparqlive.sparql.functions.patterns import Matcher, matcher, substitute
from sparqlive.sparql.functions.strings import like, simple_text_of, text_of
from sparqlive.sparql.moments import parse_date_time
from sparqlive.sparql.values import (
    BLANK,
    DECIMAL,
    DOUBLE,
    FALSE,
    FLOAT,
    IRI,
    STRING,
    TRUE,
    ExpressionError,
    Value,
    date_time,
    double,
    iri,
    string,
    to_double,
    value_of,
)

__all__ = [
    "ExpressionError",
    "check_expression",
    "compile_condition",
    "compile_expression",
    "operands",
    "variables_of",
    "volatile_function",
]

Row: TypeAlias = Sequence[Value | None]
Evaluate: TypeAlias = Callable[[Row], Value]
Test: TypeAlias = Callable[[Row], bool]


def compile_expression(
    expression: Expression,
    variables: Sequence[Var],
    *,
    now: datetime | None = None,
    random: Random | None = None,
    blank_nodes: dict[str, BlankNode] | None = None,
) -> Evaluate:
    """Returns a function from a row to the value of the expression.

    It raises ExpressionError for SPARQL's errors. A row has the values of `variables` in order; None means
    unbound.
    """
    scope = _scope(expression, variables, now, random, blank_nodes)
    evaluate = _value(expression, scope)
    return evaluate if blank_nodes is not None else _with_own_blank_nodes(expression, evaluate, scope)


def compile_condition(
    expression: Expression,
    variables: Sequence[Var],
    *,
    now: datetime | None = None,
    random: Random | None = None,
    blank_nodes: dict[str, BlankNode] | None = None,
) -> Test:
    """Returns a function from a row to the effective boolean value of the expression; an error is False."""
    scope = _scope(expression, variables, now, random, blank_nodes)
    test = _test(expression, scope)
    clear_nodes = blank_nodes is None and "BNODE" in function_names(expression)

    def holds(row: Row) -> bool:
        if clear_nodes:
            scope.blank_nodes.clear()
        try:
            return test(row)
        except ExpressionError:
            return False

    return holds


@dataclass(frozen=True, slots=True)
class _Scope:
    positions: dict[Var, int]
    now: Value
    random: Random
    blank_nodes: dict[str, BlankNode]


def _scope(
    expression: Expression,
    variables: Sequence[Var],
    now: datetime | None,
    random: Random | None,
    blank_nodes: dict[str, BlankNode] | None,
) -> _Scope:
    check_expression(expression)
    return _Scope(
        positions={variable: position for position, variable in enumerate(variables)},
        now=_moment(now if now is not None else datetime.now(UTC)),
        random=random if random is not None else SystemRandom(),
        blank_nodes=blank_nodes if blank_nodes is not None else {},
    )


def _moment(now: datetime) -> Value:
    moment = parse_date_time(now.isoformat())
    if moment is None:
        raise ValueError(f"A time whose timezone XML Schema cannot write: {now.isoformat()}")
    return date_time(moment)


def _with_own_blank_nodes(expression: Expression, evaluate: Evaluate, scope: _Scope) -> Evaluate:
    if "BNODE" not in function_names(expression):
        return evaluate

    def evaluate_as_a_row(row: Row) -> Value:
        scope.blank_nodes.clear()
        return evaluate(row)

    return evaluate_as_a_row


# Values


def _value(expression: Expression, scope: _Scope) -> Evaluate:
    match expression:
        case Var():
            return _variable(scope.positions.get(expression))
        case Constant(term):
            constant = value_of(term)
            return lambda row: constant
        case Call(name, arguments):
            special = _VALUE_FORMS.get(name)
            if special is not None:
                return special(arguments, scope)
            function = FUNCTIONS.get(name)
            if function is None or function.is_test:
                return _as_value(_test(expression, scope))
            return _application(function, [_value(argument, scope) for argument in arguments])
        case Exists() | Aggregate():
            raise TypeError(f"{type(expression).__name__} is part of the plan, not of an expression")


def _as_value(test: Test) -> Evaluate:
    return lambda row: TRUE if test(row) else FALSE


def _variable(position: int | None) -> Evaluate:
    if position is None:
        return _unbound

    def read(row: Row) -> Value:
        value = row[position]
        if value is None:
            raise ExpressionError("An unbound variable")
        return value

    return read


def _unbound(row: Row) -> Value:
    raise ExpressionError("An unbound variable")


def _application(function: Function, arguments: list[Evaluate]) -> Evaluate:
    call = function.call
    match arguments:
        case []:
            return lambda row: call()
        case [only]:
            return lambda row: call(only(row))
        case [first, second]:
            return lambda row: call(first(row), second(row))
        case _:
            return lambda row: call(*[argument(row) for argument in arguments])


def _if(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    test = _test(arguments[0], scope)
    then, otherwise = _value(arguments[1], scope), _value(arguments[2], scope)
    return lambda row: then(row) if test(row) else otherwise(row)


def _coalesce(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    choices = [_value(argument, scope) for argument in arguments]

    def first_without_error(row: Row) -> Value:
        for choice in choices:
            try:
                return choice(row)
            except ExpressionError:
                continue
        raise ExpressionError("COALESCE of nothing but errors")

    return first_without_error


def _now(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    now = scope.now
    return lambda row: now


def _rand(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    draw = scope.random.random
    return lambda row: double(draw())


def _uuid(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    return lambda row: iri(f"urn:uuid:{_new_uuid(scope)}")


def _struuid(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    return lambda row: string(str(_new_uuid(scope)))


def _new_uuid(scope: _Scope) -> uuid.UUID:
    return uuid.UUID(int=scope.random.getrandbits(128), version=4)


def _bnode(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    if not arguments:
        return lambda row: value_of(BlankNode())
    label, nodes = _value(arguments[0], scope), scope.blank_nodes

    def node(row: Row) -> Value:
        name = simple_text_of(label(row))
        known = nodes.get(name)
        if known is None:
            known = nodes[name] = BlankNode()
        return Value(BLANK, known.value, known)

    return node


def _node(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    """Returns a blank node of a template: the same for the same arguments, some of which may be unbound.

    Arguments: a text for the template and the node in it, the solution, and the number of its occurrence.
    """
    parts = [_value(argument, scope) for argument in arguments]

    def text(part: Evaluate, row: Row) -> str:
        try:
            return str(part(row).term)
        except ExpressionError:
            return ""

    def node(row: Row) -> Value:
        # The canonical form of a term contains no line break.
        digest = xxhash.xxh3_128_hexdigest("\n".join([text(part, row) for part in parts]).encode())
        return value_of(BlankNode(f"t{digest}"))

    return node


def _replace(arguments: tuple[Expression, ...], scope: _Scope) -> Evaluate:
    try:
        found = _constant_matcher(arguments[1], arguments[3:])
    except ExpressionError as problem:
        return _failure(problem)
    if found is None:
        return _application(FUNCTIONS["REPLACE"], [_value(argument, scope) for argument in arguments])
    value, replacement, known = _value(arguments[0], scope), _value(arguments[2], scope), found

    def replace(row: Row) -> Value:
        source = value(row)
        return like(source, substitute(known, text_of(source), simple_text_of(replacement(row))))

    return replace


_VALUE_FORMS: dict[str, Callable[[tuple[Expression, ...], _Scope], Evaluate]] = {
    "IF": _if,
    "COALESCE": _coalesce,
    "NOW": _now,
    "RAND": _rand,
    "UUID": _uuid,
    "STRUUID": _struuid,
    "BNODE": _bnode,
    ".NODE": _node,
    "REPLACE": _replace,
}


# Truth values. These closures return a bool, so that a filter creates no value just to test it.


def _test(expression: Expression, scope: _Scope) -> Test:
    if isinstance(expression, Call):
        special = _TEST_FORMS.get(expression.name)
        if special is not None:
            return special(expression.arguments, scope)
        if expression.name in COMPARISONS:
            return _comparison(expression, scope)
        function = FUNCTIONS.get(expression.name)
        if function is not None and function.is_test:
            return _test_application(function, expression.arguments, scope)
    evaluate = _value(expression, scope)
    return lambda row: effective_boolean(evaluate(row))


def _test_application(function: Function, arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    apply: Callable[[Row], Any] = _application(function, [_value(argument, scope) for argument in arguments])
    return apply


def _and(arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    """False wins over an error (§17.2)."""
    return _connective("&&", arguments, scope, decisive=False)


def _or(arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    """True wins over an error (§17.2)."""
    return _connective("||", arguments, scope, decisive=True)


def _connective(name: str, arguments: tuple[Expression, ...], scope: _Scope, *, decisive: bool) -> Test:
    """Combines truth values: the decisive one wins over an error, and an error over the other one."""
    tests = [_test(operand, scope) for operand in operands(name, arguments)]

    def combine(row: Row) -> bool:
        failure: ExpressionError | None = None
        for test in tests:
            try:
                if test(row) is decisive:
                    return decisive
            except ExpressionError as error:
                failure = error
        if failure is not None:
            raise failure
        return not decisive

    return combine


def operands(name: str, arguments: tuple[Expression, ...]) -> list[Expression]:
    """Returns the operands of a chain of one connective, without recursion, however long it is."""
    found: list[Expression] = []
    pending = list(reversed(arguments))
    while pending:
        part = pending.pop()
        if isinstance(part, Call) and part.name == name:
            pending.extend(reversed(part.arguments))
        else:
            found.append(part)
    return found


def _not(arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    test = _test(arguments[0], scope)
    return lambda row: not test(row)


def _bound(arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    assert isinstance(arguments[0], Var), "check_expression lets nothing else through"
    position = scope.positions.get(arguments[0])
    if position is None:
        return lambda row: False
    return lambda row: row[position] is not None


def _in(arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    """A disjunction of equalities: an error counts only if no item is equal (§17.4.1.9)."""
    sought = _value(arguments[0], scope)
    members = [_value(argument, scope) for argument in arguments[1:]]

    def is_member(row: Row) -> bool:
        value = sought(row)
        failure: ExpressionError | None = None
        for member in members:
            try:
                if equals(value, member(row)):
                    return True
            except ExpressionError as error:
                failure = error
        if failure is not None:
            raise failure
        return False

    return is_member


def _not_in(arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    is_member = _in(arguments, scope)
    return lambda row: not is_member(row)


def _regex(arguments: tuple[Expression, ...], scope: _Scope) -> Test:
    try:
        found = _constant_matcher(arguments[1], arguments[2:])
    except ExpressionError as problem:
        return _failure(problem)
    if found is None:
        return _test_application(FUNCTIONS["REGEX"], arguments, scope)
    value, matches = _value(arguments[0], scope), found.matches
    return lambda row: matches(text_of(value(row)))


def _failure(problem: ExpressionError) -> Callable[[Row], NoReturn]:
    """Makes an invalid constant pattern an error of every row, not of the query."""
    sentence = str(problem)

    def fail(row: Row) -> NoReturn:
        raise ExpressionError(sentence)

    return fail


def _constant_matcher(pattern: Expression, flags: tuple[Expression, ...]) -> Matcher | None:
    """Returns None if the pattern or the flags depend on the row, or are not strings."""
    texts = []
    for part in (pattern, *flags):
        value = value_of(part.term) if isinstance(part, Constant) else None
        if value is None or value.kind != STRING:
            return None
        texts.append(value.value)
    return matcher(texts[0], texts[1] if flags else "")


_TEST_FORMS: dict[str, Callable[[tuple[Expression, ...], _Scope], Test]] = {
    "&&": _and,
    "||": _or,
    "!": _not,
    "BOUND": _bound,
    "IN": _in,
    "NOT IN": _not_in,
    "REGEX": _regex,
}


# Comparisons


def _comparison(call: Call, scope: _Scope) -> Test:
    """Compiles a comparison; with a variable and a constant, it compares Python values directly."""
    name, (left, right) = call.name, call.arguments
    if isinstance(left, Constant) and isinstance(right, Var):
        name, left, right = MIRRORED[name], right, left
    if isinstance(left, Var) and isinstance(right, Constant) and left in scope.positions:
        return _comparison_with_constant(name, scope.positions[left], value_of(right.term))
    first, second, compare = _value(left, scope), _value(right, scope), COMPARISONS[name]
    return lambda row: compare(first(row), second(row))


def _comparison_with_constant(name: str, position: int, constant: Value) -> Test:
    compare, relation, content = COMPARISONS[name], RELATIONS[name], constant.value
    # The kinds whose Python values can be compared directly with the constant's; everything that needs
    # promotion or is an error takes the general path.
    if constant.kind <= DECIMAL:
        return _comparison_with_exact_number(name, position, constant)
    elif constant.kind == DOUBLE:
        lowest, highest = int(FLOAT), int(DOUBLE)
    elif constant.kind == STRING or (constant.kind == IRI and name in ("=", "!=")):
        lowest = highest = int(constant.kind)
    else:
        lowest, highest = 1, 0  # none

    def test(row: Row) -> bool:
        value = row[position]
        if value is None:
            raise ExpressionError("An unbound variable")
        if lowest <= value.kind <= highest:
            return relation(value.value, content)
        return compare(value, constant)

    return test


def _comparison_with_exact_number(name: str, position: int, constant: Value) -> Test:
    compare, relation, content = COMPARISONS[name], RELATIONS[name], constant.value
    promoted = to_double(content)

    def test(row: Row) -> bool:
        value = row[position]
        if value is None:
            raise ExpressionError("An unbound variable")
        kind = value.kind
        if kind <= DECIMAL:
            return relation(value.value, content)
        if kind is DOUBLE:
            return relation(value.value, promoted)
        return compare(value, constant)

    return test
