"""Writes the parse table that `sparql/syntax/parser.py` reads, after a change of the grammar: `make grammar`.

Lark makes it of `grammar.lark`: an LALR(1) automaton, and for each rule how its node is made. Making it takes
150 ms, reading it 3 ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lark import Lark
from lark.grammar import Rule
from lark.lexer import BasicLexer, PatternStr, TerminalDef
from lark.parse_tree_builder import maybe_create_child_filter
from lark.parsers.lalr_analysis import Shift

SYNTAX = Path(__file__).parents[1] / "src" / "sparqlive" / "sparql" / "syntax"
TABLE = SYNTAX / "grammar.json"
STARTS = ["query_unit", "update_unit"]


class _Lexer(BasicLexer):
    """None: the parser's own lexer is in sparqlive."""

    def __init__(self, conf: Any) -> None:
        pass


def table() -> dict[str, Any]:
    """The table of `grammar.lark`. In a state, a symbol leads to a state, or to a rule: -1 is the first."""
    grammar = (SYNTAX / "grammar.lark").read_text("utf-8")
    lark = Lark(grammar, parser="lalr", lexer=_Lexer, start=STARTS, maybe_placeholders=True)
    parsed = lark.parser.parser._parse_table
    rules = sorted(lark.rules, key=str)
    rule_numbers = {rule: -1 - number for number, rule in enumerate(rules)}
    order = _in_order(parsed.start_states.values(), parsed.states)
    numbers = {state: number for number, state in enumerate(order)}
    sets: dict[str, int] = {}
    states = []
    for state in order:
        symbols: dict[int, list[str]] = {}
        for symbol, (action, to) in parsed.states[state].items():
            symbols.setdefault(numbers[to] if action is Shift else rule_numbers[to], []).append(str(symbol))
        of = {" ".join(sorted(found)): to for to, found in sorted(symbols.items())}
        states.append({str(to): sets.setdefault(found, len(sets)) for found, to in of.items()})
    shapes = sorted((t for t in lark.terminals if not isinstance(t.pattern, PatternStr)), key=_priority)
    return {
        "starts": {
            start: [numbers[of[start]] for of in (parsed.start_states, parsed.end_states)] for start in STARTS
        },
        "words": {t.pattern.value: t.name for t in lark.terminals if isinstance(t.pattern, PatternStr)},
        "shapes": {t.name: t.pattern.to_regexp() for t in shapes},
        "rules": [_rule(rule) for rule in rules],
        "symbols": [*sets],
        "states": states,
    }


def _in_order(starts: Iterable[int], states: dict[int, dict[str, Any]]) -> list[int]:
    """All states as they are reached: lark numbers them differently each time."""
    found = dict.fromkeys(starts)
    waiting = [*found]
    for state in waiting:
        for _, (action, to) in sorted(states[state].items()):
            if action is Shift and to not in found:
                found[to] = None
                waiting.append(to)
    return [*found]


def _priority(terminal: TerminalDef) -> int:
    return -terminal.priority


def _rule(rule: Rule) -> list[Any]:
    """What a rule makes, its length, its node's name, whether a single child stands for it, and the children.

    Of each child of the node: its place, whether its own children take this place, and how many absent ones
    come before it; then, how many absent ones come last. None: all are children.
    """
    options, kept, absent = rule.options, None, 0
    made = maybe_create_child_filter(rule.expansion, options.keep_all_tokens, False, [*options.empty_indices])
    if made is not None:
        children = made(None)
        kept = [[*one, 0][:3] for one in children.to_include]
        absent = getattr(children, "append_none", 0)
    is_single = bool(options.expand1 and not rule.alias)
    return [
        str(rule.origin.name),
        len(rule.expansion),
        str(rule.alias or rule.origin.name),
        is_single,
        kept,
        absent,
    ]


def written() -> str:
    """The table as JSON, one state or rule on a line."""
    parts = table()
    lines = []
    for name, part in parts.items():
        if isinstance(part, list):
            items = ",\n".join(json.dumps(item) for item in part)
            lines.append(f"{json.dumps(name)}: [\n{items}\n]")
        else:
            items = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
            lines.append(f"{json.dumps(name)}: {{\n{items}\n}}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(written(), encoding="utf-8")
