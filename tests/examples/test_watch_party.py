"""The watch party, on the Solid server of the tests: it runs, and says what it verified."""

from __future__ import annotations

import re

import pytest

from examples.watch_party import __main__ as watch_party
from tests.sources.conftest import Pods


def test_the_watch_party(pods: Pods, capsys: pytest.CaptureFixture[str]) -> None:
    assert watch_party.main(["--messages", "9", "--server", pods.address]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "check: 2 views equal their recomputation"
    assert re.fullmatch(r"from a message's PATCH to its row: median .* m?s, worst .* m?s", lines[-2])
    assert any("zoe joins: 2 messages appear at once" in line for line in lines)
    assert any("gita leaves: 2 messages disappear at once" in line for line in lines)
    assert sum(line.lstrip().startswith(watch_party.NAMES) for line in lines) == 11


def test_without_a_server_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert watch_party.main([]) == 1
    assert (
        "No Community Solid Server is installed. Install one with: make test-peers" in capsys.readouterr().err
    )
