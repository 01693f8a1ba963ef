"""Parses the parameters of URLs and forms (application/x-www-form-urlencoded).

Lenient about empty fields and missing values, strict about UTF-8. Invariant: time and memory are a small
multiple of the size of the text, however many characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from sparqlive.agent.problems import Refused

_MOST_PARAMETERS = 10_000
_PIECE_BYTES = 1 << 16


def pairs_of(text: bytes, before: int = 0) -> list[tuple[str, str]]:
    """Returns the names and values in a text; the request has `before` more parameters elsewhere."""
    number = before + text.count(b"&") + bool(text)
    if number > _MOST_PARAMETERS:
        raise Refused(
            400, f"The request has {number:,} parameters; the limit is {_MOST_PARAMETERS:,} parameters."
        )
    pairs = []
    for field in text.split(b"&"):
        if field:
            name, _, value = field.partition(b"=")
            pairs.append((_unescape(name), _unescape(value)))
    return pairs


def _unescape(text: bytes) -> str:
    try:
        return b"".join(unquote_to_bytes(piece) for piece in _pieces(text.replace(b"+", b" "))).decode()
    except UnicodeDecodeError as error:
        raise Refused(400, f"The parameters are not UTF-8: {error.reason}.") from None


def _pieces(text: bytes) -> Iterator[bytes]:
    """Splits a text, because unescaping creates an object per escape: that bounds their number at a time."""
    start = 0
    while start < len(text):
        end = start + _PIECE_BYTES
        escape = text.find(b"%", end - 2, end)  # an escape that the cut would split
        end = end if escape < 0 else escape
        yield text[start:end]
        start = end
