"""How large a regular expression may become: counted before any engine sees it."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys

import pytest
import regex

import sparqlive
from sparqlive.sparql.functions import patterns
from sparqlive.sparql.functions.pattern_syntax import MAXIMUM_EXPANDED, PatternTooLargeError
from sparqlive.sparql.functions.patterns import check_size, matcher
from sparqlive.sparql.values import ExpressionError


def nested(count: str, depth: int = 20, inside: str = "a", opening: str = "(") -> str:
    return opening * depth + inside + f"){count}" * depth


GROWING = {
    "exact": nested("{2}"),
    "open": nested("{2,}"),
    "range": nested("{2,3}"),
    "once or more": nested("+"),
    "at least once": nested("{1,}"),
    "reluctant": nested("{2}?"),
    "reluctant, once or more": nested("+?"),
    "without groups": nested("{2}", opening="(?:"),
    "few levels": nested("{99}", 4),
    "one level": "(ab){99999}",
    "one character": "a{999999}",
    "twenty digits": "a{99999999999999999}",
    "empty": nested("{2}", inside=""),
    "alternatives": nested("{2}", inside="a|b|"),
    "class": "[a-z-[aeiou]]{99999}",
    "brackets in a class": nested("{2}", inside="[()\\]]"),
    "escaped brackets": nested("{2}", inside="\\)\\("),
    "property": "(\\p{L}\\p{N}){2000}",
    "word characters": "(\\w{99}){99}",
    "back-reference": "(a)" + nested("{2}", inside="\\1"),
    "boundary": nested("{2}", inside="\\b"),
    "after something": "^x[^)]y" + nested("{2}") + "$",
}


@pytest.mark.parametrize("flags", ["", "i", "s", "m", "x", "imsx"])
@pytest.mark.parametrize("pattern", GROWING.values(), ids=GROWING)
def test_a_pattern_that_grows_is_refused(pattern: str, flags: str) -> None:
    spaced = re.sub(r"(?<!\\)([)({])", r" \1", pattern).replace("( ?", "(?")
    for text in (pattern, spaced) if "x" in flags and not re.search(r"\[|\\p", pattern) else (pattern,):
        with pytest.raises(PatternTooLargeError, match=r"20,000 parts|too many sets"):
            check_size(text, flags)


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}$",
        "^[\\w.+-]{1,64}@[\\w.-]{2,255}$",
        "^(?:(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)(?:\\.(?!$)|$)){4}$".replace("(?!$)", ""),
        "(a{100}){100}",
        "a{10000}",
        "\\w{100}",
        ".{0,100000}",
        nested("*"),
        nested("?"),
        nested("{0,2}"),
        "((a+)+)+",
        "|".join(f"word{number}" for number in range(1000)),
    ],
)
def test_patterns_in_use_are_not_refused(pattern: str) -> None:
    assert check_size(pattern, "") <= MAXIMUM_EXPANDED
    assert matcher(pattern, "").expanded == check_size(pattern, "")


def test_a_literal_pattern_repeats_nothing() -> None:
    assert check_size(nested("{2}"), "q") == len(nested("{2}"))
    assert matcher(nested("{2}"), "q").matches(nested("{2}"))


@pytest.mark.parametrize(
    "pattern", ["(" * 20, "a{2", "[a{2}", "(a]{2}", "a)){9}", "[[a]{9}", "\\", "a{,2}", "{9}{9}"]
)
def test_unbalanced_brackets_are_errors_and_nothing_else(pattern: str) -> None:
    with pytest.raises(ExpressionError):
        matcher(pattern, "")


def test_what_is_within_the_bound_takes_an_engine_little() -> None:
    largest = max(
        (nested(count, depth) for count in ("+", "{2}", "{3}", "{9}") for depth in range(2, 15)),
        key=_size,
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    regex.compile(largest, regex.VERSION0, cache_pattern=False)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # kB


def _size(pattern: str) -> int:
    try:
        return check_size(pattern, "")
    except PatternTooLargeError:
        return 0


def test_large_patterns_are_not_all_remembered() -> None:
    for number in range(20):
        matcher(f"(a{number}){{900}}(\\w)\\2", "")
    kept = patterns._MATCHERS._kept.values()
    assert sum(found.expanded for found in kept) <= patterns._REMEMBERED_PARTS


def test_a_constant_pattern_is_refused_with_a_sentence() -> None:
    with sparqlive.open() as session:
        for asked in (
            f"ASK {{ FILTER(REGEX('a', '{nested('{2}')}')) }}",
            f"SELECT (REPLACE('a', '{nested('{2}')}', 'b') AS ?x) {{}}",
            f"SELECT ?s {{ ?s ?p ?o FILTER EXISTS {{ ?s ?q ?z FILTER(!REGEX(?z, '{nested('+')}', 'i')) }} }}",
            f"SELECT (COUNT(IF(REGEX(?o, '{nested('{2}')}'), 1, 2)) AS ?n) {{ ?s ?p ?o }}",
        ):
            for ask in (session.query, lambda text: session.view("v", text)):
                with pytest.raises(sparqlive.TooLarge, match=r"RE(GEX|PLACE): .* more than 20,000 parts"):
                    ask(asked)
        with pytest.raises(sparqlive.TooLarge, match="20,000 parts"):
            session.update(f"DELETE {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o FILTER(REGEX(?o, '{nested('{2}')}')) }}")


def test_a_pattern_in_the_data_is_an_error_of_its_row() -> None:
    with sparqlive.open() as session:
        view = session.view("v", "SELECT ?s { ?s <x:p> ?p FILTER(REGEX('a', ?p) || ?s = <x:c>) }")
        replaced = session.view("r", "SELECT ?s (REPLACE('aa', ?p, 'b') AS ?x) { ?s <x:p> ?p }")
        for strategy in ("live", "duckdb"):
            session.apply(
                insert=f'<x:a> <x:p> "a" .\n<x:b> <x:p> "{nested("{2}")}" .\n<x:c> <x:p> "{nested("+")}" .',
                strategy=strategy,
            )
            assert sorted(str(row["s"]) for row in view) == ["<x:a>", "<x:c>"]
            assert sorted(str(row.get("x")) for row in replaced) == ['"bb"', "None", "None"]
            session.update("CLEAR ALL")
        session.check()


def test_no_pattern_takes_the_memory_of_the_process() -> None:
    """In another process, whose memory is limited."""
    program = (
        "import json, sys, resource, sparqlive\n"
        "from pyoxigraph import Literal\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with sparqlive.open() as session:\n"
        "    for pattern in json.load(sys.stdin):\n"
        "        session.apply(insert=f'<x:s> <x:p> {Literal(pattern)} .')\n"
        "    for flags in ('', 'i', 'x'):\n"
        '        rows = session.query(f\'SELECT ?p {{ ?s <x:p> ?p FILTER(REGEX("b", ?p, "{flags}")) }}\')\n'
        "        assert not list(rows)\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "assert grown < 400 * 1024, grown\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([*GROWING.values()]),
        text=True,
        check=True,
        timeout=300,
    )


def test_a_replacement_of_many_empty_groups_ends() -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Timeout, match="was stopped"):
        session.query(
            f"SELECT (REPLACE('{'a' * 100_000}', '(x*)a\\\\b|(x*)a', '{'$1' * 50_000}') AS ?x) {{}}"
        )


def test_matching_that_takes_too_much_memory_fails_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        groups = 1

        def search(self, *_: object, **__: object) -> None:
            raise MemoryError

    found = matcher("(a)\\1", "")
    monkeypatch.setattr(found, "_stoppable", Full())
    with pytest.raises(sparqlive.TooLarge, match="too much memory for one text"):
        found.matches("aa")
