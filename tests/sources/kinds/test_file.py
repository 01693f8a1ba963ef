"""Files that are watched: what they have is there, whatever their labels and order."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from tests.waiting import wait_until

QUERY = "SELECT ?s ?o WHERE { GRAPH ?g { ?s <a:p> ?o } }"


def test_a_file_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_text("<a:s> <a:p> 1 .")
    with sparqlive.open() as session:
        view = session.view("all", QUERY)
        source = session.source("file", str(file), name="data")
        wait_until(lambda: len(view) == 1)
        assert {quad.graph_name for quad in session.quads()} == {NamedNode("source:data")}
        file.write_text("<a:s> <a:p> 1, 2 .")
        wait_until(lambda: len(view) == 2)
        session.check()
        assert source.status()["quads"] == 2
        source.remove()
        assert (len(view), dict(session.sources)) == (0, {})
        session.check()


def test_other_labels_and_order_are_no_change(tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_text("_:a <a:p> 1 ; <a:q> _:b . _:b <a:p> 2 .")
    with sparqlive.open() as session:
        source = session.source("file", str(file))
        source.refresh()
        before, epoch = set(session.quads()), session.epoch
        file.write_text("[] <a:q> [ <a:p> 2 ] ; <a:p> 1 .")
        source.refresh()
        assert (set(session.quads()), session.epoch) == (before, epoch)


def test_what_fails_deletes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_text("<a:s> <a:p> 1 .")
    with sparqlive.open() as session:
        source = session.source("file", str(file))
        source.refresh()
        file.write_text("<a:s> <a:p> .")
        with pytest.raises(sparqlive.Error, match=r"data\.ttl"):
            source.refresh()
        file.unlink()
        with pytest.raises(sparqlive.Error, match="There is no file"):
            source.refresh()
        assert len(session) == 1
        assert source.status()["stale_since"] is not None
        file.write_text("<a:s> <a:p> 2 .")
        source.refresh()
        assert (len(session), source.status()["error"]) == (1, None)


@pytest.mark.parametrize("name", ["[b].ttl", "b*.ttl", "b?.ttl"])
def test_a_file_that_could_be_a_glob_is_a_file_also_when_it_is_gone(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("<a:s> <a:p> 1 .")
    (tmp_path / "b.ttl").write_text("<a:s> <a:p> 2 .")
    (tmp_path / "bb.ttl").write_text("<a:s> <a:p> 3 .")
    with sparqlive.open(tmp_path / "store") as session:
        session.source("file", str(file), name="data").refresh()
        before = set(session.quads())
        assert len(before) == 1
        file.unlink()
        with pytest.raises(sparqlive.Error, match="There is no file"):
            session.sources["data"].refresh()
        assert set(session.quads()) == before
    with sparqlive.open(tmp_path / "store") as session:
        with pytest.raises(sparqlive.Error, match="There is no file"):
            session.sources["data"].refresh()
        assert set(session.quads()) == before


def test_a_quad_stays_while_anybody_asserts_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first.nq", tmp_path / "second.nq"
    for file in (first, second):
        file.write_text("<a:s> <a:p> <a:o> <a:g> .\n")
    with sparqlive.open() as session:
        view = session.view("all", QUERY)
        sources = [session.source("file", str(file)) for file in (first, second)]
        for source in sources:
            source.refresh()
        session.apply(insert="<a:s> <a:p> <a:o> <a:g> .")
        assert session.apply(delete="<a:s> <a:p> <a:o> <a:g> .").ignored == 1
        sources[0].remove()
        assert len(view) == 1
        sources[1].remove()
        assert (len(view), len(session)) == (0, 0)


def test_a_store_goes_on_with_its_sources(tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_text("<a:s> <a:p> 1 .")
    with sparqlive.open(tmp_path / "s") as session:
        session.source("file", str(file), name="data").refresh()
        session.apply(insert="<a:s> <a:p> <a:local> <source:data> .")
    file.write_text("<a:s> <a:p> 2 .")
    with sparqlive.open(tmp_path / "s") as session:
        source = session.sources["data"]
        source.refresh()
        assert {quad.object for quad in session.quads()} == {NamedNode("a:local"), Literal(2)}
        assert len(session) == 2
        session.compact()
        source.remove()
        assert len(session) == 1
    with sparqlive.open(tmp_path / "s") as session:
        assert (len(session), dict(session.sources)) == (1, {})


def test_sources_given_by_a_view(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.nt").write_text(f"<a:{name}> <a:p> <a:{name}> .\n")
    with sparqlive.open() as session:
        session.view("rooms", "SELECT ?room WHERE { <a:me> <a:in> ?room }")
        view = session.view("all", QUERY)
        session.sources_from("rooms", "room", kind="file")
        session.apply(
            insert=f"<a:me> <a:in> <file://{tmp_path}/a.nt> .\n<a:me> <a:in> <file://{tmp_path}/b.nt> ."
        )
        wait_until(lambda: len(view) == 2)
        session.apply(delete=f"<a:me> <a:in> <file://{tmp_path}/a.nt> .")
        wait_until(lambda: len(view) == 1)
        assert list(session.sources) == [f"file://{tmp_path}/b.nt"]
        session.check()


def test_what_is_no_source_is_refused() -> None:
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.Unsupported, match="Unknown kind of source 'carrier pigeon'"):
            session.source("carrier pigeon", "x")
        session.view("v", "SELECT ?s { ?s ?p ?o }")
        with pytest.raises(sparqlive.Error, match="no variable"):
            session.sources_from("v", "nobody")


def test_a_refresh_says_that_the_session_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_text("<a:s> <a:p> 1 .")
    with sparqlive.open() as session:
        source = session.source("file", str(file))
    with pytest.raises(sparqlive.Error, match="closed"):
        source.refresh()


@pytest.mark.parametrize("way", ["apply", "update", "replace", "load"])
def test_what_is_said_locally_too_stays(tmp_path: Path, way: str) -> None:
    """Also where it is said while a source asserts it: it is there already, and counts from then on."""
    file = tmp_path / "data.nq"
    file.write_text("<a:s> <a:p> <a:o> <a:g> .\n<a:s> <a:p> <a:other> <a:g> .\n")
    quad = Quad(NamedNode("a:s"), NamedNode("a:p"), NamedNode("a:o"), NamedNode("a:g"))
    with sparqlive.open(tmp_path / "s") as session:
        source = session.source("file", str(file))
        source.refresh()
        session.compact()
        match way:
            case "apply":
                session.apply(insert=[quad])
            case "update":
                session.update("INSERT DATA { GRAPH <a:g> { <a:s> <a:p> <a:o> } }")
            case "replace":
                session.replace(NamedNode("a:g"), [quad])
            case "load":
                session.load([quad])
        assert len(session) == 2
        source.remove()
        assert list(session.quads()) == [quad]
    with sparqlive.open(tmp_path / "s") as session:
        assert list(session.quads()) == [quad]
