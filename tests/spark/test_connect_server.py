"""A server of Spark Connect at `sc://…`: loads, views, streams, and a client that is killed.

Only `make test-spark` runs these tests: they start Spark once more.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparqlive
from tests.cluster import cluster_environment, daemon, free_port
from tests.conftest import ROOT
from tests.spark.test_follow import change, quads, write

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.environ.get("SPARQLIVE_SPARK") != "connect", reason="run by `make test-spark`"),
]
FILES = 6
SLOW_START = """#!/bin/sh
# Exceeds what the server waits for, the first time that it starts a worker for a stream.
case "$*" in *foreach_batch_worker*) mkdir {mark} 2>/dev/null && sleep 12 ;; esac
exec {python} "$@"
"""
# Follows the stream; with a number of an epoch, stays there until it is killed.
CLIENT = """
import sys
import sparqlive

store, address, folder, last = sys.argv[1:]
with sparqlive.open(store, spark=address) as session:
    session.load(f"{folder}.nt", batch=("load", 0))
    view = session.view("all", "SELECT ?s ?n { ?s <http://x/p> ?o BIND(STRLEN(?o) AS ?n) }", strategy="spark")
    assert view.to_spark().dtypes == [("s", "string"), ("n", "bigint")]
    spark = view.to_spark().sparkSession

    def seen(epoch):
        print(epoch.number, flush=True)
        if epoch.number == int(last):
            sys.stdin.read()

    rows = spark.readStream.schema("op STRING, s STRING, p STRING, o STRING").option("maxFilesPerTrigger", 1)
    session.follow(rows.json(folder), once=True, on_epoch=seen).wait()
    assert view.to_spark().count() == len(view)
    session.check()
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("grpc")
    python = tmp_path / "python"
    python.write_text(SLOW_START.format(mark=tmp_path / "slow", python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    environment = cluster_environment(tmp_path) | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": f"{ROOT}/src"}
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
    }
    options = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    class_name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = f"exec spark-submit --master 'local[2]' --class {class_name} {options}"
    with daemon("server", command, tmp_path, environment, "Spark Connect server started at"):
        yield f"sc://127.0.0.1:{port}"


def test_a_killed_client_goes_on_where_it_was(address: str, tmp_path: Path) -> None:
    for number in range(FILES):
        write(tmp_path / "in", f"{number}.json", change("+", number + 1), change("-", number))
    (tmp_path / "in.nt").write_text('<http://x/0> <http://x/p> "0" .\n', encoding="utf-8")
    command = [sys.executable, "-c", CLIENT, str(tmp_path / "store"), address, str(tmp_path / "in")]

    # Not the token of the session that other tests have in this process: with it, a client asks for TLS.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}

    def client(last: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, str(last)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env=environment,
            text=True,
        )

    with client(3) as killed:
        assert killed.stdout is not None
        assert [killed.stdout.readline() for _ in (2, 3)] == ["2\n", "3\n"], shlex.join(command)
        killed.send_signal(signal.SIGKILL)
    assert (tmp_path / "slow").is_dir(), "the first worker was too slow"
    with client(0) as done:
        assert done.stdout is not None
        seen = done.stdout.read().splitlines()
    assert (done.returncode, seen) == (0, [str(number) for number in range(4, FILES + 2)])
    with sparqlive.open(tmp_path / "store") as session:
        assert (session.epoch, set(session.quads())) == (FILES + 1, quads(FILES))
        session.check()
