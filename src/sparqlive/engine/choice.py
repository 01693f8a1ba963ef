"""Chooses the strategy that carries an epoch to a plan, by the sizes of the change and of what it meets.

Owns the rule and its thresholds. Every strategy gives the same deltas, so a wrong choice costs only time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

LIVE_ROWS = 20_000
"""Live carries up to this many changed rows of a plan (`bench.regret`)."""
LIVE_STORED_ROWS = 10_000
"""The same for plans that look up stored rows for each change: DISTINCT, MIN, MAX and the like."""
LIVE_SHARE = 0.01
"""Live also carries up to this share of the quads that a plan matches, because DuckDB scans all of them."""
REBUILT_SHARE = 0.5
"""A larger batch that changes more than this share of them is a rebuild (`bench.regret`)."""
SPARK_ROWS = 200_000
"""With bulk="spark", Spark carries more than this many changed rows of a plan, and live all others.

Spark takes two to six times as long as live there, extrapolated from 40,000 rows, but not the memory of this
process.
"""


class Way(NamedTuple):
    """A strategy, and the bulk backend that runs it, or None for this process."""

    strategy: str
    backend: str | None = None


LIVE = Way("live")


@dataclass(frozen=True)
class Work:
    """What an epoch means for a plan: changed rows, quads that it matches, derivations of all its rows."""

    changed: int
    quads: int
    derivations: int
    looks_up_rows: bool = False
    """Whether live looks up stored rows for each change."""

    @property
    def fan_out(self) -> int:
        """The average number of derivations of a quad, and at least one."""
        return max(1, self.derivations // max(1, self.quads))

    def most_live(self, backend: str) -> int:
        """Up to how many changed rows live is the cheapest, or about as cheap as a backend."""
        if backend == "spark":
            return SPARK_ROWS
        return max(LIVE_STORED_ROWS if self.looks_up_rows else LIVE_ROWS, int(LIVE_SHARE * self.quads))


def choose(work: Work, backend: str | None) -> tuple[Way, str]:
    """Returns the cheapest way, and the reason. `backend` carries large changes; None: there is none."""
    rows = f"{work.changed:,} changed rows"
    if work.fan_out > 1:
        rows += f" with about {work.fan_out:,} derivations each"
    if backend is None:
        return LIVE, f"live carries {rows}, because no other backend is available."
    most = work.most_live(backend)
    if work.changed * work.fan_out <= most:
        return LIVE, f"live is the cheapest for {rows}: at most {most:,}."
    if work.changed > REBUILT_SHARE * work.quads:
        half = f"more than half of the {work.quads:,} quads that the view matches"
        return Way("rebuild", backend), f"rebuild is the cheapest for {rows}: {half}."
    return Way(backend, backend), f"{backend} is the cheapest for {rows}: more than {most:,}."


def way_of(strategy: str, work: Work, backend: str | None) -> Way:
    """The way to run a requested strategy. A rebuild runs in this process if it reads little."""
    if strategy == "rebuild":
        reads_little = backend is None or work.quads + work.changed <= work.most_live(backend)
        return Way("rebuild", None if reads_little else backend)
    return LIVE if strategy == "live" else Way(strategy, strategy)
