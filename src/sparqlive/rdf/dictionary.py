"""The dictionary: maps terms to ids, and ids to terms.

The id of a term is the 64-bit xxHash of its canonical N-Triples form, the same number on every machine and on
the JVM (Spark's `xxhash64`). Two terms never share an id: if its hash is taken, a new term gets another id
(`other_id`), recorded as an exception. Invariant: `term(id_of(t)) == t`.

Terms are stored as text: strings are cheaper than objects, and the garbage collector does not visit them.
Terms that come one by one are entries of a dict; terms that come by columns stay columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, Protocol, TypeVar
from weakref import ref

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyoxigraph import BaseDirection, BlankNode, DefaultGraph, Literal, NamedNode, Quad

from sparqlive.rdf.leaving import Leaving, Request
from sparqlive.rdf.term_columns import (
    OTHER,
    SAME,
    UNKNOWN,
    Gathered,
    Ids,
    Marks,
    TermColumns,
    is_in,
    large,
    match,
    settled,
)
from sparqlive.runtime.tuning import DEFAULT, Tuning

Term = NamedNode | BlankNode | Literal
T = TypeVar("T")

UNDEF = 0
"""No term: an unbound variable."""
DEFAULT_GRAPH = 1
"""The id of the unnamed graph."""
_RESERVED = frozenset({UNDEF, DEFAULT_GRAPH})
_SEED = 42
_HALF, _WHOLE = 1 << 63, 1 << 64
_BYTES_PER_TERM = 150
"""Of a term that came on its own: its id, its entry in a dict, and its text without the characters."""
_SAMPLE = 256

_NO_IDS: tuple[dict[int, str], Ids] = ({}, np.empty(0, np.int64))

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def hash_of(text: str) -> int:
    """The signed 64-bit hash of a term's canonical N-Triples form."""
    digest = xxhash.xxh64_intdigest(text.encode(), _SEED)
    return digest if digest < _HALF else digest - _WHOLE


def other_id(text: str, attempt: int) -> int:
    """The id to try for a term whose hash is taken; attempts count from 1.

    An attacker can create many texts with the same xxHash, even with suffixes appended. BLAKE2 resists this,
    so that the total number of attempts stays linear in the number of terms.
    """
    return int.from_bytes(blake2b(f"{attempt} {text}".encode(), digest_size=8).digest(), "big", signed=True)


def literal_parts(text: str) -> tuple[str, str]:
    """The value of a literal in canonical N-Triples form, and what follows it: its language or datatype."""
    end = text.rindex('"')
    value = text[1:end]
    return (_ESCAPE.sub(_unescaped, value) if "\\" in value else value), text[end + 1 :]


def term_of(text: str) -> Term:
    """Parses the canonical N-Triples form of a term."""
    if text[0] == "<":
        return NamedNode(text[1:-1])
    if text[0] == "_":
        return BlankNode(text[2:])
    value, kind = literal_parts(text)
    if not kind:
        return Literal(value)
    if kind[0] == "@":
        language, _, direction = kind[1:].partition("--")
        return Literal(value, language=language, direction=BaseDirection(direction) if direction else None)
    return Literal(value, datatype=_datatype(kind))


@lru_cache
def _datatype(kind: str) -> NamedNode:
    return NamedNode(kind[3:-1])


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])


class Older(Protocol):
    """Finds terms that a dictionary does not hold itself: in a store's runs, or in another dictionary."""

    def text_of(self, number: int, /) -> str | None:
        """The text of an id, or None."""
        ...

    def match(self, numbers: Ids, texts: pa.LargeStringArray, marks: Marks, /) -> None:
        """Marks those of the sorted ids, given with texts, that are known and not marked yet."""
        ...

    def gather(self, wanted: Gathered, /) -> None:
        """Adds the texts of ids that are known and not gathered yet."""
        ...


class _Terms(dict[int, Term]):
    """Some of a dictionary's terms by id; those that are not in it are read from their text."""

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__()
        self._dictionary = ref(dictionary)  # a cycle would be left to the garbage collector, for each query

    def __missing__(self, number: int) -> Term | None:
        dictionary = self._dictionary()
        assert dictionary is not None
        return dictionary.term(number)


class Dictionary:
    """Ids and terms, in both directions.

    `older` finds terms that are not in memory (in a store's runs, or in a dictionary that this one extends),
    and `older_exception` finds the id of an exception there. Tests replace `hash_function` to force
    collisions. A started journal records each new entry and exception.

    Queries read beside the writer: a term that moves from one place to another is in its new place before it
    leaves the old one, and lookups go through the places in that order.

    A dictionary of terms that come and go gives them back (`give_back`, `sweep`). A reader of ids
    beside the writer holds a `request`, or extends the dictionary.
    """

    def __init__(
        self,
        hash_function: Callable[[str], int] = hash_of,
        older: Older | None = None,
        older_exception: Callable[[str], int | None] | None = None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._hash = hash_function
        self.tuning = tuning
        self._texts: dict[int, str] = {}
        """Terms that were entered one by one."""
        self._new_columns: list[TermColumns] = []
        """Terms that were entered by columns since the journal started."""
        self._columns: list[TermColumns] = []
        """Older terms by columns."""
        self._sorted_ids: tuple[dict[int, str], Ids] = _NO_IDS
        """`_texts` and its ids, as of the last time they were needed."""
        self.exceptions: dict[str, int] = {}
        self._older = older
        self._older_exception = older_exception
        self.moves = 0
        """How often terms were dropped from memory; between two moves, entries are only added."""
        self._journal: list[tuple[int, str]] | None = None
        self._new_exceptions: list[tuple[str, int]] = []
        # Only caches, and small, because the garbage collector visits the terms in them.
        self.ids: dict[Term | DefaultGraph, int] = {DefaultGraph(): DEFAULT_GRAPH}
        self.terms = _Terms(self)
        self._former_terms: dict[int, Term] = {}
        """The cache `terms` before it was last full: terms that are read again come back from here."""
        self._read_texts: dict[int, str] = {}
        """Texts that were looked up one by one; a dictionary shares them with those that extend it."""
        self._leaving: Leaving | None = None
        self._request: Request | None = None

    def id_of(self, term: Term | DefaultGraph) -> int:
        """The id of a term; enters a new term."""
        known = self.ids.get(term)
        return self.id_of_uncached(term) if known is None else known

    def id_of_uncached(self, term: Term | DefaultGraph) -> int:
        """Like `id_of`, for a term that is not in the cache `ids`."""
        if len(self.ids) > self.tuning.cached_terms:
            self.ids = {DefaultGraph(): DEFAULT_GRAPH}
        if type(self._older) is Dictionary and (known := self._find_older(self._older, term)) is not None:
            self.ids[term] = known
            return known
        text = str(term)
        number = self.ids[term] = self._enter(self._hash(text), text)
        self._remember(number, term)  # a delta is often read right after: no text is parsed again
        return number

    def _find_older(self, older: Dictionary, term: Term | DefaultGraph) -> int | None:
        """The id of a term in the dictionary that this one extends; the term stays there for a request."""
        if self._request is None:
            return older.find_often(term)
        with self._request.lock:
            known = older.find_often(term)
            if known is not None:
                self._request.found.add(known)
        return known

    def extended(self) -> Dictionary:
        """Returns a dictionary on top of this one; new terms are entered only there.

        It is made when a request captures what it reads (see `request`).
        """
        made = Dictionary(self._hash, self, self._exception, self.tuning)
        made._read_texts = self._read_texts
        made._request = self.request()
        return made

    def request(self) -> Request | None:
        """Keeps the terms that are here now readable until the request is gone; None if they stay anyway."""
        older = self._older.request() if type(self._older) is Dictionary else None
        return older if self._leaving is None else self._leaving.request(older)

    def text_of(self, number: int) -> str | None:
        """The canonical N-Triples form of an id's term, or None."""
        known = self._texts.get(number) or self._read_texts.get(number)
        return self._read_text(number) if known is None else known

    def _read_text(self, number: int) -> str | None:
        """The text of an id that was not entered one by one, or None; one that is found is cached."""
        known = self._text_elsewhere(number)
        if known is not None and type(self._older) is not Dictionary:
            if len(self._read_texts) >= self.tuning.cached_values:
                self._read_texts.clear()
            self._read_texts[number] = known
        return known

    def _text_elsewhere(self, number: int) -> str | None:
        """The text of an id that was not entered one by one, or None."""
        for part in (*self._new_columns, *self._columns):
            if (known := part.text(number)) is not None:
                return known
        if self._leaving is not None:  # a sweep may move a term from here back to the texts meanwhile
            known = self._leaving.texts.get(number) or self._texts.get(number)
            if known is not None:
                return known
        return None if self._older is None else self._older.text_of(number)

    def known(self, numbers: Ids) -> TermColumns:
        """The terms of those of the sorted, distinct ids that are known."""
        wanted = Gathered(numbers)
        self.gather(wanted)
        return wanted.known()

    def match(self, numbers: Ids, texts: pa.LargeStringArray, marks: Marks) -> None:
        """Marks those of the sorted ids, given with texts, that are known and not marked yet."""
        singles = self._texts
        found = np.flatnonzero(is_in(numbers, self._ids_of(singles)) & (marks == UNKNOWN))
        given = texts.take(pa.array(found)).to_pylist()
        for place, number, text in zip(found.tolist(), numbers[found].tolist(), given, strict=True):
            marks[place] = SAME if singles[number] == text else OTHER
        for part in (*self._new_columns, *self._columns):
            match(part, numbers, texts, marks)
        if leaving := self.leaving():
            match(TermColumns.of(list(leaving.items())), numbers, texts, marks)
        if self._older is not None:
            self._older.match(numbers, texts, marks)

    def _ids_of(self, singles: dict[int, str]) -> Ids:
        known, ids = self._sorted_ids
        if known is not singles or len(ids) != len(singles):
            ids = np.sort(np.fromiter(singles, np.int64, len(singles)))
            self._sorted_ids = singles, ids
        return ids

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
        return number if self.text_of(number) == text else None

    def find_often(self, term: Term | DefaultGraph) -> int | None:
        """Like `find`, for a term that is looked for again and again, such as a constant of a query."""
        known = self.ids.get(term)
        if (
            known is None
            and (known := self.find(term)) is not None
            and len(self.ids) < self.tuning.cached_terms
        ):
            self.ids[term] = known
        return known

    def enter(self, text: str) -> int:
        """Enters a term by its canonical N-Triples form; returns its id."""
        return self._enter(self._hash(text), text)

    def _enter(self, number: int, text: str) -> int:
        """Enters a term by its text and the hash of it; returns its id."""
        return number if self._claim(number, text) else self._enter_exception(text)

    def enter_columns(self, hashes: Ids, texts: Any) -> Ids:
        """Enters many terms, given as an Arrow array with their hashes (or ids, for exceptions).

        Returns their ids. A term may occur several times. Few terms are entered one by one.
        """
        if len(hashes) < self.tuning.column_rows:
            known, pairs = self._texts, zip(hashes.tolist(), texts.to_pylist(), strict=True)
            ids = (
                number if known.get(number) == text or self._claims(number, text) else self.enter(text)
                for number, text in pairs
            )
            return np.fromiter(ids, np.int64, len(hashes))
        return self.enter_together(hashes, texts)

    def enter_together(self, hashes: Ids, texts: Any) -> Ids:
        """Like `enter_columns`, by columns however few there are."""
        if not len(hashes):
            return hashes
        order = np.argsort(hashes, kind="stable")
        numbers, texts = hashes[order], large(texts).take(pa.array(order))
        is_first = np.append(True, numbers[1:] != numbers[:-1])
        firsts = np.flatnonzero(is_first)
        given = numbers[firsts], texts.take(pa.array(firsts))
        marks = self._marks(*given)
        if self._request is not None:
            with self._request.lock:  # a term that was known a moment ago stays, or is entered again
                self._request.found.update(given[0][marks == SAME].tolist())
                marks = self._marks(*given)
        new = firsts[marks == UNKNOWN]
        if len(new):
            self._add_columns(TermColumns(numbers[new], texts.take(pa.array(new))))
        # Of an id that stands for another text, and of one that occurs again with another text.
        group = np.cumsum(is_first) - 1
        doubtful = (marks == OTHER)[group]
        again = np.flatnonzero(~is_first)
        same_id = texts.take(pa.array(firsts[group[again]]))
        is_other = pc.not_equal(texts.take(pa.array(again)), same_id)
        doubtful[again] |= is_other.to_numpy(zero_copy_only=False)
        for place in np.flatnonzero(doubtful):
            numbers[place] = self.enter(texts[int(place)].as_py())
        found = np.empty_like(numbers)
        found[order] = numbers
        return found

    def _claims(self, number: int, text: str) -> bool:
        """Claims an id for a text that is not an exception; returns whether the id stands for it."""
        return text not in self.exceptions and self._claim(number, text)

    def _marks(self, numbers: Ids, texts: pa.LargeStringArray) -> Marks:
        """What is known of sorted ids and texts. Reserved ids stand for no text; exceptions have others."""
        marks = np.full(len(numbers), UNKNOWN, np.int8)
        self.match(numbers, texts, marks)
        for number in _RESERVED:
            marks[numbers == number] = OTHER
        if self.exceptions:
            names = pa.array(list(self.exceptions), pa.large_string())
            is_exception = pc.is_in(texts, value_set=names).to_numpy(zero_copy_only=False)
            marks[is_exception & (marks == UNKNOWN)] = OTHER
        return marks

    def _add_columns(self, part: TermColumns) -> None:
        if type(self._older) is Dictionary:
            self._read_texts = {}  # its own terms come first
        if self._journal is None:
            self._columns = settled([*self._columns, part])
        else:
            self._new_columns = [*self._new_columns, part]

    def _claim(self, number: int, text: str) -> bool:
        """Claims a free id for a text; returns whether the id stands for this text."""
        known = self._texts.get(number)
        if known is None:
            known = self._text_elsewhere(number) if self._request is None else self._find_text(number)
            if known is None and number not in _RESERVED:
                known = self._texts[number] = text
                if self._journal is not None:
                    self._journal.append((number, text))
        return known == text

    def _find_text(self, number: int) -> str | None:
        """The text of an id that is not entered here; its term stays for a request."""
        assert self._request is not None
        with self._request.lock:
            known = self._text_elsewhere(number)
            if known is not None:
                self._request.found.add(number)
        return known

    def _enter_exception(self, text: str) -> int:
        known = self._exception(text)
        if known is not None:
            return known
        attempt = 1
        while not self._claim(number := other_id(text, attempt), text):
            attempt += 1
        self.exceptions[text] = number
        if self._journal is not None:
            self._new_exceptions.append((text, number))
        return number

    def text(self, number: int) -> str:
        """The canonical N-Triples form of an id's term."""
        known = self._texts.get(number) or self._read_texts.get(number) or self._read_text(number)
        if known is None:
            raise KeyError(number)
        return known

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """The canonical N-Triples forms of many ids."""
        known = self._texts
        try:
            return [known[number] for number in numbers]
        except KeyError:
            if len(numbers) < self.tuning.column_texts:
                return [self.text(number) for number in numbers]
        distinct, places = np.unique(np.array(numbers, np.int64), return_inverse=True)
        texts = self.column(distinct).to_pylist()
        return [texts[place] for place in places.tolist()]

    def column(self, numbers: Ids) -> pa.LargeStringArray:
        """The canonical N-Triples forms of sorted, distinct ids."""
        wanted = Gathered(numbers)
        self.gather(wanted)
        return wanted.texts()

    def gather(self, wanted: Gathered) -> None:
        """Adds the texts of ids that are known and not gathered yet."""
        texts = self._texts
        wanted.add_singles(texts)
        for part in (*self._new_columns, *self._columns):
            wanted.add(part)
        if self._leaving is not None:
            wanted.add_singles(self._leaving.texts)
            if texts is not self._texts:  # a sweep came meanwhile
                wanted.add_singles(self._texts)
        if self._older is not None:
            self._older.gather(wanted)

    def term(self, number: int) -> Term | None:
        """The term of an id; None for UNDEF."""
        known = self.terms.get(number)
        if known is not None or number == UNDEF:
            return known
        older = self._older
        if type(older) is Dictionary and not self.has_own(number):
            known = older.terms.get(number)
            return older.term(number) if known is None else known  # which keeps it for others too
        known = self._former_terms.get(number)
        if known is None:
            known = term_of(self.text(number))
        self._remember(number, known)
        return known

    def terms_in(self, row: Iterable[int]) -> Iterable[Term | None]:
        """The terms of a few ids; None for UNDEF. Mostly they are in a cache: then this is all it takes."""
        older = self._older
        if type(older) is not Dictionary or self.has_own_terms:
            return map(self.term, row)
        return map(older.terms.__getitem__, row)

    def terms_of(self, numbers: Ids) -> list[Term | None]:
        """The terms of many ids; None for UNDEF. Those that are in no cache are decoded by columns."""
        older = self._older
        cached = older if type(older) is Dictionary else self  # which has no ids of terms entered here
        distinct, places = np.unique(numbers, return_inverse=True)
        found = np.fromiter(map(cached.terms.get, distinct.tolist()), object, len(distinct))
        unknown = np.fromiter((term is None for term in found), bool, len(found))
        missing = np.flatnonzero(unknown & (distinct != UNDEF))
        if len(missing):
            texts = self.column(distinct[missing]).to_pylist()
            found[missing] = np.fromiter(map(term_of, texts), object, len(texts))
            made = dict(zip(distinct[missing].tolist(), found[missing], strict=True))
            if cached is not self and self.has_own_terms:
                made = {number: term for number, term in made.items() if not self.has_own(number)}
            if len(cached.terms) > self.tuning.cached_terms:
                cached._former_terms, cached.terms = cached.terms, _Terms(cached)
            cached.terms.update(made)
        return list(found[places].tolist())

    def _remember(self, number: int, term: Any) -> None:
        if len(self.terms) > self.tuning.cached_terms:
            self._former_terms, self.terms = self.terms, _Terms(self)
        self.terms[number] = term

    @property
    def has_own_terms(self) -> bool:
        """Whether this dictionary has entered any id itself."""
        return bool(self._texts or self._columns or self._new_columns)

    def has_own(self, number: int) -> bool:
        """Whether this dictionary may have entered an id itself, and not found it in the one it extends."""
        return number in self._texts or bool(self._new_columns) or bool(self._columns)

    def quads(self, numbers: Iterable[tuple[int, int, int, int]]) -> Iterator[Quad]:
        """Decodes quads from the ids of subject, predicate, object and graph."""
        terms_in = self.terms_in
        for quad in numbers:
            subject, predicate, object_ = terms_in(quad[:3])
            if quad[3] == DEFAULT_GRAPH:  # which Quad takes several times longer to read than to assume
                yield Quad(subject, predicate, object_)  # type: ignore[arg-type]
            else:
                yield Quad(subject, predicate, object_, self.term(quad[3]))  # type: ignore[arg-type]

    def triples(self, numbers: Iterable[tuple[int, ...]]) -> Iterator[Quad]:
        """Decodes quads of the unnamed graph from the ids of subject, predicate and object."""
        terms_in = self.terms_in
        for row in numbers:
            yield Quad(*terms_in(row))  # type: ignore[arg-type]

    # Terms of a store

    def load(
        self,
        older: Older,
        entries: Iterable[tuple[int, str]],
        exceptions: Iterable[tuple[str, int]],
    ) -> None:
        """Adds the content of a store: terms that `older` finds, entries, and exceptions."""
        self._older = older
        self._texts.update(entries)
        self.exceptions.update(exceptions)

    def move(self, older: Older, entries: Iterable[tuple[int, str]]) -> None:
        """Drops terms from memory that `older` finds now, except for `entries` and the journal."""
        self.moves += 1
        self._older = older
        self._texts = dict(entries) | dict(self._journal or ())
        self._sorted_ids = _NO_IDS
        self._columns = []

    def move_journal(self) -> None:
        """Drops the terms in the journal from memory, which `older` finds now, and starts an empty one."""
        self.moves += 1
        gone = {number for number, _ in self._journal or ()}
        self._texts = {number: text for number, text in self._texts.items() if number not in gone}
        self._sorted_ids = _NO_IDS
        self._new_columns = []
        self.start_journal()

    def load_exceptions(self, exceptions: Mapping[str, int]) -> None:
        """Adds exceptions that workers created and that are not in the store yet."""
        self.exceptions.update(exceptions)
        self._new_exceptions += exceptions.items()

    def unload(self, older: Older, exceptions: Mapping[str, int]) -> None:
        """Takes terms back that only a former `older` found, and their exceptions."""
        self._older = older
        self.exceptions = {t: number for t, number in self.exceptions.items() if t not in exceptions}
        self._new_exceptions = [entry for entry in self._new_exceptions if entry[0] not in exceptions]
        self.forget_found()

    def start_journal(self) -> None:
        """Starts an empty journal of new entries and exceptions."""
        self._journal, self._new_exceptions = [], []
        if self._new_columns:
            self._columns = settled([*self._columns, *self._new_columns])
            self._new_columns = []

    def end_journal(self) -> None:
        """Ends the journal, because its record is no longer needed."""
        self.start_journal()
        self._journal = None

    def journal(self) -> tuple[Sequence[tuple[int, str]], Sequence[TermColumns], Sequence[tuple[str, int]]]:
        """The journal: entries one by one and by columns, and exceptions."""
        return list(self._journal or ()), self._new_columns, list(self._new_exceptions)

    def new_entries(self) -> Iterable[tuple[int, str]]:
        """The entries in the journal."""
        return chain(self._journal or (), *(part.pairs() for part in self._new_columns))

    def entries(self) -> Iterable[tuple[int, str]]:
        """The entries in memory."""
        return chain(self._texts.items(), *(part.pairs() for part in self.columns()))

    def single_entries(self) -> Mapping[int, str]:
        """The entries in memory that came one by one. Between two moves, entries are only added."""
        return self._texts

    def columns(self) -> Sequence[TermColumns]:
        """The entries in memory that came by columns."""
        return (*self._new_columns, *self._columns)

    def leaving(self) -> Mapping[int, str]:
        """The entries that only requests may still read. Between two moves, they stay the same."""
        return {} if self._leaving is None else self._leaving.texts

    def __len__(self) -> int:
        """The number of terms in memory."""
        return self.entered + len(self.leaving())

    @property
    def entered(self) -> int:
        """The number of terms in memory without those that are leaving."""
        return len(self._texts) + sum(map(len, self.columns()))

    @property
    def nbytes(self) -> int:
        """Memory in bytes: exact for columns, estimated from a sample for terms that came one by one."""
        sample = list(islice(self._texts.values(), _SAMPLE))
        characters = sum(map(len, sample)) / len(sample) if sample else 0
        singles = (len(self._texts) + len(self.leaving())) * (_BYTES_PER_TERM + characters)
        return int(singles) + sum(part.nbytes for part in self.columns())

    # Giving terms back

    @property
    def is_swept(self) -> bool:
        """Whether `sweep` gives terms back."""
        return self._leaving is not None

    @property
    def keeps_all(self) -> bool:
        """Whether no term is ever given back, here or in the dictionaries that this one extends."""
        return self._leaving is None and (type(self._older) is not Dictionary or self._older.keeps_all)

    def give_back(self) -> None:
        """Has `sweep` give terms back from now on. A request's dictionary becomes that of a view by this."""
        lock = None if self._request is None else self._request.lock
        self._request = None
        self._leaving = Leaving(lock)

    def sweep(self, used: Ids) -> None:
        """Gives back the terms whose ids are not among `used`, sorted, and that no request can read.

        Exceptions stay, and the terms whose hashes they have: otherwise a term would get two ids. Called
        while nothing is captured or entered, and no journal is kept.
        """
        leaving = self._leaving
        assert leaving is not None and self._journal is None
        kept = [*self.exceptions.values(), *map(self._hash, self.exceptions)]
        used = np.union1d(used, np.array(kept, np.int64)) if kept else used
        numbers = np.fromiter(self._texts, np.int64, len(self._texts))
        gone = {number: self._texts[number] for number in numbers[~is_in(numbers, used)].tolist()}
        texts = {number: text for number, text in self._texts.items() if number not in gone}
        texts |= leaving.returned(used)
        columns = []
        for part in self.columns():
            is_used = is_in(part.ids, used)
            if not is_used.all():
                gone |= part.chosen(~is_used).pairs()
                part = part.chosen(is_used)
            columns.append(part)
        leaving.take(gone)
        self._texts, self._columns = texts, settled(part for part in columns if len(part))
        self._sorted_ids = _NO_IDS
        self.forget_found()
        singles = np.fromiter(texts, np.int64, len(texts))
        leaving.settle(np.sort(np.concatenate([singles, *(part.ids for part in columns)])))

    def forget_found(self) -> None:
        """Forgets ids and terms that were looked up, because some may have been given back."""
        self.moves += 1
        self.ids, self.terms, self._former_terms = {DefaultGraph(): DEFAULT_GRAPH}, _Terms(self), {}
        self._read_texts.clear()
