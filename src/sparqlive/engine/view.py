"""A view as its users see it: reading, its changes, explanations, data frames.

Everything else that belongs to a view is in `engine/view_state.py`. Invariant: everything that is read
together belongs to one epoch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyoxigraph import Quad

from sparqlive.engine.deferred import Refresh
from sparqlive.engine.empty import seems_empty, warn_empty, why_empty
from sparqlive.engine.results import Answer, Delta, Readable, Solution, TermRow, decoded
from sparqlive.errors import HistoryGone, TooLarge, Unsupported
from sparqlive.live.terms import Terms
from sparqlive.numbers import whole
from sparqlive.plan.explain import Explained, explain, explain_plan
from sparqlive.plan.operators import kept_of
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.zset.blocks import Block, blocks_of, rows_in
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.engine.live_table import LiveTable
    from sparqlive.engine.view_state import ViewState


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
    """The first distinct rows of a view with their multiplicity, and the number of all distinct rows."""

    epoch: int
    row_count: int
    in_order: bool
    first: list[tuple[TermRow, int]]


class View(Readable):
    """A registered query, and its content, which is kept up to date."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self.name = state.name
        self.text = state.text
        self.form = state.form
        self.variables = state.variables
        self.owner = state.owner
        """The person or program that registered the view, if recorded."""
        self.temporary = state.temporary
        self._state_bytes: int | None = None
        """The size of the state when it was last asked for."""
        self._searched: tuple[int, str | None] = -1, None
        """The last epoch at which a reason for having no rows was searched, and what was found."""
        self._has_warned = False

    @property
    def epoch(self) -> int:
        """The epoch of the view's content: the current one, unless the view is deferred."""
        return self._state.epoch

    @property
    def since(self) -> int:
        """The epoch at which the view's history starts."""
        return self._state.history.since

    @property
    def failure(self) -> str | None:
        """Why the view is no longer kept up to date; None if it is."""
        return self._state.failure

    @property
    def follow(self) -> Any:
        """The view's link following (`sources.links.traversal.LinkFollower`), if it has one."""
        return self._state.follow

    @property
    def refresh_setting(self) -> Refresh:
        return self._state.refresh_setting

    @property
    def ordered(self) -> bool:
        """Whether the query has an ORDER BY."""
        return self._state.columns.is_ordered

    @property
    def dictionary(self) -> Dictionary:
        """The terms of the ids in `blocks`."""
        return self._state.terms.dictionary

    def refresh(self) -> Delta:
        """Brings a deferred view to the current epoch, and returns the change.

        Changes that cancelled each other are never processed. A view that follows every epoch has no change.
        """
        self._state.ensure_alive()
        return self._state.writer.refresher.refresh(self._state)

    # Reading

    def weights(self, at: int | None = None) -> dict[TermRow, int]:
        """Returns each distinct row with its multiplicity; None means unbound.

        `at` reads an earlier epoch, as far back as deltas are kept.
        """
        state = self._state
        if at is not None:
            whole("at", at)
        with state.writer.reading():
            state.ensure_alive()
            if at is not None and at != state.epoch:
                return state.history.decode(state.history.rows_at(at))
            found = state.history.decode(state.rows())
        self.warn_if_empty()
        return found

    def now(self, row_limit: int | None = None) -> Answer:
        """Captures the view's result, which can then be read without blocking writers.

        More rows than `row_limit` are an error.
        """
        return self._state.read_beside(lambda: self._captured(row_limit))

    def _captured(self, row_limit: int | None) -> Answer:
        count = 0 if row_limit is None else self._state.content.row_count()
        if row_limit is not None and count > row_limit:
            raise TooLarge(
                f"View {self.name!r} has {count:,} rows; the limit is {row_limit:,} per read. Read a part of "
                f"them with a query."
            )
        state = self._state
        captured, terms = state.captured(), state.terms.captured()
        return Answer(
            state.query, state.plan, captured, terms, self.epoch, self.name, why_empty=lambda: self.hint
        )

    def blocks(self) -> Iterator[Block]:
        return self.now().blocks()

    def distinct_blocks(self) -> Iterator[Block]:
        return self.now().distinct_blocks()

    def texts(self, numbers: Sequence[int]) -> list[str]:
        return self._state.terms.dictionary.texts(numbers)

    def _tables(self, typed: bool, weights: bool, plain: bool = False) -> Any:
        self.warn_if_empty()
        return self.now()._tables(typed, weights, plain)

    def __iter__(self) -> Iterator[Solution]:
        self.warn_if_empty()
        return iter(self.now())

    @property
    def hint(self) -> str | None:
        """Why the view has no rows: a predicate or class that no triple has, or that other graphs have."""
        if self.failure is not None or self._state.read_beside(self._state.content.row_count) > 1:
            return None
        shown = self.preview(2, -1)
        if self._searched[0] != shown.epoch:
            is_empty = seems_empty(self._state.plan, [row for row, _ in shown.first])
            self._searched = (
                shown.epoch,
                why_empty(self._state.writer, self._state.plan, shown.epoch) if is_empty else None,
            )
        return self._searched[1]

    def warn_if_empty(self) -> None:
        """Warns the first time that the view is read and has no rows for a known reason."""
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
        state = self._state
        with state.writer.reading():
            state.ensure_alive()
            if len(kept_of(state.plan).variables) > len(self.variables):
                raise Unsupported(
                    f"View {self.name!r} cannot be listed in order at epoch {epoch}: its ORDER BY uses "
                    f"values that are not selected, and its deltas do not have them. Select them too."
                )
            rows, terms = state.history.rows_at(epoch), state.terms.captured()
        blocks = partial(blocks_of, rows.items(), len(self.variables))
        return Answer(state.query, state.plan, blocks, terms, epoch)

    def solutions(self) -> Iterable[Solution]:
        """Returns the solutions in the order of ORDER BY, with duplicates, without unbound variables.

        They are a list; of a view that stays in the store, unless it has an ORDER BY, an iterator over its
        files as of now.
        """
        self.warn_if_empty()
        answer = self.now()
        return answer.solutions() if self._state.content.is_held or self.ordered else iter(answer)

    def first(self, count: int, in_order: bool = True) -> list[tuple[TermRow, int]]:
        """Returns the first distinct rows with their multiplicity in the order of ORDER BY; without it, any.

        This sorts all rows; `in_order=False` returns any rows of a large view without sorting. If ORDER BY
        lists a row at several positions, the multiplicity may not count the later positions.
        """
        return self.preview(count, sys.maxsize if in_order else -1).first

    def preview(self, count: int, most_sorted: int) -> Preview:
        """Returns the first distinct rows, and the number of all; more than `most_sorted` are not sorted."""
        whole("count", count)
        state = self._state

        def read() -> tuple[Preview, Callable[[], Mapping[Row, int]], Terms]:
            rows, terms, columns = state.content.row_count(), state.terms.captured(), state.columns
            in_order = self.ordered and rows <= most_sorted
            about = Preview(self.epoch, rows, in_order, [])
            if state.content.capturable:
                captured = state.captured()
                return about, lambda: columns.first(rows_in(captured()), count, in_order), terms
            found = columns.first(state.items(), count, in_order)
            return about, lambda: found, terms

        about, first, terms = state.read_beside(read)
        return replace(about, first=list(decoded(terms.dictionary, first()).items()))

    def __len__(self) -> int:
        """Number of solutions, counted with their multiplicity."""
        state = self._state
        with state.writer.reading():
            state.ensure_alive()
            if not state.content.is_held:  # counted by columns
                return state.content.total_weight()
            return sum(int(block.weights.sum()) for block in state.captured()())

    def changes(self, since: int = 0, follow: bool = False) -> Iterator[Delta]:
        """Yields the deltas after epoch `since`, one per epoch that changed the view.

        If they are no longer kept, or the view is younger, the whole content comes first, as a delta marked
        `reset`. `follow` continues with each new epoch until the session is closed.
        """
        whole("since", since, least=-1)
        if since > self._state.writer.epoch:
            raise HistoryGone(
                f"Epoch {since} does not exist yet: the session is at epoch {self._state.writer.epoch}."
            )
        seen = min(since, self.epoch)  # a deferred view may not have reached `since` yet
        while True:
            deltas, seen = self._state.history.read_after(seen)
            yield from deltas
            if not follow or not self._state.writer.wait_beyond(self._state, seen):
                return

    def changes_after(self, epoch: int) -> tuple[int, list[Delta] | None]:
        """Returns the view's epoch, and the deltas after another; None if they are no longer kept."""
        return self._state.history.now_after(epoch)

    def to_spark(self, epoch: int | None = None, *, typed: bool = True, weights: bool = False) -> Any:
        """Returns the view at an epoch, by default its last one, as a Spark DataFrame; see `to_arrow`.

        Of a store, Spark's workers read the files, unless the query has an ORDER BY: then one worker reads
        the view, in order. Finding the types of columns takes a pass over the view; `typed=False` avoids it.
        """
        if epoch is not None:
            whole("epoch", epoch)
        self._state.ensure_alive()
        from sparqlive.engine.to_spark import view_to_spark

        return view_to_spark(self._state, epoch, typed, weights)

    def changes_to_spark(self, since: int, *, typed: bool = True) -> Any:
        """Returns the changes after an epoch as a Spark DataFrame, with the columns `_epoch` and `_weight`.

        A weight is negative where a row left the view.
        """
        whole("since", since)
        self._state.ensure_alive()
        from sparqlive.engine.to_spark import changes_to_spark

        return changes_to_spark(self._state, since, typed)

    def explain(self) -> str:
        """Describes the plan, its delta rules, and the stored state with its sizes."""
        content = self._state.content
        with self._state.writer.reading():
            return explain(content.plan_to_explain(), content.sizes(), self.text, self._choice_lines())

    def explained(self) -> Explained:
        """Returns the plan as a tree to draw: operators, delta rules, and the stored state with its sizes."""
        content = self._state.content
        with self._state.writer.reading():
            return explain_plan(content.plan_to_explain(), content.sizes())

    def costs(self) -> list[Cost] | None:
        """Returns where this process spent its time updating the view.

        None if the view has no costs of its own: views of one shape are updated together, and a product of
        parts is updated part by part.
        """
        with self._state.writer.reading():
            costs = self._state.content.costs()
            if costs is None:
                return None
            return [Cost(at, to, spent.times, spent.rows, spent.seconds) for at, to, spent in costs]

    def _choice_lines(self) -> list[str]:
        """Why the view stays in files, and the last epoch with a choice: how it was carried, and why."""
        content = self._state.content
        in_files = [f"stays in files: {content.why}"] if content.why else []
        if self._state.choice is None:
            small = "every epoch was small and was carried live"
            return [*in_files, f"none yet: {small if content.is_held else 'no epoch has changed it'}"]
        epoch, choice = self._state.choice
        return [
            *in_files,
            f"epoch {epoch}: {choice.strategy}, in {choice.seconds:.3g} s",
            choice.reason,
        ]

    def stats(self) -> dict[str, Any]:
        """Returns numbers about the view: rows, bytes of state, this session's last epoch that changed it.

        While an epoch is carried, the bytes of state are those of the last time, because state changes.
        """
        state = self._state
        with state.writer.capturing() as is_carrying:
            is_known = self._state_bytes is not None and self.follow is None  # its status needs the lock
            if not is_carrying or (state.content.capturable and is_known):
                return self._stats(self._state_bytes if is_carrying else state.content.nbytes)
        with state.writer.reading():
            return self._stats(state.content.nbytes)

    def _stats(self, state_bytes: int | None) -> dict[str, Any]:
        self._state_bytes = state_bytes
        content, deferred = self._state.content, self._state.deferred
        return {
            "rows": content.row_count(),
            "state_bytes": state_bytes,
            "held": content.is_held,
            "epoch": self.epoch,
            "refresh": self.refresh_setting,
            "unseen_changes": 0 if deferred is None else len(deferred.gathered),
            "last_epoch": self._state.history.last_epoch,
            "strategy": "+".join(sorted({plan.carried for plan in content.carried_by()})),
            "failure": self.failure,
            "follow": None if self.follow is None else self.follow.status(),
        }

    def __repr__(self) -> str:
        return f"View({self.name!r}, variables={self.variables})"
