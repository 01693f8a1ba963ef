"""The parse tree between the grammar and the algebra, its tokens, and the error that knows its position.

This module does not import the parser, so reading a tree does not load it. Invariant: leaves are tokens
(strings with a `type` and a `start_pos` in the parsed text), or None where an optional part is absent;
everything else is a Node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from lark import Token
else:
    Token: TypeAlias = str

__all__ = ["AGGREGATES", "Node", "TextError", "Token", "position", "tokens"]

AGGREGATES = frozenset(("AVG", "COUNT", "GROUP_CONCAT", "MAX", "MIN", "SAMPLE", "SUM"))


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
    return next((token.start_pos or 0 for token in tokens(where)), 0)


def tokens(where: Any) -> Iterator[Token]:
    """Yields the tokens of a part of the tree, in text order."""
    if isinstance(where, Node):
        for child in where.children:
            yield from tokens(child)
    elif where is not None:
        yield where
