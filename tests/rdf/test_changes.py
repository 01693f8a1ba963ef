"""Changes as text: both syntaxes, batches, the last word, and errors that name file and line."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad

import sparqlive
from sparqlive.rdf.change_columns import read_batches
from sparqlive.rdf.changes import Batch, parse_changes, statement, write_patch


def read(text: str, name: str = "some.changes", graph: NamedNode | None = None) -> list[Batch]:
    return list(parse_changes(text.encode().splitlines(keepends=True), name, graph))


def quad(subject: str, graph: str | None = None) -> Quad:
    terms = (NamedNode(f"a:{subject}"), NamedNode("a:p"), NamedNode("a:o"))
    return Quad(*terms, NamedNode(graph)) if graph else Quad(*terms)


def test_batches() -> None:
    batches = read(
        "# what happened\n+ <a:x> <a:p> <a:o> .\n\n- <a:y> <a:p> <a:o> <a:g> .\n"
        "@ 2026-01-01T00:00:00Z\n@\n+ <a:z> <a:p> <a:o> .\n"
    )
    assert [(batch.insert, batch.delete) for batch in batches] == [
        ((quad("x"),), (quad("y", "a:g"),)),
        ((), ()),
        ((quad("z"),), ()),
    ]
    assert [(batch.time, batch.line) for batch in batches] == [
        (None, 2),
        ("2026-01-01T00:00:00Z", 5),
        (None, 6),
    ]


def test_the_first_at_begins_no_second_batch() -> None:
    assert len(read("@\n+ <a:x> <a:p> <a:o> .\n")) == 1
    assert read("") == []


def test_the_last_word_wins_within_a_batch() -> None:
    [batch] = read(
        "+ <a:x> <a:p> <a:o> .\n- <a:x> <a:p> <a:o> .\n- <a:y> <a:p> <a:o> .\n+ <a:y> <a:p> <a:o> ."
    )
    assert (batch.insert, batch.delete) == ((quad("y"),), (quad("x"),))


def test_the_last_word_is_on_the_quad_in_its_graph() -> None:
    [batch] = read("+ <a:x> <a:p> <a:o> .\n- <a:x> <a:p> <a:o> <a:g> .\n", graph=NamedNode("a:g"))
    assert (batch.insert, batch.delete) == ((), (quad("x", "a:g"),))


def test_blank_nodes_keep_their_labels() -> None:
    [batch] = read("+ _:b1 <a:p> _:b2 .\n")
    assert batch.insert == (Quad(BlankNode("b1"), NamedNode("a:p"), BlankNode("b2")),)


def test_a_patch_has_transactions() -> None:
    batches = read(
        'H id <uuid:1> .\nTX .\nPA "a" "http://a/" .\n'
        "A <a:x> <a:p> <a:o> .\nD <a:y> <a:p> <a:o> <a:g> .\nTC .\n"
        "TX .\nA <a:lost> <a:p> <a:o> .\nTA .\n"
        'TX .\nA <_:b1> <a:p> "not <_:this>" .\nTC .\n',
        "some.rdfp",
    )
    text = Quad(BlankNode("b1"), NamedNode("a:p"), Literal("not <_:this>"))
    assert [(batch.insert, batch.delete) for batch in batches] == [
        ((quad("x"),), (quad("y", "a:g"),)),
        ((text,), ()),
    ]


def test_a_string_that_is_not_closed_is_read_once() -> None:
    began = time.thread_time()
    with pytest.raises(sparqlive.SyntaxError):
        read("TX .\nA <a:x> <a:p> " + '"\\' * 50_000 + "\nTC .\n", "some.rdfp")
    assert time.thread_time() - began < 10  # to search again at each quote takes minutes


def test_a_patch_without_transactions_is_one_batch() -> None:
    [batch] = read("A <a:x> <a:p> <a:o> .\nD <a:y> <a:p> <a:o> .\n", "some.rdfp")
    assert len(batch) == 2


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.changes", "+ <a:x> <a:p> <a:o> .\n- <a:x <a:p> <a:o> .\n", "x.changes, line 2: "),
        ("x.changes", "+<a:x> <a:p> <a:o> .\n", "x.changes, line 1: a line of changes must start with"),
        ("x.changes", "+ <a:x> <a:p> <a:o> . <a:y> <a:p> <a:o> .\n", "x.changes, line 1: "),
        ("x.changes", "\n+ # nothing\n", "x.changes, line 2: expected one statement, not 0"),
        ("x.changes", "@prefix : <a:> .\n", "x.changes, line 1: after '@'"),
        ("x.changes", "@ yesterday\n", "x.changes, line 1: after '@'"),
        ("x.changes", "+ <a:x> <a:p> <<( <a:x> <a:p> <a:o> )>> .\n", "x.changes, line 1: .*triple term"),
        ("x.rdfp", "TX .\nA <a:x> <a:p> <a:o> .\n", "x.rdfp, line 1: .*truncated"),
        ("x.rdfp", "TX .\nTX .\n", "x.rdfp, line 2: .*must alternate"),
        ("x.rdfp", "TC .\n", "x.rdfp, line 1: .*must alternate"),
        ("x.rdfp", "+ <a:x> <a:p> <a:o> .\n", "x.rdfp, line 1: not a valid RDF Patch"),
        ("x.txt", "", "x.txt: the file name does not show"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(name: str, text: str, said: str) -> None:
    with pytest.raises(sparqlive.Error, match=said):
        read(text, name)


def test_other_encodings_are_refused() -> None:
    with pytest.raises(sparqlive.SyntaxError, match=r"line 2: the line is not UTF-8"):
        list(parse_changes([b"@\n", b'+ <a:x> <a:p> "\xe9" .\n'], "x.changes"))


def test_files_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "some.changes.gz"
    path.write_bytes(gzip.compress(b"+ <a:x> <a:p> <a:o> .\n"))
    [batch] = read_batches(path, {})
    assert batch.insert == (quad("x"),)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(sparqlive.Error, match=r"some\.changes\.gz: cannot be read"):
        list(read_batches(path, {}))


def test_batches_are_read_one_by_one() -> None:
    def lines() -> object:
        yield b"+ <a:x> <a:p> <a:o> .\n"
        yield b"@\n"
        raise AssertionError("read further than the first batch")

    assert next(parse_changes(lines(), "x.changes")).insert == (quad("x"),)  # type: ignore[arg-type]


TERMS = st.one_of(
    st.from_regex(r"a:[a-z]{1,3}", fullmatch=True).map(NamedNode),
    st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True).map(BlankNode),
)
OBJECTS = st.one_of(TERMS, st.text(st.characters(exclude_categories=["Cs"])).map(Literal))
QUADS = st.builds(Quad, TERMS, st.just(NamedNode("a:p")), OBJECTS, st.sampled_from([NamedNode("a:g")]))
TRIPLES = st.builds(Quad, TERMS, st.just(NamedNode("a:p")), OBJECTS)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    words = draw(st.dictionaries(QUADS | TRIPLES, st.booleans(), max_size=6))
    insert = tuple(quad for quad, come in words.items() if come)
    return Batch(insert, tuple(quad for quad, come in words.items() if not come))


def written(batches: list[Batch]) -> str:
    """The text of a file of changes."""
    lines = []
    for batch in batches:
        lines += ["@", *(f"- {statement(quad)}" for quad in batch.delete)]
        lines += [f"+ {statement(quad)}" for quad in batch.insert]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.laws
@given(st.lists(batches(), max_size=4))
def test_what_is_written_is_read(given_batches: list[Batch]) -> None:
    for text, name in (
        (written(given_batches), "x.changes"),
        ("".join(write_patch(given_batches)), "x.rdfp"),
    ):
        lines = text.encode().split(b"\n")
        found = list(parse_changes(lines, name))
        assert [(set(b.insert), set(b.delete)) for b in found] == [
            (set(b.insert), set(b.delete)) for b in given_batches
        ]
