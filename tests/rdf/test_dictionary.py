"""Ids: Spark's hash, never shared, never reserved; and a session whose ids collide all the time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyoxigraph as ox
import pytest
import xxhash
from hypothesis import assume, given
from hypothesis import strategies as st

import sparqlive
from sparqlive.rdf import dictionary as dictionary_module
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF, Dictionary, Term, hash_of, other_id, term_of
from sparqlive.rdf.term_columns import Ids, Marks, TermColumns
from sparqlive.runtime.tuning import DEFAULT
from tests.conftest import examples
from tests.oracle import assert_same
from tests.random_queries import RandomQuery, batches, graphs, queries

EX = "http://example.org/"

# xxHash64 with seed 42 of the canonical N-Triples form, as a signed number: what Spark's xxhash64 gives.
VECTORS = [
    (ox.NamedNode(EX + "a"), "<http://example.org/a>", 8_958_081_700_026_426_762),
    (ox.BlankNode("b0"), "_:b0", 6_369_119_174_797_715_069),
    (ox.Literal("x"), '"x"', -5_381_349_600_081_289_360),
    (ox.Literal(1), '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', -3_555_095_919_412_129_799),
    (ox.Literal("é\n", language="fr"), '"é\\n"@fr', -2_677_814_191_190_628_520),
]

terms = st.one_of(
    st.integers(0, 40).map(lambda number: ox.NamedNode(f"{EX}{number}")),
    st.integers(0, 5).map(lambda number: ox.BlankNode(f"b{number}")),
    st.text('ab\n"é', max_size=3).map(ox.Literal),
    st.sampled_from("ab").map(lambda text: ox.Literal(text, language="en")),
    st.integers(0, 5).map(ox.Literal),
)


def few_bits(bits: int) -> Callable[[str], int]:
    """A hash with 2**bits values, among them the reserved ids and a negative one."""
    return lambda text: hash_of(text) % (1 << bits) - 1


@pytest.mark.parametrize(("term", "text", "number"), VECTORS, ids=lambda value: str(value))
def test_ids_are_the_hash_that_spark_computes(term: Term, text: str, number: int) -> None:
    assert str(term) == text
    assert hash_of(text) == number
    assert Dictionary().id_of(term) == number


@given(st.text())
def test_the_hash_is_signed_64_bit_xxhash_with_seed_42(text: str) -> None:
    number = hash_of(text)
    assert -(2**63) <= number < 2**63
    assert number % 2**64 == xxhash.xxh64_intdigest(text.encode(), seed=42)


@pytest.mark.parametrize("bits", [2, 3, 64])
@given(st.lists(terms, max_size=60))
def test_ids_are_never_shared(bits: int, given_terms: list[Term]) -> None:
    dictionary = Dictionary(hash_of if bits == 64 else few_bits(bits))
    ids: dict[Term, int] = {}
    for term in given_terms:
        number = dictionary.id_of(term)
        assert ids.setdefault(term, number) == number, "a term changed its id"
        assert number not in (UNDEF, DEFAULT_GRAPH)
    assert len(set(ids.values())) == len(ids) == len(dictionary)
    for term, number in ids.items():
        assert dictionary.term(number) == term
        assert dictionary.enter(str(term)) == number
        assert dictionary.id_of(term) == number


@pytest.mark.parametrize("bits", [2, 3, 64])
@given(st.lists(terms, max_size=30))
def test_terms_may_be_entered_as_text(bits: int, given_terms: list[Term]) -> None:
    """Half of the terms come as objects, half as text: one id a term either way."""
    dictionary = Dictionary(hash_of if bits == 64 else few_bits(bits))
    for number, term in enumerate(given_terms):
        first = dictionary.id_of(term) if number % 2 else dictionary.enter(str(term))
        assert dictionary.id_of(term) == dictionary.enter(str(term)) == first
        assert dictionary.term(first) == term
    assert len({dictionary.id_of(term) for term in given_terms}) == len(set(given_terms))


# Everything that N-Triples escapes, and what looks like an escape or an end of a literal.
awkward = st.text(
    st.one_of(
        st.sampled_from("\\\"\t\b\n\r\f'@^<>uU0041 é\x00\x1f\x7f\x85\u2028\ufeff\U0001f600"),
        st.characters(codec="utf-8"),
    ),
    max_size=12,
)
literals = st.one_of(
    awkward.map(ox.Literal),
    awkward.map(lambda text: ox.Literal(text, language="en-GB")),
    awkward.map(lambda text: ox.Literal(text, datatype=ox.NamedNode(EX + "type?a=b#c"))),
)


@examples(150)
@given(st.one_of(literals, terms))
def test_terms_come_back_from_their_text(term: Term) -> None:
    assert term_of(str(term)) == term
    dictionary = Dictionary()
    number = dictionary.enter(str(term))
    assert dictionary.term(number) == term


@pytest.mark.parametrize(
    "term",
    [
        ox.NamedNode(EX + "é?a=b#c"),
        ox.NamedNode("urn:a:b"),
        ox.BlankNode("b.1"),
        pytest.param(ox.BlankNode(), id="a new blank node"),
        ox.Literal(""),
        ox.Literal('"'),
        ox.Literal("\\"),
        ox.Literal('\\"@en'),
        ox.Literal('"^^<x:y>'),
        ox.Literal("x", language="EN-gb"),
        ox.Literal("x", datatype=ox.NamedNode("http://www.w3.org/2001/XMLSchema#string")),
        ox.Literal(1.5),
        ox.Literal(True),
        pytest.param(
            ox.Literal("x", language="ar", direction=ox.BaseDirection.RTL),
        ),
    ],
    ids=str,
)
def test_special_terms_come_back(term: Term) -> None:
    dictionary = Dictionary()
    assert dictionary.term(dictionary.id_of(term)) == term


@pytest.mark.parametrize("reserved", [UNDEF, DEFAULT_GRAPH])
def test_a_hash_that_is_reserved_is_not_given(reserved: int) -> None:
    dictionary = Dictionary(lambda text: reserved)
    ids = [dictionary.id_of(ox.Literal(number)) for number in range(20)]
    assert len(set(ids)) == 20
    assert not {UNDEF, DEFAULT_GRAPH} & set(ids)


def test_a_reserved_id_stays_without_a_text() -> None:
    dictionary = Dictionary(lambda text: UNDEF)
    for text in ('"a"', '"b"', '"a"', '"b"'):
        dictionary.enter(text)
    assert len(dictionary) == 2


def test_the_reserved_ids_have_their_meaning() -> None:
    dictionary = Dictionary()
    assert dictionary.id_of(ox.DefaultGraph()) == DEFAULT_GRAPH
    assert dictionary.term(UNDEF) is None
    assert len(dictionary) == 0


def test_the_cache_of_ids_may_be_forgotten() -> None:
    dictionary = Dictionary(few_bits(3), tuning=replace(DEFAULT, cached_terms=4))
    some = [ox.NamedNode(f"{EX}{number}") for number in range(50)]
    ids = [dictionary.id_of(term) for term in some]
    assert len(dictionary.ids) <= 5
    assert [dictionary.id_of(term) for term in some] == ids
    assert dictionary.id_of(ox.DefaultGraph()) == DEFAULT_GRAPH


def test_terms_that_are_taken_back_are_in_no_cache() -> None:
    dictionary = Dictionary()
    term = ox.NamedNode(f"{EX}a")
    dictionary.id_of(term)
    dictionary.unload(Dictionary(), {})
    assert term not in dictionary.ids


def test_ids_stay_in_64_bits() -> None:
    dictionary = Dictionary(lambda text: 2**63 - 1)
    ids = [dictionary.id_of(ox.Literal(number)) for number in range(3)]
    assert all(-(2**63) <= number < 2**63 for number in ids)


def colliding_session(monkeypatch: pytest.MonkeyPatch, bits: int) -> sparqlive.Session:
    """A session that makes its dictionary with a hash of few bits."""
    monkeypatch.setattr("sparqlive.session.Dictionary", lambda tuning: Dictionary(few_bits(bits)))
    return sparqlive.open()


@pytest.mark.laws
@examples(30)
@given(queries(), graphs, st.lists(batches, min_size=1, max_size=3), st.sampled_from((2, 3)))
def test_a_session_whose_ids_collide(
    query: RandomQuery, data: list[ox.Quad], stream: list[list[tuple[str, ox.Quad]]], bits: int
) -> None:
    current = set(data)
    with pytest.MonkeyPatch.context() as monkeypatch, colliding_session(monkeypatch, bits) as session:
        session.load(data)
        try:
            view = session.view("view", query.text)
        except sparqlive.Unsupported:
            assume(False)
        for batch in stream:
            for sign, quad in batch:
                (current.add if sign == "+" else current.discard)(quad)
            session.apply(
                insert=[quad for quad in {q for _, q in batch} if quad in current],
                delete=[quad for quad in {q for _, q in batch} if quad not in current],
            )
            assert set(session.quads()) == current
            assert_same(view.weights(), query.expected(current), f"{query}: with ids of {bits} bits")
        session.check()


def test_the_colliding_session_collides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would prove nothing if the session ignored the dictionary."""
    with colliding_session(monkeypatch, 2) as session:
        session.load(
            [ox.Quad(ox.NamedNode(f"{EX}{n}"), ox.NamedNode(EX + "p"), ox.Literal(n)) for n in range(9)]
        )
        ids = [session.dictionary.id_of(ox.Literal(number)) for number in range(9)]
        assert len(set(ids)) == 9
        assert len(session.dictionary.exceptions) >= 9 + 9 + 1 - 4


@pytest.mark.parametrize("bits", [3, 64])
def test_an_extended_dictionary_keeps_what_is_entered_to_itself(bits: int) -> None:
    base = Dictionary(hash_of if bits == 64 else few_bits(bits))
    old = [ox.NamedNode(f"x:{number}") for number in range(6)]
    numbers = [base.id_of(term) for term in old]
    extended = base.extended()
    new = [ox.Literal(str(number)) for number in range(20)]
    found = [extended.id_of(term) for term in new]
    assert [extended.id_of(term) for term in old] == numbers
    assert [extended.term(number) for number in (*numbers, *found)] == [*old, *new]
    assert len(set(numbers + found)) == 26
    assert len(base) == 6
    assert {text for _, text in extended.entries()} == {str(term) for term in new}
    assert [base.find(term) for term in (*old, *new)] == [*numbers, *[None] * 20]


class Counted:
    """A dictionary whose hash is one number for all terms, and how many ids it looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.dictionary = Dictionary(lambda text: 7, older=self)

    def text_of(self, number: int) -> None:
        self.looks += 1

    def match(self, numbers: Ids, texts: pa.LargeStringArray, marks: Marks) -> None:
        self.looks += len(numbers)


@pytest.mark.parametrize("count", [1_000, 4_000])
def test_terms_that_share_one_hash_cost_a_few_looks_each(count: int) -> None:
    counted = Counted()
    texts = [f'"{number}"' for number in range(count)]
    ids = [counted.dictionary.enter(text) for text in texts]
    assert len(set(ids)) == count
    assert [counted.dictionary.enter(text) for text in texts] == ids
    assert counted.looks <= 5 * count
    assert len(counted.dictionary.exceptions) == count - 1


def test_ids_that_somebody_took_beforehand_cost_one_look_each() -> None:
    """Whoever can choose hashes can take the ids that a term would get next: each costs a term of theirs."""
    taken = {other_id('"victim"', attempt): f'"taker {attempt}"' for attempt in range(1, 101)}
    counted = Counted()
    for number, text in taken.items():
        counted.dictionary.load(counted, [(number, text)], ())
    counted.dictionary.enter('"first"')
    assert counted.dictionary.enter('"victim"') == other_id('"victim"', 101)
    assert counted.looks < 10


# Two blocks of 32 bytes of which xxHash64 keeps the same state, whatever follows: (a, b) for each of its four
# lanes, after which the accumulator is what it was. The seed does not matter, so neither would another one.
_PRIME_1, _PRIME_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F


def _one_hash(count: int) -> list[str]:
    """Texts of one xxHash64, with whatever is appended to them."""
    mask = 2**64 - 1

    def turned(value: int, by: int) -> int:
        return ((value << by) | (value >> (64 - by))) & mask

    def after(accumulator: int, word: int) -> int:
        return turned((accumulator + word * _PRIME_2) & mask, 31) * _PRIME_1 & mask

    def word_for(accumulator: int, wanted: int) -> int:
        before = turned(wanted * pow(_PRIME_1, -1, 2**64) & mask, 33)
        return (before - accumulator) * pow(_PRIME_2, -1, 2**64) & mask

    lane = (42 + _PRIME_1 + _PRIME_2) & mask
    target = after(after(lane, int.from_bytes(b"aaaaaaaa", "little")), int.from_bytes(b"bbbbbbbb", "little"))
    found: list[str] = []
    number = 0
    while len(found) < count:
        number += 1
        first = f"{number:08d}".encode()
        second = word_for(after(lane, int.from_bytes(first, "little")), target).to_bytes(8, "little")
        if all(byte < 128 for byte in second):  # one in 256
            found.append((first + b"c" * 24 + second + b"d" * 24).decode())
    return found


def test_real_texts_of_one_hash() -> None:
    texts = _one_hash(20)
    assert len({hash_of(text) for text in texts}) == len({hash_of(text + " 1") for text in texts}) == 1
    dictionary = Dictionary()
    ids = [dictionary.enter(text) for text in texts]
    assert len(set(ids)) == 20
    assert len(dictionary.exceptions) == 19


def test_exceptions_come_back_with_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [ox.Quad(ox.NamedNode(f"{EX}{n}"), ox.NamedNode(EX + "p"), ox.Literal(n)) for n in range(50)]
    monkeypatch.setattr("sparqlive.session.Dictionary", lambda tuning: Dictionary(few_bits(2)))
    monkeypatch.setattr("sparqlive.store.tables.hash_of", few_bits(2))
    with sparqlive.open(tmp_path / "store") as session:
        for quad in some[:40]:
            session.apply(insert=[quad])
        session.compact()
        exceptions = dict(session.dictionary.exceptions)
        assert len(exceptions) > 70
    with sparqlive.open(tmp_path / "store") as session:
        assert session.dictionary.exceptions == exceptions
        assert set(session.quads()) == set(some[:40])
        session.apply(insert=some[35:])
        more = dict(session.dictionary.exceptions)
        assert exceptions.items() < more.items()
    with sparqlive.open(tmp_path / "store", read_only=True) as session:
        assert session.dictionary.exceptions == more
        assert set(session.quads()) == set(some)
        answer = session.query(f"SELECT ?s {{ ?s <{EX}p> 49 }}")
        assert answer.weights() == {(ox.NamedNode(f"{EX}49"),): 1}


def test_an_epoch_writes_only_the_exceptions_that_are_new() -> None:
    dictionary = Dictionary(lambda text: 7)
    dictionary.start_journal()
    for number in range(5):
        dictionary.enter(f'"{number}"')
    assert [text for text, _ in dictionary.journal()[2]] == [f'"{number}"' for number in range(1, 5)]
    extended = dictionary.extended()
    assert extended.exceptions == {}, "nothing is copied for a query"
    assert extended.find(ox.Literal("3")) == dictionary.exceptions['"3"']


# By columns


def random_texts(rng: random.Random, count: int) -> list[str]:
    kinds = ("<urn:{}>", '"{}"', '"{}"@en', "_:b{}")
    return [rng.choice(kinds).format(rng.randrange(count)) for _ in range(count)]


@pytest.mark.parametrize("journal", [True, False])
@pytest.mark.parametrize("bits", [3, 8, 64])
def test_columns_and_single_terms_share_a_dictionary(bits: int, journal: bool) -> None:
    """The same ids whichever way a term comes, also if hashes collide; the journal has new terms once."""
    hashed = hash_of if bits == 64 else few_bits(bits)
    rng = random.Random(bits)
    dictionary = Dictionary(hashed, tuning=replace(DEFAULT, column_rows=1))
    if journal:
        dictionary.start_journal()
    entered: dict[str, int] = {}
    for _ in range(12):
        texts = random_texts(rng, 60)
        if rng.random() < 0.5:
            ids = [dictionary.enter(text) for text in texts]
        else:
            hashes = np.array([hashed(text) for text in texts], dtype=np.int64)
            ids = dictionary.enter_columns(hashes, pa.array(texts)).tolist()
        for text, number in zip(texts, ids, strict=True):
            assert entered.setdefault(text, number) == number
    assert len(set(entered.values())) == len(entered) == len(dictionary)
    assert all(dictionary.text(number) == text for text, number in entered.items())
    assert all(dictionary.find(term_of(text)) == number for text, number in entered.items())
    assert {text: number for number, text in dictionary.entries()} == entered
    if journal:
        assert {text: number for number, text in dictionary.new_entries()} == entered
        singles, columns, exceptions = dictionary.journal()
        assert len(singles) + sum(map(len, columns)) == len(entered)
        assert dict(exceptions) == dictionary.exceptions


def test_many_small_columns_become_few() -> None:
    dictionary = Dictionary()
    for start in range(0, 300_000, 1_000):
        texts = [f'"{number}"' for number in range(start, start + 1_000)]
        dictionary.enter_columns(np.array([hash_of(text) for text in texts]), pa.array(texts))
    assert len(dictionary) == 300_000
    assert len(dictionary.columns()) < 10
    assert dictionary.text(hash_of('"123456"')) == '"123456"'


_EDGES = (-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1)


@given(
    st.lists(st.sampled_from(_EDGES) | st.integers(-(2**63), 2**63 - 1), unique=True, max_size=40),
    st.lists(st.sampled_from(_EDGES) | st.integers(-(2**63), 2**63 - 1), max_size=10),
)
def test_columns_find_the_texts_of_their_ids_and_no_others(ids: list[int], others: list[int]) -> None:
    ids.sort()
    columns = TermColumns(np.array(ids, np.int64), pa.array(map(str, ids), pa.large_string()))
    assert [columns.text(number) for number in ids] == [str(number) for number in ids]
    assert all(columns.text(number) == (str(number) if number in ids else None) for number in others)


def test_a_term_that_was_given_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    term, dictionary = ox.Literal("a", language="en"), Dictionary()
    number = dictionary.id_of(term)
    monkeypatch.setattr(dictionary_module, "term_of", None)
    assert dictionary.term(number) is term
