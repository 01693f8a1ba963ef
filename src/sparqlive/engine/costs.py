"""What each way to carry an epoch to a plan costs: estimated by the sizes of things, and then measured.

Owns the constants of the estimates, and what was measured. A way is a strategy and the backend that carries
it out, if it is not this process: a plan is rebuilt where that is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_SMOOTHING = 0.3


class Way(NamedTuple):
    """How a strategy is carried out: by a bulk backend, or (None) in process."""

    strategy: str
    backend: str | None = None


LIVE = Way("live")
REBUILD = Way("rebuild")


def ways_of(backends: Iterable[str]) -> list[Way]:
    """All ways there are with these backends: each carries deltas, under its name, and rebuilds."""
    names = list(backends)
    deltas, rebuilds = (Way(name, name) for name in names), (Way("rebuild", name) for name in names)
    return [LIVE, *deltas, REBUILD, *rebuilds]


@dataclass(frozen=True)
class Sizes:
    """What the costs of a plan follow: the quads that its patterns match, its rows, its derivations."""

    quads: int
    rows: int
    derivations: int

    def live(self, changed: int) -> float:
        """Lookups for each changed row, and what they lead to: what a quad leads to on average."""
        return changed * (1e-5 + 1e-6 * self.derivations / max(1, self.quads))

    def rebuild(self) -> float:
        """In process, each quad is looked up, and each derivation made, one by one."""
        return 2e-6 * self.quads + 5e-7 * self.derivations


@dataclass(frozen=True)
class BulkCosts:
    """What a bulk backend costs: once to start it, and in seconds for a plan of given sizes."""

    title: str
    start_seconds: float
    delta: Callable[[Sizes, int], float]
    rebuild: Callable[[Sizes], float]


def _duckdb_delta(sizes: Sizes, changed: int) -> float:
    """A query is planned; the columns of all quads of its predicates are scanned; rows come as columns."""
    return 0.03 + 6e-8 * sizes.quads + 1e-6 * changed * (1 + sizes.derivations / max(1, sizes.quads))


def _duckdb_rebuild(sizes: Sizes) -> float:
    """Quads are joined by columns; the rows are sorted and compared with those there are."""
    return 0.03 + 2e-7 * sizes.quads + 1e-7 * sizes.derivations + 4e-7 * sizes.rows


def _spark_delta(sizes: Sizes, changed: int) -> float:
    """A query is planned and started; the files are scanned for the keys of the changes."""
    return 1.5 + 5e-7 * sizes.quads + 1e-5 * changed


def _spark_rebuild(sizes: Sizes) -> float:
    """On Spark, quads are joined by columns; the rows are taken in and compared with those there are."""
    return 1.5 + 1e-6 * sizes.quads + 2e-6 * sizes.rows


BULK = {
    "duckdb": BulkCosts("DuckDB", 0.3, _duckdb_delta, _duckdb_rebuild),
    "spark": BulkCosts("Spark", 12.0, _spark_delta, _spark_rebuild),
}
"""The costs of each bulk backend, by the name of its strategy."""


def seconds_of(way: Way, sizes: Sizes, changed: int) -> float:
    """What a way costs by the sizes of things, before what was measured."""
    if way == LIVE:
        return sizes.live(changed)
    if way.backend is None:
        return sizes.rebuild()
    backend = BULK[way.backend]
    return backend.rebuild(sizes) if way.strategy == "rebuild" else backend.delta(sizes, changed)


class _Speeds:
    """How many times as long as estimated each way took, lately."""

    def __init__(self, known: Mapping[Way, float]) -> None:
        self.factors = dict(known)

    def learn(self, way: Way, factor: float) -> None:
        old = self.factors.get(way)
        self.factors[way] = factor if old is None else old + _SMOOTHING * (factor - old)


class Measured:
    """What was measured in this process; a plan that is new begins with what all plans took."""

    def __init__(self) -> None:
        self._machine = _Speeds({})
        self._plans: dict[str, _Speeds] = {}

    def expected(self, plan: str, costs: Mapping[Way, float]) -> dict[Way, float]:
        """Estimates, corrected by what a plan took lately."""
        if plan not in self._plans:
            self._plans[plan] = _Speeds(self._machine.factors)
        factors = self._plans[plan].factors
        return {way: seconds * factors.get(way, 1.0) for way, seconds in costs.items()}

    def learn(self, plan: str, way: Way, factor: float) -> None:
        """A way took so many times as long as estimated."""
        for learner in (self._plans[plan], self._machine):
            learner.learn(way, factor)

    @property
    def factors(self) -> Mapping[Way, float]:
        """How many times as long as estimated each way took lately, for all plans."""
        return self._machine.factors
