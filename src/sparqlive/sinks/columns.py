"""Rows of a view as an Arrow table: a text column a variable, terms in N-Triples syntax, unbound as null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from sparqlive.views import TermRow

WEIGHT = "_weight"


def schema(variables: Sequence[str]) -> pa.Schema:
    """The variables and the weight."""
    return pa.schema([*((name, pa.string()) for name in variables), pa.field(WEIGHT, pa.int64(), False)])


def table(variables: Sequence[str], weights: Mapping[TermRow, int]) -> pa.Table:
    """The rows with their weights."""
    columns = [
        pa.array([None if row[place] is None else str(row[place]) for row in weights], pa.string())
        for place in range(len(variables))
    ]
    columns.append(pa.array(list(weights.values()), pa.int64()))
    return pa.Table.from_arrays(columns, schema=schema(variables))
