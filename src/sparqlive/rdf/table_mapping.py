"""Statements from the rows of a plain table: a subject per row, a predicate per column.

The simple half of R2RML. Owns how values become terms. Rejects values without a term, by row and column.
Invariant: the value of a cell fills a place of a template without changing the IRI around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyoxigraph import Literal, NamedNode

from sparqlive.errors import Error, InvalidChange
from sparqlive.numbers import short_repr

_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_LANGUAGE_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_PLACE = re.compile(r"\{([^{}]+)\}")
# R2RML calls these characters safe in an IRI; all others are percent-encoded.
_UNSAFE = re.compile(r"[^A-Za-z0-9\-._~\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF\U00010000-\U000EFFFD]")

Refuse = Callable[[int, str, str], InvalidChange]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TableMapping:
    """How the rows of a plain table become triples.

    `subject`: a template of the subject's IRI, such as "http://example.org/product/{id}". The values of
    columns are percent-encoded in it. `predicates`: the predicate (an IRI) of each column that becomes
    triples; a null is no triple. A value becomes a literal of the datatype of its column: integer, decimal,
    double, float, boolean, date, time, dateTime or string. `datatypes` has others by column: an IRI,
    "xsd:…", or "@en" for a language. `as_iri`: columns whose values are IRIs, or a template for each of
    them. `type`: the class of all subjects (an IRI).
    """

    subject: str
    predicates: Mapping[str, str]
    as_iri: Sequence[str] | Mapping[str, str] = ()
    datatypes: Mapping[str, str] = field(default_factory=dict)
    type: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.subject, str) or not _PLACE.search(self.subject):
            raise Error(
                f"The subject of a TableMapping is a template with a column in braces, such as "
                f"'http://example.org/product/{{id}}', not {short_repr(self.subject)}."
            )
        for name, given in (("predicates", self.predicates), ("datatypes", self.datatypes)):
            if not isinstance(given, Mapping):
                raise Error(f"{name} of a TableMapping is a dict by column, not {short_repr(given)}.")
        if isinstance(self.as_iri, str):
            raise Error(f"as_iri is a list of columns, not the string {self.as_iri!r}.")
        for name in self.as_iri:
            if name in self.datatypes:
                raise Error(f"The column {name!r} of the TableMapping is in as_iri: IRIs have no datatype.")
        for name in (*self.as_iri, *self.datatypes):
            if name not in self.predicates:
                raise Error(f"The TableMapping has a hint for the column {name!r}, but no predicate for it.")
        for iri in (*self.predicates.values(), *([] if self.type is None else [self.type])):
            _check_iri(iri)
        for datatype in self.datatypes.values():
            if isinstance(datatype, str) and datatype.startswith("@"):
                _check_language(datatype[1:])
            else:
                _check_iri(_expanded(datatype))
                if datatype == _LANGUAGE_STRING:
                    raise Error(
                        "Strings with a language have a language tag instead of a datatype, such as '@en'."
                    )
        if not self.predicates and self.type is None:
            raise Error("The TableMapping has neither predicates nor a type: its rows say nothing.")

    def columns(self) -> list[str]:
        """The columns that a table must have."""
        templates = [self.subject, *(self._template(name) or "" for name in self.predicates)]
        named = [name for template in templates for name in _PLACE.findall(template)]
        return list(dict.fromkeys([*named, *self.predicates]))

    def _template(self, column: str) -> str | None:
        """The template of a column whose values are IRIs."""
        if column not in self.as_iri:
            return None
        return self.as_iri[column] if isinstance(self.as_iri, Mapping) else f"{{{column}}}"

    def terms(self, table: Any, fault: Refuse) -> tuple[list[pa.Array], Places]:
        """The statements of a table as columns of texts, with the row of each."""
        count = table.num_rows
        subjects = pa.array(self._iris(self.subject, table, fault, must=True), pa.string())
        parts: list[tuple[pa.Array, str, pa.Array]] = []
        everyone = np.arange(count)
        if self.type is not None:
            parts.append((pa.array(everyone), _TYPE, pa.array([f"<{self.type}>"] * count, pa.string())))
        for name, predicate in self.predicates.items():
            objects = pa.array(self._objects(name, table, fault), pa.string())
            rows = pa.array(np.flatnonzero(objects.is_valid().to_numpy(zero_copy_only=False)))
            parts.append((rows, predicate, objects.drop_null()))
        rows = pa.concat_arrays([part[0] for part in parts])
        predicates = pa.concat_arrays(
            [pa.array([f"<{predicate}>"] * len(rows_), pa.string()) for rows_, predicate, _ in parts]
        )
        objects = pa.concat_arrays([part[2] for part in parts])
        columns = [subjects.take(rows), predicates, objects, pa.nulls(len(rows), pa.string())]
        return columns, rows.to_numpy()

    def _objects(self, name: str, table: Any, fault: Refuse) -> list[str | None]:
        template = self._template(name)
        if template is not None:
            return self._iris(template, table, fault, must=False)
        own, values = _values(name, table, fault)
        as_literal = _literals(self.datatypes.get(name) or f"xsd:{own}")
        known: dict[str, str] = {}
        found: list[str | None] = []
        for value in values:
            if value is None:
                found.append(None)
                continue
            text = str(np.float32(value)) if own == "float" and isfinite(value) else _plain(value)
            literal = known.get(text)
            if literal is None:
                literal = known[text] = as_literal(text)
            found.append(literal)
        return found

    def _iris(self, template: str, table: Any, fault: Refuse, must: bool) -> list[str | None]:
        """The IRIs of a template; None where a value is null, which is a fault if they `must` exist."""
        names = list(dict.fromkeys(_PLACE.findall(template)))
        is_whole = _PLACE.fullmatch(template) is not None
        columns = [_values(name, table, fault)[1] for name in names]
        known: dict[tuple[Any, ...], str] = {}
        found: list[str | None] = []
        for row, values in enumerate(zip(*columns, strict=True)):
            if None in values:
                if must:
                    raise fault(
                        row, names[values.index(None)], f"is null, and the template {template!r} needs it"
                    )
                found.append(None)
                continue
            iri = known.get(values)
            if iri is None:
                texts = {name: _plain(value) for name, value in zip(names, values, strict=True)}
                filled = texts[names[0]] if is_whole else _PLACE.sub(lambda m: _safe(texts[m[1]]), template)  # noqa: B023
                try:
                    iri = known[values] = str(NamedNode(filled))
                except ValueError as error:
                    raise fault(row, names[0], f"{short_repr(filled)} is not an IRI: {error}") from None
            found.append(iri)
        return found


def _values(name: str, table: Any, fault: Refuse) -> tuple[str, list[Any]]:
    """The natural datatype of a column, and its values."""
    column = table.column(name)
    own = datatype_of(column.type)
    if own is None:
        raise fault(
            0, name, f"values of type {column.type} are not plain values. Cast the column, or leave it out"
        )
    try:
        return own, column.to_pylist()
    except (OverflowError, ValueError):
        for row, value in enumerate(column):
            try:
                value.as_py()
            except (OverflowError, ValueError) as error:
                raise fault(row, name, f"a year from 1 to 9999 is needed ({error})") from None
        raise


def _safe(text: str) -> str:
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def _check_iri(iri: object) -> None:
    try:
        NamedNode(iri)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise Error(f"{short_repr(iri)} in the TableMapping is not an IRI: {error}.") from error


def _check_language(tag: str) -> None:
    try:
        Literal("", language=tag)
    except ValueError as error:
        raise Error(f"'@{tag}' in the TableMapping is not a language: {error}.") from error


def _expanded(datatype: str) -> str:
    return f"{_XSD}{datatype[4:]}" if str(datatype).startswith("xsd:") else datatype


def datatype_of(kind: pa.DataType) -> str | None:
    """The natural datatype of a column; None if its values are not plain."""
    types = pa.types
    if types.is_dictionary(kind):
        return datatype_of(kind.value_type)
    for matches, name in (
        (types.is_boolean, "boolean"),
        (types.is_integer, "integer"),
        (types.is_decimal, "decimal"),
        (types.is_float32, "float"),
        (types.is_floating, "double"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (types.is_timestamp, "dateTime"),
        (lambda kind: types.is_string(kind) or types.is_large_string(kind), "string"),
        (lambda kind: types.is_string_view(kind) or types.is_null(kind), "string"),
    ):
        if matches(kind):
            return name
    return None


def _plain(value: Any) -> str:
    """A value as text, in the lexical form of its datatype."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if isfinite(value) else {"nan": "NaN", "inf": "INF", "-inf": "-INF"}[repr(value)]
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        text = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return text.isoformat() + ("Z" if value.tzinfo is not None else "")
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _literals(datatype: str) -> Callable[[str], str]:
    if datatype.startswith("@"):
        return lambda text: str(Literal(text, language=datatype[1:]))
    node = NamedNode(_expanded(datatype))
    return lambda text: str(Literal(text, datatype=node))
