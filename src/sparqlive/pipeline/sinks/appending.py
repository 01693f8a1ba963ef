"""Sinks that are one file, to which each epoch appends an entry.

Invariant: entries are complete; what a failure left of one is removed when the sink is opened. A
file that another program wrote is rejected, and left as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar

from sparqlive.engine.results import Answer
from sparqlive.errors import Error
from sparqlive.store.place import sync

_BLOCK_BYTES = 1 << 16


class AppendingSink:
    scheme: ClassVar[str | None] = None
    beginning: ClassVar[bytes]
    """What an entry begins with."""
    ending: ClassVar[re.Pattern[bytes]]
    """What ends an entry; it has at most `longest_ending` bytes."""
    longest_ending: ClassVar[int]
    foreign: ClassVar[str]
    """The error for a file that another program wrote."""

    def __init__(self, path: str | Path, variables: Sequence[str]) -> None:
        self._path, self._variables = Path(path), variables
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._last = self._recover() if self._path.exists() else None

    def last_epoch(self) -> int | None:
        return self._last

    def finish(self, epoch: int, content: Callable[[], Answer]) -> None:
        """Does nothing: every entry is already on disk."""

    def epoch_of(self, stream: BinaryIO, found: re.Match[bytes], end: int) -> int | None:
        """The epoch of the last entry, given its end; None if the entry is not one of a sink."""
        raise NotImplementedError

    def append(self, epoch: int, text: Iterable[str], replacing: bool) -> None:
        """Writes the entry of an epoch; `replacing`: into a new file, which replaces the old one."""
        path = self._path.with_name(f"{self._path.name}.tmp") if replacing else self._path
        with open(path, "w" if replacing else "a", encoding="utf-8") as stream:
            stream.writelines(text)
        sync(path)
        if replacing:
            path.rename(self._path)
            sync(self._path)
        self._last = epoch

    def _recover(self) -> int | None:
        with open(self._path, "r+b") as stream:
            end, found = self.last_end(stream, stream.seek(0, os.SEEK_END))
            epoch = None if found is None else self.epoch_of(stream, found, end)
            stream.seek(0)
            is_begun = self.beginning.startswith(stream.read(len(self.beginning)))
            if epoch is None and (found is not None or not is_begun):
                raise Error(f"{self._path} already exists, and {self.foreign}. Set another path.")
            stream.truncate(end)
            return epoch

    def last_end(self, stream: BinaryIO, before: int) -> tuple[int, re.Match[bytes] | None]:
        """Returns the position after the last ending before a position, and its match; else 0 and None."""
        position, after = before, b""
        while position > 0:
            start = max(0, position - _BLOCK_BYTES)
            stream.seek(start)
            block = stream.read(position - start) + after
            ends = list(self.ending.finditer(block))
            if ends:
                return start + ends[-1].end(), ends[-1]
            position, after = start, block[: self.longest_ending - 1]
        return 0, None
