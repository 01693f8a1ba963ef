"""Servers on this machine, for tests: S3 (moto), HDFS (Hadoop's mini cluster), Kafka (one broker)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparqlive.bulk.backends.spark.java import use_java
from tests.cluster import JAVA_OPTIONS, daemon, free_port
from tests.conftest import ROOT
from tests.waiting import wait_until

JARS = ROOT / ".connectors"
BUCKET = "shop"
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def jars(name: str) -> list[Path]:
    """The jars that `setup/connectors.py` fetched under a name; without them, the test is skipped."""
    found = sorted((JARS / name).glob("*.jar"))
    if not found:
        pytest.skip(f"the jars for {name} were not fetched, which needs Maven: make test-connectors")
    return found


def java(name: str, main: str, *given: str) -> str:
    """A command that runs a class of the jars under a name, with little memory."""
    use_java()
    return " ".join(
        [
            f"exec '{os.environ['JAVA_HOME']}/bin/java' -Xmx512m",
            JAVA_OPTIONS,
            "-cp",
            f"'{JARS / name}/*'",
            main,
            *given,
        ]
    )


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """An S3 server with a bucket; what the environment of its clients must say."""
    port = free_port()
    command = f"exec {sys.executable} -m moto.server -H 127.0.0.1 -p {port}"
    with daemon("s3", command, folder, {**os.environ}, "Running on"):
        import boto3

        environment = KEYS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        keys = KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"]
        client = boto3.client("s3", KEYS["AWS_DEFAULT_REGION"], None, True, None,
                              environment["AWS_ENDPOINT_URL"], *keys)  # fmt: skip
        client.create_bucket(Bucket=BUCKET)
        yield environment


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """A name node and a data node; the address of their root."""
    jars("hdfs")
    details = folder / "details.json"
    command = java(
        "hdfs", "org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes 1",
        f"-writeDetails {details}", "-D dfs.replication=1",
    ).replace("-cp", f"-Dtest.build.data={folder}/data -cp")  # fmt: skip
    with daemon("hdfs", command, folder, {**os.environ}, ""):
        wait_until(details.exists)
        wait_until(lambda: bool(details.read_text().strip()))
        port = json.loads(details.read_text())["namenode_port"]
        yield f"hdfs://127.0.0.1:{port}"


_BROKER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


@contextmanager
def kafka_broker(folder: Path) -> Iterator[str]:
    """A broker that is its own controller; its address."""
    jars("kafka")
    port, controller = free_port(), free_port()
    settings = folder / "server.properties"
    settings.write_text(_BROKER.format(port=port, controller=controller, folder=folder))
    identity = "MkU3OEVBNTcwNTJENDM2Qg"
    formatting = java("kafka", "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings))
    subprocess.run(["bash", "-c", formatting], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with daemon("kafka", java("kafka", "kafka.Kafka", str(settings)), folder, {**os.environ}, ""):
        _wait_for_broker(f"127.0.0.1:{port}")
        yield f"127.0.0.1:{port}"


def _wait_for_broker(address: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def answers() -> bool:
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    wait_until(answers)
