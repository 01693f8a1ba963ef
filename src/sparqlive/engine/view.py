"""Views, and the epochs that change them.

Owns the state of a view apart from its content: its deltas, its failure, its last choice of a strategy.
Invariant: everything that is read together belongs to one epoch.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyoxigraph import Quad

from sparqlive.engine.carry import Choice
from sparqlive.engine.deferred import Deferred, Refresh
from sparqlive.engine.empty import seems_empty, warn_empty, why_empty
from sparqlive.engine.results import (
    FORMS,
    GRAPH_FORMS,
    Answer,
    Columns,
    Decoder,
    Delta,
    Readable,
    Solution,
    TermRow,
    decoded,
)
from sparqlive.errors import HistoryGone, TooLarge, Unsupported, ViewFailed
from sparqlive.live.content import PlanContent
from sparqlive.live.terms import Terms
from sparqlive.numbers import whole
from sparqlive.plan.explain import Explained, explain, explain_plan
from sparqlive.plan.operators import Operator, kept_of
from sparqlive.plan.spelling import Spelling, spelling_of
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql import html
from sparqlive.sparql.algebra import Query
from sparqlive.sparql.column_names import EPOCH, WEIGHT, check_column_names
from sparqlive.zset.blocks import Block, Blocks, blocks_of, rows_in
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into

if TYPE_CHECKING:
    from sparqlive.engine.live_table import LiveTable
    from sparqlive.engine.writer import Writer

__all__ = ["FORMS", "GRAPH_FORMS", "Answer", "Cost", "Delta", "Deltas", "Epoch", "TermRow", "View"]

# The number of deltas and rows of history per view in memory; a store has more.
RETAINED_DELTAS = 4_000
RETAINED_ROWS = 1_000_000
_BYTES_PER_DELTA, _BYTES_PER_ROW = 300, 150
_T = TypeVar("_T")
_log = logging.getLogger("sparqlive.engine")


@dataclass(frozen=True, init=False)
class Epoch:
    """One committed batch of changes: its number, how many quads it changed, and each view's delta.

    `ignored` counts changes without effect. `strategy` says how the epoch was carried to the views; `choices`
    says so for each view that had a choice, with the reason. `rejected` counts malformed lines
    that a load skipped. `seconds` is the duration.
    """

    number: int
    inserted: int
    deleted: int
    ignored: int
    deltas: Deltas
    strategy: str = "live"
    choices: Mapping[str, Choice] = field(default_factory=dict)
    rejected: int = 0
    seconds: float = 0.0

    def __init__(
        self,
        number: int,
        inserted: int,
        deleted: int,
        ignored: int,
        deltas: Deltas,
        strategy: str = "live",
        choices: Mapping[str, Choice] | None = None,
        rejected: int = 0,
        seconds: float = 0.0,
    ) -> None:
        # One update: nine assignments around the protection of a frozen class would cost each epoch 1.5 µs.
        self.__dict__.update(
            number=number,
            inserted=inserted,
            deleted=deleted,
            ignored=ignored,
            deltas=deltas,
            strategy=strategy,
            choices={} if choices is None else choices,
            rejected=rejected,
            seconds=seconds,
        )

    def _repr_html_(self) -> str:
        """What changed, for notebooks."""
        rows = [(name, len(self.deltas[name])) for name in self.deltas.changed()]
        about = f"Epoch {self.number}: +{self.inserted:,} −{self.deleted:,} quads, {self.strategy}"
        return html.preformatted(about) + html.table(("view", "changed rows"), rows, "changed view")


@dataclass(frozen=True)
class Cost:
    """The cost of one term of the delta rules: how often it ran, its changed input rows, its total seconds.

    The term starts with the change of the operator `at` (its number in the plan), and one function carries it
    through all operators on the way to the operator `to`, where deltas are gathered. Without `to`, it is the
    cost of updating the state of the operator `at`.
    """

    at: int
    to: int | None
    times: int
    rows: int
    seconds: float


@dataclass(frozen=True)
class Preview:
    """The first distinct rows of a view with their multiplicity, and how many distinct rows there are."""

    epoch: int
    row_count: int
    in_order: bool
    first: list[tuple[TermRow, int]]


class Deltas(Mapping[str, Delta]):
    """The deltas of an epoch by view; views that did not change have an empty delta."""

    def __init__(self, epoch: int, changed: Mapping[str, Delta], views: Mapping[str, View]) -> None:
        self._epoch = epoch
        self._changed = changed
        self._views = views

    def __getitem__(self, name: str) -> Delta:
        found = self._changed.get(name)
        return found if found is not None else self._views[name].no_change(self._epoch)

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def changed(self) -> Iterator[str]:
        """The names of the views that changed."""
        return iter(self._changed)

    def __repr__(self) -> str:
        """The views that changed, with the number of changed rows."""
        return f"Deltas({', '.join(f'{name!r}: {len(delta)} rows' for name, delta in self._changed.items())})"


class View(Readable):
    """A registered query, and its content, which is kept up to date."""

    def __init__(
        self,
        writer: Writer,
        name: str,
        text: str,
        query: Query,
        plan: Operator,
        content: PlanContent,
        deferred: Deferred | None,
        owner: str | None = None,
        terms: Terms | None = None,
    ) -> None:
        """`terms` belong to a temporary view, which is not stored and adds no terms to the session."""
        self.name = name
        self.text = text
        self.query = query
        self.form = query.form
        self.variables = tuple(variable.name for variable in plan.variables)
        self.plan = plan
        self.content = content
        self.deferred = deferred
        self.owner = owner
        """The person or program that registered the view, if recorded."""
        self.temporary = terms is not None
        self.terms = terms or writer.terms
        self._columns = Columns(plan, self.terms)
        self.since = writer.epoch
        self.failure: str | None = None
        self.is_wrong = False
        """Whether it failed because reading found its content wrong, which `repair` computes again."""
        self.choice: tuple[int, Choice] | None = None
        self.follow: Any = None
        """The view's link following (`sources.links.traversal.LinkFollower`), if it has one."""
        self._writer = writer
        dictionary = self.terms.dictionary
        self._decode = Decoder(dictionary, None if dictionary.keeps_all else writer.sweeper.deltas)
        self._history: deque[Delta] = deque()
        self._history_rows = 0
        self._retained_from = self.epoch
        self._state_bytes: int | None = None
        """What the state needed when that was last asked for."""
        self._searched: tuple[int, str | None] = -1, None
        """The last epoch at which a reason for having no rows was searched, and what was found."""
        self._has_warned = False

    @property
    def epoch(self) -> int:
        """The epoch of the view's content: the current one, unless the view is deferred."""
        return self._writer.epoch if self.deferred is None else self.deferred.epoch

    @property
    def dictionary(self) -> Dictionary:
        """The terms of the view's rows."""
        return self.terms.dictionary

    @cached_property
    def spelling(self) -> Spelling:
        """The normal form of the view's query, which equivalent spellings share."""
        return spelling_of(self.plan)

    @property
    def refresh_setting(self) -> Refresh:
        return "immediate" if self.deferred is None else self.deferred.refresh

    def refresh(self) -> Delta:
        """Brings a deferred view to the current epoch, and returns the change.

        Changes that cancelled each other are never processed. A view that follows every epoch has no change.
        """
        self._ensure_alive()
        return self._writer.refresh(self)

    # Reading

    def weights(self, at: int | None = None) -> dict[TermRow, int]:
        """Returns each distinct row with its multiplicity; None means unbound.

        `at` reads an earlier epoch, as far back as deltas are kept.
        """
        if at is not None:
            whole("at", at)
        with self._writer.reading():
            self._ensure_alive()
            if at is not None and at != self.epoch:
                return self._decode(self._rows_at(at))
            found = self._decode(self._rows())
        self.warn_if_empty()
        return found

    def now(self, row_limit: int | None = None) -> Answer:
        """Captures the view's result, which can then be read without blocking writers.

        More rows than `row_limit` are an error.
        """
        return self._read_beside(lambda: self._captured(row_limit))

    def _read_beside(self, read: Callable[[], _T]) -> _T:
        """Reads of one epoch; if possible, without waiting for an epoch that is carried."""
        with self._writer.capturing() as is_carrying:
            if not is_carrying or self.content.capturable:
                self._ensure_alive()
                return read()
        with self._writer.lock:
            self._ensure_alive()
            return read()

    def _captured(self, row_limit: int | None) -> Answer:
        count = 0 if row_limit is None else self.content.row_count()
        if row_limit is not None and count > row_limit:
            raise TooLarge(
                f"View {self.name!r} has {count:,} rows; the limit is {row_limit:,} per read. Read a part of "
                f"them with a query."
            )
        captured, terms = self.captured(), self.terms.captured()
        return Answer(
            self.query, self.plan, captured, terms, self.epoch, self.name, why_empty=lambda: self.hint
        )

    def captured(self) -> Blocks:
        """Captures the rows, to be listed later; see `PlanContent.captured`. Listing may find them wrong."""
        captured = self.content.captured()

        def listed() -> Iterator[Block]:
            for block in captured():
                if len(block.weights) and block.weights.min() < 0:
                    raise self._wrong()
                yield block

        return listed

    def blocks(self) -> Iterator[Block]:
        return self.now().blocks()

    def distinct_blocks(self) -> Iterator[Block]:
        return self.now().distinct_blocks()

    def texts(self, numbers: Sequence[int]) -> list[str]:
        return self.terms.dictionary.texts(numbers)

    def _tables(self, typed: bool, weights: bool, plain: bool = False) -> Any:
        self.warn_if_empty()
        return self.now()._tables(typed, weights, plain)

    def __iter__(self) -> Iterator[Solution]:
        self.warn_if_empty()
        return iter(self.now())

    @property
    def hint(self) -> str | None:
        """Why the view has no rows: a predicate or class that no triple has, or that other graphs have."""
        if self.failure is not None or self._read_beside(self.content.row_count) > 1:
            return None
        shown = self.preview(2, -1)
        if self._searched[0] != shown.epoch:
            is_empty = seems_empty(self.plan, [row for row, _ in shown.first])
            self._searched = (
                shown.epoch,
                why_empty(self._writer, self.plan, shown.epoch) if is_empty else None,
            )
        return self._searched[1]

    def warn_if_empty(self) -> None:
        """Warns the first time that the view is read without rows and there is a reason."""
        if not self._has_warned and (hint := self.hint) is not None:
            self._has_warned = True
            warn_empty(f"View {self.name!r}", hint)

    def live(self) -> LiveTable:
        """Shows the first rows in a notebook, and draws them again when they change, until `stop()`."""
        from sparqlive.engine.live_table import LiveTable

        return LiveTable(self)

    def quads(self) -> Iterator[Quad]:
        self.ensure_graph()
        return self.now().quads()

    def at(self, epoch: int) -> Answer:
        """Returns the view's result at an earlier epoch, as far back as deltas are kept."""
        whole("epoch", epoch)
        with self._writer.reading():
            self._ensure_alive()
            if len(kept_of(self.plan).variables) > len(self.variables):
                raise Unsupported(
                    f"View {self.name!r} cannot be listed in order at epoch {epoch}: its ORDER BY uses "
                    f"values that are not selected, and its deltas do not have them. Select them too."
                )
            rows, terms = self._rows_at(epoch), self.terms.captured()
        blocks = partial(blocks_of, rows.items(), len(self.variables))
        return Answer(self.query, self.plan, blocks, terms, epoch)

    def _rows_at(self, epoch: int) -> dict[Row, int]:
        """The content without the later deltas."""
        if epoch > self.epoch:
            raise HistoryGone(
                f"Epoch {epoch} does not exist yet: view {self.name!r} is at epoch {self.epoch}."
            )
        deltas = self._after(epoch)
        if deltas is None:
            raise HistoryGone(
                f"View {self.name!r} cannot be read at epoch {epoch}: its history starts at epoch "
                f"{self._history_start()}."
            )
        rows = dict(self._rows())
        for delta in deltas:
            add_into(rows, {row: -weight for row, weight in delta.rows.items()})
        return rows

    def _rows(self) -> Mapping[Row, int]:
        rows = dict(self.content.items())
        if rows and min(rows.values()) < 0:
            raise self._wrong()
        return self._columns.visible(rows)

    def _items(self) -> Iterator[tuple[Row, int]]:
        for row, weight in self.content.items():
            if weight < 0:
                raise self._wrong()
            yield row, weight

    def _wrong(self) -> ViewFailed:
        """Marks the view as failed because a row occurs less than never: some earlier delta was wrong."""
        reason = (
            f"View {self.name!r} is wrong: one of its rows has a negative weight. Run `sparqlive check "
            f"--repair` on its store, or call `repair()` on the session, to compute it again."
        )
        if not self.is_wrong:
            _log.error("%s", reason)
        self.is_wrong, self.failure = True, reason
        return ViewFailed(reason)

    def solutions(self) -> Iterable[Solution]:
        """Returns the solutions in the order of ORDER BY, with duplicates, without unbound variables.

        They are a list; of a view that stays in the store, unless it has an ORDER BY, an iterator over its
        files as of now.
        """
        self.warn_if_empty()
        answer = self.now()
        return answer.solutions() if self.content.is_held or self.ordered else iter(answer)

    @property
    def ordered(self) -> bool:
        """Whether the query has an ORDER BY."""
        return self._columns.is_ordered

    def first(self, count: int, in_order: bool = True) -> list[tuple[TermRow, int]]:
        """Returns the first distinct rows with their multiplicity in the order of ORDER BY; without it, any.

        This sorts all rows; `in_order=False` returns any rows of a large view without sorting. If ORDER BY
        lists a row at several positions, the multiplicity may not count the later positions.
        """
        return self.preview(count, sys.maxsize if in_order else -1).first

    def preview(self, count: int, most_sorted: int) -> Preview:
        """Returns the first distinct rows, and how many there are; more than `most_sorted` are not sorted."""
        whole("count", count)

        def read() -> tuple[Preview, Callable[[], Mapping[Row, int]], Terms]:
            content, rows, terms = self.content, self.content.row_count(), self.terms.captured()
            in_order = self.ordered and rows <= most_sorted
            about = Preview(self.epoch, rows, in_order, [])
            if content.capturable:
                captured = self.captured()
                return about, lambda: self._columns.first(rows_in(captured()), count, in_order), terms
            found = self._columns.first(self._items(), count, in_order)
            return about, lambda: found, terms

        about, first, terms = self._read_beside(read)
        return replace(about, first=list(decoded(terms.dictionary, first()).items()))

    def __len__(self) -> int:
        """Number of solutions, counted with their multiplicity."""
        with self._writer.reading():
            self._ensure_alive()
            if not self.content.is_held:  # counted by columns
                return self.content.total_weight()
            count = 0
            for block in self.content.captured()():
                if (block.weights < 0).any():
                    raise self._wrong()
                count += int(block.weights.sum())
            return count

    def changes(self, since: int = 0, follow: bool = False) -> Iterator[Delta]:
        """Yields the deltas after epoch `since`, one per epoch that changed the view.

        If they are no longer kept, or the view is younger, the whole content comes first, as a delta marked
        `reset`. `follow` continues with each new epoch until the session is closed.
        """
        whole("since", since, least=-1)
        if since > self._writer.epoch:
            raise HistoryGone(
                f"Epoch {since} does not exist yet: the session is at epoch {self._writer.epoch}."
            )
        seen = min(since, self.epoch)  # a deferred view may not have reached `since` yet
        while True:
            deltas, seen = self._since(seen)
            yield from deltas
            if not follow or not self._writer.wait_beyond(self, seen):
                return

    def to_spark(self, epoch: int | None = None, *, typed: bool = True, weights: bool = False) -> Any:
        """Returns the view at an epoch, by default its last one, as a Spark DataFrame; see `to_arrow`.

        Of a store, Spark's workers read the files, unless the query has an ORDER BY: then one worker reads
        the view, in order. The types of columns take a pass over the view; `typed=False` does without.
        """
        if epoch is not None:
            whole("epoch", epoch)
        self._ensure_alive()
        from sparqlive.engine.to_spark import view_to_spark

        return view_to_spark(self._writer, self, epoch, typed, weights)

    def changes_to_spark(self, since: int, *, typed: bool = True) -> Any:
        """Returns the changes after an epoch as a Spark DataFrame, with the columns `_epoch` and `_weight`.

        A weight is negative where a row left the view.
        """
        whole("since", since)
        self._ensure_alive()
        from sparqlive.engine.to_spark import changes_to_spark

        return changes_to_spark(self._writer, self, since, typed)

    def changes_table(self, deltas: Sequence[Delta], typed: bool) -> Any:
        """Returns deltas as an Arrow table with the columns `_epoch` and `_weight`."""
        import pyarrow as pa

        from sparqlive.sparql.arrow import Tables

        check_column_names(self.variables, EPOCH, WEIGHT)
        width = len(self.variables)
        blocks = [(delta.epoch, block) for delta in deltas for block in delta.blocks(width)]
        tables = Tables(self.variables, [block for _, block in blocks], self.texts, typed, weights=True)
        writer = [number for number, block in blocks for _ in range(len(block.weights))]
        return tables.table().add_column(width, EPOCH, pa.array(writer, pa.int64()))

    def changes_after(self, epoch: int) -> tuple[int, list[Delta] | None]:
        """Returns the view's epoch, and the deltas after another; None if they are no longer kept."""
        with self._writer.capturing() as is_carrying:
            if not is_carrying or epoch >= self._retained_from:  # the store's history is being written
                self._ensure_alive()
                return self.epoch, self._after(epoch)
        with self._writer.lock:
            self._ensure_alive()
            return self.epoch, self._after(epoch)

    def _since(self, since: int) -> tuple[list[Delta], int]:
        """The deltas after an epoch, and the epoch they lead to."""
        with self._writer.reading():
            epoch, deltas = self.changes_after(since)
            if deltas is None:
                deltas = [self._decode.hold(Delta(epoch, self._rows(), self._decode, reset=True))]
            return deltas, epoch

    def _after(self, epoch: int) -> list[Delta] | None:
        """The deltas after an epoch, from memory or the store; None if they are no longer kept."""
        if epoch < self._retained_from and epoch < self._history_start():
            return None
        older = (
            Delta(number, shown, self._decode)
            for number, rows in self._stored_history(epoch)
            if (shown := self._columns.visible(rows))
        )
        return [*older, *(delta for delta in self._history if delta.epoch > epoch)]

    def _stored_history(self, epoch: int) -> Iterator[tuple[int, Mapping[Row, int]]]:
        if self.temporary:
            return iter(())
        return self._writer.history(self.content, epoch, self._retained_from)

    def _history_start(self) -> int:
        """The epoch after which deltas are kept."""
        start = None if self.temporary else self._writer.history_start()
        return self._retained_from if start is None else min(self._retained_from, max(self.since, start))

    def explain(self) -> str:
        """Describes the plan, its delta rules, and the stored state with its sizes."""
        with self._writer.reading():
            return explain(
                self.content.plan_to_explain(), self.content.sizes(), self.text, self._choice_lines()
            )

    def explained(self) -> Explained:
        """Returns the plan as a tree to draw: operators, delta rules, and the stored state with its sizes."""
        with self._writer.reading():
            return explain_plan(self.content.plan_to_explain(), self.content.sizes())

    def costs(self) -> list[Cost] | None:
        """Returns where this process spent its time updating the view.

        None if the view has no costs of its own: views of one shape are updated together, and a product of
        parts is updated part by part.
        """
        with self._writer.reading():
            costs = self.content.costs()
            if costs is None:
                return None
            return [Cost(at, to, spent.times, spent.rows, spent.seconds) for at, to, spent in costs]

    def _choice_lines(self) -> list[str]:
        """Why the view is not held, and the last epoch with a choice: how it was carried, and why."""
        held = [f"not held in memory: {self.content.why}"] if self.content.why else []
        if self.choice is None:
            small = "every epoch was small and was carried live"
            return [*held, f"none yet: {small if self.content.is_held else 'no epoch has changed it'}"]
        epoch, choice = self.choice
        return [
            *held,
            f"epoch {epoch}: {choice.strategy}, in {choice.seconds:.3g} s",
            choice.reason,
        ]

    def stats(self) -> dict[str, Any]:
        """Returns numbers about the view: rows, bytes of state, this session's last epoch that changed it.

        While an epoch is carried, the bytes of state are those of the last time, because state changes.
        """
        with self._writer.capturing() as is_carrying:
            is_known = self._state_bytes is not None and self.follow is None  # its status needs the lock
            if not is_carrying or (self.content.capturable and is_known):
                return self._stats(self._state_bytes if is_carrying else self.content.nbytes)
        with self._writer.lock:
            return self._stats(self.content.nbytes)

    def _stats(self, state_bytes: int | None) -> dict[str, Any]:
        self._state_bytes = state_bytes
        return {
            "rows": self.content.row_count(),
            "state_bytes": state_bytes,
            "held": self.content.is_held,
            "epoch": self.epoch,
            "refresh": self.refresh_setting,
            "unseen_changes": 0 if self.deferred is None else len(self.deferred.gathered),
            "last_epoch": self._history[-1].epoch if self._history else self.since,
            "strategy": "+".join(sorted({plan.carried for plan in self.content.carried_by()})),
            "failure": self.failure,
            "follow": None if self.follow is None else self.follow.status(),
        }

    def _ensure_alive(self) -> None:
        self._writer.ensure_open()
        if self.failure is not None:
            raise ViewFailed(self.failure)

    # For the session

    def read(self, content: PlanContent) -> None:
        """Switches the view to another content."""
        self.content = content
        if self.is_wrong:
            self.is_wrong, self.failure = False, None

    def begin_history(self, epoch: int) -> None:
        """Sets the epoch at which the view's history starts."""
        self.since = epoch

    def fail(self, reason: str) -> None:
        """Marks the view as failed: it is no longer kept up to date."""
        self.failure = reason

    def chose(self, epoch: int, choice: Choice) -> None:
        """Records the chosen strategy of an epoch."""
        self.choice = (epoch, choice)

    def follow_links(self, links: Any) -> None:
        """Sets the view's link following (`sources.links.traversal.LinkFollower`), or None."""
        self.follow = links

    def moved(self) -> None:
        """Notes that the deltas up to now are read from the store: the session is a reader's, or the view's
        content has moved there.
        """
        self._retained_from = self.epoch
        self.end_history()
        self._history.clear()
        self._history_rows = 0

    def history(self) -> Iterable[Delta]:
        """The deltas that are kept in memory."""
        return self._history

    def end_history(self) -> None:
        """Notes that the session does not know the view's deltas any more; others may hold them."""
        for delta in self._history:
            self._decode.hold(delta)

    @property
    def history_bytes(self) -> int:
        """The memory of the deltas that are kept, estimated."""
        return _BYTES_PER_DELTA * len(self._history) + _BYTES_PER_ROW * self._history_rows

    def no_change(self, epoch: int) -> Delta:
        return Delta(epoch, {}, self._decode)

    def record(self, epoch: int, rows: Mapping[Row, int]) -> Delta:
        """Adds an epoch's delta to the history, and drops the oldest deltas beyond the bounds."""
        if not self._columns.are_visible:
            rows = self._columns.visible(rows)
        delta = Delta(epoch, rows, self._decode)
        if not self.content.is_held:  # its history is in the store
            self._retained_from = epoch
            return self._decode.hold(delta)
        if not rows:
            return delta
        self._history.append(delta)
        self._history_rows += len(rows)
        while (self._history_rows > RETAINED_ROWS or len(self._history) > RETAINED_DELTAS) and len(
            self._history
        ) > 1:
            oldest = self._decode.hold(self._history.popleft())
            self._history_rows -= len(oldest)
            self._retained_from = oldest.epoch
        return delta

    def __repr__(self) -> str:
        return f"View({self.name!r}, variables={self.variables})"
