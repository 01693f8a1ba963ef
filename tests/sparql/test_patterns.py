"""REGEX and REPLACE: two engines that match alike, and that no pattern or text holds up."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from sparqlive.runtime.deadline import within
from sparqlive.sparql.functions import characters, patterns
from sparqlive.sparql.functions.patterns import Matcher, matcher, substitute
from sparqlive.sparql.values import MAXIMUM_CHARACTERS, ExpressionError

pytestmark = pytest.mark.slow

GENEROUS_SECONDS = 500

# Two engines, one meaning

ATOMS = [
    "a", "b", ".", "[ab]", "[^a]", "[^\\d]", "(a|b)", "(ab)", "\\d", "\\w", "\\W", "\\s", "\\S", "\\i", "\\C",
    "(a|ab)(c|bcd)", "(?:(?:a|ab)??)", "\\p{Lu}", "\\P{Ll}", "\\p{IsGreek}", "[a-z-[b]]", "[\\w-[a\\d]]", "^",
    "$", "|", "\\.", "\\n", "K", "ſ", "[k-s]",
]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(ATOMS), st.sampled_from(["", "*", "+", "?", "*?", "+?", "{1,2}", "{2}?"])),
        max_size=5,
    ),
    st.text(alphabet="abcdABkKs1. \n\r\tä\u212aςΣ\U0001f600\U00010400", max_size=12),
    st.sampled_from(["", "i", "s", "m", "im", "x", "q", "iq"]),
    st.booleans(),
)
def test_both_engines_match_alike(parts: list[tuple[str, str]], text: str, flags: str, whole: bool) -> None:
    repeated = "".join(atom if atom in "^$|" else atom + times for atom, times in parts)
    pattern = f"^{repeated}$" if whole else repeated
    linear, other = matcher(pattern, flags), only_stoppable(pattern, flags)
    assert linear._linear is not None
    assert linear.matches(text) == other.matches(text)
    assert linear.matches_empty == other.matches_empty
    if not linear.matches_empty:
        assert substitute(linear, text, "<$0>") == substitute(other, text, "<$0>")


def only_stoppable(pattern: str, flags: str) -> Matcher:
    """The matcher as it would be without RE2."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(patterns, "_linear", lambda pattern, flags: None)
        return Matcher(pattern, flags)


@pytest.mark.parametrize(
    ("pattern", "linear"),
    [
        ("^(a|a)*$", True),
        ("(a{10}){100}", True),
        ("[a-z-[aeiou]]", True),
        ("(\\w+)\\s\\p{Lu}", True),
        ("(a)\\1", False),
        ("\\bword\\b", False),
        ("a{2000}", False),
        ("(a{100}){100}", False),
    ],
)
def test_what_is_left_to_the_engine_that_can_be_stopped(pattern: str, linear: bool) -> None:
    assert (matcher(pattern, "")._linear is not None) == linear


def test_a_text_too_long_for_a_large_pattern_is_left_to_the_engine_that_can_be_stopped() -> None:
    found = matcher("(?:a|ab|b){1,900}(?:a|b)*c", "")
    assert found._is_linear("ab" * 1000)
    assert not found._is_linear("ab" * 100_000)
    assert found.matches("ab" * 1000 + "c")


def set_of(text: str) -> characters.Characters:
    return characters.union(((ord(character), ord(character)),) for character in text)


def test_sets_of_characters() -> None:
    letters = set_of("abcxyz")
    assert letters == ((97, 99), (120, 122))
    assert characters.difference(letters, set_of("by")) == set_of("acxz")
    assert characters.complement(characters.complement(letters)) == letters
    assert characters.complement(characters.ALL) == ()
    assert characters.with_case_variants(set_of("k")) == set_of("kK\u212a")
    assert characters.union([characters.category(name) for name in "LMNPSZC"]) == characters.ALL
    assert characters.block("Latin-1Supplement") == ((0x80, 0xFF),)


# Nothing holds the process up

FREEZING = {
    "alternatives": f"ASK {{ BIND('{'a' * 40}!' AS ?t) FILTER(REGEX(?t,'^(a|a)*$')) }}",
    "nested repetition": f"ASK {{ BIND('{'a' * 5000}!' AS ?t) FILTER(REGEX(?t,'^((a+)+)+$')) }}",
    "optionals": f"ASK {{ BIND('{'a' * 500}' AS ?t) FILTER(REGEX(?t,'^(a?){{500}}a{{500}}$')) }}",
    "case": f"ASK {{ BIND('{'a' * 5000}!' AS ?t) FILTER(REGEX(?t,'^(A|a|[a-z])*$','i')) }}",
    "lines": f"ASK {{ BIND('''{'a' * 40}!\n''' AS ?t) FILTER(REGEX(?t,'^(a|a)*$','m')) }}",
    "back-reference": f"ASK {{ BIND('{'a' * 40}!' AS ?t) FILTER(REGEX(?t,'^(a|a)*\\\\1$')) }}",
    "word boundary": f"ASK {{ BIND('{'a' * 40}!' AS ?t) FILTER(REGEX(?t,'^(a|a)*\\\\b$')) }}",
    "large count": f"ASK {{ BIND('{'a' * 5000}!' AS ?t) FILTER(REGEX(?t,'^(a{{1,1000}}){{1,1000}}$')) }}",
    "replacement": f"ASK {{ BIND(REPLACE('{'a' * 5000}','(a+)+!','$1') AS ?t) FILTER(?t = '') }}",
    "quadratic replacement": f"ASK {{ BIND(REPLACE('{'a' * 200000}','a.*b|a','b') AS ?t) FILTER(?t = '') }}",
    "large pattern": f"ASK {{ BIND('a' AS ?t) FILTER(REGEX(?t,'{'(' * 4000}a{')*' * 4000}')) }}",
    "pattern in data": (
        f"ASK {{ VALUES ?p {{ '^(a|a)*$' '^(a+)+$' }} BIND('{'a' * 40}!' AS ?t) FILTER(REGEX(?t, ?p)) }}"
    ),
}


def test_no_query_freezes_the_process() -> None:
    """In another process, which would have to be killed; what it printed last names the query before."""
    program = (
        "import json, sys, sparqlive\n"
        "from sparqlive.sparql.functions import patterns\n"
        "patterns.MAXIMUM_SECONDS = 0.2\n"  # most of these are stopped, and each would take a second
        "with sparqlive.open() as session:\n"
        "    for name, query in json.load(sys.stdin).items():\n"
        "        for ask in (session.query, lambda text: session.view(name, text)):\n"
        "            try:\n"
        "                ask(query)\n"
        "            except sparqlive.Timeout as stopped:\n"
        "                assert 'was stopped' in str(stopped), stopped\n"
        "            except sparqlive.TooLarge as rejected:\n"
        "                assert name == 'large pattern', rejected\n"
        "        print(name, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(FREEZING), text=True, check=True, timeout=GENEROUS_SECONDS, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert done.stdout.splitlines() == [*FREEZING]


def test_a_match_that_takes_too_long_fails_the_query_and_not_the_expression() -> None:
    """An expression that is an error after a second would have one value here and another there."""
    with (
        sparqlive.open() as session,
        pytest.raises(sparqlive.Timeout, match=r"longer than 1 s .* was stopped"),
    ):
        session.query(f"SELECT (COALESCE(REGEX('{'a' * 40}!', '^(a|a)*\\\\1$'), 7) AS ?n) {{}}")


def test_a_match_that_takes_too_long_fails_the_view_and_not_the_others() -> None:
    with sparqlive.open() as session:
        slow = session.view("slow", "SELECT ?s { ?s <x:t> ?t FILTER(REGEX(?t, '^(a|a)*\\\\1$')) }")
        other = session.view("other", "SELECT ?s { ?s <x:t> ?t FILTER(REGEX(?t, '^(a|a)*$')) }")
        session.apply(insert='<x:a> <x:t> "aaa" .')
        session.apply(insert=f'<x:b> <x:t> "{"a" * 40}!" .')
        assert other.epoch == 2
        assert len(other) == 1
        with pytest.raises(sparqlive.ViewFailed, match=r"longer than 1 s"):
            len(slow)


def test_the_time_of_a_query_is_the_limit_of_its_matches_too() -> None:
    found = matcher("^(a|a)*\\1$", "")
    with pytest.raises(sparqlive.Timeout):
        within(0.05, lambda: found.matches("a" * 40 + "!"))


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("\\w" * 4000, "too many sets"),
        ("a" * 10_001, "at most 10,000"),
        ("[a-" * 3000, "Not a|too deep"),
        ("a{1,99999999999999999999}", "Not a"),
    ],
)
def test_patterns_that_are_too_large(pattern: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match=problem):
        matcher(pattern, "")


def test_a_replacement_does_not_grow_without_bound() -> None:
    half = "a" * (MAXIMUM_CHARACTERS // 2)
    assert len(substitute(matcher("a", ""), half, "bb")) == MAXIMUM_CHARACTERS
    for pattern, replacement in (("a", "bbb"), ("(.+)", "$1" * 4000), ("(a+)", "$1$1$1")):
        with pytest.raises(ExpressionError, match="more than 1048576 characters"):
            substitute(matcher(pattern, ""), half, replacement)
