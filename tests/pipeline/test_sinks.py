"""Sinks: whole epochs only, what a failure left behind, and what is refused."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from sparqlive.pipeline.sinks import KINDS, catch_up, opened
from sparqlive.pipeline.sinks.rdf_patch import RdfPatchSink
from sparqlive.rdf.change_columns import read_batches

EMPTY: dict[tuple[NamedNode | None, ...], int] = {}


def quad(number: int) -> Quad:
    return Quad(NamedNode(f"a:{number}"), NamedNode("a:p"), Literal(number))


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"kafka"}))  # which tests/connectors/ tests
def test_a_sink_is_brought_up_to_date(kind: str, tmp_path: Path) -> None:
    if kind == "delta-lake":
        pytest.importorskip("deltalake")
    path = tmp_path / "sink"
    query = "CONSTRUCT WHERE { ?s <a:p> ?o }" if kind == "rdf-patch" else "SELECT ?s ?o { ?s <a:p> ?o }"
    with sparqlive.open() as session:
        view = session.view("all", query)
        session.apply(insert=[quad(1)])
        first = KINDS[kind](path, view.variables)
        assert first.last_epoch() is None
        catch_up(first, view, "sink")
        assert first.last_epoch() == 1
        session.apply(insert=[quad(2)])
        session.apply(delete=[quad(1)])
        again = KINDS[kind](path, view.variables)
        catch_up(again, view, "sink")
        assert KINDS[kind](path, view.variables).last_epoch() == 3
    with sparqlive.open() as session:
        view = session.view("all", query)
        with pytest.raises(sparqlive.Error, match=r"written from another store"):
            catch_up(again, view, "sink")


@pytest.mark.parametrize("kind", ["delta-lake", "parquet"])
def test_tables_have_types_order_and_a_row_per_solution(kind: str, tmp_path: Path) -> None:
    """Also when the type of a column changes from one epoch to the next."""
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "sink"

    def rows() -> pa.Table:
        if kind == "delta-lake":
            return deltalake.DeltaTable(str(path)).to_pyarrow_table()
        return pq.read_table(max((path / "snapshots").iterdir()))

    with sparqlive.open() as session:
        view = session.view("all", "SELECT ?o { ?s <a:p> ?o } ORDER BY DESC(?o)")
        for insert in ([quad(n) for n in range(5)], [Quad(NamedNode("a:x"), NamedNode("a:p"), Literal(3))]):
            session.apply(insert=insert)
            sink = opened(kind, path, view.variables)
            catch_up(sink, view, "sink")
            sink.finish(view.epoch, view.now)
            assert rows().schema.field("o").type == pa.int64()
            assert rows().to_pylist() == view.to_arrow().to_pylist()
        session.apply(insert=[Quad(NamedNode("a:x"), NamedNode("a:p"), Literal("text"))])
        catch_up(sink, view, "sink")
        sink.finish(view.epoch, view.now)
        assert rows().to_pylist() == view.to_arrow().to_pylist()
        assert sink.last_epoch() == 3


def test_deltas_in_parquet_have_types(tmp_path: Path) -> None:
    """Those of the file's own values; unbound ones are null; with weights, terms in N-Triples syntax."""
    with sparqlive.open() as session:
        view = session.view("all", "SELECT ?s ?o ?q { ?s <a:p> ?o OPTIONAL { ?s <a:q> ?q } }")
        sinks = [
            opened("parquet", tmp_path / str(weights), view.variables, weights) for weights in (False, True)
        ]
        for number in range(3):
            more = [Quad(quad(7).subject, NamedNode("a:q"), Literal(True))] if number == 1 else []
            session.apply(insert=[quad(number), quad(7), *more], delete=[quad(number - 1)])
            for sink in sinks:
                catch_up(sink, view, "sink")
    typed, texts = (
        pq.read_table(tmp_path / name / "deltas" / f"{2:012d}.parquet") for name in ("False", "True")
    )
    assert typed.schema.types == [pa.string(), pa.int64(), pa.bool_(), pa.int64()]
    assert texts.schema.types == [pa.string(), pa.string(), pa.string(), pa.int64()]
    assert Counter(tuple(row.values()) for row in typed.to_pylist()) == Counter(
        [("a:0", 0, None, -1), ("a:1", 1, None, 1), ("a:7", 7, None, -1), ("a:7", 7, True, 1)]
    )


def test_a_patch_gives_the_graph_of_its_view(tmp_path: Path) -> None:
    """Through deltas, a torn transaction, and a reset."""
    path = tmp_path / "graph.rdfp"

    def replayed() -> set[Quad]:
        found: set[Quad] = set()
        for batch in read_batches(path, {}):
            found = (found - set(batch.delete)) | set(batch.insert)
        return found

    with sparqlive.open() as session:
        view = session.view(
            "all", r'CONSTRUCT { ?s <a:q> [ <a:v> ?o, "a\nTC .\n# epoch 9\n" ] } { ?s <a:p> ?o }'
        )
        for number in range(4):
            session.apply(insert=[quad(number), quad(number + 10)], delete=[quad(number - 1)])
            sink = RdfPatchSink(path, view.variables)
            assert sink.last_epoch() == (number or None)
            catch_up(sink, view, "sink")
            assert replayed() == set(view.quads())
            with open(path, "ab") as stream:
                stream.write(b"TX .\n" + b"A <a:x> <a:y> <a:z> .\n" * (1 if number < 3 else 9_000))
        sink = RdfPatchSink(path, view.variables)
        assert (sink.last_epoch(), replayed()) == (4, set(view.quads()))
        sink.write(4, view.weights(), reset=True)
        assert len(list(read_batches(path, {}))) == 1
        assert replayed() == set(view.quads())
    path.write_bytes(b"TX .\nA <a:a> ")
    assert RdfPatchSink(path, ()).last_epoch() is None
    path.write_text("dear diary\n", encoding="utf-8")
    with pytest.raises(sparqlive.Error, match="not an RDF Patch of a view"):
        RdfPatchSink(path, ())


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    KINDS["json-lines"](path, ()).write(4, EMPTY, reset=True)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-1])
    sink = KINDS["json-lines"](path, ())
    assert (sink.last_epoch(), path.read_bytes()) == (4, whole)
    path.write_bytes(b'{"epoch":')
    assert KINDS["json-lines"](path, ()).last_epoch() is None


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "diary.txt"
    for text in ("dear diary\n", "dear diary"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(sparqlive.Error, match=r"txt already exists, and its last line is not a delta"):
            KINDS["json-lines"](path, ())
        assert path.read_text(encoding="utf-8") == text


def test_a_path_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for kind, path in (("json-lines", tmp_path), ("rdf-patch", tmp_path), ("parquet", tmp_path / "file")):
        with pytest.raises(sparqlive.Error, match=f"{kind}' cannot be written to .*Set another path"):
            opened(kind, path, ("s",))


@pytest.mark.parametrize(("kind", "extra"), [("delta-lake", "spark"), ("kafka", "kafka")])
def test_without_its_package_a_sink_says_what_to_install(
    kind: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(sparqlive.Error, match=rf"pip install 'sparqlive\[{extra}\]'"):
        KINDS[kind](tmp_path, ())
