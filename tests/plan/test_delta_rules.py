"""The delta rules as they stand: one term for each input, with the states that the theorems prescribe.

A rule is written in the paper's signs: A, A′ and ΔA are an input's old and new content and its change.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sparqlive
from sparqlive.plan import delta as rules
from sparqlive.plan import operators as op
from sparqlive.plan.delta import (
    Apply,
    Flips,
    Of,
    Outer,
    Plus,
    Rule,
    Signs,
    State,
    Times,
)
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.translate import translate
from sparqlive.sparql.algebra import Call, Var
from sparqlive.sparql.syntax import parse_query
from tests.conftest import examples
from tests.plan.test_theorems import Given, KSet, k_sets
from tests.random_queries import RandomQuery, queries
from tests.zsets import ZSet

X, Y, Z = (Var(name) for name in "xyz")
A, B, C = KSet("A", (X, Y)), KSet("B", (Y, Z)), KSet("C", (X, Z))
BOUND = Call("BOUND", (X,))


def text(rule: Rule) -> str:
    match rule:
        case Of(State.DELTA, operator):
            return f"Δ{name(operator)}"
        case Of(state, operator):
            return name(operator) + state.value
        case Times(factors):
            return " ⋈ ".join(f"({text(f)})" if isinstance(f, Plus) else text(f) for f in factors)
        case Plus(terms):
            return " + ".join(map(text, terms))
        case Apply(operator, argument):
            return f"{type(operator).__name__.lower()}({text(argument)})"
        case Outer(left, right, condition):
            return f"({text(left)} ⟕{'' if condition is None else 'c'} {text(right)})"
        case rules.Tested(operator, left, right):
            return f"({text(left)} {sign(operator)} {text(right)})"
        case Flips(operator):
            return f"flips({name(operator.right)}, Δ{name(operator.right)})"
        case Signs(operator, argument):
            return f"signs({name(operator.source)}, {text(argument)})"
        case rules.Redone(operator, argument):
            return f"redone({name(operator.source)}, {text(argument)})"
    raise AssertionError(rule)


def name(operator: op.Operator) -> str:
    return operator.name if isinstance(operator, KSet) else f"[{type(operator).__name__}]"


def sign(operator: op.Semi | op.Mark) -> str:
    if isinstance(operator, op.Mark):
        return "μ"
    return "⋉" if operator.keep else "⊖"


RULES: list[tuple[op.Operator, str]] = [
    (op.Join((A, B)), "ΔA ⋈ B + A′ ⋈ ΔB"),
    (op.Join((A, B, C)), "ΔA ⋈ B ⋈ C + A′ ⋈ ΔB ⋈ C + A′ ⋈ B′ ⋈ ΔC"),
    (op.Join((A, A)), "ΔA ⋈ A + A′ ⋈ ΔA"),
    (op.Join((op.Distinct(A), B)), "Δ[Distinct] ⋈ B + [Distinct]′ ⋈ ΔB"),
    (op.Filter(BOUND, A), "filter(ΔA)"),
    (op.Extend(A, Z, BOUND), "extend(ΔA)"),
    (op.Project(A, (X,)), "project(ΔA)"),
    (op.Stored(A, ((X,),)), "stored(ΔA)"),
    (op.Union((A, B, C)), "union(ΔA) + union(ΔB) + union(ΔC)"),
    (op.LeftJoin(A, B, None), "(ΔA ⟕ B) + A′ ⋈ (ΔB + flips(B, ΔB))"),
    (op.LeftJoin(A, B, BOUND), "(ΔA ⟕c B) + A′ ⋈ (ΔB + flips(B, ΔB))"),
    (op.Semi(A, B, keep=False), "(ΔA ⊖ B) + A′ ⋈ flips(B, ΔB)"),
    (op.Semi(A, B, keep=True), "(ΔA ⋉ B) + A′ ⋈ flips(B, ΔB)"),
    (op.Mark(A, B, Z), "(ΔA μ B) + A′ ⋈ flips(B, ΔB)"),
    (op.Distinct(A), "signs(A, ΔA)"),
    (op.Closure(A, (), X, Y), "redone(A, ΔA)"),
]


@pytest.mark.parametrize(("operator", "expected"), RULES, ids=[rule for _, rule in RULES])
def test_rules(operator: op.Operator, expected: str) -> None:
    assert text(operator.delta_rule()) == expected


def test_a_leaf_has_no_rule() -> None:
    """Its change is given."""
    assert op.Table((X,), ()).delta_rule() == Plus(())


def parts(rule: Rule) -> Iterator[Rule]:
    """The rule and all rules in it."""
    yield rule
    match rule:
        case Times(inner) | Plus(inner):
            for item in inner:
                yield from parts(item)
        case Apply(_, argument) | Signs(_, argument) | rules.Redone(_, argument):
            yield argument
        case Outer(left, right, _) | rules.Tested(_, left, right):
            yield left
            yield right


def every_operator(plan: op.Operator) -> Iterator[op.Operator]:
    yield plan
    for child in plan.children:
        yield from every_operator(child)


@pytest.mark.laws
@examples(50)
@given(queries())
def test_each_term_carries_the_change_of_its_input(query: RandomQuery) -> None:
    """The i-th term holds the i-th input's change alone; inputs before it are read new, after it old."""
    try:
        plan = rewrite(translate(parse_query(query.text, None), False))
    except sparqlive.Unsupported:
        assume(False)
        raise
    for operator in every_operator(plan):
        terms = operator.delta_rule().terms
        assert len(terms) == len(operator.children)
        for number, term in enumerate(terms):
            found = [part for part in parts(term) if isinstance(part, Of)]
            changed = [of.operator for of in found if of.state is State.DELTA]
            flipped = [part.operator.right for part in parts(term) if isinstance(part, Flips)]
            assert set(changed) | set(flipped) == {operator.children[number]}
            for state, allowed in ((State.NEW, range(number)), (State.OLD, range(number + 1, len(terms)))):
                for of in found:
                    if of.state is state:
                        assert of.operator in [operator.children[index] for index in allowed]


OPERATORS = [operator for operator, _ in RULES if operator != op.Join((A, A))]


@pytest.mark.laws
@pytest.mark.parametrize("operator", OPERATORS, ids=[rule for o, rule in RULES if o in OPERATORS])
@examples(15)
@given(st.tuples(k_sets((X, Y)), k_sets((Y, Z)), k_sets((X, Z))), st.integers(0, 2), st.data())
def test_one_input_changes(
    operator: op.Operator, old: tuple[ZSet, ...], number: int, data: st.DataObject
) -> None:
    """The rule is right when only one input changes: the states of the others do not differ then."""
    leaf = (A, B, C)[number]
    before = dict(zip((A, B, C), old, strict=True))
    after = {**before, leaf: before[leaf] + data.draw(k_sets(leaf.columns))}
    algebra = Given(before, after)
    delta = algebra.delta(operator)
    assert algebra.content(operator, State.OLD) + delta == algebra.content(operator, State.NEW)
    if leaf not in every_operator(operator):
        assert len(delta) == 0
