"""Parses SPARQL 1.1 text into algebra: the front end of the engine.

Also adds the line and column to error messages. Rejects everything that is not SPARQL 1.1, including what the
notes of its grammar forbid, and the syntax of SPARQL 1.2. Invariant: parsing returns algebra or raises a
sparqlive error, for any text. Importing this module does not load the parser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from unicodedata import combining, east_asian_width

from sparqlive import errors
from sparqlive.numbers import short_repr
from sparqlive.sparql.algebra import Query, UpdateOperation
from sparqlive.sparql.syntax.terms import decode_codepoints
from sparqlive.sparql.syntax.tree import TextError

Result = TypeVar("Result")

_EXCERPT_LENGTH = 100


def parse_query(text: str, base: str | None = None) -> Query:
    """Parses a SPARQL 1.1 query. Relative IRIs are resolved against BASE, or else against `base`."""
    from sparqlive.sparql.syntax.parser import parse
    from sparqlive.sparql.syntax.query import read_query

    return _read(text, lambda decoded: read_query(parse(decoded, "query_unit"), base, decoded))


def plain_text(text: str) -> str:
    """The text that positions in a query refer to: without codepoint escapes and byte order mark."""
    return decode_codepoints(text.removeprefix("\ufeff"))


def parse_update(text: str, base: str | None = None) -> tuple[UpdateOperation, ...]:
    """Parses a SPARQL 1.1 Update request into its operations, in order."""
    from sparqlive.sparql.syntax.parser import parse
    from sparqlive.sparql.syntax.update import read_update

    return _read(text, lambda decoded: read_update(parse(decoded, "update_unit"), base))


def _read(text: str, reader: Callable[[str], Result]) -> Result:
    """Returns what the reader makes of the text. Its errors become SyntaxErrors that show the line."""
    if not isinstance(text, str):
        raise errors.Error(f"A query or an update is a string, not {short_repr(text)}.")
    decoded = text = text.removeprefix("\ufeff")  # the byte order mark that some editors write
    try:
        decoded = decode_codepoints(text)
        return reader(decoded)
    except TextError as error:
        raise _with_location(decoded, error) from None
    except RecursionError:
        raise errors.SyntaxError("The text is nested too deeply. Use fewer levels of brackets.") from None


def _with_location(text: str, error: TextError) -> errors.SyntaxError:
    """Formats an error as `line 2, column 5: …`, with the line and a caret below."""
    start = text.rfind("\n", 0, error.position) + 1
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)].rstrip("\r")
    column = error.position - start
    first = max(0, column - _EXCERPT_LENGTH // 2) if len(line) > _EXCERPT_LENGTH else 0
    excerpt = line[first : first + _EXCERPT_LENGTH].replace("\t", " ").encode("utf-8", "replace").decode()
    number = text.count("\n", 0, error.position) + 1
    caret = f"{' ' * _columns(excerpt[: column - first])}^"
    sentence = f"line {number}, column {column + 1}: {error.sentence}\n  {excerpt}\n  {caret}"
    return errors.SyntaxError(sentence, number, column + 1)


def _columns(text: str) -> int:
    """The columns that text takes on a terminal: wide characters take two, combining ones none."""
    return sum(
        0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1 for character in text
    )
