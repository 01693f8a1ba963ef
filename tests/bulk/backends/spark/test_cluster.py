"""The commands of docs/CLUSTER.md, on a master and a worker of Spark's standalone mode."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster import JOB_SECONDS, MASTER_READY, WORKER_READY, cluster_environment, daemon, free_port, run
from tests.conftest import ROOT
from tests.on_spark import CLASSIC_ONLY, LONG

pytestmark = [pytest.mark.spark, CLASSIC_ONLY]

BLOCK = re.compile(r"^```bash\n# (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE_PORT = "7077"


@LONG
@pytest.mark.timeout(4 * JOB_SECONDS)
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    environment = cluster_environment(tmp_path)
    commands = page_commands(free_port())
    run("job", commands["store"] + commands["job"], tmp_path, environment)
    with (
        daemon("master", commands["settings"] + commands["master"], tmp_path, environment, MASTER_READY),
        daemon("worker", commands["settings"] + commands["worker"], tmp_path, environment, WORKER_READY),
    ):
        printed = run("python", commands["settings"] + commands["python"], tmp_path, environment)
        assert printed.endswith("epoch 3, by spark and rebuild: 2 rows, checked\n")
        printed = run("submit", commands["settings"] + commands["submit"], tmp_path, environment)
        assert printed.endswith("epoch 5, by spark and rebuild: 2 rows, checked\n")
    executors = list((tmp_path / "spark-work").glob("app-*/*/stderr"))
    assert len(executors) >= 2, "each job had an executor at the worker"
    assert list((tmp_path / "shared" / "runs").rglob("*.parquet")), "runs are behind the link"
    assert (tmp_path / "store" / "catalog.sqlite").exists()


def page_commands(port: int) -> dict[str, str]:
    """The page's blocks by the word of their first line, with a free port in place of the page's."""
    page = (ROOT / "docs" / "CLUSTER.md").read_text(encoding="utf-8")
    return {name: text.replace(PAGE_PORT, str(port)) for name, text in BLOCK.findall(page)}
