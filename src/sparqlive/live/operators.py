"""Maps each operator to its in-process evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from sparqlive.live import (
    closure,
    distinct,
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
    totals,
    two_sided,
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
Up: TypeAlias = "Callable[[Compiler, Function, Node, int, Point], None]"
Flips: TypeAlias = "Callable[[Compiler, Function, Node, State], None]"


@dataclass(frozen=True)
class LiveOperator:
    """The evaluation of an operator.

    loop: writes loops over its content. up: propagates a change of one of its inputs, by the term of its
    delta rule; not for operators that store their source's content, which collect changes. state: creates its
    state, if it stores its source's content. flips: writes the effect of a change of its right side, if it
    tests left solutions.
    """

    loop: Loop
    up: Up | None = None
    state: Callable[[Any, Terms], Any] | None = None
    flips: Flips | None = None


def _two_sided(attach: two_sided.Attach, flips: Flips) -> LiveOperator:
    return LiveOperator(partial(two_sided.loop, attach), partial(two_sided.up, attach), flips=flips)


OPERATORS: Mapping[type[op.Operator], LiveOperator] = {
    op.Scan: LiveOperator(scan.loop),
    op.Names: LiveOperator(names.loop_names),
    op.Nodes: LiveOperator(names.loop_nodes),
    op.Table: LiveOperator(table.loop),
    op.Parameters: LiveOperator(stored.loop, state=stored.state),
    op.Join: LiveOperator(join.loop, join.up),
    op.Filter: LiveOperator(join.loop, join.up_through_items),
    op.Extend: LiveOperator(join.loop, join.up_through_items),
    op.Project: LiveOperator(project.loop, project.up),
    op.Listing: LiveOperator(project.loop, project.up),
    op.Template: LiveOperator(template.loop, template.up),
    op.Union: LiveOperator(union.loop, union.up),
    op.LeftJoin: _two_sided(left_join.attach, left_join.flips),
    op.Semi: _two_sided(semi.attach, semi.flips),
    op.Mark: _two_sided(mark.attach, mark.flips),
    op.Distinct: LiveOperator(distinct.loop, state=distinct.state),
    op.Group: LiveOperator(keyed.loop, state=totals.state),
    op.Closure: LiveOperator(closure.loop, state=closure.state),
    op.Window: LiveOperator(keyed.loop, state=window.OrderedRows),
    op.Numbered: LiveOperator(keyed.loop, state=numbered.state),
    op.Stored: LiveOperator(stored.loop, state=stored.state),
    op.Shared: LiveOperator(stored.loop, state=stored.state),
}

_PLACE = "live/operators.py"
op.complete(OPERATORS.get, _PLACE)
op.complete(lambda kind: OPERATORS[kind].up or issubclass(kind, op.Leaf | op.Keeping), f"{_PLACE} (up)")
op.complete(lambda kind: OPERATORS[kind].state or not issubclass(kind, op.Keeping), f"{_PLACE} (state)")
op.complete(lambda kind: OPERATORS[kind].flips or not issubclass(kind, op.TwoSided), f"{_PLACE} (flips)")
