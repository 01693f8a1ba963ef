"""The counting paper's experiments, in small. They stop where the paper's method and ours differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.paper.__main__ import run, write
from bench.paper.counting import Bgp, Counting, LeftJoin, Minus, Project, Triple
from bench.paper.experiments import EXPERIMENTS, SMOKE

METHODS_HERE = ("live", "duckdb", "counting", "counting, as published")


@pytest.mark.slow
def test_all_experiments(tmp_path: Path) -> None:
    sections = run(list(EXPERIMENTS), SMOKE, ("live", "counting"))
    names = ["paths", "isolated", "bsbm", "operators", "memory", "hop", "shapes", "sum-8"]
    assert [section.name for section in sections] == names
    assert len(sections[2].table) == 1 + 4 * 4
    text = write("make test", sections, SMOKE, tmp_path).read_text(encoding="utf-8")
    assert "load average" in text
    assert (tmp_path / "paths.svg").exists()
    run(["sums"], SMOKE, METHODS_HERE)


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
