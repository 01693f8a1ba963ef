"""Carries an epoch to plans: live, on a bulk backend, or by a rebuild, with the reason.

Owns the start of bulk backends, and what they do for contents in files. A small batch is always carried live.
Invariant: every strategy produces the same deltas, of the result and of the operators' state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

import pyarrow as pa

from sparqlive.engine.choice import LIVE, Way, Work, choose, way_of
from sparqlive.engine.export import BulkData
from sparqlive.errors import BulkFailed, Error, SparkFailed, Timeout, TooLarge, Unsupported
from sparqlive.live.compiled_plan import CompiledPlan, Inputs, Saved, is_of_totals
from sparqlive.live.materialization import Materialization
from sparqlive.live.plan_registry import PlanRegistry
from sparqlive.numbers import short_repr
from sparqlive.plan.operators import Keeping, Operator
from sparqlive.quads.current import Change, Quads
from sparqlive.quads.snapshot import Snapshot
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.runtime.deadline import stopped_by
from sparqlive.runtime.interrupts import interrupting
from sparqlive.sparql.columns import entry_table
from sparqlive.zset.kept import Kept
from sparqlive.zset.relation import Row, change_between
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    from sparqlive.bulk.backend import Backend
    from sparqlive.bulk.ingest.workers import Workers
    from sparqlive.store.compaction import Target
    from sparqlive.store.saving import Saved as SavedRows


@dataclass(frozen=True)
class FileBackend:
    """A backend that works from file to file: its name, the strategy and the reason, and how to create it."""

    name: str
    strategy: str
    reason: str
    create: Callable[[Target], Backend]


_FEWEST_WORKERS = 2
_WORKER_BYTES = 350_000_000
"""Peak memory of a process that reads a large file (12M triples of `bench.orders`)."""
IN_FILES = "the view stays in files"
Strategy = Literal["auto", "live", "duckdb", "spark", "rebuild"]
BulkChoice = Literal["auto", "duckdb", "spark"]
"""Which bulk backends a session uses."""
Result = TypeVar("Result")
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

_LEAST_FILE_MEMORY = 256 << 20
_TITLES = {"duckdb": "DuckDB", "spark": "Spark"}


@dataclass(frozen=True)
class Choice:
    """How an epoch was carried to a plan: the strategy, how long it took, and the reason."""

    strategy: str
    seconds: float
    reason: str


class CarryResult:
    """The result of carrying an epoch: the deltas of contents, the contents that failed, and the choices.

    Only plans with several possible strategies have a choice.
    """

    __slots__ = ("choices", "deltas", "failed", "otherwise")

    def __init__(
        self,
        deltas: Mapping[Materialization, Mapping[Row, int]],
        failed: dict[Materialization, Exception],
        choices: dict[CompiledPlan, Choice],
    ) -> None:
        self.deltas = deltas
        self.failed = failed
        self.choices = choices
        self.otherwise = "live"
        """The strategy if no plan has a choice."""

    def summary(self) -> str:
        """The strategies in one word, such as `live+spark`."""
        if not self.choices:
            return self.otherwise
        return "+".join(sorted({choice.strategy for choice in self.choices.values()}))


@dataclass
class Outcome:
    """What an epoch changes in contents that stay in files."""

    relations: dict[str, SavedRows] = field(default_factory=dict)
    """The deltas of all relations, by name."""
    deltas: dict[Materialization, Mapping[Row, int]] = field(default_factory=dict)
    """The changes of results."""
    choices: dict[Any, Choice] = field(default_factory=dict)


NO_OUTCOME = Outcome()


class Carrier(Protocol):
    """Evaluates plans on a bulk backend, from the quads and terms as they were before the current epoch."""

    def deltas(
        self,
        plans: Sequence[Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
        kept: Mapping[Keeping, Kept],
        names: Mapping[Keeping, Sequence[str]],
    ) -> Sequence[Mapping[Row, int]]:
        """The change of each plan by its delta rules; one may be a part of those after it.

        `kept`: what operators store of their sources, if it is available as columns; `names`: the names of
        these relations in a store.
        """

    def contents(
        self,
        plans: Sequence[Operator],
        changes: Sequence[Sequence[int]],
        parameters: Sequence[Sequence[int]],
    ) -> Sequence[Mapping[Row, int] | Run]:
        """The content of each plan after the changes, from scratch; one may be a part of those after it."""


def _ensure_spark(otherwise: str = "") -> None:
    if find_spec("pyspark") is None:
        raise Unsupported(f"Spark is not installed. Run: pip install 'sparqlive[spark]'{otherwise}")


class Strategies:
    """Carries one session's epochs.

    `spark`: a Spark session, the URL of a master, or None.
    """

    def __init__(self, data: BulkData, spark: Any, bulk: BulkChoice, memory: int) -> None:
        """`memory`: the limit of the session; a third of it is for work on files, which spills to disk. It
        also limits how many processes read large files.

        In a session with Spark, which does the large work, DuckDB gets the minimum.
        """
        self._file_memory = max(_LEAST_FILE_MEMORY, memory // 3 if spark is None else 0)
        self._most_workers = max(_FEWEST_WORKERS, memory // _WORKER_BYTES)
        self._data = data
        self.tuning = data.dictionary.tuning
        if spark is not None:
            _ensure_spark()
        if spark is not None and not isinstance(spark, str) and not hasattr(type(spark), "conf"):
            raise Error(f"spark must be a Spark session or the URL of a master, not {short_repr(spark)}.")
        self._spark = spark
        self._is_registered = False
        self.bulk = bulk
        """Which backends may do bulk work."""
        self.carriers: dict[str, Callable[[Sequence[Change]], Carrier]] = {}
        """The bulk backends in use: each creates its carrier, from changes to undo first."""
        if bulk != "spark":
            self.carriers["duckdb"] = self._duckdb_carrier
        if bulk != "duckdb" and find_spec("pyspark") is not None:
            self.carriers["spark"] = self._spark_carrier
        self.has_started_spark = False

    # Backends

    def ensure_available(self, name: str) -> None:
        if name in self.carriers:
            return
        title = _TITLES[name]
        if self.bulk not in ("auto", name):
            raise Unsupported(
                f"{title} is not used by this session, which was opened with bulk={self.bulk!r}."
            )
        raise Unsupported(f"{title} is not installed. Run: pip install 'sparqlive[{name}]'")

    @property
    def bulk_backend(self) -> str | None:
        """The backend that carries large changes; Spark only if the session uses nothing else."""
        name = "spark" if self.bulk == "spark" else "duckdb"
        return name if name in self.carriers else None

    @property
    def has_spark_setting(self) -> bool:
        """Whether the session was opened with a Spark session or master."""
        return self._spark is not None

    def spark_session(self) -> Any:
        """The session's Spark session; without one, starts a local session shared by the whole process."""
        if self._spark is None or isinstance(self._spark, str):
            _ensure_spark()
            from sparqlive.bulk.backends.spark.start import start_session

            self._spark = start_session(self._spark or "local[*]")
        self.has_started_spark = True
        return self._spark

    def registered_spark(self) -> Any:
        """The session's Spark session, which knows the formats `rdf` and `sparqlive`."""
        spark = self.spark_session()
        if not self._is_registered:
            # Spark's own interfaces are above the session and its engine: they are found by name.
            import_module("sparqlive.spark").register(spark)
            self._is_registered = True
        return spark

    def _duckdb_carrier(self, undone: Sequence[Change]) -> Carrier:
        """DuckDB reads the quads in memory, where the changes to undo are undone already."""
        return _in_process(self._data.quads, self._data.dictionary, self._data.terms)

    def contents_if_any(
        self, quads: Snapshot, dictionary: Dictionary, reading: Callable[[], AbstractContextManager[None]]
    ) -> Callable[[Operator], Mapping[Row, int] | Run] | None:
        """Like `contents_on`, for one plan; None if this session does not use DuckDB."""
        if "duckdb" not in self.carriers:
            return None
        return lambda plan: self.contents_on(quads, dictionary, reading)([plan])[0]

    def contents_on(
        self,
        quads: Quads | Snapshot,
        dictionary: Dictionary,
        reading: Callable[[], AbstractContextManager[None]],
    ) -> Callable[[Sequence[Operator]], Sequence[Mapping[Row, int] | Run]]:
        """Returns a function that computes contents on a copy of the quads with DuckDB, without the lock.

        `dictionary` extends the session's dictionary, whose terms are read within `reading`.
        """

        def terms() -> pa.Table:
            with reading():
                known = self._data.terms()
            return pa.concat_tables([known, entry_table(dictionary.entries())])

        carrier = cache(partial(_in_process, quads, dictionary, terms))  # created when a plan is large enough
        return lambda plans: carrier().contents(plans, (), ())

    def _spark_carrier(self, undone: Sequence[Change]) -> Carrier:
        from sparqlive.engine.from_files import FromFiles

        return FromFiles(self._data, self._spark_on_files, undone)

    def workers(self) -> tuple[Workers, str]:
        """The workers that load large files, and their name: Spark if configured, else local processes."""
        if self.has_spark_setting:
            from sparqlive.bulk.backends.spark.workers import SparkWorkers

            return SparkWorkers(self.spark_session()), "spark"
        from sparqlive.bulk.ingest.workers import Processes

        return Processes(min(self._most_workers, len(os.sched_getaffinity(0)))), "live"

    def file_backend(self, requested: Strategy, quads: int, changes: int | None = None) -> FileBackend:
        """The backend for contents that stay in the store: of a view, or of an epoch with some changes."""
        name, reason = self._file_backend(requested, quads, changes)
        strategy = "rebuild" if requested == "rebuild" else name
        if name == "spark":
            reads_all = changes is None or changes > self.tuning.few_changes or strategy == "rebuild"
            create = partial(self._spark_on_files, quads if reads_all else 0)
            return FileBackend(name, strategy, reason, create)
        return FileBackend(name, strategy, reason, self._duckdb_on_files)

    def by_files(
        self, way: FileBackend, requested: Strategy, work: Callable[[FileBackend], Result]
    ) -> Result:
        """Has a backend do work for contents that stay in the store.

        If Spark fails, DuckDB does it, unless Spark was requested; then the error says why in one sentence.
        """
        try:
            return work(way)
        except (Error, MemoryError):
            raise
        except Exception as error:
            failure = failure_of(way.name, error)
            if way.name != "spark" or requested == "spark" or "duckdb" not in self.carriers:
                raise failure from error
            strategy = "rebuild" if way.strategy == "rebuild" else "duckdb"
            reason = f"{IN_FILES}, and {failure}"
            return work(FileBackend("duckdb", strategy, reason, self._duckdb_on_files))

    def _file_backend(self, requested: Strategy, quads: int, changes: int | None) -> tuple[str, str]:
        if requested in ("duckdb", "spark"):
            return requested, f"{requested} was requested, and {IN_FILES}."
        if self.bulk != "auto":
            return self.bulk, f"{IN_FILES}, and the session uses {self.bulk}."
        most = self.tuning.spark_quads if changes is None else self.tuning.spark_rows
        if self.has_spark_setting and (quads if changes is None else changes) > most:
            return "spark", f"{IN_FILES}, and the work is large ({changes or quads:,} rows)."
        return "duckdb", f"{IN_FILES}, and DuckDB is the cheapest for work of this size."

    def _duckdb_on_files(self, target: Target) -> Backend:
        from sparqlive.bulk.backends.duckdb import DuckDb

        return DuckDb(memory=self._file_memory, tuning=self.tuning)

    def _spark_on_files(self, quads: int, target: Target) -> Backend:
        _ensure_spark(f'. Or set bulk to "duckdb": {IN_FILES}.')
        from sparqlive.bulk.backends.spark.backend import SparkBackend

        return SparkBackend(self.spark_session(), target, quads, self.tuning)

    def contents_by(self, backend: str) -> Saved:
        """Returns a function that computes contents of plans as of the last epoch on a backend."""
        carrier = self.carriers[backend](())
        return lambda name, plan: None if is_of_totals(name) else carrier.contents([plan], (), ())[0]

    # Epochs

    def carry(
        self,
        registry: PlanRegistry,
        changes: Sequence[Change],
        requested: Strategy,
        undone: Sequence[Change] = (),
    ) -> CarryResult:
        """Carries the staged changes to the plans of a registry that they affect.

        Each plan uses the requested strategy or the cheapest one. A plan that fails is reported.

        `undone` are changes that lead from the last epoch back to the epoch of the registry's contents.
        """
        is_small = len(changes) <= self.tuning.small_batch and requested in ("auto", "live")
        batch = None if is_small else _Batch(registry, changes, undone, requested)
        failed: dict[Materialization, Exception] = {}
        choices: dict[CompiledPlan, Choice] = {}
        limit = registry.limit
        for compiled, inputs in registry.work().items():
            try:
                if limit is not None:
                    limit.begin(compiled)
                try:
                    delta: Mapping[Row, int]
                    if batch is None:
                        delta = compiled.delta(inputs)
                    else:
                        delta, choices[compiled] = self._carry_chosen(batch, compiled, inputs)
                finally:
                    if limit is not None:
                        limit.end(compiled)
            except (BulkFailed, KeyboardInterrupt):  # the whole epoch is abandoned, not only the plan
                registry.ran(compiled, {})
                raise
            except Exception as error:
                registry.failed(compiled, error, failed)
                continue
            registry.ran(compiled, delta)
        return CarryResult(registry.deltas(failed), failed, choices)

    def carry_live(self, registry: PlanRegistry) -> CarryResult:
        """Carries the staged changes live, without estimates."""
        return self.carry(registry, (), "live")

    def _carry_chosen(
        self, batch: _Batch, compiled: CompiledPlan, inputs: Inputs
    ) -> tuple[Mapping[Row, int], Choice]:
        """The delta of a plan's result, by the requested or the cheapest strategy."""
        changed = sum(map(len, inputs.values()))
        derivations = batch.registry.derivations_of(compiled)
        work = Work(changed, compiled.matching_quads(), derivations, compiled.looks_up_rows)
        if batch.requested == "auto":
            way, reason = choose(work, self.bulk_backend, self.tuning)
        else:
            way = way_of(batch.requested, work, self.bulk_backend, self.tuning)
            reason = f"{batch.requested} was requested."
        start = time.perf_counter()
        try:
            with interrupting(compiled.stop_flag):
                delta = self._by(way, batch, compiled, inputs)
        except BulkFailed as error:
            if batch.requested != "auto":
                raise
            way, reason = LIVE, f"live, because {error}"
            delta = compiled.delta(inputs)
        compiled.carried_by(way.strategy, way.backend or "live")
        return delta, Choice(way.strategy, time.perf_counter() - start, reason)

    def _by(self, way: Way, batch: _Batch, compiled: CompiledPlan, inputs: Inputs) -> Mapping[Row, int]:
        if way.backend is not None:
            return self._by_backend(way.backend, way, batch, compiled)
        if way == LIVE:
            return compiled.delta(inputs)
        return batch.change(compiled, compiled.rebuilt())

    def _by_backend(self, name: str, way: Way, batch: _Batch, compiled: CompiledPlan) -> Mapping[Row, int]:
        limit = batch.registry.limit  # it counts the time of this process, not Spark's
        try:
            with nullcontext() if limit is None else limit.by_others(), stopped_by(compiled.stop_flag):
                carrier = self.carriers[name](batch.undone)
                carry = _rebuild_by if way.strategy == "rebuild" else _delta_by
                return carry(carrier, batch, compiled)
        except (BulkFailed, Timeout, TooLarge):  # a limit stops the plan; the backend did not fail
            raise
        except Exception as error:
            raise failure_of(name, error) from error


def failure_of(name: str, error: Exception) -> BulkFailed:
    """The failure of a backend in one sentence."""
    if name == "spark":
        from sparqlive.bulk.backends.spark.failure import root_cause

        return SparkFailed(f"Spark failed: {type(error).__name__}: {root_cause(str(error))}")
    return BulkFailed(
        f"{_TITLES[name]} failed: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    )


def _in_process(quads: Quads | Snapshot, dictionary: Dictionary, terms: Callable[[], pa.Table]) -> Carrier:
    from sparqlive.bulk.carry import InProcess
    from sparqlive.bulk.scan import SessionTables

    tables = SessionTables(quads, dictionary.id_of)
    return InProcess(tables, terms, dictionary.id_of, dictionary.exceptions, dictionary.enter_columns)


@dataclass(frozen=True)
class _Batch:
    """A batch of changes for the contents of a registry, which do not include the effect of `undone`."""

    registry: PlanRegistry
    changes: Sequence[Change]
    undone: Sequence[Change]
    requested: Strategy

    def change(self, compiled: CompiledPlan, result: Mapping[Row, int] | Run) -> Mapping[Row, int]:
        """The delta of a result that was computed from scratch: the difference to the present rows."""
        return change_between(self.registry.rows_of(compiled), result)


def _delta_by(carrier: Carrier, batch: _Batch, compiled: CompiledPlan) -> Mapping[Row, int]:
    sources = compiled.state_sources()
    plans, kept = [*sources.values(), compiled.plan], compiled.kept()
    names, parameters = compiled.state_names(), compiled.parameter_rows()
    *states, result = carrier.deltas(plans, batch.changes, parameters, kept, names)
    compiled.take(dict(zip(sources, states, strict=True)))
    return result


def _rebuild_by(carrier: Carrier, batch: _Batch, compiled: CompiledPlan) -> Mapping[Row, int]:
    sources = compiled.state_sources()
    plans = [*sources.values(), compiled.plan]
    *states, result = carrier.contents(plans, batch.changes, compiled.parameter_rows())
    compiled.replace(dict(zip(sources, states, strict=True)))
    return batch.change(compiled, result)
