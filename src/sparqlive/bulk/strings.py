"""Writes functions on strings in SQL, where characters and positions agree with Python.

A string is its characters and its language tag, NULL for none. Invariants: NULL characters are an error;
positions count characters.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparqlive.bulk.dialect import number
from sparqlive.bulk.operand import CHARACTERS, LONGEST, Operand, Writing, string_operand
from sparqlive.sparql.values import INTEGER, LANGSTRING, STRING

_FARTHEST = number(2**31 - 1)
"""Spark's positions have 32 bits."""


def string_test(name: str, text: Operand, sought: Operand, writing: Writing) -> str:
    """Writes STRSTARTS, STRENDS or CONTAINS; NULL for an error."""
    one, other = _compatible(text, sought)
    dialect = writing.dialect
    if name == "CONTAINS":
        return f"contains({one}, {other})"
    return (dialect.starts_with if name == "STRSTARTS" else dialect.ends_with)(one, other)


def _compatible(text: Operand, other: Operand) -> tuple[str, str]:
    """Writes the characters of both; those of the second are NULL if its language tag is another."""
    characters = other.cell(CHARACTERS)
    if not other.may_be(LANGSTRING, LANGSTRING):
        return text.cell(CHARACTERS), characters
    alike = f"{other.kind} = {STRING:d} OR {text.cell('language')} = {other.cell('language')}"
    return text.cell(CHARACTERS), f"(CASE WHEN {alike} THEN {characters} END)"


def cased(name: str, text: Operand, writing: Writing) -> Operand:
    """Writes UCASE or LCASE of ASCII; for other characters, backends have tables of their own."""
    characters = text.cell(CHARACTERS)
    writing.doubts.append(f"{writing.dialect.bytes_of(characters)} <> length({characters})")
    function = "upper" if name == "UCASE" else "lower"
    return _like(text, f"{function}({characters})", writing)


def part(text: Operand, start: Operand, count: Operand | None, writing: Writing) -> Operand:
    """Writes SUBSTR: the characters from the start, which may lie before the text."""
    step, plus = writing.step, writing.dialect.arithmetic_or_null
    first = step(f"greatest({_position(start, writing)}, 1)")
    if count is None:
        length = _FARTHEST
    else:
        end = step(plus("+", _position(start, writing), _position(count, writing)))
        writing.doubts.append(f"{end} IS NULL AND {start.kind} = {INTEGER:d} AND {count.kind} = {INTEGER:d}")
        length = f"least(greatest({end} - {first}, 0), {_FARTHEST})"
    place = f"least({first}, {_FARTHEST})"
    characters = step(f"substring({text.cell(CHARACTERS)}, CAST({place} AS INT), CAST({length} AS INT))")
    # A position that is not an integer is an error, although the functions above ignore a NULL.
    known = [f"{operand.kind} = {INTEGER:d}" for operand in (start, count) if operand is not None]
    return _like(text, f"CASE WHEN {' AND '.join(known)} THEN {characters} END", writing)


def _position(operand: Operand, writing: Writing) -> str:
    writing.doubts.append(f"{operand.kind} = {INTEGER:d} AND {operand.cell('whole')} IS NULL")
    return operand.cell("whole")


def divided(name: str, text: Operand, separator: Operand, writing: Writing) -> Operand:
    """Writes STRBEFORE or STRAFTER: simple and empty without a match."""
    step = writing.step
    one, other = map(step, _compatible(text, separator))
    place = step(f"CAST(instr({one}, {other}) AS BIGINT)")
    if name == "STRBEFORE":
        found = f"substring({one}, 1, CAST({place} - 1 AS INT))"
    else:
        found = f"substring({one}, CAST({place} + length({other}) AS INT), CAST({_FARTHEST} AS INT))"
    language = f"CASE WHEN {place} > 0 THEN {text.cell('language')} END"
    characters = step(f"CASE WHEN {place} > 0 THEN {found} WHEN {place} = 0 THEN '' END")
    return _made(characters, language if text.may_be(LANGSTRING, LANGSTRING) else None, writing)


def concatenated(texts: Sequence[Operand], writing: Writing) -> Operand:
    """Writes CONCAT: with a language tag if all texts have it."""
    step = writing.step
    parts = [step(text.cell(CHARACTERS)) for text in texts]
    characters = step(" || ".join(parts))
    lengths = " + ".join(writing.dialect.bytes_of(part) for part in parts)
    writing.doubts.append(f"{lengths} > {number(LONGEST)}")
    if not all(text.may_be(LANGSTRING, LANGSTRING) for text in texts):
        return _made(characters, None, writing)
    tags = [text.cell("language") for text in texts]
    alike = " AND ".join(f"{tag} = {tags[0]}" for tag in tags)
    return _made(characters, f"CASE WHEN {alike} THEN {tags[0]} END", writing)


def _like(text: Operand, characters: str, writing: Writing) -> Operand:
    """Makes a string with the language tag of another."""
    return _made(characters, text.cell("language") if text.may_be(LANGSTRING, LANGSTRING) else None, writing)


def _made(characters: str, language: str | None, writing: Writing) -> Operand:
    named, text = None if language is None else writing.step(language), writing.step(characters)
    writing.doubts.append(f"{writing.dialect.bytes_of(text)} > {number(LONGEST)}")
    return string_operand(text, named, writing)
