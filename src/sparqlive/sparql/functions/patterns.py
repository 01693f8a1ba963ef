"""Regular expressions of XPath (F&O §7.6) on Python's `re`: REGEX and REPLACE.

Owns the translation of pattern, flags and replacement. Refuses, by an error, what XPath's grammar does not
have (look-around, possessive quantifiers, inline flags) and what Python cannot match (named Unicode blocks).
Accepts beyond XPath `\\b`, `\\B` and a needless backslash before punctuation, which queries in the wild use.
Invariant: no character of the pattern reaches `re` unless the translator knows what it means to both.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from sparqlive.sparql.deadline import TimeIsUp, seconds_left
from sparqlive.sparql.functions.strings import like, simple_text_of, text_of
from sparqlive.sparql.values import ExpressionError, Value

_FLAGS: Final = frozenset("smixq")
_MAXIMUM_PATTERN: Final = 10_000
_LONG_TEXT: Final = 10_000
_OPTIONS: Final = re.IGNORECASE | re.DOTALL
_WHITE_SPACE: Final = " \t\n\r"

# Inside a character class; XML 1.0's Name productions for \i and \c.
_NAME_START: Final = (
    r":A-Z_a-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C\u200D"
    r"\u2070-\u218F\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_WHITE_SPACE_CLASS: Final = r" \t\n\r"
_BLACK_CLASS: Final = r"\x00-\x08\x0B\x0C\x0E-\x1F!-\U0010FFFF"  # all but these four
_NAME: Final = _NAME_START + r"\-.0-9\u00B7\u0300-\u036F\u203F-\u2040"
_SHORTHAND: Final = re.compile(r"\\[dDsSwWiIcCpP]")
_NOT_WORD: Final = ("P", "Z", "C")  # \w is every character but these: letters, marks, numbers, symbols


class Matcher:
    """A compiled pattern with what REPLACE has to know of it.

    `re` cannot be stopped, and holds up all threads: under a time limit, what may take it long is left to the
    package `regex`, which can be. Both give the same matches.
    """

    __slots__ = ("_compiled", "_stoppable", "groups", "is_costly", "literal", "matches_empty")

    def __init__(self, compiled: re.Pattern[str], literal: bool) -> None:
        self._compiled = compiled
        self._stoppable: Any = None
        self.groups = compiled.groups
        self.literal = literal
        self.matches_empty = compiled.search("") is not None
        text = compiled.pattern
        choices = sum(map(text.count, "*+?{")) - text.count("(?")
        self.is_costly = not literal and choices > 1

    def matches(self, text: str) -> bool:
        seconds = self._limit(text)
        if seconds is None:
            return self._compiled.search(text) is not None
        return (
            self._stopping(lambda pattern: pattern.search(text, timeout=seconds, concurrent=True)) is not None
        )

    def substitute(self, expand: Callable[[re.Match[str]], str], text: str) -> str:
        seconds = self._limit(text)
        if seconds is None:
            return self._compiled.sub(expand, text)
        replaced: str = self._stopping(
            lambda pattern: pattern.sub(expand, text, timeout=seconds, concurrent=True)
        )
        return replaced

    def _limit(self, text: str) -> float | None:
        """The time that there is, if the pattern may need it all."""
        return seconds_left() if self.is_costly or len(text) > _LONG_TEXT else None

    def _stopping(self, match: Callable[[Any], Any]) -> Any:
        if self._stoppable is None:
            import regex  # not before it is needed

            self._stoppable = regex.compile(self._compiled.pattern, self._compiled.flags & _OPTIONS)
        try:
            return match(self._stoppable)
        except TimeoutError:
            raise TimeIsUp from None


@lru_cache(maxsize=1024)
def matcher(pattern: str, flags: str) -> Matcher:
    if not set(flags) <= _FLAGS:
        raise ExpressionError(f"Unknown flags of a regular expression: {flags}")
    if len(pattern) > _MAXIMUM_PATTERN:
        raise ExpressionError(f"A regular expression of more than {_MAXIMUM_PATTERN} characters")
    options = (re.IGNORECASE if "i" in flags else 0) | (re.DOTALL if "s" in flags else 0)
    literal = "q" in flags
    text = re.escape(pattern) if literal else _Translator(pattern, "m" in flags, "x" in flags).translate()
    try:
        return Matcher(re.compile(text, options), literal)
    except (re.error, OverflowError, RecursionError) as problem:
        raise ExpressionError(f"Not a regular expression: {pattern}") from problem


class _Translator:
    """One pass over the pattern, from left to right; each method reads what it is named for."""

    def __init__(self, pattern: str, multiline: bool, spaced: bool) -> None:
        self.pattern = pattern
        self.position = 0
        self.multiline = multiline
        self.spaced = spaced
        self.groups = 0

    def translate(self) -> str:
        parts: list[str] = []
        while self.position < len(self.pattern):
            parts.append(self._item())
        return "".join(parts)

    def _fail(self) -> ExpressionError:
        return ExpressionError(f"Not a regular expression: {self.pattern}")

    def _next(self) -> str:
        if self.position >= len(self.pattern):
            raise self._fail()
        self.position += 1
        return self.pattern[self.position - 1]

    def _rest_starts(self, prefix: str) -> bool:
        return self.pattern.startswith(prefix, self.position)

    def _item(self) -> str:
        character = self._next()
        if self.spaced and character in _WHITE_SPACE:
            return ""
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._character_class()
        if character == "(":
            return self._group()
        if character == "^":
            # Python's ^ also holds after a newline that ends the text; XPath's does not.
            return r"(?:\A|(?<=\n)(?!\Z))" if self.multiline else r"\A"
        if character == "$":
            # Python's $ also holds before a newline that ends the text.
            return r"(?:\Z|(?=\n))" if self.multiline else r"\Z"
        if character in "*+?":
            return character + self._reluctance()
        if character == "{":
            return self._count()
        if character in "}]":
            raise self._fail()
        return character if character in ".|)" else re.escape(character)

    def _group(self) -> str:
        if not self._rest_starts("?"):
            self.groups += 1
            return "("
        if self._rest_starts("?:"):
            self.position += 2
            return "(?:"
        raise self._fail()

    def _reluctance(self) -> str:
        if self._rest_starts("?"):
            self.position += 1
            return "?"
        if self.position < len(self.pattern) and self.pattern[self.position] in "*+{":
            raise self._fail()  # `a++` is possessive to Python and an error to XPath
        return ""

    def _count(self) -> str:
        found = re.compile(r"([0-9]+)(,[0-9]*)?\}").match(self.pattern, self.position)
        if found is None:
            raise self._fail()
        self.position = found.end()
        return "{" + found[0] + self._reluctance()

    def _escape(self) -> str:
        character = self._next()
        if character in "123456789":
            return self._back_reference(character)
        if character in "bB":
            return "\\" + character
        shorthand = self._shorthand(character)
        return f"[{shorthand}]" if shorthand is not None else self._escaped_character(character)

    def _back_reference(self, digits: str) -> str:
        # The longest number that names a group so far; what follows are digits to match.
        while self.position < len(self.pattern) and self.pattern[self.position] in "0123456789":
            if int(digits + self.pattern[self.position]) > self.groups:
                break
            digits += self._next()
        if int(digits) > self.groups:
            raise self._fail()
        return f"(?:\\{digits})"

    def _escaped_character(self, character: str) -> str:
        if character in "nrt":
            return "\\" + character
        if character.isascii() and not character.isalnum():
            return re.escape(character) if character != "-" else r"\-"
        raise self._fail()

    def _shorthand(self, character: str) -> str | None:
        """The inside of a character class for \\s, \\d, \\w, \\i, \\c, \\p{..} and their complements."""
        if character in "dD":
            return "\\" + character
        if character in "sS":
            return _WHITE_SPACE_CLASS if character == "s" else _BLACK_CLASS
        if character in "wW":
            return _categories(_NOT_WORD, complement=character == "w")
        if character in "ic":
            return _NAME_START if character == "i" else _NAME
        if character in "IC":
            return _complement_of_names(character)
        if character in "pP":
            found = re.compile(r"\{([A-Z][a-z]?)\}").match(self.pattern, self.position)
            if found is None:
                raise ExpressionError(f"An unknown kind of character in a regular expression: {self.pattern}")
            self.position = found.end()
            return _categories((found[1],), complement=character == "P")
        return None

    def _character_class(self) -> str:
        """`[...]`, with a subtraction `[a-z-[aeiou]]` as a negative look-ahead."""
        negated = self._rest_starts("^")
        self.position += negated
        parts: list[str] = []
        while not self._rest_starts("]") or not parts:
            if self._rest_starts("-[") and parts:
                self.position += 2
                subtracted = self._character_class()
                if self._next() != "]":
                    raise self._fail()
                return f"(?:(?!{subtracted}){_class(parts, negated)})"
            parts.append(self._class_item(parts))
        self.position += 1
        return _class(parts, negated)

    def _class_item(self, before: list[str]) -> str:
        character = self._next()
        if character == "\\":
            escaped = self._next()
            shorthand = self._shorthand(escaped)
            return shorthand if shorthand is not None else self._escaped_character(escaped)
        if character in "[]":
            raise self._fail()
        if character == "-":
            return "-" if self._is_range_hyphen(before) else r"\-"
        return "\\" + character if character in "^&~|" else re.escape(character)

    def _is_range_hyphen(self, before: list[str]) -> bool:
        """A first or last hyphen is a character; one beside a shorthand such as \\w has no meaning."""
        if not before or self._rest_starts("]"):
            return False
        after_shorthand = before[-1] in (r"\d", r"\D") or len(before[-1].removeprefix("\\")) > 1
        if after_shorthand or _SHORTHAND.match(self.pattern, self.position) is not None:
            raise self._fail()
        return True


def _class(parts: list[str], negated: bool) -> str:
    return f"[{'^' if negated else ''}{''.join(parts)}]"


@lru_cache(maxsize=2)
def _complement_of_names(character: str) -> str:
    inside = re.compile(f"[{_NAME_START if character == 'I' else _NAME}]")
    return _ranges(lambda candidate: inside.match(candidate) is None)


@lru_cache(maxsize=64)
def _categories(names: tuple[str, ...], complement: bool) -> str:
    """The characters of Unicode general categories: `L` is all of `Lu`, `Ll`, ..."""
    return _ranges(lambda character: unicodedata.category(character).startswith(names) != complement)


def _ranges(belongs: Callable[[str], bool]) -> str:
    """The inside of a character class; slow (it asks for each character of Unicode), so callers cache it."""
    ranges: list[str] = []
    start: int | None = None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and belongs(chr(code))
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            ranges.append(f"\\U{start:08X}" + (f"-\\U{code - 1:08X}" if code - 1 > start else ""))
            start = None
    if not ranges:
        raise ExpressionError("A kind of character that no character is of")
    return "".join(ranges)


def matches(value: Value, pattern: Value, flags: Value | None = None) -> bool:
    text = text_of(value)
    return matcher(simple_text_of(pattern), _flags(flags)).matches(text)


def replace(value: Value, pattern: Value, replacement: Value, flags: Value | None = None) -> Value:
    text = text_of(value)
    found = matcher(simple_text_of(pattern), _flags(flags))
    return like(value, substitute(found, text, simple_text_of(replacement)))


def _flags(flags: Value | None) -> str:
    return "" if flags is None else simple_text_of(flags)


def substitute(found: Matcher, text: str, replacement: str) -> str:
    if found.matches_empty:
        raise ExpressionError("The pattern of REPLACE matches the empty string")  # err:FORX0003
    pieces = (replacement,) if found.literal else _template(replacement, found.groups)

    def expand(match: re.Match[str]) -> str:
        return "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)

    return found.substitute(expand, text)


@lru_cache(maxsize=1024)
def _template(replacement: str, groups: int) -> tuple[str | int, ...]:
    """`$N` is the longest number of a group, `\\$` and `\\\\` are escapes; all else is text (F&O §7.6.3)."""
    pieces: list[str | int] = []
    position = 0
    while position < len(replacement):
        character = replacement[position]
        following = replacement[position + 1 : position + 2]
        position += 1
        if character == "\\":
            if following not in ("\\", "$"):
                raise ExpressionError(f"A lone backslash in a replacement: {replacement}")
            pieces.append(following)
            position += 1
        elif character == "$":
            if not following or following not in "0123456789":
                raise ExpressionError(f"A lone $ in a replacement: {replacement}")
            position, number = _group_number(replacement, position, groups)
            pieces.append(number if number <= groups else "")
        else:
            pieces.append(character)
    return tuple(pieces)


def _group_number(replacement: str, position: int, groups: int) -> tuple[int, int]:
    number = int(replacement[position])
    position += 1
    while position < len(replacement) and replacement[position] in "0123456789":
        longer = number * 10 + int(replacement[position])
        if longer > groups:
            break
        number = longer
        position += 1
    return position, number
