"""A view as the engine keeps it; `engine/view.py` is what a user sees of it.

Owns which content the view reads, its failure, and its last choice of a strategy; `engine/history.py` has its
deltas. Invariant: a view whose rows were found wrong has failed, until they are computed again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from sparqlive.engine.carry import Choice
from sparqlive.engine.deferred import Deferred, Refresh
from sparqlive.engine.history import History
from sparqlive.engine.results import Columns
from sparqlive.engine.view import View
from sparqlive.errors import ViewFailed
from sparqlive.live.materialization import Materialization
from sparqlive.live.terms import Terms
from sparqlive.plan.normal_form import Spelling, spelling_of
from sparqlive.plan.operators import Operator
from sparqlive.sparql.algebra import Query
from sparqlive.zset.blocks import Block, Blocks
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.engine.writer import Writer

_T = TypeVar("_T")
_log = logging.getLogger("sparqlive.engine")


class ViewState:
    """One view: its query and plan, and what the engine knows about it."""

    def __init__(
        self,
        writer: Writer,
        name: str,
        text: str,
        query: Query,
        plan: Operator,
        content: Materialization,
        deferred: Deferred | None,
        owner: str | None = None,
        terms: Terms | None = None,
    ) -> None:
        """`terms` belong to a temporary view, which is not stored and adds no terms to the session."""
        self.writer = writer
        self.name = name
        self.text = text
        self.query = query
        self.form = query.form
        self.variables = tuple(variable.name for variable in plan.variables)
        self.plan = plan
        self.content = content
        self.deferred = deferred
        self.owner = owner
        self.temporary = terms is not None
        self.terms = terms or writer.terms
        self.columns = Columns(plan, self.terms)
        self.failure: str | None = None
        self.is_wrong = False
        """Whether it failed because a read found its content wrong; `repair` computes it again."""
        self.choice: tuple[int, Choice] | None = None
        self.follow: Any = None
        """The view's link following (`sources.links.traversal.LinkFollower`), if it has one."""
        self.history = History(self)
        self.public = View(self)
        """What its users see."""

    @property
    def epoch(self) -> int:
        """The epoch of the view's content: the current one, unless the view is deferred."""
        return self.writer.epoch if self.deferred is None else self.deferred.epoch

    @property
    def refresh_setting(self) -> Refresh:
        return "immediate" if self.deferred is None else self.deferred.refresh

    @cached_property
    def spelling(self) -> Spelling:
        """The normal form of the view's query, which equivalent spellings share."""
        return spelling_of(self.plan)

    # Changing

    def read(self, content: Materialization) -> None:
        """Switches the view to another content."""
        self.content = content
        if self.is_wrong:
            self.is_wrong, self.failure = False, None

    def fail(self, reason: str) -> None:
        """Marks the view as failed: it is no longer kept up to date."""
        self.failure = reason

    def chose(self, epoch: int, choice: Choice) -> None:
        """Records the chosen strategy of an epoch."""
        self.choice = (epoch, choice)

    def follow_links(self, links: Any) -> None:
        """Sets the view's link following (`sources.links.traversal.LinkFollower`), or None."""
        self.follow = links

    # Reading

    def ensure_alive(self) -> None:
        self.writer.ensure_open()
        if self.failure is not None:
            raise ViewFailed(self.failure)

    def read_beside(self, read: Callable[[], _T]) -> _T:
        """Reads of one epoch; if possible, without waiting for an epoch that is carried."""
        with self.writer.capturing() as is_carrying:
            if not is_carrying or self.content.capturable:
                self.ensure_alive()
                return read()
        with self.writer.reading():
            self.ensure_alive()
            return read()

    def rows(self) -> Mapping[Row, int]:
        """The visible columns of all rows."""
        rows = dict(self.content.items())
        if rows and min(rows.values()) < 0:
            raise self.wrong()
        return self.columns.visible(rows)

    def items(self) -> Iterator[tuple[Row, int]]:
        for row, weight in self.content.items():
            if weight < 0:
                raise self.wrong()
            yield row, weight

    def captured(self) -> Blocks:
        """Captures the rows, to be listed later; see `Materialization.captured`. They may prove wrong."""
        captured = self.content.captured()

        def listed() -> Iterator[Block]:
            for block in captured():
                if len(block.weights) and block.weights.min() < 0:
                    raise self.wrong()
                yield block

        return listed

    def wrong(self) -> ViewFailed:
        """Marks the view as failed because a row has a negative weight: an earlier delta was wrong."""
        reason = (
            f"View {self.name!r} is wrong: one of its rows has a negative weight. Run `sparqlive check "
            f"--repair` on its store, or call `repair()` on the session, to compute it again."
        )
        if not self.is_wrong:
            _log.error("%s", reason)
        self.is_wrong, self.failure = True, reason
        return ViewFailed(reason)
