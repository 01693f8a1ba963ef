"""The parse tree between the grammar and the algebra, its tokens, and the error that knows its position.

Invariant: leaves are tokens (strings with a `type` and a `start_pos` in the parsed text), or None where an
optional part is absent; everything else is a Node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["AGGREGATES", "Node", "TextError", "Token", "position", "tokens"]

AGGREGATES = frozenset(("AVG", "COUNT", "GROUP_CONCAT", "MAX", "MIN", "SAMPLE", "SUM"))


class Token(str):
    """A terminal of the grammar: its text, its type, and where it starts in the parsed text."""

    __slots__ = ("start_pos", "type")

    type: str
    start_pos: int

    def __new__(cls, type_: str, text: str, start_pos: int) -> Token:
        token = str.__new__(cls, text)
        token.type = type_
        token.start_pos = start_pos
        return token


@dataclass(slots=True)
class Node:
    """One application of a grammar rule. Its children are Node, Token or None, as the rule defines."""

    rule: str
    children: list[Any]


class TextError(Exception):
    """An error at a position of the text. Users see it as a SyntaxError with the line and a caret."""

    def __init__(self, sentence: str, where: Node | Token | int) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.position = where if isinstance(where, int) else position(where)


def position(where: Node | Token) -> int:
    """Returns the offset of the first token in a part of the tree; 0 if it has no token."""
    return next((token.start_pos for token in tokens(where)), 0)


def tokens(where: Any) -> Iterator[Token]:
    """Yields the tokens of a part of the tree, in text order."""
    if isinstance(where, Node):
        for child in where.children:
            yield from tokens(child)
    elif where is not None:
        yield where
