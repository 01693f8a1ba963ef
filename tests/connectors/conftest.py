"""One S3 server, one HDFS cluster, one Kafka broker and one Spark session for all tests of connectors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.connectors.servers import BUCKET, hdfs_cluster, jars, kafka_broker, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.hadoop.fs.s3a.path.style.access": "true",
}


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a bucket, whose server and keys are in the environment."""
    with s3_server(tmp_path_factory.mktemp("s3")) as environment:
        os.environ.update(environment)
        yield f"s3a://{BUCKET}"


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(scope="session")
def spark_settings(s3: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of a Spark with all connectors; also in a file, for drivers in other processes."""
    settings = SPARK_SETTINGS | {
        "spark.jars": ",".join(map(str, jars("spark"))),
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": os.environ["AWS_DEFAULT_REGION"],
    }
    folder = tmp_path_factory.mktemp("conf")
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    os.environ["SPARK_CONF_DIR"] = str(folder)
    return settings


@pytest.fixture(scope="session")
def spark(spark_settings: dict[str, str]) -> Iterator[SparkSession]:
    from sparqlive.bulk.backends.spark.start import start_session
    from tests.on_spark import SETTINGS

    session = start_session("local[2]", SETTINGS | spark_settings)
    yield session
    session.stop()


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder for this test on S3 or HDFS."""
    return f"{request.getfixturevalue(request.param)}/{tmp_path.name}"
