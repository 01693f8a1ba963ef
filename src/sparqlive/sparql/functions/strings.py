"""Functions on strings (SPARQL 1.1 §17.4.3), except regular expressions.

Defines which arguments are string literals, which pairs are compatible (§17.4.3.1.2), and which language tag
a result has. Everything else is an error; numbers are not converted to strings. Invariant: positions and
lengths count characters, not bytes or code units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from sparqlive.sparql.values import (
    INTEGER,
    LANGSTRING,
    MAXIMUM_CHARACTERS,
    STRING,
    ExpressionError,
    Value,
    integer,
    language_string,
    string,
    text_too_long,
)


def text_of(value: Value) -> str:
    """Returns the text of a string literal: a simple literal or one with a language tag."""
    kind = value.kind
    if kind is STRING or kind is LANGSTRING:
        text: str = value.value
        return text
    raise ExpressionError("Not a string")


def simple_text_of(value: Value) -> str:
    """Returns the text of a string without a language tag."""
    if value.kind != STRING:
        raise ExpressionError("Not a string without a language tag")
    text: str = value.value
    return text


def like(value: Value, text: str) -> Value:
    """Returns a string with the language tag of the value, if it has one."""
    return string(text) if value.kind == STRING else language_string(text, value.language)


def _compatible(left: Value, right: Value) -> tuple[str, str]:
    """Returns both texts. The second must have no language tag, or that of the first (§17.4.3.1.2)."""
    texts = text_of(left), text_of(right)
    if right.kind is LANGSTRING and (left.kind is not LANGSTRING or left.language != right.language):
        raise ExpressionError("Strings of incompatible languages")
    return texts


def length(value: Value) -> Value:
    return integer(len(text_of(value)))


def substring(value: Value, start: Value, count: Value | None = None) -> Value:
    """Returns the characters at the positions p, counted from 1, with start <= p < start + count."""
    text = text_of(value)
    if start.kind != INTEGER or (count is not None and count.kind != INTEGER):
        raise ExpressionError("A position or a length that is not an integer")
    first = start.value
    end = len(text) + 1 if count is None else first + count.value
    return like(value, text[max(first, 1) - 1 : max(end, 1) - 1])


def upper_case(value: Value) -> Value:
    return like(value, text_of(value).upper())


def lower_case(value: Value) -> Value:
    return like(value, text_of(value).lower())


def _test(relation: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    def apply(left: Value, right: Value) -> bool:
        return relation(*_compatible(left, right))

    return apply


starts_with: Final = _test(str.startswith)
ends_with: Final = _test(str.endswith)
contains: Final = _test(str.__contains__)


def before(value: Value, separator: Value) -> Value:
    """Without a match, returns the empty simple literal, without a language tag."""
    text, sought = _compatible(value, separator)
    position = text.find(sought)
    return string("") if position < 0 else like(value, text[:position])


def after(value: Value, separator: Value) -> Value:
    """Without a match, returns the empty simple literal, without a language tag."""
    text, sought = _compatible(value, separator)
    position = text.find(sought)
    return string("") if position < 0 else like(value, text[position + len(sought) :])


def encode_for_uri(value: Value) -> Value:
    text = text_of(value)
    if len(text) > MAXIMUM_CHARACTERS:
        raise text_too_long()
    return string(quote(text, safe=""))


def concatenate(*values: Value) -> Value:
    """The result has a language tag only if all arguments have it."""
    texts = [text_of(value) for value in values]
    if sum(map(len, texts)) > MAXIMUM_CHARACTERS:  # before concatenating: there may be many
        raise text_too_long()
    text = "".join(texts)
    languages = {value.language for value in values}
    return language_string(text, languages.pop()) if len(languages) == 1 else string(text)


def language_matches(tag: Value, language_range: Value) -> bool:
    """Basic filtering of RFC 4647 §3.3.1: a prefix of whole subtags, `*` for any tag."""
    tag_text, prefix = simple_text_of(tag).lower(), simple_text_of(language_range).lower()
    if prefix == "*":
        return tag_text != ""
    return tag_text == prefix or (prefix != "" and tag_text.startswith(prefix + "-"))
