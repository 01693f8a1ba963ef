"""Where tests find data that is not part of the project, and the Hypothesis profiles."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).resolve().parent.parent
W3C = Path(os.environ.get("SPARQLIVE_W3C", ROOT.parent / "shared" / "w3c"))
DATA = Path(os.environ.get("SPARQLIVE_DATA", ROOT.parent / "shared" / "data"))

W3C_ABSENT = (
    f"the W3C test suites are not at {W3C}: set SPARQLIVE_W3C to the folder that holds sparql/sparql11"
)
DATA_ABSENT = f"the benchmark data is not at {DATA}: set SPARQLIVE_DATA to the folder of bsbm-1000.nt.gz"

_slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
# Without shrinking, which takes minutes a failure: the profile "search" makes a counterexample small.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    suppress_health_check=_slow_is_fine,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile("search", deadline=None, suppress_health_check=_slow_is_fine, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A process that is started in the background ignores SIGINT, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

OUTCOMES: Counter[str] = Counter()  # of the W3C tests: "passed", or why they were skipped


@pytest.fixture(scope="session")
def data_directory() -> Path:
    if not DATA.is_dir():
        pytest.skip(DATA_ABSENT)
    return DATA


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the outcomes of the W3C tests; a refusal says in its sentence what it refuses."""
    if "test_w3c.py::test_evaluation" not in report.nodeid:
        return
    if report.skipped and isinstance(report.longrepr, tuple):
        OUTCOMES[report.longrepr[2].removeprefix("Skipped: ")] += 1
    elif report.when == "call":
        OUTCOMES[report.outcome] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The W3C counts, with every reason for a skip: nothing is left out silently."""
    if not OUTCOMES:
        return
    passed, failed = OUTCOMES.pop("passed", 0), OUTCOMES.pop("failed", 0)
    skipped = sum(OUTCOMES.values())
    terminalreporter.section("W3C query evaluation")
    for reason, count in OUTCOMES.most_common():
        terminalreporter.line(f"{count:5d} skipped: {reason}")
    terminalreporter.line(f"W3C: {passed} passed, {failed} failed, {skipped} skipped")
