"""What all tests share: data that is not part of the project, the Hypothesis profiles, one Spark session."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from sparqlive.engine.register import Registration
from tests.oracle import Weights

ROOT = Path(__file__).resolve().parent.parent
_BESIDE = ROOT.parent / "shared" / "w3c"
_FETCHED = ROOT / ".venv" / "w3c"  # by setup/w3c.py
W3C = Path(os.environ.get("SPARQLIVE_W3C") or (_BESIDE if _BESIDE.is_dir() else _FETCHED))

FULL = os.environ.get("SPARQLIVE_CONFORMANCE") == "full"
"""Whether everything is tested that can be, as by `make conformance`."""


def times(usual: int, full: int) -> int:
    """How many cases of many a test takes: usually, and in a run that tests everything."""
    return full if FULL else usual


W3C_ABSENT = (
    f"these W3C tests are not in {W3C}: set SPARQLIVE_W3C to a checkout of https://github.com/w3c/rdf-tests"
)

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
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(_PROFILE)


def examples(number: int, **more: int) -> settings:
    """How many examples a law is tried with: the same ones in every run; in a search 20 times as many.

    `make test` takes two thirds of them.
    """
    count = number * 20 if _PROFILE == "search" else times(-(-number * 2 // 3), number)
    return settings(max_examples=count, **more)  # type: ignore[arg-type]


# A process that is started in the background ignores SIGINT, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

PLACE = pytest.StashKey[int]()
OUTCOMES: Counter[str] = Counter()  # of the W3C tests: "passed", or why they were skipped


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For parallel runs: files that share servers stay in one process, and what takes long begins.

    Two processes have a Spark session: one for the executor, one for whole sessions, streams and jobs; the
    test of clusters starts its own. After Spark come the tests that wait for servers, then the long ones:
    only short ones are left at the end.
    """
    for item in items:
        folders = {*item.path.relative_to(ROOT / "tests").parts}
        if item.get_closest_marker("spark"):
            place = 0
            group = "spark" if "bulk" in folders else "spark-jobs"
            item.add_marker(pytest.mark.xdist_group("cluster" if "test_cluster.py" in folders else group))
        elif {"agent", "sources", "examples"} & folders:
            place = 1
            in_browser = item.path.parent.name == "page"  # they share one
            item.add_marker(pytest.mark.xdist_group("page" if in_browser else item.path.stem))
        else:
            place = 2 if item.get_closest_marker("slow") or item.get_closest_marker("laws") else 3
        item.stash[PLACE] = place
    items.sort(key=lambda item: item.stash[PLACE])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the outcomes of the W3C tests; a refusal says in its sentence what it refuses."""
    if "test_w3c.py::test_evaluation" not in report.nodeid:
        return
    if report.skipped and isinstance(report.longrepr, tuple):
        OUTCOMES[report.longrepr[2].removeprefix("Skipped: ")] += 1
    elif report.when == "call":
        OUTCOMES[getattr(report, "wasxfail", report.outcome)] += 1


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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests, started when the first of them asks for it.

    A process has a classic session, or with SPARQLIVE_SPARK=connect one of Spark Connect: never both.
    """
    from sparqlive.bulk.backends.spark.start import start_session
    from tests.on_spark import SETTINGS, connect_session

    is_connect = os.environ.get("SPARQLIVE_SPARK") == "connect"
    session = connect_session() if is_connect else start_session("local[2]", SETTINGS)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def ahead(
    request: pytest.FixtureRequest, spark: SparkSession
) -> Iterator[dict[str, Future[dict[str, Weights]]]]:
    """What the module's function `computed` gives for each case that is to be tested, two cases at a time.

    Nearly all the time goes into planning, which Spark does on one core a query.
    """
    from tests.on_spark import Work

    calls = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]
    cases = [parameters["case"] for parameters in calls if "case" in parameters]
    pool = ThreadPoolExecutor(2)
    try:
        yield {case.name: pool.submit(request.module.computed, case, Work(spark)) for case in cases}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that memory has no room for stay in the store, as where Spark does the work."""
    monkeypatch.setattr(Registration, "_may_stay", lambda registration, kept, strategy: True)
