"""Carries an epoch to plans: live, on a bulk backend, or by a rebuild; chosen by cost, with a reason.

Owns the choice, the start of bulk backends, and the measurements behind the choice. A small batch is always
carried live. Invariant: every strategy produces the same deltas, of the result and of the operators' state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import pyarrow as pa

from sparqlive.engine.costs import BULK, LIVE, Measurements, Sizes, Way, seconds_of, ways_of
from sparqlive.engine.export import BulkData, SessionTables, term_table
from sparqlive.errors import BulkFailed, SparkFailed, Timeout, TooLarge, Unsupported
from sparqlive.live.content import PlanContent
from sparqlive.live.keeper import Keeper
from sparqlive.live.maintained import Inputs, Maintained, Saved
from sparqlive.live.quads import Change, Quads
from sparqlive.plan.operators import Operator
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.deadline import stopped_by
from sparqlive.zset.relation import Row, change_between
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.workers import Workers

Strategy = Literal["auto", "live", "duckdb", "spark", "rebuild"]
BulkChoice = Literal["auto", "duckdb", "spark"]
"""Which bulk backends a session uses."""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

# A batch of at most this many changed quads is carried live without estimates: it takes milliseconds.
ALWAYS_LIVE = 256


@dataclass(frozen=True)
class Choice:
    """How an epoch was carried to a plan: the strategy, the estimates of all strategies, and the reason."""

    strategy: str
    estimates: Mapping[str, float]
    seconds: float
    reason: str


class CarryResult:
    """The result of carrying an epoch: the deltas of contents, the contents that failed, and the choices.

    Only plans with several possible strategies have a choice.
    """

    __slots__ = ("choices", "deltas", "failed")

    def __init__(
        self,
        deltas: Mapping[PlanContent, Mapping[Row, int]],
        failed: dict[PlanContent, Exception],
        choices: dict[Maintained, Choice],
    ) -> None:
        self.deltas = deltas
        self.failed = failed
        self.choices = choices

    def summary(self) -> str:
        """The strategies in one word, such as `live+spark`."""
        return "+".join(sorted({choice.strategy for choice in self.choices.values()})) or "live"


class Carrier(Protocol):
    """Evaluates plans on a bulk backend, from the quads and terms as they were before the current epoch."""

    def deltas(
        self,
        plans: Sequence[Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> Sequence[Mapping[Row, int]]:
        """The change of each plan by its delta rules."""

    def contents(
        self,
        plans: Sequence[Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> Sequence[Mapping[Row, int] | Run]:
        """The content of each plan after the changes, from scratch."""


class Strategies:
    """Carries one session's epochs.

    `spark`: a Spark session, the URL of a master, or None.
    """

    def __init__(self, data: BulkData, spark: Any, bulk: BulkChoice = "auto") -> None:
        self._data = data
        self._spark = spark
        self._bulk = bulk
        self.carriers: dict[str, Callable[[Sequence[Change]], Carrier]] = {}
        """The bulk backends in use: each creates its carrier, from changes to undo first."""
        if bulk != "spark":
            self.carriers["duckdb"] = self._duckdb_carrier
        if bulk != "duckdb" and find_spec("pyspark") is not None:
            self.carriers["spark"] = self._spark_carrier
        self._started: set[str] = set()
        self.measurements = Measurements()

    # Backends

    def ensure_available(self, name: str) -> None:
        if name in self.carriers:
            return
        title = BULK[name].title
        if self._bulk not in ("auto", name):
            raise Unsupported(
                f"{title} is not used by this session, which was opened with bulk={self._bulk!r}."
            )
        raise Unsupported(f"{title} is not installed. Run: pip install 'sparqlive[{name}]'")

    def is_started(self, name: str) -> bool:
        return name in self._started

    @property
    def has_spark_setting(self) -> bool:
        """Whether the session was opened with a Spark session or master."""
        return self._spark is not None

    def spark_session(self) -> Any:
        """The session's Spark session; without one, starts a local session shared by the whole process."""
        if self._spark is None or isinstance(self._spark, str):
            from sparqlive.bulk.backends.spark.start import start_session

            self._spark = start_session(self._spark or "local[*]")
        self._started.add("spark")
        return self._spark

    def _duckdb_carrier(self, undone: Sequence[Change]) -> Carrier:
        """DuckDB reads the quads in memory, where the changes to undo are undone already."""
        self._started.add("duckdb")
        return _in_process(self._data.quads, self._data.dictionary, self._data.terms)

    def contents_on(
        self, quads: Quads, dictionary: Dictionary, lock: AbstractContextManager[Any]
    ) -> Callable[[Operator], Mapping[Row, int] | Run]:
        """Returns a function that computes contents on a copy of the quads with DuckDB, without the lock.

        `dictionary` extends the session's dictionary, whose terms are read under the lock.
        """

        def terms() -> pa.Table:
            with lock:
                known = self._data.terms()
            return pa.concat_tables([known, term_table(dictionary.entries())])

        carrier = cache(partial(_in_process, quads, dictionary, terms))  # made if a plan is large enough
        return lambda plan: carrier().contents([plan], (), ())[0]

    def _spark_carrier(self, undone: Sequence[Change]) -> Carrier:
        from sparqlive.bulk.backends.spark.carry import Carrier

        spark, dictionary = self.spark_session(), self._data.dictionary
        sources = self._data.sources(undone)
        return Carrier(spark, sources, dictionary.id_of, dictionary.exceptions, dictionary.enter)

    def workers(self) -> tuple[Workers, str]:
        """The workers that load large files, and their name: Spark if configured, else local processes."""
        if self.has_spark_setting:
            from sparqlive.bulk.backends.spark.workers import SparkWorkers

            return SparkWorkers(self.spark_session()), "spark"
        from sparqlive.bulk.ingest.workers import Processes

        return Processes(), "live"

    def contents_by(self, backend: str) -> Saved:
        """Returns a function that computes contents of plans as of the last epoch on a backend."""
        carrier = self.carriers[backend](())
        return lambda _, plan: carrier.contents([plan], (), ())[0]

    # Epochs

    def carry(
        self, keeper: Keeper, changes: Sequence[Change], requested: Strategy, undone: Sequence[Change] = ()
    ) -> CarryResult:
        """Carries the staged changes to the plans of a keeper that they affect.

        Each plan uses the requested strategy or the cheapest one. A plan that fails is reported.

        `undone` are changes that lead from the last epoch back to the epoch of the keeper's contents.
        """
        is_small = len(changes) <= ALWAYS_LIVE and requested in ("auto", "live")
        batch = None if is_small else _Batch(keeper, changes, undone, requested)
        failed: dict[PlanContent, Exception] = {}
        choices: dict[Maintained, Choice] = {}
        limit = keeper.limit
        for maintained, inputs in keeper.work().items():
            try:
                if limit is not None:
                    limit.begin(maintained)
                try:
                    delta: Mapping[Row, int]
                    if batch is None:
                        delta = maintained.delta(inputs)
                    else:
                        delta, choices[maintained] = self._carry_chosen(batch, maintained, inputs)
                finally:
                    if limit is not None:
                        limit.end(maintained)
            except BulkFailed:  # the backend failed, not the plan: the whole epoch is abandoned
                keeper.ran(maintained, {})
                raise
            except Exception as error:
                keeper.failed(maintained, error, failed)
                continue
            keeper.ran(maintained, delta)
        return CarryResult(keeper.deltas(failed), failed, choices)

    def carry_live(self, keeper: Keeper) -> CarryResult:
        """Carries the staged changes live, without estimates."""
        return self.carry(keeper, (), "live")

    def _carry_chosen(
        self, batch: _Batch, maintained: Maintained, inputs: Inputs
    ) -> tuple[Mapping[Row, int], Choice]:
        """The delta of a plan's result, by the requested or the cheapest strategy."""
        rows = sum(len(given) for given in inputs.values())
        sizes = Sizes(maintained.matching_quads() + rows, *batch.keeper.size_of(maintained))
        costs = {way: seconds_of(way, sizes, rows) for way in ways_of(self.carriers)}
        cheapest = self._cheapest(maintained.key, costs)
        estimates = {way.strategy: seconds for way, seconds in cheapest.items()}
        strategy = min(estimates, key=estimates.__getitem__) if batch.requested == "auto" else batch.requested
        way = next(way for way in cheapest if way.strategy == strategy)
        reason = _reason(strategy, batch.requested, estimates, rows)
        is_measured = way.backend is None or way.backend in self._started
        start = time.perf_counter()
        try:
            delta = self._by(way, batch, maintained, inputs)
        except BulkFailed as error:
            if batch.requested != "auto":
                raise
            way, is_measured, reason = LIVE, True, f"live, because {error}"
            delta = maintained.delta(inputs)
        seconds = time.perf_counter() - start
        if is_measured:
            self.measurements.learn(maintained.key, way, seconds / costs[way])
        maintained.carried_by(way.strategy, way.backend or "live")
        return delta, Choice(way.strategy, estimates, seconds, reason)

    def _cheapest(self, plan: str, costs: Mapping[Way, float]) -> dict[Way, float]:
        """The cheapest way of each strategy, with its expected seconds."""
        expected = self.measurements.correct(plan, costs)
        for way in expected:
            if way.backend is not None and way.backend not in self._started:
                expected[way] += BULK[way.backend].start_seconds
        best: dict[str, Way] = {}
        for way, seconds in expected.items():
            if way.strategy not in best or seconds < expected[best[way.strategy]]:
                best[way.strategy] = way
        return {way: expected[way] for way in best.values()}

    def _by(self, way: Way, batch: _Batch, maintained: Maintained, inputs: Inputs) -> Mapping[Row, int]:
        if way.backend is not None:
            return self._by_backend(way.backend, way, batch, maintained)
        if way == LIVE:
            return maintained.delta(inputs)
        return batch.change(maintained, maintained.rebuilt())

    def _by_backend(self, name: str, way: Way, batch: _Batch, maintained: Maintained) -> Mapping[Row, int]:
        limit = batch.keeper.limit if name == "duckdb" else None  # Spark cannot be stopped
        try:
            with nullcontext() if limit is None else limit.by_others(), stopped_by(maintained.stop_flag):
                carrier = self.carriers[name](batch.undone)
                carry = _rebuild_by if way.strategy == "rebuild" else _delta_by
                return carry(carrier, batch, maintained)
        except (BulkFailed, Timeout, TooLarge):  # a limit stops the plan; the backend did not fail
            raise
        except Exception as error:
            first_line = str(error).strip().split("\n")[0]
            failure = SparkFailed if name == "spark" else BulkFailed
            raise failure(f"{BULK[name].title} failed: {type(error).__name__}: {first_line}") from error


def _in_process(quads: Quads, dictionary: Dictionary, terms: Callable[[], pa.Table]) -> Carrier:
    from sparqlive.bulk.carry import InProcess

    tables = SessionTables(quads, dictionary)
    return InProcess(tables, terms, dictionary.id_of, dictionary.exceptions, dictionary.enter)


@dataclass(frozen=True)
class _Batch:
    """A batch of changes for the contents of a keeper, which do not include the effect of `undone`."""

    keeper: Keeper
    changes: Sequence[Change]
    undone: Sequence[Change]
    requested: Strategy

    def change(self, maintained: Maintained, result: Mapping[Row, int] | Run) -> Mapping[Row, int]:
        """The delta of a result that was computed from scratch: the difference to the present rows."""
        return change_between(self.keeper.rows_of(maintained), result)


def _delta_by(carrier: Carrier, batch: _Batch, maintained: Maintained) -> Mapping[Row, int]:
    sources = maintained.state_sources()
    plans = [maintained.plan, *sources.values()]
    result, *states = carrier.deltas(plans, batch.changes, maintained.parameter_rows())
    maintained.take(dict(zip(sources, states, strict=True)))
    return result


def _rebuild_by(carrier: Carrier, batch: _Batch, maintained: Maintained) -> Mapping[Row, int]:
    plans = [maintained.plan, *maintained.state_sources().values()]
    result, *states = carrier.contents(plans, batch.changes, maintained.parameter_rows())
    old = maintained.state_rows()
    maintained.take(
        {number: change_between(old[number], new) for number, new in zip(old, states, strict=True)}
    )
    return batch.change(maintained, result)


def _reason(strategy: str, requested: Strategy, estimates: Mapping[str, float], rows: int) -> str:
    if requested != "auto":
        return f"{strategy} was requested."
    others = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in estimates.items() if name != strategy)
    about = f"about {estimates[strategy]:.2g} s" + (f" (others: {others})" if others else "")
    return f"{strategy} is the cheapest for {rows} changed rows: {about}."
