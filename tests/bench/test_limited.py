"""Benchmarks whose cells are stopped at limits, with the smallest sizes; and the limits themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bench import beyond_memory, wide
from bench.limited import Cells, Limits, Outcomes, Stopped, measured
from bench.measure import same
from bench.side_by_side import Row, Sides, Table, summary

MEGABYTE = 1_000_000


def work(cells: Cells, directory: Path) -> None:
    """Cells of all outcomes. Each child leaves a file."""
    (directory / str(time.monotonic_ns())).touch()
    needed = cells.prepare("load", lambda: ([1], "loaded"))
    cells.cell("quick", lambda: len(needed))
    cells.cell("again", lambda: needed.append(2), again=True)
    cells.cell("too large", lambda: [b"x" * 300 * MEGABYTE, time.sleep(600)])
    cells.cell("failing", lambda: 1 // 0)
    cells.cell("after all", lambda: len(needed))


def slow_work(cells: Cells) -> None:
    cells.cell("too slow", lambda: time.sleep(600))
    cells.prepare("load", lambda: (None, time.sleep(600)))
    cells.cell("not reached", lambda: 1)


def wrong_work(cells: Cells) -> None:
    cells.cell("wrong", lambda: same("rows", 1, 2))


def test_a_cell_that_is_too_large_is_stopped_and_the_others_are_measured(tmp_path: Path) -> None:
    found = measured(work, (tmp_path,), Limits(seconds=60, bytes=250 * MEGABYTE)).values
    assert found["load"] == "loaded"
    assert found["quick"] == 1
    assert found["too large"] == Stopped("stopped at 0.25 GB")
    assert found["failing"].reason.startswith("failed: ZeroDivisionError")
    assert found["after all"] == 2, "a cell that later ones need is done in each child"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cell_that_is_too_slow_is_stopped() -> None:
    outcomes = measured(slow_work, (), Limits(seconds=0.2, bytes=1_000 * MEGABYTE))
    assert outcomes.values == {"too slow": Stopped("stopped at 200 ms"), "load": Stopped("stopped at 2 s")}
    sides = Sides({"store": outcomes}, cpu=False)
    assert sides.seconds("store", "not reached") == Stopped("not reached: load stopped at 2 s")


def test_a_wrong_answer_ends_the_benchmark() -> None:
    with pytest.raises(SystemExit, match=r"rows: the results differ. Ours: 1 Expected: 2"):
        measured(wrong_work, (), Limits(seconds=60, bytes=1_000 * MEGABYTE))


def test_what_is_missed() -> None:
    rows = [
        Row("fine", 0.001, 0.002, 0.001, (0.001, 0.002)),
        Row("slow in a store", 0.001, 0.003, 0.001, (0.001, 0.002)),
        Row("stopped", Stopped("stopped at 6 GB"), 0.002, 0.001, (0.001, 0.002)),
        Row("not judged", Stopped("stopped at 6 GB")),
    ]
    table = Table("data: some", rows)
    assert "| slow in a store | 1 ms | 3 ms | 1 ms | 1× / 3× | ≤ 1 ms / ≤ 2 ms | **missed in a store** |" in (
        table.lines()
    )
    (figure,) = summary("wide", [table]).figures
    assert (figure.ours, figure.measured, figure.reached) == ("1 of 3 cells", "2 missed", False)
    assert not any(row.is_judged for row in table.unjudged().rows)


class Here:
    """In place of a pipe to the parent."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._values = outcomes.values

    def send(self, message: tuple[str, str, Any]) -> None:
        if message[0] == "value":
            self._values[message[1]] = message[2]


def measured_here(work: Any, arguments: tuple[Any, ...], limits: Limits) -> Outcomes:
    """Without child processes, whose imports would take most of the time."""
    outcomes = Outcomes()
    work(Cells(Here(outcomes), {}), *arguments)  # type: ignore[arg-type]
    return outcomes


@pytest.mark.slow
def test_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "measured", measured_here)
    page = tmp_path / "wide.md"
    sizes = ["--graphs", "6", "--objects", "20", "--changes", "2", "--rounds", "1"]
    wide.main([*sizes, "--output", str(page)])
    text = page.read_text()
    assert "## sources, each with a graph of its own: 6 graphs of 20 triples, 120 quads" in text
    assert text.count("| single change |") == len(wide.SHAPES)
    assert "failed" not in text


@pytest.mark.slow
def test_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beyond_memory, "measured", measured_here)
    page = tmp_path / "beyond_memory.md"
    sizes = ["--listed", "300", "--explored", "300", "--orders", "300", "--stream", "20", "--rounds", "1"]
    beyond_memory.main([*sizes, "--output", str(page)])
    text = page.read_text()
    assert "| CONSTRUCT, warm |" in text
    assert "| classes with counts |" in text
    assert "carried by: join live, totals live, open live" in text
    assert "failed" not in text
