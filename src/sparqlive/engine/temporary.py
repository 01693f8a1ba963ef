"""Temporary views, such as those of subscriptions to a query.

Owns their contents, which share nothing with those of other views, and their limits. Invariant: an epoch that
exceeds the time limit of all of them together ends the most expensive ones.
"""

from __future__ import annotations

from sparqlive.engine.carry import CarryResult, Strategies
from sparqlive.engine.limits import Limits
from sparqlive.errors import Timeout
from sparqlive.live.limit import Limit
from sparqlive.live.plan_registry import PlanRegistry
from sparqlive.live.terms import Terms
from sparqlive.quads.current import Quads


class TemporaryViews:
    def __init__(self, quads: Quads, terms: Terms) -> None:
        self.registry = PlanRegistry(quads, terms, "~", families=False)
        self._limits = Limits()

    @property
    def is_used(self) -> bool:
        return self.registry.is_used

    def limit(self, limits: Limits) -> None:
        """Sets the limits, unless they are set; for the first view that is added. Called under the lock."""
        if self.registry.limit is None:
            self._limits = limits
            limit = Limit(limits.temporary_seconds, measures=True)
            self.registry.set_limit(limit, limits.temporary_changed_rows)

    def carry(self, changes: int, strategies: Strategies) -> CarryResult:
        """Carries the staged changes to all views; ends the slowest if all together take too long."""
        registry, limits = self.registry, self._limits
        seconds = limits.temporary_seconds + changes * limits.temporary_seconds_per_change
        if registry.limit is not None:
            registry.limit.allow(seconds)
        carried = strategies.carry_live(registry)
        if registry.limit is not None:
            spent = registry.limit.take_spent()
            over = sum(spent.values()) - seconds
            for compiled in sorted(spent, key=spent.__getitem__, reverse=True):
                if over <= 0:
                    break
                over -= spent[compiled]
                error = Timeout(
                    f"temporary views exceeded their limit of {seconds:g} s of processor time for one epoch, "
                    f"and this view took the most"
                )
                for content in registry.contents_of(compiled):
                    for user in (content, *content.products):
                        carried.failed.setdefault(user, error)
        return carried
