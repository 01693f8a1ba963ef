"""The commands of docs/guides/cluster.md, on a master and a worker of Spark's standalone mode."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from sparqlive.bulk.backends.spark.java import use_java
from tests.conftest import ROOT

pytestmark = pytest.mark.spark

SPARK_HOME = Path(pyspark.__file__).parent
BLOCK = re.compile(r"^```bash\n# (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE_PORT = "7077"
START_SECONDS = 300
JOB_SECONDS = 900
# The jobs are small and run once: optimised code costs more than it saves.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DRIVER_OPTIONS = "-Dspark.ui.enabled=false -Dspark.sql.codegen.wholeStage=false"


@pytest.mark.timeout(4 * JOB_SECONDS)
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    environment = cluster_environment(tmp_path)
    commands = page_commands(free_port())
    run("job", commands["store"] + commands["job"], tmp_path, environment)
    with (
        daemon("master", commands, tmp_path, environment, "I have been elected leader"),
        daemon("worker", commands, tmp_path, environment, "Successfully registered with master"),
    ):
        printed = run("python", commands["settings"] + commands["python"], tmp_path, environment)
        assert printed.endswith("epoch 3, by spark and rebuild: 2 rows, checked\n")
        printed = run("submit", commands["settings"] + commands["submit"], tmp_path, environment)
        assert printed.endswith("epoch 5, by spark and rebuild: 2 rows, checked\n")
    executors = list((tmp_path / "spark-work").glob("app-*/*/stderr"))
    assert len(executors) >= 2, "each job had an executor at the worker"
    assert list((tmp_path / "shared" / "runs").rglob("*.parquet")), "runs are behind the link"
    assert (tmp_path / "store" / "catalog.sqlite").exists()


def cluster_environment(folder: Path) -> dict[str, str]:
    """This interpreter and its own Spark first on the path, and ports that nobody else has."""
    use_java()
    if not (SPARK_HOME / "bin" / "spark-class").exists() or not shutil.which("bash"):
        pytest.skip("a standalone cluster needs bash, and spark-class of the pyspark package")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    places = [str(Path(sys.executable).parent), str(SPARK_HOME / "bin"), os.environ.get("PATH", os.defpath)]
    return kept | {
        "PATH": os.pathsep.join(places),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": DRIVER_OPTIONS,
        "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
        "SPARK_MASTER_WEBUI_PORT": "0",
        "SPARK_WORKER_WEBUI_PORT": "0",
    }


def page_commands(port: int) -> dict[str, str]:
    """The page's blocks by the word of their first line, with a free port in place of the page's."""
    page = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8")
    return {name: text.replace(PAGE_PORT, str(port)) for name, text in BLOCK.findall(page)}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def started(
    name: str, command: str, folder: Path, environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A shell with what it starts, all of which ends with the block; its output is in a file."""
    output = folder / f"{name}.out"
    with (
        output.open("wb") as out,
        (folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(
            ["bash", "-ec", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process, output
        finally:
            # The shell's group is its own: no other process is in it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run(name: str, command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints; it must end well."""
    with started(name, command, folder, environment) as (process, output):
        try:
            code: int | str = process.wait(JOB_SECONDS)
        except subprocess.TimeoutExpired:
            code = f"nothing in {JOB_SECONDS} seconds"
    assert code == 0, f"{name} ended with {code}:\n{log_end(name, folder)}"
    return output.read_text(encoding="utf-8")


@contextmanager
def daemon(
    name: str, commands: Mapping[str, str], folder: Path, environment: Mapping[str, str], ready: str
) -> Iterator[None]:
    """A master or worker that is ready for use: its log says so."""
    with started(name, commands["settings"] + commands[name], folder, environment) as (process, _):
        until = time.monotonic() + START_SECONDS
        log = folder / f"{name}.log"
        while ready not in log.read_text(encoding="utf-8", errors="replace"):
            code = process.poll()
            assert code is None, f"the {name} ended with {code}:\n{log_end(name, folder)}"
            assert time.monotonic() < until, f"the {name} is not ready:\n{log_end(name, folder)}"
            time.sleep(0.2)
        yield


def log_end(name: str, folder: Path) -> str:
    return (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-4000:]
