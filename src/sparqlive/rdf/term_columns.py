"""Terms as columns: their ids in order, and their texts.

Many terms are held and compared this way: a column costs less memory than Python strings in a dict, and terms
are looked up by array operations. Ids are hashes, spread evenly over 64 bits, so that their top bits tell
nearly where an id is. Invariant: ids are strictly increasing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ids = npt.NDArray[np.int64]
Marks = npt.NDArray[np.int8]

UNKNOWN, SAME, OTHER = range(3)
"""What is known of an id and a text: nothing, that the id stands for this text, or for another one."""

_IDS_PER_BUCKET = 4
_HALF = 1 << 63
_NONE: Ids = np.empty(0, np.int64)


class TermColumns:
    __slots__ = ("_characters", "_directory", "_ends", "_shift", "_view", "ids", "texts")

    def __init__(self, ids: Ids, texts: pa.LargeStringArray) -> None:
        """`ids` are sorted and distinct."""
        self.ids = ids
        self.texts = texts
        # Memoryviews are several times faster to index than arrays of NumPy and Arrow.
        _, ends, characters = texts.buffers()
        self._view = ids.data
        self._ends = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1].data
        self._characters = memoryview(characters or b"")
        bits = max(1, (len(ids) // _IDS_PER_BUCKET).bit_length())
        self._shift = 64 - bits
        self._directory: memoryview | None = None

    @classmethod
    def sort(cls, ids: Ids, texts: pa.LargeStringArray) -> TermColumns:
        """Sorts terms with distinct ids."""
        if (ids[1:] > ids[:-1]).all():
            return cls(ids, texts)
        order = np.argsort(ids)
        return cls(ids[order], texts.take(pa.array(order)))

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, str]]) -> TermColumns:
        """The columns of ids and texts."""
        ids = np.fromiter((number for number, _ in pairs), np.int64, len(pairs))
        return cls.sort(ids, pa.array([text for _, text in pairs], pa.large_string()))

    @classmethod
    def together(cls, parts: Sequence[TermColumns]) -> TermColumns:
        """The terms of several parts, which share none."""
        if len(parts) == 1:
            return parts[0]
        return cls.sort(
            np.concatenate([part.ids for part in parts]), pa.concat_arrays([part.texts for part in parts])
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many bytes each text has."""
        return np.diff(np.asarray(self._ends))

    @property
    def characters(self) -> npt.NDArray[np.uint8]:
        """The bytes of all texts."""
        return np.frombuffer(self._characters[self._ends[0] : self._ends[-1]], np.uint8)

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes + self.texts.nbytes)

    def chosen(self, mask: npt.NDArray[np.bool_]) -> TermColumns:
        """Some of the terms, copied."""
        return TermColumns(self.ids[mask], self.texts.filter(pa.array(mask)))

    def pairs(self) -> Iterator[tuple[int, str]]:
        """Ids and texts."""
        return zip(self.ids.tolist(), self.texts.to_pylist(), strict=True)

    def text(self, number: int) -> str | None:
        """The text of an id."""
        directory = self._directory
        if directory is None:  # made when it is first needed, because many columns are only merged
            directory = self._directory = self._bucket_starts()
        bucket = (number + _HALF) >> self._shift
        end: int = directory[bucket + 1]
        place = bisect_left(self._view, number, directory[bucket], end)
        if place == end or self._view[place] != number:
            return None
        return str(self._characters[self._ends[place] : self._ends[place + 1]], "utf-8")

    def _bucket_starts(self) -> memoryview:
        """Where the ids with each value of the top bits start: a search then has a window of a few ids."""
        buckets = (self.ids.view(np.uint64) ^ np.uint64(_HALF)) >> np.uint64(self._shift)
        counts = np.bincount(buckets.view(np.int64), minlength=1 << (64 - self._shift))
        return np.append(0, np.cumsum(counts)).data

    @property
    def first(self) -> int:
        return int(self.ids[0]) if len(self.ids) else 0

    @property
    def last(self) -> int:
        return int(self.ids[-1]) if len(self.ids) else -1

    def found(self, numbers: Ids) -> tuple[Ids, pa.LargeStringArray]:
        places = np.searchsorted(self.ids, numbers)
        positions = np.flatnonzero(self.ids[places] == numbers)
        return positions, self.texts.take(pa.array(places[positions]))


class Part(Protocol):
    """Some terms, sorted by id."""

    @property
    def first(self) -> int:
        """The first id; above the last one if there is none."""
        ...

    @property
    def last(self) -> int:
        """The last id."""
        ...

    def found(self, numbers: Ids, /) -> tuple[Ids, pa.LargeStringArray]:
        """Which of some sorted ids are here, by position, and their texts. All are from `first` to `last`."""
        ...


def match(part: Part, numbers: Ids, texts: pa.LargeStringArray, marks: Marks) -> None:
    """Marks those of the sorted ids, given with texts, that a part has and that are not marked yet."""
    start, stop = _range(part, numbers)
    unknown = np.flatnonzero(marks[start:stop] == UNKNOWN) + start
    if len(unknown):
        positions, known = part.found(numbers[unknown])
        found = unknown[positions]
        is_same = pc.equal(known, texts.take(pa.array(found))).to_numpy(zero_copy_only=False)
        marks[found] = np.where(is_same, SAME, OTHER)


def _range(part: Part, numbers: Ids) -> tuple[int, int]:
    """Where those of the sorted ids are that a part can have."""
    return int(np.searchsorted(numbers, part.first)), int(np.searchsorted(numbers, part.last, "right"))


class Gathered:
    """The texts of sorted, distinct ids, gathered from several places."""

    def __init__(self, numbers: Ids) -> None:
        self.numbers = numbers
        self._is_missing = np.ones(len(numbers), dtype=bool)
        self._found: list[tuple[Ids, pa.LargeStringArray]] = []

    def add(self, part: Part) -> None:
        """Takes the texts that a part has."""
        start, stop = _range(part, self.numbers)
        missing = np.flatnonzero(self._is_missing[start:stop]) + start
        if len(missing):
            positions, texts = part.found(self.numbers[missing])
            self._take(missing[positions], texts)

    def add_singles(self, texts: Mapping[int, str]) -> None:
        """Takes texts from a dict, into which others may enter terms meanwhile."""
        missing = np.flatnonzero(self._is_missing) if texts else _NONE
        if len(texts) < len(missing):
            missing = missing[is_in(self.numbers[missing], np.sort(np.array(list(texts), np.int64)))]
        known = [texts.get(number) for number in self.numbers[missing].tolist()]
        there = [place for place, text in enumerate(known) if text is not None]
        self._take(missing[there], pa.array([known[place] for place in there], pa.large_string()))

    def _take(self, positions: Ids, texts: pa.LargeStringArray) -> None:
        if len(positions):
            self._found.append((positions, texts))
            self._is_missing[positions] = False

    def texts(self) -> pa.LargeStringArray:
        """All texts, in the order of the ids."""
        if self._is_missing.any():
            raise KeyError(int(self.numbers[self._is_missing][0]))
        return self.known().texts

    def known(self) -> TermColumns:
        """Those that were found."""
        if len(self._found) == 1:
            positions, texts = self._found[0]
            return TermColumns(self.numbers[positions], texts)
        positions = np.concatenate([_NONE, *(positions for positions, _ in self._found)])
        order = np.argsort(positions)
        texts = pa.concat_arrays([pa.array([], pa.large_string()), *(texts for _, texts in self._found)])
        return TermColumns(self.numbers[positions[order]], texts.take(pa.array(order)))


def is_in(numbers: Ids, known: Ids) -> npt.NDArray[np.bool_]:
    """Which ids are among sorted ones."""
    if not len(known):
        return np.zeros(len(numbers), dtype=bool)
    places = np.searchsorted(known, numbers)
    places[places == len(known)] = 0
    found: npt.NDArray[np.bool_] = known[places] == numbers
    return found


def large(texts: Any) -> pa.LargeStringArray:
    """Texts with offsets of 64 bits, which may exceed two gigabytes."""
    return texts if texts.type == pa.large_string() else texts.cast(pa.large_string())


def settled(parts: Iterable[TermColumns]) -> list[TermColumns]:
    """The same terms in few parts: each is at least twice as long as the next."""
    found: list[TermColumns] = []
    for part in parts:
        found.append(part)
        while len(found) > 1 and len(found[-2]) < 2 * len(found[-1]):
            found[-2:] = [TermColumns.together(found[-2:])]
    return found
