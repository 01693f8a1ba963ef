"""Reads Parquet files as DataFrames, from addresses that Spark must take literally.

Spark reads a path as a glob pattern, and does not decode `%20` in it. Invariant: an address stands for one
file, whatever characters its folders contain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from urllib.request import url2pathname

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

_LOCAL = "file://"
_GLOB = re.compile(r"[*?{}\[\]\\]")
"""Characters that would make a path a pattern."""


def parquet(session: SparkSession, addresses: Sequence[str], schema: StructType | None = None) -> DataFrame:
    """Reads files. With a schema, Spark runs no job to infer it."""
    paths = [_path(address) for address in addresses]
    plain = [path for path in paths if not _GLOB.search(path)]
    # With patterns turned off, Spark reads all paths of a call once per path that looks like a pattern.
    # (Escaping the characters does not help: a pattern must not contain a colon.)
    calls = [*([plain] if plain else []), *([path] for path in paths if _GLOB.search(path))]
    reader = session.read.option("__globPaths__", "false")
    reader = reader if schema is None else reader.schema(schema)
    return reduce(lambda one, other: one.union(other), [reader.parquet(*call) for call in calls])


def _path(address: str) -> str:
    return _LOCAL + url2pathname(address.removeprefix(_LOCAL)) if address.startswith(_LOCAL) else address
