"""What a person sees of an epoch: plain lines, and columns in colour on a terminal."""

from __future__ import annotations

import io
import re

import pytest

import sparqlive
from sparqlive.pipeline.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def epoch() -> sparqlive.Epoch:
    with sparqlive.open() as session:
        session.view("pairs", "SELECT ?s ?o { ?s <urn:p> ?o }")
        session.apply(insert="<urn:a> <urn:p> <urn:b> .")
        return session.apply(insert="<urn:a> <urn:p> <urn:c> .", delete="<urn:a> <urn:p> <urn:b> .")


def test_a_line_an_epoch(epoch: sparqlive.Epoch) -> None:
    out = io.StringIO()
    Progress(out).epoch(epoch, "shop", 0.0042)
    assert out.getvalue() == "epoch 2  shop  +1 −1  pairs 2  live  4.2 ms  (small batch)\n"


def test_a_terminal_has_colours(epoch: sparqlive.Epoch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    Progress(out).epoch(epoch, "shop", 0.0042)
    assert "\x1b[" in out.getvalue()
    words = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).split()
    assert words == ["epoch", "2", "shop", "+1", "−1", "live", "4.2", "ms", "pairs", "2", "(small", "batch)"]


def test_a_line_says_why_an_epoch_was_carried_so() -> None:
    out = io.StringIO()
    with sparqlive.open() as session:
        session.view("pairs", "SELECT ?s ?o { ?s <urn:p> ?o }")
        epoch = session.apply(insert="<urn:a> <urn:p> <urn:b> .", strategy="duckdb")
    Progress(out).epoch(epoch, "shop", 0.0042)
    assert out.getvalue().endswith("duckdb  4.2 ms  (pairs: duckdb was requested.)\n")


def test_a_step_ends_with_its_result() -> None:
    out = io.StringIO()
    with Progress(out).step("loading") as step:
        step.result = "3 quads"
    assert re.fullmatch(r"loading: 3 quads, [\d.]+ ms\n", out.getvalue())
