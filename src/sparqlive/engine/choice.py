"""Chooses the strategy that carries an epoch to a plan, by the sizes of the change and of what it affects.

Owns the rule. Every strategy gives the same deltas, so a wrong choice costs only time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sparqlive.runtime.tuning import Tuning


class Way(NamedTuple):
    """A strategy, and the bulk backend that runs it, or None for this process."""

    strategy: str
    backend: str | None = None


LIVE = Way("live")


@dataclass(frozen=True)
class Work:
    """The work of an epoch for a plan: changed rows, quads that it matches, derivations of all its rows."""

    changed: int
    quads: int
    derivations: int
    looks_up_rows: bool = False
    """Whether live looks up stored rows for each change."""

    @property
    def fan_out(self) -> int:
        """The average number of derivations of a quad, and at least one."""
        return max(1, self.derivations // max(1, self.quads))

    def most_live(self, backend: str, tuning: Tuning) -> int:
        """The number of changed rows up to which live is the cheapest, or about as cheap as a backend."""
        if backend == "spark":
            return tuning.spark_rows
        rows = tuning.looked_up_rows if self.looks_up_rows else tuning.live_rows
        return max(rows, self.quads // tuning.quads_to_live_row)


def choose(work: Work, backend: str | None, tuning: Tuning) -> tuple[Way, str]:
    """Returns the cheapest way, and the reason. `backend`, if there is one, carries large changes."""
    rows = f"{work.changed:,} changed rows"
    if work.fan_out > 1:
        rows += f" with about {work.fan_out:,} derivations each"
    if backend is None:
        return LIVE, f"live carries {rows}, because no other backend is available."
    most = work.most_live(backend, tuning)
    if work.changed * work.fan_out <= most:
        return LIVE, f"live is the cheapest for {rows}: at most {most:,}."
    if 2 * work.changed > work.quads:
        half = f"more than half of the {work.quads:,} quads that the view matches"
        return Way("rebuild", backend), f"rebuild is the cheapest for {rows}: {half}."
    return Way(backend, backend), f"{backend} is the cheapest for {rows}: more than {most:,}."


def way_of(strategy: str, work: Work, backend: str | None, tuning: Tuning) -> Way:
    """The way to run a requested strategy. A rebuild that reads little runs in this process."""
    if strategy == "rebuild":
        reads_little = backend is None or work.quads + work.changed <= work.most_live(backend, tuning)
        return Way("rebuild", None if reads_little else backend)
    return LIVE if strategy == "live" else Way(strategy, strategy)
