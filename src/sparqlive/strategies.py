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
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import difference

if TYPE_CHECKING:
    from sparqlive.spark.carry import Carrier

Strategy = Literal["auto", "live", "spark", "rebuild"]

# Below so many changed quads a batch is carried live without estimating: it takes milliseconds.
ALWAYS_LIVE = 256
_LIVE_SECONDS_A_ROW = 2e-5
_SPARK_START_SECONDS = 12.0
_SPARK_SECONDS = 2.5
_SPARK_SECONDS_A_ROW = 2e-6
_SMOOTHING = 0.3


@dataclass(frozen=True)
class Choice:
    """How a plan was carried through an epoch: the strategy, what each would have cost, and why."""

    strategy: str
    estimates: Mapping[str, float]
    seconds: float
    reason: str


class _Speeds:
    """Measured speeds of one plan on this machine."""

    def __init__(self) -> None:
        self.live_a_row = _LIVE_SECONDS_A_ROW
        self.rebuild: float | None = None
        self.spark: float | None = None


class Strategies:
    """Carries one session's epochs."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._speeds: dict[str, _Speeds] = {}
        self.carrier: Callable[[], Carrier] | None = None
        self.spark_started = False
        self.choices: dict[Maintained, Choice] = {}

    def carry(
        self, maintained: Maintained, inputs: Inputs, changes: Sequence[Change], wanted: Strategy
    ) -> dict[Row, int]:
        """The delta of a plan's result by the wanted or the cheapest strategy."""
        if wanted == "live" or (wanted == "auto" and len(changes) <= ALWAYS_LIVE):
            return maintained.delta(inputs)
        speeds = self._speeds.setdefault(maintained.key, _Speeds())
        rows = sum(len(given) for given in inputs.values())
        estimates = self._estimates(maintained, speeds, rows)
        strategy = min(estimates, key=estimates.__getitem__) if wanted == "auto" else wanted
        reason = _reason(strategy, wanted, estimates, rows)
        start = time.perf_counter()
        try:
            delta = self._by(strategy, maintained, inputs, changes)
        except SparkFailed as error:
            if wanted != "auto":
                raise
            strategy, reason = "live", f"live, because {error}"
            delta = maintained.delta(inputs)
        seconds = time.perf_counter() - start
        self._learn(speeds, strategy, rows, seconds)
        self.choices[maintained] = Choice(strategy, estimates, seconds, reason)
        return delta

    def _by(
        self, strategy: str, maintained: Maintained, inputs: Inputs, changes: Sequence[Change]
    ) -> dict[Row, int]:
        if strategy == "live":
            return maintained.delta(inputs)
        if strategy == "rebuild" and (self.carrier is None or not self.spark_started):
            return self._changed(maintained, maintained.rebuilt())
        on_spark = self._spark if strategy == "spark" else self._spark_rebuild
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

    def _estimates(self, maintained: Maintained, speeds: _Speeds, rows: int) -> dict[str, float]:
        found = {"live": rows * speeds.live_a_row}
        known = speeds.rebuild if speeds.rebuild is not None else maintained.seconds_to_compute
        if known is not None:
            found["rebuild"] = known
        if self.carrier is not None:
            base = speeds.spark if speeds.spark is not None else _SPARK_SECONDS
            start = 0.0 if self.spark_started else _SPARK_START_SECONDS
            found["spark"] = start + base + rows * _SPARK_SECONDS_A_ROW
        return found

    def _learn(self, speeds: _Speeds, strategy: str, rows: int, seconds: float) -> None:
        def blended(old: float | None, new: float) -> float:
            return new if old is None else old + _SMOOTHING * (new - old)

        if strategy == "live":
            speeds.live_a_row = blended(speeds.live_a_row, seconds / max(1, rows))
        elif strategy == "rebuild":
            speeds.rebuild = blended(speeds.rebuild, seconds)
        else:
            speeds.spark = blended(speeds.spark, seconds)

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
            {number: difference(new, old[number]) for number, new in zip(old, states, strict=True)}
        )
        return self._changed(maintained, result)

    def _changed(self, maintained: Maintained, result: dict[Row, int]) -> dict[Row, int]:
        """The delta of a result that was computed from scratch: the difference to what is there."""
        return difference(result, self._keeper.rows_of(maintained))


def _reason(strategy: str, wanted: Strategy, estimates: Mapping[str, float], rows: int) -> str:
    if wanted != "auto":
        return f"{strategy} was asked for."
    others = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in estimates.items() if name != strategy)
    about = f"about {estimates[strategy]:.2g} s" + (f", against {others}" if others else "")
    return f"{strategy} is the cheapest for {rows} changed rows: {about}."
