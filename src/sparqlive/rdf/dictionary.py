"""The dictionary: which id stands for which term.

Owns ids. The id of a term is the 64-bit xxHash of its canonical N-Triples form, the same number on every
machine and on the JVM (Spark's `xxhash64`). Two terms never share an id: a term that arrives when its
hash is taken gets another id, kept as an exception. Invariant: `term(id_of(t)) == t`.
"""

from __future__ import annotations

from collections.abc import Callable

import xxhash
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode

Term = NamedNode | BlankNode | Literal

UNDEF = 0
"""No term: an unbound variable."""
DEFAULT_GRAPH = 1
"""The name of the unnamed graph."""
_RESERVED = frozenset({UNDEF, DEFAULT_GRAPH})
_SEED = 42
_CACHED_TERMS = 1_000_000


def hash_of(text: str) -> int:
    """The signed 64-bit hash of a term's canonical N-Triples form."""
    digest = xxhash.xxh64_intdigest(text.encode(), seed=_SEED)
    return digest - (1 << 64) if digest >> 63 else digest


class Dictionary:
    """Ids and terms, both ways. `hash_function` is replaced by tests that force collisions."""

    def __init__(self, hash_function: Callable[[str], int] = hash_of) -> None:
        self._hash = hash_function
        self.terms: dict[int, Term] = {}
        self._exceptions: dict[Term, int] = {}
        # A cache only: what falls out is computed again.
        self.ids: dict[Term | DefaultGraph, int] = {DefaultGraph(): DEFAULT_GRAPH}

    def id_of(self, term: Term | DefaultGraph) -> int:
        """The id of a term, which is entered if it is new."""
        known = self.ids.get(term)
        return known if known is not None else self._enter(term)  # type: ignore[arg-type]

    def find(self, term: Term) -> int | None:
        """The id of a term that is in the dictionary, else None."""
        number = self._exceptions.get(term)
        if number is None:
            number = self._hash(str(term))
        return number if self.terms.get(number) == term else None

    def _enter(self, term: Term) -> int:
        number = self._exceptions.get(term)
        if number is None:
            text = str(term)
            number = self._hash(text)
            attempt = 0
            while number in _RESERVED or self.terms.setdefault(number, term) != term:
                attempt += 1
                number = self._hash(f"{text} {attempt}") if attempt < 8 else number + 1
            if attempt:
                self._exceptions[term] = number
        if len(self.ids) > _CACHED_TERMS:
            self.ids = {DefaultGraph(): DEFAULT_GRAPH}
        self.ids[term] = number
        return number

    def term(self, number: int) -> Term | None:
        """The term of an id; None for UNDEF."""
        return self.terms[number] if number else None

    def __len__(self) -> int:
        return len(self.terms)
