"""Evaluates one-off queries on the last committed epoch.

A query reads a snapshot of the quads without the lock: it does not block writers, and can stop anywhere.
It does not wait for an epoch that is being carried. Rows are computed as they are read. Invariant: an answer
belongs to one epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice

from sparqlive.engine.empty import seems_empty, why_empty
from sparqlive.engine.planning import PlannedQuery, Planning
from sparqlive.engine.results import Answer
from sparqlive.engine.rows import RowStream
from sparqlive.engine.writer import Writer
from sparqlive.errors import Error
from sparqlive.live.once import stream_once
from sparqlive.numbers import seconds, whole
from sparqlive.runtime.deadline import Steps, within
from sparqlive.sparql.algebra import Dataset
from sparqlive.zset.blocks import Block, blocks_of, rows_in
from sparqlive.zset.relation import Row


def query_once(
    writer: Writer,
    planning: Planning,
    text: str,
    base: str | None,
    timeout_seconds: float | None,
    row_limit: int | None,
    dataset: Dataset | None,
    from_views: bool,
    stream: bool,
    allow_private: bool,
    service_refusal: Error | None,
) -> Answer:
    """Evaluates a query; see `Session.query`."""
    if timeout_seconds is not None:
        seconds("timeout_seconds", timeout_seconds)
    if row_limit is not None:
        whole("row_limit", row_limit)
    began = time.monotonic()
    from_views = from_views and len(writer.views) > 0  # else the spelling of the plan is not needed
    planned = planning.planned_before(text, base, dataset)
    if planned is None:
        plan_it = partial(_planned, planning, text, base, dataset, from_views)
        planned = within(timeout_seconds, plan_it, began=began)
    parsed, plan = planned.query, planned.plan
    spelling = planned.spelling if from_views and not planned.asks_endpoints else None
    files: ExitStack | None = None
    rows: Iterator[tuple[Row, int]]
    with writer.capturing() as is_carrying:
        writer.ensure_open()
        epoch, terms = writer.epoch, writer.terms.extended()
        view = None if spelling is None else writer.views.standing(parsed.form, spelling, epoch)
        if view is not None and is_carrying and not view.content.capturable:
            view = None
        if view is None:
            quads = writer.quads.snapshot()
            if writer.persistence is not None:
                files = ExitStack()
                files.enter_context(writer.pinned())
            bulk = writer.strategies.contents_if_any(quads, terms.dictionary, writer.reading)
        else:
            captured, terms = view.captured(), view.terms.captured()
            if stream or timeout_seconds is None:
                reason = partial(getattr, view.public, "hint")
                return Answer(parsed, plan, captured, terms, epoch, view.name, why_empty=reason)
            rows, row_limit = rows_in(captured()), None
    if view is None:
        if planned.asks_endpoints:
            ask = partial(planning.answered, planned, quads, terms, allow_private, service_refusal)
            with _closed_on_error(files):
                planned = within(timeout_seconds, ask, began=began)
            parsed, plan = planned.query, planned.plan
        is_ask = parsed.form == "ASK"
        rows = stream_once(planned.runnable, quads, terms, is_ask, bulk)
        rows = islice(rows, 1) if is_ask else rows
    found = RowStream(rows, Steps(timeout_seconds, spent=time.monotonic() - began), row_limit, files)
    if not stream and (timeout_seconds is not None or row_limit is not None):
        found.gathered()
    else:
        found.start()
    each = found.once if stream else found.__iter__
    blocks = partial(_blocks, each, len(planned.kept.variables))
    name = None if view is None else view.name
    few = found.few()
    if few is None or not seems_empty(plan, [tuple(terms.dictionary.terms_in(row)) for row in few]):
        return Answer(parsed, plan, blocks, terms, epoch, name, each)
    reason = partial(why_empty, writer, plan, epoch)
    return Answer(parsed, plan, blocks, terms, epoch, name, each, reason)


def _planned(
    planning: Planning, text: str, base: str | None, dataset: Dataset | None, from_views: bool
) -> PlannedQuery:
    """Plans a query; includes all that depends on the plan alone, because it may be large."""
    planned = planning.plan_once(text, base, dataset)
    if not planned.asks_endpoints:
        _ = planned.reads, planned.runnable, planned.spelling if from_views else None
    return planned


@contextmanager
def _closed_on_error(files: ExitStack | None) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if files is not None:
            files.close()
        raise


def _blocks(rows: Callable[[], Iterator[tuple[Row, int]]], width: int) -> Iterator[Block]:
    return blocks_of(rows(), width)
