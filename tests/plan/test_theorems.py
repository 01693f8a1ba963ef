"""The counting paper's theorems as properties, each stated as the paper states it.

K-sets are zsets whose elements are solutions; a solution may leave variables unbound. First on K-sets that
are given (any integer weights), then on graphs and their updates, then on the code that is generated.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyoxigraph as ox
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sparqlive
from sparqlive.plan import operators as op
from sparqlive.plan.delta import Of, State, Times
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.translate import translate
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.syntax import parse_query
from tests.conftest import examples
from tests.oracle import assert_same
from tests.plan_reference import Reference, Solutions
from tests.random_queries import NODES, PREDICATES, RandomQuery, batches, graphs, queries
from tests.zsets import ZSet

pytestmark = pytest.mark.laws

X, Y, Z, W = (Var(name) for name in "xyzw")
OLD, NEW, DELTA = State.OLD, State.NEW, State.DELTA


# K-sets that are given


@dataclass(frozen=True)
class KSet(op.Operator):
    """A leaf whose content is given, with any weights. `never_unbound`: it is a K-relation."""

    name: str
    columns: tuple[Var, ...]
    never_unbound: bool = False

    @property
    def variables(self) -> tuple[Var, ...]:  # type: ignore[override]
        return self.columns

    @property
    def always(self) -> frozenset[Var]:  # type: ignore[override]
        return frozenset(self.columns) if self.never_unbound else frozenset()


class Given(Reference):
    """The reference's algebra over given K-sets; without `new` nothing changes."""

    def __init__(self, old: dict[op.Operator, Solutions], new: dict[op.Operator, Solutions] | None = None):
        super().__init__(())
        self._given = {OLD: old, NEW: old if new is None else new}

    def content(self, plan: op.Operator, state: State = NEW) -> Solutions:
        given_content = self._given[state].get(plan)
        return super().content(plan, state) if given_content is None else given_content


weights = st.integers(-3, 3)
terms = st.sampled_from((*NODES, ox.Literal(1), ox.Literal(2)))


def k_sets(columns: tuple[Var, ...], *, unbound: bool = True) -> st.SearchStrategy[Solutions]:
    entry = st.one_of(terms, terms, st.none()) if unbound else terms
    return st.lists(st.tuples(st.tuples(*(entry for _ in columns)), weights), max_size=8).map(ZSet)


R1, R2, R3 = KSet("R1", (X, Y)), KSet("R2", (X, Y)), KSet("R3", (Y, Z))
CONDITIONS: tuple[Expression, ...] = (
    Call("BOUND", (X,)),
    Call("SAMETERM", (X, Y)),
    Call("=", (Y, Constant(NODES[0]))),
    Call("!", (Call(">", (X, Constant(ox.Literal(1)))),)),
)
PROJECTIONS = ((), (X,), (Y,), (Y, X), (X, Z))


@examples(100)
@given(k_sets((X, Y)), k_sets((X, Y)), st.sampled_from(CONDITIONS))
def test_theorem_3_1_filter(r1: Solutions, r2: Solutions, condition: Expression) -> None:
    """Theorem 3.1 (1): σₑ(R₁ + R₂) = σₑ(R₁) + σₑ(R₂)."""
    algebra = Given({R1: r1, R2: r2})
    whole = algebra.content(op.Filter(condition, op.Union((R1, R2))))
    assert whole == algebra.content(op.Filter(condition, R1)) + algebra.content(op.Filter(condition, R2))


@examples(100)
@given(k_sets((X, Y)), k_sets((X, Y)), k_sets((Y, Z)))
def test_theorem_3_1_join(r1: Solutions, r2: Solutions, r3: Solutions) -> None:
    """Theorem 3.1 (2): (R₁ + R₂) ⋈ R₃ = (R₁ ⋈ R₃) + (R₂ ⋈ R₃)."""
    algebra = Given({R1: r1, R2: r2, R3: r3})
    whole = algebra.content(op.Join((op.Union((R1, R2)), R3)))
    assert whole == algebra.content(op.Join((R1, R3))) + algebra.content(op.Join((R2, R3)))


@examples(100)
@given(k_sets((X, Y)), k_sets((X, Y)), st.sampled_from(PROJECTIONS))
def test_theorem_3_1_project(r1: Solutions, r2: Solutions, columns: tuple[Var, ...]) -> None:
    """Theorem 3.1 (3): π_X(R₁ + R₂) = π_X(R₁) + π_X(R₂)."""
    algebra = Given({R1: r1, R2: r2})
    whole = algebra.content(op.Project(op.Union((R1, R2)), columns))
    assert whole == algebra.content(op.Project(R1, columns)) + algebra.content(op.Project(R2, columns))


@examples(75)
@given(k_sets((X, Y)), k_sets((Y, Z)), k_sets((X, W)))
def test_join_and_union_are_commutative_and_associative(a: Solutions, b: Solutions, c: Solutions) -> None:
    """§3.3: "commutativity and associativity of Join and Union", up to the order of columns."""
    left, middle, right = KSet("A", (X, Y)), KSet("B", (Y, Z)), KSet("C", (X, W))
    algebra = Given({left: a, middle: b, right: c})
    columns = (X, Y, Z, W)
    for combine in (op.Join, op.Union):
        expected = algebra.content(op.Project(combine((left, middle, right)), columns))
        for plan in (
            combine((right, middle, left)),
            combine((combine((left, middle)), right)),
            combine((left, combine((middle, right)))),
        ):
            assert algebra.content(op.Project(plan, columns)) == expected


@st.composite
def negations(draw: st.DrawFn) -> tuple[tuple[Var, ...], Solutions, Solutions, Solutions]:
    """Y ⊆ X, then E with schema X, F₁ and F₂ with schema Y. F₂ often cancels what is in F₁."""
    schema = draw(st.sampled_from(((), (X,), (Y,), (X, Y))))
    e = draw(k_sets((X, Y), unbound=False))
    f1 = draw(k_sets(schema, unbound=False))
    cancelled = draw(st.lists(st.sampled_from(sorted(f1.weights, key=str)), unique=True)) if len(f1) else []
    f2 = draw(k_sets(schema, unbound=False)).filter(lambda row: row not in cancelled)
    return schema, e, f1, f2 + ZSet((row, -f1[row]) for row in cancelled)


def f_12(f1: Solutions, f2: Solutions) -> Solutions:
    """+1 where F₂ takes away all that F₁ has, -1 where F₂ enters what F₁ lacks, else 0."""

    def weight(row: tuple[ox.NamedNode, ...]) -> int:
        if row not in f1:
            return -1
        return 1 if f2[row] == -f1[row] else 0

    return ZSet((row, weight(row)) for row, _ in f2)


@examples(150)
@given(negations())
def test_theorem_4_6(case: tuple[tuple[Var, ...], Solutions, Solutions, Solutions]) -> None:
    """Theorem 4.6: let Y ⊆ X, E a K-relation with schema X, F₁ and F₂ with schema Y. Then

    E ⊖ (F₁ + F₂) ≡ (E ⊖ F₁) + (E ⋈ F₁₂), where F₁₂(t) on the support of F₂ is 1 if F₂(t) = -F₁(t), -1 if t is
    not in F₁, and 0 otherwise.
    """
    schema, e, f1, f2 = case
    left = KSet("E", (X, Y), True)
    first, second, flips = (KSet(name, schema, True) for name in ("F1", "F2", "F12"))
    algebra = Given({left: e, first: f1, second: f2, flips: f_12(f1, f2)})
    whole = algebra.content(op.Semi(left, op.Union((first, second)), keep=False))
    assert whole == algebra.content(op.Semi(left, first, keep=False)) + algebra.content(
        op.Join((left, flips))
    )


@examples(150)
@given(negations(), k_sets((X, Y), unbound=False))
def test_the_rule_for_diff_is_theorem_4_6(
    case: tuple[tuple[Var, ...], Solutions, Solutions, Solutions], change: Solutions
) -> None:
    """§4.5.2: the delta of R ⊖ S is (ΔR ⊖ S) + ((R + ΔR) ⋈ ΔS̄), ΔS̄ being F₁₂ of S and ΔS."""
    schema, r, s, delta_s = case
    left, right = KSet("R", (X, Y), True), KSet("S", schema, True)
    algebra = Given({left: r, right: s}, {left: r + change, right: s + delta_s})
    changed, flips = KSet("ΔR", (X, Y), True), KSet("ΔS̄", schema, True)
    paper = Given({changed: change, right: s, left: r + change, flips: f_12(s, delta_s)})
    rule = paper.content(op.Semi(changed, right, keep=False)) + paper.content(op.Join((left, flips)))
    assert algebra.delta(op.Semi(left, right, keep=False)) == rule


A, B, C = KSet("A", (X, Y)), KSet("B", (Y, Z)), KSet("C", (X, Z, W))
COMPARED = Call("SAMETERM", (X, Z))
OPERATORS: tuple[op.Operator, ...] = (
    op.Join((A, B)),
    op.Join((A, B, C)),
    op.Join((A, A)),
    op.Join((op.Project(A, (Y,)), B, op.Project(C, (Z, W)))),
    op.Filter(COMPARED, C),
    op.Extend(A, Z, Call("COALESCE", (Y, X))),
    op.Project(C, (W,)),
    op.Union((A, B, A)),
    op.LeftJoin(A, B, None),
    op.LeftJoin(A, B, COMPARED),
    op.LeftJoin(C, op.LeftJoin(A, B, None), Call("BOUND", (Y,))),
    op.Semi(A, B, keep=True),
    op.Semi(A, B, keep=False),
    op.Semi(C, B, keep=False, domain=(Z,)),
    op.Semi(C, op.Semi(A, B, keep=True), keep=False, domain=(X,)),
    op.Mark(A, B, W),
    op.Distinct(op.Project(C, (X,))),
    op.Join((op.Distinct(op.Union((A, A))), op.Stored(op.LeftJoin(B, C, None), ((Y,),)))),
)


@pytest.mark.parametrize("plan", OPERATORS, ids=lambda plan: type(plan).__name__)
@examples(30)
@given(
    st.tuples(k_sets((X, Y)), k_sets((Y, Z)), k_sets((X, Z, W))),
    st.tuples(k_sets((X, Y)), k_sets((Y, Z)), k_sets((X, Z, W))),
)
def test_theorem_4_5_and_the_rules_of_all_operators(
    plan: op.Operator, old: tuple[Solutions, ...], change: tuple[Solutions, ...]
) -> None:
    """Theorem 4.5, and what §4.4 and §4.5 say for the other operators, for K-sets with any weights.

    Given ΔPᵢ with Pᵢ' = Pᵢ + ΔPᵢ, the delta rule gives a ΔP with P' = P + ΔP. For P = P₁ ⋈ … ⋈ Pₙ it is
    Σᵢ P₁' ⋈ … ⋈ Pᵢ₋₁' ⋈ ΔPᵢ ⋈ Pᵢ₊₁ ⋈ … ⋈ Pₙ.
    """
    before = dict(zip((A, B, C), old, strict=True))
    after = {leaf: content + delta for (leaf, content), delta in zip(before.items(), change, strict=True)}
    algebra = Given(before, after)
    assert algebra.content(plan, OLD) + algebra.delta(plan) == algebra.content(plan, NEW)


# Example 4.1 and Table 4

LINK = {("a", "b"): 1, ("b", "c"): 1}
DELTA_LINK = {("a", "b"): -1, ("c", "b"): 1}
NEW_LINK = {("b", "c"): 1, ("c", "b"): 1}
HOP = {("a", "c"): 1}
BY_FIRST_RULE = {("a", "c"): -1, ("c", "c"): 1}
BY_SECOND_RULE = {("b", "b"): 1}
NEW_HOP = {("b", "b"): 1, ("c", "c"): 1}


def test_example_4_1_by_each_rule() -> None:
    """ΔHop(x, y) ← ΔLink(x, z), Link(z, y) and ΔHop(x, y) ← Link'(x, z), ΔLink(z, y), as in Table 4."""
    first, second = KSet("Link(x, z)", (X, Z), True), KSet("Link(z, y)", (Z, Y), True)
    link, delta_link, new_link = (ZSet(table.items()) for table in (LINK, DELTA_LINK, NEW_LINK))
    hop = op.Project(op.Join((first, second)), (X, Y))
    assert link + delta_link == new_link

    def evaluated(left: ZSet[tuple[str, str]], right: ZSet[tuple[str, str]]) -> dict[tuple[str, str], int]:
        return dict(Given({first: left, second: right}).content(hop))  # type: ignore[dict-item,arg-type]

    assert evaluated(link, link) == HOP
    assert evaluated(delta_link, link) == BY_FIRST_RULE
    assert evaluated(new_link, delta_link) == BY_SECOND_RULE
    assert evaluated(new_link, new_link) == NEW_HOP
    whole = Given({first: link, second: link}, {first: new_link, second: new_link})  # type: ignore[dict-item]
    assert dict(whole.delta(hop)) == BY_FIRST_RULE | BY_SECOND_RULE


def test_example_4_1_in_a_session() -> None:
    prefix = "http://example.org/"

    def node(name: str) -> ox.NamedNode:
        return ox.NamedNode(prefix + name)

    def quads(table: dict[tuple[str, str], int], weight: int) -> list[ox.Quad]:
        return [ox.Quad(node(a), node("link"), node(b)) for (a, b), k in table.items() if k == weight]

    def rows(table: dict[tuple[str, str], int]) -> dict[tuple[ox.NamedNode, ox.NamedNode], int]:
        return {(node(a), node(b)): k for (a, b), k in table.items()}

    with sparqlive.open() as session:
        session.load(quads(LINK, 1))
        hop = session.view("hop", f"PREFIX : <{prefix}> SELECT ?x ?y {{ ?x :link ?z . ?z :link ?y }}")
        assert hop.weights() == rows(HOP)
        epoch = session.apply(insert=quads(DELTA_LINK, 1), delete=quads(DELTA_LINK, -1))
        assert epoch.deltas["hop"].weights() == rows(BY_FIRST_RULE | BY_SECOND_RULE)
        assert hop.weights() == rows(NEW_HOP)


def test_example_4_4_as_rules() -> None:
    """Example 4.2's B(x, y, z) ← G(x, name, y), G(x, mbox, z) has two rules: ΔG, G and G', ΔG."""
    name, mbox = (op.Scan(op.OneGraph(None), X, ox.NamedNode(f"x:{p}"), v) for p, v in (("n", Y), ("m", Z)))
    assert op.Join((name, mbox)).delta_rule().terms == (
        Times((Of(DELTA, name), Of(OLD, mbox))),
        Times((Of(NEW, name), Of(DELTA, mbox))),
    )


# Graphs and their updates

positions = st.sampled_from((X, Y, Z, X, Y, Z, NODES[0]))
triple_patterns = st.builds(
    lambda s, p, o: op.Scan(op.OneGraph(None), s, p, o),
    positions,
    st.sampled_from((PREDICATES[0], PREDICATES[0], PREDICATES[1], W)),
    positions,
)
triples = st.builds(ox.Quad, st.sampled_from(NODES), st.sampled_from(PREDICATES[:2]), st.sampled_from(NODES))
Update = list[tuple[str, ox.Quad]]


def updated(old: set[ox.Quad], update: Update) -> set[ox.Quad]:
    new = set(old)
    for sign, quad in update:
        (new.add if sign == "+" else new.discard)(quad)
    return new


@examples(200)
@given(
    st.lists(triple_patterns, min_size=1, max_size=4),
    st.sets(triples, min_size=2, max_size=10),
    st.sets(triples, min_size=1, max_size=6),
)
def test_theorem_4_3(patterns: list[op.Scan], old: set[ox.Quad], changed: set[ox.Quad]) -> None:
    """Theorem 4.3: let B = {T₁, …, Tₙ} be a BGP, G a graph, ΔG an update to G, G' = G + ΔG. Then

    B(G') = B(G) + ΔB(G), where ΔB(G) = Σᵢ T₁(G') ⋈ … ⋈ Tᵢ₋₁(G') ⋈ Tᵢ(ΔG) ⋈ Tᵢ₊₁(G) ⋈ … ⋈ Tₙ(G).

    Here ΔG inserts what it names and G lacks, and deletes the rest: mostly both in one batch. One predicate
    is in most patterns, so that one triple matches several of them.
    """
    plan = op.Join(tuple(patterns)) if len(patterns) > 1 else patterns[0]
    new = old ^ changed
    reference = Reference(old, new)
    delta = reference.delta(plan)
    assert delta == Reference(new).content(plan) - Reference(old).content(plan)
    # The same sum with T(ΔG) from its definition: the matches of inserted minus those of deleted triples.
    entered, left = Reference(new - old), Reference(old - new)
    of_change = {scan: entered.content(scan) - left.content(scan) for scan in patterns}
    total: Solutions = ZSet()
    for number in range(len(patterns)):
        places = [KSet(f"T{i}", scan.variables, True) for i, scan in enumerate(patterns)]
        contents = {
            place: of_change[scan] if i == number else reference.content(scan, NEW if i < number else OLD)
            for i, (place, scan) in enumerate(zip(places, patterns, strict=True))
        }
        term = op.Project(op.Join(tuple(places)) if len(places) > 1 else places[0], plan.variables)
        total += Given(dict(contents)).content(term)
    assert delta == total


def planned(query: RandomQuery) -> op.Operator:
    """The plan of a random query; one that is refused is not drawn."""
    parsed = parse_query(query.text, None)
    try:
        return translate(parsed, False)
    except sparqlive.Unsupported:
        assume(False)
        raise


@examples(125)
@given(queries(), graphs, batches)
def test_the_rules_hold_for_plans_of_queries(query: RandomQuery, data: list[ox.Quad], batch: Update) -> None:
    """P(G') = P(G) + ΔP(G) for every operator that a query can have, before and after the rewrites."""
    old = set(data)
    new = updated(old, batch)
    plan = planned(query)
    expected = Reference(new).content(plan) - Reference(old).content(plan)
    reference = Reference(old, new)
    assert_same(dict(reference.delta(plan)), dict(expected), f"{query}: the rules of its plan")
    executed = store_unreachable(rewrite(plan))
    assert_same(
        dict(reference.delta(executed)), dict(expected), f"{query}: and of the plan as it is executed"
    )


# The generated code


@examples(75)
@given(queries(), graphs, st.lists(batches, min_size=1, max_size=3))
def test_generated_code_computes_the_rules(
    query: RandomQuery, data: list[ox.Quad], stream: list[Update]
) -> None:
    """What a session gives as a view's delta is ΔP(G) of the same plan, evaluated from the rules."""
    plan = store_unreachable(rewrite(planned(query)))
    old = set(data)
    with sparqlive.open() as session:
        session.load(data)
        view = session.view("view", query.text)
        assert_same(view.weights(), dict(Reference(old).content(plan)), f"{query}: at first")
        for batch in stream:
            new = updated(old, batch)
            epoch = session.apply(insert=new - old, delete=old - new)
            expected = dict(Reference(old, new).delta(plan))
            assert_same(epoch.deltas["view"].weights(), expected, f"{query}: the delta")
            old = new


@st.composite
def graph_patterns(draw: st.DrawFn) -> str:
    """The text of a SELECT over a BGP that meets itself, projected to some of its variables."""
    patterns = draw(st.lists(triple_patterns, min_size=2, max_size=4))
    rows = [
        " ".join(f"?{t.name}" if isinstance(t, Var) else str(t) for t in scan.positions) for scan in patterns
    ]
    names = draw(st.lists(st.sampled_from("xyzw"), min_size=1, unique=True))
    return f"SELECT {' '.join('?' + name for name in names)} {{ {' . '.join(rows)} }}"


@examples(100)
@given(
    graph_patterns(),
    st.sets(triples, max_size=10),
    st.lists(st.sets(triples, min_size=1, max_size=5), max_size=3),
)
def test_generated_code_for_self_joins(text: str, data: set[ox.Quad], stream: list[set[ox.Quad]]) -> None:
    """Theorem 4.3 in a session: each batch deletes what is there of it and inserts the rest."""
    plan = translate(parse_query(text, None), False)
    old = set(data)
    with sparqlive.open() as session:
        session.load(data)
        view = session.view("view", text)
        for changed in stream:
            new = old ^ changed
            epoch = session.apply(insert=new - old, delete=old - new)
            expected = dict(Reference(old, new).delta(plan))
            assert_same(epoch.deltas["view"].weights(), expected, f"{text}: the delta")
            old = new
        assert_same(view.weights(), dict(Reference(old).content(plan)), f"{text}: the content")
