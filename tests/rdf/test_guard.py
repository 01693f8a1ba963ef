"""What is nested too deep is refused, in every syntax and every way in; a crash would end the tests."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat

import sparqlive
from sparqlive.bulk.ingest import documents
from sparqlive.rdf.change_columns import read_batches
from sparqlive.rdf.guard import check_json, parse_guarded

RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'


def xml(depth: int) -> str:
    inside = "<a:s><a:p>" * depth + "</a:p></a:s>" * depth
    return f'<rdf:RDF {RDF} xmlns:a="http://a/">{inside}</rdf:RDF>'


def jsonld(depth: int) -> str:
    return '{"http://a/p":' * depth + '"x"' + "}" * depth


def terms(depth: int) -> str:
    return "<a:s> <a:p> " + "<<( <a:s> <a:p> " * depth + "<a:o> " + ")>> " * depth + ".\n"


DEEP = [
    ("deep.rdf", xml(10_000), "nested more than 1,000 levels"),
    ("deep.jsonld", jsonld(10_000), "nested more than 1,000 levels"),
    ("deep.jsonld", "[" * 100_000, "nested more than 1,000 levels"),
    ("deep.nt", terms(100_000), "triple terms"),
    ("deep.nq", terms(100_000), "triple terms"),
    ("deep.ttl", terms(100_000), "triple terms"),
    ("deep.trig", terms(100_000), "triple terms"),
    ("long.ttl", '<a:s> <a:p> "' + "a" * (17 << 20), "a term of more than 16 MiB"),
]


@pytest.mark.parametrize(("name", "text", "said"), DEEP, ids=[f"{name}, {said}" for name, _, said in DEEP])
def test_documents(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    with sparqlive.open() as session:
        for path in (file, packed):
            with pytest.raises(sparqlive.InvalidChange, match=said) as refused:
                session.load(path)
            assert str(path) in str(refused.value)
        with sparqlive.open(tmp_path / "store") as stored:
            with pytest.raises(sparqlive.InvalidChange, match=said) as refused:
                stored.load(file)
            assert not str(refused.value).endswith("..")
        with pytest.raises(sparqlive.Error, match=said):
            session.source("file", str(file)).refresh()
        assert len(session) == 0


def test_a_line_of_a_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is a multiple of it."""
    monkeypatch.setattr(documents, "_LONGEST_LINE_BYTES", 1 << 20)
    file = tmp_path / "zeros.nq"
    file.write_bytes(b"<a:s> <a:p> <a:o> .\n" + bytes(3 << 20))
    with sparqlive.open(tmp_path / "store") as session:
        with pytest.raises(sparqlive.Error, match="a line is longer than 1 MiB") as refused:
            session.load(file)
        assert str(file) in str(refused.value)
        assert len(session) == 0


def test_texts(tmp_path: Path) -> None:
    changes = tmp_path / "deep.changes"
    changes.write_text("@\n+ <a:s> <a:p> <a:o> .\n@\n+ " + terms(100_000))
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.InvalidChange, match="triple terms"):
            session.apply(insert=terms(100_000))
        with pytest.raises(sparqlive.InvalidChange, match=r"line 4: .*triple terms"):
            list(read_batches(changes, {}))
        with pytest.raises(sparqlive.Error, match=r"line 4: .*triple terms"):
            session.source("stream", str(changes)).refresh()
        assert len(session) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fine.rdf", xml(300)),
        ("fine.rdf", f'<!DOCTYPE rdf:RDF [<!ENTITY a "http://a/">]>\n{xml(3)}'),
        ("fine.jsonld", jsonld(300)),
        ("fine.jsonld", json.dumps({"http://a/p": ["[" * 5000, '\\"{' * 5000]})),
        ("fine.ttl", "<a:s> <a:p> " + "[ <a:p> " * 5000 + "1" + "] " * 5000 + "."),
        ("fine.ttl", "<a:s> <a:p> " + "( " * 5000 + ") " * 5000 + "."),
        ("fine.nt", "".join(f'<a:s> <a:p> "<<({number}<<(" .\n' for number in range(20_000))),
    ],
)
def test_what_is_not_too_deep(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with sparqlive.open() as session:
        session.load(file)
        assert len(session) > 0


def test_strings_of_json_that_are_cut_anywhere() -> None:
    """However the bytes come in pieces, brackets inside of strings do not count."""
    text = json.dumps({"http://a/p": ['[[[[\\"[[', "\\", '"', "[[\\\\"], "http://a/q": [["[[["]]}).encode()

    class Pieces(io.BytesIO):
        length = 1

        def read(self, size: int | None = -1) -> bytes:
            return super().read(self.length)

    for length in range(1, 12):
        Pieces.length = length
        quads = list(parse_guarded(Pieces(text), RdfFormat.JSON_LD, "http://b/", deepest=3))
        assert len(quads) == 5
        with pytest.raises(sparqlive.InvalidChange, match="more than 2 levels"):
            list(parse_guarded(Pieces(text), RdfFormat.JSON_LD, "http://b/", deepest=2))
    check_json(text, 3)


def test_xml_that_is_not_well_formed(tmp_path: Path) -> None:
    file = tmp_path / "wrong.rdf"
    file.write_text(xml(3).replace("</a:p>", "", 1))
    with sparqlive.open() as session, pytest.raises(sparqlive.SyntaxError, match=r"wrong\.rdf: "):
        session.load(file)
