"""Adds typed columns of variables, where an expression or an aggregate reads them.

If the dictionary has the typed columns, they are joined in. Otherwise, and for terms that are constants of
the plan or in a text column, they are computed from the texts, row by row: the source is never read twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from sparqlive.bulk.frame import Frame
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import Solutions, column, semi, text
from sparqlive.sparql.algebra import Var
from sparqlive.sparql.values import DOUBLE

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

TEXT = "term"
"""The text itself, which readers may request like a typed column."""


def typed_column(variable: Var, name: str) -> str:
    """Returns the name of a typed column of a variable."""
    return f"{name}_{column(variable)}"


def with_types(
    evaluation: Evaluation,
    source: Solutions,
    read: Mapping[Var, Collection[str]],
    numbers: Collection[Var] = (),
) -> Frame:
    """The source's columns, and the typed columns that are read; NULL for unbound variables.

    numbers: variables read only as numbers; other terms may have NULL in all columns.
    """
    if any(read.values()):
        source = evaluation.held(source)
    frame = source.frame
    for variable, names in read.items():
        if (
            variable in numbers
            and variable in source.plain
            and evaluation.terms.has_types
            and not source.small
        ):
            frame = _with_numbers(evaluation, frame, variable, sorted(names))
        elif names:
            frame = _joined(evaluation, source, frame, variable, sorted(names))
    return frame


def _with_numbers(evaluation: Evaluation, frame: Frame, variable: Var, names: list[str]) -> Frame:
    """Adds the typed columns of numbers. Often few terms are numbers, which can be broadcast."""
    key = column(variable)
    found = evaluation.terms.frame.where(f"kind <= {DOUBLE:d}")
    is_small = evaluation.backend.are_few(found)
    found = found.select(f"id AS {key}", *(f"{name} AS {typed_column(variable, name)}" for name in names))
    return frame.join(found.broadcast(is_small), [key], "LEFT")


def _joined(
    evaluation: Evaluation, source: Solutions, frame: Frame, variable: Var, names: list[str]
) -> Frame:
    terms, columns = evaluation.terms, frame.columns
    is_plain = variable in source.plain
    # The dictionary has a constant that a pattern matches too.
    has_own_text = variable in source.own_text and not is_plain
    if not has_own_text:
        frame = _with_found(evaluation, source, frame, variable, names if terms.has_types else [TEXT])
    if is_plain and terms.has_types:
        return frame.select(*columns, *(f"f_{name} AS {typed_column(variable, name)}" for name in names))
    if not is_plain:
        frame = _with_own_text(evaluation, source, frame, variable)
    found_text = "" if has_own_text else f"f_{TEXT}"
    if has_own_text:
        wanted = "own_text"
    elif is_plain:
        wanted = found_text
    elif terms.has_types:
        wanted = "CASE WHEN is_found THEN CAST(NULL AS STRING) ELSE own_text END"
    else:
        wanted = f"coalesce({found_text}, own_text)"
    frame = frame.select("*", f"{wanted} AS typed_text")
    frame = frame.select("*", f"{terms.typing()}(typed_text) AS types")
    cells = {name: "typed_text" if name == TEXT else f"types.{name}" for name in names}
    if terms.has_types and not has_own_text:
        cells = {name: f"CASE WHEN is_found THEN f_{name} ELSE {cell} END" for name, cell in cells.items()}
    return frame.select(*columns, *(f"{cell} AS {typed_column(variable, n)}" for n, cell in cells.items()))


def _with_found(
    evaluation: Evaluation, source: Solutions, frame: Frame, variable: Var, names: list[str]
) -> Frame:
    """Adds what the dictionary has of a variable's terms, each column as `f_…`."""
    key = column(variable)
    found = evaluation.terms.of(source, variable, ("id", *names))
    found = found.select(f"id AS {key}", *(f"{name} AS f_{name}" for name in names))
    if variable in source.plain:
        return frame.broadcast(source.small).join(found, [key])
    if source.small:
        found = semi(found, source.frame.select(key).broadcast(), [key]).select("*")
    return frame.join(found.select("*", "true AS is_found").broadcast(source.small), [key], "LEFT")


def _with_own_text(evaluation: Evaluation, source: Solutions, frame: Frame, variable: Var) -> Frame:
    """Adds the text of a term that is a constant of the plan or in the text column, as `own_text`."""
    key, dialect = column(variable), evaluation.backend.dialect
    rows = ", ".join(
        f"({literal(number)}, {dialect.text(term)})" for number, term in evaluation.terms.constants.items()
    )
    constants = Frame.table(f"(SELECT * FROM (VALUES {rows}) AS t({key}, constant))", (key, "constant"))
    frame = frame.join(constants.broadcast(), [key], "LEFT")
    own = f"coalesce({text(variable)}, constant)" if variable in source.texts else "constant"
    return frame.select("*", f"{own} AS own_text")
