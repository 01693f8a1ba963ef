"""Starts a Spark session with the settings that the executor needs. Only the composition root does this.

Workers run the same interpreter as the driver. Local sessions run small jobs without adaptive execution,
whose stages would cost more than they save, and shuffle into one partition per core.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sparqlive.bulk.backends.spark.java import use_java
from sparqlive.bulk.backends.spark.noise import quiet_java
from sparqlive.errors import Error
from sparqlive.runtime.memory import machine_memory

QUIET = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
"""The option of a driver's Java that keeps noise out of its log."""
_SETTINGS = {
    # Every aggregate of a task takes a page at once. With Spark's pages of up to 64 MB, a plan with about
    # thirty aggregates would not run in the default memory.
    "spark.buffer.pageSize": "2m",
    # Weights are summed in many groups. For these, the small map in front of the large one only costs time.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_MOST_MEMORY = 30 << 30
"""Beyond about this size, the JVM no longer compresses its references."""
_REMOTE_CORES = 8
"""Assumed number of parallel tasks for a cluster that does not report its size."""
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUIET,
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
}


def _driver_memory() -> dict[str, str]:
    """Sets a quarter of the machine's memory, at least 1 GiB, unless the environment or a file sets it.

    A local Spark does all of its work in the driver's JVM, which has 1 GiB by default.
    """
    whole = machine_memory()
    if whole is None or "SPARK_DRIVER_MEMORY" in os.environ or _is_configured("spark.driver.memory"):
        return {}
    return {"spark.driver.memory": f"{max(1 << 10, min(_MOST_MEMORY, whole // 4) >> 20)}m"}


def _is_configured(name: str) -> bool:
    """Returns whether Spark's own configuration file sets an option."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    if folder is None:
        return False
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(re.split(r"[\s=]", line.strip(), maxsplit=1)[0] == name for line in lines)


def is_connect(thing: object) -> bool:
    """Returns whether a session or DataFrame belongs to Spark Connect."""
    return ".connect." in type(thing).__module__


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """Creates a DataFrame of a few rows. Date-times without a time zone stay without one.

    Spark Connect does not accept an empty table's own types.
    """
    schema = from_arrow_schema(table.schema)
    return session.createDataFrame(table if table.num_rows else [], schema)


def use_this_python(session: SparkSession) -> None:
    """Lets the workers of a local session run this interpreter, unless another one is configured.

    They would take the first `python3` on the path. If the environment is not activated, that one lacks
    sparqlive.
    """
    if is_connect(session) or "PYSPARK_PYTHON" in os.environ:
        return
    is_chosen = session.conf.get("spark.pyspark.python", None) is not None
    if not is_chosen and master_of(session).startswith("local"):
        session.sparkContext.pythonExec = sys.executable


def cores_of(session: SparkSession) -> int:
    """Returns the number of tasks that run at the same time."""
    if not is_connect(session):
        return int(session.sparkContext.defaultParallelism)
    cores = re.fullmatch(r"local(?:\[(\d+|\*).*\])?", master_of(session))
    if cores is None:
        return int(session.conf.get("spark.default.parallelism", str(_REMOTE_CORES)) or _REMOTE_CORES)
    return os.cpu_count() or 1 if cores[1] == "*" else int(cores[1] or 1)


def master_of(session: SparkSession) -> str:
    """Returns the address of the session's master; with Spark Connect, the master of the server."""
    return str(session.conf.get("spark.master", "") or "")


def is_running() -> bool:
    """Returns whether this process already has a session; `start_session` then returns that one."""
    return SparkSession.getActiveSession() is not None


def start_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Starts a session on the given master; `settings` override the ones set here.

    An address `sc://…` is a Spark Connect server, which has settings of its own.
    """
    if master.startswith("sc://"):
        return _connected(master)
    running = SparkSession.getActiveSession()
    if running is not None and is_connect(running):
        return running  # its server has settings of its own
    if not is_running():
        use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = dict(_SETTINGS)
    cores = re.fullmatch(r"local(?:\[(\d+|\*).*\])?", master)
    if cores is not None:
        number = os.cpu_count() or 1 if cores[1] == "*" else int(cores[1] or 1)
        chosen |= _LOCAL_SETTINGS | _driver_memory() | {"spark.sql.shuffle.partitions": str(number)}
    builder = SparkSession.builder.master(master).appName("sparqlive")
    for name, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(name, value)
    if is_running() or cores is None:
        return builder.getOrCreate()
    with quiet_java():
        return builder.getOrCreate()


def _connected(address: str) -> SparkSession:
    """Returns the process's session on a Spark Connect server, or a new one."""
    try:
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession as RemoteSession
    except ImportError as error:
        raise Error(
            f"Spark Connect needs packages that are missing ({error}): pip install 'sparqlive[connect]'."
        ) from error
    if SparkContext._active_spark_context is not None and "SPARK_LOCAL_REMOTE" not in os.environ:
        raise Error(
            f"This process has a classic Spark session already, so it cannot use the server at {address}. "
            f"Stop that session, or use another process."
        )
    running = RemoteSession.getActiveSession()
    if running is None:
        return SparkSession.builder.remote(address).getOrCreate()
    known: Any = running.client._builder
    if known.endpoint == DefaultChannelBuilder(address).endpoint:
        return running  # type: ignore[return-value]
    return SparkSession.builder.remote(address).create()
