"""Writes comparisons of operands in SQL: `= != < > <= >=`, with NULL where SPARQL has an error.

Compares kind by kind the terms that the two sides may be: numbers, truth values, dates and times, strings. A
case that SQL would decide differently from Python is a doubt.
"""

from __future__ import annotations

from sparqlive.bulk.dialect import number
from sparqlive.bulk.operand import CHARACTERS, Operand, Writing
from sparqlive.sparql.functions.logic import MIRRORED
from sparqlive.sparql.values import (
    BLANK,
    BOOLEAN,
    DATETIME,
    DAY_TIME_DURATION,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    ILL_TYPED,
    LANGSTRING,
    OTHER,
    STRING,
    TIME,
)

_WIDEST_ZONE = 14 * 3600 * 10**6

Cases = list[tuple[str, str]]
"""Conditions with their results; the first condition that holds decides."""


def comparison(sign: str, left: Operand, right: Operand, writing: Writing) -> str | None:
    """Writes a comparison as SQL; None if Python must decide every row."""
    if left.constant is not None:
        sign, left, right = MIRRORED[sign], right, left
    is_equality = sign in ("=", "!=")
    if _is_beyond(left) or _is_beyond(right):
        return None
    cases: Cases = []
    for first, last, compare in (
        (0, DOUBLE, _numbers),
        (STRING, LANGSTRING, _strings),
        (BOOLEAN, BOOLEAN, _truths),
        (DATETIME, TIME, _moments),
        (DAY_TIME_DURATION, DURATION, _durations),
    ):
        if left.may_be(first, last) and right.may_be(first, last):
            found = compare(sign, left, right, writing)
            if found is None:
                return None
            cases += found
    if is_equality:
        cases += _unlike(left, right, "false" if sign == "=" else "true")
    whens = " ".join(f"WHEN {condition} THEN {result}" for condition, result in cases)
    return f"(CASE {whens} END)" if whens else "CAST(NULL AS BOOLEAN)"


def _is_beyond(operand: Operand) -> bool:
    """Returns whether an operand may be a term that only its id identifies, but has no id."""
    return operand.id is None and operand.may_be(DAY_TIME_DURATION, BLANK)


def _relation(sign: str) -> str:
    return "<>" if sign == "!=" else sign


def _numbers(sign: str, left: Operand, right: Operand, writing: Writing) -> Cases | None:
    """Compares exact numbers exactly, others as doubles; Python compares a float with an exact number."""
    exact = f"{left.kind} <= {DECIMAL:d} AND {right.kind} <= {DECIMAL:d}"
    numeric = f"{left.kind} <= {DOUBLE:d} AND {right.kind} <= {DOUBLE:d}"
    if right.constant is not None:
        constant = right.constant
        if constant.kind == FLOAT or (constant.kind <= DECIMAL and constant.whole is None):
            return None
        if constant.kind == DOUBLE and constant.nearest != constant.nearest:
            return None
    writing.doubts.append(f"{exact} AND ({left.cell('whole')} IS NULL OR {right.cell('whole')} IS NULL)")
    lesser, greater = (f"{function}({left.kind}, {right.kind})" for function in ("least", "greatest"))
    writing.doubts.append(f"{lesser} <= {DECIMAL:d} AND {greater} = {FLOAT:d}")
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
    """Compares as doubles. SQL takes NaN for a number that equals itself and is greater than all others."""
    one, other = left.cell("nearest"), right.cell("nearest")
    nans = " OR ".join(f"isnan({cell})" for o, cell in ((left, one), (right, other)) if o.constant is None)
    answer = "true" if sign == "!=" else "false"
    return f"CASE WHEN {nans} THEN {answer} ELSE {one} {_relation(sign)} {other} END"


def _strings(sign: str, left: Operand, right: Operand, writing: Writing) -> Cases | None:
    """Compares ids or characters: the bytes of UTF-8 sort like the code points.

    Python orders two terms that need not be strings, so that their texts need not be read.
    """
    is_equality = sign in ("=", "!=")
    if is_equality and left.id is not None and right.id is not None:
        return []
    same = f"{left.kind} = {right.kind}"
    if not any(operand.must_be(STRING, LANGSTRING) for operand in (left, right)):
        writing.doubts.append(f"{left.kind} BETWEEN {STRING:d} AND {LANGSTRING:d} AND {same}")
        return []
    characters = f"({left.cell(CHARACTERS)} {_relation(sign)} {right.cell(CHARACTERS)})"
    cases = [(f"{left.kind} = {STRING:d} AND {same}", characters)]
    if left.may_be(LANGSTRING, LANGSTRING) and right.may_be(LANGSTRING, LANGSTRING):
        alike = f"{left.cell('language')} = {right.cell('language')}"
        cases.append((f"{left.kind} = {LANGSTRING:d} AND {same} AND {alike}", characters))
    return cases


def _truths(sign: str, left: Operand, right: Operand, writing: Writing) -> Cases:
    both = f"{left.kind} = {BOOLEAN:d} AND {right.kind} = {BOOLEAN:d}"
    return [(both, f"{left.cell('truth')} {_relation(sign)} {right.cell('truth')}")]


def _moments(sign: str, left: Operand, right: Operand, writing: Writing) -> Cases | None:
    """Without a timezone, the clock may be off by up to 14 hours; within that range the order is an error."""
    if right.constant is not None and right.constant.instant is None:
        return None
    both = f"{left.kind} BETWEEN {DATETIME:d} AND {TIME:d} AND {left.kind} = {right.kind}"
    one, other = left.cell("instant"), right.cell("instant")
    writing.doubts.append(f"{both} AND ({one} IS NULL OR {other} IS NULL)")
    alike = f"({left.cell('zone')} IS NULL) = ({right.cell('zone')} IS NULL)"
    apart = f"abs({one} - {other}) > {number(_WIDEST_ZONE)}"
    return [
        (f"{both} AND ({alike} OR {apart})", f"{one} {_relation(sign)} {other}"),
        (both, "CAST(NULL AS BOOLEAN)"),
    ]


def _durations(sign: str, left: Operand, right: Operand, writing: Writing) -> Cases | None:
    if right.constant is not None:
        return None
    spans = " AND ".join(
        f"{operand.kind} BETWEEN {DAY_TIME_DURATION:d} AND {DURATION:d}" for operand in (left, right)
    )
    is_equality = sign in ("=", "!=")
    writing.doubts.append(f"{spans} AND {left.id} <> {right.id}" if is_equality else spans)
    return []


def _unlike(left: Operand, right: Operand, different: str) -> Cases:
    """Decides `=` of the other terms: a term equals itself; literals of unknown value are an error."""
    cases = [(f"{left.kind} IS NULL OR {right.kind} IS NULL", "NULL")]
    if left.id is not None and right.id is not None:
        same = "true" if different == "false" else "false"
        cases.append((f"{left.id} = {right.id}", same))
    kinds = f"greatest({left.kind}, {right.kind})"
    tagged = f"{left.kind} = {LANGSTRING:d} OR {right.kind} = {LANGSTRING:d}"
    cases.append((f"{kinds} > {ILL_TYPED:d} OR {tagged}", different))
    cases.append((f"{kinds} >= {OTHER:d}", "NULL"))
    return [*cases, ("true", different)]
