"""Hash functions (SPARQL 1.1 §17.4.6): lower-case hexadecimal digests of the UTF-8 form.

Refuses, by an error, everything but strings without a language tag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from sparqlive.sparql.functions.strings import simple_text_of
from sparqlive.sparql.values import Value, string


def digest(algorithm: str) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        # MD5 and SHA-1 are asked for by name in queries; nothing here relies on their strength.
        content = simple_text_of(value).encode()
        return string(hashlib.new(algorithm, content, usedforsecurity=False).hexdigest())

    return apply
