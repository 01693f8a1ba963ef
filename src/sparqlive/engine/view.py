"""Views, and the epochs that change them.

Owns what a session keeps of a view beside its content: its deltas, and how it fares. Invariant: whatever is
read belongs to one whole epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from sparqlive.engine.carry import Choice
from sparqlive.engine.deferred import Deferred, Refresh
from sparqlive.engine.results import (
    FORMS,
    GRAPH_FORMS,
    Answer,
    Columns,
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
from sparqlive.plan.explain import Explained, explain, explained
from sparqlive.plan.operators import Operator, kept_of
from sparqlive.plan.spelling import Spelt, spelt
from sparqlive.sparql.algebra import Query
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into

if TYPE_CHECKING:
    from sparqlive.engine.writer import Epochs

__all__ = ["FORMS", "GRAPH_FORMS", "Answer", "Cost", "Delta", "Deltas", "Epoch", "TermRow", "View"]

# What is held in memory of a view's deltas; a store has more.
RETAINED_DELTAS = 4_000
RETAINED_ROWS = 1_000_000


@dataclass(frozen=True)
class Epoch:
    """One committed batch of changes: its number, how many quads it changed, and each view's delta.

    `ignored` counts the changes that changed nothing. `strategy`: how it was carried to the views; `choices`
    says it for each view for which there was something to choose, with estimates and the reason. `rejected`
    counts malformed lines that a load left out. `seconds`: how long it took.
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


@dataclass(frozen=True)
class Cost:
    """What a piece of carrying changes cost: how often, how many changed rows went in, seconds in all.

    The piece begins with the change of the operator `at` (its number in the plan) and goes, by one function
    for all operators on the way, to the operator `to`, where deltas are gathered: a term of the delta rules.
    Without `to` it is what the operator took to bring up to date what it stores.
    """

    at: int
    to: int | None
    times: int
    rows: int
    seconds: float


class Deltas(Mapping[str, Delta]):
    """The deltas of an epoch by view: an entry only for views that changed, an answer for all."""

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


class View(Readable):
    """A registered query and its content, kept up to date."""

    def __init__(
        self,
        epochs: Epochs,
        name: str,
        text: str,
        query: Query,
        plan: Operator,
        content: PlanContent,
        deferred: Deferred | None,
        owner: str | None = None,
        terms: Terms | None = None,
    ) -> None:
        """`terms`: those of a temporary view, which is not stored and enters nothing into the session's."""
        self.name = name
        self.text = text
        self.query = query
        self.form = query.form
        self.variables = tuple(variable.name for variable in plan.variables)
        self.plan = plan
        self.content = content
        self.deferred = deferred
        self.owner = owner
        """Who registered the view, where that was said."""
        self.temporary = terms is not None
        self._terms = terms or epochs.terms
        self._columns = Columns(plan, self._terms)
        self.since = epochs.epoch
        self.failure: str | None = None
        self.choice: tuple[int, Choice] | None = None
        self.follow: Any = None
        """How the view follows links (`sources.links.traversal.LinkFollower`), if it does."""
        self._epochs = epochs
        self._decode = partial(decoded, self._terms.dictionary)  # one object for all deltas
        self._history: deque[Delta] = deque()
        self._history_rows = 0
        self._retained_from = self.epoch

    @property
    def epoch(self) -> int:
        """The epoch that the view stands for: the current one, unless it is refreshed later."""
        return self._epochs.epoch if self.deferred is None else self.deferred.epoch

    @cached_property
    def spelt(self) -> Spelt:
        """What the view has in common with other spellings of its query."""
        return spelt(self.plan)

    @property
    def refresh_setting(self) -> Refresh:
        return "immediate" if self.deferred is None else self.deferred.refresh

    def refresh(self) -> Delta:
        """Brings a view that is refreshed later to the current epoch, and gives the change that this makes.

        Changes that nothing is left of are never carried. A view that follows every epoch has no change.
        """
        self._ensure_alive()
        return self._epochs.refresh(self)

    # Reading

    def weights(self, at: int | None = None) -> dict[TermRow, int]:
        """Each distinct row with its multiplicity; None is unbound.

        `at`: as it stood at an earlier epoch, as far back as deltas are kept.
        """
        if at is not None:
            whole("at", at)
        with self._epochs.reading():
            self._ensure_alive()
            if at is None or at == self.epoch:
                return self._decode(self._rows().items())
            return self._decode(self._rows_at(at).items())

    def now(self, row_limit: int | None = None) -> Answer:
        """The view as it stands, apart from it: what is read of that does not block writers.

        More rows than `row_limit` are an error.
        """
        return self.copied(row_limit)()

    def copied(self, row_limit: int | None = None) -> Callable[[], Answer]:
        """Gives what `now` gives, later, as of the epoch of now."""
        with self._epochs.reading():
            self._ensure_alive()
            count = self.content.row_count()
            if row_limit is not None and count > row_limit:
                raise TooLarge(
                    f"View {self.name!r} has {count:,} rows, and {row_limit:,} can be read at once: ask "
                    f"for a part of them by a query."
                )
            epoch, rows = self.epoch, self.content.copied()
        return lambda: Answer(self.query, self.plan, dict(rows()), self._terms, epoch, self.name)

    def at(self, epoch: int) -> Answer:
        """The view as it stood at an earlier epoch, as far back as deltas are kept."""
        whole("epoch", epoch)
        with self._epochs.reading():
            self._ensure_alive()
            if len(kept_of(self.plan).variables) > len(self.variables):
                raise Unsupported(
                    f"View {self.name!r} is ordered by what it does not show, which its deltas leave out: "
                    f"read weights(at={epoch}), or let the view show its keys."
                )
            return Answer(self.query, self.plan, self._rows_at(epoch), self._terms, epoch)

    def _rows_at(self, epoch: int) -> dict[Row, int]:
        """The content, without the deltas that came later."""
        if epoch > self.epoch:
            raise HistoryGone(
                f"View {self.name!r} stands for epoch {self.epoch}: epoch {epoch} is yet to come."
            )
        deltas = self._after(epoch)
        if deltas is None:
            raise HistoryGone(
                f"View {self.name!r} cannot be read as of epoch {epoch}: its deltas are kept from epoch "
                f"{self._history_start()} on."
            )
        rows = dict(self._rows())
        for delta in deltas:
            add_into(rows, {row: -weight for row, weight in delta.rows.items()})
        return rows

    def _rows(self) -> Mapping[Row, int]:
        return self._columns.shown(dict(self.content.items()))

    def solutions(self) -> list[Solution]:
        with self._epochs.reading():
            self._ensure_alive()
            return self._columns.listed(self.variables, self.content.items())

    @property
    def ordered(self) -> bool:
        """Whether the query has an ORDER BY."""
        return self._columns.is_ordered

    def first(self, count: int, in_order: bool = True) -> list[tuple[TermRow, int]]:
        """The first distinct rows with their multiplicity, in the order of ORDER BY; without one, any.

        All rows are sorted for that: of a large view, `in_order=False` gives any rows, without sorting. Of a
        row that ORDER BY has at several places, the later places may be left out of its multiplicity.
        """
        whole("count", count)
        with self._epochs.reading():
            self._ensure_alive()
            return list(
                self._decode(self._columns.first(self.content.items(), count, in_order).items()).items()
            )

    def __len__(self) -> int:
        """The number of solutions, counted with their multiplicity."""
        with self._epochs.reading():
            self._ensure_alive()
            return sum(weight for _, weight in self.content.items())

    def changes(self, since: int = 0, follow: bool = False) -> Iterator[Delta]:
        """The deltas after epoch `since`, one for each epoch that changed the view.

        Where they are no longer kept, or the view is younger, the content as a delta marked `reset` comes
        first. `follow` goes on with each new epoch until the session is closed.
        """
        whole("since", since, least=-1)
        if since > self._epochs.epoch:
            raise HistoryGone(f"Epoch {since} is yet to come: the session is at epoch {self._epochs.epoch}.")
        seen = min(since, self.epoch)  # a view that is refreshed later may yet come to `since`
        while True:
            deltas, seen = self._since(seen)
            yield from deltas
            if not follow or not self._epochs.wait_beyond(self, seen):
                return

    def _since(self, since: int) -> tuple[list[Delta], int]:
        """The deltas after an epoch, and the epoch to which they lead."""
        with self._epochs.reading():
            self._ensure_alive()
            deltas = self._after(since)
            if deltas is None:
                deltas = [Delta(self.epoch, self._rows(), self._decode, reset=True)]
            return deltas, self.epoch

    def _after(self, epoch: int) -> list[Delta] | None:
        """The deltas after an epoch, from memory or from the store; None where they are no longer kept."""
        if epoch < self._history_start():
            return None
        older = (
            Delta(number, shown, self._decode)
            for number, rows in self._stored_history(epoch)
            if (shown := self._columns.shown(rows))
        )
        return [*older, *(delta for delta in self._history if delta.epoch > epoch)]

    def _stored_history(self, epoch: int) -> Iterator[tuple[int, Mapping[Row, int]]]:
        if self.temporary:
            return iter(())
        return self._epochs.history(self.content, epoch, self._retained_from)

    def _history_start(self) -> int:
        """Deltas after this epoch are kept."""
        start = None if self.temporary else self._epochs.history_start()
        return self._retained_from if start is None else min(self._retained_from, max(self.since, start))

    def explain(self) -> str:
        """The plan, its delta rules, what is stored and how large it is."""
        with self._epochs.reading():
            return explain(self.content.shown(), self.content.sizes(), self.text, self._choice_lines())

    def explained(self) -> Explained:
        """The plan as a tree to draw: operators, delta rules, and what is stored with its sizes."""
        with self._epochs.reading():
            return explained(self.content.shown(), self.content.sizes())

    def costs(self) -> list[Cost] | None:
        """Where the time went that carried changes to this view, in this process.

        None where the view has no costs of its own: many views of one shape are carried together, and a
        product of parts is carried part by part.
        """
        with self._epochs.reading():
            costs = self.content.costs()
            if costs is None:
                return None
            return [Cost(at, to, spent.times, spent.rows, spent.seconds) for at, to, spent in costs]

    def _choice_lines(self) -> list[str]:
        """The last epoch for which there was something to choose: how it was carried, and why."""
        if self.choice is None:
            return ["none yet: every epoch was small, and carried live"]
        epoch, choice = self.choice
        estimates = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in choice.estimates.items())
        return [
            f"epoch {epoch}: {choice.strategy}, in {choice.seconds:.3g} s",
            f"estimates: {estimates}",
            choice.reason,
        ]

    def stats(self) -> dict[str, Any]:
        """Numbers about the view: rows, bytes of state, the last epoch that changed it."""
        with self._epochs.reading():
            last = self._history[-1].epoch if self._history else self.since
            return {
                "rows": self.content.row_count(),
                "state_bytes": self.content.nbytes,
                "epoch": self.epoch,
                "refresh": self.refresh_setting,
                "unseen_changes": 0 if self.deferred is None else len(self.deferred.gathered),
                "last_epoch": last,
                "strategy": "+".join(sorted({plan.carried for plan in self.content.carried_by()})),
                "failure": self.failure,
                "follow": None if self.follow is None else self.follow.status(),
            }

    def _ensure_alive(self) -> None:
        self._epochs.ensure_open()
        if self.failure is not None:
            raise ViewFailed(self.failure)

    # For the session

    def read(self, content: PlanContent) -> None:
        """From now on the view has the rows of another content."""
        self.content = content

    def begin_history(self, epoch: int) -> None:
        """Deltas of the view are kept from this epoch on."""
        self.since = epoch

    def fail(self, reason: str) -> None:
        """The view is no longer kept."""
        self.failure = reason

    def chose(self, epoch: int, choice: Choice) -> None:
        """An epoch was carried to the view in a way that was chosen."""
        self.choice = (epoch, choice)

    def follow_links(self, links: Any) -> None:
        """The view follows links so (`sources.links.traversal.LinkFollower`), or (None) none."""
        self.follow = links

    def moved(self) -> None:
        """A reader's session has gone on: deltas are in the store."""
        self._retained_from = self.epoch

    def no_change(self, epoch: int) -> Delta:
        return Delta(epoch, {}, self._decode)

    def record(self, epoch: int, rows: Mapping[Row, int]) -> Delta:
        """Keeps an epoch's delta, and forgets the oldest beyond the bounds."""
        delta = Delta(epoch, self._columns.shown(rows), self._decode)
        if not delta:
            return delta
        self._history.append(delta)
        self._history_rows += len(delta)
        while len(self._history) > 1 and (
            len(self._history) > RETAINED_DELTAS or self._history_rows > RETAINED_ROWS
        ):
            oldest = self._history.popleft()
            self._history_rows -= len(oldest)
            self._retained_from = oldest.epoch
        return delta

    def __repr__(self) -> str:
        return f"View({self.name!r}, variables={self.variables})"
