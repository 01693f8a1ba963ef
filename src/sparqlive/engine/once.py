"""Evaluates one-off queries on the current epoch.

A query reads copies, without the lock, so that it does not block writers and can be stopped at any point.
Invariant: an answer belongs to one epoch.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from sparqlive.engine.register import Registration
from sparqlive.engine.results import Answer
from sparqlive.engine.writer import Epochs
from sparqlive.live.once import collect, compute_once, snapshot_for
from sparqlive.live.terms import Terms
from sparqlive.numbers import seconds, whole
from sparqlive.plan.operators import kept_of
from sparqlive.plan.spelling import spelling_of
from sparqlive.sparql.algebra import Dataset
from sparqlive.sparql.deadline import within


def query_once(
    epochs: Epochs,
    registration: Registration,
    text: str,
    base: str | None,
    timeout_seconds: float | None,
    row_limit: int | None,
    dataset: Dataset | None,
    from_views: bool,
) -> Answer:
    """Evaluates a query; see `Session.query`."""
    if timeout_seconds is not None:
        seconds("timeout_seconds", timeout_seconds)
    if row_limit is not None:
        whole("row_limit", row_limit)
    began = time.monotonic()
    parsed, plan = within(
        timeout_seconds,
        lambda: registration.plan(text, base, volatile=True, dataset=dataset),
        began=began,
    )
    spelling, kept = spelling_of(plan) if from_views else None, kept_of(plan)
    terms = Terms(epochs.terms.dictionary.extended())
    with ExitStack() as files:
        with epochs.lock:
            epochs.ensure_open()
            epoch = epochs.epoch
            view = None if spelling is None else epochs.views.standing(parsed.form, spelling, epoch)
            if view is None:
                quads = snapshot_for(kept, epochs.quads, terms.dictionary)
                files.enter_context(epochs.pinned(quads))
            else:
                content = view.content.copied()
        if view is not None:
            rows = within(timeout_seconds, lambda: collect(content()), began=began)
            return Answer(parsed, plan, rows, terms, epoch, view.name)
        rows = within(timeout_seconds, lambda: compute_once(kept, quads, terms, row_limit), began=began)
    with epochs.lock:
        epochs.quads.keep_inverses(quads)
    return Answer(parsed, plan, rows, terms, epoch)
