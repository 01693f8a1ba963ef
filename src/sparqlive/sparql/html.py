"""Results as HTML, for notebooks: small tables without scripts, whose text is always escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode

MOST_ROWS = 20
"""The number of rows that a notebook shows, besides the total."""
_LONGEST = 120
_STRING = "http://www.w3.org/2001/XMLSchema#string"
_COLOURS = {"+": "#1a7f37", "-": "#b3261e"}


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], noun: str) -> str:
    """Shows the first rows of terms or plain values, and the total below them."""
    found = list(islice(rows, MOST_ROWS + 1))
    count = f"More than {MOST_ROWS}" if len(found) > MOST_ROWS else str(len(found))
    return _table(headers, found[:MOST_ROWS], f"{count} {noun}{'' if len(found) == 1 else 's'}")


def signed_rows(weights: Mapping[tuple[Any, ...], int], caption: str) -> str:
    """Shows the rows of a delta: added rows in green with a plus, removed rows in red with a minus."""
    rows = [[_Weight(weight), *row] for row, weight in islice(weights.items(), MOST_ROWS)]
    return _table((), rows, f"{caption}: {len(weights):,} changed row{'' if len(weights) == 1 else 's'}")


def _table(headers: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> str:
    head = "".join(f"<th style='text-align:left'>{escape(header)}</th>" for header in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<p style='opacity:.7'>{escape(caption)}</p>"
    )


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


class _Weight(int):
    """A signed weight, which is shown in colour."""


def _cell(value: Any) -> str:
    if isinstance(value, _Weight):
        sign = "+" if value > 0 else "-"
        number = "" if abs(value) == 1 else str(abs(value))
        return f"<td style='color:{_COLOURS[sign]}'>{'+' if sign == '+' else '−'}{number}</td>"
    return f"<td style='text-align:left'>{_term(value)}</td>"


def _term(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, NamedNode):
        text = escape(_short(value.value))
        is_web = value.value.startswith(("http://", "https://"))
        return f"<a href='{escape(value.value)}'>{text}</a>" if is_web else text
    if isinstance(value, BlankNode):
        return escape(str(value))
    if isinstance(value, Literal):
        kind = value.language or ("" if value.datatype.value == _STRING else value.datatype.value)
        title = f" title='{escape(kind)}'" if kind else ""
        return f"<span{title}>{escape(_short(value.value))}</span>"
    return escape(_short(str(value)))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
