"""Tables never have two columns of one name."""

from __future__ import annotations

from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.engine.to_spark import changes_table
from sparqlive.pipeline.sinks import opened
from sparqlive.sparql.column_names import EPOCH, WEIGHT, check_column_names
from tests.agent.conftest import serving

CLASH = r"The variable \?_weight has the name of the column _weight"


def test_names_that_clash() -> None:
    check_column_names(["a", "A", "_Weight"], WEIGHT, EPOCH)
    check_column_names(["a", "b"], ignore_case=True)
    for names, added, sentence in (
        (["a", "_weight"], [WEIGHT], r"\?_weight has the name of the column _weight"),
        (["_EPOCH"], [EPOCH], r"\?_EPOCH has the name of the column _epoch if case is ignored"),
        (["a", "A"], [], r"\?A has the name of the variable \?a if case is ignored"),
    ):
        with pytest.raises(sparqlive.Unsupported, match=sentence):
            check_column_names(names, *added, ignore_case=True)


def test_a_weight_beside_a_variable_of_its_name_is_refused(tmp_path: Path) -> None:
    query = "SELECT ?_weight { ?s <x:p> ?_weight }"
    with sparqlive.open() as session:
        session.update("INSERT DATA { <x:a> <x:p> 1 }")
        view, epochs = session.view("v", query), session.view("e", "SELECT ?_epoch { ?s <x:p> ?_epoch }")
        assert view.to_arrow().column_names == ["_weight"]
        assert epochs.to_arrow(weights=True).column_names == ["_epoch", "_weight"]
        for typed in (True, False):
            for answer in (view, session.query(query)):
                with pytest.raises(sparqlive.Unsupported, match=CLASH):
                    answer.to_arrow(typed=typed, weights=True)
            with pytest.raises(sparqlive.Unsupported, match="_epoch has the name"):
                changes_table(epochs._state, [], typed)
        for kind in ("parquet",):
            with pytest.raises(sparqlive.Error, match=CLASH):
                opened(kind, tmp_path / kind, view.variables)
        with serving(Agent(session)) as address, httpx.Client(base_url=address, timeout=120) as client:
            for syntax in ("parquet", "arrow", "ndjson"):
                for path in (f"/views/v?format={syntax}", f"/sparql?query={query}&format={syntax}"):
                    plain = client.get(path.replace("?s", "%3Fs").replace("?_", "%3F_"))
                    assert plain.status_code == 200
                    found = client.get(path.replace("?s", "%3Fs").replace("?_", "%3F_") + "&weights=true")
                    assert found.status_code == 400, (syntax, found.text)
                    assert "has the name of the column _weight" in found.json()["detail"]


def test_variables_that_differ_by_case_are_columns(tmp_path: Path) -> None:
    with sparqlive.open() as session:
        session.update("INSERT DATA { <x:a> <x:p> 1 }")
        pq.write_table(session.query("SELECT ?a ?A { ?a <x:p> ?A }").to_arrow(), tmp_path / "t.parquet")
        assert pq.read_table(tmp_path / "t.parquet").column_names == ["a", "A"]
