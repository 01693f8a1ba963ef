"""Ingest here, in other processes and on Spark: syntaxes, ids, faults, blank nodes, collisions, layout."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyoxigraph import (
    BlankNode,
    CanonicalizationAlgorithm,
    Dataset,
    DefaultGraph,
    NamedNode,
    Quad,
    RdfFormat,
    parse,
    serialize,
)
from pyspark.sql import SparkSession

import sparqlive
from sparqlive.bulk.backends.spark.workers import SparkWorkers
from sparqlive.bulk.ingest import documents
from sparqlive.bulk.ingest.documents import Document, find_documents, tasks_of
from sparqlive.bulk.ingest.job import IngestResult, ingest, other_ids
from sparqlive.bulk.ingest.workers import Here, Processes
from sparqlive.rdf.columns import Encoded, Encoder, labels
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF, hash_of, other_id, term_of
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.sparql.columns import TERM_SCHEMA

HERE = Here()

TURTLE = """
@prefix : <http://example.org/> .
:ann a :Person ; :name "Ann"@en, "Änne"@de-AT, "line\\nbreak" ; :age 35 ; :knows _:x, [ :name "Ben" ] .
_:x :name "X" ; :likes ( 1 2.5 true ) ; :see <#here> .
"""
TRIG = TURTLE + ":g { :ann :in :g . _:x :in :g } _:graph { :a :b :c }"
RDF_XML = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://example.org/">
  <rdf:Description rdf:about="http://example.org/ann" e:name="Ann"><e:knows rdf:nodeID="x"/></rdf:Description>
  <rdf:Description rdf:nodeID="x"><e:name xml:lang="en">X</e:name></rdf:Description>
</rdf:RDF>"""
JSON_LD = """{"@context": {"e": "http://example.org/"}, "@id": "e:ann",
 "e:name": {"@value": "Ann", "@language": "en"}, "e:knows": {"e:name": "Ben"}, "e:age": 35}"""


def _as_lines(syntax: RdfFormat) -> str:
    text = TRIG if syntax == RdfFormat.N_QUADS else TURTLE
    quads = parse(text.encode(), RdfFormat.TRIG, base_iri="http://example.org/doc")
    return serialize(quads, format=syntax).decode()  # type: ignore[union-attr]


DOCUMENTS = {
    "nt": _as_lines(RdfFormat.N_TRIPLES),
    "nq": _as_lines(RdfFormat.N_QUADS),
    "ttl": TURTLE,
    "trig": TRIG,
    "rdf": RDF_XML,
    "jsonld": JSON_LD,
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def _table(ingested: IngestResult, files: Iterable[str]) -> pa.Table:
    return pa.concat_tables([pq.read_table(f"{ingested.target}/{file}") for file in files])


def _terms(ingested: IngestResult) -> dict[int, str]:
    table = _table(ingested, (file.path for file in ingested.term_files))
    rows = list(zip(table["id"].to_pylist(), table["term"].to_pylist(), strict=True))
    assert len(dict(rows)) == len(rows) == ingested.terms
    return dict(rows)


def _quads(ingested: IngestResult) -> set[Quad]:
    texts = _terms(ingested)
    table = _table(ingested, (file.path for file in ingested.quad_files))
    rows = list(zip(*(table[name].to_pylist() for name in "spog"), strict=True))
    assert len(set(rows)) == len(rows) == ingested.quads
    used = {number for row in rows for number in row} - {DEFAULT_GRAPH}
    assert used == set(texts), "the dictionary holds the terms of the quads, and no others"
    return {
        Quad(term_of(texts[s]), term_of(texts[p]), term_of(texts[o]), _graph(texts, g))  # type: ignore[arg-type]
        for s, p, o, g in rows
    }


def _graph(texts: dict[int, str], number: int) -> NamedNode | BlankNode | DefaultGraph:
    return DefaultGraph() if number == DEFAULT_GRAPH else term_of(texts[number])  # type: ignore[return-value]


def _canonical(quads: Iterable[Quad]) -> set[Quad]:
    """Equal for sets that differ in the labels of blank nodes only."""
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return set(dataset)


def _line(number: int, object_: str | None = None) -> str:
    return f"<http://e/s{number}> <http://e/p{number % 3}> {object_ or f'<http://e/o{number}>'} .\n"


# Syntaxes


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_syntax_is_read_as_the_parser_reads_it(tmp_path: Path, compression: str) -> None:
    expected: list[Quad] = []
    for syntax, text in DOCUMENTS.items():
        file = tmp_path / f"{syntax}-document.{syntax}{compression}"
        file.write_bytes(COMPRESSIONS[compression](text.encode()))
        known = RdfFormat.from_extension(syntax)
        assert known is not None
        expected += parse(text.encode(), known, base_iri=file.as_uri(), rename_blank_nodes=True)
    ingested = ingest(HERE, tmp_path, None, tmp_path / "out")
    assert _canonical(_quads(ingested)) == _canonical(expected)
    assert ingested.rejected == 0
    assert ingested.rejects_path is None
    assert set(ingested.seconds) == {"find", "parse", "merge", "total"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"quads", "terms"}


def test_quads_of_the_unnamed_graph_go_into_the_given_one(tmp_path: Path) -> None:
    (tmp_path / "a.nq").write_text(_line(1) + "<a:s> <a:p> <a:o> <a:g> .\n")
    (tmp_path / "b.ttl").write_text("<a:x> <a:y> 1 .")
    quads = _quads(ingest(HERE, tmp_path, "http://e/graph", tmp_path / "out"))
    assert {str(quad.graph_name) for quad in quads} == {"<http://e/graph>", "<a:g>"}
    only = _quads(ingest(HERE, tmp_path / "b.ttl", None, tmp_path / "unnamed"))
    assert [quad.graph_name for quad in only] == [DefaultGraph()]


def test_a_name_that_is_no_iri_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(_line(1))
    with pytest.raises(sparqlive.Error, match="is not a valid graph name"):
        ingest(HERE, tmp_path / "a.nt", "no iri", tmp_path / "out")


# Terms


def test_terms_are_canonical_whichever_way_they_are_written(tmp_path: Path) -> None:
    same = ['"é\\ta"@en-us', '"\\u00E9\\u0009a"@EN-us', '"é\ta"@en-US']
    plain = ['"x"', '"x"^^<http://www.w3.org/2001/XMLSchema#string>', '"\\u0078"']
    objects = [*same, *plain, "<http://e/é>", "<http://e/\\u00e9>", '"01"^^<http://e/number>']
    text = "".join(_line(number, object_) for number, object_ in enumerate(objects))
    text += "<http://e/t>\t<http://e/p1>\t<http://e/o1> .   # a comment\n\n  # another\r\n" + _line(4)
    (tmp_path / "a.nt").write_text(text, newline="")
    ingested = ingest(HERE, tmp_path / "a.nt", None, tmp_path / "out")
    texts = _terms(ingested)
    assert all(number == hash_of(text) for number, text in texts.items())
    found = {text for text in texts.values() if not text.startswith("<http://e/s")}
    assert found >= {'"é\\ta"@en-us', '"x"', "<http://e/é>", '"01"^^<http://e/number>'}
    assert _quads(ingested) == set(parse(text.encode(), RdfFormat.N_TRIPLES))


def _ids(encoded: Encoded) -> tuple[set[tuple[int, ...]], dict[int, str]]:
    rows = {tuple(int(number) for number in row) for row in zip(*encoded.quads, strict=True)}
    return rows, dict(zip(encoded.ids.tolist(), encoded.texts.to_pylist(), strict=True))


_ODD = r"""
<http://e/a> <http://e/%41> <http://e/%zz> <urn:a:b> <a:> <rel> <http://e:80/x?y#z> <http://e/#a#b> <a:b"c>
<http://é.e/ü> <http://e/\u00e9> <mailto:a@b> <http://a@b/> <http:///x> <a://b:c/> <> <a:[x]> <a:b{c}> <a://>
_:a _:a. _:a.b _:é _:-a _:1 _: "a" "a\"b" "a"b" "a\\" "a\" "\u0041" "\x" "é" "𝄞" "_:a" "a" a true 1 . # <<( <<
"a"@en "a"@EN "a"@en-gb "a"@en-x-y "a"@e "a"@en-us-us "a"@ "a"@en--ltr "a"^^<http://e/t> "a"^^<rel> "a"^^_:a
"a"^^"b" "a"^^<http://www.w3.org/2001/XMLSchema#string> <http://e/a>" "a
"a"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>
"""
_TERMS = [
    *_ODD.split(),
    *('"a b"', '"a <http://e/a>"', '"a _:b"', '"\x7f"', '"\t"', '"\ufffe"', '"\x0b"', '"a . b"', "<a: b>"),
]


def test_columns_and_parser_agree_on_any_line() -> None:
    """Lines put together from good, odd and bad terms: the same quads, ids, and faults as line by line."""
    chance = random.Random(5)
    good = ["<http://e/a>", "_:a", '"a b"@en', "<urn:a:b>"]
    joints = [" "] * 12 + ["  ", "\t", ""]
    lines = []
    for _ in range(4000):
        count = chance.choice([3, 3, 3, 4, 4, 2, 5])
        terms = [chance.choice(good if chance.random() < 0.6 else _TERMS) for _ in range(count)]
        lines.append(chance.choice(joints).join([*terms, chance.choice([".", ".", ".", ".", ".#c", ""])]))
    for syntax in (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS):
        whole = Encoder().lines("".join(f"{line}\n" for line in lines).encode(), syntax, "d")
        quads: set[Quad] = set()
        faults = []
        for number, line in enumerate(lines, 1):
            try:
                found = list(parse(line.encode(), syntax))
            except SyntaxError:
                faults.append(number)
                continue
            quads.update(found)
        assert [fault.line for fault in whole.faults] == faults
        assert all(fault.text == lines[fault.line - 1] and fault.reason for fault in whole.faults)
        assert whole.lines == len(lines)
        assert _ids(whole) == _ids(Encoder().quads(quads, labels("d")))
        assert all(
            number == hash_of(text) for number, text in zip(whole.ids, whole.texts.to_pylist(), strict=True)
        )


def test_bytes_that_are_no_text_are_a_fault() -> None:
    block = _line(1).encode() + b'<a:s> <a:p> "\xff" .\n' + _line(2).encode()
    encoded = Encoder().lines(block, RdfFormat.N_TRIPLES, "d")
    assert [fault.line for fault in encoded.faults] == [2]
    assert len(encoded.quads[0]) == 2


# Faults


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of some kilobytes are cut into many pieces and blocks, and files are small."""
    monkeypatch.setattr(documents, "_SMALLEST_PIECE_BYTES", 4000)
    monkeypatch.setattr(documents, "PIECE_BYTES", 4000)
    monkeypatch.setattr(documents, "_BLOCK_BYTES", 300)
    monkeypatch.setattr(documents, "_LINE_BYTES", 16)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("ending", ["nt", "nq.gz"])
def test_a_malformed_line_is_named_and_nothing_is_left(tmp_path: Path, ending: str) -> None:
    lines = [_line(number) for number in range(1000)]
    lines[613], lines[850] = "<a:s> <a:p> nonsense .\n", "worse\n"
    data = "".join(lines).encode()
    file = tmp_path / f"a.{ending}"
    file.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    with pytest.raises(
        sparqlive.SyntaxError, match=rf"a\.{ending}, line 614: The object of a triple must be"
    ):
        ingest(HERE, file, None, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "there").mkdir()
    with pytest.raises(sparqlive.SyntaxError):
        ingest(HERE, file, None, tmp_path / "there")
    assert not list((tmp_path / "there").iterdir())


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("ending", ["nt", "nq.gz"])
def test_malformed_lines_are_kept_as_rejects(tmp_path: Path, ending: str) -> None:
    lines = [_line(number) for number in range(1000)]
    bad = {0: "first", 613: "<a:s> <a:p> nonsense .", 999: "<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> ."}
    for number, text in bad.items():
        lines[number] = text + "\n"
    data = "".join(lines).encode()
    file = tmp_path / f"a.{ending}"
    file.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    ingested = ingest(HERE, file, None, tmp_path / "out", on_error="skip")
    assert (ingested.quads, ingested.rejected) == (997, 3)
    assert ingested.rejects_path is not None
    rejects = [json.loads(line) for line in Path(ingested.rejects_path).read_text().splitlines()]
    assert {reject["line"]: reject["text"] for reject in rejects} == {n + 1: text for n, text in bad.items()}
    assert {reject["file"] for reject in rejects} == {str(file)}
    assert all(reject["reason"] for reject in rejects)


def test_a_malformed_document_is_named_or_left_out_whole(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(_line(1))
    (tmp_path / "b.ttl").write_text("<a:s> <a:p> 1 .\n<a:s> <a:p> 2 ;; 3 .\n")
    with pytest.raises(sparqlive.SyntaxError, match=r"b\.ttl, line 2: "):
        ingest(HERE, tmp_path, None, tmp_path / "out")
    ingested = ingest(HERE, tmp_path, None, tmp_path / "out", on_error="skip")
    assert (ingested.quads, ingested.rejected) == (1, 1)


def test_triple_terms_and_broken_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(_line(1) + "<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> .\n")
    with pytest.raises(sparqlive.InvalidChange, match=r"a\.nt, line 2: .*triple terms"):
        ingest(HERE, tmp_path / "a.nt", None, tmp_path / "out")
    deep = "<a:s> <a:p> " + "<<( <a:s> <a:p> " * 100_000  # it would end a worker
    for name, text, said in (
        ("deep.nt", deep, "line 2: .*triple terms"),
        ("deep.ttl", deep, "triple terms"),
        ("deep.jsonld", '{"a:p":' * 10_000, "nested more than 1,000 levels"),
    ):
        (tmp_path / name).write_text((_line(1) if name != "deep.jsonld" else "") + text)
        with pytest.raises(sparqlive.InvalidChange, match=said):
            ingest(HERE, tmp_path / name, None, tmp_path / "out")
    (tmp_path / "b.nt.gz").write_bytes(gzip.compress(_line(1).encode() * 100)[:-10])
    for choice in ("fail", "skip"):
        with pytest.raises(sparqlive.Error, match=r"b\.nt\.gz: cannot be read"):
            ingest(HERE, tmp_path / "b.nt.gz", None, tmp_path / "out", on_error=choice)
    assert not (tmp_path / "out").exists()


# Documents


def test_files_folders_and_globs(tmp_path: Path) -> None:
    for number, name in enumerate(["a.nt", "b.nt", "sub/c.nt", "sub/d.ttl", "notes.md"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(_line(number))

    def loaded(number: int, *paths: object) -> list[int]:
        ingested = ingest(HERE, [str(path) for path in paths], None, tmp_path / f"out{number}")
        return sorted(int(quad.subject.value.removeprefix("http://e/s")) for quad in _quads(ingested))  # type: ignore[union-attr]

    assert loaded(1, tmp_path) == [0, 1]
    assert loaded(2, tmp_path / "*.nt", tmp_path / "a.nt", tmp_path / "sub" / "d.ttl") == [0, 1, 3]
    assert loaded(3, tmp_path / "**" / "*.nt") == [0, 1, 2]
    assert loaded(4, (tmp_path / "sub").as_uri()) == [2, 3]
    with pytest.raises(sparqlive.Error, match="There is nothing to load at"):
        loaded(5, tmp_path / "*.nothing")
    with pytest.raises(sparqlive.Error, match="does not show the RDF syntax"):
        loaded(6, tmp_path / "notes.md")
    with pytest.raises(sparqlive.Error, match="is not an empty folder"):
        ingest(HERE, tmp_path / "a.nt", None, tmp_path / "sub")


def test_an_empty_document_is_no_quads(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("")
    (tmp_path / "b.nq").write_text("# nothing\n\n")
    (tmp_path / "c.nt").write_text("\n")
    ingested = ingest(HERE, tmp_path, "http://e/g", tmp_path / "out")
    assert (ingested.quads, ingested.terms, ingested.quad_files, ingested.term_files) == (0, 0, (), ())


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("end", ["\n", ""])
def test_every_line_is_in_exactly_one_piece(tmp_path: Path, end: str) -> None:
    chance = random.Random(1)
    lines = ["x" * chance.choice([0, 5, 40, 299, 300, 301, 999, 2500]) + str(number) for number in range(300)]
    file = tmp_path / "a.nt"
    file.write_text("\n".join(lines) + end)
    pieces = [piece for task in tasks_of(find_documents([file]), 4) for piece in task]
    assert len(pieces) > 20
    blocks = [block for piece in pieces for block in piece.blocks()]
    assert all(block.endswith(b"\n") for block in blocks)
    assert b"".join(blocks).decode().splitlines() == lines


@pytest.mark.usefixtures("small_pieces")
def test_blank_nodes_are_those_of_their_document(tmp_path: Path) -> None:
    nodes = "".join(f'_:n{number} <http://e/name> "{number}" .\n' for number in range(7))
    # Some lines by columns, some by the parser; each node in many pieces.
    links = [f"_:n{number % 7} <http://e/p{number}> _:m{number % 5} .\n" for number in range(200)]
    text = nodes + "".join(links) + "".join(link.replace(" ", "\t") for link in links[:100])
    for name in ("a.nt", "b.nt"):
        (tmp_path / name).write_text(text)
    assert len(tasks_of(find_documents([tmp_path]), 2)) > 2
    quads = _quads(ingest(HERE, tmp_path, None, tmp_path / "out"))
    one = list(parse(text.encode(), RdfFormat.N_TRIPLES))
    other = list(parse(text.encode(), RdfFormat.N_TRIPLES, rename_blank_nodes=True))
    assert _canonical(quads) == _canonical([*one, *other])
    again = _quads(ingest(HERE, tmp_path / "a.nt", None, tmp_path / "again"))
    assert again < quads, "the same document gives the same nodes"


# Ids


def _few(bits: int) -> Callable[[str], int]:
    return lambda text: hash_of(text) & ((1 << bits) - 1)


def test_other_ids_are_looked_up_for_all_terms_at_once() -> None:
    asked: list[int] = []

    def taken(numbers: Sequence[int]) -> set[int]:
        asked.append(len(numbers))
        return {numbers[1]} if len(asked) == 1 else set()

    texts = [f'"{number:04d}"' for number in range(4_000)]
    given = other_ids({7: texts}, {}, taken)
    assert asked == [3_999, 1]
    assert given.keys() == set(texts[1:])
    assert given[texts[2]] == other_id(texts[2], 2)
    assert all(given[text] == other_id(text, 1) for text in texts[3:])


@pytest.mark.parametrize("bits", [3, 8])
def test_terms_that_share_an_id_are_told_apart(tmp_path: Path, bits: int) -> None:
    text = "".join(_line(number) for number in range(40)) + '_:x <a:p> "x"@EN .\n'
    (tmp_path / "a.nt").write_text(text)
    ingested = ingest(HERE, tmp_path / "a.nt", "http://e/g", tmp_path / "out", hash_function=_few(bits))
    assert len(ingested.exceptions) > 0
    texts = _terms(ingested)
    assert not {UNDEF, DEFAULT_GRAPH} & set(texts)
    by_text = {text: number for number, text in texts.items()}
    for term, number in by_text.items():
        assert number == ingested.exceptions.get(term, _few(bits)(term))
    for term in ingested.exceptions:
        first = texts.get(_few(bits)(term))
        assert first is None or first < term, "the later by text gives way"
    graph = NamedNode("http://e/g")
    plain = [Quad(q.subject, q.predicate, q.object, graph) for q in parse(text.encode(), RdfFormat.N_TRIPLES)]
    assert _canonical(_quads(ingested)) == _canonical(plain)
    kept = ingest(
        HERE,
        tmp_path / "a.nt",
        "http://e/g",
        tmp_path / "again",
        hash_function=_few(bits),
        exceptions=ingested.exceptions,
    )
    assert _terms(kept) == texts
    assert not kept.exceptions, "only new ones are told"


# Files


def test_files_are_sorted_split_and_described(tmp_path: Path) -> None:
    chance = random.Random(2)
    quads = {
        Quad(
            NamedNode(f"http://e/s{chance.randrange(700)}"),
            NamedNode(f"http://e/p{min(int(chance.expovariate(0.5)), 12)}"),
            NamedNode(f"http://e/o{chance.randrange(20)}"),
            NamedNode(f"http://e/g{min(int(chance.expovariate(1)), 5)}"),
        )
        for _ in range(6000)
    }
    lines = [f"{quad} .\n" for quad in quads]
    (tmp_path / "a.nq").write_text("".join(lines + lines[:1000]))
    (tmp_path / "b.nq").write_text("".join(lines[3000:4000]))
    tuning = replace(DEFAULT, file_rows=300)
    ingested = ingest(HERE, tmp_path, None, tmp_path / "out", tuning=tuning)
    assert _quads(ingested) == quads
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    places: dict[tuple[int, int], set[str]] = {}
    for file in sorted(ingested.quad_files, key=lambda file: file.bucket):
        table = pq.read_table(f"{ingested.target}/{file.path}")
        assert table.column_names == list("spog")
        s, p, o, g = (table[name].to_numpy() for name in "spog")
        order = np.lexsort((o, s, g, p))
        assert (order == np.arange(len(s))).all()
        assert file.rows == len(s)
        assert file.predicate == (p[0] if (p == p[0]).all() else None)
        assert file.graph == (g[0] if (g == g[0]).all() else None)
        if file.bucket_bits:
            assert {(int(n) + 2**63) >> (64 - file.bucket_bits) for n in s} == {file.bucket}
        for row in zip(s.tolist(), p.tolist(), o.tolist(), g.tolist(), strict=True):
            groups.setdefault((row[1], row[3]), []).append((row[0], row[2]))
            places.setdefault((row[1], row[3]), set()).add(file.path)
    for group, rows in groups.items():
        assert rows == sorted(set(rows)), "the files of a predicate and graph are one sorted array"
        assert len(rows) >= 40 or len(places[group]) == 1
    assert any(file.bucket_bits for file in ingested.quad_files)
    assert any(file.predicate is None for file in ingested.quad_files)
    assert len(ingested.term_files) > 2
    ends = [(file.min_id, file.max_id) for file in ingested.term_files]
    assert [number for pair in ends for number in pair] == sorted(number for pair in ends for number in pair)
    for term_file in ingested.term_files:
        ids = pq.read_table(f"{ingested.target}/{term_file.path}")["id"].to_pylist()
        assert ids == sorted(set(ids))
        assert (ids[0], ids[-1], len(ids)) == (term_file.min_id, term_file.max_id, term_file.rows)


@pytest.mark.spark
def test_spark_reads_and_writes_the_files(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "a.nt").write_text("".join(_line(number) for number in range(50)))
    ingested = ingest(SparkWorkers(spark), tmp_path / "a.nt", None, tmp_path / "out")
    quads = spark.read.parquet(f"{ingested.target}/quads")
    terms = spark.read.parquet(f"{ingested.target}/terms")
    assert quads.dtypes == [(name, "bigint") for name in "spog"]
    assert terms.dtypes[:2] == [("id", "bigint"), ("term", "string")]
    assert terms.columns == TERM_SCHEMA.names
    assert terms.where("id != xxhash64(term)").count() == 0
    assert quads.join(terms, quads.s == terms.id).count() == 50


def test_a_document_says_what_it_is() -> None:
    document = Document("/data/a.nq.gz", 10, "nq", "gzip", "1")
    assert document.base == "file:///data/a.nq.gz"
    assert document.has_lines


@pytest.mark.parametrize("workers", [Here(), Processes(2)])
def test_other_processes_write_the_same_files(tmp_path: Path, workers: Here | Processes) -> None:
    for ending, text in DOCUMENTS.items():
        (tmp_path / f"a.{ending}").write_text(text)
    ingested = ingest(workers, tmp_path, None, tmp_path / "out")
    expected = ingest(HERE, tmp_path, None, tmp_path / "expected")
    assert _quads(ingested) == _quads(expected)
    assert ingested.terms == expected.terms


def test_a_fault_in_another_process_is_told_here(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.nt").write_text(_line(number))
    (tmp_path / "3.nt").write_text("<a> nonsense .\n")
    with pytest.raises(sparqlive.SyntaxError, match=r"3\.nt"):
        ingest(Processes(2), tmp_path, None, tmp_path / "out")


def test_a_process_that_ends_is_an_error() -> None:
    with pytest.raises(OSError, match="exit status 7"):
        Processes(2).each([7, 7], os._exit, "end")


def test_an_error_in_another_process_is_raised_here() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Processes(2).each(["1", "x"], int, "read")


def test_ctrl_c_ends_the_processes_without_a_word_from_them() -> None:
    program = (
        "import os, signal, threading, time\n"
        "from sparqlive.bulk.ingest.workers import Processes\n"
        "threading.Timer(1, os.killpg, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    Processes(2).each([600, 600], time.sleep, 'wait')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, start_new_session=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
