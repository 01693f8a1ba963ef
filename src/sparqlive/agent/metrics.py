"""Metrics for Prometheus: counters of events, and gauges that are measured when requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparqlive.agent.hub import TEMPORARY
from sparqlive.engine.epoch import Epoch
from sparqlive.session import Session
from sparqlive.sources.manager import Source

if TYPE_CHECKING:
    from sparqlive.agent.agent import Agent

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# From a quad that concerns no view to a batch that runs on Spark.
_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class Metrics:
    """The metrics of one agent, in their own registry."""

    def __init__(self, agent: Agent) -> None:
        self._registry = CollectorRegistry()
        self._epochs = Counter("sparqlive_epochs", "Epochs committed.", registry=self._registry)
        self._changes = Counter(
            "sparqlive_changes", "Quads inserted and deleted.", ["sign"], registry=self._registry
        )
        self._apply = Histogram(
            "sparqlive_apply_seconds",
            "Time per epoch, by the strategy that updated the views.",
            ["strategy"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._requests = Counter(
            "sparqlive_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self._request_seconds = Histogram(
            "sparqlive_request_seconds",
            "Time per request, without streams.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._subscribers = Gauge(
            "sparqlive_subscribers", "Subscribers of a view.", ["view"], registry=self._registry
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(_Present(agent.session))
        agent.session.observe(self._count_epoch)

    def _count_epoch(self, epoch: Epoch) -> None:
        """Runs in the writer's thread."""
        self._apply.labels(epoch.strategy).observe(epoch.seconds)
        if epoch.inserted or epoch.deleted:
            self._epochs.inc()
            self._changes.labels("+").inc(epoch.inserted)
            self._changes.labels("-").inc(epoch.deleted)

    def request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Counts a finished request; `seconds` is None for streams."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._request_seconds.labels(route).observe(seconds)

    def text(self, subscribers: Mapping[str, int]) -> bytes:
        """Returns all metrics, with the subscribers of each view."""
        self._subscribers.clear()
        for view, number in subscribers.items():
            self._subscribers.labels("temporary" if view.startswith(TEMPORARY) else view).inc(number)
        return generate_latest(self._registry)


class _Present(Collector):
    """Gauges of the current state, read one view at a time, so that writers need not wait."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("sparqlive_epoch", "The current epoch.", self._session.epoch)
        yield GaugeMetricFamily("sparqlive_quads", "Quads in the current epoch.", len(self._session))
        yield GaugeMetricFamily(
            "sparqlive_dictionary_exceptions",
            "Terms whose hash collides with another term; many of them indicate an attack.",
            len(self._session.dictionary.exceptions),
        )
        used, limit = self._session.memory()
        yield GaugeMetricFamily(
            "sparqlive_memory_used_bytes", "Memory of quads, held views, their deltas and terms.", used
        )
        yield GaugeMetricFamily("sparqlive_memory_limit_bytes", "What quads and views may use.", limit)
        yield from self._views()
        yield from self._sources(list(self._session.sources.values()))

    def _views(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily("sparqlive_view_rows", "Rows of a view.", labels=["view"])
        state = GaugeMetricFamily("sparqlive_view_state_bytes", "Bytes stored for a view.", labels=["view"])
        lag = GaugeMetricFamily("sparqlive_view_lag_epochs", "Epochs that a view is behind.", labels=["view"])
        failed = GaugeMetricFamily("sparqlive_view_failed", "1 if the view has failed.", labels=["view"])
        held = GaugeMetricFamily(
            "sparqlive_view_held", "1 if the view is in memory, 0 if it stays in the store.", labels=["view"]
        )
        for name, view in list(self._session.views.items()):
            stats = view.stats()
            rows.add_metric([name], stats["rows"])
            state.add_metric([name], stats["state_bytes"])
            lag.add_metric([name], max(0, self._session.epoch - stats["epoch"]))
            failed.add_metric([name], stats["failure"] is not None)
            held.add_metric([name], stats["held"])
        yield from (rows, state, lag, failed, held)

    def _sources(self, sources: list[Source]) -> Iterator[Metric]:
        quads = GaugeMetricFamily("sparqlive_source_quads", "Quads of a source.", labels=["source"])
        lag = GaugeMetricFamily(
            "sparqlive_source_lag_seconds",
            "Seconds since the last successful check of a source.",
            labels=["source"],
        )
        failing = GaugeMetricFamily(
            "sparqlive_source_failing", "1 if the last check failed.", labels=["source"]
        )
        failures = CounterMetricFamily(
            "sparqlive_source_failures", "Failed checks of a source.", labels=["source"]
        )
        for source in sources:
            status = source.status()
            quads.add_metric([source.name], status["quads"])
            if status["lag_seconds"] is not None:
                lag.add_metric([source.name], status["lag_seconds"])
            failing.add_metric([source.name], status["error"] is not None)
            failures.add_metric([source.name], source.failures)
        yield from (quads, lag, failing, failures)
