"""Parses HTTP header values that are lists or have parameters (RFC 9110 §5.6).

Lenient: malformed parts are left out, never an error. Invariant: a value is read once from left to right, so
the time is linear in its length.
"""

from __future__ import annotations

import math
import re

# A quoted string, which may contain separators; other text; a separator.
AGENT = "Sparqlive-Agent"
"""The header that every response of an agent has, so that clients can tell it from other servers."""

_PIECES = {separator: re.compile(rf'"(?:[^"\\]|\\.)*"?|[^"{separator}]+|{separator}') for separator in ",;"}
_ESCAPED = re.compile(r"\\(.)")


def parts_of(value: str, separator: str = ",") -> list[str]:
    """Splits a value at separators outside of quoted strings."""
    parts: list[str] = []
    pieces: list[str] = []
    for piece in _PIECES[separator].findall(value):
        if piece == separator:
            parts.append("".join(pieces).strip())
            pieces = []
        else:
            pieces.append(piece)
    parts.append("".join(pieces).strip())
    return [part for part in parts if part]


def type_and_parameters(value: str) -> tuple[str, dict[str, str]]:
    """Returns a media type in lower case, and its parameters by name; of duplicates, the first one."""
    name, *given = parts_of(value, ";") or [""]
    parameters: dict[str, str] = {}
    for parameter in given:
        key, _, text = parameter.partition("=")
        text = text.strip()
        if text.startswith('"'):
            text = _ESCAPED.sub(r"\1", text[1:].removesuffix('"'))
        parameters.setdefault(key.strip().lower(), text)
    return name.lower(), parameters


def quality_of(text: str | None) -> float:
    """A number from 0 to 1; 1 if it is missing or not a number."""
    try:
        quality = 1.0 if text is None else float(text)
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(quality) else min(1.0, max(0.0, quality))
