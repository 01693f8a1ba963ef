"""How an epoch is carried to a plan: live, by Spark, or by a rebuild; chosen by cost, and explained.

Owns the choice and the measurements it is made from. A small batch is carried live without asking. Invariant:
every strategy gives the same deltas, of the result and of what operators store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sparqlive.errors import SparkFailed
from sparqlive.live.keeper import Keeper
from sparqlive.live.maintained import Inputs, Maintained
from sparqlive.live.quads import Change
from sparqlive.zset.relation import Row, change_between
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    from sparqlive.bulk.backends.spark.carry import Carrier

Strategy = Literal["auto", "live", "spark", "rebuild"]

# Below so many changed quads a batch is carried live without estimating: it takes milliseconds.
ALWAYS_LIVE = 256
_SMOOTHING = 0.3
_SPARK_START_SECONDS = 12.0
_WAYS = {"live": ("live",), "spark": ("spark",), "rebuild": ("rebuild in process", "rebuild on Spark")}
"""The ways to carry out each strategy: a plan is rebuilt where that is cheaper."""
_ON_SPARK = ("spark", "rebuild on Spark")


@dataclass(frozen=True)
class Sizes:
    """What the costs of a plan follow: the quads that its patterns match, its rows, its derivations."""

    quads: int
    rows: int
    derivations: int

    def live(self, changed: int) -> float:
        """Lookups for each changed row, and what they lead to: what a quad leads to on average."""
        return changed * (1e-5 + 1e-6 * self.derivations / max(1, self.quads))

    def spark(self, changed: int) -> float:
        """A query is planned and started; the files are scanned for the keys of the changes."""
        return 1.5 + 5e-7 * self.quads + 1e-5 * changed

    def rebuild(self) -> float:
        """In process, each quad is looked up, and each derivation made, one by one."""
        return 2e-6 * self.quads + 5e-7 * self.derivations

    def spark_rebuild(self) -> float:
        """On Spark, quads are joined by columns; the rows are taken in and compared with those there are."""
        return 1.5 + 1e-6 * self.quads + 2e-6 * self.rows


@dataclass(frozen=True)
class Choice:
    """How a plan was carried through an epoch: the strategy, what each would have cost, and why."""

    strategy: str
    estimates: Mapping[str, float]
    seconds: float
    reason: str


class _Speeds:
    """How many times as long as estimated each strategy took, lately."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self.factors = dict(known)

    def learn(self, strategy: str, factor: float) -> None:
        old = self.factors.get(strategy)
        self.factors[strategy] = factor if old is None else old + _SMOOTHING * (factor - old)


class Strategies:
    """Carries one session's epochs."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._speeds: dict[str, _Speeds] = {}
        self._machine = _Speeds({})
        self.carrier: Callable[[], Carrier] | None = None
        self.spark_started = False
        self.choices: dict[Maintained, Choice] = {}

    def carry(
        self, maintained: Maintained, inputs: Inputs, changes: Sequence[Change], wanted: Strategy
    ) -> dict[Row, int]:
        """The delta of a plan's result by the wanted or the cheapest strategy."""
        if len(changes) <= ALWAYS_LIVE and wanted in ("auto", "live"):
            maintained.carried = "live"
            return maintained.delta(inputs)
        if maintained.key not in self._speeds:
            self._speeds[maintained.key] = _Speeds(self._machine.factors)
        speeds = self._speeds[maintained.key]
        rows = sum(len(given) for given in inputs.values())
        costs = self._costs(maintained, rows)
        expected = {way: seconds * speeds.factors.get(way, 1.0) for way, seconds in costs.items()}
        if not self.spark_started:
            expected |= {way: expected[way] + _SPARK_START_SECONDS for way in expected if way in _ON_SPARK}
        cheapest = {
            name: min((way for way in ways if way in expected), key=expected.__getitem__)
            for name, ways in _WAYS.items()
            if any(way in expected for way in ways)
        }
        estimates = {name: expected[way] for name, way in cheapest.items()}
        strategy = min(estimates, key=estimates.__getitem__) if wanted == "auto" else wanted
        way = cheapest.get(strategy, strategy)
        reason = _reason(strategy, wanted, estimates, rows)
        was_started = self.spark_started
        start = time.perf_counter()
        try:
            delta = self._by(way, maintained, inputs, changes)
        except SparkFailed as error:
            if wanted != "auto":
                raise
            strategy, way, reason = "live", "live", f"live, because {error}"
            delta = maintained.delta(inputs)
        seconds = time.perf_counter() - start
        if was_started or way not in _ON_SPARK:
            for learner in (speeds, self._machine):
                learner.learn(way, seconds / costs[way])
        maintained.carried = strategy
        self.choices[maintained] = Choice(strategy, estimates, seconds, reason)
        return delta

    def _costs(self, maintained: Maintained, changed: int) -> dict[str, float]:
        """Seconds of each way by the sizes of things, before what was measured."""
        sizes = Sizes(maintained.matching_quads() + changed, *self._keeper.size_of(maintained))
        found = {"live": sizes.live(changed), "rebuild in process": sizes.rebuild()}
        if self.carrier is not None:
            found |= {"spark": sizes.spark(changed), "rebuild on Spark": sizes.spark_rebuild()}
        return found

    def _by(
        self, way: str, maintained: Maintained, inputs: Inputs, changes: Sequence[Change]
    ) -> dict[Row, int]:
        if way == "live":
            return maintained.delta(inputs)
        if way == "rebuild in process":
            return self._changed(maintained, maintained.rebuilt())
        on_spark = self._spark if way == "spark" else self._spark_rebuild
        try:
            return on_spark(maintained, changes)
        except SparkFailed:
            raise
        except Exception as error:
            first_line = str(error).strip().split("\n")[0]
            raise SparkFailed(f"Spark failed: {type(error).__name__}: {first_line}") from error

    def summary(self) -> str:
        """The strategies of the last epoch in a word."""
        return "+".join(sorted({choice.strategy for choice in self.choices.values()})) or "live"

    def _spark(self, maintained: Maintained, changes: Sequence[Change]) -> dict[Row, int]:
        assert self.carrier is not None
        carrier = self.carrier()
        sources = maintained.state_sources()
        plans = [maintained.plan, *sources.values()]
        result, *states = carrier.deltas(plans, changes, maintained.parameter_rows())
        maintained.take(dict(zip(sources, states, strict=True)))
        return result

    def _spark_rebuild(self, maintained: Maintained, changes: Sequence[Change]) -> dict[Row, int]:
        assert self.carrier is not None
        plans = [maintained.plan, *maintained.state_sources().values()]
        result, *states = self.carrier().contents(plans, changes, maintained.parameter_rows())
        old = maintained.state_rows()
        maintained.take(
            {number: change_between(old[number], new) for number, new in zip(old, states, strict=True)}
        )
        return self._changed(maintained, result)

    def _changed(self, maintained: Maintained, result: dict[Row, int] | Run) -> dict[Row, int]:
        """The delta of a result that was computed from scratch: the difference to what is there."""
        return change_between(self._keeper.rows_of(maintained), result)


def _reason(strategy: str, wanted: Strategy, estimates: Mapping[str, float], rows: int) -> str:
    if wanted != "auto":
        return f"{strategy} was asked for."
    others = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in estimates.items() if name != strategy)
    about = f"about {estimates[strategy]:.2g} s" + (f", against {others}" if others else "")
    return f"{strategy} is the cheapest for {rows} changed rows: {about}."
