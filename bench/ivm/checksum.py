"""The checksum of a result: of its rows as a bag, so that engines may give rows in any order.

Numbers are compared by value: engines write 2.50, 2.5 and 25E-1. Decimals are rounded to 12 fraction digits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

_XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBER = re.compile(rf'"([^"]*)"\^\^<{re.escape(_XSD)}(integer|decimal|double|float|int|long)>')


def checksum(rows: Iterable[Sequence[str | None]]) -> str:
    """Of rows of terms in N-Triples syntax; None is unbound. Rows that occur twice count twice."""
    lines = sorted("\t".join(_term(term) for term in row) for row in rows)
    return f"{len(lines)}:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:12]}"


def _term(term: str | None) -> str:
    if term is None:
        return "UNDEF"
    match = _NUMBER.fullmatch(term)
    if match is None:
        return term.replace(f"^^<{_XSD}string>", "")
    value = round(Decimal(match[1]), 12).normalize()
    return format(value + 0, "f")
