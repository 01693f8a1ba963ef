"""A master with two workers, and a driver on them, each of which can be killed."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster import MASTER_READY, WORKER_READY, cluster_environment, daemon, free_port
from tests.conftest import ROOT

SETTINGS = """
spark.driver.host             127.0.0.1
spark.driver.memory           512m
spark.executor.memory         512m
spark.executor.cores          1
spark.sql.shuffle.partitions  2
"""
LIFE_SECONDS = 1500.0
"""After this a driver that says nothing new is taken for dead."""


class Cluster:
    """Two workers with a core each. `kill_worker` ends one with all that it runs; another takes its place."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        self.environment = cluster_environment(folder)
        (folder / "conf").mkdir()
        (folder / "conf" / "spark-defaults.conf").write_text(SETTINGS)
        self.environment |= {
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._folder = folder
        self._ending = ending
        self._count = 0
        command = f"exec spark-class org.apache.spark.deploy.master.Master --host 127.0.0.1 --port {port}"
        ending.enter_context(daemon("master", command, folder, self.environment, MASTER_READY))
        self.workers = [self._worker() for _ in range(2)]

    def _worker(self) -> subprocess.Popen[bytes]:
        self._count += 1
        command = (
            "exec spark-class org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --cores 1 --memory 600m "
            f"--work-dir work-{self._count} {self.master}"
        )
        name = f"worker-{self._count}"
        return self._ending.enter_context(daemon(name, command, self._folder, self.environment, WORKER_READY))

    def kill_worker(self, number: int) -> None:
        """The worker, its executors and their Python processes, which are all in its group."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()

    def replace_worker(self, number: int) -> None:
        self.workers[number] = self._worker()

    def driver(self, *given: object) -> Driver:
        command = [sys.executable, "-m", "tests.kills.writer", *map(str, given)]
        return Driver(command, self.environment, self._folder / "driver.log")


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ending:
        yield Cluster(folder, ending)


class Driver:
    """A writer in a process of its own, and the lines that it has said."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                cwd=ROOT,
            )
        self.lines: list[str] = []
        self._ended = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self.kill)  # if its test fails before it does so

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self.lines.append(line.decode().strip())
        self._process.wait()
        self._ended.set()

    def wait_until(self, happens: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LIFE_SECONDS
        while True:
            has_ended = self._ended.is_set()
            if happens():
                return
            assert not has_ended, f"the driver ended before {what}:\n{self.log_end()}"
            assert time.monotonic() < deadline, f"no {what}, but {self.lines[-3:]}:\n{self.log_end()}"
            time.sleep(0.02)

    def wait_for(self, *beginnings: str, after: int = 0) -> None:
        """Waits for a line, after so many, that begins like one of these."""
        self.wait_until(
            lambda: any(line.startswith(beginnings) for line in self.lines[after:]), f"line {beginnings}"
        )

    def epoch(self) -> int:
        """The last epoch that it has acknowledged."""
        return max((int(line.split()[1]) for line in self.lines if line.startswith("epoch ")), default=0)

    def failures(self) -> list[str]:
        """The reasons of attempts that Spark failed."""
        return [line.removeprefix("failed ") for line in self.lines if line.startswith("failed ")]

    def has_ended(self) -> bool:
        return self._ended.is_set()

    def wait_for_end(self) -> None:
        assert self._ended.wait(LIFE_SECONDS), f"the driver does not end: {self.lines[-3:]}"

    def finish(self) -> None:
        """Waits for its end, which must be a good one."""
        self.wait_for_end()
        assert self.lines[-1] == "end", f"the driver failed:\n{self.log_end()}"

    def kill(self) -> None:
        """The driver and its JVM, which is in its group."""
        if not self._ended.is_set():
            os.killpg(self._process.pid, signal.SIGKILL)
        self.wait_for_end()

    def log_end(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
