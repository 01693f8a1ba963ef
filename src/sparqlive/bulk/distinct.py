"""DISTINCT: each solution once; the delta is the sign changes of the counts.

The old counts of the solutions in the change are read where they are stored, and computed otherwise.
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
    # States have positive weights only: what has a row is there. The sum says so for a row without columns.
    frame = source.frame.grouped(source.ids, *texts, total(WEIGHT)).where(f"{WEIGHT} > 0")
    return source.of(frame.select(*source.ids, *source.text_columns, f"{ONE} AS {WEIGHT}"))


def change(evaluation: Evaluation, operator: op.Distinct, changed: Solutions) -> Solutions:
    old = evaluation.before(operator, keys_of(changed))
    return changed.of(signs(changed, old))


def signs(changed: Solutions, old: Solutions) -> Frame:
    """+1 where a count becomes positive, -1 where it stops being so; the old counts of what changed only."""
    sign = f"CAST(n + d > 0 AS BIGINT) - CAST(n > 0 AS BIGINT) AS {WEIGHT}"
    totals = counted(changed, old)
    return totals.select(*changed.ids, *changed.text_columns, sign).where(f"{WEIGHT} <> 0")


def counted(changed: Solutions, old: Solutions) -> Frame:
    """For each solution that changed, its old count `n` and its change `d`."""
    ids, texts = changed.ids, changed.text_columns
    nothing = [name if name in old.text_columns else f"CAST(NULL AS STRING) AS {name}" for name in texts]
    touched = changed.frame.select(*ids, *texts, f"{WEIGHT} AS d", f"{ZERO} AS n")
    there = semi(old.frame, changed.frame.select(*ids).broadcast(changed.small), ids)
    there = there.select(*ids, *nothing, f"{ZERO} AS d", f"{WEIGHT} AS n")
    return touched.union(there).grouped(
        ids, *(f"max({name}) AS {name}" for name in texts), total("d"), total("n")
    )
