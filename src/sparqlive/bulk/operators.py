"""Maps each operator to its evaluation as SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from sparqlive.bulk import (
    closure,
    distinct,
    extend,
    group,
    join,
    keyed,
    left_join,
    mark,
    names,
    numbered,
    project,
    scan,
    semi,
    stored,
    table,
    template,
    two_sided,
    union,
    window,
)
from sparqlive.bulk.solutions import Keys, Solutions
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.bulk.evaluate import Evaluation

Content: TypeAlias = "Callable[[Evaluation, Any, State, frozenset[Var], Keys | None], Solutions]"
Change: TypeAlias = "Callable[[Evaluation, Any, Solutions], Solutions]"


@dataclass(frozen=True)
class BulkOperator:
    """The evaluation of an operator.

    content: its solutions in a state, with at least some variables, restricted by keys as far as these can be
    pushed. change: its change, from a change of its source; for a leaf, from the change of the quads. tested
    and flips, if it tests left solutions: the results for these, and the effect of a change of its right
    side.
    """

    content: Content
    change: Callable[..., Solutions] | None = None
    tested: two_sided.Tested | None = None
    flips: Change | None = None


def _two_sided(tested: two_sided.Tested, flips: Change) -> BulkOperator:
    return BulkOperator(partial(two_sided.content, tested), tested=tested, flips=flips)


def _keyed(redo: keyed.Redo, change: Change | None = None) -> BulkOperator:
    return BulkOperator(partial(keyed.content, redo), change or partial(keyed.change, redo))


OPERATORS: Mapping[type[op.Operator], BulkOperator] = {
    op.Scan: BulkOperator(scan.content, scan.change),
    op.Names: BulkOperator(names.content, names.change),
    op.Nodes: BulkOperator(names.content, names.change),
    op.Table: BulkOperator(table.content),
    op.Parameters: BulkOperator(table.parameters),
    op.Join: BulkOperator(join.content),
    op.Filter: BulkOperator(extend.filter_content, extend.filter_change),
    op.Extend: BulkOperator(extend.extend_content, extend.extend_change),
    op.Project: BulkOperator(project.content, project.change),
    op.Listing: BulkOperator(project.content, project.change),
    op.Template: BulkOperator(template.content, template.change),
    op.Union: BulkOperator(union.content, union.change),
    op.LeftJoin: _two_sided(left_join.tested, left_join.from_right),
    op.Semi: _two_sided(semi.tested, semi.from_right),
    op.Mark: _two_sided(mark.tested, mark.from_right),
    op.Distinct: BulkOperator(distinct.content, distinct.change),
    op.Group: _keyed(group.redo, group.change),
    op.Closure: _keyed(closure.redo),
    op.Window: _keyed(window.redo),
    op.Numbered: BulkOperator(numbered.content, numbered.change),
    op.Stored: BulkOperator(stored.content, stored.change),
    op.Shared: BulkOperator(stored.shared_content, stored.change),
}

_WITHOUT_CHANGE = (op.Table, op.Parameters, op.Join, op.TwoSided)
"""Contents that never change, and changes that follow from products and tests."""
_PLACE = "bulk/operators.py"
op.complete(OPERATORS.get, _PLACE)
op.complete(lambda kind: OPERATORS[kind].change or issubclass(kind, _WITHOUT_CHANGE), f"{_PLACE} (change)")
op.complete(lambda kind: OPERATORS[kind].flips or not issubclass(kind, op.TwoSided), f"{_PLACE} (flips)")
