"""Operands of native expressions, and SQL for two of them: comparisons and exact arithmetic.

An operand is a term with its typed columns: a variable, a constant, or a computed number. Invariants: a
comparison is NULL where SPARQL has an error; `Doubts` covers every case in which SQL and Python would differ,
so that Python decides these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sparqlive.bulk.dialect import Dialect, number
from sparqlive.sparql.columns import UNIT, Typed
from sparqlive.sparql.functions.logic import MIRRORED
from sparqlive.sparql.values import (
    BOOLEAN,
    DATETIME,
    DAY_TIME_DURATION,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    ILL_TYPED,
    INTEGER,
    LANGSTRING,
    OTHER,
    STRING,
    TIME,
)

_WIDEST_ZONE = 14 * 3600 * 10**6
_UNIT = number(UNIT)

Doubts = list[str]
"""Conditions, possibly NULL, under which a row is left to Python."""


@dataclass(frozen=True)
class Operand:
    """A term: `cell` gives the SQL of a typed column, `id` that of its id. `constant` is set if it is one."""

    cell: Callable[[str], str]
    id: str | None = None
    constant: Typed | None = None
    computed: bool = field(default=False)

    @property
    def kind(self) -> str:
        return self.cell("kind")


def constant_operand(typed: Typed, number_: str) -> Operand:
    def cell(name: str) -> str:
        value = getattr(typed, name)
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return f"CAST('{value!r}' AS DOUBLE)"
        return number(int(value))

    return Operand(cell, number_, typed)


def computed_operand(kind: str, whole: str, fraction: str) -> Operand:
    """A number, or an error where the kind is NULL."""
    cells = {"kind": kind, "whole": whole, "fraction": fraction, "nearest": "CAST(NULL AS DOUBLE)"}
    return Operand(cells.__getitem__, computed=True)


# Comparisons


def comparison(sign: str, left: Operand, right: Operand, doubts: Doubts) -> str | None:
    """`= != < > <= >=` as SQL, NULL for an error; None if it is all left to Python."""
    if left.constant is not None:
        sign, left, right = MIRRORED[sign], right, left
    cases: list[tuple[str, str]] = []
    numbers = _numbers(sign, left, right, doubts)
    if numbers is None:
        return None
    cases += numbers
    if not (left.computed or right.computed or _is_number(right)):
        others = _same_kinds(sign, left, right, doubts)
        if others is None:
            return None
        cases += others
    if sign in ("=", "!="):
        cases += _unlike(left, right, "false" if sign == "=" else "true")
    whens = " ".join(f"WHEN {condition} THEN {result}" for condition, result in cases)
    return f"(CASE {whens} END)" if whens else "CAST(NULL AS BOOLEAN)"


def _is_number(operand: Operand) -> bool:
    return operand.constant is not None and operand.constant.kind <= DOUBLE


def _is_no_number(operand: Operand) -> bool:
    return operand.constant is not None and operand.constant.kind > DOUBLE


def _numbers(sign: str, left: Operand, right: Operand, doubts: Doubts) -> list[tuple[str, str]] | None:
    """Exact numbers are compared exactly, others as doubles; a float and an exact number by Python."""
    if _is_no_number(right):
        return []
    exact = f"{left.kind} <= {DECIMAL:d} AND {right.kind} <= {DECIMAL:d}"
    numeric = f"{left.kind} <= {DOUBLE:d} AND {right.kind} <= {DOUBLE:d}"
    if right.constant is not None:
        constant = right.constant
        if constant.kind == FLOAT or (constant.kind <= DECIMAL and constant.whole is None):
            return None
        if constant.kind == DOUBLE and constant.nearest != constant.nearest:
            return None
    if left.computed or right.computed:
        # A number that was computed is exact: its nearest double is not known.
        doubts.append(f"{left.kind} <= {DOUBLE:d} AND {right.kind} <= {DOUBLE:d} AND NOT ({exact})")
        doubts.append(f"{exact} AND ({left.cell('whole')} IS NULL OR {right.cell('whole')} IS NULL)")
        return [(exact, _exactly(sign, left, right)), (numeric, "NULL")]
    doubts.append(f"{exact} AND ({left.cell('whole')} IS NULL OR {right.cell('whole')} IS NULL)")
    lesser, greater = (f"{function}({left.kind}, {right.kind})" for function in ("least", "greatest"))
    doubts.append(f"{lesser} <= {DECIMAL:d} AND {greater} = {FLOAT:d}")
    return [(exact, _exactly(sign, left, right)), (numeric, _approximately(sign, left, right))]


def _exactly(sign: str, left: Operand, right: Operand) -> str:
    one, other = (operand.cell("whole") for operand in (left, right))
    rest, other_rest = (operand.cell("fraction") for operand in (left, right))
    if sign == "=":
        return f"({one} = {other} AND {rest} = {other_rest})"
    if sign == "!=":
        return f"({one} <> {other} OR {rest} <> {other_rest})"
    return f"({one} {sign[0]} {other} OR ({one} = {other} AND {rest} {sign} {other_rest}))"


def _approximately(sign: str, left: Operand, right: Operand) -> str:
    """As doubles. SQL takes NaN for a number that equals itself and is greater than all others."""
    one, other = left.cell("nearest"), right.cell("nearest")
    nans = " OR ".join(f"isnan({cell})" for o, cell in ((left, one), (right, other)) if o.constant is None)
    relation = "<>" if sign == "!=" else sign
    answer = "true" if sign == "!=" else "false"
    return f"CASE WHEN {nans} THEN {answer} ELSE {one} {relation} {other} END"


def _same_kinds(sign: str, left: Operand, right: Operand, doubts: Doubts) -> list[tuple[str, str]] | None:
    """Of terms of one kind that are no numbers: truth values, dates and times; strings by their ids."""
    constant = right.constant
    cases: list[tuple[str, str]] = []
    relation = "<>" if sign == "!=" else sign
    if constant is None or constant.kind == BOOLEAN:
        both = f"{left.kind} = {BOOLEAN:d} AND {right.kind} = {BOOLEAN:d}"
        cases.append((both, f"{left.cell('truth')} {relation} {right.cell('truth')}"))
    if constant is None or DATETIME <= constant.kind <= TIME:
        if constant is not None and constant.instant is None:
            return None
        cases += _moments(relation, left, right, doubts)
    is_equality = sign in ("=", "!=")
    if constant is None:
        doubts.append(_both_durations(left, right, is_equality))
        if not is_equality:
            strings = f"{left.kind} BETWEEN {STRING:d} AND {LANGSTRING:d}"
            doubts.append(f"{strings} AND {left.kind} = {right.kind}")
    elif DAY_TIME_DURATION <= constant.kind <= DURATION or (
        not is_equality and constant.kind in (STRING, LANGSTRING)
    ):
        return None
    return cases


def _both_durations(left: Operand, right: Operand, is_equality: bool) -> str:
    spans = " AND ".join(
        f"{operand.kind} BETWEEN {DAY_TIME_DURATION:d} AND {DURATION:d}" for operand in (left, right)
    )
    return f"{spans} AND {left.id} <> {right.id}" if is_equality else spans


def _moments(relation: str, left: Operand, right: Operand, doubts: Doubts) -> list[tuple[str, str]]:
    """Without a timezone the clock may be up to 14 hours off; within these the order is an error."""
    both = f"{left.kind} BETWEEN {DATETIME:d} AND {TIME:d} AND {left.kind} = {right.kind}"
    one, other = left.cell("instant"), right.cell("instant")
    doubts.append(f"{both} AND ({one} IS NULL OR {other} IS NULL)")
    alike = f"({left.cell('zone')} IS NULL) = ({right.cell('zone')} IS NULL)"
    apart = f"abs({one} - {other}) > {number(_WIDEST_ZONE)}"
    return [
        (f"{both} AND ({alike} OR {apart})", f"{one} {relation} {other}"),
        (both, "CAST(NULL AS BOOLEAN)"),
    ]


def _unlike(left: Operand, right: Operand, different: str) -> list[tuple[str, str]]:
    """`=` of what is left: a term equals itself; literals without a known value are an error else."""
    cases = [(f"{left.kind} IS NULL OR {right.kind} IS NULL", "NULL")]
    if left.id is not None and right.id is not None:
        same = "true" if different == "false" else "false"
        cases.append((f"{left.id} = {right.id}", same))
    kinds = f"greatest({left.kind}, {right.kind})"
    tagged = f"{left.kind} = {LANGSTRING:d} OR {right.kind} = {LANGSTRING:d}"
    cases.append((f"{kinds} > {ILL_TYPED:d} OR {tagged}", different))
    cases.append((f"{kinds} >= {OTHER:d}", "NULL"))
    return [*cases, ("true", different)]


# Arithmetic


def arithmetic(sign: str, left: Operand, right: Operand, dialect: Dialect, doubts: Doubts) -> Operand:
    """`+`, `-` or `*` of exact numbers. All that is no error for certain, and does not fit, is in doubt."""
    whole, fraction, other, other_fraction = (
        operand.cell(name) for operand in (left, right) for name in ("whole", "fraction")
    )
    # Every part is mentioned once per column, so that nested sums do not double their text at each level.
    if sign == "*":
        plain = f"({fraction} = 0 AND {other_fraction} = 0)"
        result = f"CASE WHEN {plain} THEN {dialect.arithmetic_or_null('*', whole, other)} END"
        rest = number(0)
    else:
        if sign == "+":
            carry = (
                f"CASE WHEN {fraction} + {other_fraction} >= {_UNIT} THEN {number(1)} ELSE {number(0)} END"
            )
            rest = f"(({fraction} + {other_fraction}) % {_UNIT})"
        else:
            carry = f"CASE WHEN {fraction} < {other_fraction} THEN {number(-1)} ELSE {number(0)} END"
            rest = f"(({fraction} - {other_fraction} + {_UNIT}) % {_UNIT})"
        result = dialect.arithmetic_or_null("+", dialect.arithmetic_or_null(sign, whole, other), carry)
    kind = f"({_exact_kind(left)} | {_exact_kind(right)})"
    doubts.append(
        f"{left.kind} IS NOT NULL AND {right.kind} IS NOT NULL AND ({kind} IS NULL OR {result} IS NULL)"
    )
    return computed_operand(kind, result, rest)


def _exact_kind(operand: Operand) -> str:
    """The kind if it is that of an exact number, else NULL."""
    if operand.constant is not None:
        return str(int(operand.constant.kind)) if operand.constant.kind <= DECIMAL else "NULL"
    return (
        operand.kind
        if operand.computed
        else f"CASE WHEN {operand.kind} <= {DECIMAL:d} THEN {operand.kind} END"
    )


def negated(operand: Operand, dialect: Dialect, doubts: Doubts) -> Operand:
    zero = Typed(INTEGER, 0, 0, 0.0, truth=False)
    return arithmetic("-", constant_operand(zero, number(0)), operand, dialect, doubts)


def literal_text(operand: Operand) -> str:
    """The canonical text of a computed number; NULL for an error."""
    kind, whole, fraction = operand.kind, operand.cell("whole"), operand.cell("fraction")
    is_below = f"{whole} < 0 AND {fraction} > 0"
    integral = f"CASE WHEN {is_below} THEN -({whole} + 1) ELSE {whole} END"
    places = f"CASE WHEN {is_below} THEN {_UNIT} - {fraction} ELSE {fraction} END"
    sign = f"CASE WHEN {is_below} THEN '-' ELSE '' END"
    digits = f"regexp_replace(lpad(CAST({places} AS STRING), 18, '0'), '0+$', '')"
    point = f"CASE WHEN {fraction} = 0 THEN '' ELSE concat('.', {digits}) END"
    decimal = f"concat({sign}, CAST({integral} AS STRING), {point})"
    xsd = "http://www.w3.org/2001/XMLSchema#"
    return (
        f"CASE WHEN {kind} = {INTEGER:d} THEN concat('\"', CAST({whole} AS STRING), '\"^^<{xsd}integer>') "
        f"WHEN {kind} = {DECIMAL:d} THEN concat('\"', {decimal}, '\"^^<{xsd}decimal>') END"
    )
