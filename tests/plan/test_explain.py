"""What explain prints, section by section, and that it agrees with what the executor does."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from sparqlive.plan import operators as op
from sparqlive.plan.explain import explain, text_of_expression
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.plan.translate import translate
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Call, Constant, Expression, Var
from sparqlive.sparql.syntax import parse_query
from tests.fixture_format import Fixture
from tests.test_fixture_format import FIXTURES

KEPT = [fixture for fixture in FIXTURES if fixture.kind == "snapshot"]
Sizes = Mapping[int, tuple[int, int]]


def plan_of(text: str, union: bool = False) -> op.Operator:
    return store_unreachable(rewrite(translate(parse_query(text, None), union)))


def sections(text: str, sizes: Sizes | None = None, union: bool = False) -> dict[str, str]:
    """The sections by title, without the lines that every explanation has, and without indentation."""
    query = f"PREFIX : <e:>\n{text}"
    found: dict[str, str] = {}
    for block in explain(plan_of(query, union), {-1: (2, 328)} if sizes is None else sizes, query).split(
        "\n\n"
    ):
        title, *lines = block.rstrip().split("\n")
        shown = [line[2:] for line in lines if not line.startswith(("  A is ", "  T(G) are "))]
        found[title] = "\n".join(shown)
    return found


def test_the_whole_text() -> None:
    query = """
        PREFIX : <http://example.org/>
        SELECT ?p ?mail
          WHERE { ?p a :Person OPTIONAL { ?p :mail ?mail } }
    """
    assert explain(plan_of(query), {-1: (1234, 56789)}, query) == (
        """\
query
  PREFIX : <http://example.org/>
  SELECT ?p ?mail
    WHERE { ?p a :Person OPTIONAL { ?p :mail ?mail } }

plan
  P  project ?p ?mail°  (stored)
    L  optional on ?p
      T1  ?p a <http://example.org/Person>
      T2  ?p <http://example.org/mail> ?mail
  ° may be unbound

delta rules
  A is the content before the change, A′ after it; ΔA is what the change adds (+) and removes (-).
  T(G) are the matches of a pattern in the quads G; ⋈ multiplies weights, + adds them.
  ΔP = π_{?p,?mail}(ΔL)
  ΔL = (T1(ΔG) ⟕ T2(G)) + T1(G′) ⋈ (T2(ΔG) + flips(T2(G), T2(ΔG)))
      flips by ?p
  flips(B, ΔB): -1 where the first match in B appears, +1 where the last disappears.

stored
  only the result (1,234 rows, 56,789 bytes)

graph patterns
  T1: star around ?p with constant arms; cached: only the quad indexes
  T2: connected by ?p ?mail; cached: only the quad indexes
"""
    )


def test_path() -> None:
    found = sections("SELECT ?a ?d { ?a :e ?b . ?b :e ?c . ?c :e ?d }")
    assert found["plan"] == (
        """\
P  project ?a ?d  (stored)
  J  join on _b1 _c1
    T1  ?a <e:e> _b1
    T2  _b1 <e:e> _c1
    T3  _c1 <e:e> ?d
_ starts the name of an internal variable"""
    )
    assert found["delta rules"] == (
        """\
ΔP = π_{?a,?d}(ΔJ)
ΔJ = T1(ΔG) ⋈ T2(G) ⋈ T3(G) + T1(G′) ⋈ T2(ΔG) ⋈ T3(G) + T1(G′) ⋈ T2(G′) ⋈ T3(ΔG)"""
    )
    assert found["graph patterns"] == ("T1 T2 T3: connected by ?a _b1 _c1 ?d; cached: only the quad indexes")


def test_long_rules_have_a_line_a_term() -> None:
    found = sections("SELECT * { ?a :e ?b . ?b :e ?c . ?c :e ?d . ?d :e ?e }")
    assert found["delta rules"] == (
        """\
ΔP = π_{?a,?b,?c,?d,?e}(ΔJ)
ΔJ = T1(ΔG) ⋈ T2(G) ⋈ T3(G) ⋈ T4(G)
   + T1(G′) ⋈ T2(ΔG) ⋈ T3(G) ⋈ T4(G)
   + T1(G′) ⋈ T2(G′) ⋈ T3(ΔG) ⋈ T4(G)
   + T1(G′) ⋈ T2(G′) ⋈ T3(G′) ⋈ T4(ΔG)"""
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT ?x { ?x a :T . ?x :p 1 }",
            "T1 T2: star around ?x with constant arms; cached: one weight per centre, in the result",
        ),
        (
            "SELECT (1 AS ?one) { ?x a :T }",
            "T1: star around _x1 with constant arms; "
            "cached: only the quad indexes; its weights are summed in the result",
        ),
        (
            "SELECT DISTINCT ?x { ?x a :T }",
            "T1: star around ?x with constant arms; cached: one weight per centre, in the counts of D",
        ),
        (
            "SELECT * { ?x :p ?y ; :q ?z }",
            "T1 T2: connected, a star around ?x with variable arms; cached: only the quad indexes",
        ),
        ("SELECT * { :a :p :b }", "T1: ground, a switch; cached: one weight, in the result"),
        ("SELECT * { VALUES ?x { 1 } }", "none"),
        (
            "SELECT * { ?x :p ?y MINUS { ?x a :T . :a :p :b } }",
            "T1: connected by ?x ?y; cached: only the quad indexes\n"
            "T2 T3: loosely connected, 2 parts that share no variable\n"
            "  T2: star around ?x with constant arms; cached: only the quad indexes\n"
            "  T3: ground, a switch; cached: only the quad indexes",
        ),
    ],
)
def test_forms(text: str, expected: str) -> None:
    assert sections(text)["graph patterns"] == expected


def test_product_of_parts_that_are_stored_apart() -> None:
    text = "SELECT ?x { ?x :on :list . :system :state :open . :system :mode :day }"
    found = sections(text, {-1: (2, 264), -2: (1, 100)})
    assert found["plan"] == (
        """\
J1  product of parts that share no variable
  P1  project ?x  (stored)
    T1  ?x <e:on> <e:list>
  P2  project no variables  (stored)
    J2  join without shared variables
      T2  <e:system> <e:state> <e:open>
      T3  <e:system> <e:mode> <e:day>"""
    )
    assert found["delta rules"] == (
        """\
ΔJ1 = ΔP1 ⋈ P2 + P1′ ⋈ ΔP2
ΔP1 = π_{?x}(T1(ΔG))
ΔP2 = π_{}(ΔJ2)
ΔJ2 = T2(ΔG) ⋈ T3(G) + T2(G′) ⋈ T3(ΔG)"""
    )
    assert found["stored"] == (
        """\
result: P1 × P2, multiplied when read
P1 (2 rows, 264 bytes): part of the result
P2 (1 row, 100 bytes): part of the result"""
    )
    assert found["graph patterns"] == (
        """\
T1 T2 T3: loosely connected, in 2 parts that are stored separately
  T1: star around ?x with constant arms; cached: one weight per centre, in P1
  T2 T3: ground, a switch; cached: one weight, in P2"""
    )


def test_product_that_is_stored_whole() -> None:
    found = sections("SELECT * { ?x a :T . ?y a :T }", {-1: (4, 400)})
    assert "product" not in found["plan"]
    assert found["stored"] == "only the result (4 rows, 400 bytes)"
    assert found["graph patterns"] == (
        """\
T1 T2: loosely connected, 2 parts that share no variable
  T1: star around ?x with constant arms; cached: only the quad indexes
  T2: star around ?y with constant arms; cached: only the quad indexes"""
    )


def test_optional_with_a_condition_on_both_sides() -> None:
    found = sections("SELECT * { ?x :limit ?limit OPTIONAL { ?x :n ?n FILTER(?n < ?limit) } }")
    assert "L  optional on ?x if ?n < ?limit" in found["plan"]
    assert found["delta rules"] == (
        """\
ΔP = π_{?x,?limit,?n}(ΔL)
ΔL = (T1(ΔG) ⟕_{?n < ?limit} T2(G)) + T1(G′) ⋈ (T2(ΔG) + flips(T2(G), T2(ΔG)))
    flips by whole left solutions: the condition is tested on each pair (also in ⋈)
flips(B, ΔB): -1 where the first match in B appears, +1 where the last disappears."""
    )


def test_minus_on_a_variable_that_may_be_unbound() -> None:
    text = "SELECT ?x ?y { ?x a :T OPTIONAL { ?x :p ?y } MINUS { ?z :stop ?y } }"
    found = sections(text, {-1: (2, 328), 3: (5, 700)})
    assert found["plan"] == (
        """\
P1  project ?x ?y°  (stored)
  M  minus on ?y°, with one of ?y bound on both sides
    S  stored, looked up by ?y°
      L  optional on ?x
        T1  ?x a <e:T>
        T2  ?x <e:p> ?y
    P2  project ?y
      T3  _z1 <e:stop> ?y
° may be unbound
_ starts the name of an internal variable"""
    )
    assert (
        "ΔM = (ΔS ⊖ P2) + S′ ⋈ flips(P2, ΔP2)\n    flips by whole left solutions: ?y may be unbound"
        in (found["delta rules"])
    )
    assert "ΔS = ΔL\n" in found["delta rules"]
    assert found["stored"] == (
        """\
result (2 rows, 328 bytes)
S (5 rows, 700 bytes): its keys cannot be pushed down to the quads: ?y may be unbound"""
    )


def test_minus_and_not_exists_by_shared_variables() -> None:
    minus = sections("SELECT * { ?x :p ?y MINUS { ?x a :T } }")
    assert "ΔM = (T1(ΔG) ⊖ P2) + T1(G′) ⋈ flips(P2, ΔP2)\n    flips by ?x" in minus["delta rules"]
    absent = sections("SELECT * { ?x :p ?y FILTER NOT EXISTS { ?x a :T } }")
    assert "X  not exists on ?x" in absent["plan"]
    assert "ΔX = (T1(ΔG) ⊖ P2) + T1(G′) ⋈ flips(P2, ΔP2)\n    flips by ?x" in absent["delta rules"]
    switch = sections("SELECT * { ?x :p ?y FILTER NOT EXISTS { :a a :T } }")
    assert "    flips of the whole right side at once: there is no shared variable" in switch["delta rules"]


def test_exists_and_marks() -> None:
    exists = sections("SELECT * { ?x :p ?y FILTER EXISTS { ?x a :T } }")["delta rules"]
    assert "ΔX = (T1(ΔG) ⋉ P2) + T1(G′) ⋈ flips(P2, ΔP2)" in exists
    assert "flips(B, ΔB): +1 where the first match in B appears, -1 where the last disappears." in exists
    mark = sections("SELECT * { ?x :p ?y FILTER(?y > 10 || EXISTS { ?x a :T }) }")
    assert "F  filter ?y > 10 || _exists1\n    K  mark _exists1: exists on ?x" in mark["plan"]
    assert "ΔF = σ_{?y > 10 || _exists1}(ΔK)" in mark["delta rules"]
    assert "ΔK = mark(T1(ΔG), P2) + T1(G′) ⋈ flips(P2, ΔP2)" in mark["delta rules"]


def test_distinct() -> None:
    found = sections("SELECT DISTINCT ?x { ?x :p ?y }", {2: (3, 396)})
    assert found["plan"].startswith("D  distinct  (stored)\n  P  project ?x\n")
    assert found["delta rules"] == (
        """\
ΔD = signs(P, ΔP)
ΔP = π_{?x}(T1(ΔG))
signs(A, ΔA): +1 where the count of a solution becomes positive, -1 where it drops to 0."""
    )
    assert found["stored"] == (
        """\
result: the solutions counted by D
D (3 rows, 396 bytes): the count of each solution before duplicates are removed"""
    )


def test_named_graphs() -> None:
    found = sections("SELECT ?g ?x FROM NAMED :a FROM NAMED :b { GRAPH ?g { ?x :p 1 } }")
    assert found["plan"] == (
        """\
P  project ?g ?x  (stored)
  E  bind _graph1 as ?g
    T1  GRAPH _graph1 { ?x <e:p> 1 } among <e:a> <e:b>
_ starts the name of an internal variable"""
    )
    assert "ΔE = extend_{?g := _graph1}(T1(ΔG))" in found["delta rules"]
    assert found["graph patterns"].startswith("T1: connected by ?x _graph1;")


def test_other_graphs() -> None:
    query = "SELECT * { ?x :p ?y }"
    assert "T1  ?x <e:p> ?y in the union of all graphs" in sections(query, union=True)["plan"]
    assert "appears with its first graph" in sections(query, union=True)["delta rules"]
    merged = sections("SELECT * FROM :a FROM :b { ?x :p ?y }")["plan"]
    assert "T1  ?x <e:p> ?y in the union of <e:a> <e:b>" in merged
    assert "T1  GRAPH <e:a> { ?x <e:p> ?y }" in sections("SELECT * { GRAPH :a { ?x :p ?y } }")["plan"]
    assert "each named graph as _graph1" in sections("SELECT * { GRAPH ?g { } }")["plan"]
    assert "whether <e:a> exists" in sections("SELECT * { GRAPH :a { } }")["plan"]


def test_union_and_optional_path() -> None:
    assert "ΔU = T1(ΔG) + T2(ΔG)" in sections("SELECT * { { ?x :p 1 } UNION { ?y :q 2 } }")["delta rules"]
    found = sections("SELECT * { ?x :p? ?y }", {-1: (5, 820), 6: (5, 820)})
    assert found["plan"] == (
        """\
P1  project ?x ?y  (stored)
  D  distinct  (stored)
    U  union
      P2  project ?x ?y
        E  bind ?x as ?y
          N  each node as ?x
      P3  project ?x ?y
        T1  ?x <e:p> ?y"""
    )
    assert "ΔD = signs(U, ΔU)\nΔU = ΔP2 + ΔP3\n" in found["delta rules"]
    assert "ΔE = extend_{?y := ?x}(N(ΔG))" in found["delta rules"]
    assert "D (5 rows, 820 bytes)" in found["stored"]


def test_paths_of_any_length() -> None:
    found = sections("SELECT ?x ?y { ?x :p+ ?y }", {0: (9, 7000)})
    assert found["plan"].startswith("C  paths from ?x to ?y  (stored)\n  T1  _from1 <e:p> _to1")
    assert found["stored"] == (
        "result: the endpoints of the paths of C\n"
        "C: its steps, and the nodes that each node reaches, shared within a cycle"
    )
    found = sections("SELECT ?x { GRAPH ?g { ?x :p+ :end } }")
    assert "C  paths from ?x to <e:end> within each _graph1  (stored)" in found["plan"]
    assert "C: its steps, and the tree of nodes that reach <e:end>" in found["stored"]


def test_constants_do_not_change() -> None:
    found = sections("SELECT * { ?x :p ?y VALUES (?x ?z) { (:a UNDEF) (:b 1) (:c 2.5) (:d true) } }")
    assert "V  values ?x ?z° { <e:a> UNDEF, <e:b> 1, <e:c> 2.5 … 1 more }" in found["plan"]
    assert "ΔJ = T1(ΔG) ⋈ V" in found["delta rules"]
    assert "ΔV" not in found["delta rules"]
    assert sections("SELECT * { VALUES ?x { 1 } }")["delta rules"] == "ΔP = 0"
    optional = sections("SELECT * { ?x :p ?y OPTIONAL { VALUES (?x ?z) { (:a 1) } } }")["delta rules"]
    assert "ΔL = T1(ΔG) ⟕ V" in optional
    assert "flips" not in optional


def test_excluded_predicates() -> None:
    plan = sections("SELECT * { ?x !(:p|:q) ?y }")["plan"]
    assert "T1  ?x _predicate1 ?y with _predicate1 none of <e:p> <e:q>" in plan


def test_never_bound_variables_are_marked() -> None:
    plan = sections("SELECT ?x { ?x :p ?y FILTER(!BOUND(?nowhere)) }")["plan"]
    assert "F  filter !BOUND(?nowhere°)" in plan


@pytest.mark.parametrize("sizes", [{}, {-7: (1, 1)}, {99: (1, 1), -1: (2, 2)}])
def test_sizes_may_be_missing_or_unknown(sizes: Sizes) -> None:
    assert "result" in sections("SELECT DISTINCT * { ?x a :T . ?y a :T }", sizes)["stored"]


# Expressions


@pytest.mark.parametrize(
    "text",
    [
        "?a + ?b * ?c - 2",
        "(?a + ?b) * ?c",
        "?a - (?b - ?c)",
        "?a / (?b * ?c)",
        "?a || ?b && !?c",
        "(?a || ?b) && ?c",
        "!(?a && ?b)",
        "!(?a = ?b)",
        "(?a = ?b) = ?c",
        "-?a + -1",
        "-(?a + 1) * 2",
        "-(1)",
        "!(!?a)",
        "?a IN (1, 2.50, 1e0, true)",
        "?a + 1 NOT IN ()",
        "(?a IN (1)) = ?b",
        "IF(BOUND(?a), ?a, COALESCE(?b, \"none\"@en))",
        "REGEX(STR(?a), \"^x\\\\d+\\n\", \"i\")",
        "<http://www.w3.org/2001/XMLSchema#integer>(?a) >= 3",
        "?a = \"1\"^^<http://www.w3.org/2001/XMLSchema#byte> || ?a = <e:x>",
        "CONCAT(STRUUID(), ENCODE_FOR_URI(?a))",
    ],
)  # fmt: skip
def test_expressions_are_written_as_they_are_read(text: str) -> None:
    expression = condition(text)
    assert text_of_expression(expression) == text
    assert condition(text_of_expression(expression)) == expression


def condition(text: str) -> Expression:
    pattern = parse_query(f"SELECT (({text}) AS ?it) {{ }}", None).pattern
    assert isinstance(pattern, al.Project)
    assert isinstance(pattern.pattern, al.Extend)
    return pattern.pattern.expression


def test_expression_with_given_names() -> None:
    expression = Call("<", (Var(".n1"), Constant(al.NamedNode("e:x"))))
    assert text_of_expression(expression, lambda variable: f"_{variable.name[1:]}") == "_n1 < <e:x>"


# All fixtures


@pytest.mark.parametrize("fixture", KEPT, ids=lambda f: f.name)
def test_fixtures_explain_and_rules_name_what_the_plan_has(fixture: Fixture) -> None:
    plan = plan_of(fixture.text, fixture.default_graph == "union")
    text = explain(plan, {-1: (0, 0)}, fixture.text)
    assert text == explain(
        plan_of(fixture.text, fixture.default_graph == "union"), {-1: (0, 0)}, fixture.text
    )
    blocks = dict(block.split("\n", 1) for block in text.split("\n\n"))
    shown = re.findall(r"^ *([A-Z]\d*)  ", blocks["plan"], re.MULTILINE)
    assert len(shown) == len(set(shown)) == sum(1 for _ in operators_of(plan))
    rules = [line for line in blocks["delta rules"].splitlines() if re.match(r" +(Δ\w+ =|\+) ", line)]
    without_expressions = re.sub(r"_\{.*?\}(?=\(| [A-ZΔ])", "", "\n".join(rules))
    assert rules
    assert set(re.findall(r"\b[A-Z]\d*\b", without_expressions.replace("Δ", " "))) <= {*shown, "G"}
