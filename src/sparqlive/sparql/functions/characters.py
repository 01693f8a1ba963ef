"""Character sets for regular expressions: categories, blocks, case variants, and set operations.

Defines what \\p{…}, \\w, \\i and the flag `i` mean. Unknown categories and blocks are errors. Invariants: a
set is a tuple of ascending, separate ranges of code points; no set contains a surrogate, because no text
does.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import groupby
from typing import Final, TypeAlias

from sparqlive.sparql.values import ExpressionError

Characters: TypeAlias = tuple[tuple[int, int], ...]

ALL: Final[Characters] = ((0, 0xD7FF), (0xE000, 0x10FFFF))
NEWLINE: Final[Characters] = ((10, 10),)
WHITE_SPACE: Final[Characters] = ((9, 10), (13, 13), (32, 32))
_CASED_BELOW: Final = 0x20000  # characters above are ideographs, marks and private use
_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$-&~#")


def union(sets: Iterable[Characters]) -> Characters:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(span for characters in sets for span in characters):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return difference(tuple(merged), ((0xD800, 0xDFFF),))


def complement(characters: Characters) -> Characters:
    return difference(ALL, characters)


def difference(whole: Characters, removed: Characters) -> Characters:
    left: list[tuple[int, int]] = []
    starts = [first for first, _ in removed]
    for start, last in whole:
        first = start
        for low, high in removed[max(bisect_right(starts, first) - 1, 0) :]:
            if low > last:
                break
            if high < first:
                continue
            if low > first:
                left.append((first, low - 1))
            first = high + 1
        if first <= last:
            left.append((first, last))
    return tuple(left)


def as_pattern(content: Characters) -> str:
    """Returns a pattern for both engines that matches one character of the set; none for an empty set."""
    if not content:
        return f"[^{_range(0, 0x10FFFF)}]"
    if len(content) == 1 and content[0][0] == content[0][1]:
        return character_pattern(chr(content[0][0]))
    return f"[{''.join(_range(first, last) for first, last in content)}]"


def _range(first: int, last: int) -> str:
    low, high = character_pattern(chr(first)), character_pattern(chr(last))
    return low if first == last else low + high if last == first + 1 else f"{low}-{high}"


def character_pattern(character: str) -> str:
    return "\\" + character if character in _SPECIAL else character


# Unicode


@cache
def _by_category() -> dict[str, Characters]:
    """Returns the sets of the general categories: `Lu`, `Nd`, …"""
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    first = 0
    for category, members in groupby(map(unicodedata.category, map(chr, range(0x110000)))):
        following = first + sum(1 for _ in members)
        found[category].append((first, following - 1))
        first = following
    del found["Cs"]
    return {name: tuple(ranges) for name, ranges in found.items()}


@lru_cache(maxsize=128)
def category(name: str) -> Characters:
    """Returns a general category, or several by their first letter: `L` is all of `Lu`, `Ll`, …"""
    found = [ranges for known, ranges in _by_category().items() if known.startswith(name)]
    if not found:
        raise ExpressionError(f"Unicode has no category of characters {name}")
    return union(found)


@lru_cache(maxsize=64)
def block(name: str) -> Characters:
    """Returns a named block such as `BasicLatin`. Python has no table of blocks; the package `regex` has."""
    import regex

    try:
        member = regex.compile(rf"\p{{Block={name}}}+")
    except regex.error:
        raise ExpressionError(f"Unicode has no block of characters {name}") from None
    found = ((match.start(), match.end()) for match in member.finditer(_first_of_columns()))
    return union([tuple((16 * start, 16 * end - 1) for start, end in found)])


@cache
def _first_of_columns() -> str:
    """Every sixteenth character: a block begins and ends at a multiple of 16 (Unicode §3.4, D10b)."""
    return "".join(map(chr, range(0, 0x110000, 16)))


@cache
def digits() -> Characters:
    return category("Nd")


@cache
def word_characters() -> Characters:
    """Everything except punctuation, separators and others: letters, marks, numbers, symbols (XML Schema)."""
    return complement(union(category(name) for name in "PZC"))


def _read_ranges(text: str) -> Characters:
    parts = (part.partition("-") for part in text.split())
    return union(((int(first, 16), int(last or first, 16)),) for first, _, last in parts)


# XML 1.0's productions NameStartChar and NameChar.
NAME_START: Final = _read_ranges(
    "3A 41-5A 5F 61-7A C0-D6 D8-F6 F8-2FF 370-37D 37F-1FFF 200C-200D 2070-218F 2C00-2FEF 3001-D7FF F900-FDCF"
    " FDF0-FFFD 10000-EFFFF"
)
NAME: Final = union([NAME_START, _read_ranges("2D-2E 30-39 B7 300-36F 203F-2040")])


# Case


@cache
def _variants() -> dict[int, tuple[int, ...]]:
    """Returns the case variants of each character that has some (F&O §7.6.1.1)."""
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for code in range(_CASED_BELOW):
        character = chr(code)
        lower, upper = character.lower(), character.upper()
        if lower != character or upper != character:
            groups["l" + lower].add(code)
            groups["u" + upper].add(code)
    found: defaultdict[int, set[int]] = defaultdict(set)
    for group in groups.values():
        if len(group) > 1:
            for code in group:
                found[code] |= group
    return {code: tuple(sorted(group)) for code, group in found.items()}


def with_case_variants(content: Characters) -> Characters:
    if len(content) == 1 and content[0][0] == content[0][1]:
        return union([content, *(((code, code),) for code in _variants().get(content[0][0], ()))])
    starts = [first for first, _ in content]

    def belongs(code: int) -> bool:
        place = bisect_right(starts, code) - 1
        return place >= 0 and code <= content[place][1]

    size = sum(last - first + 1 for first, last in content)
    if size < len(_variants()):
        members = (code for first, last in content for code in range(first, last + 1))
        added = {other for code in members for other in _variants().get(code, ())}
    else:
        added = {other for code, group in _variants().items() if belongs(code) for other in group}
    return union([content, *(((code, code),) for code in added)])
