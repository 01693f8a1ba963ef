"""Bundled JSON-LD contexts, which need not be fetched.

Owns tables of the terms of well-known contexts, one file per context. In a table, `terms` lists plain terms,
and `@id`, `@vocab` or a datatype lists terms with such values, each by prefix. A term whose local name
differs is in `context`, in JSON-LD syntax. A table must be complete: a missing term would silently lose data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

Context = dict[str, Any]


@lru_cache(maxsize=1)
def bundled() -> Mapping[str, Context]:
    """Returns the contexts by their addresses."""
    here = [file for file in files(__package__).iterdir() if file.name.endswith(".json")]
    tables = [json.loads(file.read_text("utf-8")) for file in here]
    return {address: _context(table) for table in tables for address in table["addresses"]}


def _context(table: Mapping[str, Any]) -> Context:
    found: Context = dict(table["context"])
    for kind, prefixes in table.items():
        if kind in ("addresses", "context"):
            continue
        for prefix, lines in prefixes.items():
            for term in " ".join(lines).split():
                iri = f"{prefix}:{term}"
                found[term] = iri if kind == "terms" else {"@id": iri, "@type": kind}
    return found
