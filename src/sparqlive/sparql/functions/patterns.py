"""REGEX and REPLACE (SPARQL 1.1 §17.4.3.14 and .15), by two engines that match alike.

Decides which engine matches, and for how long. RE2 takes time linear in the length of the text, and matches
everything it can express. The package `regex` has no such bound, but can be stopped: it matches
back-references, `\\b`, and patterns too large for RE2. Python's own `re` offers neither, and never gets a
pattern from a query; nor do the engines of DuckDB and Spark, which have no bounds either. Invariants: a
pattern's size is checked before an engine sees it (`pattern_syntax.py`). The choice of engine depends only on
pattern and text. A call ends within `MAXIMUM_SECONDS`; exceeding this is an error of the whole query or view
(Timeout), not of the expression, whose value would otherwise depend on the machine.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, AnyStr, Final

from sparqlive.errors import Timeout, TooLarge
from sparqlive.runtime.deadline import TimeIsUp, seconds_left
from sparqlive.sparql.functions.pattern_syntax import (
    FLAGS,
    NotLinearError,
    Translator,
)
from sparqlive.sparql.functions.strings import like, simple_text_of, text_of
from sparqlive.sparql.values import MAXIMUM_CHARACTERS, ExpressionError, Value, text_too_long

MAXIMUM_SECONDS = 1.0  # of one call
_SECONDS_PER_MATCH: Final = 1e-5  # added per match in a REPLACE: a long text may have many
# At its slowest, RE2 takes one step per instruction of the pattern and character: 150 million per second.
_MAXIMUM_STEPS: Final = 100_000_000
_MEMORY_OF_PATTERN: Final = 4 * 2**20  # bytes; RE2 and this module cache 128 patterns each
_REMEMBERED_PATTERNS: Final = 128
_REMEMBERED_PARTS: Final = 100_000  # of all these patterns together; a part takes `regex` up to 1 kB


_SIMPLIFY: Final = "Simplify the pattern: avoid back-references, \\b, and repetitions inside repetitions."


class Matcher:
    """A compiled pattern, with what REPLACE needs to know about it."""

    __slots__ = (
        "_flags", "_has_line_start", "_linear", "_longest_linear", "_pattern", "_stoppable", "expanded",
        "groups", "literal", "matches_empty",
    )  # fmt: skip

    def __init__(self, pattern: str, flags: str) -> None:
        self._pattern, self._flags = pattern, flags
        self.expanded = check_size(pattern, flags)
        self.literal = "q" in flags
        self._has_line_start = "m" in flags and "^" in pattern
        self._linear = _linear(pattern, flags)
        self._stoppable: Any = None
        self._longest_linear = -1
        if self._linear is not None:
            self._longest_linear = _MAXIMUM_STEPS // max(self._linear.programsize, 1)
        self.groups: int = (self._linear or self._other()).groups
        self.matches_empty = self.matches("")

    def matches(self, text: str) -> bool:
        if self._is_linear(text):
            return self._linear.search(text.encode()) is not None
        return (
            self._stopping(lambda seconds: self._other().search(text, timeout=seconds, concurrent=True))
            is not None
        )

    def for_columns(self) -> tuple[str, int] | None:
        """Returns the pattern for RE2, and how many characters it may match at once; None if RE2 cannot.

        The characters are those of texts without newlines.
        """
        if self._linear is None:
            return None
        return Translator(self._pattern, self._flags, linear=True).translate(), self._longest_linear

    def replace(self, text: str, pieces: tuple[str | int, ...]) -> str:
        """Replaces each match in the text by the pieces: texts, and numbers of groups."""
        if self._is_linear(text):
            # RE2 counts in bytes; converting the positions of its matches to characters would take longer
            # than matching.
            encoded = tuple(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
            matches = _in_time(self._linear.finditer(text.encode()))
            return _replaced(text.encode(), matches, encoded, 4 * MAXIMUM_CHARACTERS).decode()

        def replaced(seconds: float) -> str:
            matches = self._other().finditer(text, timeout=seconds, concurrent=True)
            return _replaced(text, _in_time(matches), pieces, MAXIMUM_CHARACTERS)

        return str(self._stopping(replaced))

    def _is_linear(self, text: str) -> bool:
        if len(text) > self._longest_linear:
            return False
        # After a newline at the end of the text, `^` matches for RE2 and not for XPath.
        return not (self._has_line_start and text.endswith("\n"))

    def _other(self) -> Any:
        if self._stoppable is None:
            self._stoppable = _stoppable(self._pattern, self._flags)
        return self._stoppable

    @staticmethod
    def _stopping(match: Callable[[float], Any]) -> Any:
        try:
            return match(_seconds())
        except TimeoutError:
            raise _too_long() from None
        except MemoryError:  # `regex` has a limit on the memory for backtracking
            raise TooLarge(
                "Matching a regular expression took too much memory for one text and was stopped. "
                f"{_SIMPLIFY}"
            ) from None


def _linear(pattern: str, flags: str) -> Any:
    """Compiles the pattern with RE2; returns None if RE2 cannot express it, or it is too large."""
    import re2  # imported on first use

    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY_OF_PATTERN, False
    try:
        return re2.compile(Translator(pattern, flags, linear=True).translate(), options)
    except (NotLinearError, re2.error):
        return None


def _stoppable(pattern: str, flags: str) -> Any:
    import regex  # imported on first use

    translated = Translator(pattern, flags, linear=False).translate()
    try:
        # Its own cache would keep 500 patterns of any size.
        return regex.compile(translated, regex.VERSION0, cache_pattern=False)
    except (regex.error, OverflowError) as problem:
        raise ExpressionError(f"Not a regular expression: {pattern[:100]}") from problem


def _in_time(matches: Iterator[Any]) -> Iterator[Any]:
    """Limits the time of all matches: RE2 finds each in linear time, but all of them in quadratic time."""
    end = time.thread_time() + MAXIMUM_SECONDS
    for match in matches:
        yield match
        end += _SECONDS_PER_MATCH
        if time.thread_time() > end:
            raise _too_long()


def _seconds() -> float:
    """Returns how long a call may take: the remaining time of the query, at most the limit of a call."""
    left = seconds_left()
    return MAXIMUM_SECONDS if left is None else max(min(left, MAXIMUM_SECONDS), 0.001)


def _too_long() -> BaseException:
    if seconds_left() == 0:
        return TimeIsUp()
    return Timeout(
        f"Matching a regular expression took longer than {MAXIMUM_SECONDS:g} s for one text and was stopped. "
        f"{_SIMPLIFY}"
    )


def check_size(pattern: str, flags: str) -> int:
    """Returns the number of parts that a pattern expands to; raises PatternTooLargeError above the limit.

    No engine sees the pattern. A malformed one raises ExpressionError.
    """
    translator = Translator(pattern, flags, linear=False)
    translator.translate()
    return translator.expanded


class _Matchers:
    """The most recently used matchers, with a bound on their number and on their total size.

    There is no lock: the exception that stops a query could leave it locked. Each step is atomic.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Matcher] = OrderedDict()

    def get(self, pattern: str, flags: str) -> Matcher:
        found = self._kept.get((pattern, flags))
        if found is None:
            found = self._kept[pattern, flags] = Matcher(pattern, flags)
            while self._is_full():
                with suppress(KeyError):
                    self._kept.popitem(last=False)
        else:
            with suppress(KeyError):  # another thread may have removed it
                self._kept.move_to_end((pattern, flags))
        return found

    def _is_full(self) -> bool:
        kept = list(self._kept.values())
        return len(kept) > _REMEMBERED_PATTERNS or sum(one.expanded for one in kept) > _REMEMBERED_PARTS


_MATCHERS: Final = _Matchers()


def matcher(pattern: str, flags: str) -> Matcher:
    """The only way from a pattern to an engine."""
    if not set(flags) <= FLAGS:
        raise ExpressionError(f"Unknown flags of a regular expression: {flags[:20]}")
    try:
        return _MATCHERS.get(pattern, "".join(sorted(set(flags))))
    except RecursionError as problem:
        raise ExpressionError("A regular expression that is nested too deep") from problem


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
    replaced = found.replace(text, pieces)
    if len(replaced) > MAXIMUM_CHARACTERS:
        raise text_too_long()
    return replaced


def _replaced(text: AnyStr, matches: Iterator[Any], pieces: tuple[Any, ...], most: int) -> AnyStr:
    """Replaces the matches in a text; raises an error if the result exceeds `most` characters or bytes."""
    parts: list[Any] = []
    position = length = 0
    for match in matches:
        start, end = match.span()
        for piece in (text[position:start], *pieces):
            part = (match[piece] or text[:0]) if isinstance(piece, int) else piece
            length += len(part)
            if length > most:
                raise text_too_long()
            parts.append(part)
        position = end
    parts.append(text[position:])
    return text[:0].join(parts)


@lru_cache(maxsize=_REMEMBERED_PATTERNS)
def _template(replacement: str, groups: int) -> tuple[str | int, ...]:
    """Splits a replacement: `$N` is the longest group number, `\\$` and `\\\\` are escapes (F&O §7.6.3)."""
    pieces: list[str | int] = []
    run: list[str] = []
    position = 0
    while position < len(replacement):
        character = replacement[position]
        following = replacement[position + 1 : position + 2]
        position += 1
        if character == "\\":
            if following not in ("\\", "$"):
                raise ExpressionError(f"A lone backslash in a replacement: {replacement[:100]}")
            run.append(following)
            position += 1
        elif character == "$":
            if not following or following not in "0123456789":
                raise ExpressionError(f"A lone $ in a replacement: {replacement[:100]}")
            position, number = _group_number(replacement, position, groups)
            if number <= groups:
                pieces += ["".join(run), number]
                run = []
        else:
            run.append(character)
    return (*pieces, "".join(run))


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
