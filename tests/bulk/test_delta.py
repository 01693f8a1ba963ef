"""Delta rules on Spark: random queries against the reference, and what only this executor does."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sparqlive.bulk.backends.spark.backend import SparkBackend
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import Evaluation, evaluate
from sparqlive.bulk.scan import QUAD, TableOfQuads
from sparqlive.bulk.solutions import Keys, column
from sparqlive.bulk.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.rdf.dictionary import hash_of
from sparqlive.sparql.algebra import Var
from tests.bulk.test_evaluate import plan_of
from tests.conftest import times
from tests.on_spark import CLASSIC_ONLY, LONG, Work
from tests.oracle import assert_same
from tests.plan_reference import Reference
from tests.random_queries import EX, RandomQuery, batches, graphs, queries

pytestmark = pytest.mark.spark

Case = tuple[RandomQuery, list[ox.Quad], list[tuple[str, ox.Quad]]]


@settings(max_examples=times(1, 100))
@given(st.lists(st.tuples(queries(), graphs, batches), min_size=4, max_size=4))
def test_random_queries(spark: SparkSession, cases: list[Case]) -> None:
    """Content and change by this executor and by the definitions; several queries a job."""
    work = Work(spark)
    expected = {}
    for number, (query, graph, batch) in enumerate(cases):
        plan = plan_of(query.text)
        old = set(graph)
        new = (old - {quad for sign, quad in batch if sign == "-"}) | {q for sign, q in batch if sign == "+"}
        work.evaluate(f"{number} content", plan, new)
        work.delta(f"{number} delta", plan, old, new)
        reference = Reference(old, new)
        expected[f"{number} content"] = (query, reference.content(plan).weights)
        expected[f"{number} delta"] = (query, reference.delta(plan).weights)
    for name, weights in (work.run() if expected else {}).items():
        query, right = expected[name]
        assert_same(weights, dict(right), f"{name} of {query}")


def node(name: str) -> ox.NamedNode:
    return ox.NamedNode(EX + name)


def quad(subject: str, predicate: str, value: str, graph: str = "") -> ox.Quad:
    return ox.Quad(node(subject), node(predicate), node(value), node(graph) if graph else ox.DefaultGraph())


CHAIN = {quad("a", "p", "b"), quad("b", "q", "c"), quad("x", "p", "y"), quad("y", "q", "z")}
OPTIONAL = f"SELECT * {{ ?s <{EX}p> ?o OPTIONAL {{ ?o <{EX}q> ?v }} }}"


def test_generated_code_gives_the_same(spark: SparkSession) -> None:
    """The other tests interpret expressions; sessions of users compile them."""
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = {name: spark.conf.get(name) for name in names}
    spark.conf.set(names[0], "true")
    spark.conf.set(names[1], "FALLBACK")
    try:
        work = Work(spark)
        plan = plan_of(OPTIONAL)
        work.evaluate("content", plan, CHAIN)
        work.delta("delta", plan, CHAIN, CHAIN - {quad("b", "q", "c")})
        found = work.run()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value or "")
    reference = Reference(CHAIN, CHAIN - {quad("b", "q", "c")})
    assert_same(found["content"], dict(reference.content(plan, State.OLD).weights), "the content")
    assert_same(found["delta"], dict(reference.delta(plan).weights), "the delta")


@LONG
def test_what_several_operators_read(spark: SparkSession) -> None:
    """EXISTS that reads both sides of OPTIONAL: the two sides' join stands in the plan twice, shared."""
    test = f"FILTER NOT EXISTS {{ ?o <{EX}q> ?n FILTER(?n != ?v || ?n = ?s) }}"
    plan = plan_of(f"SELECT * {{ ?s <{EX}p> ?o OPTIONAL {{ ?o <{EX}q> ?v {test} }} }}")
    assert any(isinstance(operator, op.Shared) for operator in operators_of(plan))
    work = Work(spark)
    after = (CHAIN | {quad("y", "q", "w"), quad("z", "p", "b")}) - {quad("b", "q", "c")}
    work.evaluate("content", plan, after)
    work.delta("delta", plan, CHAIN, after)
    found = work.run()
    reference = Reference(CHAIN, after)
    assert_same(found["content"], dict(reference.content(plan).weights), "the content")
    assert_same(found["delta"], dict(reference.delta(plan).weights), "the delta")


def test_keys_restrict_the_scans(spark: SparkSession) -> None:
    """Content for given keys is that of the solutions that agree with one, and reads no others."""
    work = Work(spark)
    plan = plan_of(OPTIONAL)
    subject = Var("s")
    with SparkBackend(spark) as backend:
        quads = TableOfQuads(backend.frame(work.quads(CHAIN), QUAD), None, work.id_of)
        terms = Terms(backend, work.terms(CHAIN), plan, work.id_of, {})
        name = column(subject)
        wanted = backend.frame(spark.sql(f"SELECT {work.id_of(node('a'))}L AS {name}"), (name,))
        evaluation = Evaluation(backend, quads, terms, ())
        content = evaluation.content(
            plan, State.NEW, frozenset(plan.variables), Keys(wanted, (subject,), True)
        )
        rows = backend.query(content.frame).toArrow().to_pylist()
    assert content.small
    assert [row[name] for row in rows] == [work.id_of(node("a"))]


@CLASSIC_ONLY
def test_leaves_that_no_change_concerns_cost_nothing(spark: SparkSession) -> None:
    work = Work(spark)
    plan = plan_of(f"SELECT * {{ ?s <{EX}p> ?o . ?o <{EX}q> ?v }}")
    after = CHAIN | {quad("a", "p", "y")}
    frames = SparkBackend(spark), work.quads(CHAIN), work.changes(CHAIN, after), work.terms(after), work.id_of
    changed = frozenset({work.id_of(node("p"))})
    whole, pruned = delta(plan, *frames), delta(plan, *frames, changed_predicates=changed)
    assert sorted(whole.rows.collect()) == sorted(pruned.rows.collect())
    assert len(_plan_text(pruned.rows)) < len(_plan_text(whole.rows))
    assert delta(plan, *frames, changed_predicates=frozenset()).rows.collect() == []


def _plan_text(frame: object) -> str:
    return frame._jdf.queryExecution().analyzed().toString()  # type: ignore[attr-defined]


def test_parameters_are_rows_of_ids(spark: SparkSession) -> None:
    work = Work(spark)
    start, end = Var("start"), Var("end")
    scan = op.Scan(op.OneGraph(None), start, node("p"), end)
    plan = op.Join((scan, op.Parameters((start,))))
    id_of = work.id_of
    result = evaluate(
        plan,
        SparkBackend(spark),
        work.quads(CHAIN),
        work.terms(CHAIN),
        id_of,
        parameters=[(id_of(node("a")),)],
    )
    assert [tuple(row) for row in result.rows.collect()] == [(id_of(node("a")), id_of(node("b")), 1)]


def test_an_exception_gives_the_id_of_a_computed_term(spark: SparkSession) -> None:
    work = Work(spark)
    ending = ox.Literal("'\\")
    plan = plan_of(f"SELECT ?t {{ ?s <{EX}q> ?o BIND(CONCAT(STR(?s), {ending}) AS ?t) }}")
    frames = SparkBackend(spark), work.quads(CHAIN), work.terms(CHAIN), work.id_of
    text = str(ox.Literal(f"{EX}b{ending.value}"))
    usual = evaluate(plan, *frames)
    exceptional = evaluate(plan, *frames, exceptions={text: 7})
    assert usual.new_terms is not None
    assert exceptional.new_terms is not None
    assert (hash_of(text), text) in [tuple(row) for row in usual.new_terms.collect()]
    assert (7, text) in [tuple(row) for row in exceptional.new_terms.collect()]


@LONG
@CLASSIC_ONLY  # on Spark Connect, functions stay
def test_no_view_or_function_is_left_behind(spark: SparkSession) -> None:
    work = Work(spark)
    plan = plan_of(f"SELECT * {{ ?s <{EX}p> ?o FILTER(STRLEN(STR(?o)) > 3) BIND(STR(?o) AS ?t) }}")
    work.evaluate("content", plan, CHAIN)
    work.delta("delta", plan, set(), CHAIN)
    found = work.run()
    assert_same(found["content"], found["delta"], "everything is new")
    assert found["content"]
    names = [table.name for table in spark.catalog.listTables()]
    names += [row.function for row in spark.sql("SHOW USER FUNCTIONS").collect()]
    assert [name for name in names if name.startswith("sparqlive")] == []
