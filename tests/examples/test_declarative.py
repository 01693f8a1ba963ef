"""The declarative pipeline: a view is a table, and the table feeds a graph, through two runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif("SPARQLIVE_SPARK" not in os.environ, reason="two starts of Spark: `make test-spark`"),
]


def test_a_view_is_a_table_that_feeds_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_TESTING", "1")  # any free port, and not always the same
    pytest.importorskip("grpc")
    pytest.importorskip("yaml")
    from examples.declarative.__main__ import main

    number = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    assert main(tmp_path) == [
        [f'<http://example.org/tea> "4"{number}'],
        [f'<http://example.org/coffee> "7"{number}'],
    ]
