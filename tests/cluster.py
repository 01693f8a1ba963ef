"""A standalone cluster of Spark on this machine: its processes, which end with the test that started them."""

from __future__ import annotations

import os
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

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 300
JOB_SECONDS = 900
# The jobs are small and run once: optimised code costs more than it saves.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MASTER_READY = "I have been elected leader"
WORKER_READY = "Successfully registered with master"
DRIVER_OPTIONS = "-Dspark.ui.enabled=false -Dspark.sql.codegen.wholeStage=false"


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
    name: str, command: str, folder: Path, environment: Mapping[str, str], ready: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is ready for use: its log says so."""
    with started(name, command, folder, environment) as (process, _):
        until = time.monotonic() + START_SECONDS
        log = folder / f"{name}.log"
        while ready not in log.read_text(encoding="utf-8", errors="replace"):
            code = process.poll()
            assert code is None, f"the {name} ended with {code}:\n{log_end(name, folder)}"
            assert time.monotonic() < until, f"the {name} is not ready:\n{log_end(name, folder)}"
            time.sleep(0.2)
        yield process


def log_end(name: str, folder: Path) -> str:
    return (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-4000:]
