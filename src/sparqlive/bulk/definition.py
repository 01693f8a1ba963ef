"""Definitions of keeping operators for bulk evaluation: how to compute rows from source rows by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparqlive.sparql.algebra import Var
from sparqlive.sparql.values import Value

Row: TypeAlias = tuple[int, ...]
"""Ids of the source's variables; 0 is unbound."""
Made: TypeAlias = tuple[int | str | None, ...]
"""A row of the operator: an id that the source has, or the canonical text of a computed term."""
ValueOf: TypeAlias = Callable[[int], Value | None]


@dataclass(frozen=True)
class Definition:
    """`evaluate` gives the operator's rows over the source's rows of one key, at least one, each once.

    read: the source's variables whose values it asks for. computed: its own variables that hold texts, None
    for unbound; the others hold ids.
    """

    read: tuple[Var, ...]
    computed: frozenset[Var]
    evaluate: Callable[[Sequence[tuple[Row, int]], ValueOf], Iterable[tuple[Made, int]]]
