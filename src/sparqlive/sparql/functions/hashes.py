"""Hash functions (SPARQL 1.1 §17.4.6): lower-case hexadecimal digests of the UTF-8 form.

Anything other than a string without a language tag is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from sparqlive.sparql.functions.strings import simple_text_of
from sparqlive.sparql.values import Value, string


def digest(algorithm: str) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        # Queries use MD5 and SHA-1 by name; nothing here relies on their strength.
        content = simple_text_of(value).encode()
        return string(hashlib.new(algorithm, content, usedforsecurity=False).hexdigest())

    return apply
