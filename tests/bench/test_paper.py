"""The counting paper's experiments, in small. They stop where the paper's method and ours differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kept import Kept
from bench.paper.__main__ import Run, main, write
from bench.paper.cases import EXPERIMENTS, SMOKE, Sizes
from bench.paper.compare import Case
from bench.paper.counting import Bgp, Counting, LeftJoin, Minus, Project, Triple
from bench.paper.worker import Worker

METHODS_HERE = ("live", "duckdb", "counting", "counting, as published")


@pytest.mark.slow
def test_all_experiments(tmp_path: Path) -> None:
    run = Run(SMOKE, ("live", "counting"), rounds=1, seconds=600)
    kept = Kept(tmp_path / "raw.jsonl", lambda: ["- load average: 1"])
    run.measure(list(EXPERIMENTS), kept, again=False)
    names = ["paths", "isolated", "bsbm", "hop", "memory", "operators", "shapes", "sum-8"]
    text, sections = run.page(kept)
    assert [section.name for section in sections] == names
    assert len(sections[2].table) == 1 + 4 * 4
    assert all(len(row) == len(section.table[0]) for section in sections for row in section.table)
    assert "load average" in text
    assert write(run, kept, tmp_path).read_text(encoding="utf-8") == text
    assert (tmp_path / "paths.svg").exists()
    again = Kept(tmp_path / "raw.jsonl", lambda: ["- another run"])
    run.measure(list(EXPERIMENTS), again, again=False)
    assert run.page(again)[0] == text
    Run(SMOKE, METHODS_HERE, rounds=1, seconds=600).measure(["sums"], again, again=False)


def test_the_command_ends_in_time_and_continues(tmp_path: Path) -> None:
    command = ["sums", "--quick", "--methods", "live", "--groups", "20", "--rounds", "1"]
    main([*command, "--minutes", "0", "--output", str(tmp_path)])
    assert "## SUM" not in (tmp_path / "paper.md").read_text(encoding="utf-8")
    main([*command, "--output", str(tmp_path)])
    main(["--quick", "--page", "--output", str(tmp_path)])
    assert "sum, 20 groups of 10" in (tmp_path / "raw.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_cases_are_named_before_they_are_made(name: str) -> None:
    for planned in EXPERIMENTS[name](SMOKE):
        assert [case.name for case in planned.make()[1]] == list(planned.names)


@pytest.mark.slow
def test_what_takes_too_long_is_told(tmp_path: Path) -> None:
    sizes = Sizes(**{**vars(SMOKE), "nodes": 200})
    lines, cases = next(EXPERIMENTS["paths"](sizes)).make()
    file = tmp_path / "graph.nt"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    worker = Worker("counting")
    try:
        assert worker.measure(file, cases[0], 3, 0.001) == {
            "updates": [],
            "unfinished": "not finished in 0 s",
        }
        small = Case(
            "small", "SELECT ?s { ?s ?p ?o }", Project(Bgp((("?s", "?p", "?o"),)), ("s",)), cases[0].updates
        )
        found = worker.measure(file, small, 1, 600)
        assert [entry["update"] for entry in found["updates"]] == ["50 edges"]
    finally:
        worker.close()


@pytest.mark.parametrize("published", [False, True])
def test_the_papers_rules_for_negation(published: bool) -> None:
    """A key with two derivations on the right leaves, and a left side without shared variables falls back."""
    triples: list[Triple] = [
        ("a", "p", "b"),
        ("b", "q", "c"),
        ("b", "q", "d"),
        ("e", "p", "f"),
        ("x", "r", "y"),
    ]
    left = Bgp((("?s", "p", "?o"),))
    minus = Counting(triples, Minus(left, Bgp((("?o", "q", "?z"),))), published=published)
    minus.compute()
    assert minus.weights(("s", "o")) == {("e", "f"): 1}
    minus.update([("b", "q", "c")], [("f", "q", "c")])
    assert minus.weights(("s", "o")) == {}
    minus.update([("b", "q", "d"), ("f", "q", "c")], [])
    assert minus.weights(("s", "o")) == {("a", "b"): 1, ("e", "f"): 1}
    optional = Counting(
        triples, Project(LeftJoin(left, Bgp((("x", "r", "?v"),))), ("s", "v")), published=published
    )
    optional.compute()
    assert optional.weights(("s", "v")) == {("a", "y"): 1, ("e", "y"): 1}
    optional.update([("x", "r", "y"), ("a", "p", "b")], [("g", "p", "h"), ("g", "p", "i")])
    assert optional.weights(("s", "v")) == {("e", None): 1, ("g", None): 2}
