"""Runs the pipeline twice, with a change of the shop in between: `python -m examples.declarative FOLDER`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import sparqlive
from sparqlive.bulk.backends.spark.java import use_java

HERE = Path(__file__).parent
SPECIFICATION = """
name: offers
storage: {storage}
libraries:
  - glob:
      include: transformations/offers.py
configuration:
  example.shop: {folder}/shop.store
  example.offers: {folder}/offers.store
  spark.sql.shuffle.partitions: "1"
  # Spark gives its Python processes 10 s to start, which a busy machine exceeds.
  spark.sql.pipelines.maxFlowRetryAttempts: "20"
"""
CHEAP = "SELECT ?item ?price { ?item <http://example.org/price> ?price FILTER(?price < 10) }"


def price(item: str, number: int) -> str:
    return f'<http://example.org/{item}> <http://example.org/price> "{number}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'  # noqa: E501


def run(folder: Path) -> None:
    """Has Spark run the pipeline, whose files are beside its specification."""
    shutil.copytree(HERE / "transformations", folder / "transformations", dirs_exist_ok=True)
    specification = folder / "spark-pipeline.yml"
    storage = (folder / "storage").as_uri()
    specification.write_text(SPECIFICATION.format(folder=folder, storage=storage), encoding="utf-8")
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    command = Path(sysconfig.get_path("scripts")) / "spark-pipelines"
    # Spark's own catalog forgets tables when it ends; Hive's, in files of the folder, does not.
    catalog = ["--conf", "spark.sql.catalogImplementation=hive"]
    subprocess.run([command, "run", *catalog, "--spec", specification], cwd=folder, check=True)


def offers(folder: Path) -> list[str]:
    """What the pipeline wrote."""
    with sparqlive.open(folder / "offers.store", read_only=True) as session:
        return sorted(f"{quad.subject} {quad.object}" for quad in session.quads())


def main(folder: Path) -> list[list[str]]:
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for insert, delete in (
        (price("tea", 4) + price("coffee", 12), ""),
        (price("coffee", 7), price("tea", 4)),
    ):
        with sparqlive.open(folder / "shop.store") as session:
            session.view("cheap", CHEAP)
            session.apply(insert=insert, delete=delete)
        run(folder)
        found.append(offers(folder))
        print(*found[-1], sep="\n")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
