"""Reading documents: every syntax, plain and compressed, globs and folders, and errors that say where."""

from __future__ import annotations

import bz2
import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyoxigraph as ox
import pytest
import rdflib

import sparqlive
from sparqlive.rdf.read import check_quad, read_objects, read_paths, read_text

EX = "http://example.org/"
A, B, P, G, H = (ox.NamedNode(EX + name) for name in ("a", "b", "p", "g", "h"))
TRIPLES = {
    ox.Quad(A, P, B),
    ox.Quad(A, P, ox.Literal("two\nlines", language="en")),
    ox.Quad(B, P, ox.Literal(1)),
}
QUADS = TRIPLES | {ox.Quad(A, P, A, G), ox.Quad(B, P, ox.Literal("x"), H)}

PLAIN = {"nt": ox.RdfFormat.N_TRIPLES, "ttl": ox.RdfFormat.TURTLE, "rdf": ox.RdfFormat.RDF_XML}
WITH_GRAPHS = {"nq": ox.RdfFormat.N_QUADS, "trig": ox.RdfFormat.TRIG, "jsonld": ox.RdfFormat.JSON_LD}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def read(*paths: Path | str, graph: ox.NamedNode | None = None) -> list[ox.Quad]:
    return list(read_paths(paths, graph))


def document(quads: set[ox.Quad], syntax: ox.RdfFormat) -> bytes:
    written = ox.serialize(sorted(quads, key=str), format=syntax)
    assert written is not None
    return written


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


# Syntaxes


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("ending", [*PLAIN, *WITH_GRAPHS])
def test_every_syntax_plain_and_compressed(tmp_path: Path, ending: str, compression: str) -> None:
    quads = TRIPLES if ending in PLAIN else QUADS
    file = tmp_path / f"data.{ending}{compression}"
    triples = {ox.Triple(*quad.triple) for quad in quads}
    content = (
        ox.serialize(triples, format=PLAIN[ending])
        if ending in PLAIN
        else document(quads, WITH_GRAPHS[ending])
    )
    assert content is not None
    file.write_bytes(COMPRESSIONS[compression](content))
    assert set(read(file)) == quads
    assert len(read(file)) == len(quads)
    with sparqlive.open() as session:
        assert session.load(file).inserted == len(quads)
        assert set(session.quads()) == quads


def test_a_name_that_tells_no_syntax_is_refused(tmp_path: Path) -> None:
    for name in ("data", "data.gz", "data.zip", "data.ttl.zip"):
        with pytest.raises(sparqlive.Error, match=r"does not show the RDF syntax.*\.nt \.nq \.ttl") as caught:
            read(write(tmp_path, name, ""))
        assert name in str(caught.value)


def test_an_empty_document_holds_nothing(tmp_path: Path) -> None:
    assert read(write(tmp_path, "empty.ttl", "")) == []
    assert read(write(tmp_path, "comment.nt", "# nothing\n")) == []


# Several files


def line(name: str) -> str:
    return f"<{EX}{name}> <{EX}p> <{EX}o> .\n"


def subjects(quads: list[ox.Quad]) -> list[str]:
    return [quad.subject.value.removeprefix(EX) for quad in quads]


def test_globs_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b", "a", "sub/c"):
        write(tmp_path, f"{name}.nt", line(name[-1]))
    write(tmp_path, "notes.md", "no RDF")
    assert subjects(read(f"{tmp_path}/*.nt")) == ["a", "b"]
    assert subjects(read(f"{tmp_path}/[b-z].nt")) == ["b"]
    assert sorted(subjects(read(f"{tmp_path}/**/*.nt"))) == ["a", "b", "c"]
    assert subjects(read(tmp_path / "b.nt", f"{tmp_path}/sub/*", tmp_path / "a.nt")) == ["b", "c", "a"]


def test_a_name_with_signs_of_a_glob_is_a_name_first(tmp_path: Path) -> None:
    write(tmp_path, "[a].nt", line("brackets"))
    write(tmp_path, "a.nt", line("letter"))
    assert subjects(read(tmp_path / "[a].nt")) == ["brackets"]


def test_a_folder_is_its_rdf_files(tmp_path: Path) -> None:
    write(tmp_path, "b.nt", line("b"))
    write(tmp_path, "a.ttl", line("a"))
    (tmp_path / "c.nt.gz").write_bytes(gzip.compress(line("c").encode()))
    write(tmp_path, "README.md", "no RDF")
    (tmp_path / "sub.nt").mkdir()
    write(tmp_path / "sub.nt", "d.nt", line("d"))
    assert subjects(read(tmp_path)) == ["a", "b", "c"]


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.nt", f"{tmp_path}/*.nt"):
        with pytest.raises(sparqlive.Error, match="nothing to load") as caught:
            read(path)
        assert str(path) in str(caught.value)


# Graphs, blank nodes, base


@pytest.mark.parametrize("ending", WITH_GRAPHS)
def test_quads_without_a_graph_go_into_the_given_one(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"data.{ending}"
    file.write_bytes(document(QUADS, WITH_GRAPHS[ending]))
    moved = {ox.Quad(s, p, o, H if isinstance(g, ox.DefaultGraph) else g) for s, p, o, g in QUADS}
    assert set(read(file, graph=H)) == moved


def test_blank_nodes_are_their_documents_own(tmp_path: Path) -> None:
    text = f"_:x <{EX}p> _:y .\n_:y <{EX}p> _:x .\n"
    files = [write(tmp_path, name, text) for name in ("one.nt", "two.ttl")]
    one, two = (read(file) for file in files)
    assert one[0].subject == one[1].object
    assert one[0].object == one[1].subject
    nodes = [{term for quad in quads for term in (quad.subject, quad.object)} for quads in (one, two)]
    assert [len(found) for found in nodes] == [2, 2]
    assert not nodes[0] & nodes[1]
    assert ox.BlankNode("x") not in nodes[0] | nodes[1]
    again = {term for quad in read(files[0]) for term in (quad.subject, quad.object)}
    assert not again & nodes[0], "a document read again is another document"
    with sparqlive.open() as session:
        session.load(files)
        assert len(session) == 4


def test_blank_nodes_of_text_and_objects_keep_their_label() -> None:
    quad = ox.Quad(ox.BlankNode("x"), P, ox.BlankNode("y"))
    assert list(read_text(f"_:x <{EX}p> _:y .")) == [quad]
    assert list(read_objects([quad])) == [quad]
    with sparqlive.open() as session:
        session.apply(insert=f"_:x <{EX}p> _:y .")
        assert session.apply(delete=[quad]).deleted == 1


def test_relative_references_are_resolved_against_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "a name.ttl", f"<> <{EX}p> <#part>, <other> .")
    base = file.resolve().as_uri()
    found = {(quad.subject.value, quad.object.value) for quad in read(file)}
    assert base.endswith("/a%20name.ttl")
    assert found == {(base, base + "#part"), (base, base.rsplit("/", 1)[0] + "/other")}


def test_a_base_of_the_document_wins(tmp_path: Path) -> None:
    file = write(tmp_path, "data.ttl", f"@base <{EX}> . <a> <p> <b> .")
    assert read(file) == [ox.Quad(A, P, B)]


# Errors

MALFORMED = {
    "data.nt": f"{line('a')}{line('b')}<{EX}c> <{EX}p> .\n",
    "data.nq": f"{line('a')}{line('b')}<{EX}c> <{EX}p> <{EX}o> <{EX}g> <{EX}g> .\n",
    "data.ttl": f"@prefix : <{EX}> .\n:a :p :b .\n:a :p other:b .\n",
    "data.trig": f"@prefix : <{EX}> .\n:g {{ :a :p :b }}\n:g {{ :a :p }}\n",
    "data.jsonld": '{\n "@id": "http://example.org/a",\n "http://example.org/p": [ }\n}',
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", MALFORMED)
def test_a_syntax_error_says_file_and_line(tmp_path: Path, name: str, compression: str) -> None:
    file = tmp_path / (name + compression)
    file.write_bytes(COMPRESSIONS[compression](MALFORMED[name].encode()))
    with pytest.raises(sparqlive.SyntaxError, match="line 3") as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_a_syntax_error_in_xml_says_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "data.rdf", "<rdf:RDF>\n<rdf:Description>\n</rdf:RDF>")
    with pytest.raises(sparqlive.SyntaxError) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_a_document_with_an_error_is_not_loaded_in_part(tmp_path: Path) -> None:
    good = write(tmp_path, "a.nt", line("a"))
    bad = write(tmp_path, "b.nt", MALFORMED["data.nt"])
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.SyntaxError, match="line 3"):
            session.load([good, bad])
        assert len(session) == 0
        assert session.epoch == 0


def test_invalid_utf_8_is_a_syntax_error(tmp_path: Path) -> None:
    file = tmp_path / "data.nt"
    file.write_bytes(f'{line("a")}<{EX}a> <{EX}p> "caf'.encode() + b'\xe9" .\n')
    with pytest.raises(sparqlive.SyntaxError, match=r"line 2.*UTF-8"):
        read(file)


MANY_LINES = "".join(line(f"s{number * 7919 % 1000}") for number in range(2000)).encode()


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
def test_a_compressed_file_that_is_cut_off(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"data.nt.{ending}"
    file.write_bytes(COMPRESSIONS["." + ending](MANY_LINES)[:-9])
    with pytest.raises(sparqlive.Error) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_compressed_as_it_says(tmp_path: Path) -> None:
    for ending in ("gz", "bz2", "zst"):
        file = write(tmp_path, f"data.nt.{ending}", line("a"))
        said = rf"is not compressed with \w+\. Remove \.{ending} from its name"
        with pytest.raises(sparqlive.Error, match=said) as caught:
            read(file)
        assert str(file) in str(caught.value)


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
def test_a_compressed_file_whose_name_does_not_say_so(tmp_path: Path, ending: str) -> None:
    for name in ("data.nt", "data.ttl"):
        file = tmp_path / name
        file.write_bytes(COMPRESSIONS["." + ending](MANY_LINES))
        with pytest.raises(sparqlive.Error, match=rf"is compressed with \w+\. Rename it to {name}\.{ending}"):
            read(file)
        with sparqlive.open() as session, pytest.raises(sparqlive.Error, match="is compressed with"):
            session.load(file.as_uri())


@pytest.mark.parametrize("start", ["@prefix : <urn:> .", "# shop\n\nPREFIX : <urn:>", "\ufeff@base <urn:> ."])
def test_turtle_under_the_name_of_n_triples(tmp_path: Path, start: str) -> None:
    for name in ("data.nt", "data.nq"):
        file = write(tmp_path, name, f"{start}\n:a :p 1 .\n")
        with pytest.raises(sparqlive.Error, match=r"has prefixes.*Rename it to \.ttl"):
            read(file)
        with sparqlive.open() as session, pytest.raises(sparqlive.Error, match="has prefixes"):
            session.load(file.as_uri())


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "data.nt"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[line("a")])
    writer.start()
    assert subjects(read(pipe)) == ["a"]
    writer.join()


def test_a_table_is_not_rdf(tmp_path: Path) -> None:
    for name in ("data.csv", "data.csv.gz", "data.parquet"):
        with pytest.raises(sparqlive.Error, match=r"is a table.*TableMapping"):
            read(write(tmp_path, name, "id,name\n"))


def test_a_folder_without_rdf_files_says_so(tmp_path: Path) -> None:
    with pytest.raises(sparqlive.Error, match=r"nothing to load in the folder .* no file ends in"):
        read(tmp_path)


def test_an_address_on_the_web_is_not_a_file() -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match=r"address on the Web.*LOAD <http"):
        session.load("http://example.org/data.ttl")


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
def test_a_damaged_compressed_file(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"data.nt.{ending}"
    content = bytearray(COMPRESSIONS["." + ending](MANY_LINES))
    content[10] ^= 0xFF  # gzip: the kind of the first block; bzip2: its checksum
    file.write_bytes(content)
    with pytest.raises(sparqlive.Error) as caught:
        read(file)
    assert str(file) in str(caught.value)


TRIPLE_TERM = f"<{EX}a> <{EX}p> <<( <{EX}a> <{EX}p> <{EX}b> )>> ."


def test_triple_terms_are_refused() -> None:
    quad = ox.Quad(A, P, ox.Triple(A, P, B))
    for attempt in (lambda: list(read_text(TRIPLE_TERM)), lambda: check_quad(quad, None)):
        with pytest.raises(sparqlive.InvalidChange, match="triple term"):
            attempt()


def test_a_triple_term_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "data.ttl", TRIPLE_TERM)
    with pytest.raises(sparqlive.InvalidChange, match=r"data\.ttl"):
        read(file)


# Text and objects


def test_text_is_n_quads() -> None:
    assert set(read_text(document(QUADS, ox.RdfFormat.N_QUADS).decode())) == QUADS
    with pytest.raises(sparqlive.SyntaxError, match="line 2"):
        list(read_text(f"{line('a')}<{EX}a> <{EX}p> other:b .\n"))


def test_triples_and_quads_as_objects() -> None:
    given: list[ox.Triple | ox.Quad] = [ox.Triple(A, P, B), ox.Quad(A, P, A), ox.Quad(B, P, A, G)]
    assert list(read_objects(given)) == [ox.Quad(A, P, B), ox.Quad(A, P, A), ox.Quad(B, P, A, G)]
    assert list(read_objects(given, H)) == [ox.Quad(A, P, B, H), ox.Quad(A, P, A, H), ox.Quad(B, P, A, G)]


@pytest.mark.parametrize("item", [None, "text", 3, (A, P, B), A])
def test_what_is_no_quad_is_refused(item: object) -> None:
    with pytest.raises(sparqlive.InvalidChange, match="is not a quad"):
        list(read_objects([item]))


RDFLIB_NODE = rdflib.URIRef(EX + "a")
RDFLIB_TRIPLE = (RDFLIB_NODE, rdflib.URIRef(EX + "p"), rdflib.Literal("x", lang="en"))


def test_rdflib_graphs() -> None:
    graph = rdflib.Graph()
    graph.add(RDFLIB_TRIPLE)
    expected = ox.Quad(A, P, ox.Literal("x", language="en"))
    assert list(read_objects(graph)) == [expected]
    assert list(read_objects(graph, G)) == [ox.Quad(A, P, expected.object, G)]
    blank = rdflib.Graph()
    blank.add((rdflib.BNode("label"), RDFLIB_TRIPLE[1], RDFLIB_NODE))
    assert list(read_objects(blank)) == [ox.Quad(ox.BlankNode("label"), P, A)]


@pytest.mark.filterwarnings("ignore:Dataset:DeprecationWarning")  # rdflib's own, when it writes a dataset
def test_rdflib_datasets() -> None:
    dataset = rdflib.Dataset()
    dataset.graph(rdflib.URIRef(EX + "g")).add(RDFLIB_TRIPLE)
    dataset.default_graph.add(RDFLIB_TRIPLE)
    value = ox.Literal("x", language="en")
    assert set(read_objects(dataset)) == {ox.Quad(A, P, value, G), ox.Quad(A, P, value)}
