"""Explains a view as text for a terminal: its plan, delta rules, stored relations and pattern forms.

Also returns the same plan as a tree to draw (`explain_plan`). The rules come from `delta` and use the
notation of the counting paper. Nothing is derived here; only terms with the change of a constant are left
out. Invariant: the text depends only on the arguments, and every short name in a rule appears in the plan.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparqlive.plan import operators as op
from sparqlive.plan.delta import (
    Apply,
    Flips,
    Of,
    Outer,
    Plus,
    Redone,
    Rule,
    Signs,
    State,
    Tested,
    Times,
)
from sparqlive.plan.forms import Form, Part, centre_of, decompose, form_of
from sparqlive.plan.naming import Node, name_operators
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.wording import Words, text_of_expression
from sparqlive.sparql import html

__all__ = ["RESULT", "Explained", "PlanStep", "StoredState", "explain", "explain_plan", "text_of_expression"]

RESULT: Final = -1
_WIDTH = 100
_SIGNS = (
    "A is the content before the change, A′ after it; ΔA is what the change adds (+) and removes (-).",
    "T(G) are the matches of a pattern in the quads G; ⋈ multiplies weights, + adds them.",
)
_INDEXES = "only the quad indexes"


def explain(
    plan: op.Operator, sizes: Mapping[int, tuple[int, int]], text: str, choice: Sequence[str] = ()
) -> str:
    """Returns the query, its plan, its delta rules, what is stored, and the forms of its graph patterns.

    `sizes` has rows and bytes per operator number (its position in post-order), the result under -1. If the
    result is stored as a product, its i-th part is under -i, and the plan is shown as that product. `choice`
    has lines on how the view was updated, shown last.
    """
    explanation = _Explanation(plan, sizes)
    sections: dict[str, Iterable[str]] = {
        "query": inspect.cleandoc(text).splitlines(),
        "plan": explanation.plan(),
        "delta rules": explanation.rules(),
        "stored": explanation.stored(),
        "graph patterns": explanation.graph_patterns(),
    }
    if choice:
        sections["last strategy choice"] = list(choice)
    blocks = [
        "\n".join([title, *(f"  {line}".rstrip() for line in lines)]) for title, lines in sections.items()
    ]
    return "\n\n".join(blocks) + "\n"


@dataclass(frozen=True)
class StoredState:
    """Something that is stored: a description, and its size if the view exists."""

    what: str
    rows: int | None
    bytes: int | None


@dataclass(frozen=True)
class PlanStep:
    """An operator to draw: its name in the rules, its description, its rule, and its inputs.

    `number` is its position in post-order, `rule` the lines of its delta rule. `°` marks a variable that may
    be unbound.
    """

    number: int
    name: str
    kind: str
    words: str
    variables: tuple[str, ...]
    rule: tuple[str, ...]
    stored: tuple[StoredState, ...]
    inputs: tuple[PlanStep, ...]


@dataclass(frozen=True)
class Explained:
    """A plan to draw, and the meaning of the signs in its rules."""

    root: PlanStep
    legend: tuple[str, ...]

    def _repr_html_(self) -> str:
        """The operators, each below the one that reads it, with their delta rules; for notebooks."""
        return html.preformatted("\n".join([*_tree(self.root), "", *self.legend]))


def _tree(step: PlanStep) -> Iterator[str]:
    yield f"{step.name}  {step.words}"
    yield from (f"    {line}" for line in step.rule)
    for below in step.inputs:
        yield from (f"  {line}" for line in _tree(below))


def explain_plan(plan: op.Operator, sizes: Mapping[int, tuple[int, int]]) -> Explained:
    """Returns what `explain` says about a plan and its rules, as a tree. `sizes` may be empty."""
    return _Explanation(plan, sizes).draw()


class _Explanation:
    def __init__(self, plan: op.Operator, sizes: Mapping[int, tuple[int, int]]) -> None:
        self._sizes = sizes
        parts = independent_parts(plan)
        self._is_stored_in_parts = len(parts) > 1 and all(
            -number in sizes for number in range(1, len(parts) + 1)
        )
        self._root = name_operators(op.Join(parts) if self._is_stored_in_parts else plan)
        self._all = list(self._root.top_down())
        self._results = self._root.children if self._is_stored_in_parts else (self._root,)
        self._words = Words()

    def draw(self) -> Explained:
        words = {node: self._text(node) for node in self._all}
        rules = {node: tuple(_RuleWriter(node, self._words).lines()) for node in self._all}

        def step(node: Node) -> PlanStep:
            operator = node.operator
            kind = "product" if self._is_product(node) else type(operator).__name__.lower()
            variables = tuple(map(self._words.marker(operator.maybe), operator.variables))
            inputs = tuple(map(step, node.children))
            stored = tuple(self._stored_states(node))
            return PlanStep(node.number, node.name, kind, words[node], variables, rules[node], stored, inputs)

        return Explained(step(self._root), (*_SIGNS, *self._legend()))

    def _is_product(self, node: Node) -> bool:
        return self._is_stored_in_parts and node is self._root

    def _text(self, node: Node) -> str:
        if self._is_product(node):
            return "product of parts that share no variable"
        return node.operator.words(self._words)

    def plan(self) -> Iterator[str]:
        lines = []
        for node in self._all:
            keeps = node in self._results or isinstance(node.operator, op.Distinct | op.Keyed)
            stored = "  (stored)" if keeps else ""
            lines.append(f"{'  ' * node.depth}{node.name}  {self._text(node)}{stored}")
        yield from lines
        if any("°" in line for line in lines):
            yield "° may be unbound"
        if self._words.hidden:
            yield "_ starts the name of an internal variable"

    # Delta rules

    def rules(self) -> Iterator[str]:
        yield from _SIGNS
        for node in self._all:
            if node is self._root or not node.is_leaf:
                yield from _RuleWriter(node, self._words).lines()
        yield from self._legend()

    def _legend(self) -> Iterator[str]:
        # A test against a constant never flips.
        operators = [n.operator for n in self._all if len(n.children) != 2 or not n.children[1].constant]
        usual = any(isinstance(o, op.LeftJoin) or (isinstance(o, op.Semi) and not o.keep) for o in operators)
        if usual:
            yield "flips(B, ΔB): -1 where the first match in B appears, +1 where the last disappears."
        if any(isinstance(o, op.Semi) and o.keep for o in operators):
            of = " of ⋉" if usual else ""
            yield f"flips(B, ΔB){of}: +1 where the first match in B appears, -1 where the last disappears."
        if any(isinstance(o, op.Mark) for o in operators):
            yield "flips(B, ΔB) of a mark: -1 for the old mark, +1 for the new one, where it changes."
        if any(isinstance(o, op.Distinct) for o in operators):
            yield "signs(A, ΔA): +1 where the count of a solution becomes positive, -1 where it drops to 0."
        if any(isinstance(o, op.Keyed) for o in operators):
            yield "redone(A, ΔA): for each key in ΔA, minus the old rows, plus the new rows."
        if any(isinstance(o, op.Closure) for o in operators):
            yield "redone of paths: a step that connects or separates nothing costs a lookup or short search;"
            yield "  any other step costs what it connects or separates, and the steps around that."
        if any(isinstance(getattr(o, "graph", None), op.MergedGraphs) for o in operators):
            yield "In a union of graphs, a triple appears with its first graph and disappears with its last."

    # What is stored

    def stored(self) -> Iterator[str]:
        below = list(self._below_the_result())
        if self._is_stored_in_parts:
            names = " × ".join(node.name for node in self._results)
            yield f"result: {names}, multiplied when read"
            for number, node in enumerate(self._results, 1):
                yield f"{node.name}{self._size(-number)}: part of the result"
        elif isinstance(self._root.operator, op.Distinct):
            yield f"result: the solutions counted by {self._root.name}"
        elif isinstance(self._root.operator, op.Closure):
            yield f"result: the endpoints of the paths of {self._root.name}"
        else:
            yield f"{'' if below else 'only the '}result{self._size(RESULT)}"
        yield from below

    def _below_the_result(self) -> Iterator[str]:
        for node in self._all:
            what = self._description_of_state(node)
            if what is not None:
                size = "" if self._is_stored_in_parts else self._size(node.number)
                yield f"{node.name}{size}: {what}"

    def _description_of_state(self, node: Node) -> str | None:
        """Describes what an operator stores below the result."""
        is_result = self._is_stored_in_parts and node in self._results
        if node.again or (is_result and isinstance(node.operator, op.Distinct)):
            return None
        return node.operator.stored_words(self._words)

    def _stored_states(self, node: Node) -> Iterator[StoredState]:
        what = self._description_of_state(node)
        if what is not None:
            yield self._stored_state(what, None if self._is_stored_in_parts else node.number)
        if self._is_stored_in_parts and node in self._results:
            yield self._stored_state("part of the result", -1 - self._results.index(node))
        elif node in self._results and not isinstance(node.operator, op.Distinct | op.Closure):
            yield self._stored_state("the result", RESULT)

    def _stored_state(self, what: str, key: int | None) -> StoredState:
        rows, size = (None, None) if key is None else self._sizes.get(key, (None, None))
        return StoredState(what, rows, size)

    def _size(self, key: int) -> str:
        if key not in self._sizes:
            return ""
        rows, size = self._sizes[key]
        return f" ({rows:,} row{'' if rows == 1 else 's'}, {size:,} bytes)"

    # Graph patterns

    def graph_patterns(self) -> Iterator[str]:
        found = [(node, patterns) for node in self._all if (patterns := _patterns(node))]
        found.sort(key=lambda item: self._all.index(item[1][0]))
        top = {_below_linear(result) for result in self._results} if self._is_stored_in_parts else set()
        together = [pattern for node, patterns in found if node in top for pattern in patterns]
        if len(together) > 1:
            form = form_of(_scans(together)).value
            yield f"{_names(together)}: {form}, in {len(self._results)} parts that are stored separately"
        for node, patterns in found:
            indent = "  " if node in top and len(together) > 1 else ""
            for line in self._basic_pattern(node, patterns):
                yield indent + line
        if not found:
            yield "none"

    def _basic_pattern(self, node: Node, patterns: list[Node]) -> Iterator[str]:
        parts = decompose(_scans(patterns))
        indent = ""
        if len(parts) > 1:
            form = form_of(_scans(patterns)).value
            yield f"{_names(patterns)}: {form}, {len(parts)} parts that share no variable"
            indent = "  "
        nothing_else = len(parts) == 1 and len(patterns) == max(1, len(node.children))
        for part in parts:
            names = _names([patterns[place] for place in part.positions])
            yield f"{indent}{names}: {self._form(part)}; cached: {self._cached(node, part, nothing_else)}"

    def _form(self, part: Part) -> str:
        centre = centre_of(part.scans)
        match part.form:
            case Form.GROUND:
                return "ground, a switch"
            case Form.STAR:
                around = self._words.variable(part.variables[0])
                return f"star around {around} with constant arms"
            case _ if len(part.scans) > 1 and centre is not None:
                return f"connected, a star around {self._words.variable(centre)} with variable arms"
            case _:
                return f"connected by {self._words.text_of_list(part.variables)}"

    def _cached(self, node: Node, part: Part, alone: bool) -> str:
        """Describes where the weights of a part are cached. `alone`: the operator has no other input."""
        keeper, above = self._keeper(node)
        unit = {Form.GROUND: "one weight", Form.STAR: "one weight per centre"}.get(part.form)
        if unit is None or not alone or keeper is None:
            return _INDEXES
        if not all(variable in other.variables for other in above for variable in part.variables):
            return f"{_INDEXES}; its weights are summed in {keeper}"
        return f"{unit}, in {keeper}"

    def _keeper(self, node: Node) -> tuple[str | None, list[op.Operator]]:
        """Returns what stores the content of an operator, and the linear operators in between."""
        above: list[op.Operator] = []
        while node not in self._results:
            assert node.parent is not None, "the root is a result, or its children are"
            node = node.parent
            if isinstance(node.operator, op.Distinct):
                return f"the counts of {node.name}", above
            if isinstance(node.operator, op.Stored | op.Shared | op.Keyed):
                return node.name, above
            if not isinstance(node.operator, op.Project | op.Filter | op.Extend):
                return None, above
            above.append(node.operator)
        return node.name if self._is_stored_in_parts else "the result", above


def _patterns(node: Node) -> list[Node]:
    """Returns the basic graph pattern of an operator: the scans of a join, or a scan outside a join."""
    if isinstance(node.operator, op.Join):
        return [child for child in node.children if isinstance(child.operator, op.Scan)]
    in_join = node.parent is not None and isinstance(node.parent.operator, op.Join)
    return [node] if isinstance(node.operator, op.Scan) and not in_join else []


def _scans(patterns: list[Node]) -> list[op.Scan]:
    return [pattern.operator for pattern in patterns if isinstance(pattern.operator, op.Scan)]


def _names(nodes: list[Node]) -> str:
    return " ".join(node.name for node in nodes)


def _below_linear(node: Node) -> Node:
    while isinstance(node.operator, op.Project | op.Filter | op.Extend | op.Distinct):
        node = node.children[0]
    return node


class _RuleWriter:
    """Writes the delta rule of one operator in the paper's notation."""

    def __init__(self, node: Node, words: Words) -> None:
        self._node = node
        self._words = words
        self._occurrences: Counter[int] = Counter()

    def lines(self) -> Iterator[str]:
        left = f"Δ{self._node.name} = "
        if self._node.is_leaf:
            yield left + ("0" if self._node.constant else f"{self._node.name}(ΔG)")
            return
        terms = [term for term in self._node.operator.delta_rule().terms if not self._is_zero(term)]
        texts = [self._term(term, alone=len(terms) == 1) for term in terms] or ["0"]
        line = left + " + ".join(texts)
        if len(line) <= _WIDTH:
            yield line
        else:
            yield left + texts[0]
            yield from (" " * (len(left) - 2) + f"+ {term}" for term in texts[1:])
        operator = self._node.operator
        if isinstance(operator, op.TwoSided) and not self._node.children[1].constant:
            yield f"    {operator.words_of_flips(self._words)}"

    def _is_zero(self, rule: Rule) -> bool:
        """Whether a term contains the change of something that never changes."""
        match rule:
            case Of(state, operator):
                return state is State.DELTA and self._child(operator, count=False).constant
            case Times(factors):
                return any(self._is_zero(factor) for factor in factors)
            case Plus(terms):
                return all(self._is_zero(term) for term in terms)
            case Apply(_, argument) | Signs(_, argument) | Redone(_, argument):
                return self._is_zero(argument)
            case Outer(left, _, _) | Tested(_, left, _):
                return self._is_zero(left)
            case Flips():
                return self._node.children[1].constant

    def _term(self, rule: Rule, alone: bool) -> str:
        self._occurrences.clear()
        text = self._rule(rule)
        infix = isinstance(rule, Outer) or (isinstance(rule, Tested) and isinstance(rule.operator, op.Semi))
        return f"({text})" if infix and not alone else text

    def _rule(self, rule: Rule) -> str:
        match rule:
            case Of(state, operator):
                return _state(self._child(operator), state)
            case Times(factors):
                return " ⋈ ".join(self._factor(factor) for factor in factors)
            case Plus(terms):
                return " + ".join(self._rule(term) for term in terms if not self._is_zero(term))
            case Apply(operator, argument):
                return operator.applied(self._rule(argument), self._words)
            case Outer(left, right, condition):
                sign = "⟕" if condition is None else f"⟕_{{{self._words.expression(condition)}}}"
                return f"{self._rule(left)} {sign} {self._rule(right)}"
            case Tested(operator, left, right):
                return operator.tested(self._rule(left), self._rule(right))
            case Flips():
                right_side = self._node.children[1]
                return f"flips({_state(right_side, State.OLD)}, {_state(right_side, State.DELTA)})"
            case Signs(_, argument):
                source = self._node.children[0]
                return f"signs({_state(source, State.OLD)}, {self._rule(argument)})"
            case Redone(_, argument):
                source = self._node.children[0]
                return f"redone({_state(source, State.OLD)}, {self._rule(argument)})"

    def _factor(self, rule: Rule) -> str:
        text = self._rule(rule)
        return f"({text})" if isinstance(rule, Plus) else text

    def _child(self, operator: op.Operator, count: bool = True) -> Node:
        """Returns the child that a rule refers to. An operator that occurs twice is taken in input order."""
        found = [child for child in self._node.children if child.operator is operator]
        place = self._occurrences[id(operator)] % len(found)
        self._occurrences[id(operator)] += count
        return found[place]


def _state(node: Node, state: State) -> str:
    """Writes T(ΔG), T(G′), T(G) for leaves that read quads, else ΔA, A′, A. Constants have one state."""
    if node.constant and state is not State.DELTA:
        return node.name
    if node.is_leaf and not node.constant:
        return f"{node.name}({'ΔG' if state is State.DELTA else 'G' + state.value})"
    return f"Δ{node.name}" if state is State.DELTA else f"{node.name}{state.value}"
