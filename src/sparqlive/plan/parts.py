"""Parts of a plan that share no variable, kept apart: a plan is then the product of smaller plans.

(A ⋈ B) with no variable in common has |A|·|B| rows; kept apart it costs |A| + |B|. Ground patterns are such
a part of their own, a switch (the connected-variable decomposition of the continuous-patterns paper, at the
top of a plan).
"""

from __future__ import annotations

from sparqlive.plan import operators as op
from sparqlive.plan.expressions import mentioned
from sparqlive.sparql.algebra import Var

Step = op.Filter | op.Extend


def independent_parts(plan: op.Operator) -> tuple[op.Operator, ...]:
    """Plans whose product is the plan, up to the order of columns; the plan alone if it is of one piece."""
    if isinstance(plan, op.Distinct):
        parts = independent_parts(plan.source)
        return tuple(op.Distinct(part) for part in parts) if len(parts) > 1 else (plan,)
    steps, base = _steps(plan)
    if not isinstance(base, op.Join) or any(
        isinstance(step, op.Extend) and step.variable in base.variables for step in steps
    ):
        return (plan,)
    groups = _groups(base.parts, steps)
    if len(groups) < 2:
        return (plan,)
    return tuple(_rebuilt(parts, own, plan.variables) for parts, own in groups)


def _steps(plan: op.Operator) -> tuple[list[Step], op.Operator]:
    """The filters and bindings above the base, lowest first; projections among them only drop columns."""
    steps: list[Step] = []
    while isinstance(plan, op.Project | op.Filter | op.Extend):
        if isinstance(plan, op.Filter | op.Extend):
            steps.append(plan)
        plan = plan.source
    return steps[::-1], plan


def _groups(parts: tuple[op.Operator, ...], steps: list[Step]) -> list[tuple[list[op.Operator], list[Step]]]:
    groups: list[tuple[set[Var], list[op.Operator], list[Step]]] = []
    ground: list[op.Operator] = []

    def add(variables: set[Var], parts: list[op.Operator], steps: list[Step]) -> None:
        for group in [group for group in groups if group[0] & variables]:
            groups.remove(group)
            variables = variables | group[0]
            parts, steps = [*group[1], *parts], [*group[2], *steps]
        groups.append((variables, parts, steps))

    for part in parts:
        if part.variables:
            add(set(part.variables), [part], [])
        else:
            ground.append(part)
    for step in steps:
        read = _reads(step)
        if not read and groups:
            read = set(groups[0][0])
        add(read | ({step.variable} if isinstance(step, op.Extend) else set()), [], [step])
    order = {id(step): number for number, step in enumerate(steps)}
    found = [(own, sorted(mine, key=lambda step: order[id(step)])) for _, own, mine in groups]
    return [*found, (ground, [])] if ground else found


def _reads(step: Step) -> set[Var]:
    expression = step.condition if isinstance(step, op.Filter) else step.expression
    return set(mentioned(expression))


def _rebuilt(parts: list[op.Operator], steps: list[Step], columns: tuple[Var, ...]) -> op.Operator:
    plan: op.Operator = op.UNIT if not parts else parts[0] if len(parts) == 1 else op.Join(tuple(parts))
    for step in steps:
        if isinstance(step, op.Filter):
            plan = op.Filter(step.condition, plan)
        else:
            plan = op.Extend(plan, step.variable, step.expression)
    return op.Project(plan, tuple(v for v in columns if v in plan.variables))
