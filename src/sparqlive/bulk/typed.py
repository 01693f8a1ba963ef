"""Typed columns of the variables of solutions: joined in where an expression or an aggregate reads them.

A dictionary that has the typed columns is read as it is; otherwise they are computed, for the terms that the
solutions mention. Terms that the plan or a text column tells are typed once each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from sparqlive.bulk.frame import Frame
from sparqlive.bulk.scan import literal
from sparqlive.bulk.solutions import Solutions, column, semi, text
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

TEXT = "term"
"""The text itself, which may be asked for like a typed column."""


def typed_column(variable: Var, name: str) -> str:
    """The name of a typed column of a variable."""
    return f"{name}_{column(variable)}"


def with_types(evaluation: Evaluation, source: Solutions, read: Mapping[Var, Collection[str]]) -> Frame:
    """The source's columns, and beside them the typed columns that are read; NULL for what is unbound."""
    frame = source.frame
    for variable, names in read.items():
        if names:
            frame = _joined(evaluation, source, frame, variable, sorted(names))
    return frame


def _joined(
    evaluation: Evaluation, source: Solutions, frame: Frame, variable: Var, names: list[str]
) -> Frame:
    key = column(variable)
    terms = evaluation.terms.frame
    if source.small or not evaluation.terms.has_types:
        terms = semi(terms, source.frame.select(f"{key} AS id").broadcast(source.small), ["id"])
    wanted = [name if name == TEXT else f"types.{name} AS {name}" for name in names]

    def computed(texts: Frame) -> Frame:
        made = texts.select("id", TEXT, f"{evaluation.terms.typing()}({TEXT}) AS types")
        return made.select("id", *wanted)

    found = terms.select("id", *names) if evaluation.terms.has_types else computed(terms.select("id", TEXT))
    if variable in source.plain:
        renamed = [f"{name} AS {typed_column(variable, name)}" for name in names]
        return frame.broadcast(source.small).join(found.select(f"id AS {key}", *renamed), [key])
    told = computed(_told(evaluation, source, variable))
    # The kind tells whether there is a row: all else may be NULL.
    parts = [("b", told)] if variable in source.told else [("a", found), ("b", told)]
    columns = frame.columns
    for mark, part in parts:
        renamed = [f"{name} AS {mark}_{name}" for name in names]
        frame = frame.join(part.select(f"id AS {key}", *renamed, f"true AS is_{mark}"), [key], "LEFT")
    if variable in source.told:
        chosen = [f"b_{name} AS {typed_column(variable, name)}" for name in names]
    else:
        chosen = [
            f"CASE WHEN is_a THEN a_{name} ELSE b_{name} END AS {typed_column(variable, name)}"
            for name in names
        ]
    return frame.select(*columns, *chosen)


def _told(evaluation: Evaluation, source: Solutions, variable: Var) -> Frame:
    """The id and text of each term that is a constant of the plan or stands in the text column, once each."""
    dialect = evaluation.backend.dialect
    rows = ", ".join(
        f"({literal(number)}, {dialect.text(term)})" for number, term in evaluation.terms.constants.items()
    )
    constants = Frame.table(f"(SELECT * FROM (VALUES {rows}) AS t(id, {TEXT}))", ("id", TEXT))
    if variable not in source.texts:
        return constants
    own = source.frame.where(f"{text(variable)} IS NOT NULL")
    own = own.select(f"{column(variable)} AS id", f"{text(variable)} AS {TEXT}")
    return constants.union(own).grouped(["id"], f"max({TEXT}) AS {TEXT}")
