"""Fetches by Maven what the tests of connectors need: connectors of Spark, a Kafka broker, an HDFS cluster.

Run by make with the interpreter of .venv-connectors, whose PySpark decides the versions. sparqlive needs none
of them. If Maven or its repository cannot be reached, this script says so, and the tests are skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

PLACE = Path(__file__).parent.parent / ".connectors"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
SCALA = "2.13"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sparqlive</groupId><artifactId>connectors-{name}</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}
    </dependency>"""
# The poms of Spark name a repository of their own, which may be out of reach: what they need is listed here.
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
KAFKA = "3.9.2"


def main() -> int:
    if shutil.which("mvn") is None:
        print("Maven (mvn) is not installed: the tests of connectors are skipped.")
        return 0
    for name, wanted in artifacts().items():
        folder = PLACE / name
        if (folder / "pom.xml").exists() and (folder / "pom.xml").read_text() == pom(name, wanted):
            continue
        print(f"For the tests of connectors: fetching {', '.join(wanted)} by Maven.", flush=True)
        if not fetch(folder, name, wanted):
            print("Maven could not fetch them: the tests that need them are skipped.")
    return 0


def artifacts() -> dict[str, list[str]]:
    """What each folder has: `spark` what a Spark session gets; the others are servers."""
    spark, hadoop = version("pyspark"), shipped_version("hadoop-client-api")
    series = ".".join(spark.split(".")[:2])
    return {
        "spark": [
            f"org.apache.hadoop:hadoop-aws:{hadoop}",
            f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{spark}",
            # For delegation tokens. Mirrors lack later versions, and the connector calls the same methods.
            f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:4.0.0",
            f"org.apache.kafka:kafka-clients:{KAFKA}",
            "org.apache.commons:commons-pool2:2.13.1",
            f"io.delta:delta-spark_{series}_{SCALA}:{version('delta-spark')}",
        ],
        "hdfs": [
            f"org.apache.hadoop:hadoop-client-minicluster:{hadoop}",
            "org.junit.jupiter:junit-jupiter-api:5.13.4",  # which it needs to start
            "org.slf4j:slf4j-simple:1.7.36",
        ],
        "kafka": [f"org.apache.kafka:kafka_{SCALA}:{KAFKA}"],
    }


def fetch(folder: Path, name: str, wanted: list[str]) -> bool:
    """Copies artifacts, with what they need and PySpark lacks, into a folder; the pom comes last."""
    unfinished = folder.with_name(f"{name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / "pom.xml").write_text(pom(name, wanted))
    command = ["mvn", "-q", "-B", COPY, "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"]
    done = subprocess.run(command, cwd=unfinished, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        return False
    if name == "spark":
        shipped = {stem(jar) for jar in shipped_jars()}
        for jar in unfinished.glob("*.jar"):
            if stem(jar) in shipped:
                jar.unlink()
    unfinished.rename(folder)
    return True


def pom(name: str, wanted: list[str]) -> str:
    lines = [
        DEPENDENCY.format(*artifact.split(":"), ALONE if artifact.startswith("org.apache.spark:") else "")
        for artifact in wanted
    ]
    return POM.format(name=name, dependencies="\n".join(lines))


def shipped_jars() -> list[Path]:
    """The jars of the pyspark package."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return sorted(Path(found.origin).parent.glob("jars/*.jar"))


def shipped_version(artifact: str) -> str:
    jar = next(jar for jar in shipped_jars() if stem(jar) == artifact)
    return jar.stem.removeprefix(f"{artifact}-")


def stem(jar: Path) -> str:
    """The name of a jar without its version."""
    return re.sub(r"-\d[^/]*$", "", jar.stem)


if __name__ == "__main__":
    sys.exit(main())
