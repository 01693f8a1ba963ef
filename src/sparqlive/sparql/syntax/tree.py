"""The parse tree between the grammar and the algebra, the words in it, and the error that knows its place.

Owns the shape of the tree and nothing of the parser, so that reading a tree does not import one. Refuses
nothing itself. Invariant: leaves are tokens (strings with a `type` and a `start_pos` in the text that was
parsed) or None where an optional part is absent; everything else is a Node.
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
    """One applied rule of the grammar. Children are Node, Token or None, as the rule says."""

    rule: str
    children: list[Any]


class TextError(Exception):
    """A sentence about the text and the position it is about; becomes a SyntaxError with line and caret."""

    def __init__(self, sentence: str, where: Node | Token | int) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.position = where if isinstance(where, int) else position(where)


def position(where: Node | Token) -> int:
    """The offset of the first token in a part of the tree; 0 where the part has none."""
    return next((token.start_pos or 0 for token in tokens(where)), 0)


def tokens(where: Any) -> Iterator[Token]:
    """The tokens of a part of the tree, in the order of the text."""
    if isinstance(where, Node):
        for child in where.children:
            yield from tokens(child)
    elif where is not None:
        yield where
