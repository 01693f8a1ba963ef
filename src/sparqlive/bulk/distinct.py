"""Evaluates DISTINCT: each solution once; the delta is the sign changes of the counts.

The old counts of the changed solutions are read from the stored counts, or else computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparqlive.bulk.dialect import ONE, ZERO, total
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.solutions import WEIGHT, Keys, Solutions, keys_of, semi
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation


def content(
    evaluation: Evaluation, operator: op.Distinct, state: State, needed: frozenset[Var], keys: Keys | None
) -> Solutions:
    source = evaluation.content(operator.source, state, frozenset(operator.variables), keys)
    texts = [f"max({name}) AS {name}" for name in source.text_columns]
    # States have positive weights only, so every row exists. The sum decides for a row without columns.
    frame = source.frame.grouped(source.ids, *texts, total(WEIGHT)).where(f"{WEIGHT} > 0")
    return source.of(frame.select(*source.ids, *source.text_columns, f"{ONE} AS {WEIGHT}"))


def change(evaluation: Evaluation, operator: op.Distinct, changed: Solutions) -> Solutions:
    old = evaluation.before(operator, keys_of(changed))
    return changed.of(signs(changed, old))


def signs(changed: Solutions, old: Solutions) -> Frame:
    """+1 where a count becomes positive, -1 where it becomes zero; reads only counts that changed."""
    sign = f"CAST(n + d > 0 AS BIGINT) - CAST(n > 0 AS BIGINT) AS {WEIGHT}"
    totals = counted(changed, old)
    return totals.select(*changed.ids, *changed.text_columns, sign).where(f"{WEIGHT} <> 0")


def counted(changed: Solutions, old: Solutions) -> Frame:
    """Computes the old count `n` and the change `d` of each changed solution."""
    ids, texts = changed.ids, changed.text_columns
    nothing = [name if name in old.text_columns else f"CAST(NULL AS STRING) AS {name}" for name in texts]
    touched = changed.frame.select(*ids, *texts, f"{WEIGHT} AS d", f"{ZERO} AS n")
    there = semi(old.frame, changed.frame.select(*ids).broadcast(changed.small), ids)
    there = there.select(*ids, *nothing, f"{ZERO} AS d", f"{WEIGHT} AS n")
    return touched.union(there).grouped(
        ids, *(f"max({name}) AS {name}" for name in texts), total("d"), total("n")
    )
