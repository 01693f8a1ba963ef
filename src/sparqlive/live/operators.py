"""The table of operators and their evaluation in process, complete by `tests/plan/test_operators.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sparqlive.live import (
    closure,
    distinct,
    join,
    keyed,
    leaves,
    left_join,
    mark,
    numbered,
    project,
    scan,
    semi,
    stored,
    template,
    totals,
    union,
    window,
)
from sparqlive.live.code import Function, Point
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node

Loop: TypeAlias = "Callable[[Compiler, Function, Node, State, Point], None]"


@dataclass(frozen=True)
class LiveOperator:
    """The evaluation of an operator.

    loop: writes loops over its content. state: creates its state, if it keeps its source's content.
    flips: writes the effect of a change of its right side, if it tests left solutions.
    """

    loop: Loop
    state: Callable[[Any, Terms], Any] | None = None
    flips: Callable[[Compiler, Function, Node, State], None] | None = None


OPERATORS: Mapping[type[op.Operator], LiveOperator] = {
    op.Scan: LiveOperator(scan.loop),
    op.Names: LiveOperator(leaves.loop_names),
    op.Nodes: LiveOperator(leaves.loop_nodes),
    op.Table: LiveOperator(leaves.loop_table),
    op.Parameters: LiveOperator(stored.loop, stored.state),
    op.Join: LiveOperator(join.loop),
    op.Filter: LiveOperator(join.loop),
    op.Extend: LiveOperator(join.loop),
    op.Project: LiveOperator(project.loop),
    op.Listing: LiveOperator(project.loop),
    op.Template: LiveOperator(template.loop),
    op.Union: LiveOperator(union.loop),
    op.LeftJoin: LiveOperator(left_join.loop, flips=left_join.flips),
    op.Semi: LiveOperator(semi.loop, flips=semi.flips),
    op.Mark: LiveOperator(mark.loop, flips=mark.flips),
    op.Distinct: LiveOperator(distinct.loop, distinct.state),
    op.Group: LiveOperator(keyed.loop, totals.state),
    op.Closure: LiveOperator(closure.loop, closure.state),
    op.Window: LiveOperator(keyed.loop, window.OrderedRows),
    op.Numbered: LiveOperator(keyed.loop, numbered.state),
    op.Stored: LiveOperator(stored.loop, stored.state),
    op.Shared: LiveOperator(stored.loop, stored.state),
}
