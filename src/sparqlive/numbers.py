"""Checks numbers from outside: arguments, flags, request parameters, keys of files.

Accepts finite numbers within stated bounds, and no bool. Everything else is rejected before anything happens,
with an error that uses the surface's own name for the number (`timeout_seconds`, `--port`). The bounds keep
results of arithmetic within the range of clocks, sockets and the catalog.
"""

from __future__ import annotations

import re

from sparqlive.errors import Error

MOST_SECONDS = 1_000_000_000
"""About thirty years; Python's own timeouts end at three hundred."""
MOST = 10**18 - 1
"""Largest number of rows, bytes or epochs: eighteen digits fit in 64 bits, with room for sums."""
MOST_PORT = 65_535
_SHOWN_CHARACTERS = 40
_SECONDS = re.compile(r"\+?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")


def seconds(name: str, value: object, least: float | None = None, most: float = MOST_SECONDS) -> float:
    """Returns a number of seconds: above 0, or at least `least`."""
    in_range = f"above 0 and up to {most:,}" if least is None else f"from {least:,} to {most:,}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Error(f"{name} must be a number of seconds {in_range}, not {short_repr(value)}.")
    if not (value > 0 if least is None else value >= least) or not value <= most:
        raise Error(f"{name} must be a number of seconds {in_range}, not {short_repr(value)}.")
    return value


def parse_seconds(name: str, text: str) -> float:
    """Parses a number of seconds above 0."""
    return seconds(name, float(text) if _SECONDS.fullmatch(text) else text)


def whole(name: str, value: object, least: int = 0, most: int = MOST) -> int:
    """Returns a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Error(f"{name} must be a whole number from {least:,} to {most:,}, not {short_repr(value)}.")
    return value


def number(name: str, value: object, least: float, most: float = MOST) -> float:
    """Returns a number from `least` to `most`, whole or not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise Error(f"{name} must be a number from {least:,} to {most:,}, not {short_repr(value)}.")
    return value


def short_repr(value: object) -> str:
    """Formats a value for a message, shortened if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of more than a few thousand digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
