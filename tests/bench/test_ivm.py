"""The benchmark for incremental SPARQL, in small: its graphs, its checks, and each driver that runs here."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest

from bench import peers
from bench.ivm.__main__ import DRIVERS, page, run_drivers
from bench.ivm.cells import ALL_DATASETS, ALL_MIXES, CHECKED, Cell, cells, expected_results, graph_of
from bench.ivm.checksum import checksum
from bench.ivm.mixes import EPOCHS
from bench.ivm.report import failures
from bench.kept import Kept

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
def test_drivers_get_the_published_results(tmp_path: Path) -> None:
    """And a driver that does not start, and an engine that is not there, are told."""
    drivers, absent = peers.commands(["full-hash"])
    some = {name: drivers[name] for name in ("ours", "pyoxigraph", "rdflib", "duckdb")} | {"none": "false"}
    part = peers.Part("Operators", (*SOME, Cell("stars", "avg", "single")), TRIPLES)
    engines = peers.Engines(some, 600)
    try:
        kept = Kept(tmp_path / "peers.jsonl", lambda: engines.names)
        peers.measure([part], some, kept, engines, 2, inf)
    finally:
        engines.close()
    outcomes = part.outcomes(kept, list(some))
    told = failures(outcomes)
    assert (
        told[0]
        == "- none, failed: does not start: the driver ended: "
        + "; ".join(cell.name for cell in SOME[:3])
        + " and 3 more"
    )
    assert told[1] == "- duckdb, refused: there is no SQL for this query: stars/avg/single"
    assert len(told) == 2
    assert len(engines.names) == 4
    right = [outcome for outcome in outcomes if outcome.status == "right"]
    assert len(right) == 4 * len(part.cells) - 1
    assert all(len(outcome.seconds) == 2 for outcome in right)
    assert "| ours | 6 | 0 | 0 | 0 | 0 |" in page("make test", outcomes, engines.names, TRIPLES)
    text = peers.page(kept, [part], list(some), absent)
    assert "A cell has 2 to 2 batches" in text
    for name in ("incremunica", "incremunica, full-hash", "pathway", "fuseki", "rdf4j"):
        assert (name in drivers) != (f"- {name} is not installed" in text)


@pytest.mark.slow
def test_a_driver_that_is_late_is_not_asked_again(tmp_path: Path) -> None:
    cells = [Cell("stars", "star", mix) for mix in ("single", "batch")]
    part = peers.Part("Operators", cells, TRIPLES)
    driver = """sh -c 'echo "{\\"engine\\": \\"slow\\"}"; sleep 600'"""
    engines = peers.Engines({"slow": driver}, 1)
    try:
        kept = Kept(tmp_path / "peers.jsonl", lambda: engines.names)
        peers.measure([part], {"slow": driver}, kept, engines, 2, inf)
    finally:
        engines.close()
    outcomes = part.outcomes(kept, ["slow"])
    assert [outcome.status for outcome in outcomes] == ["late", "late"]
    assert "| stars | star | join | not finished in 1 s |" in peers.page(kept, [part], ["slow"], ())


@pytest.mark.slow
def test_a_wrong_result_is_told() -> None:
    cell = SOME[0]
    expected = {cell.name: {"0": expected_results(TRIPLES)[cell.name]["0"], "1": "1:0"}}
    outcomes, _ = run_drivers({"pyoxigraph": DRIVERS["pyoxigraph"]}, [cell], TRIPLES, 2, 600, expected)
    assert outcomes[0].status == "wrong"
    assert outcomes[0].note.startswith("after 1 batches")
    assert outcomes[0].middle is None
