"""How much memory a session may use for quads and views, and which plans still fit.

Estimates use sizes that are known without reading anything: quads by predicate, rows of stored
relations. Invariant: estimating reads no quads and no rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sparqlive.errors import Error
from sparqlive.numbers import MOST, short_repr
from sparqlive.plan import operators as op
from sparqlive.plan.rewrites.walk import operators_of
from sparqlive.quads.current import Quads
from sparqlive.runtime.memory import machine_memory
from sparqlive.sparql.algebra import Term, Var

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)
_UNKNOWN_MACHINE = 8 << 30
_BYTES_PER_PLAN = 50_000
"""The code of a plan."""
_BYTES_PER_VALUE = 8
_BYTES_PER_STATE_ROW = 150
"""A row of an operator's state is a Python object."""


def memory_limit(value: int | str | None, name: str = "memory") -> int:
    """The bytes of a setting such as 500000000, "4GB" or "512 MiB"; by default half of the machine's."""
    if value is None:
        return (machine_memory() or _UNKNOWN_MACHINE) // 2
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is not None and (found[2] or not found[3]):
        unit = found[2].upper()
        size = float(found[1]) * (_BINARY_UNITS[unit] if found[3] else _UNITS[unit])
        if size <= MOST:
            return int(size)
    raise Error(
        f'{name} must be a number of bytes or a size such as "4GB" or "512MiB", not {short_repr(value)}.'
    )


class Budget:
    """The limit, and estimates of what plans need."""

    def __init__(self, limit: int, quads: Quads, id_of: Callable[[Term], int]) -> None:
        self.limit = limit
        self._quads = quads
        self._id_of = id_of

    def fits(self, used: int, needed: int) -> bool:
        return used + needed <= self.limit

    def needed(self, plan: op.Operator, stored_rows: int | None = None) -> int:
        """Bytes for the rows of a plan, and what its operators store.

        stored_rows: the rows of all relations of the plan, if they are known.
        """
        largest = 0
        for operator in operators_of(plan):
            if isinstance(operator, op.Scan):
                predicate = operator.positions[1]
                number = None if isinstance(predicate, Var) else self._id_of(predicate)
                largest = max(largest, self._quads.size_about(number))
            elif isinstance(operator, op.Names | op.Nodes):
                largest = max(largest, self._quads.size)
        states = sum(isinstance(operator, op.Keeping) for operator in operators_of(plan))
        row = _BYTES_PER_VALUE * (len(plan.variables) + 1) + states * _BYTES_PER_STATE_ROW
        return _BYTES_PER_PLAN + row * (largest if stored_rows is None else stored_rows)
