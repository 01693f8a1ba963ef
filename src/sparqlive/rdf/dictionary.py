"""The dictionary: which id stands for which term.

Owns ids. The id of a term is the 64-bit xxHash of its canonical N-Triples form, the same number on every
machine and on the JVM (Spark's `xxhash64`). Two terms never share an id: a term that arrives when its
hash is taken gets another id (`other_id`), kept as an exception. Invariant: `term(id_of(t)) == t`.

Terms are held as text: strings are cheaper than objects, and the garbage collector never looks at them.
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
"""The name of the unnamed graph."""
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
    """The id to try for a term whose hash is taken: attempts count from 1.

    Anybody can make texts that share one xxHash, also with whatever is appended to them. BLAKE2 cannot be
    steered, so the attempts at all terms together stay linear in the number of terms.
    """
    return int.from_bytes(blake2b(f"{attempt} {text}".encode(), digest_size=8).digest(), "big", signed=True)


def term_of(text: str) -> Term:
    """The term of a canonical N-Triples form."""
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
    """Ids and terms, both ways.

    `older` finds the text of an id among terms that are not in memory (a store's runs, or a dictionary that
    this one extends), and `older_exception` the id of an exception there. `hash_function` is replaced by
    tests that force collisions. Once a journal is started, it gets each entry and exception that is new.
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
        self._journal: list[tuple[int, str]] | None = None
        self._new_exceptions: list[tuple[str, int]] = []
        # Caches only, and small: the garbage collector walks over the terms in them.
        self.ids: dict[Term | DefaultGraph, int] = {DefaultGraph(): DEFAULT_GRAPH}
        self._terms: dict[int, Term] = {}

    def id_of(self, term: Term | DefaultGraph) -> int:
        """The id of a term, which is entered if it is new."""
        known = self.ids.get(term)
        if known is not None:
            return known
        if len(self.ids) > _CACHED_TERMS:
            self.ids = {DefaultGraph(): DEFAULT_GRAPH}
        number = self.ids[term] = self.enter(str(term))
        return number

    def extended(self) -> Dictionary:
        """A dictionary that knows these terms too, and keeps what is entered to itself."""
        return Dictionary(self._hash, self._known, self._exception)

    def _known(self, number: int) -> str | None:
        known = self._texts.get(number)
        return self._older(number) if known is None and self._older is not None else known

    def _exception(self, text: str) -> int | None:
        known = self.exceptions.get(text)
        return self._older_exception(text) if known is None and self._older_exception is not None else known

    def find(self, term: Term | DefaultGraph) -> int | None:
        """The id of a term, if it has one; nothing is entered."""
        if term in self.ids:
            return self.ids[term]
        text = str(term)
        exception = self._exception(text)
        number = self._hash(text) if exception is None else exception
        return number if self._known(number) == text else None

    def enter(self, text: str) -> int:
        """The id of a term given by its canonical N-Triples form."""
        number = self._hash(text)
        if number not in _RESERVED and self._claim(number, text):
            return number
        return self._enter_exception(text)

    def enter_columns(self, hashes: npt.NDArray[np.int64], texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """The ids of many terms, whose hashes (or ids, if they are exceptions) are known already."""
        known, enter = self._texts, self.enter
        ids = [
            number if known.get(number) == text or self._claims(number, text) else enter(text)
            for number, text in zip(hashes.tolist(), texts, strict=True)
        ]
        return np.array(ids, dtype=np.int64)

    def _claims(self, number: int, text: str) -> bool:
        """Whether an id stands for a text from now on, that is not known as an exception."""
        return number not in _RESERVED and text not in self.exceptions and self._claim(number, text)

    def _claim(self, number: int, text: str) -> bool:
        """Whether the id stands for this text, from now on if it stood for none."""
        known = self._known(number)
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
        known = self._known(number)
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
        """Quads that are given by the ids of subject, predicate, object and graph."""
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
        """Takes in what a store has: terms that are found by `older`, entries, and exceptions."""
        self._older = older
        self._texts.update(entries)
        self.exceptions.update(exceptions)

    def move(self, older: Callable[[int], str | None], entries: Iterable[tuple[int, str]]) -> None:
        """What was in memory is found by `older` now, but for some entries and those of the journal."""
        self._older = older
        self._texts = dict(entries) | dict(self._journal or ())

    def load_exceptions(self, exceptions: Mapping[str, int]) -> None:
        """Takes in exceptions that are made elsewhere and not in the store yet."""
        self.exceptions.update(exceptions)
        self._new_exceptions += exceptions.items()

    def start_journal(self) -> None:
        """From now on new entries and exceptions are noted, until they are saved."""
        self._journal, self._new_exceptions = [], []

    def journal(self) -> tuple[list[tuple[int, str]], list[tuple[str, int]]]:
        """The entries and the exceptions that were noted."""
        return list(self._journal or ()), list(self._new_exceptions)

    def entries(self) -> Iterable[tuple[int, str]]:
        """What is in memory."""
        return self._texts.items()

    def __len__(self) -> int:
        """The number of terms in memory."""
        return len(self._texts)
