"""Writes the catalogue with Spark: each task generates some products and writes them to one file."""

from __future__ import annotations

import gzip
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from examples.ecommerce.products import frame, product

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRODUCTS_A_FILE = 10_000


def generate(spark: SparkSession, products: int, folder: Path, seed: int = 1) -> int:
    """Writes `folder`/*.nt.gz (a path that all workers reach); returns the number of triples."""
    folder.mkdir(parents=True, exist_ok=True)
    files = max(spark.sparkContext.defaultParallelism, -(-products // PRODUCTS_A_FILE))
    write = partial(_write_file, folder, files=files, products=products, seed=seed)
    return sum(spark.sparkContext.parallelize(range(files), files).map(write).collect())


def _write_file(folder: Path, number: int, files: int, products: int, seed: int) -> int:
    """Writes one file, whole; a repeated task writes the same file again."""
    first, end = number * products // files, (number + 1) * products // files
    lines = [line for place in range(first, end) for line in product(place, products, seed)]
    if number == 0:
        lines.extend(frame(products))
    path = folder / f"part-{number:05d}.nt.gz"
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with gzip.open(beside, "wt", encoding="utf-8", compresslevel=3) as stream:
        stream.writelines(f"{line}\n" for line in lines)
    beside.rename(path)
    return len(lines)
