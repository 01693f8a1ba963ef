"""The cost of each way to carry an epoch to a plan: estimated from sizes, then corrected by measurements.

Owns the constants of the estimates, and the measurements. A way is a strategy together with the bulk backend
that runs it, or with no backend for this process. A rebuild runs where it is cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_SMOOTHING = 0.3
_MOST_PLANS = 10_000
SWITCHING = 1.2
"""How many times as long a way takes, about, after another one, which left its own form of the state."""


_READING_SHARE = 1 / 8
"""How much of the time to read groups counts for the choice: later epochs find them read."""


_SORTED_ROW = 7e-6
"""Seconds for a row that enters or leaves the sorted rows of a window."""


class Way(NamedTuple):
    """A strategy, and the bulk backend that runs it, or None for this process."""

    strategy: str
    backend: str | None = None


LIVE = Way("live")
REBUILD = Way("rebuild")


def ways_of(backends: Iterable[str]) -> list[Way]:
    """All ways with these backends; each backend runs deltas, as the strategy of its name, and rebuilds."""
    names = list(backends)
    deltas, rebuilds = (Way(name, name) for name in names), (Way("rebuild", name) for name in names)
    return [LIVE, *deltas, REBUILD, *rebuilds]


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine the costs of a plan: quads that its patterns match, rows, derivations.

    `unread`: the stored rows of groups that live has not read yet, and reads when they change.
    `states`: operators that store their source's rows, such as groups; each is one more query in bulk.
    `distincts`, `windows`: how many of them are DISTINCT or ORDER BY with LIMIT. The rows of a window are
    always sorted one by one in this process.
    """

    quads: int
    rows: int
    derivations: int
    unread: int = 0
    states: int = 0
    distincts: int = 0
    windows: int = 0

    @property
    def grouping(self) -> int:
        """The states that are more than counts of rows."""
        return self.states - self.distincts

    def live(self, changed: int) -> float:
        """Lookups per changed row, and as many derivations as a quad has on average; and groups to read."""
        each = 2e-6 * (1 + self.grouping) + 1e-6 * self.derivations / max(1, self.quads)
        each += self.windows * _SORTED_ROW
        return _READING_SHARE * self.reading(changed) + changed * each

    def reading(self, changed: int) -> float:
        """Reads the groups that change and that live has not read yet."""
        return 2.4e-6 * self.unread * min(1.0, changed / max(1, self.rows))

    def rebuild(self) -> float:
        """In process, each quad is looked up and each derivation is computed one by one."""
        each = 2e-6 + 1e-6 * self.states + _SORTED_ROW * self.windows
        return each * self.quads + 5e-7 * self.derivations


@dataclass(frozen=True)
class BulkCosts:
    """The costs of a bulk backend in seconds: to start it once, and per plan by its sizes."""

    title: str
    start_seconds: float
    delta: Callable[[Sizes, int], float]
    rebuild: Callable[[Sizes], float]


def _duckdb_delta(sizes: Sizes, changed: int) -> float:
    """Plans queries, scans the columns of all quads of their predicates, and fetches rows as columns.

    A state reads the stored rows of the groups that change: about ten per change, at most all.
    """
    met = changed * (1 + sizes.derivations / max(1, sizes.quads))
    state = 0.036 + 1e-7 * min(10 * changed, sizes.quads / 2) + 3e-7 * changed
    states = sizes.grouping * state + 0.01 * sizes.distincts
    return 0.02 + 7e-8 * sizes.quads + 1.5e-7 * met + states


def _duckdb_rebuild(sizes: Sizes) -> float:
    """Joins quads by columns, sorts the rows, and compares them and their counts with the present ones."""
    joining = (1.2e-7 + 2e-7 * sizes.grouping) * sizes.quads + 1e-7 * sizes.derivations
    comparing = (1.5e-7 + 1.5e-6 * sizes.distincts) * sizes.rows
    sorting = _SORTED_ROW * sizes.windows * sizes.quads
    return 0.01 + 0.03 * sizes.grouping + joining + comparing + sorting


def _spark_delta(sizes: Sizes, changed: int) -> float:
    """Plans and starts a query, and scans the files for the keys of the changes."""
    return 1.5 + 5e-7 * sizes.quads + 1e-5 * changed


def _spark_rebuild(sizes: Sizes) -> float:
    """Joins quads by columns on Spark, fetches the rows, and compares them with the present ones."""
    return 1.5 + 1e-6 * sizes.quads + 2e-6 * sizes.rows


BULK = {
    "duckdb": BulkCosts("DuckDB", 0.15, _duckdb_delta, _duckdb_rebuild),
    "spark": BulkCosts("Spark", 12.0, _spark_delta, _spark_rebuild),
}
"""The costs of each bulk backend, by the name of its strategy."""


def seconds_of(way: Way, sizes: Sizes, changed: int) -> float:
    """The estimated cost of a way, before correction by measurements."""
    if way == LIVE:
        return sizes.live(changed)
    if way.backend is None:
        return sizes.rebuild()
    backend = BULK[way.backend]
    return backend.rebuild(sizes) if way.strategy == "rebuild" else backend.delta(sizes, changed)


def whole_seconds_of(way: Way, sizes: Sizes, changed: int) -> float:
    """The estimated cost with all that is done only once: what a measurement is compared with."""
    uncounted = (1 - _READING_SHARE) * sizes.reading(changed) if way == LIVE else 0.0
    return seconds_of(way, sizes, changed) + uncounted


def commit_seconds(way: Way, sizes: Sizes, changed: int) -> float:
    """What the commit takes longer after a way, which is not measured.

    Live leaves rows, others columns. But a window sorts its rows one by one, which live has done before, and
    columns become rows for that.
    """
    return 6e-7 * changed if way == LIVE else 1.5 * _SORTED_ROW * sizes.windows * changed


class _Speeds:
    """The recent ratio of measured to estimated time, per way.

    The first epoch after a switch to a way also pays for what the way before left behind. So it counts only
    for a way that is switched to again and again, and never carries two epochs in a row.
    """

    def __init__(self, known: Mapping[Way, float]) -> None:
        self.factors = dict(known)
        self._tried: set[Way] = set()
        self._steady: set[Way] = set()

    def learn(self, way: Way, factor: float, is_switch: bool) -> None:
        is_new = way not in (self._tried if is_switch else self._steady)
        (self._tried if is_switch else self._steady).add(way)
        if is_switch and (is_new or way in self._steady):
            return
        old = None if is_new else self.factors.get(way)
        self.factors[way] = factor if old is None else old + _SMOOTHING * (factor - old)


class Measurements:
    """The measurements of this process. A new plan starts with the ratios over all plans."""

    def __init__(self) -> None:
        self._machine = _Speeds({})
        self._plans: dict[str, _Speeds] = {}

    def correct(self, plan: str, costs: Mapping[Way, float]) -> dict[Way, float]:
        """Corrects estimates by the recent measurements of a plan."""
        if plan not in self._plans:
            if len(self._plans) >= _MOST_PLANS:  # most of them are of views that are gone
                del self._plans[next(iter(self._plans))]
            self._plans[plan] = _Speeds(self._machine.factors)
        factors = self._plans[plan].factors
        return {way: seconds * factors.get(way, 1.0) for way, seconds in costs.items()}

    def learn(self, plan: str, way: Way, factor: float, is_switch: bool = False) -> None:
        """Records the ratio of measured to estimated time; `is_switch`: another way was before."""
        for learner in (self._plans.get(plan), self._machine):
            if learner is not None:
                learner.learn(way, factor, is_switch)

    @property
    def factors(self) -> Mapping[Way, float]:
        """The recent ratio of measured to estimated time per way, over all plans."""
        return self._machine.factors
