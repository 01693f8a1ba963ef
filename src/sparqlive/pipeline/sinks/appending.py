"""Append-only files: finds the end of the last complete entry, from the end of the file."""

from __future__ import annotations

import re
from typing import BinaryIO

_BLOCK_BYTES = 1 << 16


def last_end(
    stream: BinaryIO, before: int, ending: re.Pattern[bytes], longest: int
) -> tuple[int, re.Match[bytes] | None]:
    """Returns the position after the last ending before `before`, and its match; 0 and None without one.

    An ending has at most `longest` bytes.
    """
    position, after = before, b""
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        stream.seek(start)
        block = stream.read(position - start) + after
        ends = list(ending.finditer(block))
        if ends:
            return start + ends[-1].end(), ends[-1]
        position, after = start, block[: longest - 1]
    return 0, None
