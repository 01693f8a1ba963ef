"""Definitions of operators that store their source: how bulk computes rows from the source rows of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparqlive.sparql.algebra import Var
from sparqlive.sparql.values import Value

Row: TypeAlias = tuple[int, ...]
"""Ids of the source's variables; 0 is unbound."""
Made: TypeAlias = tuple[int | str | None, ...]
"""A row of the operator: ids that the source has, or canonical texts of computed terms."""
ValueOf: TypeAlias = Callable[[int], Value | None]


@dataclass(frozen=True)
class Definition:
    """`evaluate` returns the operator's rows over the source rows of one key, at least one row, each once.

    read: the source's variables whose values it needs. computed: its own variables that hold texts, None for
    unbound; the others hold ids.
    """

    read: tuple[Var, ...]
    computed: frozenset[Var]
    evaluate: Callable[[Sequence[tuple[Row, int]], ValueOf], Iterable[tuple[Made, int]]]
