"""Views that are refreshed later than their data changes: by hand, or within a number of seconds.

Owns what such a view has not seen yet: the net change of the quads since the epoch that it stands for. Its
content is kept apart from those of other views. Invariant: the quads of now without what is gathered are the
quads that the content belongs to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from sparqlive.engine.carry import Carried, Strategies
from sparqlive.errors import Error
from sparqlive.live.content import PlanContent
from sparqlive.live.keeper import Keeper
from sparqlive.live.maintained import Saved
from sparqlive.live.quads import Change, Quad, Quads
from sparqlive.live.terms import Terms
from sparqlive.numbers import MOST_SECONDS, seconds, shown
from sparqlive.plan.operators import Operator
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into

Refresh: TypeAlias = Literal["immediate", "manual"] | float


def gathered_name(view: str) -> str:
    """The name of the relation in which a store keeps what a view has not seen yet."""
    return f"gathered/{view}"


def check_refresh(refresh: object, name: str = "refresh") -> None:
    """Refuses what is no refresh setting; `name` is what its surface calls it."""
    if isinstance(refresh, str) and refresh in ("immediate", "manual"):
        return
    try:
        seconds(name, refresh)
    except Error:
        raise Error(
            f'{name} is "immediate", "manual" or a number of seconds above 0 and up to {MOST_SECONDS:,}, '
            f"not {shown(refresh)}."
        ) from None


class Deferred:
    """The content of one view, as of an epoch, and the changes since then."""

    def __init__(self, name: str, refresh: Refresh, epoch: int, quads: Quads, terms: Terms) -> None:
        self.refresh = refresh
        self.epoch = epoch
        self.gathered: dict[Quad, int] = {}
        self.keeper = Keeper(quads, terms, scope=name)
        self._quads = quads
        self._name = name
        self._timer: threading.Timer | None = None

    @property
    def relation(self) -> str:
        """The name under which a store keeps what is gathered."""
        return gathered_name(self._name)

    def keep(self, plan: Operator, saved: Saved | None) -> PlanContent:
        """The content as of the view's epoch; what was not saved is computed from the quads of that epoch."""
        self._quads.add(self.undone())
        try:
            return self.keeper.keep(plan, saved)
        finally:
            self._quads.add(self.changes())

    def changes(self) -> list[Change]:
        return [(*quad, weight) for quad, weight in self.gathered.items()]

    def undone(self) -> list[Change]:
        """The changes that lead from the quads of now back to those of the view's epoch."""
        return [(*quad, -weight) for quad, weight in self.gathered.items()]

    def load(self, gathered: Mapping[Row, int], epoch: int) -> None:
        """The view stands for an epoch, and has not seen these changes."""
        self.gathered = {(s, p, o, g): weight for (s, p, o, g), weight in gathered.items()}
        self.epoch = epoch

    def gather(self, changes: Sequence[Change], epoch: int) -> None:
        """Takes note of a committed epoch; changes that cancel each other are forgotten."""
        add_into(self.gathered, {(s, p, o, g): weight for s, p, o, g, weight in changes})
        if not self.gathered:
            self.epoch = epoch

    @contextmanager
    def carried(self, epoch: int, strategies: Strategies) -> Iterator[Carried]:
        """The deltas that bring the content to the present; they are committed when the block ends well."""
        changes, undone = self.changes(), self.undone()
        self._quads.add(undone)
        try:
            self._quads.stage(changes)
            yield strategies.carry(self.keeper, changes, "auto", undone)
        except BaseException:
            self.keeper.rollback()
            self._quads.rollback()
            self._quads.add(changes)
            raise
        self.keeper.commit()
        self._quads.commit()
        self.gathered = {}
        self.epoch = epoch

    # The clock

    def start(self, refresh: Callable[[], object]) -> None:
        """Has the view refreshed so many seconds after the oldest change that it has not seen."""
        if self.gathered and self._timer is None and self.refresh != "manual":
            self._timer = threading.Timer(float(self.refresh), refresh)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
