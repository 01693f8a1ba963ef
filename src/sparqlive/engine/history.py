"""The deltas of one view: the last ones in memory, and older ones in the store.

Owns from which epoch on deltas are in memory, and where a view's history starts. Invariant: a delta that
a caller may still read keeps its terms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sparqlive.engine.results import Decoder, Delta
from sparqlive.errors import HistoryGone
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into

if TYPE_CHECKING:
    from sparqlive.engine.persistence import Persistence
    from sparqlive.engine.view_state import ViewState

_BYTES_PER_DELTA, _BYTES_PER_ROW = 300, 150


class History:
    """What changed a view, and when."""

    def __init__(self, view: ViewState) -> None:
        writer, dictionary = view.writer, view.terms.dictionary
        self._view, self._tuning = view, writer.tuning
        self.since = writer.epoch
        """The epoch at which the history starts."""
        self.decode = Decoder(dictionary, None if dictionary.keeps_all else writer.sweeper.deltas)
        self.deltas: deque[Delta] = deque()
        """The deltas in memory."""
        self._rows = 0
        self._in_memory_from = view.epoch

    @property
    def nbytes(self) -> int:
        """The memory of the deltas that are kept, estimated."""
        return _BYTES_PER_DELTA * len(self.deltas) + _BYTES_PER_ROW * self._rows

    @property
    def last_epoch(self) -> int:
        """The last epoch with a delta in memory, or else the one at which the history starts."""
        return self.deltas[-1].epoch if self.deltas else self.since

    # Writing

    def begin(self, epoch: int) -> None:
        """Sets the epoch at which the history starts."""
        self.since = epoch

    def record(self, epoch: int, rows: Mapping[Row, int]) -> Delta:
        """Adds an epoch's delta, and drops the oldest deltas beyond the bounds."""
        delta = Delta(epoch, self._view.columns.visible(rows), self.decode)
        if not self._view.content.is_held:  # its history is in the store
            self._in_memory_from = epoch
            return self.decode.hold(delta)
        if not delta.rows:
            return delta
        self.deltas.append(delta)
        self._rows += len(delta.rows)
        most_rows, most = self._tuning.retained_delta_rows, self._tuning.retained_deltas
        while len(self.deltas) > 1 and (self._rows > most_rows or len(self.deltas) > most):
            oldest = self.decode.hold(self.deltas.popleft())
            self._rows -= len(oldest)
            self._in_memory_from = oldest.epoch
        return delta

    def no_change(self, epoch: int) -> Delta:
        return Delta(epoch, {}, self.decode)

    def move_to_store(self) -> None:
        """Reads the deltas up to now from the store: of a reader, or of a content that moved there.

        Deltas in memory are dropped.
        """
        self._in_memory_from = self._view.epoch
        self.end()
        self.deltas.clear()
        self._rows = 0

    def end(self) -> None:
        """Tracks the deltas that callers may still hold; the session no longer keeps them."""
        for delta in self.deltas:
            self.decode.hold(delta)

    # Reading

    def needs_store(self, epoch: int) -> bool:
        """Whether some deltas after an epoch are not in memory."""
        return epoch < self._in_memory_from

    def after(self, epoch: int) -> list[Delta] | None:
        """The deltas after an epoch; None if they are no longer kept."""
        if self.needs_store(epoch) and epoch < self._start():
            return None
        older = (
            Delta(number, shown, self.decode)
            for number, rows in self._stored(epoch)
            if (shown := self._view.columns.visible(rows))
        )
        return [*older, *(delta for delta in self.deltas if delta.epoch > epoch)]

    def now_after(self, epoch: int) -> tuple[int, list[Delta] | None]:
        """The view's epoch, and the deltas after another epoch, as of the same moment."""
        view = self._view
        with view.writer.capturing() as is_carrying:
            if not is_carrying or not self.needs_store(epoch):  # which is being written
                view.ensure_alive()
                return view.epoch, self.after(epoch)
        with view.writer.reading():
            view.ensure_alive()
            return view.epoch, self.after(epoch)

    def read_after(self, epoch: int) -> tuple[list[Delta], int]:
        """The deltas after an epoch, or else the whole content; and the epoch they lead to."""
        view = self._view
        with view.writer.reading():
            now, deltas = self.now_after(epoch)
            if deltas is None:
                deltas = [self.decode.hold(Delta(now, view.rows(), self.decode, reset=True))]
            return deltas, now

    def rows_at(self, epoch: int) -> dict[Row, int]:
        """The content without the later deltas."""
        view = self._view
        if epoch > view.epoch:
            raise HistoryGone(
                f"Epoch {epoch} does not exist yet: view {view.name!r} is at epoch {view.epoch}."
            )
        deltas = self.after(epoch)
        if deltas is None:
            raise HistoryGone(
                f"View {view.name!r} cannot be read at epoch {epoch}: its history starts at epoch "
                f"{self._start()}."
            )
        rows = dict(view.rows())
        for delta in deltas:
            add_into(rows, {row: -weight for row, weight in delta.rows.items()})
        return rows

    @property
    def _store(self) -> Persistence | None:
        return None if self._view.temporary else self._view.writer.persistence

    def _stored(self, epoch: int) -> Iterator[tuple[int, Mapping[Row, int]]]:
        if self._store is None or not self.needs_store(epoch):
            return iter(())
        return self._store.history(self._view.content, epoch, self._in_memory_from)

    def _start(self) -> int:
        """The epoch after which deltas are kept."""
        if self._store is None:
            return self._in_memory_from
        return min(self._in_memory_from, max(self.since, self._store.store.catalog.history_start()))
