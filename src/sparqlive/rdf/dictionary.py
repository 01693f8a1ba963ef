"""The dictionary: maps terms to ids, and ids to terms.

The id of a term is the 64-bit xxHash of its canonical N-Triples form, the same number on every machine and on
the JVM (Spark's `xxhash64`). Two terms never share an id: if its hash is taken, a new term gets another id
(`other_id`), recorded as an exception. Invariant: `term(id_of(t)) == t`.

Terms are stored as text: strings are cheaper than objects, and the garbage collector does not visit them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import xxhash
from pyoxigraph import BaseDirection, BlankNode, DefaultGraph, Literal, NamedNode, Quad

Term = NamedNode | BlankNode | Literal

UNDEF = 0
"""No term: an unbound variable."""
DEFAULT_GRAPH = 1
"""The id of the unnamed graph."""
_RESERVED = frozenset({UNDEF, DEFAULT_GRAPH})
_SEED = 42
_CACHED_TERMS = 10_000

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def hash_of(text: str) -> int:
    """The signed 64-bit hash of a term's canonical N-Triples form."""
    digest = xxhash.xxh64_intdigest(text.encode(), seed=_SEED)
    return digest - (1 << 64) if digest >> 63 else digest


def other_id(text: str, attempt: int) -> int:
    """The id to try for a term whose hash is taken; attempts count from 1.

    An attacker can create many texts with the same xxHash, even with suffixes appended. BLAKE2 resists this,
    so that the total number of attempts stays linear in the number of terms.
    """
    return int.from_bytes(blake2b(f"{attempt} {text}".encode(), digest_size=8).digest(), "big", signed=True)


def term_of(text: str) -> Term:
    """Parses the canonical N-Triples form of a term."""
    if text[0] == "<":
        return NamedNode(text[1:-1])
    if text[0] == "_":
        return BlankNode(text[2:])
    end = text.rindex('"')
    value, kind = text[1:end], text[end + 1 :]
    if "\\" in value:
        value = _ESCAPE.sub(_unescaped, value)
    if not kind:
        return Literal(value)
    if kind[0] == "@":
        language, _, direction = kind[1:].partition("--")
        return Literal(value, language=language, direction=BaseDirection(direction) if direction else None)
    return Literal(value, datatype=NamedNode(kind[3:-1]))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])


class Dictionary:
    """Ids and terms, in both directions.

    `older` finds the text of an id among terms that are not in memory (a store's runs, or a dictionary that
    this one extends), and `older_exception` finds the id of an exception there. Tests replace `hash_function`
    to force collisions. A started journal records each new entry and exception.
    """

    def __init__(
        self,
        hash_function: Callable[[str], int] = hash_of,
        older: Callable[[int], str | None] | None = None,
        older_exception: Callable[[str], int | None] | None = None,
    ) -> None:
        self._hash = hash_function
        self._texts: dict[int, str] = {}
        self.exceptions: dict[str, int] = {}
        self._older = older
        self._older_exception = older_exception
        self.moves = 0
        """How often terms were dropped from memory; between two moves, entries are only added."""
        self._journal: list[tuple[int, str]] | None = None
        self._new_exceptions: list[tuple[str, int]] = []
        # Only caches, and small, because the garbage collector visits the terms in them.
        self.ids: dict[Term | DefaultGraph, int] = {DefaultGraph(): DEFAULT_GRAPH}
        self._terms: dict[int, Term] = {}

    def id_of(self, term: Term | DefaultGraph) -> int:
        """The id of a term; enters a new term."""
        known = self.ids.get(term)
        if known is not None:
            return known
        if len(self.ids) > _CACHED_TERMS:
            self.ids = {DefaultGraph(): DEFAULT_GRAPH}
        number = self.ids[term] = self.enter(str(term))
        return number

    def extended(self) -> Dictionary:
        """Returns a dictionary on top of this one; new terms are entered only there."""
        return Dictionary(self._hash, self._text_of, self._exception)

    def _text_of(self, number: int) -> str | None:
        known = self._texts.get(number)
        return self._older(number) if known is None and self._older is not None else known

    def _exception(self, text: str) -> int | None:
        known = self.exceptions.get(text)
        return self._older_exception(text) if known is None and self._older_exception is not None else known

    def find(self, term: Term | DefaultGraph) -> int | None:
        """The id of a term, or None; enters nothing."""
        if term in self.ids:
            return self.ids[term]
        text = str(term)
        exception = self._exception(text)
        number = self._hash(text) if exception is None else exception
        return number if self._text_of(number) == text else None

    def enter(self, text: str) -> int:
        """Enters a term by its canonical N-Triples form; returns its id."""
        number = self._hash(text)
        if number not in _RESERVED and self._claim(number, text):
            return number
        return self._enter_exception(text)

    def enter_columns(self, hashes: npt.NDArray[np.int64], texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Enters many terms whose hashes (or ids, for exceptions) are already known; returns their ids."""
        known, enter = self._texts, self.enter
        ids = [
            number if known.get(number) == text or self._claims(number, text) else enter(text)
            for number, text in zip(hashes.tolist(), texts, strict=True)
        ]
        return np.array(ids, dtype=np.int64)

    def _claims(self, number: int, text: str) -> bool:
        """Claims an id for a text that is not an exception; returns whether the id stands for it."""
        return number not in _RESERVED and text not in self.exceptions and self._claim(number, text)

    def _claim(self, number: int, text: str) -> bool:
        """Claims a free id for a text; returns whether the id stands for this text."""
        known = self._text_of(number)
        if known is None:
            known = self._texts[number] = text
            if self._journal is not None:
                self._journal.append((number, text))
        return known == text

    def _enter_exception(self, text: str) -> int:
        known = self._exception(text)
        if known is not None:
            return known
        attempt = 1
        while (number := other_id(text, attempt)) in _RESERVED or not self._claim(number, text):
            attempt += 1
        self.exceptions[text] = number
        if self._journal is not None:
            self._new_exceptions.append((text, number))
        return number

    def text(self, number: int) -> str:
        """The canonical N-Triples form of an id's term."""
        known = self._text_of(number)
        if known is None:
            raise KeyError(number)
        return known

    def term(self, number: int) -> Term | None:
        """The term of an id; None for UNDEF."""
        known = self._terms.get(number)
        if known is not None or number == UNDEF:
            return known
        if len(self._terms) > _CACHED_TERMS:
            self._terms = {}
        known = self._terms[number] = term_of(self.text(number))
        return known

    def quads(self, numbers: Iterable[tuple[int, int, int, int]]) -> Iterator[Quad]:
        """Decodes quads from the ids of subject, predicate, object and graph."""
        term = self.term
        for subject, predicate, object_, graph in numbers:
            name = DefaultGraph() if graph == DEFAULT_GRAPH else term(graph)
            yield Quad(term(subject), term(predicate), term(object_), name)  # type: ignore[arg-type]

    # Terms of a store

    def load(
        self,
        older: Callable[[int], str | None],
        entries: Iterable[tuple[int, str]],
        exceptions: Iterable[tuple[str, int]],
    ) -> None:
        """Adds the content of a store: terms that `older` finds, entries, and exceptions."""
        self._older = older
        self._texts.update(entries)
        self.exceptions.update(exceptions)

    def move(self, older: Callable[[int], str | None], entries: Iterable[tuple[int, str]]) -> None:
        """Drops terms from memory that `older` finds now, except for `entries` and the journal."""
        self.moves += 1
        self._older = older
        self._texts = dict(entries) | dict(self._journal or ())

    def load_exceptions(self, exceptions: Mapping[str, int]) -> None:
        """Adds exceptions that workers created and that are not in the store yet."""
        self.exceptions.update(exceptions)
        self._new_exceptions += exceptions.items()

    def start_journal(self) -> None:
        """Starts an empty journal of new entries and exceptions."""
        self._journal, self._new_exceptions = [], []

    def journal(self) -> tuple[list[tuple[int, str]], list[tuple[str, int]]]:
        """The entries and exceptions in the journal."""
        return list(self._journal or ()), list(self._new_exceptions)

    def entries(self) -> Iterable[tuple[int, str]]:
        """The entries in memory."""
        return self._texts.items()

    def __len__(self) -> int:
        """The number of terms in memory."""
        return len(self._texts)
