"""Parquet files as DataFrames, by addresses that Spark takes as they are.

Spark reads a path as a pattern of names, and does not decode `%20` in it. Invariant: an address stands for
one file, whatever characters its folders have.
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
"""Characters by which a path would be a pattern."""


def parquet(session: SparkSession, addresses: Sequence[str], schema: StructType | None = None) -> DataFrame:
    """The rows of files. With a schema, Spark runs no job to find it out."""
    paths = [_path(address) for address in addresses]
    plain = [path for path in paths if not _GLOB.search(path)]
    # Without patterns, Spark takes all paths of a call once for each of them that looks like one. (To escape
    # the characters is no way: in a pattern, a colon is not allowed.)
    calls = [*([plain] if plain else []), *([path] for path in paths if _GLOB.search(path))]
    reader = session.read.option("__globPaths__", "false")
    reader = reader if schema is None else reader.schema(schema)
    return reduce(lambda one, other: one.union(other), [reader.parquet(*call) for call in calls])


def _path(address: str) -> str:
    return _LOCAL + url2pathname(address.removeprefix(_LOCAL)) if address.startswith(_LOCAL) else address
