"""Represents operands of native expressions: terms by their typed columns, and values computed from them.

An operand is a variable, a constant, or computed: a number, a string, a truth value, or a choice between
others. `cell` writes the SQL of one of its columns, which are those of `Typed` and the three below. `Writing`
collects what an expression needs. Invariants: a cell is NULL where it does not apply, and the kind is NULL
for an error in SPARQL; `doubts` covers every case in which SQL and Python would differ, so that Python
decides these rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sparqlive.bulk.dialect import Dialect, number
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.typed import TEXT
from sparqlive.sparql.algebra import Term
from sparqlive.sparql.columns import Typed, typed_value
from sparqlive.sparql.values import BLANK, BOOLEAN, DOUBLE, LANGSTRING, STRING, value_of

CHARACTERS = "characters"
"""The column of the characters of a string, with or without a language tag."""
SIGNED = "signed"
"""The column of a number as a double, with the sign of zero."""
_STEP = re.compile(r"\bn_([0-9]+)\b")
_ALL_KINDS = range(BLANK + 1)
_STRINGS, _TRUTHS = range(STRING, LANGSTRING + 1), range(BOOLEAN, BOOLEAN + 1)


@dataclass
class Writing:
    """Shared state of the expressions over a source: the dialect, named steps, and doubts.

    doubts: conditions, possibly NULL, of rows that Python decides.
    """

    dialect: Dialect
    doubts: list[str] = field(default_factory=list)
    _steps: dict[str, str] = field(default_factory=dict)

    def step(self, sql: str) -> str:
        """Adds a column that computes this value once, however often it is used; returns its name."""
        return self._steps.setdefault(sql, f"n_{len(self._steps)}")

    def with_steps(self, frame: Frame) -> Frame:
        """Adds the columns of all steps to a frame; each step is computed before those that use it."""
        levels: dict[str, int] = {}
        for sql, name in self._steps.items():
            mentioned = (f"n_{place}" for place in _STEP.findall(sql))
            levels[name] = 1 + max((levels.get(other, 0) for other in mentioned), default=0)
        for level in range(1, max(levels.values(), default=0) + 1):
            steps = {name: sql for sql, name in self._steps.items() if levels[name] == level}
            frame = frame.stacked([list(steps.values())], list(steps), *frame.columns)
        return frame


_TYPES = {"nearest": "DOUBLE", SIGNED: "DOUBLE", "truth": "BOOLEAN"} | dict.fromkeys(
    ("language", "content", CHARACTERS, TEXT), "STRING"
)


def nothing(name: str) -> str:
    """Writes NULL in the type of a column."""
    return f"CAST(NULL AS {_TYPES.get(name, 'BIGINT')})"


@dataclass(frozen=True)
class Operand:
    """A term: `id` is the SQL of its id if it has one; `kinds` are the kinds it can have."""

    cell: Callable[[str], str]
    id: str | None = None
    constant: Typed | None = None
    kinds: range = _ALL_KINDS

    @property
    def kind(self) -> str:
        return self.cell("kind")

    def may_be(self, first: int, last: int) -> bool:
        """Returns whether its kind may be in this range."""
        return self.kinds.start <= last and first < self.kinds.stop

    def must_be(self, first: int, last: int) -> bool:
        return first <= self.kinds.start and self.kinds.stop - 1 <= last


def constant_operand(term: Term, number_: str, dialect: Dialect) -> Operand:
    value = value_of(term)
    typed = typed_value(value)

    def cell(name: str) -> str:
        if name == TEXT:
            return dialect.text(str(term))
        if name == CHARACTERS:
            return dialect.text(value.value) if value.kind in _STRINGS else nothing(name)
        found = getattr(typed, "nearest" if name == SIGNED else name)
        if found is None:
            return nothing(name)
        if isinstance(found, bool):
            return "true" if found else "false"
        if isinstance(found, float):
            sign = "-" if name == SIGNED and typed.content is not None and value.value == 0 else ""
            return f"CAST('{sign}{found!r}' AS DOUBLE)"
        return dialect.text(found) if isinstance(found, str) else number(int(found))

    return Operand(cell, number_, typed, range(typed.kind, typed.kind + 1))


def number_operand(cells: dict[str, Callable[[], str]]) -> Operand:
    """Makes a number: kind, whole, fraction, and as a double with the sign of zero."""

    def cell(name: str) -> str:
        if name == "nearest":
            return cells[SIGNED]()
        if name == "truth":
            signed = cells[SIGNED]()
            exact = f"({cells['whole']()} <> 0 OR {cells['fraction']()} <> 0)"
            return f"coalesce({exact}, {signed} <> 0 AND NOT isnan({signed}))"
        return cells[name]() if name in cells else nothing(name)

    return Operand(cell, kinds=range(DOUBLE + 1))


def string_operand(characters: str, language: str | None, writing: Writing) -> Operand:
    """Makes a computed string; NULL characters are an error, a NULL language stands for a simple literal."""
    kind = f"{STRING:d}" if language is None else f"if({language} IS NULL, {STRING:d}, {LANGSTRING:d})"
    cells = {
        "kind": f"CASE WHEN {characters} IS NOT NULL THEN {kind} END",
        "language": language or nothing("language"),
        "truth": f"({characters} <> '')",
        CHARACTERS: characters,
    }

    def cell(name: str) -> str:
        if name == TEXT:
            return _string_text(characters, language, writing)
        return cells.get(name) or nothing(name)

    return Operand(cell, kinds=range(STRING, STRING + 1) if language is None else _STRINGS)


def _string_text(characters: str, language: str | None, writing: Writing) -> str:
    """Writes the canonical text, unless it needs escapes."""
    dialect = writing.dialect
    writing.doubts.append(dialect.matches(characters, _ESCAPED))
    tag = "" if language is None else f" || coalesce('@' || {language}, '')"
    return f"""('"' || {characters} || '"'{tag})"""


_ESCAPED = '[\\x00-\\x1f"\\\\\\x7f\ufffe\uffff]'
LONGEST = 2**20
"""Maximum number of bytes of a computed string; longer ones are doubts."""


def truth_operand(condition: str, true: str, false: str) -> Operand:
    """Makes a truth value; a NULL condition is an error."""
    cells = {
        "kind": f"CASE WHEN {condition} IS NOT NULL THEN {BOOLEAN:d} END",
        "truth": condition,
        TEXT: f"CASE WHEN {condition} THEN '{true}' WHEN NOT {condition} THEN '{false}' END",
    }
    return Operand(lambda name: cells.get(name) or nothing(name), kinds=_TRUTHS)


def chosen_operand(parts: Sequence[tuple[str, Operand]]) -> Operand:
    """Makes the first of several operands whose condition holds; an error if none does."""

    def cell(name: str) -> str:
        cases = " ".join(f"WHEN {condition} THEN {operand.cell(name)}" for condition, operand in parts)
        return f"CASE {cases} END"

    has_id = all(operand.id is not None for _, operand in parts)
    cases = " ".join(f"WHEN {condition} THEN {operand.id}" for condition, operand in parts)
    kinds = [operand.kinds for _, operand in parts]
    return Operand(
        cell,
        f"(CASE {cases} ELSE {number(0)} END)" if has_id else None,
        kinds=range(min(kind.start for kind in kinds), max(kind.stop for kind in kinds)),
    )
