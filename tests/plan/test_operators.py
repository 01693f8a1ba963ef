"""Every operator on every executor: one that an executor forgot, or evaluates differently, fails here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from types import ModuleType

import duckdb
import pyarrow as pa
import pyoxigraph as ox
import pytest

from sparqlive.bulk import operators as bulk
from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import ResultTables, evaluate
from sparqlive.live import operators as live
from sparqlive.live.compiled_plan import CompiledPlan
from sparqlive.live.dispatch import Dispatcher
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.plan.naming import name_operators
from sparqlive.plan.wording import Words
from sparqlive.quads.current import Quads
from sparqlive.rdf.dictionary import Dictionary, term_of
from sparqlive.sparql.algebra import Aggregate, Call, Constant, Var
from tests.oracle import Weights
from tests.plan_reference import Reference

X, Y, Z, G = (Var(name) for name in "xyzg")


def node(name: str) -> ox.NamedNode:
    return ox.NamedNode(f"http://example.org/{name}")


def scan(subject: Var, predicate: str, object_: Var) -> op.Scan:
    return op.Scan(op.OneGraph(None), subject, node(predicate), object_)


A, B = scan(X, "p", Y), scan(Y, "q", Z)
NUMBER = Constant(ox.Literal(1))
EXAMPLES: dict[type[op.Operator], op.Operator] = {
    op.Scan: A,
    op.Names: op.Names(op.NamedGraphs(G, None)),
    op.Nodes: op.Nodes(op.OneGraph(None), X),
    op.Table: op.Table((X,), ((node("a"),), (None,))),
    op.Parameters: op.Join((op.Parameters((X,)), A)),
    op.Join: op.Join((A, B)),
    op.Filter: op.Filter(Call("=", (X, Constant(node("a")))), A),
    op.Extend: op.Extend(A, Z, NUMBER),
    op.Project: op.Project(A, (Y,)),
    op.Listing: op.Listing(A, (Y,), ((X, False),)),
    op.Template: op.Template(A, (Y, Z), ((X, node("r")), (Y, node("s")))),
    op.Union: op.Union((A, B)),
    op.LeftJoin: op.LeftJoin(A, B, None),
    op.Semi: op.Semi(A, B, keep=False),
    op.Mark: op.Mark(A, B, G),
    op.Distinct: op.Distinct(op.Project(A, (Y,))),
    op.Group: op.Group(op.Project(A, (Y, X)), (Y,), ((Z, Aggregate("COUNT", X, False)),)),
    op.Closure: op.Closure(A, (), X, Y),
    op.Window: op.Window(A, (), ((X, False),), 1, 2),
    op.Numbered: op.Numbered(op.Project(A, (Y,)), (Y,), Z),
    op.Stored: op.Join((op.Stored(op.LeftJoin(A, B, None), ((Y,),)), B)),
    op.Shared: op.Join((op.Shared(A), op.Shared(A))),
}
WITH_REFERENCE = [kind for kind in EXAMPLES if kind is not op.Parameters]  # it has rows in process alone
PARAMETER = node("a")


def quads(text: str) -> set[ox.Quad]:
    found = set()
    for triple in text.split():
        subject, predicate, object_, *graph = triple
        where = node(graph[0]) if graph else ox.DefaultGraph()
        found.add(ox.Quad(node(subject), node(predicate), node(object_), where))
    return found


BEFORE = quads("apb apc bpc bqd bqe dpb apbg apbh")
AFTER = quads("apb bpc bqd cqd dpb cpa fpb apbg apbi")


def concrete(kind: type[op.Operator]) -> set[type[op.Operator]]:
    """The operators below a class; those with others below them are bases, except for Project."""
    below = kind.__subclasses__()
    found = set() if below and kind is not op.Project else {kind}
    return {one for one in found.union(*map(concrete, below)) if one.__module__.startswith(op.__name__)}


def test_every_operator_is_listed_and_has_an_example() -> None:
    assert concrete(op.Operator) == set(op.OPERATORS) == set(EXAMPLES)


class Live:
    """A plan kept in process, and the bulk executor on the same dictionary."""

    def __init__(self, plan: op.Operator, before: set[ox.Quad]) -> None:
        self.dictionary = Dictionary()
        self.id_of = self.dictionary.id_of
        self.quads = Quads()
        self.quads.add([(*map(self.id_of, quad), 1) for quad in before])  # type: ignore[misc]
        self.plan = plan
        self._kept = CompiledPlan(plan, self.quads, Terms(self.dictionary))
        self._dispatcher = Dispatcher(self.quads)
        self._dispatcher.add(self._kept)
        self.parameters = []
        if any(isinstance(child, op.Parameters) for child in plan.children):
            self._kept.add_parameters((self.id_of(PARAMETER),))
            self.parameters = [(self.id_of(PARAMETER),)]

    def content(self) -> Weights:
        return self.terms(self._kept.compute())

    def delta(self, before: set[ox.Quad], after: set[ox.Quad]) -> Weights:
        changes = [(quad, 1) for quad in after - before] + [(quad, -1) for quad in before - after]
        self.quads.stage([(*map(self.id_of, quad), weight) for quad, weight in changes])  # type: ignore[misc]
        inputs = self._dispatcher.dispatch(self.quads.staged).get(self._kept)
        return {} if inputs is None else self.terms(self._kept.delta(inputs))

    def terms(self, rows: dict[tuple[int, ...], int]) -> Weights:
        text = self.dictionary.text
        return {
            tuple(None if number == 0 else term_of(text(number)) for number in row): weight
            for row, weight in rows.items()
        }

    def bulk(self, before: set[ox.Quad], after: set[ox.Quad] | None = None) -> Weights:
        """The content, or the change to what is after, as SQL."""
        known = before if after is None else before | after
        found = {term for quad in known for term in quad if not isinstance(term, ox.DefaultGraph)}
        texts = {self.id_of(term): str(term) for term in found}
        terms = pa.table({"id": pa.array(texts, pa.int64()), "term": pa.array(texts.values(), pa.string())})
        backend = DuckDb(duckdb.connect())
        old = table("spog", [tuple(map(self.id_of, quad)) for quad in before])
        if after is None:
            result = evaluate(self.plan, backend, old, terms, self.id_of, parameters=self.parameters)
        else:
            signed = [(quad, 1) for quad in after - before] + [(quad, -1) for quad in before - after]
            changes = table("spogw", [(*map(self.id_of, quad), weight) for quad, weight in signed])
            result = delta(self.plan, backend, old, changes, terms, self.id_of, parameters=self.parameters)
        return self.terms(self._rows(result))

    def _rows(self, result: ResultTables) -> dict[tuple[int, ...], int]:
        if result.new_terms is not None:
            for term in result.new_terms.column("term").to_pylist():
                self.id_of(term_of(term))
        columns = [column.to_pylist() for column in result.rows.columns]
        return {row[:-1]: row[-1] for row in zip(*columns, strict=True)}


def table(names: str, rows: list[tuple[int, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table({name: pa.array(column, pa.int64()) for name, column in zip(names, columns, strict=True)})


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_contents_and_deltas_agree_on_every_executor(kind: type[op.Operator]) -> None:
    plan = EXAMPLES[kind]
    kept = Live(plan, BEFORE)
    content = kept.content()
    assert content
    assert content == kept.bulk(BEFORE)
    changed = kept.delta(BEFORE, AFTER)
    assert bool(changed) == (kind is not op.Table)
    assert changed == kept.bulk(BEFORE, AFTER)
    if kind in WITH_REFERENCE:
        reference = Reference(BEFORE, AFTER)
        assert content == dict(reference.content(plan, State.OLD))
        assert changed == dict(reference.delta(plan))
        assert changed == dict(reference.content(plan) - reference.content(plan, State.OLD))


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_every_operator_has_rules_keys_and_words(kind: type[op.Operator]) -> None:
    plan = EXAMPLES[kind]
    for place in name_operators(plan).top_down():
        operator = place.operator
        assert len(operator.delta_rule().terms) == len(operator.children)
        assert operator.pushable <= frozenset(operator.variables)
        assert operator.words(Words())
        assert place.name


class Forgotten(op.Operator):
    """An operator that nothing knows of."""

    children = (A,)
    variables = A.variables
    always = A.always


def test_a_forgotten_operator_is_refused() -> None:
    forgotten, nothing = Forgotten(), frozenset[Var]()
    asked: list[Callable[[], object]] = [
        forgotten.delta_rule,
        lambda: forgotten.pushable,
        lambda: forgotten.needed_below(nothing),
        lambda: forgotten.size(nothing, lambda scan, bound: None),
        lambda: name_operators(forgotten),
        lambda: forgotten.words(Words()),
    ]
    for question in asked:
        with pytest.raises(NotImplementedError):
            question()


def test_an_incomplete_table_is_refused() -> None:
    op.complete(set(op.OPERATORS).__contains__, "live/operators.py")
    incomplete = set(op.OPERATORS) - {op.Mark}
    with pytest.raises(
        NotImplementedError, match=r"^live/operators\.py has no answer for the operator Mark$"
    ):
        op.complete(incomplete.__contains__, "live/operators.py")


@pytest.mark.parametrize("executor", ["bulk", "live"])
def test_an_executor_has_a_file_of_the_same_name(executor: str) -> None:
    folder = Path(op.__file__).parents[2]
    for kind in op.OPERATORS:
        assert (folder / executor / f"{kind.__module__.rpartition('.')[2]}.py").exists()


@pytest.mark.parametrize("executor", [bulk, live], ids=["bulk", "live"])
def test_an_executor_that_lacks_an_operator_cannot_be_imported(
    executor: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert executor.__file__ is not None
    monkeypatch.setattr(op, "OPERATORS", (*op.OPERATORS, Forgotten))
    with pytest.raises(
        NotImplementedError, match=r"^(live|bulk)/operators\.py has no answer for the operator Forgotten$"
    ):
        run_path(executor.__file__)
