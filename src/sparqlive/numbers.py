"""Numbers from outside: arguments, flags, parameters of requests, keys of files.

Owns what is accepted as a number: finite, within stated bounds, and no bool. Everything else is refused with
a sentence that names it as its surface does (`timeout_seconds`, `--port`), before anything happens. The
bounds keep what is computed with a number within what clocks, sockets and the catalog take.
"""

from __future__ import annotations

from sparqlive.errors import Error

MOST_SECONDS = 1_000_000_000
"""About thirty years; Python's own timeouts end at three hundred."""
MOST = 10**18 - 1
"""Of rows, bytes and epochs: eighteen digits, which 64 bits hold with room for sums."""
MOST_PORT = 65_535
_SHOWN_CHARACTERS = 40


def seconds(name: str, value: object, least: float | None = None, most: float = MOST_SECONDS) -> float:
    """A number of seconds, above 0 unless `least` says from where."""
    in_range = f"above 0 and up to {most:,}" if least is None else f"from {least:,} to {most:,}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Error(f"{name} is a number of seconds {in_range}, not {shown(value)}.")
    if not (value > 0 if least is None else value >= least) or not value <= most:
        raise Error(f"{name} is a number of seconds {in_range}, not {shown(value)}.")
    return value


def whole(name: str, value: object, least: int = 0, most: int = MOST) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Error(f"{name} is a whole number from {least:,} to {most:,}, not {shown(value)}.")
    return value


def positive(name: str, value: object, most: float = MOST) -> float:
    """A number above 0, of something that need not be whole."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise Error(f"{name} is a number above 0 and up to {most:,}, not {shown(value)}.")
    return value


def shown(value: object) -> str:
    """A value in a sentence, however long it is."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole numbers of more than some thousand digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
