"""The rows of an answer, computed as they are read.

Owns the limits of a query while its rows are read: they count the time of computing rows, not the time of the
reader. Invariant: rows belong to one epoch, however late they are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from weakref import finalize

from sparqlive.errors import Error, TooLarge
from sparqlive.runtime.collector import collector_paused
from sparqlive.runtime.deadline import Steps
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.relation import Row

# A piece of rows ends after this time, or after this many rows.
_PIECE_SECONDS = 0.02
_ROWS_PER_LOOK = 64


class RowStream:
    """Rows with weights, computed in pieces when they are read; those read so far are remembered.

    `files` is closed when all rows are computed, or when no reader is left.
    """

    def __init__(
        self, rows: Iterator[tuple[Row, int]], steps: Steps, row_limit: int | None, files: ExitStack | None
    ) -> None:
        self._rest: Iterator[tuple[Row, int]] | None = rows
        self._steps = steps
        self._row_limit = row_limit
        self._count = 0
        self._known: list[tuple[Row, int]] = []
        self._total: dict[Row, int] | None = None
        steps.gathers(self._known)
        self._failure: Exception | None = None
        self._is_forgotten = False
        self._close: Callable[[], object] = _nothing if files is None else finalize(self, files.close)

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        """The rows in no particular order; a row may come several times."""
        position, size = 0, DEFAULT.first_piece_rows
        while self._total is None:
            if known := self._known[position:]:
                position += len(known)
                yield from known
                continue
            if self._rest is None:
                return
            self._advance(partial(self._take, size))
            size = min(4 * size, DEFAULT.block_rows)
        yield from islice(self._total.items(), position, None)

    def once(self) -> Iterator[tuple[Row, int]]:
        """The rows, each forgotten once it is read: for a single reader of any number of rows."""
        if self._is_forgotten:
            raise self._failure or Error(
                "The rows of a streamed answer can be read once. Ask for it without stream=True."
            )
        self._is_forgotten = True
        size = DEFAULT.first_piece_rows
        while True:
            known, self._known = self._known, []
            yield from known
            if self._rest is None:
                return
            self._advance(partial(self._take, size))
            size = min(4 * size, DEFAULT.block_rows)

    def gathered(self) -> dict[Row, int]:
        """All rows, each once with its weight."""
        if self._total is None:
            total: dict[Row, int] = {}
            self._steps.gathers(total)
            _add(total, self._known)
            if self._rest is not None:
                self._advance(lambda: self._add_rest(total))
            self._total, self._known = total, []
        return self._total

    def few(self) -> list[Row] | None:
        """All rows, if they are computed and not more than one; after `start` or `gathered`."""
        if self._rest is not None or len(self._known) + len(self._total or ()) > 1:
            return None
        return [row for row, _ in (*self._known, *(self._total or {}).items())]

    def start(self) -> None:
        """Computes the first rows, for a moment at most: many errors appear here."""
        self._advance(partial(self._take, DEFAULT.first_piece_rows))

    def _advance(self, step: Callable[[], bool]) -> None:
        """Computes more rows; the step returns whether none are left."""
        if self._failure is not None:
            raise self._failure
        try:
            if self._steps.run(step):
                self._rest = None
                self._close()
        except Exception as error:
            self._failure = error
            self._close()
            raise

    def _take(self, rows: int) -> bool:
        """Computes some rows and adds them to the known ones."""
        known, found = self._known, self._counted()
        most, until = len(known) + rows, time.monotonic() + _PIECE_SECONDS
        with collector_paused():  # which would visit the rows known so far again and again
            while True:
                wanted = min(_ROWS_PER_LOOK, most - len(known))
                before = len(known)
                known.extend(islice(found, wanted))
                if len(known) < before + wanted:
                    return True
                if len(known) == most or time.monotonic() > until:
                    return False

    def _add_rest(self, total: dict[Row, int]) -> bool:
        _add(total, self._counted())
        return True

    def _counted(self) -> Iterator[tuple[Row, int]]:
        """The rows that are left, up to the limit."""
        assert self._rest is not None
        limit = self._row_limit
        if limit is None:
            return self._rest
        return self._up_to(limit, self._rest)

    def _up_to(self, limit: int, rows: Iterator[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        for item in rows:
            self._count += item[1]
            if self._count > limit:
                raise _too_large(limit)
            yield item


def _nothing() -> None:
    """Closes nothing: no files are open."""


def _add(total: dict[Row, int], rows: Iterable[tuple[Row, int]]) -> None:
    for row, weight in rows:
        total[row] = total.get(row, 0) + weight


def _too_large(most: int) -> TooLarge:
    return TooLarge(
        f"The result has more than {most:,} rows, which is the limit. Add a LIMIT, narrow the query, or "
        f"register it as a view."
    )
