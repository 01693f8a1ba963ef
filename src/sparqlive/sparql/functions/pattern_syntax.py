"""Translates XPath regular expressions (F&O §7.6) for the two engines that match them.

Defines the syntax of patterns and flags. What XPath's grammar does not have is an error: look-around,
possessive quantifiers, inline flags. Beyond XPath, it accepts `\\b`, `\\B` and a needless backslash before
punctuation, because queries in the wild use them. Invariants: every character that reaches an engine has a
known meaning there; all character sets, and the variants that the flag `i` adds, are written out, so that
both engines match alike. No pattern reaches an engine that would expand to more than `MAXIMUM_EXPANDED`
parts there: engines write a repetition out as often as it must match, even inside other repetitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sparqlive.sparql.functions import characters as chars
from sparqlive.sparql.functions.characters import Characters
from sparqlive.sparql.values import ExpressionError

FLAGS: Final = frozenset("smixq")
MAXIMUM_PATTERN: Final = 10_000
MAXIMUM_TRANSLATED: Final = 100_000  # \w is two thousand characters
# Compiling 20,000 parts takes `regex` up to 0.05 s, which nothing can interrupt, and up to 20 MB.
MAXIMUM_EXPANDED: Final = 20_000

_WHITE_SPACE: Final = " \t\n\r"
_DIGITS: Final = "0123456789"
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_SHORTHANDS: Final[dict[str, Callable[[], Characters]]] = {
    "d": chars.digits,
    "s": lambda: chars.WHITE_SPACE,
    "w": chars.word_characters,
    "i": lambda: chars.NAME_START,
    "c": lambda: chars.NAME,
}


_TOO_MANY_SETS: Final = (
    "A regular expression has too many sets of characters. Use fewer of \\w, \\p{…} and so on."
)
_RANGES_PER_PART: Final = 8  # of a character set: they take less memory than other parts


class NotLinearError(Exception):
    """The pattern uses something that the linear engine cannot express."""


class PatternTooLargeError(ExpressionError):
    """The pattern exceeds a limit on its size. The message says which."""


class Translator:
    """Translates a pattern in one pass from left to right. Each method reads the construct in its name.

    On the way, it counts the parts that the pattern expands to (`expanded`): characters, sets, groups.

    With `linear` the result is for RE2, and NotLinearError is raised for back-references, and for `\\b` and
    `\\B`, which know only ASCII letters there; else it is for the package `regex`.
    """

    def __init__(self, pattern: str, flags: str, *, linear: bool) -> None:
        self.pattern = pattern
        self.position = 0
        self.linear = linear
        self.any_case, self.multiline, self.spaced = "i" in flags, "m" in flags, "x" in flags
        self.dot = chars.ALL if "s" in flags else chars.complement(chars.NEWLINE)
        self.literal = "q" in flags
        self.groups = 0
        self.open_groups: list[int] = []  # 0 for a group that does not capture
        self._parts = [0]  # of the whole pattern, and of each open group in what is around it
        self._last_parts = 0  # of what a repetition would repeat
        self._ranges = 0  # listed in classes, which may name the same one many times

    @property
    def expanded(self) -> int:
        """The number of parts that an engine creates for the pattern read so far."""
        return self._parts[0]

    def translate(self) -> str:
        if len(self.pattern) > MAXIMUM_PATTERN:
            raise PatternTooLargeError(
                f"A regular expression may have at most {MAXIMUM_PATTERN:,} characters."
            )
        parts: list[str] = []
        length = 0
        while self.position < len(self.pattern):
            parts.append(self._character(self._next()) if self.literal else self._item())
            length += len(parts[-1])
            if length > MAXIMUM_TRANSLATED:
                raise PatternTooLargeError(_TOO_MANY_SETS)
        if self.open_groups:
            raise self._fail()
        return "".join(parts)

    # Size

    def _count_parts(self, parts: int) -> None:
        """Counts something that a repetition may follow."""
        self._parts[-1] += parts
        self._last_parts = parts
        if self._parts[-1] > MAXIMUM_EXPANDED:
            raise PatternTooLargeError(
                f"A regular expression expands to more than {MAXIMUM_EXPANDED:,} parts: repetitions such as "
                f"{{2}} and + multiply what they repeat. Repeat less, or use * and {{0,n}}."
            )

    def _count_repetition(self, least: int) -> None:
        """Counts the last part again: as often as it must match, and once more for the loop that follows."""
        if least:
            self._parts[-1] -= self._last_parts
            self._count_parts(self._last_parts * (least + 1))

    def _set(self, content: Characters) -> str:
        self._count_parts(1 + len(content) // _RANGES_PER_PART)
        return chars.as_pattern(content)

    # Syntax

    def _fail(self) -> ExpressionError:
        return ExpressionError(f"Not a regular expression: {self.pattern[:100]}")

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
        match character:
            case "\\":
                return self._escape()
            case "[":
                return self._set(self._character_class())
            case "(":
                return self._group()
            case ")":
                return self._end_of_group()
            case "^":
                return self._start()
            case "$":
                return self._end()
            case ".":
                return self._set(self.dot)
            case "|":
                self._count_parts(1)
                return "|"
            case "*" | "+" | "?":
                self._count_repetition(1 if character == "+" else 0)
                return character + self._reluctance()
            case "{":
                return self._count()
            case "}" | "]":
                raise self._fail()
        return self._character(character)

    def _character(self, character: str) -> str:
        if not self.any_case:
            self._count_parts(1)
            return chars.character_pattern(character)
        return self._set(chars.with_case_variants(((ord(character), ord(character)),)))

    def _start(self) -> str:
        self._count_parts(1)
        if not self.multiline:
            return r"\A"
        # XPath's ^ does not match after a newline at the end of the text. RE2 cannot express this: see
        # `Matcher`.
        return "(?m:^)" if self.linear else r"(?:\A|(?<=\n)(?!\Z))"

    def _end(self) -> str:
        self._count_parts(1)
        if self.multiline:
            return "(?m:$)" if self.linear else r"(?:\Z|(?=\n))"
        return r"\z" if self.linear else r"\Z"

    def _group(self) -> str:
        self._parts.append(1)
        if not self._rest_starts("?"):
            self.groups += 1
            self.open_groups.append(self.groups)
            return "("
        if self._rest_starts("?:"):
            self.position += 2
            self.open_groups.append(0)
            return "(?:"
        raise self._fail()

    def _end_of_group(self) -> str:
        if not self.open_groups:
            raise self._fail()
        self.open_groups.pop()
        self._count_parts(self._parts.pop())
        return ")"

    def _reluctance(self) -> str:
        if self._rest_starts("?"):
            self.position += 1
            return "?"
        if self.position < len(self.pattern) and self.pattern[self.position] in "*+{":
            raise self._fail()  # `a++` is possessive to `regex` and an error to XPath
        return ""

    def _count(self) -> str:
        end = self.pattern.find("}", self.position, self.position + 20)
        least, comma, most = self.pattern[self.position : max(end, self.position)].partition(",")
        if end < 0 or not _is_number(least) or not (most == "" or _is_number(most)):
            raise self._fail()
        self.position = end + 1
        self._count_repetition(int(least))
        return "{" + least + comma + most + "}" + self._reluctance()

    def _escape(self) -> str:
        character = self._next()
        if character in _DIGITS and character != "0":
            return self._back_reference(character)
        if character in "bB":
            if self.linear:
                raise NotLinearError
            self._count_parts(1)
            return "\\" + character
        content = self._shorthand(character)
        return self._set(content) if content is not None else self._character(self._escaped(character))

    def _back_reference(self, digits: str) -> str:
        # The longest number of an existing group; further digits are matched as text.
        while self.position < len(self.pattern) and self.pattern[self.position] in _DIGITS:
            if int(digits + self.pattern[self.position]) > self.groups:
                break
            digits += self._next()
        if int(digits) > self.groups or int(digits) in self.open_groups:
            raise self._fail()
        if self.linear:
            raise NotLinearError
        self._count_parts(1)
        return f"(?i:\\{digits})" if self.any_case else f"(?:\\{digits})"

    def _escaped(self, character: str) -> str:
        if character in _ESCAPED:
            return _ESCAPED[character]
        if character.isascii() and not character.isalnum():
            return character
        raise self._fail()

    def _shorthand(self, character: str) -> Characters | None:
        """Returns the set for \\s, \\d, \\w, \\i, \\c, \\p{…} or one of their complements."""
        if character in "pP":
            content = self._property()
        elif character.lower() in _SHORTHANDS and character.isascii():
            content = _SHORTHANDS[character.lower()]()
        else:
            return None
        return content if character.islower() else chars.complement(content)

    def _property(self) -> Characters:
        end = self.pattern.find("}", self.position, self.position + 60)
        if end < 0 or not self._rest_starts("{"):
            raise self._fail()
        name = self.pattern[self.position + 1 : end]
        self.position = end + 1
        if not name.isascii() or not name.replace("-", "").isalnum():
            raise self._fail()
        return chars.block(name[2:]) if name.startswith("Is") else chars.category(name)

    def _character_class(self) -> Characters:
        """Reads `[…]` after its opening bracket, also with a subtraction, `[a-z-[aeiou]]`."""
        negated = self._rest_starts("^")
        self.position += negated
        spans: list[Characters] = []  # characters and ranges of them, which have case variants
        shorthands: list[Characters] = []
        removed: Characters = ()
        while not self._rest_starts("]") or not (spans or shorthands):
            is_first = not (spans or shorthands)
            if self._rest_starts("-[") and not is_first:
                self.position += 2
                removed = self._character_class()
                if not self._rest_starts("]"):
                    raise self._fail()
                break
            self._class_item(spans, shorthands, is_first=is_first)
        self.position += 1
        listed = chars.union(spans)
        content = chars.union([chars.with_case_variants(listed) if self.any_case else listed, *shorthands])
        return chars.difference(chars.complement(content) if negated else content, removed)

    def _class_item(self, spans: list[Characters], shorthands: list[Characters], *, is_first: bool) -> None:
        """Reads a shorthand, a character, or a range of characters."""
        first = self._class_character(is_first=is_first)
        if not isinstance(first, str):
            if self._range_follows():
                raise self._fail()  # a range cannot start with a shorthand
            self._ranges += len(first)
            if self._ranges > MAXIMUM_TRANSLATED:
                raise PatternTooLargeError(_TOO_MANY_SETS)
            shorthands.append(first)
            return
        if first == "-" and not is_first and not self._rest_starts("]"):
            raise self._fail()  # a literal hyphen must be first or last
        last = first
        if self._range_follows():
            self.position += 1
            end = self._class_character(is_first=False)
            if not isinstance(end, str) or end < first:
                raise self._fail()
            last = end
        spans.append(((ord(first), ord(last)),))

    def _range_follows(self) -> bool:
        return self._rest_starts("-") and not self._rest_starts("-]") and not self._rest_starts("-[")

    def _class_character(self, *, is_first: bool) -> str | Characters:
        character = self._next()
        if character == "\\":
            escaped = self._next()
            content = self._shorthand(escaped)
            return content if content is not None else self._escaped(escaped)
        if character in "[]":
            raise self._fail()
        return character


def _is_number(text: str) -> bool:
    return text != "" and text.isascii() and text.isdigit()
