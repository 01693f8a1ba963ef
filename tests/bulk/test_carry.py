"""DuckDB in process: what is stopped, what fails, and what is chosen."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace

import pytest

import sparqlive
from sparqlive.runtime.tuning import DEFAULT
from tests.engine.test_columns import random_quad

PRODUCT = (
    "SELECT (COUNT(*) AS ?n) { ?a <urn:p> ?b . ?c <urn:p> ?d . ?e <urn:p> ?f FILTER(?b < ?d && ?d < ?f) }"
)


def test_a_first_computation_on_duckdb_is_stopped() -> None:
    """Two million millions of combinations would take days; the limit ends them, and nothing is left."""
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    with sparqlive.open() as session:
        session.apply(insert="".join(f'<urn:{n}> <urn:p> "{n}"^^<{integer}> .\n' for n in range(20_000)))
        begun = time.monotonic()
        with pytest.raises(sparqlive.Timeout):
            session.view("product", PRODUCT, strategy="duckdb", timeout_seconds=2)
        assert time.monotonic() - begun < 120
        assert "product" not in session.views
        session.apply(insert="<urn:a> <urn:q> <urn:b> .", strategy="duckdb")
        session.check()


def test_views_of_many_quads_are_computed_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    with sparqlive.open() as session:
        session.load([random_quad(rng) for _ in range(200)])
        text = "SELECT ?s ?o { ?s <http://example.org/p0> ?o }"
        used = []
        strategies = session._writer.strategies
        contents_on = strategies.contents_on

        def noted(*arguments):  # type: ignore[no-untyped-def]
            contents = contents_on(*arguments)
            return lambda plans: used.extend(plans) or contents(plans)

        monkeypatch.setattr(strategies, "contents_on", noted)
        session.view("few", text)
        assert not used, "a small view is computed live"
        monkeypatch.setattr(session._writer, "tuning", replace(DEFAULT, bulk_quads=10))
        session.view("many", text.replace("?o", "?other"))
        assert used
        session.check()


def test_a_session_uses_the_backends_that_it_was_opened_for() -> None:
    quad = "<urn:a> <urn:p> <urn:b> ."
    with sparqlive.open(bulk="duckdb") as session:
        session.view("all", "SELECT * { ?s ?p ?o }", strategy="duckdb")
        assert session.apply(insert=quad, strategy="duckdb").strategy == "duckdb"
        with pytest.raises(sparqlive.Unsupported, match="bulk='duckdb'"):
            session.apply(delete=quad, strategy="spark")
        session.check()
    with sparqlive.open(bulk="spark") as session:
        session.view("all", "SELECT * { ?s ?p ?o }")
        with pytest.raises(sparqlive.Unsupported, match="bulk='spark'"):
            session.apply(insert=quad, strategy="duckdb")
        assert session.epoch == 0
    with pytest.raises(sparqlive.Error, match=r'bulk must be "auto", "duckdb" or "spark"'):
        sparqlive.open(bulk="magic")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_with_a_database_of_its_own() -> None:
    """The parent's connections wait for the next query; the child has none of their threads."""
    assert _sum_on_duckdb() == 3
    child = os.fork()
    if not child:
        os._exit(_sum_on_duckdb())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert _sum_on_duckdb() == 3


def _sum_on_duckdb() -> int:
    with sparqlive.open() as session:
        session.view("v", "SELECT (SUM(?o) AS ?n) { ?s <x:p> ?o }")
        session.update("INSERT DATA { <x:a> <x:p> 1 . <x:b> <x:p> 2 }", strategy="duckdb")
        [(number,)] = session.views["v"].weights()
        return int(number.value)
