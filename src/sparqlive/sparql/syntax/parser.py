"""Parses SPARQL text into a parse tree: the lexer, and an LALR(1) parser.

`make grammar` generates the parse table in grammar.json from grammar.lark.
The lexer decides what is a word, a number, a string or a name. Like SPARQL's own lexer, it accepts keywords
without a space between them. Text outside the grammar is rejected with what was found and what was expected.
Invariant: the table is read once, on first use, and nothing is kept between texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from sparqlive.runtime.deadline import flagged, give_way
from sparqlive.sparql.functions import WORDS
from sparqlive.sparql.syntax.tree import AGGREGATES, Node, TextError, Token

# The names of terminals in error messages.
_IN_WORDS = {
    "VAR": "a variable",
    "IRIREF": "an IRI",
    "PNAME": "a prefixed name",
    "BLANK_LABEL": "a blank node",
    "STRING": "a string",
    "INTEGER": "a whole number",
    "DECIMAL": "a number",
    "DOUBLE": "a number",
    "SIGNED_NUMBER": "a number",
    "LANGTAG": "a language tag",
    "FUNCTION": "a function",
    "AGGREGATE": "an aggregate",
    "$END": "the end of the text",
}
# Groups of terminals that are usually expected together, and one name for each group.
_TOGETHER = {
    "a term": "VAR IRIREF PNAME STRING INTEGER DECIMAL DOUBLE SIGNED_NUMBER TRUE FALSE",
    "an IRI": "IRIREF PNAME",
    "a number": "INTEGER DECIMAL DOUBLE SIGNED_NUMBER",
    "a function": "FUNCTION AGGREGATE EXISTS",
    "a pattern such as OPTIONAL or FILTER": "BIND FILTER GRAPH MINUS OPTIONAL SERVICE VALUES",
    "an operator": "= != < > <= >= || && + - * / IN NOT SIGNED_NUMBER",
    "a modifier such as ORDER BY or LIMIT": "ORDER LIMIT OFFSET VALUES",
}
_QUERIES = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
_UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH")
_MOST_EXPECTED = 10
_NAME_CHARACTERS = re.compile(r"[A-Za-z0-9_.-]*")  # some of the characters that a prefix may contain
_LONGEST_TOGETHER = 60  # characters of keywords without a space between them


class _Lexer:
    """Matches all terminals with one regular expression. A word is a keyword, a function or an error."""

    def __init__(self, strings: Mapping[str, str], shapes: Mapping[str, str]) -> None:
        """Takes the terminals that are fixed texts, and those that are patterns, in order of priority."""
        marks = sorted((s for s in strings if not s.isalpha()), key=len, reverse=True)
        self._forms = {name: f"(?P<{name}>{shape})" for name, shape in shapes.items()}
        self._last = [
            f"(?P<MARK>{'|'.join(map(re.escape, marks))})",
            r"(?P<WORD>[A-Za-z][A-Za-z0-9_]*)",
            r"(?P<END>\Z)",
        ]
        self._scan = _scanner([*self._forms.values(), *self._last])
        self._types = strings
        keywords = {word for word in strings if word.isalpha() and word != "a"}
        self._words = frozenset(keywords) | WORDS.keys() | AGGREGATES

    @cached_property
    def _scan_nameless(self) -> re.Pattern[str]:
        return _scanner([*(form for name, form in self._forms.items() if name != "PNAME"), *self._last])

    def lex(self, text: str) -> Iterator[Token]:
        """Yields the tokens of a text; the last one is empty, and has the type `$END`."""
        types, position, nameless_until = self._types, 0, 0
        flag = flagged([])
        while True:
            if flag:
                give_way(flag)
            scan = self._scan_nameless if position < nameless_until else self._scan
            match = scan.match(text, position)
            if match is None:
                raise _unreadable(text, position)
            kind = match.lastgroup
            if kind == "END":
                yield Token("$END", "", len(text))
                return
            assert kind is not None
            value, start, position = match[kind], match.start(kind), match.end()
            if kind == "MARK":
                yield Token(types[value], value, start)
            elif kind == "WORD":
                if start >= nameless_until:
                    # No prefixed name starts within these characters either: `true-true-…` is scanned once.
                    nameless_until = _NAME_CHARACTERS.match(text, start).end()  # type: ignore[union-attr]
                word = self._word(value, start)
                position = start + len(word)
                yield word
            else:
                yield Token(kind, value, start)

    def _word(self, text: str, start: int) -> Token:
        """Returns the first keyword of a text. `LIMIT10` and `FILTERsameTerm` need no spaces."""
        length = len(text) if self._type(text) else _first_word(text.upper(), self._words)
        word = text[:length]
        known = self._type(word)
        if known is None:
            name = _shortened(text)
            hint = f"a prefixed name needs a colon (`:{name}`), a variable a question mark (`?{name}`)"
            raise TextError(f"`{name}` is not a SPARQL keyword or function; {hint}", start)
        return Token(known, word, start)

    def _type(self, word: str) -> str | None:
        upper = word.upper()
        if upper in WORDS:
            return "FUNCTION"
        if upper in AGGREGATES:
            return "AGGREGATE"
        return self._types.get(word if word == "a" else upper) if upper.isalpha() else None


def _scanner(alternatives: list[str]) -> re.Pattern[str]:
    # The white space is an atomic group: a failure after a comment must not be retried inside the comment.
    return re.compile(r"(?>(?:[ \t\r\n]+|#[^\r\n]*)*)(?:" + "|".join(alternatives) + ")")


def _first_word(text: str, words: frozenset[str]) -> int:
    """Returns the length of the first word of a text without spaces; 0 if it is not all words and numbers.

    Of several possible first words, the longest is taken: `NOTIN` is not `NOT` and `IN…`.
    """
    if len(text) > _LONGEST_TOGETHER:
        return 0
    begins = {len(text)}  # positions from which the text is all words and numbers
    first = 0
    for start in range(len(text) - 1, -1, -1):
        fitting = [
            end for end in begins if text[start:end] in words or (start and text[start:end].isdecimal())
        ]
        if fitting:
            begins.add(start)
            first = max(fitting)
        if start == 0:
            return first if fitting else 0
    return 0


def _unreadable(text: str, position: int) -> TextError:
    """Explains why no terminal matches after the white space at a position."""
    space = re.compile(r"(?>(?:[ \t\r\n]+|#[^\r\n]*)*)").match(text, position)
    start = space.end() if space else position
    rest = text[start:]
    if rest[0] in "'\"":
        closed = re.match(r"""(['"])(?:\\.|(?!\1)[^\\\n])*\1""", rest)
        if closed:
            return TextError("invalid escape in this string; write `\\\\` for a backslash", start)
        return TextError("this string is not closed; a string of several lines needs triple quotes", start)
    if rest.startswith("_:"):
        return TextError("a blank node needs a label after `_:`, such as `_:b1`", start)
    return TextError(f"unexpected character `{rest[0]}`", start)


class _Rule(NamedTuple):
    """How many symbols a rule reduces, and how they become a node; see `setup/grammar.py`."""

    makes: str
    length: int
    name: str
    is_single: bool
    kept: Sequence[tuple[int, bool, int]] | None
    absent: int

    def node(self, given: list[Any]) -> Any:
        """Returns what the rule builds from the nodes and tokens of its symbols."""
        if self.kept is None:
            children = given
        else:
            children = []
            for place, expands, absent in self.kept:
                if absent:
                    children += [None] * absent
                if not expands:
                    children.append(given[place])
                elif children:
                    children += given[place].children
                else:  # lists grow at their end, and are not copied
                    children = given[place].children
            if self.absent:
                children += [None] * self.absent
        return children[0] if self.is_single and len(children) == 1 else Node(self.name, children)


@dataclass(frozen=True)
class _Grammar:
    """The parse table. A state leads from a symbol to a state, or with a negative number to a rule."""

    starts: Mapping[str, tuple[int, int]]
    """The first state of each kind of text, and the one in which all of it is read."""
    words: Mapping[str, str]
    """The terminals that are fixed texts."""
    rules: Sequence[_Rule]
    states: Sequence[Mapping[str, int]]
    lexer: _Lexer

    def parse(self, text: str, start: str) -> Node:
        first, last = self.starts[start]
        rules, table, states, found = self.rules, self.states, [first], list[Any]()
        for token in self.lexer.lex(text):
            kind = token.type
            while True:
                following = table[states[-1]].get(kind)
                if following is None:
                    raise _unexpected(text, token, self.accepted(states, last))
                if following >= 0:
                    states.append(following)
                    found.append(token)
                    break
                rule = rules[~following]
                given, length = list[Any](), rule.length
                if length:
                    given = found[-length:]
                    del found[-length:], states[-length:]
                states.append(table[states[-1]][rule.makes])
                found.append(rule.node(given))
                if kind == "$END" and states[-1] == last:
                    (unit,) = found
                    assert isinstance(unit, Node)
                    return unit
        raise AssertionError("the last token ends a text, or is not expected")

    def accepted(self, states: Sequence[int], last: int) -> set[str]:
        """The terminals that can follow. A state's row also has those that follow only elsewhere."""
        kinds = filter(str.isupper, self.states[states[-1]])
        return {kind for kind in kinds if self._is_accepted([*states], kind, last)}

    def _is_accepted(self, states: list[int], kind: str, last: int) -> bool:
        while (following := self.states[states[-1]].get(kind)) is not None:
            if following >= 0:
                return True
            rule = self.rules[~following]
            del states[len(states) - rule.length :]
            states.append(self.states[states[-1]][rule.makes])
        return kind == "$END" and states[-1] == last


@cache
def _grammar() -> _Grammar:
    read = json.loads(files("sparqlive.sparql.syntax").joinpath("grammar.json").read_text("utf-8"))
    symbols = [found.split() for found in read["symbols"]]
    states = [
        {s: int(to) for to, number in state.items() for s in symbols[number]} for state in read["states"]
    ]
    rules = [_Rule(*rule) for rule in read["rules"]]
    return _Grammar(read["starts"], read["words"], rules, states, _Lexer(read["words"], read["shapes"]))


def parse(text: str, start: str) -> Node:
    """Parses a text whose codepoint escapes are already decoded. Raises TextError."""
    return _grammar().parse(text, start)


def _unexpected(text: str, token: Token, accepted: set[str]) -> TextError:
    start = token.start_pos
    expected = _in_words(accepted)
    if token.type == "$END":
        return TextError(f"unexpected end of the text; expected {expected}", len(text.rstrip()))
    if text.startswith("<<", start) or text.startswith("{|", start - 1):
        return TextError("triple terms and annotations are SPARQL 1.2; only SPARQL 1.1 is supported", start)
    if token.type in _UPDATES and "DESCRIBE" in accepted:  # not at the place of a sub-SELECT
        return TextError(f"`{token}` begins an update, and this must be a query", start)
    if token.type in _QUERIES and "CLEAR" in accepted:
        return TextError(f"`{token}` begins a query, and this must be an update", start)
    if token == "<" and "IRIREF" in accepted:
        return TextError("this IRI is not closed, or contains a character that IRIs do not allow", start)
    return TextError(f"found `{_shortened(token)}`, expected {expected}", start)


def _shortened(token: str) -> str:
    return token if len(token) <= 40 else token[:37] + "..."


def _in_words(expected: set[str]) -> str:
    """Lists terminals as a person would: `a variable, an IRI or "}"`."""
    texts = {name: text for text, name in _grammar().words.items()}
    left = {texts.get(terminal, terminal) for terminal in expected}
    names: list[str] = []
    for name, together in _TOGETHER.items():
        if left.issuperset(together.split()):
            names.append(name)
            left.difference_update(together.split())
    rest = {_IN_WORDS.get(terminal) or f"`{terminal}`" for terminal in left}
    # Punctuation before keywords: most often a bracket or a full stop is missing.
    names += sorted(rest, key=lambda name: (name.startswith("`"), name[1:2].isalpha(), name))
    if len(names) > _MOST_EXPECTED:
        names = [*names[: _MOST_EXPECTED - 1], "something else"]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
