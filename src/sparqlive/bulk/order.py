"""Orders terms (`sparql.ordering`) by typed columns, as far as SQL can decide.

A position consists of a family of terms, a number and a text. Invariant: if one term comes before another,
its position is not later. Python decides between terms with the same position, such as 1 and 1.0.
"""

from __future__ import annotations

from sparqlive.bulk.solutions import column
from sparqlive.bulk.typed import TEXT, typed_column
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.values import (
    BLANK,
    BOOLEAN,
    DATETIME,
    DAY_TIME_DURATION,
    DOUBLE,
    DURATION,
    IRI,
    LANGSTRING,
    STRING,
    TIME,
)

READ = ("kind", "nearest", "truth", "language", "content", TEXT)
"""The typed columns that determine a position."""


def place(variable: Var) -> tuple[str, str, str]:
    """Writes the family, the number and the text of a variable's term; an unbound variable comes first."""
    kind, nearest, truth, term = (typed_column(variable, n) for n in ("kind", "nearest", "truth", TEXT))
    family = (
        f"CASE WHEN {column(variable)} = 0 THEN 0 "
        f"WHEN {kind} = {BLANK:d} THEN 1 WHEN {kind} = {IRI:d} THEN 2 "
        f"WHEN {kind} <= {DOUBLE:d} THEN CASE WHEN isnan({nearest}) THEN 3 ELSE 4 END "
        f"WHEN {kind} BETWEEN {DAY_TIME_DURATION:d} AND {DURATION:d} THEN {DAY_TIME_DURATION + 1} "
        f"ELSE CAST({kind} AS INT) + 1 END"
    )
    number = (
        f"CASE WHEN {kind} <= {DOUBLE:d} AND NOT isnan({nearest}) THEN {nearest} "
        f"WHEN {kind} BETWEEN {DATETIME:d} AND {TIME:d} THEN {nearest} "
        f"WHEN {kind} = {BOOLEAN:d} AND {truth} THEN 1.0 ELSE 0.0 END"
    )
    text = (
        f"CASE WHEN {kind} = {STRING:d} THEN {string_content(variable)} "
        f"WHEN {kind} = {LANGSTRING:d} THEN {tagged_content(variable)} "
        f"WHEN {kind} = {IRI:d} THEN substring({term}, 2, length({term}) - 2) "
        f"WHEN {kind} = {BLANK:d} THEN substring({term}, 3) ELSE '' END"
    )
    return family, f"CAST({number} AS DOUBLE)", text


def string_content(variable: Var) -> str:
    """Writes the characters of a simple literal."""
    content, term = typed_column(variable, "content"), typed_column(variable, TEXT)
    return f"coalesce({content}, substring({term}, 2, length({term}) - 2))"


def tagged_content(variable: Var) -> str:
    """Writes the characters of a language-tagged string; its text also has two quotes, an @ and the tag."""
    content, term = typed_column(variable, "content"), typed_column(variable, TEXT)
    tag = typed_column(variable, "language")
    return f"coalesce({content}, substring({term}, 2, length({term}) - 3 - length({tag})))"
