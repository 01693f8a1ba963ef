"""JSON-LD contexts that are here, and need not be fetched: which IRI a term stands for, and its values.

Owns tables of the terms that well-known contexts define, one file a context. In a table, `terms` are plain;
under `@id`, `@vocab` or a datatype stand those whose values are such; each list is of a prefix, and a term
that is called otherwise there is in `context`, as JSON-LD writes it. A context that is not here whole is not
here at all: a term that is missing would lose data without a word.
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
    """The contexts by their addresses."""
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
