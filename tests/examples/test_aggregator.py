"""The aggregator, with real agents in processes of their own: it runs, and says what it verified."""

from __future__ import annotations

import pytest

from examples.aggregator import __main__ as aggregator
from tests.sources.conftest import Pods


def test_the_aggregator_over_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert aggregator.main(["--documents"]) == 0
    check(capsys.readouterr().out)


def test_the_aggregator_over_solid_pods(pods: Pods, capsys: pytest.CaptureFixture[str]) -> None:
    assert aggregator.main(["--server", pods.address]) == 0
    check(capsys.readouterr().out)


def check(shown: str) -> None:
    lines = shown.splitlines()
    assert lines[-1] == "check: the aggregator's COUNT, SUM, AVG, MIN and MAX were those of the pods 8 times"
    row = next(line for line in lines if "deletes the highest" in line)
    assert "7 20.0 2.86 1.2 5.0" in " ".join(row.split())
