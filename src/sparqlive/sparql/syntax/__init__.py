"""SPARQL 1.1 text to algebra: the front end of the engine.

Owns the way from text to sparqlive.sparql.algebra and the place in an error message. Refuses everything that
is not SPARQL 1.1, also what the notes of its grammar forbid, and the syntax of SPARQL 1.2. Invariant: for any
text the outcome is algebra or a sparqlive error; importing this module does not load the parser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sparqlive import errors
from sparqlive.sparql.algebra import Query, UpdateOperation
from sparqlive.sparql.syntax.terms import decode_codepoints
from sparqlive.sparql.syntax.tree import TextError

Result = TypeVar("Result")

_SHOWN_CHARACTERS = 100


def parse_query(text: str, base: str | None = None) -> Query:
    """The algebra of a SPARQL 1.1 query. Relative IRIs resolve against BASE, or else against `base`."""
    from sparqlive.sparql.syntax.parser import parse
    from sparqlive.sparql.syntax.query import read_query

    return _read(text, lambda decoded: read_query(parse(decoded, "query_unit"), base))


def parse_update(text: str, base: str | None = None) -> tuple[UpdateOperation, ...]:
    """The operations of a SPARQL 1.1 Update request, in their order."""
    from sparqlive.sparql.syntax.parser import parse
    from sparqlive.sparql.syntax.update import read_update

    return _read(text, lambda decoded: read_update(parse(decoded, "update_unit"), base))


def _read(text: str, reader: Callable[[str], Result]) -> Result:
    """What the reader makes of the text; its complaints become errors that show the line."""
    shown = text = text.removeprefix("\ufeff")  # the mark that some editors put before UTF-8
    try:
        shown = decode_codepoints(text)
        return reader(shown)
    except TextError as refused:
        raise errors.SyntaxError(_located(shown, refused)) from None
    except RecursionError:
        raise errors.SyntaxError("The text is nested too deeply.") from None


def _located(text: str, refused: TextError) -> str:
    """`line 2, column 5: …`, and under it the line with a caret."""
    start = text.rfind("\n", 0, refused.position) + 1
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)].rstrip("\r")
    column = refused.position - start
    first = max(0, column - _SHOWN_CHARACTERS // 2) if len(line) > _SHOWN_CHARACTERS else 0
    excerpt = line[first : first + _SHOWN_CHARACTERS].replace("\t", " ").encode("utf-8", "replace").decode()
    where = f"line {text.count(chr(10), 0, refused.position) + 1}, column {column + 1}"
    return f"{where}: {refused.sentence}\n  {excerpt}\n  {' ' * (column - first)}^"
