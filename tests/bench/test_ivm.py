"""The benchmark for incremental SPARQL, in small: its graphs, its checks, and each driver that runs here."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench import peers
from bench.ivm.__main__ import DRIVERS, page, run_drivers
from bench.ivm.cells import ALL_DATASETS, ALL_MIXES, CHECKED, Cell, cells, expected_results, graph_of
from bench.ivm.checksum import checksum
from bench.ivm.mixes import EPOCHS
from bench.ivm.report import failures

TRIPLES = 1000
XSD = "http://www.w3.org/2001/XMLSchema#"
SOME = (
    Cell("paths", "count-paths", "single"),
    Cell("stars", "optional", "delete-heavy"),
    Cell("ecommerce", "cheapest", "hot-keys"),
    Cell("railway", "switch-monitored", "inject"),
    Cell("taxonomy", "ancestors", "churn"),
)


def test_batches_change_what_is_there() -> None:
    seen = set()
    for cell in cells(ALL_DATASETS, ALL_MIXES):
        if (key := (cell.dataset, cell.mix, cell.query if cell.dataset == "railway" else "")) in seen:
            continue
        seen.add(key)
        lines, batches = graph_of(cell, 600)
        there = set(lines)
        assert len(there) == len(lines)
        assert 0 < len(batches) <= EPOCHS
        for deletes, inserts in batches:
            assert deletes or inserts
            assert there.issuperset(deletes), cell
            there.difference_update(deletes)
            assert there.isdisjoint(inserts), cell
            there.update(inserts)


def test_every_cell_has_its_checksums() -> None:
    expected = expected_results(TRIPLES)
    for cell in cells(ALL_DATASETS, ALL_MIXES):
        last = min(EPOCHS, len(graph_of(cell, TRIPLES)[1]))
        numbers = {number for number in CHECKED if number <= last} | {last}
        assert expected[cell.name].keys() == {str(number) for number in numbers}, cell


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ([["<a>", None]], [["<a>", None]], True),
        ([["<a>"], ["<b>"]], [["<b>"], ["<a>"]], True),
        ([["<a>"]], [["<a>"], ["<a>"]], False),
        ([[f'"2.50"^^<{XSD}decimal>']], [[f'"2.5"^^<{XSD}decimal>']], True),
        ([[f'"2"^^<{XSD}integer>']], [[f'"3"^^<{XSD}integer>']], False),
        ([['"2"']], [[f'"2"^^<{XSD}integer>']], False),
        ([], [[]], False),
    ],
)
def test_checksum(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]], equal: bool) -> None:
    assert (checksum(one) == checksum(other)) is equal


@pytest.mark.slow
def test_drivers_get_the_published_results() -> None:
    """And a driver that does not start, and an engine that is not there, are told."""
    drivers, absent = peers.commands(["full-hash"])
    some = {name: drivers[name] for name in ("ours", "pyoxigraph", "rdflib", "duckdb")}
    wanted = [*SOME, Cell("stars", "avg", "single")]
    lines, engines, outcomes = peers.measured({**some, "none": "false"}, "Operators", wanted, TRIPLES, 2, 600)
    told = failures(outcomes)
    assert told[0] == "- duckdb, refused: there is no SQL for this query: stars/avg/single"
    assert told[1].startswith("- none, failed: does not start: the driver ended")
    assert len(told) == 2
    assert len(engines) == 4
    right = [o for o in outcomes if o.status == "right"]
    assert len(right) == 4 * len(wanted) - 1
    assert all(len(o.seconds) == 2 for o in right)
    assert "| ours | 6 | 0 | 0 | 0 |" in page("make test", outcomes, engines, TRIPLES)
    text = peers.page("make test", engines, absent, lines, told)
    for name in ("incremunica", "incremunica, full-hash", "pathway", "fuseki", "rdf4j"):
        assert (name in drivers) != (f"- {name} is not installed" in text)


@pytest.mark.slow
def test_a_wrong_result_is_told() -> None:
    cell = SOME[0]
    expected = {cell.name: {"0": expected_results(TRIPLES)[cell.name]["0"], "1": "1:0"}}
    outcomes, _ = run_drivers({"pyoxigraph": DRIVERS["pyoxigraph"]}, [cell], TRIPLES, 2, 600, expected)
    assert outcomes[0].status == "wrong"
    assert outcomes[0].note.startswith("after 1 batches")
    assert outcomes[0].middle is None
