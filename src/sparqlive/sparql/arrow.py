"""Rows as an Arrow table: a text column per variable, and a weight.

Terms are in N-Triples syntax; null means unbound. Separate from `results`, because importing Arrow is slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from sparqlive.sparql.algebra import Term

WEIGHT = "_weight"


def schema(variables: Sequence[str]) -> pa.Schema:
    """Returns the schema: the variables and the weight."""
    return pa.schema([*((name, pa.string()) for name in variables), pa.field(WEIGHT, pa.int64(), False)])


def table(variables: Sequence[str], weights: Mapping[tuple[Term | None, ...], int]) -> pa.Table:
    """Returns the rows with their weights."""
    columns = [
        pa.array([None if row[place] is None else str(row[place]) for row in weights], pa.string())
        for place in range(len(variables))
    ]
    columns.append(pa.array(list(weights.values()), pa.int64()))
    return pa.Table.from_arrays(columns, schema=schema(variables))
